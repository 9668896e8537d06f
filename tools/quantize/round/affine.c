#include "tools/quantize/round/affine.h"

#include <float.h>
#include <math.h>

/*
 * CushionCache eq. 3 and 4 for bytes: the paper's signed numbers have 2^(N-1) - 1 steps, bytes have
 * 2^N - 1. The zero-point is rounded, so that 0 is exact. That moves the range by at most half a
 * step, and a number in the range is still at most half a step off.
 */
struct tft_affine affine_cover(double low, double high)
{
    struct tft_affine q = {1, 1, 0};
    if (low == high)
        return q;
    /* Both are normal numbers: (high - low) / 255 of floats is below 2^121. */
    q.scale = fmaxf((float)((high - low) / 255), FLT_MIN);
    q.inverse = 1 / q.scale;
    q.zero = (int32_t)rint(-low / q.scale);
    return q;
}
