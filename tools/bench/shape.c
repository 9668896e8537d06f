#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/file.h"
#include "model/keys.h"
#include "model/model.h"

struct shape {
    const char *name, *arch;
    uint32_t width, ffn, layers, heads, kv_heads, head, vocab;
    bool bias; /* of q, k and v */
};

/* From the models' config.json. All tie the head to the embedding. */
static const struct shape shapes[] = {
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, false},
    {"qwen2.5-0.5b", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, true},
    {"llama-3.2-1b", "llama", 2048, 8192, 16, 32, 8, 64, 128256, false},
};

struct matrix {
    const char *fmt; /* of its name, with the layer */
    uint32_t rows, cols;
    bool bias;
    char stem[64];
    int32_t *sum; /* [rows] of the weights that were made */
};

struct work {
    const struct shape *s;
    struct tft_gguf_writer *w;
    bool data; /* second run: the tensors' data instead of their descriptions */
    bool (*progress)(double done);
    bool stopped;
    uint64_t random;
    double done, all; /* bytes */
    char *panel;
};

static struct tft_str str(const char *s)
{
    return (struct tft_str){s, strlen(s)};
}

static void describe(struct work *k, const char *stem, const char *suffix, enum tft_dtype type,
                     uint32_t n_dims, uint64_t cols, uint64_t rows)
{
    char name[80];
    snprintf(name, sizeof name, "%s%s", stem, suffix);
    tft_gguf_put_tensor(k->w, str(name), type, n_dims, (const uint64_t[]){cols, rows});
}

static void random_panel(struct work *k, int8_t *panel, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        k->random ^= k->random << 13; /* xorshift64, Marsaglia 2003 */
        k->random ^= k->random >> 7;
        k->random ^= k->random << 17;
        memcpy(panel + i, &k->random, 8);
    }
    for (size_t i = 0; i < bytes; i++)
        panel[i] = panel[i] == -128 ? 0 : panel[i];
}

static void sum_rows(const int8_t *panel, size_t cols, int32_t *sum)
{
    memset(sum, 0, TFT_PANEL * sizeof *sum);
    for (size_t i = 0; i < TFT_PANEL * cols; i++)
        sum[i / TFT_QUAD % TFT_PANEL] += panel[i];
}

static void panels(struct work *k, struct matrix *x)
{
    if (!k->data) {
        describe(k, x->stem, ".weight", TFT_I8, 2, x->cols, x->rows);
        k->all += (double)x->rows * x->cols;
        return;
    }
    x->sum = calloc(x->rows, sizeof *x->sum);
    for (uint32_t i = 0; x->sum && i < x->rows && !k->stopped; i += TFT_PANEL) {
        random_panel(k, (int8_t *)k->panel, (size_t)TFT_PANEL * x->cols);
        sum_rows((int8_t *)k->panel, x->cols, x->sum + i);
        tft_gguf_put_data(k->w, k->panel, (size_t)TFT_PANEL * x->cols);
        k->done += (double)TFT_PANEL * x->cols;
        k->stopped = k->progress && !k->progress(k->done / k->all);
    }
}

static void vector(struct work *k, const char *stem, const char *suffix, uint32_t n, float value)
{
    if (!k->data)
        describe(k, stem, suffix, TFT_F32, 1, n, 1);
    for (uint32_t i = 0; k->data && i < n; i++)
        tft_gguf_put_data(k->w, &value, sizeof value);
}

/* Scales that keep the size of what is multiplied: uniform bytes have a standard deviation of
   73. */
static void beside(struct work *k, struct matrix *x)
{
    vector(k, x->stem, ".scale", x->rows, 1 / (73 * sqrtf((float)x->cols)));
    if (x->bias)
        vector(k, x->stem, ".bias", x->rows, 0.1f);
    if (!k->data)
        describe(k, x->stem, ".rowsum", TFT_I32, 1, x->rows, 1);
    else if (x->sum)
        tft_gguf_put_data(k->w, x->sum, x->rows * sizeof *x->sum);
    free(x->sum);
}

static void matrices(struct work *k, unsigned layer, struct matrix *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(x[i].stem, sizeof x[i].stem, x[i].fmt, layer);
        panels(k, &x[i]);
    }
    for (size_t i = 0; i < n; i++)
        beside(k, &x[i]);
}

static void norm(struct work *k, unsigned layer, const char *name)
{
    char stem[64];
    snprintf(stem, sizeof stem, "blk.%u.%s", layer, name);
    vector(k, stem, ".weight", k->s->width, 1);
}

/* Falls by a factor of 30,000 from a head's first channel to its last, so that at 2 bits on average
   some have 1 and some 4. */
static void importance(struct work *k)
{
    const struct shape *s = k->s;
    if (!k->data)
        tft_gguf_put_tensor(k->w, str(TFT_KEY_KV_IMPORTANCE), TFT_F32, 3,
                            (const uint64_t[]){s->head, s->kv_heads, s->layers});
    for (uint32_t i = 0; k->data && i < s->layers * s->kv_heads * s->head; i++) {
        float x = exp2f(-15.0f * (float)(i % s->head) / (float)s->head);
        tft_gguf_put_data(k->w, &x, sizeof x);
    }
}

static void tensors(struct work *k)
{
    const struct shape *s = k->s;
    uint32_t q = s->heads * s->head, kv = s->kv_heads * s->head;
    matrices(k, 0, &(struct matrix){.fmt = "token_embd", .rows = s->vocab, .cols = s->width}, 1);
    for (unsigned l = 0; l < s->layers && !k->stopped; l++) {
        struct matrix x[] = {
            {.fmt = "blk.%u.attn_q", .rows = q, .cols = s->width, .bias = s->bias},
            {.fmt = "blk.%u.attn_k", .rows = kv, .cols = s->width, .bias = s->bias},
            {.fmt = "blk.%u.attn_v", .rows = kv, .cols = s->width, .bias = s->bias},
            {.fmt = "blk.%u.attn_output", .rows = s->width, .cols = q},
            {.fmt = "blk.%u.ffn_gate", .rows = s->ffn, .cols = s->width},
            {.fmt = "blk.%u.ffn_up", .rows = s->ffn, .cols = s->width},
            {.fmt = "blk.%u.ffn_down", .rows = s->width, .cols = s->ffn},
        };
        matrices(k, l, x, sizeof x / sizeof *x);
        norm(k, l, "attn_norm");
        norm(k, l, "ffn_norm");
    }
    vector(k, "output_norm", ".weight", s->width, 1);
    importance(k);
}

static void put_u32(struct work *k, const char *key, uint32_t v)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", k->s->arch, key);
    tft_gguf_put_u32(k->w, full, v);
}

/* Every input within -4 .. 4: what comes out of a norm of ones is about normal. */
static void put_inputs(struct work *k)
{
    enum { MOST = 64 * TFT_LAYER_INPUTS + 1 };
    size_t n = (size_t)k->s->layers * TFT_LAYER_INPUTS + 1;
    float scale[MOST];
    uint8_t zero[MOST], range[MOST];
    for (size_t i = 0; i < n; i++) {
        scale[i] = 8.0f / 255;
        zero[i] = 128;
        range[i] = TFT_RANGE_STATIC;
    }
    tft_gguf_put_array(k->w, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, scale, n);
    tft_gguf_put_array(k->w, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, zero, n);
    tft_gguf_put_array(k->w, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, range, n);
}

static void values(struct work *k)
{
    const struct shape *s = k->s;
    tft_gguf_put_u32(k->w, "general.alignment", 64);
    tft_gguf_put_str(k->w, "general.architecture", str(s->arch));
    tft_gguf_put_str(k->w, "general.name", str(s->name));
    put_u32(k, "context_length", 32768); /* more than some have: what a cache does at depth can be
                                            seen */
    put_u32(k, "embedding_length", s->width);
    put_u32(k, "feed_forward_length", s->ffn);
    put_u32(k, "block_count", s->layers);
    put_u32(k, "attention.head_count", s->heads);
    put_u32(k, "attention.head_count_kv", s->kv_heads);
    char full[80];
    snprintf(full, sizeof full, "%s.attention.layer_norm_rms_epsilon", s->arch);
    tft_gguf_put_f32(k->w, full, 1e-5f);
    tft_gguf_put_u32(k->w, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_u32(k->w, TFT_KEY_VOCAB, s->vocab);
    tft_gguf_put_u32(k->w, TFT_KEY_HADAMARD, 128); /* as a model with --rotate o+down has it */
    put_inputs(k);
}

enum tft_status shape_write(const char *name, const char *path, bool (*progress)(double done),
                            struct tft_error *err)
{
    struct work k = {.progress = progress, .random = 0x9e3779b97f4a7c15};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            k.s = &shapes[i];
    if (!k.s)
        return TFT_ERR_ARG;
    enum tft_status status = tft_gguf_create(&k.w, path, err);
    if (status != TFT_OK)
        return status;
    k.panel = malloc((size_t)TFT_PANEL * (k.s->width > k.s->ffn ? k.s->width : k.s->ffn));
    values(&k);
    tensors(&k);
    k.data = true;
    if (k.panel)
        tensors(&k);
    free(k.panel);
    return tft_gguf_close(k.w, !k.stopped, err);
}
