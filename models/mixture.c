#include "models/mixture.h"

#include <math.h>

#include "model/load.h"

/* The function from scores to weights. Other formulas are refused. */
static void load_gating(struct tft_load *ld, const struct tft_mixture *x)
{
    uint32_t usual = x->chosen    ? 3
                     : x->sigmoid ? 2
                                  : 1,
             gate = tft_load_dim(ld, "expert_gating_func", usual, UINT16_MAX);
    ld->m->expert_sigmoid = gate == 2;
    ld->m->expert_chosen = x->chosen;
    if (x->chosen ? gate != 3 : gate > 2)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "%s.expert_gating_func is %u; tuffet knows 1 (softmax) and 2 (sigmoid)",
                      ld->m->arch->name, gate);
}

/* Groups of experts, of which the best take part. */
static void load_groups(struct tft_load *ld, const struct tft_mixture *x)
{
    struct tft_model *m = ld->m;
    m->n_expert_group = tft_load_count(ld, "expert_group_count", 0, TFT_MAX_EXPERTS);
    if (m->n_expert_group < 2) {
        m->n_expert_group = 0;
        return;
    }
    if (!x->groups) {
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "experts in groups");
        return;
    }
    m->n_group_used = tft_load_dim(ld, "expert_group_used_count", 0, m->n_expert_group);
    uint32_t of_one = m->n_expert / m->n_expert_group;
    if (m->n_expert % m->n_expert_group || of_one < 2 ||
        m->n_group_used * of_one < m->n_expert_used)
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "%u experts in %u groups, of which a token uses %u, do not give it %u",
                      m->n_expert, m->n_expert_group, m->n_group_used, m->n_expert_used);
}

/* Whether some layer has shared experts. In halves of blocks, the last one need not have them. */
static bool has_shared(const struct tft_load *ld)
{
    for (unsigned layer = ld->m->n_layer; layer-- > ld->m->n_leading;)
        if (tft_load_has_linear(ld, "blk.%u.ffn_up_shexp", layer))
            return true;
    return false;
}

/* Sets the widths of feed-forward layers that are not experts, n_ff to the largest: that of experts
   if there are none. A file without the width of shared experts has as many experts side by side as
   expert_shared_count says, or is as wide as its dense layers. */
static void load_widths(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    uint32_t dense = m->n_ff, leading = m->n_leading || m->expert_period ? dense : 0;
    m->n_ff_dense = leading;
    m->n_ff_shared = 0;
    if (has_shared(ld)) {
        uint32_t side = tft_load_count(ld, "expert_shared_count", 0, TFT_MAX_EXPERTS);
        uint64_t usual = side ? (uint64_t)side * m->n_ff_expert : dense;
        m->n_ff_shared =
            tft_load_dim(ld, "expert_shared_feed_forward_length",
                         (uint32_t)(usual < UINT32_MAX ? usual : UINT32_MAX), TFT_PANEL_MAX_K);
    }
    uint32_t most = leading > m->n_ff_shared ? leading : m->n_ff_shared;
    m->n_ff = most ? most : m->n_ff_expert;
}

/* Layers before the first one with a router. */
static uint32_t dense(const struct tft_load *ld)
{
    uint32_t n = 0;
    while (n + 1 < ld->m->n_layer && !tft_load_has_linear(ld, "blk.%u.ffn_gate_inp", n))
        n++;
    return n;
}

/* 1 would be no layer, and 0 is not a period. */
static uint32_t load_period(struct tft_load *ld)
{
    uint32_t n = tft_load_dim(ld, "moe_every_n_layers", 2, INT32_MAX);
    if (n < 2)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "moe_every_n_layers is %u", n);
    return n > 1 ? n : 2;
}

void tft_mixture_shape(struct tft_load *ld, const struct tft_mixture *x)
{
    struct tft_model *m = ld->m;
    m->n_expert = m->n_expert_used = m->n_ff_expert = 0;
    m->n_expert_group = m->n_ff_dense = m->n_ff_shared = 0;
    m->expert_period = 0;
    m->shared_expert = false;
    if (x->optional && !tft_load_count(ld, "expert_count", 0, TFT_MAX_EXPERTS))
        return;
    m->n_expert = tft_load_dim(ld, "expert_count", 0, TFT_MAX_EXPERTS);
    m->n_expert_used = tft_load_dim(ld, "expert_used_count", 0, m->n_expert);
    m->n_ff_expert = tft_load_dim(ld, "expert_feed_forward_length", m->n_ff, 1 << 24);
    m->n_leading = tft_load_count(ld, "leading_dense_block_count", x->finds_dense ? dense(ld) : 0,
                                  x->everywhere ? 0 : m->n_layer - 1);
    if (x->alternate)
        m->expert_period = load_period(ld);
    m->expert_renorm =
        x->says_renorm ? tft_load_flag(ld, "expert_weights_norm", x->renorm) : x->renorm;
    m->expert_scale = tft_load_factor(ld, "expert_weights_scale", 1);
    m->router_scale = x->beside ? 1 / sqrtf((float)m->n_embd) : 1;
    load_gating(ld, x);
    load_groups(ld, x);
    if (!x->beside)
        load_widths(ld);
}

bool tft_mixture_has(const struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    bool of_period = !m->expert_period || layer % m->expert_period == 1;
    return m->n_expert && layer >= m->n_leading && of_period;
}

static void load_shared(struct tft_load *ld, const struct tft_mixture *t, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *gate = "blk.%u.ffn_gate_inp_shexp", *up = "blk.%u.ffn_up_shexp",
               *own_gate = "blk.%u.ffn_gate_shexp";
    uint32_t d = ld->m->n_embd, ff = ld->m->n_ff_shared;
    if (!tft_load_has_linear(ld, up, layer) &&
        !tft_load_has_linear(ld, "blk.%u.ffn_down_shexp", layer))
        return;
    ld->m->shared_expert = true;
    if (t->fused_shared && !ld->w8a8 && !tft_load_has_linear(ld, own_gate, layer)) {
        b->gate = tft_load_linear_rows(ld, up, layer, 2 * ff, 0, ff, d, false);
        b->up = tft_load_linear_rows(ld, up, layer, 2 * ff, ff, ff, d, false);
    } else {
        if (!t->no_gate)
            b->gate = tft_load_linear(ld, own_gate, layer, ff, d, false);
        b->up = tft_load_linear(ld, up, layer, ff, d, false);
    }
    b->down = tft_load_linear(ld, "blk.%u.ffn_down_shexp", layer, d, ff, false);
    if (tft_load_has_linear(ld, gate, layer))
        b->experts.shared_gate = tft_load_router(ld, gate, layer, 1);
}

/* The additional tensors of experts beside a feed-forward. */
static void load_beside(struct tft_load *ld, unsigned layer)
{
    struct tft_experts *x = &tft_load_layer(ld, layer)->experts;
    uint32_t d = ld->m->n_embd;
    ld->m->shared_expert = x->beside = true;
    x->router_norm.w = tft_load_vector(ld, "blk.%u.ffn_gate_inp.scale", layer, d);
    x->in_norm = tft_load_norm(ld, "blk.%u.pre_ffw_norm_2", layer, d, false);
    x->beside_norm = tft_load_norm(ld, "blk.%u.post_ffw_norm_1", layer, d, false);
    x->sum_norm = tft_load_norm(ld, "blk.%u.post_ffw_norm_2", layer, d, false);
    if (!ld->w8a8) /* there the weights of `down` contain it */
        x->factor = tft_load_vector(ld, "blk.%u.ffn_down_exps.scale", layer, ld->m->n_expert);
}

/* A matrix that W8A8 files keep as it was. */
static struct tft_linear load_kept(struct tft_load *ld, const char *fmt, unsigned layer,
                                   uint32_t rows, uint32_t cols)
{
    return ld->w8a8 ? tft_load_plain_linear(ld, fmt, layer, rows, cols)
                    : tft_load_linear(ld, fmt, layer, rows, cols, false);
}

/* The width of the experts' input and output. */
static uint32_t load_latent(struct tft_load *ld, const struct tft_mixture *t, unsigned layer)
{
    struct tft_experts *x = &tft_load_layer(ld, layer)->experts;
    uint32_t d = ld->m->n_embd,
             n = t->latent ? tft_load_count(ld, "moe_latent_size", 0, TFT_PANEL_MAX_K) : 0;
    if (!n)
        return d;
    if (n > d)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "experts of a width of their own, %u, are not supported where it is above "
                      "the model's",
                      n);
    tft_load_mixer_room(ld, n, n);
    x->latent_down = load_kept(ld, "blk.%u.ffn_latent_down", layer, n, d);
    x->latent_up = load_kept(ld, "blk.%u.ffn_latent_up", layer, d, n);
    return n;
}

/* A vector of each expert after its products. */
static void load_biases(struct tft_load *ld, struct tft_experts *x, unsigned layer)
{
    x->gate.bias = tft_load_expert_biases(ld, "blk.%u.ffn_gate_exps", layer, x->gate.w.rows);
    x->up.bias = tft_load_expert_biases(ld, "blk.%u.ffn_up_exps", layer, x->up.w.rows);
    x->down.bias = tft_load_expert_biases(ld, "blk.%u.ffn_down_exps", layer, x->down.w.rows);
}

void tft_mixture_load(struct tft_load *ld, const struct tft_mixture *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_experts *x = &tft_load_layer(ld, layer)->experts;
    const char *fused = "blk.%u.ffn_gate_up_exps";
    uint32_t d = load_latent(ld, t, layer), ff = m->n_ff_expert;
    x->raw = t->raw;
    x->router = tft_load_router(ld, "blk.%u.ffn_gate_inp", layer, m->n_expert);
    if (t->biases)
        x->router_bias = tft_load_vector(ld, "blk.%u.ffn_gate_inp.bias", layer, m->n_expert);
    if (tft_load_has_bias(ld, "blk.%u.exp_probs_b", layer))
        x->bias = tft_load_vector(ld, "blk.%u.exp_probs_b.bias", layer, m->n_expert);
    if (!ld->w8a8 && tft_load_has_linear(ld, fused, layer)) {
        x->gate = tft_load_experts(ld, fused, layer, 2 * ff, 0, ff, d);
        x->up = tft_load_experts(ld, fused, layer, 2 * ff, ff, ff, d);
    } else {
        if (!t->no_gate)
            x->gate = tft_load_experts(ld, "blk.%u.ffn_gate_exps", layer, ff, 0, ff, d);
        x->up = tft_load_experts(ld, "blk.%u.ffn_up_exps", layer, ff, 0, ff, d);
    }
    x->down = tft_load_experts(ld, "blk.%u.ffn_down_exps", layer, d, 0, d, ff);
    if (t->biases)
        load_biases(ld, x, layer);
    if (t->beside)
        load_beside(ld, layer);
    else
        load_shared(ld, t, layer);
}
