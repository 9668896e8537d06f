/*
 * What an architecture file loads itself with. The first problem sticks: every later call does
 * nothing and returns something harmless, so that load() reads straight down, without a branch per
 * line.
 *
 * load() runs twice over the same source: once to check everything and count the memory it takes,
 * once to place it. Between the two nothing may change, so load() must depend on the source alone.
 */
#ifndef TFT_LOAD_H
#define TFT_LOAD_H

#include "base/error.h"
#include "model.h"

struct tft_load {
    struct tft_model *m;
    const struct tft_source *s;
    struct tft_error *err;
    enum tft_status status; /* sticky */
    const struct tft_format *expand_to; /* for tensors that cannot be used in place */
    bool unexpanded;        /* those are not expanded: tft_format_stored */
    bool quantized;         /* linear layers and the embedding are panels of int8: quantized.h */
    struct tft_arena arena;
    struct tft_block block;          /* stands in for those of the model while counting */
    struct tft_expansion *expansion; /* [n_expansion], NULL while counting */
    size_t n_expansion;
    unsigned char *used; /* [s->n_tensor] whether a tensor has found its place; NULL while
                            counting */
};

/* A tensor that is not used in place. */
struct tft_expansion {
    const struct tft_tensor *tensor;
    void *to; /* as many numbers of type num */
    enum tft_num num;
};

/* The value of "ARCH.key" as a number in [1, max]; `def` where the file has none, or an error where
   def is 0. */
uint32_t tft_load_dim(struct tft_load *ld, const char *key, uint32_t def, uint32_t max);
/* A positive finite number; an error where there is none and def is 0. */
float tft_load_real(struct tft_load *ld, const char *key, float def);
/* Whether "ARCH.key" is there. */
bool tft_load_has(const struct tft_load *ld, const char *key);

/* Context length, widths, layer and head counts: the keys that all architectures share. Takes the
   blocks. */
void tft_load_shape(struct tft_load *ld);
/* Block `layer`, to be filled. */
struct tft_block *tft_load_block(struct tft_load *ld, unsigned layer);
/* RoPE: base, n_rot, linear scaling, llama3 scaling by the rope_freqs.weight tensor; other scalings
   are refused. */
void tft_load_rope(struct tft_load *ld, bool halves);

/* Tensors by the name that `fmt` makes of `layer`, e.g. "blk.%u.attn_q". ".weight" and ".bias" are
   appended here. Shapes must match. */
struct tft_norm tft_load_norm(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                              bool bias);
struct tft_linear tft_load_linear(struct tft_load *ld, const char *fmt, unsigned layer,
                                  uint32_t rows, uint32_t cols, bool bias);
/* Rows [from, from + n) of it as a layer of its own: parts that a file keeps in one tensor. */
struct tft_linear tft_linear_rows(const struct tft_linear *l, uint32_t from, uint32_t n);
/* token_embd, and output, or the embedding again where there is none. */
void tft_load_embedding(struct tft_load *ld);
void tft_load_head(struct tft_load *ld);
/* A table of f32 rows. */
struct tft_mat tft_load_table(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols);

/* A tensor whose numbers will be at `to` when all is placed. */
void tft_load_expand_later(struct tft_load *ld, const struct tft_tensor *t, void *to,
                           enum tft_num num);

/* After load(): a tensor without a place in the architecture would mean that the model is computed
   wrong. */
void tft_load_check_all_used(struct tft_load *ld);

/* Records the first problem: "FILE: ...". */
void tft_load_fail(struct tft_load *ld, enum tft_status status, const char *fmt, ...)
    TFT_PRINTF(3, 4);

#endif
