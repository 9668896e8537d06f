/* A W8A8 file of ours once more, with other numbers in its prefix, or another cache named in it. */
#ifndef QUANTIZE_WRITE_REWRITE_MODEL_H
#define QUANTIZE_WRITE_REWRITE_MODEL_H

#include "model/model.h"

struct rewrite {
    const char *kv;        /* the cache that the file is to name; NULL: as it is */
    const uint16_t *k, *v; /* f16 [n_layer, n_prefix, G, E]: what the prefix becomes; NULL: it
                              stays, and what follows says nothing */
    enum tft_dtype type;   /* how they are held: TFT_Q8_0 or TFT_Q4_1; 0: TFT_F16 */
    /* how they were made, for people: */
    const char *loss;      /* "prediction", "layer outputs"; NULL: they were not tuned */
    float lambda, rate;
    uint32_t epochs;
    const float *validation; /* [n_validation] loss on held-out text: before the first step, then
                                whenever it was looked at */
    uint32_t n_validation;
    uint32_t kept;         /* which of these the rows are from */
};

/* m: an open W8A8 model, with a prefix if that is to be another. Writes `path`, which may be m's
   own, like m's file but for that; on failure there is no file, or the one that was there, and err
   says why. What the last token of the prefix leaves in the residual stream stays as it was. */
enum tft_status rewrite_model(const struct tft_model *m, const char *path, const struct rewrite *r,
                        struct tft_error *err);

#endif
