#include "tools/quantize/tune/kv_fisher_table.h"

#include <math.h>

#include "kv/fisher.h"

static double mean_of(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

static void moments(const struct kv_fisher_rows *x, double *mean, double *var)
{
    for (uint32_t d = 0; d < x->dim; d++) {
        double sum = 0, squares = 0;
        for (size_t t = 0; t < x->n; t++)
            sum += (double)x->x[t * x->stride + d];
        mean[d] = (double)(float)(sum / (double)x->n);
        for (size_t t = 0; t < x->n; t++) {
            double y = (double)x->x[t * x->stride + d] - mean[d];
            squares += y * y;
        }
        var[d] = squares / (double)x->n;
    }
}

/* w: [dim] the cost of an error of 1 in a channel, times 2. */
static void costs(const struct kv_fisher_rows *x, const double *var, double *w)
{
    double fisher = 0, output = 0, part = x->output ? 0.05 : 0.3;
    for (uint32_t d = 0; x->output && d < x->dim; d++) {
        fisher += x->square[d] * var[d];
        output += x->output[d] * var[d];
    }
    for (uint32_t d = 0; d < x->dim; d++)
        w[d] = !x->output ? x->square[d] : output > 0 ? x->output[d] * (fisher / output) : 0;
    double more = part * mean_of(w, x->dim);
    for (uint32_t d = 0; d < x->dim; d++)
        w[d] += more;
}

/* b: [dim] the weights of channels in a token's gain. */
static void gains(uint32_t dim, const double *w, const double *var, double *b)
{
    double sum = 0;
    for (uint32_t d = 0; d < dim; d++)
        sum += sqrt(w[d] * var[d]);
    for (uint32_t d = 0; d < dim; d++)
        b[d] = sum > 0 && var[d] > 0 ? sqrt(w[d] / var[d]) / sum : 0;
}

/* gain: [n] of the tokens. */
static void token_gains(const struct kv_fisher_rows *x, const double *mean, const double *b,
                        double *gain)
{
    for (size_t t = 0; t < x->n; t++) {
        double square = 0;
        for (uint32_t d = 0; d < x->dim; d++) {
            double y = (double)x->x[t * x->stride + d] - mean[d];
            square += b[d] * y * y;
        }
        gain[t] = sqrt(square);
    }
}

/* The mean squared error of z: [n] in levels of this step; half: half the steps between the first
   and the last. */
static double error_of(const double *z, size_t n, double step, double half)
{
    double sum = 0;
    for (size_t t = 0; t < n; t++) {
        double c = rint(z[t] / step + half);
        c = c < 0 ? 0 : c > 2 * half ? 2 * half : c;
        double e = z[t] - step * (c - half);
        sum += e * e;
    }
    return sum / (double)n;
}

/* The best step of a channel. */
static double fit_step(const double *z, size_t n, double spread, unsigned bits)
{
    static const double gauss[TFT_FISHER_BITS + 1] = {0, 1.596, 0.9957, 0.5860, 0.3352};
    double best = 0, half = ((1 << bits) - 1) / 2.0, least = spread * spread;
    for (int i = 10; i <= 30 && spread > 0; i++) {
        double step = spread * gauss[bits] * i / 20, e = error_of(z, n, step, half);
        if (e < least) {
            least = e;
            best = step;
        }
    }
    return best;
}

static void fit_channel(float *table, const struct kv_fisher_rows *x, uint32_t d, double mean,
                        const double *gain)
{
    double z[KV_FISHER_SAMPLES], square = 0;
    for (size_t t = 0; t < x->n; t++) {
        z[t] = gain[t] > 0 ? ((double)x->x[t * x->stride + d] - mean) / gain[t] : 0;
        square += z[t] * z[t] / (double)x->n;
    }
    for (unsigned bits = 1; bits <= TFT_FISHER_BITS; bits++)
        table[(TFT_FISHER_STEP + bits - 1) * x->dim + d] =
            kv_fisher_held(fit_step(z, x->n, sqrt(square), bits));
}

void kv_fisher_table(float *table, const struct kv_fisher_rows *x)
{
    double mean[TFT_CODED_DIM], var[TFT_CODED_DIM], w[TFT_CODED_DIM], b[TFT_CODED_DIM],
        gain[KV_FISHER_SAMPLES];
    moments(x, mean, var);
    costs(x, var, w);
    gains(x->dim, w, var, b);
    token_gains(x, mean, b, gain);
    for (uint32_t d = 0; d < x->dim; d++) {
        table[TFT_FISHER_MEAN * x->dim + d] = (float)mean[d];
        table[TFT_FISHER_GAIN * x->dim + d] = kv_fisher_held(b[d]);
        fit_channel(table, x, d, mean[d], gain);
    }
}
