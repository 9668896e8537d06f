#include "models/mixture.h"

#include <math.h>

#include "model/load.h"

/* The function from scores to weights. Other formulas are refused. */
static void load_gating(struct tft_load *ld, bool sigmoid)
{
    uint32_t gate = tft_load_dim(ld, "expert_gating_func", sigmoid ? 2 : 1, UINT16_MAX);
    ld->m->expert_sigmoid = gate == 2;
    if (gate > 2)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "%s.expert_gating_func is %u; tuffet knows 1 (softmax) and 2 (sigmoid)",
                      ld->m->arch->name, gate);
    if (tft_load_has(ld, "expert_group_count") &&
        tft_load_dim(ld, "expert_group_count", 1, TFT_MAX_EXPERTS) > 1)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "experts in groups");
}

/* The width of the feed-forward layers that are not experts; that of experts if there are none. */
static uint32_t dense_width(struct tft_load *ld, uint32_t dense, uint32_t leading)
{
    const struct tft_model *m = ld->m;
    bool shared = tft_load_has_linear(ld, "blk.%u.ffn_up_shexp", m->n_layer - 1);
    uint32_t width = shared ? tft_load_dim(ld, "expert_shared_feed_forward_length", dense,
                                           TFT_PANEL_MAX_K)
                            : m->n_ff_expert;
    if (shared && leading && width != dense)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "layers of %u hidden activations, and shared experts of %u", dense, width);
    return leading ? dense : width;
}

void tft_mixture_shape(struct tft_load *ld, const struct tft_mixture *x)
{
    struct tft_model *m = ld->m;
    m->n_expert = m->n_expert_used = m->n_ff_expert = 0;
    m->shared_expert = false;
    if (x->optional && !tft_load_count(ld, "expert_count", 0, TFT_MAX_EXPERTS))
        return;
    m->n_expert = tft_load_dim(ld, "expert_count", 0, TFT_MAX_EXPERTS);
    m->n_expert_used = tft_load_dim(ld, "expert_used_count", 0, m->n_expert);
    m->n_ff_expert = tft_load_dim(ld, "expert_feed_forward_length", m->n_ff, 1 << 24);
    m->n_leading = tft_load_count(ld, "leading_dense_block_count", 0, m->n_layer - 1);
    m->expert_renorm = x->renorm;
    m->expert_scale = tft_load_factor(ld, "expert_weights_scale", 1);
    m->router_scale = x->beside ? 1 / sqrtf((float)m->n_embd) : 1;
    load_gating(ld, x->sigmoid);
    if (!x->beside)
        m->n_ff = dense_width(ld, m->n_ff, m->n_leading);
}

bool tft_mixture_has(const struct tft_load *ld, unsigned layer)
{
    return ld->m->n_expert && layer >= ld->m->n_leading;
}

static void load_shared(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *gate = "blk.%u.ffn_gate_inp_shexp";
    uint32_t d = ld->m->n_embd, ff = ld->m->n_ff;
    if (!tft_load_has_linear(ld, "blk.%u.ffn_up_shexp", layer) &&
        !tft_load_has_linear(ld, "blk.%u.ffn_down_shexp", layer))
        return;
    ld->m->shared_expert = true;
    b->gate = tft_load_linear(ld, "blk.%u.ffn_gate_shexp", layer, ff, d, false);
    b->up = tft_load_linear(ld, "blk.%u.ffn_up_shexp", layer, ff, d, false);
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

void tft_mixture_load(struct tft_load *ld, const struct tft_mixture *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_experts *x = &tft_load_layer(ld, layer)->experts;
    const char *fused = "blk.%u.ffn_gate_up_exps";
    uint32_t d = m->n_embd, ff = m->n_ff_expert;
    x->router = tft_load_router(ld, "blk.%u.ffn_gate_inp", layer, m->n_expert);
    if (tft_load_has_bias(ld, "blk.%u.exp_probs_b", layer))
        x->bias = tft_load_vector(ld, "blk.%u.exp_probs_b.bias", layer, m->n_expert);
    if (!ld->w8a8 && tft_load_has_linear(ld, fused, layer)) {
        x->gate = tft_load_experts(ld, fused, layer, 2 * ff, 0, ff, d);
        x->up = tft_load_experts(ld, fused, layer, 2 * ff, ff, ff, d);
    } else {
        x->gate = tft_load_experts(ld, "blk.%u.ffn_gate_exps", layer, ff, 0, ff, d);
        x->up = tft_load_experts(ld, "blk.%u.ffn_up_exps", layer, ff, 0, ff, d);
    }
    x->down = tft_load_experts(ld, "blk.%u.ffn_down_exps", layer, d, 0, d, ff);
    if (t->beside)
        load_beside(ld, layer);
    else
        load_shared(ld, layer);
}
