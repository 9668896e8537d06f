/* The clock of the CPUs, as Linux tells it: a hot board slows down. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>

#define CLOCK_FOLDER "/sys/devices/system/cpu"

struct clock {
    double mhz, most_mhz; /* now, and at most: means of the CPUs that tell both */
};

/* Reads the clock of the CPUs in CLOCK_FOLDER, or in a folder of the same form. False: the system
   does not tell it. */
bool clock_read(struct clock *c, const char *folder);

#endif
