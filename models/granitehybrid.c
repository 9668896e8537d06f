/*
 * granitehybrid: IBM Granite 4 H (transformers: GraniteMoeHybridForCausalLM). Most layers, with an
 * attention.head_count_kv of 0, have Mamba-2 instead of attention. The four factors are those of
 * granite (models/granite.c). Where the file says rope.scaling.finetuned = false, q and k are not
 * rotated.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + r Wout mamba(h)                         models/mamba.h
 *          or
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + r Wo attend(q, K, V)      scores: a q.k, without 1 / sqrt(E)
 *          h = rms(x) g_ffn
 *          x = x + r Wdown (silu(Wgate h) * Wup h)
 *          or
 *          x = x + r y                       a mixture of experts and a shared one
 *      logits = Wout (rms(x) g_out) / l
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mamba.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .optional = true};

static const struct tft_multipliers multipliers = {0};

static const struct tft_transformer granitehybrid = {
    .multipliers = &multipliers,
    .mixture = &mixture,
    .mixer = tft_mamba_load,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    if (tft_load_flag(ld, "rope.scaling.finetuned", true))
        tft_load_rope(ld, false, false);
    tft_mamba_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    if (b->mixer == TFT_MIX_MAMBA) {
        tft_mamba_mix(p, l);
    } else {
        tft_qkv(p, b);
        if (p->m->n_rot)
            tft_rope(p, b);
        tft_attention(p, l);
    }
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b))
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_granitehybrid = {
    .name = "granitehybrid",
    .load = load,
    .layer = layer,
    .transformer = &granitehybrid,
};
