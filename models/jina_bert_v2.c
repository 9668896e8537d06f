/*
 * jina-bert-v2: jina-embeddings-v2 (Günther et al. 2023, arXiv 2310.19923, section 3). The block
 * of encoder.h without positions, with a gate, and with ALiBi (Press et al. 2022, arXiv 2108.12409)
 * in both directions: the score of tokens i and j falls by m |i - j|. Of H heads, n being the
 * largest power of two up to H:
 *
 *          m = 2^(-8 (h + 1) / n)  for h < n,  2^(-4 (2 (h - n) + 1) / n)  for the others
 *          x = layernorm(x + Wdown (gelu(Wgate x) * Wup x) + bdown)
 *
 * The variant for code has norms of q and k over all heads, and a second one after attention:
 *
 *          y = layernorm(x + Wo attend(q, K, V) + bo)      x = layernorm(y + x)
 */
#include "model/load.h"
#include "base/rope.h"
#include "models/encoder.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void block(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = ld->m->n_embd;
    tft_encoder_post_norms(ld, layer);
    if (tft_load_has_norm(ld, "blk.%u.attn_q_norm", layer)) {
        b->q_norm =
            tft_load_norm(ld, "blk.%u.attn_q_norm", layer, ld->m->n_head * ld->m->head_dim, true);
        b->k_norm = tft_load_norm(ld, "blk.%u.attn_k_norm", layer,
                                  ld->m->n_head_kv * ld->m->head_dim, true);
    }
    if (tft_load_has_norm(ld, "blk.%u.attn_norm_2", layer))
        b->attn_norm = tft_load_norm(ld, "blk.%u.attn_norm_2", layer, d, true);
}

static const struct tft_transformer jina = {
    .layer_norm = true,
    .fused_gate = true,
    .no_out_norm = true,
    .block = block,
};

static const float *slopes(struct tft_load *ld)
{
    const double ln2 = 0.69314718055994531;
    double bias = (double)tft_load_real(ld, "attention.max_alibi_bias", 8);
    uint32_t heads = ld->m->n_head, n = 1;
    float *m = tft_arena_take(&ld->arena, heads, sizeof *m);
    while (n <= heads / 2)
        n *= 2;
    for (uint32_t h = 0; m && h < heads; h++)
        m[h] = (float)tft_rope_exp(-ln2 * bias * (h < n ? h + 1.0 : (2 * (h - n) + 1) / 2.0) / n);
    return m;
}

static void load(struct tft_load *ld)
{
    tft_encoder_load(ld);
    ld->m->slopes = slopes(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_take(p, &b->q);
    tft_qkv(p, b);
    if (b->q_norm.w)
        tft_rmsnorm_whole(p, b); /* LayerNorm, as the norms have biases */
    tft_attention(p, l);
    tft_linear_y(p, &b->o, TFT_A);
    tft_norm_sum(p, &b->attn_post_norm, &b->attn_norm); /* the second norm, or none */

    tft_take(p, &b->up);
    tft_gated(p, b, tft_encoder_activation(p->m));
    tft_residual_then_norm(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_jina_bert_v2 = {
    .name = "jina-bert-v2",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_NO_PRE_NORM),
    .load = load,
    .layer = layer,
    .transformer = &jina,
};
