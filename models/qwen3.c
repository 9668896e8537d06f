/*
 * qwen3, dense: Yang et al. 2025 (arXiv 2505.09388, section 2). The size of a head is a value of
 * the file, not the width divided by the number of heads.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 *
 * Qwen3-Embedding takes the last hidden vector; Qwen3-Reranker the softmax of the logits of "yes"
 * and "no", which its files have as a classifier (pooled.h): Zhang et al. 2025 (arXiv 2506.05176).
 */
#include "models/layers.h"
#include "models/pooled.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer qwen3 = {.rope = TFT_ROPE_HALVES, .qk_norm = TFT_QK_NORM_HEADS};

static void load(struct tft_load *ld)
{
    tft_transformer_load(ld);
    tft_pooled_load(ld, (struct tft_pooled){.from = TFT_POOLING_LAST, .softmax = true});
}

void tft_qwen3_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b)) /* qwen3moe */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_qwen3 = {
    .name = "qwen3",
    .load = load,
    .layer = tft_qwen3_layer,
    .transformer = &qwen3,
};
