/*
 * mimo2: MiMo-V2-Flash (Xiaomi 2025, arXiv 2601.02780). A head's values have fewer numbers than its
 * keys. Layers with a window have sinks, more KV heads, and RoPE of another base; RoPE rotates a
 * part of each head. All layers but the first ones have experts.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, s V)      s: attention.value_scale
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *          or x = x + mixture(h)             models/mixture.h: sigmoids, and a bias helps to choose
 *      logits = Wout (rms(x) g_out)
 *
 * In the cache, a value has zeros after its numbers: keys and values are as long there. Files have
 * q, k and v in one tensor. Blocks that predict further tokens come last and are not computed.
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_qkv(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *all = "blk.%u.attn_qkv";
    uint32_t d = m->n_embd, q = m->n_head * b->kv.dim, k = b->kv.n * b->kv.dim,
             v = b->kv.n * m->v_dim, rows = q + k + v;
    if (ld->w8a8 || !tft_load_has_linear(ld, all, layer)) {
        b->q = tft_load_linear(ld, "blk.%u.attn_q", layer, q, d, false);
        b->k = tft_load_linear(ld, "blk.%u.attn_k", layer, k, d, false);
        b->v = tft_load_linear(ld, "blk.%u.attn_v", layer, v, d, false);
        return;
    }
    b->q = tft_load_linear_rows(ld, all, layer, rows, 0, q, d, false);
    b->k = tft_load_linear_rows(ld, all, layer, rows, q, k, d, false);
    b->v = tft_load_linear_rows(ld, all, layer, rows, q + k, v, d, false);
}

static struct tft_kv_heads kv_heads_of(const struct tft_load *ld, unsigned layer)
{
    return (struct tft_kv_heads){tft_load_kv_heads(ld, layer), ld->m->head_dim};
}

static bool load_attention(struct tft_load *ld, unsigned layer)
{
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *sinks = "blk.%u.attn_sinks";
    b->mixer = TFT_MIX_ATTENTION;
    b->kv = kv_heads_of(ld, layer);
    if (!b->kv.n || m->n_head % b->kv.n || m->n_head / b->kv.n > TFT_MAX_GROUP) {
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "layer %u has %u KV heads for %u heads", layer,
                      b->kv.n, m->n_head);
        return true;
    }
    b->kv_layer = tft_load_kv_layer(ld, b->kv);
    b->window = tft_transformer_window(ld, layer);
    b->has_sinks = tft_load_has_linear(ld, sinks, layer);
    if (b->has_sinks)
        b->sinks = tft_load_vector(ld, "blk.%u.attn_sinks.weight", layer, m->n_head);
    load_qkv(ld, layer);
    b->o = tft_load_linear(ld, "blk.%u.attn_output", layer, m->n_embd, m->n_head * m->v_dim, false);
    return true;
}

static const struct tft_mixture mixture = {
    .renorm = true, .says_renorm = true, .sigmoid = true, .finds_dense = true};

static const struct tft_transformer mimo2 = {
    .rope = TFT_ROPE_HALVES,
    .window_period = 1, /* none without a list of layers */
    .mixture = &mixture,
    .mixer = load_attention,
};

static void load_values(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const char *pattern = "attention.sliding_window_pattern";
    m->v_dim = tft_load_dim(ld, "attention.value_length", m->head_dim, TFT_MAX_HEAD_DIM);
    m->value_scale = tft_load_factor(ld, "attention.value_scale", 1);
    if (m->v_dim > m->head_dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "values of %u numbers are longer than keys of %u",
                      m->v_dim, m->head_dim);
    if (tft_load_has(ld, "attention.sliding_window") && !tft_load_by_layer(ld, pattern))
        tft_load_fail(ld, TFT_ERR_FORMAT, "mimo2.%s is not a list of bools", pattern);
}

/* Sets kv_heads, if layers differ. */
static void load_kv_heads(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    if (!(m->parts & TFT_BIT(TFT_PART_LAYER_SIZES)))
        return;
    struct tft_kv_heads *heads = tft_arena_take(&ld->arena, m->n_kv_layer, sizeof *heads);
    heads = heads ? heads : ld->heads;
    for (uint32_t l = 0; l < m->n_kv_layer && heads; l++)
        heads[l] = kv_heads_of(ld, l);
    m->kv_heads = heads;
}

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, true);
    tft_transformer_drop_predicting(ld);
    load_values(ld);
    tft_transformer_values(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, ld->m->head_dim);
    tft_transformer_tensors(ld);
    load_kv_heads(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_pad_values(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b))
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_mimo2 = {
    .name = "mimo2",
    .parts = TFT_BIT(TFT_PART_SHORT_VALUES),
    .load = load,
    .layer = layer,
    .transformer = &mimo2,
};
