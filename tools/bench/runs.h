/* Runs of one session, timed as tuffet run would use it, and the exchange of mpirun's processes. */
#ifndef RUNS_H
#define RUNS_H

#include "samples.h"
#include "tuffet.h"

enum { RUNS_MOST = 64 };

struct runs {
    const int32_t *ids; /* [depth or n, the larger] */
    uint32_t depth;     /* tokens of the session before each run */
    uint32_t n;         /* tokens of a run */
    uint32_t runs;      /* at most RUNS_MOST, after one that is not counted */
    bool one_by_one;
    struct samples *limits; /* measured between the runs */
};

struct runs_time {
    struct spread seconds;
    double cpu_seconds; /* of this thread, the median; NaN: unknown */
};

/* After Ctrl-C *t is unchanged. */
enum tft_status runs_time(struct runs_time *t, struct tft_session *s, const struct runs *o);

/* Whether processes of mpirun compute the model; and the bytes that they exchange for a token that
   s chooses with the sampler of the options: 0 if there is one process. */
bool runs_has_processes(const struct tft_model *m);
size_t runs_exchanged(const struct tft_model *m, const struct tft_session *s);

#endif
