#include "model/unread.h"

#include <string.h>

/* Values that need not be read. Most have an effect where they are read, and none where they are
   not: RoPE's in a layer without RoPE, experts' in a model without experts. */
#define ANY (-1)
static const struct {
    const char *key; /* without ARCH; a '*' at its end stands for any rest */
    double only;     /* the value that has no effect; ANY: all values */
} rows[] = {
    {"vocab_size", ANY},          /* the embedding has as many rows */
    {"tensor_data_layout", ANY},  /* words */
    {"classifier.*", ANY},        /* of heads that embed or classify */
    {"pooling_type", ANY},
    {"embedding_length_out", ANY},
    {"features_length", ANY},
    {"n_deepstack_layers", ANY}, /* of images */
    {"rope.dimension_count", ANY},
    {"rope.dimension_sections", ANY}, /* of positions of images: those of text are all equal */
    {"rope.freq_base", ANY},
    {"rope.freq_base_swa", 10000},
    {"rope.scale_linear", ANY},
    {"rope.scaling.type", ANY}, /* the rest says nothing without it, or of another type */
    {"rope.scaling.factor", ANY},
    {"rope.scaling.original_context_length", ANY},
    {"rope.scaling.finetuned", ANY},
    {"rope.scaling.attn_factor", ANY},
    {"rope.scaling.yarn_log_multiplier", ANY},
    {"rope.scaling.yarn_ext_factor", ANY},
    {"rope.scaling.yarn_beta_fast", ANY},
    {"rope.scaling.yarn_beta_slow", ANY},
    {"rope.scaling.yarn_attn_factor", 1},
    {"attention.layer_norm_epsilon", ANY}, /* of the other kind of norm */
    {"attention.layer_norm_rms_epsilon", ANY},
    {"attention.sliding_window", ANY}, /* see window_period of transformer.h */
    {"attention.sliding_window_pattern", ANY},
    {"attention.shared_kv_layers", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.scale", 0},
    {"attention.temperature_scale", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"router_logit_softcapping", 0},
    {"embedding_scale", 0},
    {"embedding_scale", 1},
    {"residual_scale", 0},
    {"residual_scale", 1},
    {"logit_scale", 0},
    {"logit_scale", 1},
    {"embedding_length_per_layer_input", 0},
    {"full_attention_interval", ANY}, /* beside a list of layers */
    {"leading_dense_block_count", 0},
    {"nextn_predict_layers", 0},
    {"use_parallel_residual", ANY}, /* the norms that a layer has say it */
    {"interleave_moe_layer_step", 0},
    {"interleave_moe_layer_step", 1},
    {"moe_every_n_layers", 0},
    {"expert_count", 0},
    {"expert_used_count", ANY},
    {"expert_shared_count", ANY},
    {"expert_group_count", 0},
    {"expert_group_used_count", ANY},
    {"expert_feed_forward_length", ANY},
    {"expert_shared_feed_forward_length", ANY},
    {"expert_gating_func", ANY},
    {"expert_weights_scale", ANY},
    {"expert_weights_norm", ANY}, /* the architecture says it */
};

static bool is_key(struct tft_str have, const char *row)
{
    size_t n = strlen(row);
    if (n && row[n - 1] == '*')
        return have.n >= n - 1 && memcmp(have.p, row, n - 1) == 0;
    return have.n == n && memcmp(have.p, row, n) == 0;
}

static bool has_no_effect(struct tft_str key, const struct tft_value *v)
{
    double x;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_key(key, rows[i].key) &&
            (rows[i].only == ANY ||
             (!v->is_array && tft_value_real(v, 0, &x) && x == rows[i].only)))
            return true;
    return false;
}

/* Whether the key is ARCH.KEY; *rest: KEY. */
static bool is_of_arch(const struct tft_load *ld, struct tft_str key, struct tft_str *rest)
{
    const char *arch = ld->m->kind ? ld->m->kind->name : "";
    size_t n = strlen(arch);
    if (!n || key.n <= n + 1 || memcmp(key.p, arch, n) != 0 || key.p[n] != '.')
        return false;
    *rest = (struct tft_str){key.p + n + 1, key.n - n - 1};
    return true;
}

void tft_unread_mark(struct tft_load *ld)
{
    struct tft_str rest;
    for (size_t i = 0; i < ld->s->n_value; i++) {
        struct tft_value *v = &ld->m->source.value[i];
        v->ignored = is_of_arch(ld, v->key, &rest) && tft_load_ignores(ld, v->key);
    }
}

void tft_unread_refuse(struct tft_load *ld)
{
    struct tft_str rest;
    for (size_t i = 0; i < ld->s->n_value && ld->status == TFT_OK; i++) {
        const struct tft_value *v = &ld->s->value[i];
        struct tft_str key = v->key;
        if (ld->read[i] || v->ignored || !is_of_arch(ld, key, &rest))
            continue;
        if (!has_no_effect(rest, v))
            ld->status = tft_fail_at(
                ld->err, TFT_ERR_UNSUPPORTED, ld->s->name, v->offset,
                "the key %.*s is not supported: --ignore-key %.*s takes the file without it",
                TFT_STR_ARG(key), TFT_STR_ARG(key));
    }
}
