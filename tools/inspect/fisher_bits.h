/* How the cache fisher shares its bits among the channels of a model (kv/fisher.h). */
#ifndef INSPECT_FISHER_BITS_H
#define INSPECT_FISHER_BITS_H

#include <stdio.h>

#include "kv/fisher.h"
#include "model/model.h"

struct fisher_bits {
    bool wanted;     /* the cache is fisher */
    uint32_t n;      /* its layers without a window; 0: the file is not calibrated for it */
    uint32_t *layer; /* [n] their numbers in the cache */
    double *share[TFT_KV_SIDES]; /* [n, TFT_FISHER_CHOICES] of a layer's channels, by their bits */
};

/* kv: a valid cache. b is all zeros before. Returns false if out of memory. */
bool fisher_bits_read(struct fisher_bits *b, const struct tft_model *m, const char *kv);

/* The bits of a channel, on average over all layers. */
double fisher_bits_mean(const struct fisher_bits *b, enum tft_kv_which which);

/* Draws the shares of each layer. */
void fisher_bits_draw(const struct fisher_bits *b, const char *title, FILE *f);

/* Accepts all zeros. */
void fisher_bits_free(struct fisher_bits *b);

#endif
