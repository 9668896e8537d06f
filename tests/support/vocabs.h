/* Builds small vocabularies for tests, token by token. Include it after test.h. */
#ifndef TFT_TEST_VOCABS_H
#define TFT_TEST_VOCABS_H

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer.h"
#include "values.h"
#include "text/vocab.h"

struct vocab {
    const char *model, *pre;
    char text[1024][64];
    float score[1024];
    int32_t type[1024];
    size_t n;
    char merge[256][64];
    size_t n_merge;
};

static inline void vocab_copy(char to[64], const char *text)
{
    size_t n = strlen(text) + 1;
    assert_in_range(n, 1, 64);
    memcpy(to, text, n);
}

static inline int32_t vocab_add(struct vocab *v, const char *text, float score, int32_t type)
{
    vocab_copy(v->text[v->n], text);
    v->score[v->n] = score;
    v->type[v->n] = type;
    return (int32_t)v->n++;
}

static inline void vocab_add_bytes(struct vocab *v)
{
    char text[8];
    for (int byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        vocab_add(v, text, 0, TFT_TOKEN_BYTE);
    }
}

static inline void vocab_values(const struct vocab *v, struct values *out)
{
    static const char *text[1024], *merge[256];
    for (size_t i = 0; i < v->n; i++)
        text[i] = v->text[i];
    for (size_t i = 0; i < v->n_merge; i++)
        merge[i] = v->merge[i];
    values_start(out);
    values_str(out, "tokenizer.ggml.model", v->model);
    if (v->pre)
        values_str(out, "tokenizer.ggml.pre", v->pre);
    values_strs(out, "tokenizer.ggml.tokens", text, v->n);
    values_f32s(out, "tokenizer.ggml.scores", v->score, v->n);
    values_i32s(out, "tokenizer.ggml.token_type", v->type, v->n);
    values_strs(out, "tokenizer.ggml.merges", merge, v->n_merge);
}

static inline struct tft_tokenizer *open_values(struct values *v)
{
    struct tft_tokenizer *t;
    struct tft_error err = {0};
    if (tft_tokenizer_open(&t, values_source(v), NULL, &err))
        fail_msg("%s", err.msg);
    return t;
}

static inline struct tft_tokenizer *open_vocab(const struct vocab *v)
{
    static struct values values;
    vocab_values(v, &values);
    return open_values(&values);
}

enum { MAX_IDS = 4096 };

static inline size_t encode(const struct tft_tokenizer *t, const char *text, size_t len,
                            unsigned flags, int32_t *ids)
{
    size_t n, count;
    char *exact = malloc(
        len ? len
            : 1); /* in memory of its exact size, so that memory tools see a read past the end */
    assert_non_null(exact);
    memcpy(exact, text, len);
    assert_int_equal(tft_tokenizer_encode(t, exact, len, flags, ids, MAX_IDS, &n), TFT_OK);
    assert_true(n <= MAX_IDS);
    assert_int_equal(tft_tokenizer_encode(t, exact, len, flags, NULL, 0, &count), TFT_OK);
    assert_int_equal(n, count);
    free(exact);
    return n;
}

/* Decodes the ids one by one; returns the length of the text. */
static inline size_t decode(const struct tft_tokenizer *t, const int32_t *ids, size_t n, char *out)
{
    size_t used = 0, len;
    for (size_t i = 0; i < n; i++) {
        const char *p = tft_tokenizer_text(t, ids[i], false, &len);
        memcpy(out + used, p, len);
        used += len;
    }
    return used;
}

/* `want` is the texts of the tokens, with '|' between them. */
static inline void encodes(const struct tft_tokenizer *t, const char *text, unsigned flags,
                           const char *want)
{
    int32_t ids[MAX_IDS];
    size_t n = encode(t, text, strlen(text), flags, ids), used = 0, len;
    char have[2048];
    for (size_t i = 0; i < n; i++) {
        const char *p = tft_tokenizer_text(t, ids[i], true, &len);
        assert_true(used + len + 2 < sizeof have);
        if (i)
            have[used++] = '|';
        memcpy(have + used, p, len);
        used += len;
    }
    have[used] = 0;
    assert_string_equal(have, want);
}

static inline uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % n);
}

#endif
