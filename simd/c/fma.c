#include "simd/fma.h"

#include <stdint.h>
#include <string.h>

/* *high = a + b, rounded; *low = the rounding error (Knuth's TwoSum). *low is NaN if the sum is
   infinite. */
static void add(double a, double b, double *high, double *low)
{
    double s = a + b, t = s - a;
    *low = (a - (s - t)) + (b - t);
    *high = s;
}

/* As add(), for a * b (Dekker 1971): the halves of a factor have 26 bits, so their products are
   exact. */
static void multiply(double a, double b, double *high, double *low)
{
    double p = a * b, a_split = a * 134217729, b_split = b * 134217729,
           a1 = a_split - (a_split - a), a2 = a - a1, b1 = b_split - (b_split - b), b2 = b - b1;
    *low = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
    *high = p;
}

/* a + b rounded to odd: an inexact sum becomes the adjacent double with last bit 1. Then a second
   rounding to fewer bits gives the correctly rounded result (Boldo and Melquiond 2008, "Emulation
   of FMA and correctly rounded sums"). The bits of a double grow with its magnitude. */
static double add_to_odd(double a, double b)
{
    double s, e;
    uint64_t bits;
    add(a, b, &s, &e);
    memcpy(&bits, &s, sizeof bits);
    if (!(bits & 1) && (e > 0 || e < 0)) {
        bits += (e > 0) != (s < 0) ? 1 : UINT64_MAX;
        memcpy(&s, &bits, sizeof s);
    }
    return s;
}

/* The product of floats is exact in a double. */
float tft_fmaf(float x, float y, float z)
{
    return (float)add_to_odd((double)x * y, z);
}

/* Boldo and Melquiond, section 5: x y + z is the exact sum of three numbers. The two small numbers
   are added with rounding to odd, so only the last addition rounds. */
double tft_fma(double x, double y, double z)
{
    double p, p_low, t, t_low, s, s_low;
    multiply(x, y, &p, &p_low);
    add(z, p_low, &t, &t_low);
    add(t, p, &s, &s_low);
    return s + add_to_odd(t_low, s_low);
}
