/*
 * stablelm: Bellagente et al. 2024 (arXiv 2402.17834, section 3.1). A part of each head is rotated.
 * The 12B model has one norm for both halves of a block, which it computes side by side, and
 * normalises each head of q and k.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv       biases where the file has them
 *          q, k = layernorm(q), layernorm(k) per head      12B; then rotated, partners half of
 *                                                          n_rot apart
 *          x = x + Wo attend(q, K, V)
 *          h = layernorm(x)                                12B: h as above
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout layernorm(x)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const char q_norm[] = "blk.%u.attn_q_norm", k_norm[] = "blk.%u.attn_k_norm";

static bool has_qk_norm(const struct tft_load *ld)
{
    return tft_load_has_norm(ld, q_norm, 0) || tft_load_has_norm(ld, k_norm, 0);
}

static void load_block(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    b->own_norms = has_qk_norm(ld);
    if (!b->own_norms)
        return;
    b->q_norm = tft_load_head_norms(ld, q_norm, layer, m->n_head, m->head_dim);
    b->k_norm = tft_load_head_norms(ld, k_norm, layer, m->n_head_kv, m->head_dim);
}

static const struct tft_transformer stablelm = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .block = load_block,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    m->parallel = m->names_norm_2 = !tft_load_has_norm(ld, "blk.%u.ffn_norm", 0);
    m->zeros = has_qk_norm(ld) ? tft_load_equal(ld, m->head_dim, 0) : NULL;
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (b->own_norms)
        tft_layernorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_add_attention(p, b);

    tft_gated(p, b, TFT_SILU);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_stablelm = {
    .name = "stablelm",
    .load = load,
    .layer = layer,
    .transformer = &stablelm,
};
