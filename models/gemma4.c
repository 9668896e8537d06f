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

/* -------------------------------------------------------------------------------------- loading */

/* Whether a layer uses the keys and values of an earlier layer. */
static bool shares(const struct tft_model *m, unsigned layer)
{
    return layer >= m->n_layer - m->n_shared;
}

/* Numbers of a head in a layer with this window; 0: without one. */
static uint32_t head_dim_of(struct tft_load *ld, uint32_t window)
{
    uint32_t all = tft_load_dim(ld, "attention.key_length", ld->m->n_embd / ld->m->n_head,
                                TFT_MAX_HEAD_DIM);
    return window ? tft_load_dim(ld, "attention.key_length_swa", all, TFT_MAX_HEAD_DIM) : all;
}

static struct tft_kv_heads kv_heads_of(struct tft_load *ld, unsigned layer)
{
    uint32_t dim = head_dim_of(ld, tft_transformer_window(ld, layer));
    return (struct tft_kv_heads){tft_load_kv_heads(ld, layer), dim};
}

/* The source of the keys and values of `layer`: of the layers with their own, the last one that has
   a window if `layer` has one, and has none otherwise. All windows have one size. */
static uint32_t shared_of(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_kv_heads own = kv_heads_of(ld, layer);
    bool window = tft_transformer_window(ld, layer);
    uint32_t l = m->n_layer - m->n_shared;
    while (l && (tft_transformer_window(ld, l - 1) != 0) != window)
        l--;
    if (!l) {
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "layer %u uses keys and values of an earlier layer, but no earlier layer %s "
                      "a window has its own",
                      layer, window ? "with" : "without");
        return 0;
    }
    struct tft_kv_heads its = kv_heads_of(ld, l - 1);
    if (its.n != own.n || its.dim != own.dim)
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "layer %u uses keys and values of layer %u, which has other KV heads", layer,
                      l - 1);
    return l - 1;
}

/* A layer that shares has neither keys nor values; a file may have their tensors. */
static void load_qkv(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *k = "blk.%u.attn_k", *v = "blk.%u.attn_v";
    uint32_t d = m->n_embd, kv = b->kv.n * b->kv.dim;
    b->q = tft_load_linear(ld, "blk.%u.attn_q", layer, m->n_head * b->kv.dim, d, false);
    if (shares(m, layer)) {
        tft_load_ignore(ld, k, layer);
        tft_load_ignore(ld, v, layer);
        return;
    }
    b->k = tft_load_linear(ld, k, layer, kv, d, false);
    if (tft_load_has_linear(ld, v, layer))
        b->v = tft_load_linear(ld, v, layer, kv, d, false);
}

bool tft_gemma4_attention(struct tft_load *ld, unsigned layer)
{
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *k_norm = "blk.%u.attn_k_norm";
    b->mixer = TFT_MIX_ATTENTION;
    b->kv = kv_heads_of(ld, layer);
    b->kv_layer = shares(m, layer) ? shared_of(ld, layer) : tft_load_kv_layer(ld, b->kv);
    b->window = tft_transformer_window(ld, layer);
    uint32_t dim = b->kv.dim, q = m->n_head * dim;
    if (!tft_transformer_fused_qkv(ld, layer, q))
        load_qkv(ld, layer);
    b->q_norm = tft_load_norm(ld, "blk.%u.attn_q_norm", layer, dim, false);
    b->v_norm.w = m->ones;
    if (shares(m, layer))
        tft_load_ignore(ld, k_norm, layer);
    else
        b->k_norm = tft_load_norm(ld, k_norm, layer, dim, false);
    b->o = tft_load_linear(ld, "blk.%u.attn_output", layer, m->n_embd, q, false);
    return true;
}

static void load_block(struct tft_load *ld, unsigned layer)
{
    if (layer == 0)
        tft_layer_embed_load(ld);
    tft_layer_embed_load_layer(ld, layer);
    if (tft_load_has_linear(ld, "blk.%u.layer_output_scale", layer))
        tft_load_layer(ld, layer)->scale =
            tft_load_vector(ld, "blk.%u.layer_output_scale.weight", layer, 1);
}

static const struct tft_transformer gemma4 = {
    .rope = TFT_ROPE_HALVES,
    .scaled_embedding = true,
    .window_period = 6,
    .mixture = &mixture,
    .caps = true,
    .mixer = tft_gemma4_attention,
    .block = load_block,
};

/* The size of the largest heads, and the number of layers that share keys and values. */
static void load_sizes(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    uint32_t full = head_dim_of(ld, 0), windowed = head_dim_of(ld, 1);
    if (tft_load_dim(ld, "attention.value_length_swa", windowed, TFT_MAX_HEAD_DIM) != windowed)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "heads whose values are not as long as their keys are not supported");
    tft_load_head_dim(ld, full > windowed ? full : windowed);
    m->n_shared = tft_load_count(ld, "attention.shared_kv_layers", 0, m->n_layer - 1);
    for (uint32_t l = 0; l < m->n_layer && ld->status == TFT_OK; l++) {
        struct tft_kv_heads kv = kv_heads_of(ld, l);
        if (!kv.n || m->n_head % kv.n || m->n_head / kv.n > TFT_MAX_GROUP)
            tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "layer %u has %u KV heads for %u heads", l, kv.n,
                          m->n_head);
    }
}

/* Sets kv_heads, in a model with different heads in its layers. */
static void load_kv_heads(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_kv_heads *heads = tft_arena_take(&ld->arena, m->n_kv_layer, sizeof *heads);
    heads = heads ? heads : ld->heads;
    for (uint32_t l = 0; l < m->n_kv_layer && heads; l++) /* all layers have attention */
        heads[l] = kv_heads_of(ld, l);
    m->kv_heads = heads;
}

void tft_gemma4_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, true);
    tft_transformer_values(ld);
    m->attn_scale = 1;
    load_sizes(ld);
    m->ones = tft_load_equal(ld, m->head_dim, 1);
    tft_layer_embed_shape(ld);
    tft_transformer_tensors(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, head_dim_of(ld, 1));
    if (m->parts & TFT_BIT(TFT_PART_LAYER_SIZES))
        load_kv_heads(ld);
}

/* --------------------------------------------------------------------------------- the formula */

/* Y = the sum of the block's own feed-forward and of its experts, each with norms of its own. */
static void beside(struct tft_pass *p, const struct tft_layer *b)
{
    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_linear_y(p, &b->down, TFT_G);
    tft_set_aside(p, &b->experts.beside_norm);
    tft_norm(p, &b->experts.in_norm, &b->experts.up);
    tft_route(p, b);
    tft_experts(p, b, TFT_GELU);
    tft_add_aside(p, &b->experts.sum_norm);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    bool embeds = p->m->layer_embed.n;
    if (embeds && l == 0)
        tft_layer_embed_begin(p);
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    if (tft_layer_has_experts(b)) {
        beside(p, b);
    } else {
        tft_norm(p, &b->ffn_norm, &b->up);
        tft_gated(p, b, TFT_GELU);
        tft_linear_y(p, &b->down, TFT_G);
    }
    tft_add_y(p, &b->ffn_post_norm, embeds ? NULL : b->scale);
    if (embeds)
        tft_layer_embed_add(p, l, b->scale);
}

const struct tft_arch tft_arch_gemma4 = {
    .name = "gemma4",
    .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_POST_NORM) |
              TFT_BIT(TFT_PART_VALUE_NORM),
    .load = tft_gemma4_load,
    .layer = layer,
    .transformer = &gemma4,
};
