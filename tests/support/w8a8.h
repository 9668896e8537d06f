/* Toy models as W8A8 files. Include it after test.h and after the #define that folder.h wants. */
#ifndef TFT_TEST_W8A8_H
#define TFT_TEST_W8A8_H

#include "fed.h"
#include "models/open.h"
#include "tools/quantize/quantize.h"

/* One toy for each architecture. Among them are widths that need padding, Hadamard blocks of
   several sizes, grouped KV heads, and both tied and separate output heads. */
static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 50,
     .n_ctx = 640,
     .n_embd = 40,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 96,
     .n_rot = 12,
     .type = TFT_F32},
    {.arch = "qwen2",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_ff = 64,
     .n_rot = 16,
     .type = TFT_F16,
     .tied = true},
    {.arch = "qwen3",
     .n_vocab = 47,
     .n_ctx = 640,
     .n_embd = 64,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 32,
     .n_ff = 96,
     .n_rot = 32,
     .type = TFT_Q8_0},
    {.arch = "gpt2",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 600,
     .type = TFT_BF16,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys, TEXT = 300, WINDOW = 100, MOST_INPUTS = 33 };

static int32_t text[TEXT];
static const int32_t prefix[3] = {1, 7, 3};
static enum tft_range fixed[MOST_INPUTS], by_token[MOST_INPUTS];
static struct quantize_input result[MOST_INPUTS];

/* The options that most tests start from: static ranges, and a prefix of 3 tokens. */
static inline struct quantize_opts usual(const struct toy *t)
{
    toy_tokens(11, t->n_vocab, text, TEXT);
    for (int i = 0; i < MOST_INPUTS; i++) {
        fixed[i] = TFT_RANGE_STATIC;
        by_token[i] = TFT_RANGE_TOKEN;
    }
    return (struct quantize_opts){.text = text,
                                  .n_text = TEXT,
                                  .window = WINDOW,
                                  .rotate = QUANTIZE_ROTATE_O_DOWN,
                                  .prefix = prefix,
                                  .n_prefix = 3,
                                  .range = fixed,
                                  .n_threads = 1};
}

/* Whether the residual stream can be rotated: only with RMSNorm, and none after the halves of a
   block. */
static inline bool rotatable(const struct toy *t)
{
    return !toy_has_layer_norm(t) && !toy_has_post_norm(t);
}

static inline enum tft_status convert(const char *from, const char *to,
                                      const struct quantize_opts *o, struct tft_error *err)
{
    struct tft_model *m;
    bool stopped;
    enum tft_status status = tft_model_open_unexpanded(&m, from, NULL, err);
    if (status == TFT_OK)
        status = quantize(m, to, o, result, &stopped, err);
    tft_model_close(m);
    return status;
}

/* The path of a file with the quantized toy model. The next call overwrites it. */
static inline const char *quantized(const struct toy *t, const struct quantize_opts *o)
{
    const char *from = written(t), *to = in_folder("q.gguf");
    struct tft_error err;
    if (convert(from, to, o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return to;
}

/* |a - b| / |b|, a: logits after prefix and TEXT tokens, b: the float model's. */
static inline double float_distance(const struct toy *t, const char *path, uint32_t n)
{
    struct tft_model *m[2] = {opened(written(t)), opened(path)};
    struct tft_session *s[2];
    int32_t tokens[TEXT];
    toy_tokens(5, t->n_vocab, tokens, TEXT);
    for (int i = 0; i < 2; i++)
        s[i] = session(m[i], (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    if (m[1]->n_prefix)
        assert_int_equal(tft_prefill(s[0], prefix, m[1]->n_prefix), TFT_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(n || i ? tft_prefill(s[i], tokens, n) : TFT_OK, TFT_OK);
    double d = distance(s[1], s[0]);
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
    return d;
}

#endif
