#include "exp_log.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln2 in two parts: the first part ends with 21 zeros, so its product with an exponent is exact. */
static const double LN2_HI = 0x1.62e42feep-1, LN2_LO = 0x1.a39ef35793c76p-33;

/* 2^e for -1022 <= e <= 1023 */
static double pow2i(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* x = k ln2 + r with |r| < 0.35, so exp(x) = 2^k exp(r). The series of exp(r) ends before r^14 /
   14!: the rest is below 2^-57. */
double tft_exp(double x)
{
    static const double c[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                               1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                               1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
    if (isnan(x))
        return x;
    if (x > 710)
        return INFINITY;
    if (x < -746)
        return 0;
    double k = (x * 1.4426950408889634 + 0x1.8p52) - 0x1.8p52; /* rounds to an integer */
    double hi = x - k * LN2_HI, lo = k * LN2_LO, r = hi - lo, sum = c[0];
    for (int i = 1; i < 12; i++)
        sum = sum * r + c[i];
    double tail = (hi - r) - lo; /* the rounding error of r */
    sum = 1 + (r + (r * r * sum + tail));
    int e = (int)k, half = e / 2;
    return sum * pow2i(half) * pow2i(e - half);
}

/* x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)). With s = f / (2 + f), ln(1 + f) = 2 atanh(s) =
   2 s + s R, R = 2 s^2 / 3 + 2 s^4 / 5 + ..., and the terms of R from s^24 on are below 2^-63. 2 s
   is f - f^2 / 2 + s f^2 / 2: the largest term, f, has no rounding error. */
double tft_log(double x)
{
    if (isnan(x) || x < 0)
        return NAN;
    if (x == 0)
        return -INFINITY;
    if (x > DBL_MAX)
        return x;
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double f = m - 1, s = f / (2 + f), s2 = s * s, half = 0.5 * f * f, sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = sum * s2 + 2.0 / k;
    return e * LN2_HI + (f - (half - (s * (half + s2 * sum) + e * LN2_LO)));
}

double tft_pow(double x, double y)
{
    return tft_exp(y * tft_log(x));
}
