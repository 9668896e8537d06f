#include "toy_inside.h"

#include <stdio.h>
#include <string.h>

#include "file/file.h"
#include "simd/half.h"
#include "port/port.h"
#include "unsynced.h"

/* Tests of threads need teams, however few CPUs there are. */
__attribute__((constructor)) static void let_threads_crowd(void)
{
    tft_port_crowds = true;
}

static uint64_t next(uint64_t *seed) /* SplitMix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* [-1, 1), a multiple of 2^-23, so that it and its products with powers of two are exact floats. */
static float uniform(uint64_t *seed)
{
    return (float)((int32_t)(next(seed) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Where a block has its factor d and the minimum m, and the m for a mean of about 0. The other
   bytes of a block may have any value. */
static const struct field {
    enum tft_dtype type;
    int d, m; /* bytes; -1: none */
    float min;
} fields[] = {
    {TFT_Q4_0, 0, -1, 0},     {TFT_Q4_1, 0, 2, -7.5f},  {TFT_Q5_0, 0, -1, 0},
    {TFT_Q5_1, 0, 2, -15.5f}, {TFT_Q8_0, 0, -1, 0},     {TFT_IQ4_NL, 0, -1, 0},
    {TFT_Q2_K, 80, 82, 1.5f}, {TFT_Q3_K, 108, -1, 0},   {TFT_Q4_K, 0, 2, 7.5f},
    {TFT_Q5_K, 0, 2, 15.5f},  {TFT_Q6_K, 208, -1, 0},   {TFT_IQ4_XS, 0, -1, 0},
    {TFT_IQ2_XXS, 0, -1, 0},  {TFT_IQ2_XS, 0, -1, 0},   {TFT_IQ2_S, 0, -1, 0},
    {TFT_IQ3_XXS, 0, -1, 0},  {TFT_IQ3_S, 0, -1, 0},    {TFT_TQ1_0, 52, -1, 0},
    {TFT_TQ2_0, 64, -1, 0},   {TFT_Q1_0, 0, -1, 0},     {TFT_Q2_0, 0, -1, 0},
    {TFT_IQ1_S, 0, -1, 0},
};

static void put_half(unsigned char *p, float x)
{
    uint16_t h = tft_f32_to_f16(x);
    p[0] = (unsigned char)h;
    p[1] = (unsigned char)(h >> 8);
}

void toy_block(unsigned char *block, enum tft_dtype type, uint64_t *seed, float spread)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    float x[256], sum = 0;
    for (uint32_t i = 0; i < info->bytes; i++)
        block[i] = (unsigned char)(next(seed) >> 32);
    if (type == TFT_MXFP4) { /* 2^(e - 127) times at most 6 */
        block[0] = 127;
        for (float most = 6; most > spread; most /= 2)
            block[0]--;
        return;
    }
    if (type == TFT_NVFP4) { /* scales of 4 exponent bits, bias 7, times at most 6 */
        for (int g = 0; g < 4; g++) {
            block[g] = (unsigned char)(7 << 3 | (block[g] & 7));
            for (float most = 12; most > spread && block[g] >= 8; most /= 2)
                block[g] -= 8;
        }
        return;
    }
    if (type == TFT_IQ1_M) { /* the 16 bits of d are the high nibbles of bytes 49, 51, 53, 55 */
        uint16_t d = tft_f32_to_f16(spread / 16);
        for (int k = 0; k < 4; k++)
            block[49 + 2 * k] = (unsigned char)((block[49 + 2 * k] & 15) | (d >> 4 * k & 15) << 4);
        return;
    }
    const struct field *f = fields;
    while (f->type != type)
        f++;
    put_half(block + f->d, 1);
    if (f->m >= 0)
        put_half(block + f->m, f->min);
    info->to_f32(x, block, info->block);
    for (uint32_t i = 0; i < info->block; i++)
        sum += x[i] < 0 ? -x[i] : x[i];
    float d = spread / 2 / (sum / (float)info->block + 1e-3f);
    put_half(block + f->d, d);
    if (f->m >= 0)
        put_half(block + f->m, d * f->min);
}

struct writer {
    struct tft_gguf_writer *w;
    const struct toy *t;
    bool data; /* false: describe the tensors; true, the second run: write their data */
    uint64_t seed;
};

/* Writes n numbers, uniform in mean +- spread. */
static void put_rows(struct writer *w, enum tft_dtype type, uint64_t n, float mean, float spread)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = mean + uniform(&w->seed) * spread;
        uint16_t h = type == TFT_F16 ? tft_f32_to_f16(x) : tft_f32_to_bf16(x);
        if (type == TFT_F32) {
            tft_gguf_put_data(w->w, &x, sizeof x);
        } else if (type == TFT_F16 || type == TFT_BF16) {
            tft_gguf_put_data(w->w, &h, sizeof h);
        } else if (type != TFT_Q8_0) {
            const struct tft_dtype_info *info = tft_dtype_info(type);
            unsigned char block[256];
            if (i % info->block == 0) {
                toy_block(block, type, &w->seed, spread);
                tft_gguf_put_data(w->w, block, info->bytes);
            }
        } else if (i % 32 == 0) { /* a block: f16 scale, 32 integers */
            uint16_t scale = tft_f32_to_f16(spread / 127);
            int8_t q[32];
            for (int j = 0; j < 32; j++)
                q[j] = (int8_t)(uniform(&w->seed) * 127);
            tft_gguf_put_data(w->w, &scale, sizeof scale);
            tft_gguf_put_data(w->w, q, sizeof q);
        }
    }
}

/* fmt: the name, with %u for the layer */
static void tensor(struct writer *w, const char *fmt, unsigned layer, enum tft_dtype type,
                   uint32_t rows, uint32_t cols, float mean, float spread)
{
    if (w->data) {
        put_rows(w, type, (uint64_t)rows * cols, mean, spread);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, fmt, layer);
    tft_gguf_put_tensor(w->w, str(name), type, rows > 1 ? 2 : 1, (const uint64_t[]){cols, rows});
}

/* Entries of about sqrt(2 / cols) keep activations from growing or vanishing. */
static void matrix(struct writer *w, const char *fmt, unsigned layer, uint32_t rows, uint32_t cols)
{
    float spread = 1;
    while (spread * spread * (float)cols > 8)
        spread /= 2;
    bool floats = fmt[0] == 'b' && layer < 32 && w->t->floats >> layer & 1; /* blk.%u... */
    tensor(w, fmt, layer, floats ? TFT_F32 : w->t->type, rows, cols, 0, spread);
}

static void vector(struct writer *w, const char *fmt, unsigned layer, uint32_t n, float mean)
{
    tensor(w, fmt, layer, TFT_F32, 1, n, mean, 0.5f);
}

static void gpt2_tensors(struct writer *w)
{
    const struct toy *t = w->t;
    uint32_t d = t->n_embd, q = t->n_head * t->head_dim, kv = t->n_head_kv * t->head_dim;
    matrix(w, "position_embd.weight", 0, t->n_ctx, d);
    for (unsigned l = 0; l < t->n_layer; l++) {
        vector(w, "blk.%u.attn_norm.weight", l, d, 1);
        vector(w, "blk.%u.attn_norm.bias", l, d, 0);
        matrix(w, "blk.%u.attn_qkv.weight", l, q + 2 * kv, d);
        vector(w, "blk.%u.attn_qkv.bias", l, q + 2 * kv, 0);
        matrix(w, "blk.%u.attn_output.weight", l, d, q);
        vector(w, "blk.%u.attn_output.bias", l, d, 0);
        vector(w, "blk.%u.ffn_norm.weight", l, d, 1);
        vector(w, "blk.%u.ffn_norm.bias", l, d, 0);
        matrix(w, "blk.%u.ffn_up.weight", l, t->n_ff, d);
        vector(w, "blk.%u.ffn_up.bias", l, t->n_ff, 0);
        matrix(w, "blk.%u.ffn_down.weight", l, d, t->n_ff);
        vector(w, "blk.%u.ffn_down.bias", l, d, 0);
    }
    vector(w, "output_norm.bias", 0, d, 0);
}

/* Whether the architecture is one of a list of names, each with a blank before and after it. */
bool toy_is_one(const struct toy *t, const char *names)
{
    char name[40];
    snprintf(name, sizeof name, " %s ", t->arch);
    return strstr(names, name);
}

bool toy_has_layer_norm(const struct toy *t)
{
    return toy_is_one(t, " gpt2 stablelm gptneox falcon starcoder2 nemotron phi2 cohere2 command-r "
                     "olmo rwkv7 ");
}

/* Norms are missing, or LayerNorm without a bias. */
static bool has_no_norms(const struct toy *t) { return toy_is_one(t, " olmo "); }
static bool has_bare_norms(const struct toy *t)
{
    return toy_is_one(t, " cohere2 command-r olmo ");
}

bool toy_has_post_norm(const struct toy *t)
{
    return toy_is_one(t, " olmo2 exaone4 gemma2 gemma3 gemma4 gemma3n glm4 plamo3 afmoe ");
}

bool toy_has_pre_norm(const struct toy *t)
{
    return !toy_is_one(t, " olmo2 exaone4 ");
}

static uint32_t head_dim(const struct toy *t, unsigned l)
{
    return t->windows && t->windows[l]
               ? (uint32_t)toy_number_or(t, "attention.key_length_swa", t->head_dim)
               : t->head_dim;
}

/* Whether the layer has keys and values of its own. */
static bool has_kv(const struct toy *t, unsigned l)
{
    return l + (uint32_t)toy_number(t, "attention.shared_kv_layers") < t->n_layer;
}

/* Of gemma4: heads and missing tensors by layer. */
static void layer_qkv_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    uint32_t dim = head_dim(t, l), kv = (t->kv_heads ? t->kv_heads[l] : t->n_head_kv) * dim;
    matrix(w, "blk.%u.attn_q.weight", l, t->n_head * dim, t->n_embd);
    vector(w, "blk.%u.attn_q_norm.weight", l, dim, 1);
    if (!has_kv(t, l))
        return;
    matrix(w, "blk.%u.attn_k.weight", l, kv, t->n_embd);
    vector(w, "blk.%u.attn_k_norm.weight", l, dim, 1);
    if (!t->keys_as_values || t->windows[l])
        matrix(w, "blk.%u.attn_v.weight", l, kv, t->n_embd);
}

static void layer_embed_tensors(struct writer *w, unsigned l)
{
    uint32_t n = (uint32_t)toy_number(w->t, "embedding_length_per_layer_input"), d = w->t->n_embd;
    if (n) {
        matrix(w, "blk.%u.inp_gate.weight", l, n, d);
        matrix(w, "blk.%u.proj.weight", l, d, n);
        vector(w, "blk.%u.post_norm.weight", l, d, 1);
    }
    if (toy_is_one(w->t, " gemma4 "))
        vector(w, "blk.%u.layer_output_scale.weight", l, 1, 1);
}

/* Of gemma3n's streams, and of Laurel. */
static void altup_tensors(struct writer *w, unsigned l)
{
    uint32_t d = w->t->n_embd, n = (uint32_t)toy_number(w->t, "altup.num_inputs");
    vector(w, "blk.%u.altup_router_norm.weight", l, d, 1);
    tensor(w, "blk.%u.altup_router.weight", l, TFT_F32, n, d, 0, 1);
    tensor(w, "blk.%u.altup_predict_coef.weight", l, TFT_F32, n * n, n, 0, 0.3f);
    tensor(w, "blk.%u.altup_correct_coef.weight", l, TFT_F32, n, n, 0, 0.3f);
    vector(w, "blk.%u.altup_correct_scale.weight", l, d, 1);
    matrix(w, "blk.%u.laurel_l.weight", l, 64, d);
    matrix(w, "blk.%u.laurel_r.weight", l, d, 64);
    vector(w, "blk.%u.laurel_post_norm.weight", l, d, 1);
}

static void qkv_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    uint32_t d = t->n_embd, q = t->n_head * t->head_dim, kv = t->n_head_kv * t->head_dim,
             heads = t->head_dim;
    bool whole = toy_is_one(t, " olmo2 olmoe ");
    bool bias = toy_is_one(t, " qwen2 qwen2moe gptneox starcoder2 qwen2vl seed_oss glm4 phi2 "
                          "gpt-oss ") ||
                (toy_is_one(t, " stablelm ") && !t->large);
    bool fused = t->fused_qkv || toy_is_one(t, " phi3 gptneox falcon internlm2 plamo3 bailingmoe2 "
                                         "spark2_5 ");
    if (fused) {
        matrix(w, "blk.%u.attn_qkv.weight", l, q + 2 * kv, d);
    } else {
        bool gated = toy_is_one(t, " qwen35 qwen35moe qwen3next ");
        matrix(w, "blk.%u.attn_q.weight", l, gated ? 2 * q : q, d);
        matrix(w, "blk.%u.attn_k.weight", l, kv, d);
        matrix(w, "blk.%u.attn_v.weight", l, kv, d);
    }
    if (bias && fused) {
        vector(w, "blk.%u.attn_qkv.bias", l, q + 2 * kv, 0);
    } else if (bias) {
        vector(w, "blk.%u.attn_q.bias", l, q, 0);
        vector(w, "blk.%u.attn_k.bias", l, kv, 0);
        vector(w, "blk.%u.attn_v.bias", l, kv, 0);
    }
    if (toy_is_one(t, " stablelm ") && t->large) {
        tensor(w, "blk.%u.attn_q_norm.weight", l, TFT_F32, t->n_head, heads, 1, 0.5f);
        tensor(w, "blk.%u.attn_k_norm.weight", l, TFT_F32, t->n_head_kv, heads, 1, 0.5f);
    }
    if (toy_is_one(t, " qwen3 qwen3moe hunyuan-dense exaone4 olmo2 olmoe gemma3 lfm2 lfm2moe "
                  "qwen35 qwen35moe qwen3next qwen3vl maincoder hunyuan-moe dots1 bailingmoe2 "
                  "mellum plamo3 apertus afmoe ")) {
        vector(w, "blk.%u.attn_q_norm.weight", l, whole ? q : heads, 1);
        vector(w, "blk.%u.attn_k_norm.weight", l, whole ? kv : heads, 1);
    }
}

/* fmt: the name without ".weight" */
static void norm(struct writer *w, const char *fmt, unsigned l)
{
    char name[64];
    if (has_no_norms(w->t))
        return;
    snprintf(name, sizeof name, "%s.weight", fmt);
    vector(w, name, l, w->t->n_embd, 1);
    snprintf(name, sizeof name, "%s.bias", fmt);
    if (toy_has_layer_norm(w->t) && !has_bare_norms(w->t))
        vector(w, name, l, w->t->n_embd, 0);
}

/* Instead of attention, in a layer without KV heads. */
static void short_conv_tensors(struct writer *w, unsigned l)
{
    uint32_t d = w->t->n_embd;
    matrix(w, "blk.%u.shortconv.in_proj.weight", l, 3 * d, d);
    tensor(w, "blk.%u.shortconv.conv.weight", l, TFT_F32, d,
           (uint32_t)toy_number_or(w->t, "shortconv.l_cache", 3), 0, 1);
    matrix(w, "blk.%u.shortconv.out_proj.weight", l, d, d);
}

static void delta_net_tensors(struct writer *w, unsigned l)
{
    uint32_t d = w->t->n_embd, heads = (uint32_t)toy_number(w->t, "ssm.time_step_rank"),
             values = (uint32_t)toy_number(w->t, "ssm.inner_size"), dim = values / heads,
             channels = 2 * dim * (uint32_t)toy_number(w->t, "ssm.group_count") + values;
    matrix(w, "blk.%u.attn_qkv.weight", l, channels, d);
    matrix(w, "blk.%u.attn_gate.weight", l, values, d);
    if (toy_is_one(w->t, " qwen3next ")) {
        matrix(w, "blk.%u.ssm_ba.weight", l, 2 * heads, d);
    } else {
        matrix(w, "blk.%u.ssm_alpha.weight", l, heads, d);
        matrix(w, "blk.%u.ssm_beta.weight", l, heads, d);
    }
    matrix(w, "blk.%u.ssm_out.weight", l, d, values);
    tensor(w, "blk.%u.ssm_conv1d.weight", l, TFT_F32, channels,
           (uint32_t)toy_number(w->t, "ssm.conv_kernel"), 0, 1);
    vector(w, "blk.%u.ssm_dt.bias", l, heads, 0);
    tensor(w, "blk.%u.ssm_a", l, TFT_F32, 1, heads, -0.7f, 0.6f);
    vector(w, "blk.%u.ssm_norm.weight", l, dim, 1);
}

static void mamba_tensors(struct writer *w, unsigned l)
{
    uint32_t d = w->t->n_embd, heads = (uint32_t)toy_number(w->t, "ssm.time_step_rank"),
             width = (uint32_t)toy_number(w->t, "ssm.inner_size"),
             groups = (uint32_t)toy_number(w->t, "ssm.group_count"),
             channels = width + 2 * groups * (uint32_t)toy_number(w->t, "ssm.state_size");
    matrix(w, "blk.%u.ssm_in.weight", l, width + channels + heads, d);
    matrix(w, "blk.%u.ssm_out.weight", l, d, width);
    tensor(w, "blk.%u.ssm_conv1d.weight", l, TFT_F32, channels,
           (uint32_t)toy_number(w->t, "ssm.conv_kernel"), 0, 1);
    vector(w, "blk.%u.ssm_conv1d.bias", l, channels, 0);
    vector(w, "blk.%u.ssm_dt.bias", l, heads, 0);
    tensor(w, "blk.%u.ssm_a", l, TFT_F32, heads, 1, -0.7f, 0.6f);
    tensor(w, "blk.%u.ssm_d", l, TFT_F32, heads, 1, 1, 0.5f);
    if (!toy_is_one(w->t, " falcon-h1 "))
        tensor(w, "blk.%u.ssm_norm.weight", l, TFT_F32, groups, width / groups, 1, 0.5f);
}

/* Whether block l predicts further tokens. */
static bool predicts(const struct toy *t, unsigned l)
{
    return l >= t->n_layer - (uint32_t)toy_number_or(t, "nextn_predict_layers", 0);
}

static void predictor_tensors(struct writer *w, unsigned l)
{
    uint32_t d = w->t->n_embd;
    matrix(w, "blk.%u.nextn.eh_proj.weight", l, d, 2 * d);
    vector(w, "blk.%u.nextn.enorm.weight", l, d, 1);
    vector(w, "blk.%u.nextn.hnorm.weight", l, d, 1);
    vector(w, "blk.%u.nextn.shared_head_norm.weight", l, d, 1);
}

static bool is_delta_net(const struct toy *t, unsigned l)
{
    bool some = toy_is_one(t, " qwen35 qwen35moe qwen3next ") && !predicts(t, l);
    return some && (l + 1) % (uint32_t)toy_number(t, "full_attention_interval");
}

/* bitnet's norms within a layer, and factors of its matrices. */
static void bitnet_tensors(struct writer *w, unsigned l)
{
    static const char *const factors[] = {"blk.%u.attn_q.scale",   "blk.%u.attn_k.scale",
                                          "blk.%u.attn_v.scale",   "blk.%u.attn_output.scale",
                                          "blk.%u.ffn_gate.scale", "blk.%u.ffn_up.scale",
                                          "blk.%u.ffn_down.scale"};
    const struct toy *t = w->t;
    vector(w, "blk.%u.attn_sub_norm.weight", l, t->n_head * t->head_dim, 1);
    vector(w, "blk.%u.ffn_sub_norm.weight", l, t->n_ff, 1);
    for (int i = 0; i < 7 && t->weight_factors; i++)
        vector(w, factors[i], l, 1, 1);
}

/* n matrices in one tensor. */
static void matrices(struct writer *w, const char *fmt, unsigned l, uint32_t n, uint32_t rows,
                     uint32_t cols)
{
    char name[64];
    snprintf(name, sizeof name, fmt, l);
    if (w->data)
        matrix(w, fmt, l, n * rows, cols);
    else
        tft_gguf_put_tensor(w->w, str(name), w->t->type, 3, (const uint64_t[]){cols, rows, n});
}

/* A matrix for each expert. */
static void experts(struct writer *w, const char *fmt, unsigned l, uint32_t rows, uint32_t cols)
{
    matrices(w, fmt, l, (uint32_t)toy_number(w->t, "expert_count"), rows, cols);
}

/* Numbers of a head's value. */
static uint32_t latent_value(const struct toy *t)
{
    return (uint32_t)toy_number_or(t, "attention.value_length_mla", t->n_embd / t->n_head);
}

/* Of latent attention. The heads' matrices are two tensors, or one in files without
   key_length_mla. */
static void latent_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    uint32_t d = t->n_embd, h = t->n_head, q = (uint32_t)toy_number(t, "attention.q_lora_rank"),
             rank = (uint32_t)toy_number(t, "attention.kv_lora_rank"),
             key = (uint32_t)toy_number_or(t, "attention.key_length_mla", t->head_dim),
             nope = key - t->n_rot, value = latent_value(t);
    if (q) {
        matrix(w, "blk.%u.attn_q_a.weight", l, q, d);
        vector(w, "blk.%u.attn_q_a_norm.weight", l, q, 1);
    }
    matrix(w, q ? "blk.%u.attn_q_b.weight" : "blk.%u.attn_q.weight", l, h * key, q ? q : d);
    matrix(w, "blk.%u.attn_kv_a_mqa.weight", l, rank + t->n_rot, d);
    vector(w, "blk.%u.attn_kv_a_norm.weight", l, rank, 1);
    if (toy_number(t, "attention.key_length_mla") > 0) {
        matrices(w, "blk.%u.attn_k_b.weight", l, h, rank, nope);
        matrices(w, "blk.%u.attn_v_b.weight", l, h, value, rank);
    } else {
        matrix(w, "blk.%u.attn_kv_b.weight", l, h * (nope + value), rank);
    }
}

/* Of mimo2: values shorter than keys, KV heads by layer. */
static void short_value_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    uint32_t kv = t->kv_heads ? t->kv_heads[l] : t->n_head_kv,
             v = (uint32_t)toy_number(t, "attention.value_length");
    matrix(w, "blk.%u.attn_qkv.weight", l,
           t->n_head * t->head_dim + kv * (t->head_dim + v), t->n_embd);
    matrix(w, "blk.%u.attn_output.weight", l, t->n_embd, t->n_head * v);
    if (t->windows && t->windows[l])
        vector(w, "blk.%u.attn_sinks.weight", l, t->n_head, 0);
}

static void attention_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    if (toy_is_one(t, " mimo2 ")) {
        short_value_tensors(w, l);
        return;
    }
    if (toy_is_one(t, " gemma4 gemma3n "))
        layer_qkv_tensors(w, l);
    else if (toy_number(t, "attention.kv_lora_rank") > 0)
        latent_tensors(w, l);
    else
        qkv_tensors(w, l);
    matrix(w, "blk.%u.attn_output.weight", l, t->n_embd,
           toy_number(t, "attention.kv_lora_rank") > 0 ? t->n_head * latent_value(t)
                                                   : t->n_head * head_dim(t, l));
    if (toy_is_one(t, " gptneox starcoder2 phi2 gpt-oss "))
        vector(w, "blk.%u.attn_output.bias", l, t->n_embd, 0);
    if (toy_is_one(t, " afmoe spark2_5 "))
        matrix(w, "blk.%u.attn_gate.weight", l,
               t->n_head * (toy_is_one(t, " afmoe ") ? t->head_dim : 1), t->n_embd);
    if (toy_is_one(t, " gpt-oss granite_swa "))
        vector(w, "blk.%u.attn_sinks.weight", l, t->n_head, 0);
}

static void mixture_tensors(struct writer *w, unsigned l)
{
    const struct toy *t = w->t;
    uint32_t n = (uint32_t)toy_number(t, "expert_count"), d = t->n_embd,
             ff = (uint32_t)toy_number_or(t, "expert_feed_forward_length", t->n_ff),
             side = (uint32_t)toy_number_or(t, "expert_shared_count", 0) * ff,
             shared = (uint32_t)toy_number_or(t, "expert_shared_feed_forward_length", side);
    uint32_t latent = (uint32_t)toy_number_or(t, "moe_latent_size", 0), in = latent ? latent : d;
    tensor(w, "blk.%u.ffn_gate_inp.weight", l, TFT_F32, n, d, 0, 0.5f);
    if (latent) {
        matrix(w, "blk.%u.ffn_latent_down.weight", l, latent, d);
        matrix(w, "blk.%u.ffn_latent_up.weight", l, d, latent);
    }
    if (toy_is_one(t, " gpt-oss ")) {
        vector(w, "blk.%u.ffn_gate_inp.bias", l, n, 0);
        tensor(w, "blk.%u.ffn_gate_exps.bias", l, TFT_F32, n, ff, 0, 0.5f);
        tensor(w, "blk.%u.ffn_up_exps.bias", l, TFT_F32, n, ff, 0, 0.5f);
        tensor(w, "blk.%u.ffn_down_exps.bias", l, TFT_F32, n, d, 0, 0.5f);
    }
    if (toy_is_one(t, " lfm2moe ernie4_5-moe bailingmoe2 dots1 afmoe nemotron_h_moe mimo2 ") ||
        (toy_is_one(t, " deepseek2 ") && toy_number(t, "expert_gating_func") == 2))
        tensor(w, "blk.%u.exp_probs_b.bias", l, TFT_F32, 1, n, 0, 0.3f);
    if (t->fused_experts) {
        experts(w, "blk.%u.ffn_gate_up_exps.weight", l, 2 * ff, d);
    } else {
        if (!toy_is_one(t, " nemotron_h_moe "))
            experts(w, "blk.%u.ffn_gate_exps.weight", l, ff, d);
        experts(w, "blk.%u.ffn_up_exps.weight", l, ff, in);
    }
    experts(w, "blk.%u.ffn_down_exps.weight", l, in, ff);
    if (toy_is_one(t, " gemma4 ")) {
        vector(w, "blk.%u.pre_ffw_norm_2.weight", l, d, 1);
        vector(w, "blk.%u.post_ffw_norm_1.weight", l, d, 1);
        vector(w, "blk.%u.post_ffw_norm_2.weight", l, d, 1);
        tensor(w, "blk.%u.ffn_gate_inp.scale", l, TFT_F32, 1, d, 6, 3);
        vector(w, "blk.%u.ffn_down_exps.scale", l, n, 1);
    }
    if (!shared || (t->shared_last && l + 1 < t->n_layer))
        return;
    bool fused = t->fused_experts && toy_is_one(t, " granite_swa ");
    if (!fused && !toy_is_one(t, " nemotron_h_moe "))
        matrix(w, "blk.%u.ffn_gate_shexp.weight", l, shared, d);
    matrix(w, "blk.%u.ffn_up_shexp.weight", l, fused ? 2 * shared : shared, d);
    matrix(w, "blk.%u.ffn_down_shexp.weight", l, d, shared);
    if (toy_is_one(t, " qwen2moe qwen35moe qwen3next "))
        tensor(w, "blk.%u.ffn_gate_inp_shexp.weight", l, TFT_F32, 1, d, 0, 0.5f);
}

/* A layer with one half of a block. */
static void half_block_tensors(struct writer *w, unsigned l, uint32_t ff)
{
    const struct toy *t = w->t;
    norm(w, "blk.%u.attn_norm", l);
    if (ff && toy_has_experts(t)) {
        mixture_tensors(w, l);
    } else if (ff) {
        matrix(w, "blk.%u.ffn_up.weight", l, ff, t->n_embd);
        matrix(w, "blk.%u.ffn_down.weight", l, t->n_embd, ff);
    } else if (t->kv_heads && t->kv_heads[l]) {
        attention_tensors(w, l);
    } else {
        mamba_tensors(w, l);
    }
}

/* RoPE's divisors, of which the last half stops the rotation; and embeddings of layers. */
static void gemma4_tensors(struct writer *w)
{
    const struct toy *t = w->t;
    uint32_t own = (uint32_t)toy_number(t, "embedding_length_per_layer_input"), n = t->n_rot / 2;
    bool freqs = toy_is_one(t, " gemma4 ");
    if (w->data && freqs) {
        put_rows(w, TFT_F32, n / 2, 1, 0);
        put_rows(w, TFT_F32, n - n / 2, 1e30f, 0);
    } else if (freqs) {
        tft_gguf_put_tensor(w->w, str("rope_freqs.weight"), TFT_F32, 1, (const uint64_t[]){n});
    } else {
        uint32_t others = (uint32_t)toy_number(t, "altup.num_inputs") - 1;
        matrices(w, "altup_proj.weight", 0, others, t->n_embd, t->n_embd);
        matrices(w, "altup_unembd_proj.weight", 0, others, t->n_embd, t->n_embd);
    }
    if (!own)
        return;
    matrix(w, "per_layer_token_embd.weight", 0, t->n_vocab, t->n_layer * own);
    matrix(w, "per_layer_model_proj.weight", 0, t->n_layer * own, t->n_embd);
    vector(w, "per_layer_proj_norm.weight", 0, own, 1);
}

/* Layers that come first and have no experts: in files of mimo2, no key says it. */
static uint32_t leading(const struct toy *t)
{
    double usual = toy_is_one(t, " mimo2 ") ? 1 : 0;
    return (uint32_t)toy_number_or(t, "leading_dense_block_count", usual);
}

static void llama_tensors(struct writer *w)
{
    const struct toy *t = w->t;
    uint32_t d = t->n_embd;
    bool one = toy_is_one(t, " falcon cohere2 command-r phi2 ") ||
               (toy_is_one(t, " stablelm ") && t->large),
         bias = toy_is_one(t, " gptneox starcoder2 phi2 "),
         gated = !bias && !toy_is_one(t, " falcon arcee nemotron apertus ");
    const char *ffn_norm = toy_is_one(t, " qwen35 qwen35moe qwen3next seed_oss gpt-oss ")
                               ? "blk.%u.post_attention_norm"
                               : "blk.%u.ffn_norm";
    bool bare = toy_is_one(t, " plamo3 "); /* names of norms lack ".weight" */
    bool post = toy_has_post_norm(t), pre = toy_has_pre_norm(t);
    if (t->llama3_scaling)
        tensor(w, "rope_freqs.weight", 0, TFT_F32, 1, t->n_rot / 2, 4, 3);
    if (toy_is_one(t, " phi3 minicpm minicpm3 ")) {
        tensor(w, "rope_factors_short.weight", 0, TFT_F32, 1, t->n_rot / 2, 1.5f, 0.5f);
        tensor(w, "rope_factors_long.weight", 0, TFT_F32, 1, t->n_rot / 2, 6, 4);
    }
    if (toy_is_one(t, " gemma4 gemma3n "))
        gemma4_tensors(w);
    for (unsigned l = 0; l < t->n_layer; l++) {
        uint32_t ff = t->ffs ? t->ffs[l] : t->n_ff;
        if (toy_is_one(t, " mamba2 nemotron_h nemotron_h_moe ")) {
            half_block_tensors(w, l, ff);
            continue;
        }
        if (pre)
            norm(w, "blk.%u.attn_norm", l);
        if (toy_is_one(t, " falcon ") && t->large)
            norm(w, "blk.%u.attn_norm_2", l);
        if (toy_is_one(t, " falcon-h1 "))
            mamba_tensors(w, l);
        if (t->kv_heads && !t->kv_heads[l] && toy_is_one(t, " lfm2 lfm2moe "))
            short_conv_tensors(w, l);
        else if (t->kv_heads && !t->kv_heads[l] && toy_is_one(t, " granitehybrid "))
            mamba_tensors(w, l);
        else if (is_delta_net(t, l))
            delta_net_tensors(w, l);
        else
            attention_tensors(w, l);
        if (predicts(t, l))
            predictor_tensors(w, l);
        if (post)
            vector(w, bare ? "blk.%u.post_attention_norm" : "blk.%u.post_attention_norm.weight", l,
                   d, 1);
        if (toy_is_one(t, " falcon-h1 "))
            vector(w, ffn_norm, l, d, 1);
        else if (pre && !one)
            norm(w, ffn_norm, l);
        if (toy_has_experts(t) && l >= leading(t)) {
            mixture_tensors(w, l);
            if (toy_is_one(t, " afmoe "))
                vector(w, "blk.%u.post_ffw_norm.weight", l, d, 1);
            if (!toy_is_one(t, " gemma4 "))
                continue;
        }
        if (toy_is_one(t, " phi3 glm4 plamo3 ")) {
            matrix(w, "blk.%u.ffn_up.weight", l, 2 * t->n_ff, d);
        } else {
            if (gated)
                matrix(w, "blk.%u.ffn_gate.weight", l, ff, d);
            matrix(w, "blk.%u.ffn_up.weight", l, ff, d);
        }
        if (bias)
            vector(w, "blk.%u.ffn_up.bias", l, t->n_ff, 0);
        matrix(w, "blk.%u.ffn_down.weight", l, d, ff);
        if (bias)
            vector(w, "blk.%u.ffn_down.bias", l, d, 0);
        if (post)
            vector(w, bare ? "blk.%u.post_ffw_norm" : "blk.%u.post_ffw_norm.weight", l, d, 1);
        if (toy_is_one(t, " bitnet "))
            bitnet_tensors(w, l);
        if (toy_is_one(t, " gemma4 gemma3n "))
            layer_embed_tensors(w, l);
        if (toy_is_one(t, " gemma3n "))
            altup_tensors(w, l);
    }
    if (toy_has_layer_norm(t) && !has_bare_norms(t))
        vector(w, "output_norm.bias", 0, d, 0);
    if (toy_is_one(t, " phi2 "))
        vector(w, "output.bias", 0, t->n_vocab, 0);
}

/* The six vectors of RWKV-7, which files have in four dimensions. */
static void lerp_tensor(struct writer *w, unsigned l)
{
    char name[64];
    uint32_t d = w->t->n_embd;
    snprintf(name, sizeof name, "blk.%u.time_mix_lerp_fused.weight", l);
    if (w->data)
        put_rows(w, TFT_F32, 6 * (uint64_t)d, 0.5f, 0.5f);
    else
        tft_gguf_put_tensor(w->w, str(name), TFT_F32, 4, (const uint64_t[]){d, 1, 1, 6});
}

/* Two matrices of floats, blk.l.time_mix_X1 and X2, and unless it is the gate X0. Layer 0 has the
   rank of `a` in place of that of `v`, and nothing reads its matrices. */
static void low_rank_tensors(struct writer *w, unsigned l, char x, const char *key)
{
    char name[64];
    uint32_t d = w->t->n_embd, rank = (uint32_t)toy_number(w->t, key);
    snprintf(name, sizeof name, "blk.%%u.time_mix_%c1.weight", x);
    tensor(w, name, l, TFT_F32, rank, d, 0, 0.5f);
    snprintf(name, sizeof name, "blk.%%u.time_mix_%c2.weight", x);
    tensor(w, name, l, TFT_F32, d, rank, 0, 0.5f);
    snprintf(name, sizeof name, "blk.%%u.time_mix_%c0.weight", x);
    if (x != 'g')
        vector(w, name, l, d, 0);
}

static void rwkv_tensors(struct writer *w)
{
    const struct toy *t = w->t;
    uint32_t d = t->n_embd;
    norm(w, "token_embd_norm", 0);
    for (unsigned l = 0; l < t->n_layer; l++) {
        norm(w, "blk.%u.attn_norm", l);
        norm(w, "blk.%u.attn_norm_2", l);
        lerp_tensor(w, l);
        low_rank_tensors(w, l, 'w', "attention.decay_lora_rank");
        low_rank_tensors(w, l, 'a', "attention.iclr_lora_rank");
        low_rank_tensors(w, l, 'v', l ? "attention.value_residual_mix_lora_rank"
                                      : "attention.iclr_lora_rank");
        low_rank_tensors(w, l, 'g', "attention.gate_lora_rank");
        vector(w, "blk.%u.time_mix_k_k.weight", l, d, 1);
        vector(w, "blk.%u.time_mix_k_a.weight", l, d, 1);
        vector(w, "blk.%u.time_mix_r_k.weight", l, d, 0);
        norm(w, "blk.%u.time_mix_ln", l);
        matrix(w, "blk.%u.time_mix_receptance.weight", l, d, d);
        matrix(w, "blk.%u.time_mix_key.weight", l, d, d);
        matrix(w, "blk.%u.time_mix_value.weight", l, d, d);
        matrix(w, "blk.%u.time_mix_output.weight", l, d, d);
        vector(w, "blk.%u.channel_mix_lerp_k.weight", l, d, 0.5f);
        matrix(w, "blk.%u.channel_mix_key.weight", l, t->n_ff, d);
        matrix(w, "blk.%u.channel_mix_value.weight", l, d, t->n_ff);
    }
    vector(w, "output_norm.bias", 0, d, 0);
}

static void tensors(struct writer *w)
{
    const struct toy *t = w->t;
    matrix(w, "token_embd.weight", 0, t->n_vocab, t->n_embd);
    if (toy_is_one(t, " gpt2 "))
        gpt2_tensors(w);
    else if (toy_is_one(t, " rwkv7 "))
        rwkv_tensors(w);
    else
        llama_tensors(w);
    if (!has_no_norms(t))
        vector(w,
               toy_is_one(t, " lfm2 lfm2moe ") ? "token_embd_norm.weight" : "output_norm.weight", 0,
               t->n_embd, 1);
    if (t->uniform)
        tensor(w, "output.weight", 0, t->type, t->n_vocab, t->n_embd, 0, 0);
    else if (!t->tied)
        matrix(w, "output.weight", 0, t->n_vocab, t->n_embd);
}

bool toy_write(const struct toy *t, const char *path)
{
    struct tft_gguf_writer *w;
    if (tft_gguf_create(&w, path, NULL) != TFT_OK)
        return false;
    toy_put_values(w, t);
    struct writer run = {.w = w, .t = t, .seed = t->seed};
    tensors(&run);
    run.data = true;
    tensors(&run);
    return tft_gguf_close(w, true, NULL) == TFT_OK;
}

void toy_tokens(uint64_t seed, uint32_t n_vocab, int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(next(&seed) % n_vocab);
}
