/* The work of a pass, and the limits of a device: what tuffet bench compares its speeds with. */
#ifndef COSTS_H
#define COSTS_H

#include "limits.h"
#include "tuffet.h"

/* n tokens of each session: a prompt in one pass, or one token in each pass. */
struct work {
    bool decode;
    uint32_t n, sessions;
    uint32_t depth; /* tokens of each session before them */
};

/* Operations: a multiply-add is two. */
struct costs {
    double bytes;          /* that are read from memory */
    double products;       /* operations of matrix products; and of attention, */
    double whole, windows; /* in layers without a window and with one */
};

struct costs costs_of(const struct tft_model *m, const struct work *w);

/* The sessions' cache: from the command line, or else from the file. */
const char *costs_kv(const struct tft_model *m);

/* The limits of the device of m by its clocks. All NaN if they are unknown, or if the CPU computes
   some of the layers. */
struct limits costs_device(const struct tft_model *m);

#endif
