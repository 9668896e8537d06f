/* Windows of a text: runs of tokens computed as one sequence. */
#ifndef QUANTIZE_WINDOWS_H
#define QUANTIZE_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

/* Keeps `wanted` windows of the text ids: [n], spread evenly over it. Returns the new number of
   tokens. */
size_t quantize_spread_windows(int32_t *ids, size_t n, size_t window, size_t wanted);

#endif
