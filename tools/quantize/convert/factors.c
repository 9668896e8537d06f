#include "tools/quantize/convert/factors.h"

#include <stdlib.h>
#include <string.h>

#include "model/parts.h"
#include "tools/quantize/round/awq.h"
#include "tools/quantize/round/smooth.h"

/* ---- SmoothQuant */

/* Chooses the smoothing factors of a norm's output. */
static void smooth_input(struct conversion *c, struct tft_layer *b, uint32_t which)
{
    struct tft_linear *l[LAYER_READERS];
    size_t n = layers_readers(b, which, l), d = c->m->n_embd;
    if (!n) /* the block lacks this half */
        return;
    memset(c->w_max, 0, d * sizeof *c->w_max);
    for (size_t i = 0; i < n; i++)
        smooth_columns_max(c->w_max, layers_weights(l[i]), d, l[i]->w.rows, d);
    histogram_absmax(input_stats_of(&c->stats, which), c->x_max);
    smooth_factors(c->fold.factor[which], c->x_max, c->w_max, d, c->o->smooth);
}

void factors_smooth(struct conversion *c, struct tft_layer *b, uint32_t l)
{
    if (c->o->smooth == 0)
        return;
    c->stats.untransformed = true;
    layers_run(&c->y, l, true);
    c->stats.untransformed = false;
    c->steps++;
    smooth_input(c, b, TFT_IN_ATTN);
    smooth_input(c, b, TFT_IN_FFN);
    input_stats_clear(&c->stats);
}

/* ---- AWQ */

static bool awq_progress(void *user, double done)
{
    struct conversion *c = user;
    return conversion_step(c, (c->now + done) / TFT_INPUT_KINDS);
}

/* Whether the producer of the input can be divided: a norm, if there is one. Values keep their
   sizes if the KV cache is calibrated for them. ffn_down's input is up times another number,
   channel by channel, if there is a gate; rotation mixes the channels. */
static bool can_scale(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    if (b->in[which].norm) /* a norm lies between the divided rows and the input */
        return false;
    if (which == TFT_IN_O)
        return b->mixer == TFT_MIX_ATTENTION && b->v.w.rows && !b->v_norm.w &&
               !(c->m->qkv_bound > 0) && !(c->m->parts & TFT_BIT(TFT_PART_SHORT_VALUES)) &&
               !c->kv.value_order && !c->kv.alpha[1];
    if (which == TFT_IN_ATTN)
        return b->attn_norm.w && !b->altup.left.w.rows; /* which reads the same norm */
    if (tft_layer_has_experts(b)) /* the router reads the same norm */
        return false;
    if (which == TFT_IN_FFN)
        return b->ffn_norm.w;
    if (which == TFT_IN_DOWN)
        return b->gate.w.rows && !b->up.bias && !quantize_down_block(c->m, c->o);
    return which != TFT_IN_SHARED; /* Mamba-2 makes it */
}

/* The KV head's channel from which channel k of attention's output is mixed. */
static size_t value_channel(const struct tft_model *m, size_t k)
{
    size_t shared = m->n_head / m->n_head_kv;
    return k / m->head_dim / shared * m->head_dim + k % m->head_dim;
}

/* size: [width] = the moments; for attention's output, summed over the heads that share a value.
   The values' factors are scratch. */
static void input_sizes(struct conversion *c, const struct tft_layer *b, uint32_t which,
                        float *size)
{
    size_t n = quantize_input_width(c->m, b, which);
    memcpy(size, c->moments.h[which], n * sizeof *size);
    if (which != TFT_IN_O)
        return;
    memset(c->fold.values, 0,
           (size_t)c->m->n_head_kv * c->m->head_dim * sizeof *c->fold.values);
    for (size_t k = 0; k < n; k++)
        c->fold.values[value_channel(c->m, k)] += size[k];
    for (size_t k = 0; k < n; k++)
        size[k] = c->fold.values[value_channel(c->m, k)];
}

/* Chooses the factors of an input, and divides its moments by their squares. size: [width] scratch
 */
static void scale_input(struct conversion *c, struct tft_layer *b, uint32_t which, float *size)
{
    struct awq_how how = {.kern = &c->m->kern,
                          .n_threads = c->y.n_threads,
                          .progress = awq_progress,
                          .user = c};
    float *moment = c->moments.h[which], *factor = c->fold.factor[which];
    struct awq_input x = {
        .n = quantize_input_width(c->m, b, which), .moment = moment, .size = size};
    for (int i = 0; i < LAYER_MATS; i++) {
        const struct tft_linear *l = layers_linear(b, i);
        uint32_t bits = quantize_bits(c->o, c->layers_done, i);
        if (l && bits < 8 && quantize_matrix_input(b, i) == which)
            x.reader[x.n_readers++] =
                (struct awq_matrix){layers_weights(l), l->w.rows, bits,
                                    quantize_group(c->o, c->layers_done, i)};
    }
    input_sizes(c, b, which, size);
    c->now = (int)which;
    if (!awq_choose(factor, &x, &how))
        conversion_fail_memory(c);
    for (size_t k = 0; k < x.n; k++)
        moment[k] /= factor[k] * factor[k];
}

void factors_awq(struct conversion *c, struct tft_layer *b)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        if (quantize_input_width(c->m, b, i) > widest)
            widest = quantize_input_width(c->m, b, i);
    float *size = malloc(widest * sizeof *size);
    if (!size)
        conversion_fail_memory(c);
    for (uint32_t i = 0; i < TFT_INPUT_KINDS && !conversion_failed(c); i++)
        if (c->moments.h[i] && can_scale(c, b, i))
            scale_input(c, b, i, size);
    size_t heads = b->mixer == TFT_MIX_ATTENTION ? quantize_input_width(c->m, b, TFT_IN_O) : 0;
    for (size_t k = 0; k < heads; k++)
        c->fold.values[value_channel(c->m, k)] = c->fold.factor[TFT_IN_O][k];
    free(size);
    c->steps++;
}
