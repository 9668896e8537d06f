#include "spread.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return (struct spread){x[0], x[n / 2], x[n - 1]};
}
