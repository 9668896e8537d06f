#include "models/mamba.h"

#include <stdio.h>

#include "model/load.h"
#include "run/ops.h"

enum { MOST_HEADS = 1 << 12, MOST_DIM = 1 << 10 };

void tft_mamba_shape(struct tft_load *ld)
{
    struct tft_mamba_shape *s = &ld->m->mamba;
    s->heads = tft_load_dim(ld, "ssm.time_step_rank", 0, MOST_HEADS);
    s->groups = tft_load_dim(ld, "ssm.group_count", 0, MOST_HEADS);
    s->state = tft_load_dim(ld, "ssm.state_size", 0, MOST_DIM);
    uint32_t width = tft_load_dim(ld, "ssm.inner_size", 0, MOST_HEADS * MOST_DIM);
    if (ld->status != TFT_OK)
        return;
    s->dim = width / s->heads;
    if (width % s->heads || s->dim % TFT_PANEL || s->heads % s->groups)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a state of %u heads in %u groups for %u numbers: heads have a multiple of "
                      "%d numbers, and groups the same number of heads",
                      s->heads, s->groups, width, TFT_PANEL);
}

/* Floats that files have as a column, of a tensor whose whole name is fmt. */
static const float *column(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n)
{
    char name[64];
    snprintf(name, sizeof name, fmt, layer);
    ld->m->weight_bytes += n * sizeof(float);
    return tft_load_table(ld, name, n, 1).data;
}

/* in, out: the places of its matrices. */
static void load_mamba(struct tft_load *ld, unsigned layer, struct tft_linear *in,
                       struct tft_linear *out)
{
    struct tft_model *m = ld->m;
    const struct tft_mamba_shape *s = &m->mamba;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *norm = "blk.%u.ssm_norm";
    uint32_t d = m->n_embd, width = tft_mamba_width(s), channels = tft_mamba_channels(s),
             taps = tft_load_dim(ld, "ssm.conv_kernel", 0, TFT_CONV_TAPS),
             projected = width + channels + s->heads;
    if (ld->status != TFT_OK)
        return;
    tft_load_mixer_room(ld, width, projected);
    *in = tft_load_linear(ld, "blk.%u.ssm_in", layer, projected, d, false);
    *out = tft_load_linear(ld, "blk.%u.ssm_out", layer, d, width, false);
    b->taps = tft_load_taps(ld, "blk.%u.ssm_conv1d", layer, taps, channels);
    b->taps.bias = tft_load_vector(ld, "blk.%u.ssm_conv1d.bias", layer, channels);
    b->mamba.decay = column(ld, "blk.%u.ssm_a", layer, s->heads);
    b->mamba.skip = column(ld, "blk.%u.ssm_d", layer, s->heads);
    b->mamba.bias = tft_load_vector(ld, "blk.%u.ssm_dt.bias", layer, s->heads);
    if (!m->mamba_beside || tft_load_has_norm(ld, norm, layer)) /* falcon-h1 may lack it */
        b->mamba.norm = tft_load_head_norms(ld, norm, layer, s->groups, width / s->groups);
    tft_load_state(ld, b,
                   (uint64_t)(taps - 1) * channels + (uint64_t)width * s->state +
                       tft_state_factors(s->heads));
}

bool tft_mamba_load(struct tft_load *ld, unsigned layer)
{
    return !tft_load_kv_heads(ld, layer) && tft_mamba_load_alone(ld, layer);
}

bool tft_mamba_load_alone(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    b->mixer = TFT_MIX_MAMBA;
    load_mamba(ld, layer, &b->scan.proj, &b->o);
    return true;
}

bool tft_mamba_load_beside(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    ld->m->mamba_beside = true;
    load_mamba(ld, layer, &b->side, &b->side_out);
    return false;
}

void tft_mamba_mix(struct tft_pass *p, uint32_t layer)
{
    const struct tft_layer *b = &p->m->layer[layer];
    tft_project(p, &b->scan.proj);
    tft_mamba(p, b);
    if (layer + 1 == p->m->n_layer)
        tft_keep_last(p);
}
