/*
 * nemotron_h: NVIDIA 2025 (Nemotron-H, arXiv 2504.03624, section 2; Nemotron Nano 2 and 3). A layer
 * is one half of a block: Mamba-2, attention, or a feed-forward. Positions are not encoded.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g
 *          x = x + Wout mamba(h)                           models/mamba.h
 *          or
 *          q, k, v = Wq h, Wk h, Wv h
 *          x = x + Wo attend(q, K, V)
 *          or
 *          x = x + Wdown relu(Wup h)^2                     or, in nemotron_h_moe, a mixture
 *      logits = Wout (rms(x) g_out)
 *
 * feed_forward_length and attention.head_count_kv have 0 in layers without that half; both are 0 in
 * layers with Mamba-2.
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mamba.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer nemotron_h = {
    .no_gate = true, .mixer = tft_mamba_load, .ffn_norm = "blk.%u.attn_norm"};

void tft_nemotron_h_load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_mamba_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void feed_forward(struct tft_pass *p, const struct tft_layer *b)
{
    if (tft_layer_has_experts(b)) { /* nemotron_h_moe */
        if (b->experts.latent_down.w.rows)
            tft_latent_mixture(p, b, TFT_RELU2);
        else
            tft_mixture_of(p, b, TFT_RELU2);
        return;
    }
    tft_norm(p, &b->ffn_norm, &b->up);
    tft_plain(p, b, TFT_RELU2);
    tft_residual(p, &b->down, TFT_G);
}

static void mix(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    if (b->mixer == TFT_MIX_MAMBA) {
        tft_mamba_mix(p, l);
    } else {
        tft_qkv(p, b);
        tft_attention(p, l);
    }
    tft_residual(p, &b->o, TFT_A);
}

void tft_nemotron_h_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    if (b->mixer != TFT_MIX_NONE) {
        mix(p, l);
        return;
    }
    if (l + 1 == p->m->n_layer)
        tft_keep_last(p);
    feed_forward(p, b);
}

const struct tft_arch tft_arch_nemotron_h = {
    .name = "nemotron_h",
    .parts = TFT_BIT(TFT_PART_HALF_BLOCKS) | TFT_BIT(TFT_PART_PLAIN_RELU2),
    .load = tft_nemotron_h_load,
    .layer = tft_nemotron_h_layer,
    .transformer = &nemotron_h,
};
