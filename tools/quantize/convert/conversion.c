#include "tools/quantize/convert/conversion.h"

#include "base/error.h"

bool conversion_failed(const struct conversion *c) { return c->bad.code != TFT_OK || c->stopped; }

void conversion_fail_memory(struct conversion *c)
{
    if (!conversion_failed(c))
        tft_fail(&c->bad, TFT_ERR_NOMEM, "%s: out of memory to round the weights of layer %u",
                 c->m->source.name, c->layers_done);
}

bool conversion_has_own_weights(const struct tft_model *m, uint32_t l)
{
    return !m->n_round || l < m->n_round;
}

struct low_bits *conversion_rounded(const struct conversion *c, uint32_t l)
{
    uint32_t at = c->m->n_round ? l % c->m->n_round * LAYER_MATS : 0;
    return c->rounded ? c->rounded + at : NULL;
}

bool conversion_has_cache(const struct conversion *c, const struct tft_layer *b)
{
    return !c->m->encoder && tft_layer_has_kv(b);
}

bool conversion_scales_moments(const struct conversion *c)
{
    return c->low_bits && c->o->rounding == QUANTIZE_AWQ;
}

void conversion_progress(struct conversion *c, double done)
{
    if (c->o->progress && !c->o->progress(c->o->user, done))
        c->stopped = true;
}

bool conversion_step(struct conversion *c, double done)
{
    bool scales = conversion_scales_moments(c);
    double steps = c->layers_done == c->m->n_layer
                       ? 1
                       : 1 + (c->o->smooth > 0) + 2 * c->low_bits * c->stages + scales;
    conversion_progress(c, (c->layers_done + (c->steps + done) / steps) / (c->m->n_layer + 1.0));
    return !c->stopped;
}
