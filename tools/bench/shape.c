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
    bool bias;       /* of q, k and v */
    bool qk_norm;    /* of each head */
    bool post_norm;  /* behind attention and feed-forward */
    uint32_t rot;    /* rotated numbers of a head; 0: all */
    uint32_t long_context; /* RoPE has divisors for sessions of more tokens than this; 0: none */
    uint32_t window; /* of the layers that have one; 0: none has */
    uint32_t experts, used; /* each expert has `ffn` hidden activations; 0: there is none */
};

/* From the config.json of the models: HuggingFaceTB/SmolLM2-135M, Qwen/Qwen2.5-0.5B,
   meta-llama/Llama-3.2-1B, Qwen/Qwen3-0.6B, HuggingFaceTB/SmolLM3-3B,
   microsoft/Phi-4-mini-instruct, google/gemma-3-1b-it, google/gemma-2-2b-it;
   and of Granite 3 1B A400M. In all of them, the embedding is also the head. */
static const struct shape shapes[] = {
    {"smollm2-135m", "llama", 576, 1536, 30, 9, 3, 64, 49152, .bias = false},
    {"qwen2.5-0.5b", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, .bias = true},
    {"llama-3.2-1b", "llama", 2048, 8192, 16, 32, 8, 64, 128256, .bias = false},
    {"qwen3-0.6b", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, .qk_norm = true},
    {"smollm3-3b", "smollm3", 2048, 11008, 36, 16, 4, 128, 128256, .bias = false},
    {"phi-4-mini", "phi3", 3072, 8192, 32, 24, 8, 128, 200064, .rot = 96, .long_context = 4096},
    {"gemma-3-1b", "gemma3", 1152, 6912, 26, 4, 1, 256, 262144, .qk_norm = true, .post_norm = true,
     .window = 512},
    {"gemma-2-2b", "gemma2", 2304, 9216, 26, 8, 4, 256, 256000, .post_norm = true, .window = 4096},
    {"granite-3-1b-a400m", "granitemoe", 1024, 512, 24, 16, 8, 64, 49152, .experts = 32, .used = 8},
};

struct matrix {
    const char *format; /* of its name, with the layer's number */
    uint32_t rows, cols;
    bool bias;
    uint32_t experts; /* so many matrices of `rows` rows; 0: it is one */
    char name[64];
    int32_t *sum; /* [all rows] the sum of each row's weights */
};

enum { MOST_TENSORS = 2048 };

/* Three runs over all tensors: the first counts them, the second writes their descriptions, the
   third their data. */
struct shape_writer {
    const struct shape *s;
    const struct tft_low *low; /* how weights are held as codes; NULL: they are int8 */
    enum tft_range range;      /* of every input */
    struct tft_gguf_writer *gguf;
    bool counted; /* the second run and the third */
    bool data;    /* the third run */
    size_t n_tensor;
    int32_t codes[MOST_TENSORS]; /* [n_tensor] TFT_KEY_WEIGHT_CODES */
    bool (*progress)(double done);
    bool stopped;
    uint64_t random;
    double done, all; /* bytes of weights */
    int8_t *panel;    /* [TFT_PANEL, the longest row] scratch */
};

static struct tft_str str(const char *s)
{
    return (struct tft_str){s, strlen(s)};
}

static void describe(struct shape_writer *w, const char *name, const char *suffix,
                     enum tft_dtype type, uint32_t n_dims, const uint64_t *ne)
{
    char full[80];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    if (w->counted)
        tft_gguf_put_tensor(w->gguf, str(full), type, n_dims, ne);
    else if (w->n_tensor < MOST_TENSORS)
        w->n_tensor++;
}

/* bytes: a multiple of 8. */
static void fill_panel(struct shape_writer *w, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        w->random ^= w->random << 13; /* xorshift64, Marsaglia 2003 */
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        memcpy(w->panel + i, &w->random, 8);
    }
    for (size_t i = 0; i < bytes; i++)
        w->panel[i] = w->panel[i] == -128 ? 0 : w->panel[i];
}

static void sum_rows(const int8_t *panel, size_t cols, int32_t *sum)
{
    memset(sum, 0, TFT_PANEL * sizeof *sum);
    for (size_t i = 0; i < TFT_PANEL * cols; i++)
        sum[i / TFT_QUAD % TFT_PANEL] += panel[i];
}

static int zero(const struct tft_low *low)
{
    return (int)tft_bits_levels(low->bits) / 2;
}

/* Random codes are there already: replaces the bytes of s and z, and sums the rows. */
static void fill_codes(struct shape_writer *w, size_t cols, int32_t *sum)
{
    const struct tft_low *low = w->low;
    uint8_t *at = (uint8_t *)w->panel, code[TFT_LOW_MAX_GROUP * TFT_PANEL];
    for (size_t i = 0; i < tft_low_groups(low, cols); i++, at += tft_low_group_bytes(low)) {
        int32_t of_codes[TFT_PANEL] = {0};
        tft_codes_unpack(code, at + TFT_PANEL, low->bits, low->group / TFT_QUAD);
        for (size_t j = 0; j < low->group; j++)
            for (size_t r = 0; r < TFT_PANEL; r++)
                of_codes[r] += code[j / TFT_QUAD * TFT_QUAD_CODES + r * TFT_QUAD + j % TFT_QUAD];
        for (size_t r = 0; r < TFT_PANEL; r++) {
            int s = 1 + at[r] % TFT_LOW_MAX_SCALE;
            at[r] = (uint8_t)(s | zero(low) << 4);
            sum[r] += s * (of_codes[r] - low->group * zero(low));
        }
    }
}

/* Bytes of a panel of 16 rows. */
static size_t panel_bytes(const struct shape_writer *w, size_t cols)
{
    return w->low ? tft_low_panel(w->low, cols) : TFT_PANEL * cols;
}

static uint32_t all_rows(const struct matrix *x)
{
    return x->rows * (x->experts ? x->experts : 1);
}

/* The weights of a matrix. */
static void put_weights(struct shape_writer *w, struct matrix *x)
{
    size_t bytes = panel_bytes(w, x->cols);
    if (!w->data) {
        if (w->low && !w->counted && w->n_tensor < MOST_TENSORS)
            w->codes[w->n_tensor] = (w->low->bits == TFT_BITS_4   ? 4
                                     : w->low->bits == TFT_BITS_3 ? 3
                                                                  : 2) +
                                    256 * w->low->group;
        const uint64_t of_codes[] = {bytes, x->rows / TFT_PANEL, x->experts},
                       of_int8[] = {x->cols, x->rows, x->experts};
        describe(w, x->name, ".weight", TFT_I8, x->experts ? 3 : 2, w->low ? of_codes : of_int8);
        w->all += (double)bytes * (all_rows(x) / TFT_PANEL);
        return;
    }
    x->sum = calloc(all_rows(x), sizeof *x->sum);
    for (uint32_t i = 0; x->sum && i < all_rows(x) && !w->stopped; i += TFT_PANEL) {
        fill_panel(w, bytes);
        if (w->low)
            fill_codes(w, x->cols, x->sum + i);
        else
            sum_rows(w->panel, x->cols, x->sum + i);
        tft_gguf_put_data(w->gguf, w->panel, bytes);
        w->done += (double)bytes;
        w->stopped = w->progress && !w->progress(w->done / w->all);
    }
}

/* rows vectors of n equal numbers. */
static void put_vectors(struct shape_writer *w, const char *name, const char *suffix, uint32_t rows,
                        uint32_t n, float value)
{
    if (!w->data)
        describe(w, name, suffix, TFT_F32, rows > 1 ? 2 : 1, (const uint64_t[]){n, rows});
    for (uint32_t i = 0; w->data && i < rows * n; i++)
        tft_gguf_put_data(w->gguf, &value, sizeof value);
}

static void put_vector(struct shape_writer *w, const char *name, const char *suffix, uint32_t n,
                       float value)
{
    put_vectors(w, name, suffix, 1, n, value);
}

/* The standard deviation of the weights: uniform int8 numbers, or the product of s = 1 .. 15 and
   uniform codes. */
static float deviation(const struct tft_low *low)
{
    return !low                      ? 73.0f
           : low->bits == TFT_BITS_4 ? 42.0f
           : low->bits == TFT_BITS_3 ? 21.0f
                                     : 11.0f;
}

/* The scales, bias and row sums of a matrix. The scales make the output about as large as the
   input. */
static void put_scales(struct shape_writer *w, struct matrix *x)
{
    uint32_t experts = x->experts ? x->experts : 1;
    put_vectors(w, x->name, ".scale", experts, x->rows,
                1 / (deviation(w->low) * sqrtf((float)x->cols)));
    if (x->bias)
        put_vector(w, x->name, ".bias", x->rows, 0.1f);
    if (!w->data)
        describe(w, x->name, ".rowsum", TFT_I32, experts > 1 ? 2 : 1,
                 (const uint64_t[]){x->rows, experts});
    else if (x->sum)
        tft_gguf_put_data(w->gguf, x->sum, all_rows(x) * sizeof *x->sum);
    free(x->sum);
}

/* x: [n] */
static void put_matrices(struct shape_writer *w, unsigned layer, struct matrix *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(x[i].name, sizeof x[i].name, x[i].format, layer);
        put_weights(w, &x[i]);
    }
    for (size_t i = 0; i < n; i++)
        put_scales(w, &x[i]);
}

static void put_norm(struct shape_writer *w, unsigned layer, const char *norm, uint32_t n)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, norm);
    put_vector(w, name, ".weight", n, 1);
}

static void put_norms(struct shape_writer *w, unsigned layer)
{
    const struct shape *s = w->s;
    put_norm(w, layer, "attn_norm", s->width);
    put_norm(w, layer, "ffn_norm", s->width);
    if (s->qk_norm) {
        put_norm(w, layer, "attn_q_norm", s->head);
        put_norm(w, layer, "attn_k_norm", s->head);
    }
    if (s->post_norm) {
        put_norm(w, layer, "post_attention_norm", s->width);
        put_norm(w, layer, "post_ffw_norm", s->width);
    }
}

/* The rows of a router are random, so that tokens go to all experts. */
static void put_router(struct shape_writer *w, unsigned layer)
{
    const struct shape *s = w->s;
    char name[64];
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp", layer);
    if (!w->data)
        describe(w, name, ".weight", TFT_F32, 2, (const uint64_t[]){s->width, s->experts});
    for (uint32_t i = 0; w->data && i < s->experts * s->width; i += TFT_PANEL) {
        fill_panel(w, TFT_PANEL);
        for (size_t j = 0; j < TFT_PANEL; j++) {
            float x = (float)w->panel[j] / (73 * sqrtf((float)s->width));
            tft_gguf_put_data(w->gguf, &x, sizeof x);
        }
    }
}

/* The importance falls by a factor of 30,000 from the first channel of a head to the last, so that
   `mixed` keys with an average of 2 bits have channels of 1 to 4 bits. */
static void put_importance(struct shape_writer *w)
{
    const struct shape *s = w->s;
    if (!w->data)
        describe(w, TFT_KEY_KV_IMPORTANCE, "", TFT_F32, 3,
                 (const uint64_t[]){s->head, s->kv_heads, s->layers});
    for (uint32_t i = 0; w->data && i < s->layers * s->kv_heads * s->head; i++) {
        float x = exp2f(-15.0f * (float)(i % s->head) / (float)s->head);
        tft_gguf_put_data(w->gguf, &x, sizeof x);
    }
}

static void put_tensors(struct shape_writer *w)
{
    const struct shape *s = w->s;
    uint32_t q = s->heads * s->head, kv = s->kv_heads * s->head;
    put_matrices(w, 0, &(struct matrix){.format = "token_embd", .rows = s->vocab, .cols = s->width},
                 1);
    for (unsigned l = 0; l < s->layers && !w->stopped; l++) {
        struct matrix x[] = {
            {.format = "blk.%u.attn_q", .rows = q, .cols = s->width, .bias = s->bias},
            {.format = "blk.%u.attn_k", .rows = kv, .cols = s->width, .bias = s->bias},
            {.format = "blk.%u.attn_v", .rows = kv, .cols = s->width, .bias = s->bias},
            {.format = "blk.%u.attn_output", .rows = s->width, .cols = q},
            {.format = "blk.%u.ffn_gate", .rows = s->ffn, .cols = s->width},
            {.format = "blk.%u.ffn_up", .rows = s->ffn, .cols = s->width},
            {.format = "blk.%u.ffn_down", .rows = s->width, .cols = s->ffn},
        };
        static const char *const of_experts[] = {
            "blk.%u.ffn_gate_exps", "blk.%u.ffn_up_exps", "blk.%u.ffn_down_exps"};
        for (size_t i = 0; i < 3 && s->experts; i++) {
            x[4 + i].format = of_experts[i];
            x[4 + i].experts = s->experts;
        }
        if (s->experts)
            put_router(w, l);
        put_matrices(w, l, x, sizeof x / sizeof *x);
        put_norms(w, l);
    }
    put_vector(w, "output_norm", ".weight", s->width, 1);
    if (s->long_context) {
        put_vector(w, "rope_factors_short", ".weight", s->rot / 2, 1);
        put_vector(w, "rope_factors_long", ".weight", s->rot / 2, 2);
    }
    put_importance(w);
}

/* The number "ARCH.key". */
static void put_u32(struct shape_writer *w, const char *key, uint32_t v)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", w->s->arch, key);
    tft_gguf_put_u32(w->gguf, full, v);
}

/* The static range of each input is -4 .. 4: the output of a norm with weights of 1 is about
   normally distributed. Dynamic ranges do not read it. */
static void put_inputs(struct shape_writer *w)
{
    enum { MOST = 64 * TFT_LAYER_INPUTS + 1 };
    size_t n = (size_t)w->s->layers * TFT_LAYER_INPUTS + 1;
    float scale[MOST];
    uint8_t zero[MOST], range[MOST];
    for (size_t i = 0; i < n; i++) {
        scale[i] = 8.0f / 255;
        zero[i] = 128;
        range[i] = (uint8_t)w->range;
    }
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, scale, n);
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, zero, n);
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, range, n);
}

static void put_values(struct shape_writer *w)
{
    const struct shape *s = w->s;
    char epsilon[80];
    tft_gguf_put_u32(w->gguf, "general.alignment", 64);
    tft_gguf_put_str(w->gguf, "general.architecture", str(s->arch));
    tft_gguf_put_str(w->gguf, "general.name", str(s->name));
    /* longer than some of the models have it, to measure a cache at depth */
    put_u32(w, "context_length", 32768);
    put_u32(w, "embedding_length", s->width);
    put_u32(w, "feed_forward_length", s->ffn);
    put_u32(w, "block_count", s->layers);
    put_u32(w, "attention.head_count", s->heads);
    put_u32(w, "attention.head_count_kv", s->kv_heads);
    if (s->experts) {
        put_u32(w, "expert_count", s->experts);
        put_u32(w, "expert_used_count", s->used);
    }
    put_u32(w, "attention.key_length", s->head);
    put_u32(w, "attention.value_length", s->head);
    if (s->rot)
        put_u32(w, "rope.dimension_count", s->rot);
    if (s->long_context)
        put_u32(w, "rope.scaling.original_context_length", s->long_context);
    if (s->window)
        put_u32(w, "attention.sliding_window", s->window);
    snprintf(epsilon, sizeof epsilon, "%s.attention.layer_norm_rms_epsilon", s->arch);
    tft_gguf_put_f32(w->gguf, epsilon, 1e-5f);
    tft_gguf_put_u32(w->gguf, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_u32(w->gguf, TFT_KEY_VOCAB, s->vocab);
    tft_gguf_put_u32(w->gguf, TFT_KEY_HADAMARD, 128); /* as in a model with --rotate o+down */
    put_inputs(w);
    if (w->low)
        tft_gguf_put_array(w->gguf, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, w->codes, w->n_tensor);
}

enum tft_status shape_write(const struct shape_opts *o, const char *path, struct tft_error *err)
{
    struct shape_writer w = {
        .range = o->range, .progress = o->progress, .random = 0x9e3779b97f4a7c15};
    const struct tft_format *format =
        o->bits < 8 ? tft_format_low(o->bits, SHAPE_GROUP) : &tft_format_i8;
    if (!format || o->bits > 8)
        return TFT_ERR_ARG;
    w.low = format->low;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, o->name) == 0)
            w.s = &shapes[i];
    if (!w.s)
        return TFT_ERR_ARG;
    enum tft_status status = tft_gguf_create(&w.gguf, path, err);
    if (status != TFT_OK)
        return status;
    w.panel = malloc((size_t)TFT_PANEL * (w.s->width > w.s->ffn ? w.s->width : w.s->ffn));
    put_tensors(&w);
    w.counted = true;
    w.all = 0;
    put_values(&w);
    put_tensors(&w);
    w.data = true;
    if (w.panel)
        put_tensors(&w);
    free(w.panel);
    return tft_gguf_close(w.gguf, !w.stopped, err);
}
