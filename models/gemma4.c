/*
 * gemma4, text: Google 2026 (https://ai.google.dev/gemma/docs/core/model_card_4; E2B, E4B, 26B-A4B,
 * 31B). As gemma3, with
 *
 *   - another head size in layers with a window; KV heads and the width of feed-forward by layer
 *   - scores that are not divided, and values that are normalised
 *   - layers without a window that rotate only a part of a head: the divisors of the other pairs in
 *     rope_freqs are 1e30. They may use keys, before the norm, as values
 *   - last layers without keys and values of their own. Each uses the keys and values of an earlier
 *     layer: the last one that has its own, and that has a window if this layer has one
 *   - per-layer embeddings, and a factor that multiplies the output of each layer
 *
 *      x = sqrt(D) embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wq h, Wk h, Wv h                  or v = Wk h
 *          q, k, v = rms(q) g_q, rms(k) g_k, rms(v) per head
 *          q, k rotated                                partners half of n_rot apart
 *          x = x + rms(Wo attend(q, K, V)) g2
 *          h = rms(x) g3
 *          x = x + rms(Wdown (gelu(Wgate h) * Wup h)) g4
 *          or x = x + rms(y) g4                        with experts: y of models/mixture.h
 *          x = x + rms(Wout (gelu(Wgate' x) * p_l)) g5     models/layer_embed.h
 *          x = x s
 *      logits = c tanh(embed (rms(x) g_out) / c)
 */
#include "model/load.h"
#include "models/layer_embed.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .optional = true, .beside = true};

static void load_block(struct tft_load *ld, unsigned layer)
{
    if (layer == 0)
        tft_layer_embed_load(ld);
    tft_layer_embed_load_block(ld, layer);
    if (tft_load_has_linear(ld, "blk.%u.layer_output_scale", layer))
        tft_load_block(ld, layer)->scale =
            tft_load_vector(ld, "blk.%u.layer_output_scale.weight", layer, 1);
}

static const struct tft_transformer gemma4 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .scaled_embedding = true,
    .attn_scale = 1,
    .window_period = 6,
    .layers_differ = true,
    .mixture = &mixture,
    .caps = true,
    .block = load_block,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, true);
    tft_transformer_values(ld);
    tft_layer_embed_shape(ld);
    tft_transformer_tensors(ld);
}

/* Y = the sum of the block's own feed-forward and of its experts, each with norms of its own. */
static void beside(struct tft_pass *p, const struct tft_block *b)
{
    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_linear_apart(p, &b->down, TFT_G);
    tft_set_aside(p, &b->experts.beside_norm);
    tft_norm(p, &b->experts.in_norm, &b->experts.up);
    tft_route(p, b);
    tft_experts(p, b, TFT_GELU);
    tft_add_aside(p, &b->experts.sum_norm);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_block *b = &p->m->block[l];
    bool embeds = p->m->layer_embed.n;
    if (embeds && l == 0)
        tft_layer_embed_begin(p);
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    if (tft_block_has_experts(b)) {
        beside(p, b);
    } else {
        tft_norm(p, &b->ffn_norm, &b->up);
        tft_gated(p, b, TFT_GELU);
        tft_linear_apart(p, &b->down, TFT_G);
    }
    tft_add_apart(p, &b->ffn_post_norm, embeds ? NULL : b->scale);
    if (embeds)
        tft_layer_embed_add(p, l, b->scale);
}

const struct tft_arch tft_arch_gemma4 = {
    .name = "gemma4",
    .pieces = 1u << TFT_PIECE_GEGLU | 1u << TFT_PIECE_POST_NORM | 1u << TFT_PIECE_VALUE_NORM,
    .load = load,
    .layer = layer,
    .transformer = &gemma4,
};
