/*
 * Opening a model: file, tokenizer, architecture, weights. models/open.c is the public side, which
 * knows all architectures, and devices.
 */
#ifndef TFT_OPEN_H
#define TFT_OPEN_H

#include "file/file.h"
#include "model/model.h"

struct tft_opening {
    const struct tft_arch *const *archs; /* the architectures to choose from, then NULL */
    struct tft_place file;
    const struct tft_model_opts *opts;   /* complete; the device is not opened here */
    bool unexpanded; /* tensors that no format uses in place are left to tft_format_stored */
};

/* As tft_model_open, for the CPU. */
enum tft_status tft_open(struct tft_model **out, const struct tft_opening *o,
                         struct tft_error *err);

/* Frees the model of tft_open; close the device before. */
void tft_open_undo(struct tft_model *m);

/* Checks m->source, with m->tokenizer if it is not NULL, as opening would, and sets the dimensions
   and counts of *m without loading weights. m->memory_size becomes the bytes that opening would
   allocate. All other fields of *m are zero before. windows, heads: [m->source.n_tensor] room for
   m->kv_window and m->kv_heads; if NULL, these stay NULL. */
enum tft_status tft_open_plan(struct tft_model *m, const struct tft_arch *const *archs,
                              enum tft_weights weights, uint32_t *windows,
                              struct tft_kv_heads *heads, struct tft_error *err);

#endif
