/* The measured limits of this machine; tuffet bench compares its speeds with them. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdbool.h>

enum { LIMITS_BUFFER = 256 << 20 }; /* bytes: more than the last cache of common CPUs */

struct limits {
    double read_gbps;  /* memory reads of all threads together, 10^9 bytes/s */
    double int8_gops;  /* exact sums of int8 products, 10^9 operations/s; a multiply-add is two */
    double fma_gflops; /* float fma, 10^9 operations/s; an fma is two */
};

/* Measures with `threads` threads, for about half a second: each limit is the best of a few
   runs. Returns false if there is no memory for the buffer. */
bool measure_limits(struct limits *out, int threads);

#endif
