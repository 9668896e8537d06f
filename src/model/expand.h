/* Expanding tensors of a file into floats in memory. */
#ifndef TFT_EXPAND_H
#define TFT_EXPAND_H

#include "file/file.h"
#include "simd/kernels.h"
#include "tuffet.h"

/* A tensor that is not used in place. */
struct tft_expansion {
    const struct tft_tensor *tensor;
    void *to;         /* room for all numbers of the tensor, of type num */
    enum tft_num num;
};

/* Expands all n tensors, with the threads and the progress callback of opts. */
void tft_expand(const struct tft_kernels *kern, const struct tft_expansion *list, size_t n,
                const struct tft_model_opts *opts);

#endif
