/*
 * granite_swa: IBM Granite with windows (transformers: GraniteSWAForCausalLM and
 * GraniteMoeSWAForCausalLM). granite with sinks of attention, and with windows and RoPE in the
 * layers that the file names: attention.sliding_window_pattern, attention.rope_pattern. Some files
 * have experts of renormalised weights, and a shared expert.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs, or not
 *          x = x + r Wo attend(q, K, V)      scores: a q.k, without 1 / sqrt(E), and a sink
 *          h = rms(x) g_ffn
 *          x = x + r Wdown (silu(Wgate h) * Wup h)
 *          or x = x + r mixture(h)           models/mixture.h
 *      logits = Wout (rms(x) g_out) / l
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

/* attention.rope_pattern: a bool for each layer; without it all are rotated. */
static void load_block(struct tft_load *ld, unsigned layer)
{
    const char *pattern = "attention.rope_pattern";
    const struct tft_value *v = tft_load_by_layer(ld, pattern);
    uint64_t has = 1;
    if ((v && (!tft_value_uint(v, layer, &has) || has > 1)) || (!v && tft_load_has(ld, pattern)))
        tft_load_fail(ld, TFT_ERR_FORMAT, "granite_swa.%s is not a list of bools", pattern);
    tft_load_layer(ld, layer)->no_rope = !has;
}

static const struct tft_mixture mixture = {
    .renorm = true,
    .optional = true,
    .fused_shared = true,
};

static const struct tft_multipliers multipliers = {0};

static const struct tft_transformer granite_swa = {
    .rope = TFT_ROPE_PAIRS,
    .sinks = true,
    .multipliers = &multipliers,
    .window_period = 4,
    .mixture = &mixture,
    .block = load_block,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (!b->no_rope)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b))
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_granite_swa = {
    .name = "granite_swa",
    .parts = TFT_BIT(TFT_PART_ROPE_LAYERS),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &granite_swa,
};
