/*
 * Computing on a device. A backend is a plug-in, libtuffet-NAME.so, which is loaded when a model is
 * opened for NAME (cuda/ is the one there is). It is built with the library and sees the inside of
 * models, sessions and passes.
 *
 * The last layers of such a model, from m->n_host on, and its head are the device's: their weights
 * are there, and in each session their part of the cache. A pass takes the layers before them with
 * all threads. Then one thread goes on with p->on set, and the operations of pass.h queue their
 * work on the device instead of doing it.
 */
#ifndef TFT_DEVICE_H
#define TFT_DEVICE_H

#include "base/error.h"
#include "model/model.h"
#include "run/pass.h"
#include "run/session.h"

struct tft_device {
    /* tft_build_id. It stays the first member: the rest is read only if it is the library's. */
    const char *build_id;

    /* Copies weights of m, which is complete, to the which-th device of its kind. *out is what
       close() and session_open() get. */
    enum tft_status (*open)(void **out, const struct tft_model *m, uint32_t which,
                            struct tft_error *err);
    void (*close)(void *device);

    /* What it can do at most, in 10^9 bytes or operations a second, two a multiply-add: memory
       read, exact products of int8, float fma. NaN: not known. */
    void (*limits)(const void *device, double *read, double *int8, double *fma);

    /* The session is complete but for s->on, which is *out, and buf[TFT_LOGITS], which is set
       here. */
    enum tft_status (*session_open)(void **out, void *device, struct tft_session *s,
                                    struct tft_error *err);
    void (*session_close)(void *on);

    /* Layers from `layer` on and the head, for the tokens of the pass, or, where that is not layer
       0, for the rows of TFT_X. Logits are where they should be when it returns. TFT_ERR_DEVICE:
       the device has failed, and will again. */
    enum tft_status (*run)(struct tft_pass *p, uint32_t layer);

    /* tft_kv_drop, or tft_coded_drop of n tokens, in all layers and heads */
    enum tft_status (*drop)(struct tft_session *s, uint32_t from, uint32_t n, uint32_t used);

    /* Operations of a pass: pass.h */
    void (*norm)(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l);
    void (*qkv)(struct tft_pass *p, const struct tft_block *b);
    void (*rmsnorm_heads)(struct tft_pass *p, const struct tft_block *b);
    void (*rope)(struct tft_pass *p);
    void (*linear_add)(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                       enum tft_buf from);
    void (*kv_append)(struct tft_pass *p, uint32_t layer);
    void (*attend)(struct tft_pass *p, uint32_t layer, const struct tft_linear *o);
    void (*hidden)(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up,
                   const struct tft_linear *down);
};

/* "0.1.0 (build 0123456789abcdef)": the version and a hash of all headers. build_id.py generates
   it; the library and each plug-in have their own. It differs where their structs may differ. */
extern const char tft_build_id[];

/* The one symbol of a plug-in, a tft_device_fn. */
typedef const struct tft_device *tft_device_fn(void);
#define TFT_DEVICE_SYMBOL "tft_device"

/* "cuda", or "cuda:1" for another than the first: gives m, which is complete, its device for the
   last n_layers layers; 0: all. */
enum tft_status tft_device_open(struct tft_model *m, const char *name, uint32_t n_layers,
                                struct tft_error *err);
void tft_device_close(struct tft_model *m);

#endif
