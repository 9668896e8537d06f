/* What this machine can do at most, measured: the roofs that tuffet bench holds its figures
   against. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdbool.h>

struct limits {
    double read_gbps;  /* memory read by all threads together, 10^9 bytes/s */
    double int8_gops;  /* exact sums of int8 products, 10^9 operations/s, two a multiply-add */
    double fma_gflops; /* float fma, likewise */
};

/* With that many threads; takes about half a second. False if there is no memory for it (256
   MiB). */
bool measure_limits(struct limits *out, int threads);

#endif
