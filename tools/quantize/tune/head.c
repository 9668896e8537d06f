/* The head: block.h, head_run. */
#include <string.h>

#include "base/exp_log.h"
#include "tools/quantize/tune/tape.h"

/* Rows of logits. */
struct logit_rows {
    const int32_t *next; /* the token that follows each row's */
    size_t total;        /* rows of the loss's mean */
};

/* Row i of the logits becomes the gradient of the loss with respect to them, and t->error[i] the
   row's -log p. */
static void logit_row(const struct tape *t, const void *arg, size_t i)
{
    const struct logit_rows *g = arg;
    size_t n = t->m->n_vocab, want = (size_t)g->next[i];
    real *x = t->logits + i * n, scale = (real)t->m->logit_scale;
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        x[j] *= scale;
    real max = x[0], at = x[want];
    for (size_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    for (size_t j = 0; j < n; j++)
        sum += (double)(x[j] = real_exp(x[j] - max));
    for (size_t j = 0; j < n; j++)
        x[j] = x[j] * scale / (real)(sum * (double)g->total);
    x[want] -= scale / (real)g->total;
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
        matmul_take(t->matmul, t->h + i * d, n, d, t->affine, step);
        matmul_run(t->matmul, t->logits, &m->output, false);
        each_row(t, n, logit_row, &(struct logit_rows){token + i + 1, total});
        for (size_t j = 0; j < n; j++)
            loss += t->error[j];
        if (!dx)
            continue;
        matmul_back(t->matmul, t->dh + i * d, t->logits, n, &m->output, false);
        for (size_t j = 0; j < n; j++)
            row_quantize_back(t->dh + (i + j) * d, t->h + (i + j) * d, d, &t->affine[j * step], 0);
    }
    if (dx) {
        memset(dx, 0, t->n * d * sizeof *dx);
        norm_rows_back(t, dx, t->dh, x, &m->out_norm);
    }
    return loss / (double)total;
}
