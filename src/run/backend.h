/*
 * A backend computes some layers of a model: the CPU (backend/cpu), or a device by a plug-in
 * (backend/cuda). This is the table of functions that it provides.
 *
 * A model is cut into stages, each of consecutive layers on one backend: the first layers on the
 * CPU, or none, then the last layers and the head on the device, or none. A pass goes through the
 * stages in order; between them the rows of TFT_X are in the session's own memory.
 */
#ifndef TFT_BACKEND_H
#define TFT_BACKEND_H

#include "kv/kv.h"
#include "likely.h"
#include "ops.h"

struct tft_backend {
    /* A plug-in's tft_build_id. It stays the first member: the rest is read only if it is the
       library's. NULL for the CPU, which is part of the library. */
    const char *build_id;
    const char *name;
    uint64_t parts; /* mask of tft_formula_part: parts that it computes beside the common block */
    bool has_fisher; /* it has FISHER keys and values: kv/fisher.h */
    struct tft_ops ops;

    /* Prepares a model that is complete for the which-th device of this kind. close, limits and
       session_open get *out. NULL: there is nothing to prepare. */
    enum tft_status (*open)(void **out, const struct tft_model *m, uint32_t which,
                            struct tft_error *err);
    void (*close)(void *device);

    /* The most that the device can do, in 10^9 bytes or operations a second, a multiply-add being
       two: memory read, exact int8 products, float fma. NaN: unknown. NULL: to be measured. */
    void (*limits)(const void *device, double *read, double *int8, double *fma);

    /* The bytes that the processes exchange for a token, if the sampler asks for the logits *a.
       NULL: there is one process. */
    size_t (*exchanged)(const void *device, const struct tft_asked *a);

    /* Opens the backend's part of a session that is complete otherwise; *out is p->state of passes.
       A device also sets buf[TFT_LOGITS]. NULL: there is no such part. */
    enum tft_status (*session_open)(void **out, void *device, struct tft_session *s,
                                    struct tft_error *err);
    void (*session_close)(void *state);

    /* Runs tft_pass_layers(p, first, end). The logits are in the session's memory when it returns,
       all of them if s->out.partial is false. TFT_ERR_DEVICE: the device has failed, and will fail
       again; p->s->error says how. */
    enum tft_status (*run)(struct tft_pass *p, uint32_t first, uint32_t end);

    /* Is called before the logits of the last pass are read. Copies the logits that are asked for
       into the session's memory, if they are not there. Errors as in run. NULL: all are there after
       run. */
    enum tft_status (*bring)(void *state, struct tft_session *s, const struct tft_asked *a);

    /* Carries out a drop in all layers that the backend has; state and errors as in run. */
    enum tft_status (*drop)(void *state, struct tft_session *s, const struct tft_kv_drop *d);
};

#endif
