/*
 * spark2_5: Spark X2.5 1.7B (iFlytek 2026). llama's block with GELU in feed-forward, and a gate for
 * each head of attention's output. Layers with a window have RoPE of another base and width.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half of n_rot apart
 *          x = x + Wo (attend(q, K, V) * sigmoid(Wg h))        a number of Wg h for each head
 *          h = rms(x) g_ffn
 *          x = x + Wdown (gelu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    b->out_gate = tft_load_linear(ld, "blk.%u.attn_gate", layer, m->n_head, m->n_embd, false);
    tft_load_mixer_width(ld, m->n_head * m->head_dim, m->n_head);
}

static const struct tft_transformer spark2_5 = {
    .rope = TFT_ROPE_HALVES,
    .fused_qkv = true,
    .window_period = 1, /* none without a list of layers */
    .block = load_block,
};

static void load(struct tft_load *ld)
{
    const char *pattern = "attention.sliding_window_pattern";
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    if (tft_load_has(ld, "attention.sliding_window")) {
        tft_load_rope_window(ld, 0, ld->m->head_dim);
        if (!tft_load_by_layer(ld, pattern))
            tft_load_fail(ld, TFT_ERR_FORMAT, "spark2_5.%s is not a list of bools", pattern);
    }
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_project(p, &b->out_gate); /* M, of which attention takes the sigmoids */
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_spark2_5 = {
    .name = "spark2_5",
    .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_HEAD_GATE),
    .load = load,
    .layer = layer,
    .transformer = &spark2_5,
};
