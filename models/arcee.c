/*
 * arcee: AFM 4.5B (Arcee 2025; transformers: ArceeForCausalLM). llama with squared ReLU and without
 * a gate.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown relu(Wup h)^2
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer arcee = {.rope = TFT_ROPE_PAIRS, .no_gate = true};

void tft_arcee_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_plain(p, b, TFT_RELU2);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_arcee = {
    .name = "arcee",
    .parts = TFT_BIT(TFT_PART_PLAIN_RELU2),
    .load = tft_transformer_load,
    .layer = tft_arcee_layer,
    .transformer = &arcee,
};
