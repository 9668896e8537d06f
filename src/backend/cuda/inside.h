/* Shared declarations of the CUDA backend's host side. */
#ifndef TFT_CUDA_INSIDE_H
#define TFT_CUDA_INSIDE_H

#include "backend/device.h"
#include "base/error.h"
#include "launch.h"

/* The status of CUDA's error code e, and a line "cuda: DOING: REASON"; TFT_OK for cudaSuccess. */
enum tft_status tft_cuda_status(cudaError_t e, const char *doing, struct tft_error *err);

/* Makes GPU `index` the calling thread's current GPU, unless *error is set, and sets *error on
   failure. Returns the previous GPU, and tft_cuda_leave makes that GPU current again, so the
   caller's own use of CUDA is not disturbed. */
int tft_cuda_enter(int index, cudaError_t *error);
void tft_cuda_leave(int before, int index);

/* Allocates memory of the device, which the error line calls `what`. */
enum tft_status tft_cuda_alloc(void **out, size_t bytes, const char *what, struct tft_error *err);

/* ---- weights.c */

/* An array of the model with a copy on the device. */
struct weight {
    const void *host;
    size_t bytes;
    const struct tft_mat *codes; /* the device gets the codes' int8 panels; or NULL */
    void *device;
};

struct device {
    const struct tft_model *m;
    int index; /* among the machine's GPUs */
    uint32_t multiprocessors;
    void *memory;           /* of the device: all copies */
    struct weight *weights; /* [n_weights], sorted by `host` */
    size_t n_weights;
    const struct tft_affine *affine; /* [tft_input.index] static ranges; of the device */
};

/* The device's copy of the array at `host`; NULL for NULL. */
void *tft_cuda_weight(const struct device *d, const void *host);

/* The functions of the same names in struct tft_backend */
enum tft_status tft_cuda_open(void **out, const struct tft_model *m, uint32_t index,
                              struct tft_error *err);
void tft_cuda_close(void *device);

/* ---- limits.c */

/* struct tft_backend's limits() */
void tft_cuda_limits(const void *device, double *read, double *int8, double *fma);

/* ---- session.c */

/* The inputs of a pass of n tokens for the device, in one piece, so one copy is enough. */
struct upload {
    struct tft_cuda_start *start; /* [chunks]; the start of the piece */
    int32_t *tokens;              /* [n] */
    float *cos, *sin;             /* [n, n_rot] */
    uint32_t *order;              /* [n_order] of the plan's quantizations, consecutive */
    uint32_t *owner[2];           /* of the slots of keys, of values, if these are apart; a chunk's
                                     owners begin at tft_cuda_owners_at */
    size_t bytes;                 /* of all */
};

enum { GRAPHS = 32 };

/* The device's part of a session. */
struct device_session {
    struct device *device;
    struct tft_session *session;
    cudaStream_t stream;
    cudaGraphExec_t graph[GRAPHS]; /* of a pass of one token that attends to at most 2^i spans */
    cudaError_t error;             /* the first error; it persists */

    void *memory; /* of the device: the target of the pointers below, except the host's */
    void *pinned; /* of the host, page-locked: `staged`, and the logits */
    struct upload staged, uploaded; /* in `pinned`, and its copy in `memory` */

    float *buf[TFT_N_BUF];                /* [n_batch, stride], as in struct tft_session */
    uint8_t *bytes[TFT_N_BUF];            /* [n_batch, byte stride] */
    struct tft_affine *affine[TFT_N_BUF]; /* [n_batch] where ranges are dynamic */
    float *ranges;                        /* [n_batch, 2] tft_cuda_quantize's workspace */
    void *k, *v;                          /* [layers, G, ...] slots */
    float *scale[2];                      /* the same: of slots of bytes, else NULL */
    float *key_offset;                    /* [layers, G, E] of slots of bytes, or NULL */
    struct tft_cuda_partials partials;
    uint32_t slot_spans, block_spans; /* the cache's capacity */

    struct tft_cuda_quantization (*quantization)[2]; /* [kv.max_chunks] of keys, of values */

    /* if the policy has codes; all [layers, G, ...] */
    unsigned char *records;
    uint16_t (*quads)[TFT_BITS_COUNT];
    uint16_t *channel_order; /* [E] */
    float *clip[2];          /* [groups] of keys, of values */
    void *quantize_rows;     /* tft_cuda_quantize_kv's workspace */

    /* if keys and values are apart */
    uint32_t *block_owner[2]; /* [n_blocks, block] as in struct tft_kv */
    uint32_t n_owned[2];      /* the number of blocks with owners on the device */
    float *scores;            /* [split_tokens H, kv.max_tokens] as in struct tft_cuda_split */
    float *sum;               /* [split_tokens H] */
    uint32_t split_tokens;    /* that attend at once */
};

/* The slots and the blocks of a layer. */
struct tft_cuda_slots tft_cuda_slots_of(const struct device_session *ds, uint32_t layer);
struct tft_cuda_blocks tft_cuda_blocks_of(const struct device_session *ds, uint32_t layer);

/* Lays out `staged` and `uploaded` for a pass of n tokens and a plan with `chunks` chunks and
   n_order slots in quantizations: at most n_batch, kv.max_chunks and kv.n_order. */
void tft_cuda_layout_upload(struct device_session *ds, uint32_t n, uint32_t chunks,
                            uint32_t n_order);

/* The index of chunk i's first owner in upload.owner[side]. */
size_t tft_cuda_owners_at(const struct device_session *ds, uint32_t side, uint32_t i);

/* Queues a copy from the host to the device; the next function waits for all queued work. Both keep
   the first error in ds->error. */
void tft_cuda_upload(struct device_session *ds, void *to, const void *from, size_t bytes);
void tft_cuda_wait(struct device_session *ds);

/* The functions of the same names in struct tft_backend */
enum tft_status tft_cuda_session_open(void **out, void *device, struct tft_session *s,
                                      struct tft_error *err);
void tft_cuda_session_close(void *session);

#endif
