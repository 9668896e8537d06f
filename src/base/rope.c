#include "base/rope.h"

#include <math.h>

/* ln x = e ln2 + ln m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s) = 2 (s + s^3/3 + ...), s =
   (m - 1) / (m + 1). s^2 < 0.0295, so the term s^25/25 is below 1e-20. */
double tft_rope_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1), sum = 0;
    for (int k = 25; k >= 1; k -= 2)
        sum = sum * s * s + 1.0 / k;
    return e * 0.69314718055994531 + 2 * s * sum;
}

/* exp x = 2^k exp r, |r| <= ln2 / 2: the 18th term of the series is below 1e-24. */
double tft_rope_exp(double x)
{
    double k = rint(x * 1.4426950408889634), r = x - k * 0.69314718055994531, sum = 1;
    for (int i = 18; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)k);
}

/* x = q pi/2 + r, |r| <= pi/4. pi/2 is split in two parts (Cody & Waite 1980): an fma subtracts q
   times the first part from x with one rounding, and the second part is so small that r is good to
   2e-16 for |x| < 2^30. The last terms of the series are below 1e-20. */
void tft_rope_sincos(double x, double *sin, double *cos)
{
    const double HALF_PI_HI = 0x1.921fb54442d18p+0, HALF_PI_LO = 0x1.1a62633145c07p-54;
    double q = rint(x * 0.63661977236758134), r = fma(-q, HALF_PI_LO, fma(-q, HALF_PI_HI, x));

    double r2 = r * r, s = 1, c = 1;
    for (int k = 20; k >= 2; k -= 2) {
        s = 1 - s * r2 / (k * (k + 1));
        c = 1 - c * r2 / (k * (k - 1));
    }
    s *= r;

    switch ((int64_t)q & 3) {
    case 0: *sin = s, *cos = c; break;
    case 1: *sin = c, *cos = -s; break;
    case 2: *sin = -s, *cos = -c; break;
    default: *sin = -c, *cos = s;
    }
}

void tft_rope_freqs(double *freq, uint32_t n_rot, double base)
{
    double ln = tft_rope_log(base);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        freq[i] = tft_rope_exp(-2.0 * i / n_rot * ln);
}

void tft_rope_angles(float *c, float *s, const double *freq, uint32_t n_rot, bool halves,
                     uint32_t pos)
{
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        uint32_t a = halves ? i : 2 * i, b = halves ? i + n_rot / 2 : 2 * i + 1;
        double sin, cos;
        tft_rope_sincos(pos * freq[i], &sin, &cos);
        c[a] = c[b] = (float)cos;
        s[a] = (float)-sin;
        s[b] = (float)sin;
    }
}
