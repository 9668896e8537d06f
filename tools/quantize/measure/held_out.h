/* Held-out windows of the text, which nothing is fitted to. They tell whether a fit to the other
   windows is an improvement. */
#ifndef HELD_OUT_H
#define HELD_OUT_H

#include <stdbool.h>
#include <stdint.h>

enum { HELD_OUT = 5 }; /* the last of each HELD_OUT windows; of fewer windows the last one */

static inline bool held_out(uint32_t window, uint32_t n_windows)
{
    return window % HELD_OUT == HELD_OUT - 1 || (n_windows < HELD_OUT && window == n_windows - 1);
}

#endif
