/*
 * LoRA adapters (Hu et al. 2021, arXiv 2106.09685): for a matrix W of a model two matrices of low
 * rank r, and y = W x + s B (A x), where s = scale alpha / r. Nothing is merged: sessions of one
 * model may have different adapters (run/lora.h).
 */
#ifndef TFT_LORA_H
#define TFT_LORA_H

#include "model/model.h"

/* The part for one tensor of the model. */
struct tft_lora_part {
    uint32_t rank, cols, rows; /* rank 0: the adapter leaves the tensor as it is */
    float scale;               /* alpha / rank */
    const float *a;            /* [rank, cols] */
    const float *b;            /* [rows, rank] */
};

struct tft_lora {
    const struct tft_model *m;
    struct tft_lora_part *part; /* [m->source.n_tensor] */
    uint32_t rank, cols;        /* the largest ones */
    uint32_t sum;               /* CRC-32 of its numbers and of their places */
    size_t size;                /* bytes of its one allocation */
};

/* The part for the matrix of l; NULL: there is none. */
static inline const struct tft_lora_part *tft_lora_part_of(const struct tft_lora *lora,
                                                           const struct tft_linear *l)
{
    const struct tft_tensor *t = l->w.tensor;
    const struct tft_lora_part *part = t ? &lora->part[t - lora->m->source.tensor] : NULL;
    return part && part->rank ? part : NULL;
}

#endif
