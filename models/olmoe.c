/*
 * olmoe: Muennighoff et al. 2024 (arXiv 2409.02060, section 2). The weights of experts are not
 * renormalised.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k over all heads    then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)                     models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = false};

static const struct tft_transformer olmoe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_WHOLE,
    .mixture = &mixture,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_whole(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b))
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_olmoe = {
    .name = "olmoe",
    .parts = TFT_BIT(TFT_PART_WHOLE_QK_NORM),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &olmoe,
};
