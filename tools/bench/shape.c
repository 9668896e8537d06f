#include "shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shape_weights.h"

struct shape {
    const char *name, *arch;
    uint32_t width, ffn, layers, heads, kv_heads, head, vocab;
    bool bias;              /* biases of q, k and v */
    bool qk_norm;           /* norms of each head of q and k */
    bool post_norm;         /* norms after attention and feed-forward */
    uint32_t rot;           /* rotated numbers of a head; 0: all */
    uint32_t long_context;  /* RoPE has divisors for sessions of more tokens than this; 0: none */
    uint32_t window;        /* tokens of the window, in layers that have one; 0: no layer has */
    uint32_t period;        /* one layer of so many has no window, the last one; 0: all are alike */
    uint32_t wide_head;     /* numbers of a head in layers without a window, if there is a period */
    uint32_t shared;        /* the last layers, which use keys and values of earlier ones */
    uint32_t wide_ffn;      /* hidden activations of these; 0: ffn */
    uint32_t layer_embed;   /* numbers of a layer's own embedding; 0: layers have none */
    uint32_t experts, used; /* each expert has `ffn` hidden activations; 0: no experts */
    const char *mixers;     /* a letter for each layer, repeated: a(ttention), c(onvolution), d(elta
                               net), m(amba-2); NULL: all layers have attention */
    bool output_gate;       /* of attention: q has as many rows again */
    const char *ffn_norm, *out_norm; /* names of norms; NULL: the usual ones */
    enum tft_dtype type;    /* of the matrices, in an ordinary GGUF file; 0: a W8A8 file */
};

/* Sizes of LFM2's convolution and of Qwen3.5's delta nets; their heads have keys and values of one
   width. */
enum { CONV_TAPS = 3, DELTA_TAPS = 4, DELTA_HEADS = 16, DELTA_WIDTH = 128 };

/* Of Mamba-2 in Granite 4 H 1B: one group, heads of MAMBA_DIM numbers. */
enum { MAMBA_TAPS = 4, MAMBA_HEADS = 48, MAMBA_DIM = 64, MAMBA_STATE = 128 };

/* From the config.json of the models: HuggingFaceTB/SmolLM2-135M, Qwen/Qwen2.5-0.5B,
   meta-llama/Llama-3.2-1B, Qwen/Qwen3-0.6B, HuggingFaceTB/SmolLM3-3B,
   microsoft/Phi-4-mini-instruct, google/gemma-3-1b-it, google/gemma-2-2b-it;
   and of Gemma 4 E2B and E4B, Granite 3 1B A400M, Granite 4 H 1B, LFM2-1.2B, Qwen3.5-0.8B,
   Qwen3.5-2B, Bonsai 1.7B and Qwen3-30B-A3B. The embedding is also the head, which the last one has
   apart. */
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
    {"gemma-4-e2b", "gemma4", 1536, 6144, 35, 8, 1, 256, 262144, .qk_norm = true, .post_norm = true,
     .window = 512, .period = 5, .wide_head = 512, .shared = 20, .wide_ffn = 12288,
     .layer_embed = 256},
    {"gemma-4-e4b", "gemma4", 2560, 10240, 42, 8, 2, 256, 262144, .qk_norm = true,
     .post_norm = true, .window = 512, .period = 6, .wide_head = 512, .shared = 18,
     .layer_embed = 256},
    {"granite-3-1b-a400m", "granitemoe", 1024, 512, 24, 16, 8, 64, 49152, .experts = 32, .used = 8},
    {"qwen3-30b-a3b", "qwen3moe", 2048, 768, 48, 32, 4, 128, 151936, .qk_norm = true,
     .experts = 128, .used = 8},
    {"granite-4-h-1b", "granitehybrid", 1536, 4096, 40, 12, 4, 128, 100352, .mixers = "mmmmmammmm"},
    {"lfm2-1.2b", "lfm2", 2048, 8192, 16, 32, 8, 64, 65536, .qk_norm = true,
     .mixers = "ccaccaccacacacac", .out_norm = "token_embd_norm"},
    {"qwen3.5-0.8b", "qwen35", 1024, 3584, 24, 8, 2, 256, 248320, .qk_norm = true, .rot = 64,
     .mixers = "ddda", .output_gate = true, .ffn_norm = "post_attention_norm"},
    {"qwen3.5-2b", "qwen35", 2048, 6144, 24, 8, 2, 256, 248320, .qk_norm = true, .rot = 64,
     .mixers = "ddda", .output_gate = true, .ffn_norm = "post_attention_norm"},
    {"bonsai-1.7b", "qwen3", 2048, 6144, 28, 16, 8, 128, 151936, .qk_norm = true, .type = TFT_Q1_0},
};

static char mixer(const struct shape *s, unsigned layer)
{
    return s->mixers ? s->mixers[layer % strlen(s->mixers)] : 'a';
}

static bool has_mixer(const struct shape *s, char which)
{
    return s->mixers && strchr(s->mixers, which);
}

static bool has_window(const struct shape *s, unsigned layer)
{
    return s->period ? (layer + 1) % s->period : s->window;
}

/* Whether a layer has keys and values of its own. */
static bool has_kv(const struct shape *s, unsigned layer) { return layer < s->layers - s->shared; }

static uint32_t head_of(const struct shape *s, unsigned layer)
{
    return s->period && !has_window(s, layer) ? s->wide_head : s->head;
}

static uint32_t ffn_of(const struct shape *s, unsigned layer)
{
    return s->wide_ffn && !has_kv(s, layer) ? s->wide_ffn : s->ffn;
}

static void put_norm(struct shape_weights *w, unsigned layer, const char *norm, uint32_t n)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, norm);
    shape_vector(w, name, ".weight", n, 1);
}

static void put_norms(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    put_norm(w, layer, "attn_norm", s->width);
    put_norm(w, layer, s->ffn_norm ? s->ffn_norm : "ffn_norm", s->width);
    if (s->qk_norm && mixer(s, layer) == 'a') {
        put_norm(w, layer, "attn_q_norm", head_of(s, layer));
        if (has_kv(s, layer))
            put_norm(w, layer, "attn_k_norm", head_of(s, layer));
    }
    if (s->post_norm) {
        put_norm(w, layer, "post_attention_norm", s->width);
        put_norm(w, layer, "post_ffw_norm", s->width);
    }
}

/* The rows of a router are random, so that tokens go to all experts. */
static void put_router(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.ffn_gate_inp", layer);
    if (!w->data)
        shape_describe(w, name, ".weight", TFT_F32, 2, (const uint64_t[]){s->width, s->experts});
    for (uint32_t i = 0; w->data && i < s->experts * s->width; i += TFT_PANEL) {
        shape_fill(w, TFT_PANEL);
        for (size_t j = 0; j < TFT_PANEL; j++) {
            float x = (float)w->panel[j] / (73 * sqrtf((float)s->width));
            tft_gguf_put_data(w->gguf, &x, sizeof x);
        }
    }
}

/* The importance falls by a factor of 30,000 from the first channel of a head to the last, so that
   `mixed` keys with an average of 2 bits have channels of 1 to 4 bits. */
static void put_importance(struct shape_weights *w, const struct shape *s)
{
    uint64_t layers = 0, all = 0; /* layers with keys, and their channels */
    for (unsigned l = 0; l < s->layers; l++) {
        bool keys = mixer(s, l) == 'a' && has_kv(s, l);
        layers += keys;
        all += keys ? s->kv_heads * head_of(s, l) : 0;
    }
    if (!w->data)
        shape_describe(w, TFT_KEY_KV_IMPORTANCE, "", TFT_F32, s->period ? 1 : 3,
                       s->period ? &all : (const uint64_t[]){s->head, s->kv_heads, layers});
    for (unsigned l = 0; w->data && l < s->layers; l++) {
        uint32_t head = head_of(s, l),
                 n = mixer(s, l) == 'a' && has_kv(s, l) ? s->kv_heads * head : 0;
        for (uint32_t i = 0; i < n; i++) {
            float x = exp2f(-15.0f * (float)(i % head) / (float)head);
            tft_gguf_put_data(w->gguf, &x, sizeof x);
        }
    }
}

/* A row of the tables of the cache fisher, for channels of variance 1; losses fall as the
   importance does. Rows as in kv/fisher.h: mean, gain, the steps of 1 to 4 bits, the losses of 0 to
   4 bits (Max 1960, table II). */
static float fisher_number(const struct shape *s, unsigned row, uint32_t channel)
{
    static const float numbers[] = {0,    0,       1.596f,  0.9957f,  0.5860f, 0.3352f,
                                    1.0f, 0.3634f, 0.1188f, 0.03744f, 0.01154f};
    float x = numbers[row];
    if (row == 1)
        return 1 / (float)s->head;
    return row < 6 ? x : x * exp2f(-15.0f * (float)channel / (float)s->head);
}

/* Only where all layers have the same heads. */
static void put_fisher(struct shape_weights *w, const struct shape *s)
{
    enum { ROWS = 11 };
    static const char *const keys[] = {TFT_KEY_KV_FISHER_K, TFT_KEY_KV_FISHER_V};
    uint64_t layers = 0;
    for (unsigned l = 0; l < s->layers; l++)
        layers += mixer(s, l) == 'a' && has_kv(s, l);
    for (int side = 0; !s->period && side < 2; side++) {
        if (!w->data)
            shape_describe(w, keys[side], "", TFT_F32, 4,
                           (const uint64_t[]){s->head, ROWS, s->kv_heads, layers});
        for (uint64_t i = 0; w->data && i < layers * s->kv_heads * ROWS * s->head; i++) {
            float x = fisher_number(s, (unsigned)(i / s->head % ROWS), (uint32_t)(i % s->head));
            tft_gguf_put_data(w->gguf, &x, sizeof x);
        }
    }
}

/* Puts vectors of equal floats for a layer. */
static void put_floats(struct shape_weights *w, unsigned layer, const char *what, uint32_t rows,
                       uint32_t n, float value)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    shape_vectors(w, name, "", rows, n, value);
}

static void put_attention(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    uint32_t q = s->heads * head_of(s, layer), kv = s->kv_heads * head_of(s, layer);
    struct shape_matrix x[] = {
        {.format = "blk.%u.attn_q",
         .rows = s->output_gate ? 2 * q : q,
         .cols = s->width,
         .bias = s->bias},
        {.format = "blk.%u.attn_k", .rows = kv, .cols = s->width, .bias = s->bias},
        {.format = "blk.%u.attn_v", .rows = kv, .cols = s->width, .bias = s->bias},
        {.format = "blk.%u.attn_output", .rows = s->width, .cols = q},
    };
    if (!has_kv(s, layer))
        x[1] = x[3];
    shape_matrices(w, layer, x, has_kv(s, layer) ? 4 : 2);
}

/* The matrices of per-layer embeddings have types of GGUF files in all files. */
static void put_layer_embed(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.inp_gate", layer);
    shape_blocks(w, name, TFT_Q8_0, s->layer_embed, s->width);
    snprintf(name, sizeof name, "blk.%u.proj", layer);
    shape_blocks(w, name, TFT_Q8_0, s->width, s->layer_embed);
    put_norm(w, layer, "post_norm", s->width);
    put_norm(w, layer, "layer_output_scale", 1);
}

static void put_all_layer_embeds(struct shape_weights *w, const struct shape *s)
{
    uint32_t all = s->layers * s->layer_embed;
    shape_blocks(w, "per_layer_token_embd", TFT_Q4_0, s->vocab, all);
    shape_blocks(w, "per_layer_model_proj", TFT_Q8_0, all, s->width);
    shape_vector(w, "per_layer_proj_norm", ".weight", s->layer_embed, 1);
}

static void put_conv(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    struct shape_matrix x[] = {
        {.format = "blk.%u.shortconv.in_proj", .rows = 3 * s->width, .cols = s->width},
        {.format = "blk.%u.shortconv.out_proj", .rows = s->width, .cols = s->width},
    };
    shape_matrices(w, layer, x, sizeof x / sizeof *x);
    put_floats(w, layer, "shortconv.conv.weight", s->width, CONV_TAPS, 0.5f);
}

static void put_delta(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    uint32_t values = DELTA_HEADS * DELTA_WIDTH;
    struct shape_matrix x[] = {
        {.format = "blk.%u.attn_qkv", .rows = 3 * values, .cols = s->width},
        {.format = "blk.%u.ssm_alpha", .rows = DELTA_HEADS, .cols = s->width},
        {.format = "blk.%u.ssm_beta", .rows = DELTA_HEADS, .cols = s->width},
        {.format = "blk.%u.attn_gate", .rows = values, .cols = s->width},
        {.format = "blk.%u.ssm_out", .rows = s->width, .cols = values},
    };
    shape_matrices(w, layer, x, sizeof x / sizeof *x);
    put_floats(w, layer, "ssm_conv1d.weight", 3 * values, DELTA_TAPS, 0.5f);
    put_floats(w, layer, "ssm_a", 1, DELTA_HEADS, -1);
    put_floats(w, layer, "ssm_dt.bias", 1, DELTA_HEADS, 0);
    put_floats(w, layer, "ssm_norm.weight", 1, DELTA_WIDTH, 1);
}

static void put_mamba(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    uint32_t width = MAMBA_HEADS * MAMBA_DIM, channels = width + 2 * MAMBA_STATE;
    struct shape_matrix x[] = {
        {.format = "blk.%u.ssm_in", .rows = width + channels + MAMBA_HEADS, .cols = s->width},
        {.format = "blk.%u.ssm_out", .rows = s->width, .cols = width},
    };
    shape_matrices(w, layer, x, sizeof x / sizeof *x);
    put_floats(w, layer, "ssm_conv1d.weight", channels, MAMBA_TAPS, 0.5f);
    put_floats(w, layer, "ssm_conv1d.bias", 1, channels, 0);
    put_floats(w, layer, "ssm_a", MAMBA_HEADS, 1, -1);
    put_floats(w, layer, "ssm_d", MAMBA_HEADS, 1, 1);
    put_floats(w, layer, "ssm_dt.bias", 1, MAMBA_HEADS, 0);
    put_floats(w, layer, "ssm_norm.weight", 1, width, 1);
}

static void put_ffn(struct shape_weights *w, const struct shape *s, unsigned layer)
{
    uint32_t ffn = ffn_of(s, layer);
    struct shape_matrix x[] = {
        {.format = "blk.%u.ffn_gate", .rows = ffn, .cols = s->width},
        {.format = "blk.%u.ffn_up", .rows = ffn, .cols = s->width},
        {.format = "blk.%u.ffn_down", .rows = s->width, .cols = ffn},
    };
    static const char *const of_experts[] = {"blk.%u.ffn_gate_exps", "blk.%u.ffn_up_exps",
                                             "blk.%u.ffn_down_exps"};
    for (size_t i = 0; i < 3 && s->experts; i++) {
        x[i].format = of_experts[i];
        x[i].experts = s->experts;
    }
    if (s->experts)
        put_router(w, s, layer);
    shape_matrices(w, layer, x, sizeof x / sizeof *x);
}

static void put_tensors(struct shape_weights *w, const struct shape *s)
{
    struct shape_matrix embed = {.format = "token_embd", .rows = s->vocab, .cols = s->width};
    shape_matrices(w, 0, &embed, 1);
    for (unsigned l = 0; l < s->layers && !w->stopped; l++) {
        switch (mixer(s, l)) {
        case 'c': put_conv(w, s, l); break;
        case 'd': put_delta(w, s, l); break;
        case 'm': put_mamba(w, s, l); break;
        default: put_attention(w, s, l); break;
        }
        put_ffn(w, s, l);
        put_norms(w, s, l);
        if (s->layer_embed)
            put_layer_embed(w, s, l);
    }
    if (s->layer_embed)
        put_all_layer_embeds(w, s);
    shape_vector(w, s->out_norm ? s->out_norm : "output_norm", ".weight", s->width, 1);
    if (s->long_context) {
        shape_vector(w, "rope_factors_short", ".weight", s->rot / 2, 1);
        shape_vector(w, "rope_factors_long", ".weight", s->rot / 2, 2);
    }
    if (!s->type) {
        put_importance(w, s);
        put_fisher(w, s);
    }
}

/* The number "ARCH.key". */
static void put_u32(struct shape_weights *w, const struct shape *s, const char *key, uint32_t v)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", s->arch, key);
    tft_gguf_put_u32(w->gguf, full, v);
}

/* The static range of each input is -4 .. 4: the output of a norm with weights of 1 is about
   normally distributed. Dynamic ranges do not read it. */
static void put_inputs(struct shape_weights *w, const struct shape *s, enum tft_range kind)
{
    enum { MOST = 64 * TFT_LAYER_INPUTS + 1 };
    size_t n = (size_t)s->layers * TFT_LAYER_INPUTS + 1;
    float scale[MOST];
    uint8_t zero[MOST], range[MOST];
    for (size_t i = 0; i < n; i++) {
        scale[i] = 8.0f / 255;
        zero[i] = 128;
        range[i] = (uint8_t)kind;
    }
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, scale, n);
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, zero, n);
    tft_gguf_put_array(w->gguf, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, range, n);
}

/* Puts the number of KV heads: one number, or one for each layer, 0 in layers with a convolution
   or Mamba-2. */
static void put_kv_heads(struct shape_weights *w, const struct shape *s)
{
    enum { MOST = 64 };
    int32_t heads[MOST];
    char key[80];
    if (!has_mixer(s, 'c') && !has_mixer(s, 'm')) {
        put_u32(w, s, "attention.head_count_kv", s->kv_heads);
        return;
    }
    for (unsigned l = 0; l < s->layers; l++)
        heads[l] = mixer(s, l) == 'a' ? (int32_t)s->kv_heads : 0;
    snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch);
    tft_gguf_put_array(w->gguf, key, TFT_VALUE_I32, heads, s->layers);
}

/* What layers of several kinds have: arrays with an element for each layer, and the sizes of each
   kind. */
static void put_layers(struct shape_weights *w, const struct shape *s)
{
    enum { MOST = 64 };
    uint32_t ffn[MOST];
    bool window[MOST];
    char key[80];
    for (unsigned l = 0; l < s->layers; l++) {
        ffn[l] = ffn_of(s, l);
        window[l] = has_window(s, l);
    }
    snprintf(key, sizeof key, "%s.feed_forward_length", s->arch);
    tft_gguf_put_array(w->gguf, key, TFT_VALUE_U32, ffn, s->layers);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch);
    tft_gguf_put_array(w->gguf, key, TFT_VALUE_BOOL, window, s->layers);
    put_u32(w, s, "attention.key_length", s->wide_head);
    put_u32(w, s, "attention.value_length", s->wide_head);
    put_u32(w, s, "attention.key_length_swa", s->head);
    put_u32(w, s, "attention.value_length_swa", s->head);
    put_u32(w, s, "rope.dimension_count_swa", s->head);
    put_u32(w, s, "attention.shared_kv_layers", s->shared);
    put_u32(w, s, "embedding_length_per_layer_input", s->layer_embed);
}

static void put_state(struct shape_weights *w, const struct shape *s)
{
    bool mamba = has_mixer(s, 'm'), delta = has_mixer(s, 'd');
    if (has_mixer(s, 'c'))
        put_u32(w, s, "shortconv.l_cache", CONV_TAPS);
    if (delta)
        put_u32(w, s, "full_attention_interval", (uint32_t)strlen(s->mixers));
    if (!mamba && !delta)
        return;
    put_u32(w, s, "ssm.conv_kernel", mamba ? MAMBA_TAPS : DELTA_TAPS);
    put_u32(w, s, "ssm.inner_size", mamba ? MAMBA_HEADS * MAMBA_DIM : DELTA_HEADS * DELTA_WIDTH);
    put_u32(w, s, "ssm.state_size", mamba ? MAMBA_STATE : DELTA_WIDTH);
    put_u32(w, s, "ssm.time_step_rank", mamba ? MAMBA_HEADS : DELTA_HEADS);
    put_u32(w, s, "ssm.group_count", mamba ? 1 : DELTA_HEADS);
}

static void put_values(struct shape_weights *w, const struct shape *s, enum tft_range kind)
{
    char epsilon[80];
    tft_gguf_put_u32(w->gguf, "general.alignment", 64);
    tft_gguf_put_str(w->gguf, "general.architecture", shape_str(s->arch));
    tft_gguf_put_str(w->gguf, "general.name", shape_str(s->name));
    /* longer than in some of the models, to measure a cache at depth */
    put_u32(w, s, "context_length", 32768);
    put_u32(w, s, "embedding_length", s->width);
    put_u32(w, s, "block_count", s->layers);
    put_u32(w, s, "attention.head_count", s->heads);
    put_kv_heads(w, s);
    put_state(w, s);
    if (s->experts) {
        put_u32(w, s, "expert_count", s->experts);
        put_u32(w, s, "expert_used_count", s->used);
    }
    if (s->period) {
        put_layers(w, s);
    } else {
        put_u32(w, s, "feed_forward_length", s->ffn);
        put_u32(w, s, "attention.key_length", s->head);
        put_u32(w, s, "attention.value_length", s->head);
    }
    if (s->rot)
        put_u32(w, s, "rope.dimension_count", s->rot);
    if (s->long_context)
        put_u32(w, s, "rope.scaling.original_context_length", s->long_context);
    if (s->window)
        put_u32(w, s, "attention.sliding_window", s->window);
    snprintf(epsilon, sizeof epsilon, "%s.attention.layer_norm_rms_epsilon", s->arch);
    tft_gguf_put_f32(w->gguf, epsilon, 1e-5f);
    if (s->type)
        return;
    tft_gguf_put_u32(w->gguf, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_u32(w->gguf, TFT_KEY_VOCAB, s->vocab);
    tft_gguf_put_u32(w->gguf, TFT_KEY_HADAMARD, 128); /* as in a model with --rotate o+down */
    put_inputs(w, s, kind);
    if (w->low)
        tft_gguf_put_array(w->gguf, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, w->codes, w->n_tensor);
}

/* NULL: there is none. */
static const struct shape *shape_named(const char *name)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

bool shape_is_known(const char *name) { return shape_named(name); }

bool shape_has_type(const char *name)
{
    const struct shape *s = shape_named(name);
    return s && s->type;
}

uint32_t shape_least_layers(const char *name)
{
    const struct shape *s = shape_named(name);
    uint32_t n = 1;
    while (mixer(s, n - 1) != 'a')
        n++;
    return n;
}

/* Columns of the longest row of a matrix. */
static uint32_t longest_row(const struct shape *s)
{
    uint32_t head = s->wide_head ? s->wide_head : s->head,
             all[] = {s->width, s->ffn, s->wide_ffn, s->heads * head}, n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        n = all[i] > n ? all[i] : n;
    return n;
}

enum tft_status shape_write(const struct shape_opts *o, const char *path, struct tft_error *err)
{
    static const enum tft_range ranges[] = {TFT_RANGE_STATIC, TFT_RANGE_TOKEN};
    struct shape_weights w = {.progress = o->progress, .random = 0x9e3779b97f4a7c15};
    const struct shape *named = shape_named(o->name), *s = named;
    struct shape few;
    const struct tft_format *format =
        o->bits < 8 ? tft_format_low(o->bits, SHAPE_GROUP) : &tft_format_i8;
    if (!s || !format || o->bits > 8 || (s->type && (o->bits < 8 || o->range != SHAPE_STATIC)))
        return TFT_ERR_ARG;
    w.low = format->low;
    if (o->layers && o->layers < named->layers) {
        uint32_t own = named->layers - named->shared;
        few = *named;
        few.layers = o->layers;
        few.shared = o->layers > own ? o->layers - own : 0;
        s = &few;
    }
    w.type = s->type;
    enum tft_status status = tft_gguf_create(&w.gguf, path, err);
    if (status != TFT_OK)
        return status;
    w.panel = malloc((size_t)TFT_PANEL * longest_row(s));
    put_tensors(&w, s);
    w.counted = true;
    w.all = 0;
    put_values(&w, s, ranges[o->range]);
    put_tensors(&w, s);
    w.data = true;
    if (w.panel)
        put_tensors(&w, s);
    free(w.panel);
    return tft_gguf_close(w.gguf, !w.stopped, err);
}
