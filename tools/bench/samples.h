/* The machine's limits, measured several times while a model is measured: other work on the
   machine, and heat, change them. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "limits.h"
#include "spread.h"

enum { SAMPLES_MOST = 256 };

struct samples {
    int threads;
    bool fixed;           /* by samples_fix */
    uint64_t took, ended; /* ns: of the last one */
    size_t n;
    struct limits x[SAMPLES_MOST];
};

/* Measures once more. Returns false if there is no memory for the buffer. */
bool samples_add(struct samples *s);

/* Measures once more between the runs of a model, in at most a fifth of their time: not if the
   limits are fixed, there are enough, or little memory is left beside the model. Returns whether it
   measured. */
bool samples_between(struct samples *s);

/* The limits are these from now on: those of a device. */
void samples_fix(struct samples *s, struct limits l);

/* The median of each limit. */
struct limits samples_limits(const struct samples *s);

struct samples_spread {
    struct spread read_gbps, int8_gops, fma_gflops;
};
struct samples_spread samples_spread(const struct samples *s);

#endif
