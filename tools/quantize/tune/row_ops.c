#include "tools/quantize/tune/row_ops.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------- norms */

static real mean(const real *x, size_t n)
{
    real sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (real)n;
}

/* 1 / sqrt(the mean of (x - shift)^2 + eps) */
static real inverse_size(const real *x, real shift, size_t n, float eps)
{
    real sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - shift) * (x[i] - shift);
    return 1 / real_sqrt(sum / (real)n + (real)eps);
}

void row_norm(real *y, const real *x, const struct tft_norm *w, size_t n, float eps)
{
    if (!w->w) {
        memmove(y, x, n * sizeof *y);
        return;
    }
    real shift = w->b ? mean(x, n) : 0, r = inverse_size(x, shift, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - shift) * r * (real)w->w[i] + (w->b ? (real)w->b[i] : 0);
}

/* With u = (x - shift) r and g = dy w: dx = r (g - u mean(g u)). LayerNorm also subtracts the mean
   of g from g. */
void row_norm_back(real *dx, const real *dy, const real *x, const struct tft_norm *w, size_t n,
                    float eps)
{
    if (!w->w) {
        for (size_t i = 0; i < n; i++)
            dx[i] += dy[i];
        return;
    }
    real shift = w->b ? mean(x, n) : 0, r = inverse_size(x, shift, n, eps), along = 0, level = 0;
    for (size_t i = 0; i < n; i++) {
        real g = dy[i] * (real)w->w[i];
        along += g * (x[i] - shift) * r;
        level += g;
    }
    along /= (real)n;
    level = w->b ? level / (real)n : 0;
    for (size_t i = 0; i < n; i++)
        dx[i] += r * (dy[i] * (real)w->w[i] - level - (x[i] - shift) * r * along);
}

/* ----------------------------------------------------------------------------------------- rope */

/* Rotates the pair i, j. c[i] = c[j] and s[i] = -s[j]. */
static void rotate_pair(real *x, const float *c, const float *s, size_t i, size_t j, real sign)
{
    real a = x[i], b = x[j];
    x[i] = a * (real)c[i] + sign * b * (real)s[i];
    x[j] = b * (real)c[j] + sign * a * (real)s[j];
}

void row_rope(real *x, size_t width, const struct row_angles *a, bool back)
{
    size_t half = a->n_rot / 2;
    for (size_t at = 0; at < width; at += a->dim)
        for (size_t i = 0; i < half; i++)
            rotate_pair(x + at, a->cos, a->sin, a->halves ? i : 2 * i,
                        a->halves ? i + half : 2 * i + 1, back ? -1 : 1);
}

/* ---------------------------------------------------------------------------------- activations */

static real sigmoid(real x)
{
    return 1 / (1 + real_exp(-x));
}

/* The argument of the sigmoid in silu(x) = x sigmoid(x), and in gelu(x) = x sigmoid(x (G1 + G3
   x^2)): Hendrycks & Gimpel 2016, section 2. */
static real argument(real x, bool gelu)
{
    return gelu ? x * ((real)TFT_GELU_G1 + (real)TFT_GELU_G3 * x * x) : x;
}

void row_activate(real *y, const real *g, const real *u, size_t n, bool gelu)
{
    for (size_t i = 0; i < n; i++)
        y[i] = g[i] * sigmoid(argument(g[i], gelu)) * (u ? u[i] : 1);
}

/* With a(x) = x s, s = sigmoid(z(x)): a' = s + x s (1 - s) z'. Of y = a(g) u, dg = dy u a'(g) and
   du = dy a(g) (Shazeer 2020, eq. 6). */
void row_activate_back(real *dg, real *du, const real *dy, const real *g, const real *u, size_t n,
                       bool gelu)
{
    for (size_t i = 0; i < n; i++) {
        real s = sigmoid(argument(g[i], gelu)),
             slope = gelu ? (real)TFT_GELU_G1 + 3 * (real)TFT_GELU_G3 * g[i] * g[i] : 1;
        dg[i] = dy[i] * (u ? u[i] : 1) * (s + g[i] * s * (1 - s) * slope);
        if (u)
            du[i] = dy[i] * g[i] * s;
    }
}

/* tanh(a) = 1 - 2 / (1 + e^2a), for a >= 0. The error near 0, of an ulp of 1, is then multiplied by
   c. */
real row_softcap(real x, real c)
{
    real a = x < 0 ? -x : x, y = c * (1 - 2 / (1 + real_exp(2 * a / c)));
    return x < 0 ? -y : y;
}

real row_softcap_slope(real y, real c)
{
    return c > 0 ? 1 - y / c * (y / c) : 1;
}

void row_hadamard(real *x, size_t n, size_t block)
{
    for (size_t at = 0; at < n; at += block)
        for (size_t h = 1; h < block; h *= 2)
            for (size_t i = 0; i < block; i += 2 * h)
                for (size_t j = at + i; j < at + i + h; j++) {
                    real a = x[j], b = x[j + h];
                    x[j] = a + b;
                    x[j + h] = a - b;
                }
}

/* ----------------------------------------------------------------------------------- quantizers */

struct quantized {
    real value;  /* q(x) */
    bool inside; /* x is within the range */
};

static struct quantized quantized(real x, const struct tft_affine *q)
{
    real low = -(real)q->zero, high = (real)(255 - q->zero), t = x * (real)q->inverse;
    struct quantized r = {.inside = t >= low && t <= high};
    t = t > low ? t : low;
    t = t < high ? t : high;
    r.value = real_round(t) * (real)q->scale;
    return r;
}

double row_error(const real *x, size_t n, const struct tft_affine *q)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double e = (double)(x[i] - quantized(x[i], q).value);
        sum += e * e;
    }
    return sum;
}

void row_quantize_back(real *dx, const real *x, size_t n, const struct tft_affine *q, real weight)
{
    for (size_t i = 0; i < n; i++) {
        struct quantized r = quantized(x[i], q);
        dx[i] = (r.inside ? dx[i] : 0) + weight * (x[i] - r.value);
    }
}
