/*
 * mistral3: Mistral AI 2025 (Ministral 3). The formula is llama's with YaRN (load_rope.c), and
 * queries that grow with their position p: t is attention.temperature_scale, c the original
 * context.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          q = q (1 + t ln(1 + floor(p / c)))
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer mistral3 = {.rope = TFT_ROPE_PAIRS};

/* Llama 4's temperature of attention: queries grow with the logarithm of positions. */
static void load_query_growth(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    m->query_growth = tft_load_factor(ld, "attention.temperature_scale", 0);
    m->query_period =
        m->query_growth > 0
            ? tft_load_dim(ld, "rope.scaling.original_context_length", m->n_ctx, INT32_MAX)
            : 1;
}

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    load_query_growth(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    if (p->m->query_growth > 0)
        tft_scale_queries(p);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_mistral3 = {
    .name = "mistral3",
    .load = load,
    .layer = layer,
    .transformer = &mistral3,
};
