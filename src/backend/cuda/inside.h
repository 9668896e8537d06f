/* What the files of the CUDA backend's host side have of each other. */
#ifndef TFT_CUDA_INSIDE_H
#define TFT_CUDA_INSIDE_H

#include "backend/device.h"
#include "launch.h"

/* The status of a call of CUDA's, with a line that says what it was for; TFT_OK if it went well. */
enum tft_status tft_cuda_status(cudaError_t e, const char *doing, struct tft_error *err);

/* Memory of the device. */
enum tft_status tft_cuda_take(void **out, size_t bytes, const char *what, struct tft_error *err);

/* ---- weights.c */

/* What of a model has been copied: from where to where. */
struct copied {
    const void *from;
    size_t bytes;
    void *to;
};

struct device {
    const struct tft_model *m;
    int which;
    uint32_t multiprocessors;
    void *memory;
    struct copied *copied; /* [n], by `from` */
    size_t n;
    const struct tft_affine *affine; /* [inputs] */
};

/* Where the device has what of the model is at `from`; NULL for NULL. */
void *tft_cuda_there(const struct device *d, const void *from);

/* struct tft_device's */
enum tft_status tft_cuda_open(void **out, const struct tft_model *m, uint32_t which,
                              struct tft_error *err);
void tft_cuda_close(void *device);

/* ---- limits.c */

/* struct tft_device's */
void tft_cuda_limits(const void *device, double *read, double *int8, double *fma);

/* ---- session.c */

/* What goes to the device for a pass of n tokens, in one piece. */
struct up {
    struct tft_cuda_at *at; /* [chunks] */
    int32_t *tokens;        /* [n] */
    float *cos, *sin;       /* [n, n_rot] */
    uint32_t *order;        /* [evictions, slots] */
    size_t bytes;
};

/* Tokens of a pass that see the same blocks: retain.h */
struct chunk {
    uint32_t from, to;
    uint32_t slot, blocks; /* struct tft_cuda_at */
    bool evict;            /* some are given up before they come, from here: */
    struct tft_retained before;
    struct tft_cuda_eviction eviction;
};

enum { GRAPHS = 32 };

struct on {
    struct device *d;
    struct tft_session *s;
    cudaStream_t stream;
    cudaGraphExec_t graph[GRAPHS]; /* of one token that sees up to 2^i spans */
    cudaError_t failed;            /* sticky */
    void *memory;                  /* of the device: everything below but for `from` */
    void *pinned;                  /* of the host */
    struct up from, up;            /* in `pinned`, in `memory` */
    float *buf[TFT_N_BUF];
    uint8_t *bytes[TFT_N_BUF];
    struct tft_affine *affine[TFT_N_BUF];
    float *range;
    void *k, *v; /* [layers, G, ...] slots */
    struct tft_cuda_parts parts;
    uint32_t slot_spans, block_spans; /* that the cache has room for */

    struct chunk *chunk; /* [n_chunk] of the pass; of the host, with room for `chunks` */
    uint32_t *order;     /* [3 slots] as tft_retain_evict wants it; of the host */
    uint32_t n_chunk, chunks, evictions, slots;

    /* where the policy has codes, all [layers, G, ...] */
    unsigned char *records;
    uint16_t (*quads)[TFT_BITS_COUNT];
    uint8_t *channel; /* [E] */
    float *clip[2];   /* [groups] */
    uint16_t *rows;   /* tft_cuda_evict's workspace */
};

/* Part of a layer's cache. */
struct tft_cuda_slots tft_cuda_slots_of(const struct on *o, uint32_t layer);
struct tft_cuda_blocks tft_cuda_blocks_of(const struct on *o, uint32_t layer);

/* o->from and o->up for a pass of so many; at most n_batch, o->chunks and o->evictions. */
void tft_cuda_layout_up(struct on *o, uint32_t n, uint32_t chunks, uint32_t evictions);

/* Queues a copy to the device; waits for all that is queued. Errors stick in o->failed. */
void tft_cuda_send(struct on *o, void *to, const void *from, size_t bytes);
void tft_cuda_wait(struct on *o);

/* struct tft_device's */
enum tft_status tft_cuda_session_open(void **out, void *device, struct tft_session *s,
                                      struct tft_error *err);
void tft_cuda_session_close(void *on);

#endif
