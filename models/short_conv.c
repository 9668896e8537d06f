#include "models/short_conv.h"

#include "model/load.h"
#include "run/ops.h"

bool tft_short_conv_load(struct tft_load *ld, unsigned layer)
{
    if (tft_load_kv_heads(ld, layer))
        return false;
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = m->n_embd, taps = tft_load_dim(ld, "shortconv.l_cache", 0, TFT_CONV_TAPS);
    tft_load_mixer_width(ld, d, 3 * d);
    b->mixer = TFT_MIX_SHORT_CONV;
    b->conv.proj = tft_load_linear(ld, "blk.%u.shortconv.in_proj", layer, 3 * d, d, false);
    b->o = tft_load_linear(ld, "blk.%u.shortconv.out_proj", layer, d, d, false);
    b->taps = tft_load_taps(ld, "blk.%u.shortconv.conv", layer, taps, d);
    tft_load_state(ld, b, (uint64_t)(taps - 1) * d);
    return true;
}

void tft_short_conv_mix(struct tft_pass *p, uint32_t layer)
{
    const struct tft_layer *b = &p->m->layer[layer];
    tft_project(p, &b->conv.proj);
    tft_short_conv(p, b);
    if (layer + 1 == p->m->n_layer)
        tft_keep_last(p);
}
