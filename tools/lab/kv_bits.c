/* kv_bits: bits a number of caches, all in: codes, scales, gains, slots, and padding, by the layout
   that a session has. The shape is smollm2-135m, behind no prefix. Prints the rows of a table of
   docs/cache.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kv/fisher.h"

enum { LAYERS = 30, HEADS = 3, DIM = 64, N = LAYERS * HEADS * DIM };

static const uint32_t tokens[] = {2048, 8192, 32768};
static const char *const caches[] = {"fisher:bits=1",
                                     "fisher:bits=1.25",
                                     "fisher",
                                     "fisher:slots=f16",
                                     "fisher:bits=2",
                                     "tuffet",
                                     "tuffet:slots=i8",
                                     "kivi",
                                     "kivi:slots=i8",
                                     "logquant",
                                     "partial-logquant",
                                     "asymkv",
                                     "skvq",
                                     "rtn",
                                     "i8",
                                     "f16"};

/* Losses of channels that differ by up to a factor of 1,000; a Gaussian's with 1 to 4 bits (Max
   1960, table II). */
static float *random_table(void)
{
    static const float lost[] = {1, 0.3634f, 0.1188f, 0.03744f, 0.01154f};
    float *table = calloc((size_t)N * TFT_FISHER_ROWS, sizeof *table);
    uint32_t random = 1;
    for (size_t i = 0; table && i < (size_t)N; i++) {
        float *at = table + i / DIM * DIM * TFT_FISHER_ROWS + i % DIM;
        random = random * 1664525 + 1013904223;
        float loss = exp2f(-10 * (float)(random >> 8) / 0x1p24f);
        for (unsigned bits = 0; bits <= TFT_FISHER_BITS; bits++)
            at[(TFT_FISHER_LOSS + bits) * DIM] = loss * lost[bits];
    }
    return table;
}

static int print_row(const struct tft_kv_shape *shape, const char *cache)
{
    struct tft_kv_policy policy;
    struct tft_error err;
    if (tft_kv_parse(&policy, cache, &err) != TFT_OK) {
        fprintf(stderr, "kv_bits: %s\n", err.msg);
        return 1;
    }
    uint64_t block = tft_kv_quantizes(&policy) ? tft_kv_block_bytes(shape, &policy) : 0;
    printf("| `%s` |", cache);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        printf(" %.2f |", 8.0 * (double)tft_kv_held_bytes(shape, &policy, tokens[i], block) /
                              TFT_KV_SIDES / N / tokens[i]);
    puts("");
    return 0;
}

int main(void)
{
    static float importance[N];
    float *table = random_table();
    struct tft_kv_shape shape = {.n_layer = LAYERS,
                                 .n_host = LAYERS,
                                 .n_head_kv = HEADS,
                                 .head_dim = DIM,
                                 .key_importance = importance,
                                 .fisher = {table, table}};
    int failed = !table;
    for (size_t i = 0; !failed && i < sizeof caches / sizeof *caches; i++)
        failed = print_row(&shape, caches[i]);
    free(table);
    return failed;
}
