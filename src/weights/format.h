/*
 * Weight formats: the memory layout of a matrix, and its products.
 *
 * A format is one file in this folder, one row of tft_formats[] and tests. A matrix carries its
 * format; other code calls the format's functions and never compares names or types.
 *
 *   floats.c  rows of f32, f16 or bf16: tensors of a file in place, or expanded at opening
 *   i8.c      panels of int8, from `tuffet quantize`
 *   low.c     panels of codes of 4, 3 or 2 bits for int8: the same numbers in fewer bytes
 *   packed.c  panels of codes of 1 to 8 bits: tensors of GGUF's quantized types; pack.c lays the
 *             panels out at opening, split.c unpacks the blocks of the types
 *   stored.c  a tensor in the file's own type, read row by row: no products
 *
 * All functions may be called from several threads at once.
 */
#ifndef TFT_FORMAT_H
#define TFT_FORMAT_H

#include "file/file.h"
#include "simd/kernels.h"
#include "tuffet.h"

/* A matrix [rows, cols]: a row for each output of a linear layer, or for each token. */
struct tft_mat {
    const struct tft_format *format;
    uint32_t rows, cols;
    uint32_t first;   /* row 0 is this row of `data`, */
    uint32_t tensor_row; /* and this row of `tensor`: gpt2's q, k and v are parts of one tensor */
    const void *data; /* in the format's layout; NULL for tft_format_stored */
    uint32_t experts; /* the number of matrices, if this is the first of several; 0: one only */
    size_t apart;     /* in the first of several experts' matrices, which are contiguous: bytes of
                         `data` to the next matrix; or rows, if not in panels */
    float factor;     /* of the whole matrix, for products and single rows; 0 means 1 */
    const float *scale;              /* with takes_bytes: as in struct tft_panels; otherwise NULL */
    const int32_t *rowsum;           /* with takes_bytes, too */
    const struct tft_tensor *tensor; /* the tensor of the matrix, or the source of expanded `data`;
                                        NULL if a tool made `data` */
};

/* Activations of n tokens, and their product with rows [begin, end) of a matrix. */
struct tft_product {
    float *y;             /* [n, end - begin], rows ldy apart */
    size_t ldy;
    const float *x;       /* [n, cols], rows ldx apart: formats that take floats */
    const uint8_t *bytes; /* [n, cols padded as in a panel], rows ldx apart: with takes_bytes;
                             [n] rows of groups (simd/packed.h), ldx apart: with packing */
    size_t ldx;
    const struct tft_affine *affine; /* of the bytes of token i: affine[i * step] */
    size_t step;                     /* 1, or 0 if all tokens share one */
    const float *bias;               /* [rows] of the matrix, or NULL */
    bool add;                        /* y += the result, else y = the result */
    size_t n;
};

struct tft_parts;

struct tft_format {
    const char *name;
    enum tft_dtype type;      /* a tensor of this type is used in place */
    enum tft_weights weights; /* the public name */
    enum tft_num num;         /* formats of floats: their slot in struct tft_kernels */
    bool takes_bytes;         /* product() multiplies 8-bit activations of one scale */
    const struct tft_packing *packing; /* product() multiplies groups of 8-bit activations; else
                                          NULL */
    const struct tft_low *low; /* with takes_bytes: the layout of codes in `data`; NULL: int8 */
    void (*split)(struct tft_parts *p, const unsigned char *block); /* with packing: see split.h */

    /* Bytes that one product reads: the matrix with its padding, scales and sums. */
    uint64_t (*bytes)(const struct tft_mat *w);

    /* With takes_bytes: checks rows [begin, end) of a matrix of a file, begin a multiple of 16. If
       products of a row could differ between ISA levels, or its scale is not a positive number,
       returns a description of the flaw and sets *at to the row; else NULL. */
    const char *(*flaw)(const struct tft_kernels *kern, const struct tft_mat *w, size_t begin,
                        size_t end, size_t *at);

    /* y: [cols] = row `row` as floats. */
    void (*row)(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y);

    /* p->y = W x + bias for rows [begin, end) of W; `begin` is a multiple of TFT_PANEL (panel.h).
       NULL for tft_format_stored. */
    void (*product)(const struct tft_kernels *kern, const struct tft_mat *w,
                    const struct tft_product *p, size_t begin, size_t end);
};

/* Whether `data` is panels: then `first` cannot offset its rows. */
static inline bool tft_format_in_panels(const struct tft_format *f)
{
    return f->takes_bytes || f->packing;
}

/* The total rows of all experts' matrices. */
static inline size_t tft_mat_all_rows(const struct tft_mat *w)
{
    return (size_t)w->rows * (w->experts ? w->experts : 1);
}

/* The matrix of expert e; all: the matrix of expert 0. */
static inline struct tft_mat tft_mat_expert(const struct tft_mat *all, uint32_t e)
{
    struct tft_mat w = *all;
    size_t rows = tft_panel_rows(w.rows);
    w.experts = 0;
    if (!tft_format_in_panels(w.format)) {
        w.first += e * (uint32_t)w.apart;
        return w;
    }
    w.data = (const char *)w.data + e * w.apart;
    if (w.scale) {
        w.scale += e * rows;
        w.rowsum += e * rows;
    }
    return w;
}

extern const struct tft_format tft_format_f32, tft_format_f16, tft_format_bf16, tft_format_i8,
    tft_format_stored;

/* The format of int8 panels as codes of `bits` bits, with groups of `group` columns; NULL: none. */
const struct tft_format *tft_format_low(unsigned bits, unsigned group);

/* The format that uses a tensor of `type` in place; NULL: none. */
const struct tft_format *tft_format_of(enum tft_dtype type);

/* The format of packed weights for a tensor of `type`; NULL: none. */
const struct tft_format *tft_format_packed(enum tft_dtype type);

/* The format of floats for expanded tensors: TFT_WEIGHTS_F32, _F16 or _BF16. */
const struct tft_format *tft_format_of_floats(enum tft_weights weights);

/* ---- packed weights: f has `packing` */

/* The size of a matrix of cols columns, a multiple of packing->block. */
uint64_t tft_packed_bytes(const struct tft_format *f, uint32_t rows, uint32_t cols);

/* Packs n <= 16 rows of a tensor into a panel: to: [tft_packed_bytes(f, 16, cols)], rows: [n] rows
   of the file. False if a factor is NaN or infinity; *bad is then the offset of the factor's block
   from `rows`, in bytes. */
bool tft_pack_panel(void *to, const struct tft_format *f, const unsigned char *rows, uint32_t n,
                    uint32_t cols, uint64_t *bad);

#endif
