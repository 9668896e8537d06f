/*
 * bitnet: BitNet b1.58 (Ma et al. 2024, arXiv 2402.17764, section 2; BitNet b1.58 2B4T: Ma et al.
 * 2025, arXiv 2504.12285, section 3). Weights of matrices are -1, 0 or 1 times a factor, which is
 * in the codes of TQ1_0 and TQ2_0, or in a tensor `scale` beside them. The 2B model has squared
 * ReLU (hidden_activation is relu2), older ones have SiLU.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          x = x + Wo (rms(attend(q, K, V)) g_attn_sub)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (rms(relu(Wgate h)^2 * Wup h) g_ffn_sub)
 *      logits = Wout (rms(x) g_out)
 *
 * Activations are not rounded to 8 bits as in training, unless the weights are codes or W8A8.
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_sub_norms(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t q = m->n_head * m->head_dim;
    b->attn_sub_norm = tft_load_norm(ld, "blk.%u.attn_sub_norm", layer, q, false);
    b->ffn_sub_norm = tft_load_norm(ld, "blk.%u.ffn_sub_norm", layer, m->n_ff, false);
}

/* Does nothing with a W8A8 file: its weights contain the factors, and its tensors of these names
   are the scales of rows. */
static void load_weight_factors(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    const struct {
        struct tft_linear *l;
        const char *fmt;
    } all[] = {{&b->q, "blk.%u.attn_q"},        {&b->k, "blk.%u.attn_k"},
               {&b->v, "blk.%u.attn_v"},        {&b->o, "blk.%u.attn_output"},
               {&b->gate, "blk.%u.ffn_gate"},   {&b->up, "blk.%u.ffn_up"},
               {&b->down, "blk.%u.ffn_down"}};
    for (size_t i = 0; i < sizeof all / sizeof *all && !ld->w8a8; i++)
        tft_load_weight_factor(ld, all[i].l, all[i].fmt, layer);
}

static void load_block(struct tft_load *ld, unsigned layer)
{
    load_sub_norms(ld, layer);
    load_weight_factors(ld, layer);
}

static const struct tft_transformer bitnet = {
    .rope = TFT_ROPE_HALVES,
    .block = load_block,
};

/* Whether the gate is the squared ReLU: ARCH.hidden_activation is "relu2" rather than "silu".
   Without the key it is SiLU. */
static bool gate_is_relu2(struct tft_load *ld)
{
    char full[96];
    struct tft_str name = {"silu", 4};
    const struct tft_value *v = tft_load_value(ld, "hidden_activation", full);
    if (v && !tft_value_str(v, &name))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a string", full);
    else if (!tft_str_is(name, "silu") && !tft_str_is(name, "relu2"))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "%s is %.*s: neither silu nor relu2", full,
                      name.n < 40 ? (int)name.n : 40, name.p);
    return tft_str_is(name, "relu2");
}

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    ld->m->relu2 = gate_is_relu2(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l); /* with the norm g_attn_sub */
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, p->m->relu2 ? TFT_RELU2 : TFT_SILU); /* with the norm g_ffn_sub */
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_bitnet = {
    .name = "bitnet",
    .parts = TFT_BIT(TFT_PART_SUB_NORM),
    .load = load,
    .layer = layer,
    .transformer = &bitnet,
};
