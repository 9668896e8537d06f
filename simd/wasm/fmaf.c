/* fmaf for WebAssembly, which has no such instruction. meson.build puts it in the place of that of
   emscripten's C library (musl's of 2021), which needs a rounding mode that WebAssembly does not
   have: of sums that lie next to the middle of two floats it rounds half to the wrong one. In
   doubles; d_fma of reg_simd128.h does the same in vectors, and says why it is right. */
#include <math.h>
#include <stdint.h>
#include <string.h>

float fmaf(float x, float y, float z)
{
    double p = (double)x * y, c = z, s = p + c, t = s - p;
    double e = (p - (s - t)) + (c - t);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (!(bits & 1) && (e > 0 || e < 0)) {
        bits += (e > 0) != (s < 0) ? 1 : UINT64_MAX;
        memcpy(&s, &bits, sizeof s);
    }
    return (float)s;
}
