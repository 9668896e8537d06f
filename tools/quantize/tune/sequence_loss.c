#include "tools/quantize/tune/sequence_loss.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "simd/half.h"
#include "port/port.h"
#include "tools/quantize/tune/head.h"
#include "tools/quantize/tune/tape.h"

struct sequence {
    const struct tft_model *m;
    size_t n;
    real lambda;
    struct tape *tape;
    real *x;  /* [n_layer + 1, n, D] input of each block, and output of the last one */
    real *dx; /* [n, D] */
    float *row; /* [D] */
};

/* Size of the residual stream, in numbers. */
static size_t numbers(const struct sequence *s)
{
    return s->n * s->m->n_embd;
}

size_t sequence_params(const struct tft_model *m)
{
    return (size_t)2 * m->n_prefix * m->kv_numbers;
}

struct sequence *sequence_open(const struct tft_model *m, size_t n, real lambda, int n_threads)
{
    struct sequence *s = calloc(1, sizeof *s);
    size_t bytes;
    if (!s)
        return NULL;
    *s = (struct sequence){.m = m, .n = n, .lambda = lambda};
    s->tape = tape_open(m, m->n_prefix, n, 2 * lambda / (real)n, n_threads);
    if (tft_mul(numbers(s), (m->n_layer + (size_t)1) * sizeof *s->x, &bytes))
        s->x = tft_port_alloc(bytes, 64);
    s->dx = tft_port_alloc(numbers(s) * sizeof *s->dx, 64);
    s->row = malloc(m->n_embd * sizeof *s->row);
    if (s->tape && s->x && s->dx && s->row)
        return s;
    sequence_close(s);
    return NULL;
}

void sequence_close(struct sequence *s)
{
    if (!s)
        return;
    tape_close(s->tape);
    tft_port_free(s->x);
    tft_port_free(s->dx);
    free(s->row);
    free(s);
}

void sequence_watch(struct sequence *s, const struct block_watch *watch, const uint64_t *seed)
{
    s->tape->watch = watch;
    s->tape->drawn = seed;
}

/* tft_embed in `real`. */
static void embed(const struct sequence *s, const int32_t *token)
{
    const struct tft_model *m = s->m;
    for (size_t i = 0; i < s->n; i++) {
        real *x = s->x + i * m->n_embd;
        tft_mat_row(m, &m->embed, (uint32_t)token[i], s->row);
        for (size_t j = 0; j < m->n_embd; j++)
            x[j] = (real)s->row[j] * (real)m->embed_scale;
        if (!m->pos_embed.data)
            continue;
        tft_mat_row(m, &m->pos_embed, (uint32_t)(m->n_prefix + i), s->row);
        for (size_t j = 0; j < m->n_embd; j++)
            x[j] += (real)s->row[j];
    }
}

static struct prefix_rows layer_rows(const struct sequence *s, real *params, uint32_t l)
{
    size_t all = sequence_params(s->m) / 2,
           at = s->m->n_prefix * tft_model_kv_before(s->m, s->m->layer[l].kv_layer);
    return (struct prefix_rows){params + at, params + all + at};
}

/* Half the squared error of block l's output, over n. dx: NULL, or the gradient is added to dx. */
static double output_error(const struct sequence *s, uint32_t l, const uint16_t *float_outputs,
                           real *dx)
{
    const real *x = s->x + (l + (size_t)1) * numbers(s);
    double sum = 0;
    float_outputs += l * numbers(s);
    for (size_t i = 0; i < numbers(s); i++) {
        real e = x[i] - (real)tft_f16_to_f32(float_outputs[i]);
        sum += (double)e * (double)e;
        if (dx)
            dx[i] += e / (real)s->n;
    }
    return sum / 2 / (double)s->n;
}

static struct sequence_loss forward(struct sequence *s, const int32_t *token,
                                    const uint16_t *float_outputs, real *params, real *dx)
{
    uint32_t n_layer = s->m->n_layer;
    double lost = 0, loss = 0;
    embed(s, token);
    if (s->tape->embeds)
        layer_embeds_begin(s->tape->embeds, token, s->x);
    for (uint32_t l = 0; l < n_layer; l++) {
        real *x = s->x + l * numbers(s);
        lost += block_run(s->tape, l, layer_rows(s, params, l), x + numbers(s), x);
    }
    if (!float_outputs) {
        loss = head_run(s->tape, token, s->x + n_layer * numbers(s), dx);
        return (struct sequence_loss){loss + (double)s->lambda * lost / (double)s->n, loss};
    }
    for (uint32_t l = 0; l < n_layer; l++)
        loss += output_error(s, l, float_outputs, NULL);
    return (struct sequence_loss){loss, loss};
}

struct sequence_loss sequence_run(struct sequence *s, const int32_t *token,
                                  const uint16_t *float_outputs, real *params, real *gradient)
{
    struct sequence_loss loss = forward(s, token, float_outputs, params, gradient ? s->dx : NULL);
    if (!gradient)
        return loss;
    if (float_outputs)
        memset(s->dx, 0, numbers(s) * sizeof *s->dx);
    for (uint32_t l = s->m->n_layer; l-- > 0;) {
        if (float_outputs)
            output_error(s, l, float_outputs, s->dx);
        block_back(s->tape, l, layer_rows(s, params, l), layer_rows(s, gradient, l), s->dx,
                   s->x + l * numbers(s));
    }
    return loss;
}
