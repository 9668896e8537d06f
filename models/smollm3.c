/*
 * smollm3: Bakouch et al. 2025 (SmolLM3). The formula is llama's, but each fourth layer does not
 * rotate q and k (NoPE: Yang et al. 2025, arXiv 2501.18795).
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs, but in layers
 *                                            3, 7, 11, ...
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    tft_load_layer(ld, layer)->no_rope = layer % 4 == 3;
}

static const struct tft_transformer smollm3 = {.rope = TFT_ROPE_PAIRS, .block = load_block};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (!b->no_rope)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_smollm3 = {
    .name = "smollm3",
    .parts = TFT_BIT(TFT_PART_ROPE_LAYERS),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &smollm3,
};
