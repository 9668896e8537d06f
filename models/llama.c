/*
 * llama: Touvron et al. 2023 (arXiv 2302.13971, section 2.2), with grouped queries (Ainslie et al.
 * 2023). Also Llama 2 and 3, TinyLlama, SmolLM, and llama2.c's models.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *          or x = x + mixture(h)             Mixtral (Jiang et al. 2024, arXiv 2401.04088)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .optional = true};

static const struct tft_transformer llama = {
    .rope = TFT_ROPE_PAIRS,
    .window_period = TFT_WINDOW_EVERYWHERE, /* Mistral 7B v0.1 */
    .mixture = &mixture,
};

void tft_llama_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q); /* XN = rms(X) g_attn */
    tft_qkv(p, b);                     /* Q, K, V = Wq XN, Wk XN, Wv XN */
    tft_rope(p, b);
    tft_attention(p, l);               /* A = attend(Q, K, V) */
    tft_residual(p, &b->o, TFT_A);     /* X += Wo A */

    if (tft_layer_has_experts(b)) /* Mixtral */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b); /* X += Wdown (silu(Wgate XN) * Wup XN), XN = rms(X) g_ffn */
}

const struct tft_arch tft_arch_llama = {
    .name = "llama",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &llama,
};
