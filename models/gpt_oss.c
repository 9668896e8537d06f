/*
 * gpt-oss: OpenAI 2025 (arXiv 2508.10925, section 2). Attention has sinks, and every other layer a
 * window. Files call g_ffn post_attention_norm.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv   q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V) + bo
 *          x = x + mixture(rms(x) g_ffn)               models/mixture.h, with biases, and with
 *                                                      TFT_BOUNDED_SWIGLU in place of SwiGLU
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.chosen = true, .biases = true, .everywhere = true};

static const struct tft_transformer gpt_oss = {
    .rope = TFT_ROPE_HALVES,
    .sinks = true,
    .qkv_bias = true,
    .o_bias = true,
    .window_period = 2,
    .mixture = &mixture,
    .ffn_norm = "blk.%u.post_attention_norm",
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_mixture_of(p, b, TFT_BOUNDED_SWIGLU);
}

const struct tft_arch tft_arch_gpt_oss = {
    .name = "gpt-oss",
    .parts = TFT_BIT(TFT_PART_BOUNDED_SWIGLU),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &gpt_oss,
};
