/*
 * smallthinker: 4B-A0.6B and 21B-A3B (Song et al. 2025, arXiv 2507.20984, section 2). The router
 * reads the residual stream as it was before attention; experts have ReLU gates. In files with a
 * window, layers 0, 4, 8, ... have neither a window nor RoPE.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          y = attend(q, K, V)
 *          w = Wrouter x
 *          x = x + Wo y
 *          x = x + mixture(rms(x) g_ffn)     models/mixture.h, by these w, with ReLU in place of
 *                                            SiLU
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    tft_load_layer(ld, layer)->no_rope =
        layer % 4 == 0 && tft_load_has(ld, "attention.sliding_window");
}

static const struct tft_mixture mixture = {.renorm = true, .raw = true, .everywhere = true};

static const struct tft_transformer smallthinker = {
    .rope = TFT_ROPE_HALVES,
    .window_period = 4,
    .window_first = true,
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
    tft_route(p, b); /* X is still the layer's input */
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->experts.up);
    tft_add_experts(p, b, TFT_RELU);
}

const struct tft_arch tft_arch_smallthinker = {
    .name = "smallthinker",
    .parts = TFT_BIT(TFT_PART_REGLU) | TFT_BIT(TFT_PART_ROPE_LAYERS),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &smallthinker,
};
