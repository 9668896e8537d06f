/*
 * exp, log and pow in double precision, with the same bits on every machine, for numbers that end
 * up in a file or a score: the C library's functions differ between systems and CPUs. The functions
 * here use only sums, products and quotients, and no fma, which is slow on a CPU without the
 * instruction. RoPE has other functions (base/rope.h), and their bits must not change.
 */
#ifndef TFT_EXP_LOG_H
#define TFT_EXP_LOG_H

/* Error below 1 ulp; below 1.5 if the result is subnormal. The bound is derived; the test finds exp
   and log within 2 ulp of the C library, and pow within its bound. */
double tft_exp(double x);

/* ln x; error below 1 ulp. */
double tft_log(double x);

/* x^y for x > 0: relative error below (1 + |y ln x|) 2^-51. */
double tft_pow(double x, double y);

#endif
