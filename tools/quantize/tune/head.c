#include "tools/quantize/tune/head.h"

#include <string.h>

#include "base/exp_log.h"
#include "base/splitmix64.h"
#include "tools/quantize/tune/tape.h"

/* Rows of logits. */
struct logit_rows {
    const int32_t *next; /* the token after each row's */
    size_t first;        /* the number of the first row */
    size_t total;        /* rows in the mean of the loss */
};

/* x: [n] products of the head become logits: the model's scale and soft cap. */
static void finish(const struct tft_model *m, real *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] *= (real)m->logit_scale;
    for (size_t j = 0; m->logit_cap > 0 && j < n; j++)
        x[j] = row_softcap(x[j], (real)m->logit_cap);
}

/* The token at a random place of the softmax of x: [n]. */
static size_t draw(const real *x, size_t n, real max, uint64_t seed, size_t row)
{
    uint64_t state = seed ^ row * 0xd1342543de82ef95;
    double u = (double)(tft_splitmix64(&state) >> 11) * 0x1p-53, sum = 0, at = 0;
    size_t j = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)real_exp(x[i] - max);
    for (at = (double)real_exp(x[0] - max); j + 1 < n && at <= u * sum; j++)
        at += (double)real_exp(x[j + 1] - max);
    return j;
}

/*
 * Row i of the logits becomes the gradient of the loss with respect to the head's products, and
 * t->error[i] the row's -log p. With z the logits, p their softmax and w the next token:
 * dz_j = p_j - [j = w], over the rows of the mean. With a scale l and a cap c, the gradient of the
 * products is dz_j l (1 - (z_j / c)^2).
 */
static void logit_row(const struct tape *t, const void *arg, size_t i)
{
    const struct logit_rows *g = arg;
    const struct tft_model *m = t->m;
    size_t n = m->n_vocab;
    real *x = t->logits + i * n, scale = (real)m->logit_scale, cap = (real)m->logit_cap;
    double sum = 0;
    finish(m, x, n);
    real max = x[0];
    for (size_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    size_t want = t->drawn ? draw(x, n, max, *t->drawn, g->first + i) : (size_t)g->next[i];
    real at = x[want], at_slope = scale * row_softcap_slope(at, cap);
    for (size_t j = 0; j < n; j++) {
        real p = real_exp(x[j] - max);
        sum += (double)p;
        x[j] = p * row_softcap_slope(x[j], cap);
    }
    for (size_t j = 0; j < n; j++)
        x[j] = x[j] * scale / (real)(sum * (double)g->total);
    x[want] -= at_slope / (real)g->total;
    t->error[i] = (double)(max - at) + tft_log(sum);
}

double head_run(struct tape *t, const int32_t *token, const real *x, real *dx)
{
    const struct tft_model *m = t->m;
    size_t d = m->n_embd, total = t->n - 1;
    double loss = 0;
    norm_rows(t, t->h, x, &m->out_norm);
    if (dx)
        memset(t->dh, 0, t->n * d * sizeof *dx);
    for (size_t i = 0, n; i < total; i += n) {
        n = total - i < LOGITS ? total - i : LOGITS;
        size_t step = choose_affine(t, t->h + i * d, n, d, m->output.in);
        matmul_take(t->matmul, t->h + i * d, n, m->output.in, t->affine, step);
        matmul_run(t->matmul, t->logits, &m->output, false);
        each_row(t, n, logit_row, &(struct logit_rows){token + i + 1, i, total});
        for (size_t j = 0; j < n; j++)
            loss += t->error[j];
        if (!dx)
            continue;
        matmul_back(t->matmul, t->dh + i * d, t->logits, n, &m->output, false);
        for (size_t j = 0; j < n && has_affine(m->output.in); j++)
            row_quantize_back(t->dh + (i + j) * d, t->h + (i + j) * d, d, &t->affine[j * step], 0);
    }
    if (dx) {
        memset(dx, 0, t->n * d * sizeof *dx);
        norm_rows_back(t, dx, t->dh, x, &m->out_norm);
    }
    return loss / (double)total;
}
