#include "tools/quantize/windows.h"

#include <string.h>

size_t quantize_spread_windows(int32_t *ids, size_t n, size_t window, size_t wanted)
{
    size_t have = n / window;
    if (have <= wanted)
        return n;
    for (size_t i = 0; i < wanted; i++)
        memmove(ids + i * window, ids + i * have / wanted * window, window * sizeof *ids);
    return wanted * window;
}
