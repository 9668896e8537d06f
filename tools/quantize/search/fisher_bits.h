/* Chooses the bits of a KV cache fisher within a budget. Its tables distribute any number of bits
   over all layers, heads, keys and values (kv/fisher.h), so nothing is measured. */
#ifndef QUANTIZE_SEARCH_FISHER_BITS_H
#define QUANTIZE_SEARCH_FISHER_BITS_H

#include "kv/kv.h"

struct fisher_budget {
    double bytes;   /* of a token */
    uint32_t depth; /* 0: of a quantized token. Otherwise the mean over a session of this many
                       tokens, with all slots */
};

struct fisher_chosen {
    char kv[TFT_KV_TEXT]; /* the cache with its bits; "" before */
    double bytes;         /* of a token, as the budget counts */
};

/* The most bits within the budget, in steps of 1/64. kv: a valid text of a cache fisher; its bits
   do not matter. shape: with tables. model: its name. Fails if 0.25 bits do not fit. */
enum tft_status fisher_choose_bits(struct fisher_chosen *to, const struct tft_kv_shape *shape,
                                   const char *kv, struct fisher_budget budget, const char *model,
                                   struct tft_error *err);

#endif
