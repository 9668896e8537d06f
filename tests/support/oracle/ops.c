#include "oracle/inside.h"

#include <math.h>
#include <string.h>

void oracle_product(double *y, struct matrix m, const double *x, const double *bias)
{
    for (size_t r = 0; r < m.rows; r++) {
        y[r] = bias ? bias[r] : 0;
        for (size_t c = 0; c < m.cols; c++)
            y[r] += m.w[r * m.cols + c] * x[c];
    }
}

void oracle_rms(double *y, const double *x, const double *w, size_t n, double eps)
{
    double ss = 0;
    for (size_t i = 0; i < n; i++)
        ss += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(ss / (double)n + eps) * w[i];
}

void oracle_layernorm(double *y, const double *x, const double *w, const double *b, size_t n,
                      double eps)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(var + eps) * (w ? w[i] : 1) + (b ? b[i] : 0);
}

void oracle_norm(const struct oracle *o, double *y, const double *x, const double *w,
                 const double *b)
{
    if (b || oracle_is_one(o, " cohere2 command-r olmo ")) /* LayerNorm without a bias, or a gain */
        oracle_layernorm(y, x, w, b, o->d, o->eps);
    else if (w)
        oracle_rms(y, x, w, o->d, o->eps);
    else
        memcpy(y, x, o->d * sizeof *y);
}

double oracle_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

double oracle_sigmoid(double x) { return 1 / (1 + exp(-x)); }

double oracle_length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

void oracle_add(const struct oracle *o, double *x, double *y, const double *gain)
{
    if (gain)
        oracle_rms(y, y, gain, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        x[i] += o->r * y[i];
}
