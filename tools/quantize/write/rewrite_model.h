/* Copies a W8A8 file, with another prefix, named prefixes, or another KV cache as its default; or a
   plain GGUF file, with another cache. */
#ifndef QUANTIZE_WRITE_REWRITE_MODEL_H
#define QUANTIZE_WRITE_REWRITE_MODEL_H

#include "model/model.h"
#include "tools/quantize/named_rows.h"

struct rewrite {
    const char *kv;        /* the new default KV cache; NULL: keep the old one */
    const float *fisher[TFT_KV_SIDES]; /* tables of kv/fisher.h, as in tft_model.kv_fisher; both
                                          or neither. NULL: those of the file stay. */
    enum tft_dtype type;   /* of new rows in the file: TFT_Q8_0 or TFT_Q4_1; 0: TFT_F16 */
    const struct named_prefix *named; /* [n_named] prefixes to add to a file that has none */
    uint32_t n_named;
    const uint16_t *k, *v; /* [n_kv_layer, n_prefix, G, E] f16, the new prefix; NULL: keep the old
                              one, and ignore all fields after this */
    /* how the prefix was tuned, as information: */
    const char *loss; /* "prediction", "layer outputs"; NULL: not tuned */
    float lambda, rate;
    uint32_t epochs;
    const float *validation; /* [n_validation] loss on held-out text: before the first step, then
                                at each validation */
    uint32_t n_validation;
    uint32_t kept; /* index of the validation with this prefix */
};

/* Writes `path`, which may be m's own file. m: an open model, a W8A8 one for prefixes; if r->k,
   it must have a prefix, and no named prefixes, as their rows depend on the old one.
   On failure there is no new file, an existing one is unchanged, and err has the reason. The file
   keeps the residual stream of the prefix's last token as it was. */
enum tft_status rewrite_model(const struct tft_model *m, const char *path, const struct rewrite *r,
                              struct tft_error *err);

/* The same, but the file has no name yet: *temp, for tft_new_file_end; NULL after a failure. */
enum tft_status rewrite_temp(const struct tft_model *m, const char *path, const struct rewrite *r,
                              struct tft_new_file **temp, struct tft_error *err);

#endif
