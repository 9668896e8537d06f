#include "tools/quantize/round/awq.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exp_log.h"
#include "tools/quantize/round/low_bits.h"

static const double LEAST = 1e-4; /* least size of a channel, relative to the mean */

void awq_factors(float *s, const float *size, size_t n, double alpha)
{
    double mean = 0, low = INFINITY, high = 0;
    for (size_t k = 0; k < n; k++)
        mean += (double)size[k] / (double)n;
    bool usable = mean > 0 && isfinite(mean);
    for (size_t k = 0; usable && k < n; k++) {
        double v = fmax((double)size[k], mean * LEAST);
        low = fmin(low, v);
        high = fmax(high, v);
    }
    for (size_t k = 0; k < n; k++) {
        double v = fmax((double)size[k], mean * LEAST) / sqrt(low) / sqrt(high);
        s[k] = usable ? (float)tft_pow(v, alpha / 2) : 1;
    }
}

/* Scratch for one matrix. */
struct trial {
    const struct awq_input *x;
    const struct awq_how *how;
    float *w;      /* [AWQ_ROWS, n] some rows, their columns multiplied by the factors */
    float *moment; /* [n] of the inputs divided by the factors */
};

/* Copies rows spread evenly over the matrix. Returns their number. */
static size_t take_rows(const struct trial *t, const struct awq_matrix *a, const float *s)
{
    size_t n = t->x->n, rows = a->rows < AWQ_ROWS ? a->rows : AWQ_ROWS;
    for (size_t i = 0; i < rows; i++) {
        const float *from = a->w + i * a->rows / rows * n;
        for (size_t k = 0; k < n; k++)
            t->w[i * n + k] = from[k] * s[k];
    }
    return rows;
}

/* The sum of e^2 E[x^2]. */
static double error_of(const struct trial *t, const struct low_bits *q, int8_t *row)
{
    double sum = 0;
    for (size_t i = 0; i < q->rows; i++) {
        double scale = (double)q->row_scale[i];
        low_bits_int8(q, i, row);
        for (size_t k = 0; k < q->cols; k++) {
            double e = (double)t->w[i * q->cols + k] - row[k] * scale;
            sum += e * e * (double)t->moment[k];
        }
    }
    return sum;
}

/* Adds the rounding loss of the matrix, for all its rows. False if memory is short. */
static bool add_loss(const struct trial *t, const struct awq_matrix *a, const float *s,
                     double *loss)
{
    size_t n = t->x->n, rows = take_rows(t, a, s);
    struct metric metric;
    struct low_bits q = {0};
    int8_t *row = malloc(n + 1);
    bool ok = metric_open(&metric, t->moment, n, false, NULL, a->group, t->how->kern,
                          t->how->n_threads) &&
              row && low_bits_open(&q, rows, n, a->bits, a->group) &&
              low_bits_round(&q, t->w,
                             &(struct low_bits_how){.metric = &metric,
                                                    .kern = t->how->kern,
                                                    .n_threads = t->how->n_threads});
    if (ok)
        *loss += error_of(t, &q, row) * (double)a->rows / (double)rows;
    low_bits_close(&q);
    metric_close(&metric);
    free(row);
    return ok;
}

static bool add_losses(const struct trial *t, const float *s, double *loss)
{
    *loss = 0;
    for (size_t k = 0; k < t->x->n; k++)
        t->moment[k] = t->x->moment[k] / (s[k] * s[k]);
    for (size_t i = 0; i < t->x->n_readers; i++)
        if (!add_loss(t, &t->x->reader[i], s, loss))
            return false;
    return true;
}

/* now: [n] scratch */
static bool try_all(const struct trial *t, float *s, float *now)
{
    double least = INFINITY, loss;
    for (int i = 0; i <= AWQ_STEPS; i++) {
        awq_factors(now, t->x->size, t->x->n, (double)i / AWQ_STEPS);
        if (!add_losses(t, now, &loss))
            return false;
        if (i == 0 || loss < least) {
            least = loss;
            memcpy(s, now, t->x->n * sizeof *s);
        }
        if (t->how->progress && !t->how->progress(t->how->user, (i + 1.0) / (AWQ_STEPS + 1)))
            return false;
    }
    return true;
}

bool awq_choose(float *s, const struct awq_input *x, const struct awq_how *how)
{
    struct trial t = {.x = x, .how = how};
    float *now = malloc(x->n * sizeof *now);
    t.w = malloc(AWQ_ROWS * x->n * sizeof *t.w);
    t.moment = malloc(x->n * sizeof *t.moment);
    bool ok = now && t.w && t.moment && try_all(&t, s, now);
    free(now);
    free(t.w);
    free(t.moment);
    return ok;
}
