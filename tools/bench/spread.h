/* The median and the range of measurements. */
#ifndef SPREAD_H
#define SPREAD_H

#include <stddef.h>

struct spread {
    double least, median, most;
};

/* Of x[n], which the function sorts; n is at least 1. */
struct spread spread_of(double *x, size_t n);

#endif
