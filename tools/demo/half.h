/* float to IEEE binary16 and back. */
#ifndef DEMO_HALF_H
#define DEMO_HALF_H

#include <stdint.h>
#include <string.h>

/* To nearest, ties to even. Values past 65504 become infinite; there is no care for NaN. */
static inline uint16_t half_from_float(float x)
{
    uint32_t bits, sign;
    memcpy(&bits, &x, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x477ff000) /* 65520 rounds to 65536 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* a subnormal half: units of 2^-24, which are those of the float 0.5 */
        float y;
        memcpy(&y, &bits, 4);
        y += 0.5f;
        memcpy(&bits, &y, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13); /* the exponent's bias falls from 127 to 15 */
}

static inline float half_to_float(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float y;
    memcpy(&y, &bits, 4);
    y *= 0x1p112f; /* the same bias; exact, subnormals too */
    return h & 0x8000 ? -y : y;
}

#endif
