/*
 * Keys and values of the named prefixes of a W8A8 file (model/keys.h). The float model computes
 * them (IntactKV, section 3.1) after the file's prefix: they attend to the same rows as a session
 * that has a named prefix. So they are computed last, after the file's prefix is tuned.
 */
#ifndef QUANTIZE_NAMED_ROWS_H
#define QUANTIZE_NAMED_ROWS_H

#include "tools/quantize/options.h"

struct named_prefix {
    const char *name, *system; /* NUL-terminated; system: NULL if unknown */
    const int32_t *tokens;     /* [n] */
    uint32_t n;
    /* Of the file, allocated by named_rows and freed by named_rows_free: */
    uint16_t *k, *v; /* [n_kv_layer, n, G, E] f16 */
    float *x;        /* [D] */
    float *state;    /* [state_size] */
};

/* Computes the rows of p: [n]. m: the float model, opened by tft_model_open_unexpanded; made: the
   file that quantize() made of it with these options, including o->values. TFT_OK without rows if
   *stopped, which o->progress requests. */
enum tft_status named_rows(struct tft_model *m, const struct tft_model *made,
                           const struct quantize_opts *o, struct named_prefix *p, uint32_t n,
                           bool *stopped, struct tft_error *err);
void named_rows_free(struct named_prefix *p, uint32_t n);

#endif
