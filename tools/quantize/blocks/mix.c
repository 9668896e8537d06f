#include "tools/quantize/blocks/mix.h"

#include <string.h>

/* Names are in lower case. */
static const struct mix mixes[] = {
    {"f32", 0, TFT_F32, TFT_F32, TFT_F32},      {"f16", 1, TFT_F16, TFT_F16, TFT_F16},
    {"bf16", 32, TFT_BF16, TFT_BF16, TFT_BF16}, {"q8_0", 7, TFT_Q8_0, TFT_Q8_0, TFT_Q8_0},
    {"q4_0", 2, TFT_Q4_0, TFT_Q4_0, TFT_Q6_K},  {"q4_1", 3, TFT_Q4_1, TFT_Q4_1, TFT_Q6_K},
    {"q5_0", 8, TFT_Q5_0, TFT_Q5_0, TFT_Q6_K},  {"q5_1", 9, TFT_Q5_1, TFT_Q5_1, TFT_Q6_K},
    {"q4_k", 14, TFT_Q4_K, TFT_Q4_K, TFT_Q6_K}, {"q4_k_m", 15, TFT_Q4_K, TFT_Q6_K, TFT_Q6_K},
    {"q5_k", 16, TFT_Q5_K, TFT_Q5_K, TFT_Q6_K}, {"q5_k_m", 17, TFT_Q5_K, TFT_Q6_K, TFT_Q6_K},
    {"q3_k", 11, TFT_Q3_K, TFT_Q3_K, TFT_Q6_K}, {"q3_k_m", 12, TFT_Q3_K, TFT_Q4_K, TFT_Q6_K},
    {"q6_k", 18, TFT_Q6_K, TFT_Q6_K, TFT_Q6_K}, {"keep", MIX_KEEPS, TFT_F32, TFT_F32, TFT_F32},
};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool is_named(const struct mix *x, const char *name)
{
    size_t n = strlen(x->name);
    for (size_t i = 0; i < n; i++)
        if (lower(name[i]) != x->name[i])
            return false;
    return !name[n];
}

const struct mix *mix_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (is_named(&mixes[i], name))
            return &mixes[i];
    return NULL;
}

const char *mix_names(void)
{
    return "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q3_k, q3_k_m, q4_k, q4_k_m, q5_k, "
           "q5_k_m, q6_k, keep";
}

bool mix_keeps(const struct mix *x) { return x->file_type == MIX_KEEPS; }

bool mix_makes_blocks(const struct mix *x)
{
    return tft_dtype_info(x->usual)->block > 1;
}

static bool has(struct tft_str name, const char *part)
{
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= name.n; i++)
        if (memcmp(name.p + i, part, n) == 0)
            return true;
    return false;
}

static bool ends(struct tft_str name, const char *end)
{
    size_t n = strlen(end);
    return name.n >= n && memcmp(name.p + name.n - n, end, n) == 0;
}

/* Matrices that stay: tuffet and llama.cpp multiply them as floats, or they are small. */
static bool stays(struct tft_str name)
{
    static const char *const parts[] = {"_norm.weight",
                                        "ffn_gate_inp",
                                        "altup",
                                        "laurel",
                                        "per_layer_model_proj",
                                        "position_embd",
                                        "token_types",
                                        "ssm_conv1d",
                                        "shortconv.conv",
                                        "time_mix_first",
                                        "time_mix_w0",
                                        "time_mix_w1",
                                        "time_mix_w2",
                                        "time_mix_v0",
                                        "time_mix_v1",
                                        "time_mix_v2",
                                        "time_mix_a0",
                                        "time_mix_a1",
                                        "time_mix_a2",
                                        "time_mix_g1",
                                        "time_mix_g2",
                                        "time_mix_decay_w",
                                        "time_mix_lerp_fused",
                                        "attn_rel_b",
                                        "cls."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (has(name, parts[i]))
            return true;
    return !ends(name, ".weight");
}

/* The number after "blk."; -1: none. */
static int64_t layer_of(struct tft_str name)
{
    static const char begin[] = "blk.";
    size_t i = sizeof begin - 1;
    int64_t layer = 0;
    if (name.n <= i || memcmp(name.p, begin, i) != 0)
        return -1;
    for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && layer < INT32_MAX; i++)
        layer = 10 * layer + (name.p[i] - '0');
    return layer;
}

static int64_t layers_of(const struct tft_source *s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->n_tensor; i++) {
        int64_t layer = layer_of(s->tensor[i].name);
        n = layer >= n ? layer + 1 : n;
    }
    return n;
}

static bool is_down(struct tft_str name)
{
    return has(name, "ffn_down.weight") || has(name, "ffn_down_exps.weight");
}

static bool has_values(struct tft_str name)
{
    return has(name, "attn_v.weight") || has(name, "attn_qkv.weight") ||
           has(name, "attn_kv_b.weight");
}

static bool gets_more(const struct tft_source *s, struct tft_str name)
{
    int64_t layer = layer_of(name), n = layers_of(s);
    return (has_values(name) || is_down(name)) &&
           (layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2);
}

static enum tft_dtype of_3_bits(const struct mix *x, const struct tft_source *s,
                                struct tft_str name)
{
    bool first = has(name, "attn_v.weight") ? layer_of(name) < 2
                                            : is_down(name) && layer_of(name) < layers_of(s) / 16;
    if (x->more == x->usual)
        return x->usual;
    if (first)
        return TFT_Q5_K;
    return has_values(name) || is_down(name) || has(name, "attn_output.weight") ? x->more
                                                                                : x->usual;
}

static enum tft_dtype of_layer(const struct mix *x, const struct tft_source *s, struct tft_str name)
{
    if (x->usual == TFT_Q3_K)
        return of_3_bits(x, s, name);
    return gets_more(s, name) ? x->more : x->usual;
}

static bool is_head(const struct tft_source *s, struct tft_str name)
{
    return tft_str_is(name, "output.weight") ||
           (tft_str_is(name, "token_embd.weight") && !tft_source_tensor(s, "output.weight"));
}

/* A type for rows of n numbers. */
static enum tft_dtype for_rows(enum tft_dtype type, uint64_t n)
{
    if (n % tft_dtype_info(type)->block == 0)
        return type;
    enum tft_dtype other = type == TFT_Q3_K   ? TFT_Q4_0
                           : type == TFT_Q4_K ? TFT_Q5_0
                           : type == TFT_Q5_K ? TFT_Q5_1
                                              : TFT_Q8_0;
    return n % tft_dtype_info(other)->block == 0 && type >= TFT_Q3_K ? other : TFT_F16;
}

static double bits_of(enum tft_dtype type)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    return 8.0 * info->bytes / info->block;
}

enum tft_dtype mix_type(const struct mix *x, const struct tft_source *s, const struct tft_tensor *t)
{
    const struct tft_dtype_info *info = tft_dtype_info(t->type);
    if (mix_keeps(x) || t->n_dims < 2 || stays(t->name) || !info->to_f32)
        return t->type;
    enum tft_dtype type =
        for_rows(is_head(s, t->name) ? x->head : of_layer(x, s, t->name), t->ne[0]);
    bool is_smaller = info->block > 1 && bits_of(t->type) <= bits_of(type);
    return is_smaller && mix_makes_blocks(x) ? t->type : type;
}
