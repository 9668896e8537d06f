/* The importance of each column of the matrices: the mean square of the numbers that it is
   multiplied by, over the calibration text. */
#ifndef QUANTIZE_MEASURE_IMPORTANCE_H
#define QUANTIZE_MEASURE_IMPORTANCE_H

#include "tools/quantize/options.h"

struct importance {
    const struct tft_source *s;
    const float **of; /* [s->n_tensor] [columns] weights of mean 1, about; NULL: unknown */
    float **own;      /* [n_own] what `of` points to: matrices with one input share it */
    size_t n_own;
};

/* Runs the text of `o` through m, a layer at a time; o: as for quantize(). close accepts all zeros,
   and must follow. */
enum tft_status importance_measure(struct importance *im, struct tft_model *m,
                                   const struct quantize_opts *o, bool *stopped,
                                   struct tft_error *err);
void importance_close(struct importance *im);

#endif
