/* Tensors of a file that are not used in place: expanded to floats, or packed. */
#ifndef TFT_CONVERT_H
#define TFT_CONVERT_H

#include "file/file.h"
#include "simd/kernels.h"
#include "tuffet.h"
#include "weights/format.h"

/* Rows [first, first + rows) of a tensor. */
struct tft_conversion {
    const struct tft_tensor *tensor;
    uint64_t first, rows;
    const struct tft_format *packed; /* a format with packing; NULL: to floats */
    enum tft_num num;                /* which floats */
    void *to;                        /* room for the result */
};

/* Converts all n parts of tensors of `s`, with the threads and the progress callback of opts. Pages
   of the file that have been read are given back. TFT_ERR_FORMAT: a factor of packed weights is
   NaN or infinity. */
enum tft_status tft_convert(const struct tft_kernels *kern, const struct tft_source *s,
                            const struct tft_conversion *list, size_t n,
                            const struct tft_model_opts *opts, struct tft_error *err);

#endif
