/*
 * afmoe: Trinity Nano and Mini (Arcee 2025). Norms before and after attention and feed-forward; a
 * matrix of its own makes gates of attention's output. Three layers in four attend to a window, and
 * only they rotate q and k. Layers after the leading dense ones have experts with sigmoids as
 * weights, which a bias helps to choose, and a shared expert.
 *
 *      x = sqrt(D) embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + rms(Wo (attend(q, K, V) * sigmoid(Wg h))) g2
 *          h = rms(x) g3
 *          x = x + rms(Wdown (silu(Wgate h) * Wup h)) g4     leading_dense_block_count layers
 *          or x = x + rms(mixture(h)) g4                     models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t width = m->n_head * m->head_dim;
    b->no_rope = !b->window;
    b->out_gate = tft_load_linear(ld, "blk.%u.attn_gate", layer, width, m->n_embd, false);
    tft_load_mixer_width(ld, width, width);
}

static const struct tft_mixture mixture = {.renorm = true, .says_renorm = true, .sigmoid = true};

static const struct tft_transformer afmoe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .scaled_embedding = true,
    .window_period = 4,
    .mixture = &mixture,
    .block = load_block,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_project(p, &b->out_gate); /* M, of which attention takes the sigmoids */
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    if (!b->no_rope)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    if (tft_layer_has_experts(b)) {
        tft_mixture_normed(p, b, &b->ffn_post_norm);
    } else {
        tft_norm(p, &b->ffn_norm, &b->up);
        tft_gated(p, b, TFT_SILU);
        tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
    }
}

const struct tft_arch tft_arch_afmoe = {
    .name = "afmoe",
    .parts =
        TFT_BIT(TFT_PART_POST_NORM) | TFT_BIT(TFT_PART_ROPE_LAYERS) | TFT_BIT(TFT_PART_OWN_GATE),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &afmoe,
};
