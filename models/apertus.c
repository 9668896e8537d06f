/*
 * apertus: Apertus 8B and 70B (Swiss AI 2025, arXiv 2509.14233, section 2). llama with norms of q
 * and k, and with xIELU in place of a gate: its p, n and b differ by layer.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown xielu(Wup h)
 *      logits = Wout (rms(x) g_out)
 *
 * Keys of a file, each a number or a list with one for each layer: xielu.alpha_p, xielu.alpha_n,
 * xielu.beta, xielu.eps. p = softplus(alpha_p), n = beta + softplus(alpha_n), b = beta, least =
 * eps.
 */
#include "base/exp_log.h"
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static double number(struct tft_load *ld, const char *key, unsigned layer)
{
    const struct tft_value *v = tft_source_value(ld->s, key);
    double x = 0;
    bool there = v && (!v->is_array || v->n == ld->n_block);
    if (!there || !tft_value_real(v, v->is_array ? layer : 0, &x) || !(x > -1e4 && x < 1e4))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a number for each layer", key);
    return ld->status == TFT_OK ? x : 0;
}

static double softplus(double x) { return x > 30 ? x : tft_log(1 + tft_exp(x)); }

static void load_block(struct tft_load *ld, unsigned layer)
{
    double p = number(ld, "xielu.alpha_p", layer), n = number(ld, "xielu.alpha_n", layer),
           beta = number(ld, "xielu.beta", layer), eps = number(ld, "xielu.eps", layer);
    tft_load_layer(ld, layer)->xielu = (struct tft_xielu){
        .p = (float)softplus(p),
        .n = (float)(beta + softplus(n)),
        .b = (float)beta,
        .least = (float)eps,
    };
}

static const struct tft_transformer apertus = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .no_gate = true,
    .block = load_block,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_plain(p, b, TFT_XIELU);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_apertus = {
    .name = "apertus",
    .parts = TFT_BIT(TFT_PART_XIELU),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &apertus,
};
