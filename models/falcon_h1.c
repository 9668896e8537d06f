/*
 * falcon-h1: Zuo et al. 2025 (arXiv 2507.22448, section 2). Attention and Mamba-2 side by side in
 * each layer. The multipliers of the paper are in the weights of GGUF files.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          x = x + Wout mamba(h) + Wo attend(q, K, V)              models/mamba.h
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 *
 * The name of g_ffn lacks ".weight" in files.
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mamba.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer falcon_h1 = {
    .rope = TFT_ROPE_HALVES,
    .short_names = true,
    .mixer = tft_mamba_load_beside,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_mamba_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_project(p, &b->side); /* these four products read the same input, so one after the other */
    tft_qkv(p, b);
    tft_mamba(p, b);
    tft_residual(p, &b->side_out, TFT_A);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_falcon_h1 = {
    .name = "falcon-h1",
    .load = load,
    .layer = layer,
    .transformer = &falcon_h1,
};
