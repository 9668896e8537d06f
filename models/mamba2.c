/*
 * mamba2: Dao & Gu 2024 (arXiv 2405.21060, section 7). Mamba-2 in each layer, and nothing else: no
 * attention, so no cache, and no feed-forward.
 *
 *      x = embed[token]
 *      per layer:
 *          x = x + Wout mamba(rms(x) g)                    models/mamba.h
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mamba.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer mamba2 = {.mixer = tft_mamba_load_alone};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    if (ld->m->n_ff)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "mamba2.feed_forward_length is %u, but mamba2 has no feed-forward",
                      ld->m->n_ff);
    tft_mamba_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->scan.proj);
    tft_mamba_mix(p, l);
    tft_residual(p, &b->o, TFT_A);
}

const struct tft_arch tft_arch_mamba2 = {
    .name = "mamba2",
    .parts = TFT_BIT(TFT_PART_HALF_BLOCKS),
    .load = load,
    .layer = layer,
    .transformer = &mamba2,
};
