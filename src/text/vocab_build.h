/* Builds a vocabulary from a source: vocab_values.c reads values, vocab_build.c the tokens. */
#ifndef TFT_VOCAB_BUILD_H
#define TFT_VOCAB_BUILD_H

#include "base/error.h"
#include "vocab.h"
#include "wordpiece.h"

/* Builds a tokenizer from the tokenizer.ggml.* values of a source.
   TFT_ERR_FORMAT, TFT_ERR_UNSUPPORTED, TFT_ERR_NOMEM. */
enum tft_status tft_vocab_read(struct tft_tokenizer **out, const struct tft_source *s,
                               const struct tft_allocator *a, struct tft_error *err);

/* The memory of a tokenizer. */
void tft_vocab_free(struct tft_tokenizer *t);

/* ---- during the build */

/* The most tokens, and merges, so the sizes of hash tables fit 32 bits. */
enum { TFT_BUILD_MAX = 1 << 28 };

struct tft_build {
    const struct tft_source *s;
    struct tft_error *err;
    struct tft_tokenizer *t; /* on the stack until sizes are known */
    const struct tft_value *tokens, *types, *scores, *merges, *charsmap, *suppressed, *ends,
        *late[2];
    int32_t eot, eom;
    int32_t fim[3]; /* tokens for fill-in-the-middle at which generation ends: padding, the next
                       repository, the next file */
    struct tft_wordpiece wordpiece; /* its rules */
    uint64_t n_bytes; /* size of t->bytes, at most */
    size_t n_special; /* size of t->special.name */
    size_t n_late;    /* of t->late.name */
};

/* The part of fill-in-the-middle that a token of this name begins; -1: none. */
int tft_build_fim(struct tft_str name);

#define TFT_BAD_AT(b, pos, ...)                                                                    \
    tft_fail_at((b)->err, TFT_ERR_FORMAT, (b)->s->name, pos, __VA_ARGS__)
#define TFT_BAD(b, v, ...) TFT_BAD_AT(b, (v)->offset, __VA_ARGS__)

/* Reads tokenizer.ggml.* into b and b->t, except the elements of arrays. */
enum tft_status tft_build_values(struct tft_build *b);

/* The value of a key. An array has at most TFT_BUILD_MAX elements; without `required` the key may
   be absent, and then *out is NULL. If the key of a bool is absent, the bool is unchanged. */
enum tft_status tft_build_array(struct tft_build *b, const char *key, enum tft_value_type type,
                                bool required, const struct tft_value **out);
enum tft_status tft_build_bool(struct tft_build *b, const char *key, bool *out);

#endif
