#include "models/delta_net.h"

#include <math.h>

#include "model/load.h"
#include "run/ops.h"

enum { MOST_HEADS = 1 << 12, MOST_DIM = 1 << 10, INTERVAL = 4 };

static bool is_delta_net(struct tft_load *ld, unsigned layer)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, "attention.recurrent_layers", full);
    uint64_t is = 0;
    if (!v) {
        uint32_t each = tft_load_dim(ld, "full_attention_interval", INTERVAL, INT32_MAX);
        return (layer + 1) % each != 0;
    }
    if (!v->is_array || !tft_value_uint(v, layer, &is) || is > 1)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a bool for each layer", full);
    return is;
}

void tft_delta_net_shape(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_delta_shape *d = &m->delta;
    d->k_heads = tft_load_dim(ld, "ssm.group_count", 0, MOST_HEADS);
    d->v_heads = tft_load_dim(ld, "ssm.time_step_rank", 0, MOST_HEADS);
    d->dim = tft_load_dim(ld, "ssm.state_size", 0, MOST_DIM);
    if (tft_load_dim(ld, "ssm.inner_size", 0, INT32_MAX) != d->v_heads * d->dim)
        tft_load_fail(ld, TFT_ERR_FORMAT, "ssm.inner_size is not %u heads of %u", d->v_heads,
                      d->dim);
    if (d->dim % TFT_PANEL || d->v_heads % d->k_heads)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a state of %u heads of %u, with %u of keys: sizes are multiples of %d, and "
                      "the heads of the heads of keys",
                      d->v_heads, d->dim, d->k_heads, TFT_PANEL);
    if (d->v_heads * (d->grouped ? 2 : 1) > m->n_head_kv * m->head_dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "more heads with a state, %u, than keys are wide",
                      d->v_heads);
    if (ld->status != TFT_OK) /* nothing is allocated for sizes that make no sense */
        return;
    d->q_norm = tft_load_equal(ld, d->dim, 1 / (float)d->dim);
    d->k_norm = tft_load_equal(ld, d->dim, 1 / sqrtf((float)d->dim));
}

bool tft_delta_net_load(struct tft_load *ld, unsigned layer)
{
    if (tft_load_kv_heads(ld, layer) && !is_delta_net(ld, layer))
        return false;
    struct tft_model *m = ld->m;
    const struct tft_delta_shape *s = &m->delta;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = m->n_embd, values = s->v_heads * s->dim, channels = tft_delta_channels(s),
             taps = tft_load_dim(ld, "ssm.conv_kernel", 0, TFT_CONV_TAPS);
    tft_load_mixer_width(ld, values, channels);
    b->mixer = TFT_MIX_DELTA_NET;
    b->delta.qkv = tft_load_linear(ld, "blk.%u.attn_qkv", layer, channels, d, false);
    if (s->grouped) {
        b->delta.alpha = tft_load_linear(ld, "blk.%u.ssm_ba", layer, 2 * s->v_heads, d, false);
    } else {
        b->delta.alpha = tft_load_linear(ld, "blk.%u.ssm_alpha", layer, s->v_heads, d, false);
        b->delta.beta = tft_load_linear(ld, "blk.%u.ssm_beta", layer, s->v_heads, d, false);
    }
    b->delta.z = tft_load_linear(ld, "blk.%u.attn_gate", layer, values, d, false);
    b->o = tft_load_linear(ld, "blk.%u.ssm_out", layer, d, values, false);
    b->taps = tft_load_taps(ld, "blk.%u.ssm_conv1d", layer, taps, channels);
    b->delta.decay = tft_load_vector(ld, "blk.%u.ssm_a", layer, s->v_heads);
    b->delta.bias = tft_load_vector(ld, "blk.%u.ssm_dt.bias", layer, s->v_heads);
    b->delta.norm = tft_load_norm(ld, "blk.%u.ssm_norm", layer, s->dim, false);
    tft_load_state(ld, b,
                   (uint64_t)(taps - 1) * channels + (uint64_t)values * s->dim +
                       tft_state_factors(s->v_heads));
    return true;
}

void tft_delta_net_mix(struct tft_pass *p, uint32_t layer)
{
    const struct tft_layer *b = &p->m->layer[layer];
    tft_project(p, &b->delta.qkv);
    tft_delta_gates(p, b);
    tft_delta_net(p, b);
    if (layer + 1 == p->m->n_layer)
        tft_keep_last(p);
}
