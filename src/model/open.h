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

/* Memory for what sessions need to know of a model that is not loaded. */
struct tft_plan_room {
    uint32_t *windows;          /* [m->source.n_tensor] */
    struct tft_kv_heads *heads; /* [m->source.n_tensor] */
    float *tables;              /* [tft_open_plan_tables] */
};

/* Numbers of the tables of the cache fisher, if they are values of the file. */
size_t tft_open_plan_tables(const struct tft_source *s);

/* Checks m->source, with m->tokenizer if it is not NULL, as opening would, and sets the dimensions
   and counts of *m without loading weights. m->memory_size becomes the bytes that opening would
   allocate. All other fields of *m are zero before. room: for m->kv_window, m->kv_heads
   and m->kv_fisher if the tables are values; without it, these stay NULL. */
enum tft_status tft_open_plan(struct tft_model *m, const struct tft_arch *const *archs,
                              enum tft_weights weights, const struct tft_plan_room *room,
                              struct tft_error *err);

#endif
