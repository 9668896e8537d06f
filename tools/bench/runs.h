/* Runs of one session, timed as tuffet run would use it, and the exchange of mpirun's processes. */
#ifndef RUNS_H
#define RUNS_H

#include "tuffet.h"

enum { RUNS_MOST = 64 };

struct runs {
    const int32_t *ids; /* [depth or n, the larger] */
    uint32_t depth;     /* tokens of the session before each run */
    uint32_t n;         /* tokens of a run */
    uint32_t runs;      /* at most RUNS_MOST, after one that is not counted */
    bool one_by_one;
};

/* *seconds: the median over the runs. After Ctrl-C it is unchanged. */
enum tft_status runs_time(double *seconds, struct tft_session *s, const struct runs *o);

/* The median of x[n], which the function sorts. */
double runs_median(double *x, size_t n);

/* Whether processes of mpirun compute the model; and the bytes that they exchange for a token that
   s chooses with the sampler of the options: 0 if there is one process. */
bool runs_has_processes(const struct tft_model *m);
size_t runs_exchanged(const struct tft_model *m, const struct tft_session *s);

#endif
