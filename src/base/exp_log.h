/*
 * exp, log and pow in double precision, with the same bits on every machine: the C library's differ
 * from system to system, and on one system from CPU to CPU. What ends up in a file or in a score is
 * computed by these. They use sums, products and quotients alone, without fma, which is slow where
 * a CPU lacks it. RoPE has others (model/rope.h), whose bits stay as they are.
 */
#ifndef TFT_EXP_LOG_H
#define TFT_EXP_LOG_H

/* Error below 1 ulp where the result is not subnormal, there below 1.5. This is derived; the test
   finds exp and log within 2 ulp of the C library, and pow within its bound. */
double tft_exp(double x);

/* ln x; error below 1 ulp. */
double tft_log(double x);

/* x^y for x > 0: relative error below (1 + |y ln x|) 2^-51. */
double tft_pow(double x, double y);

#endif
