/* Loads and stores little-endian numbers at any address. Compilers turn each load into a single
   instruction where the CPU has one. */
#ifndef TFT_BYTES_H
#define TFT_BYTES_H

#include <stdint.h>

static inline uint16_t tft_load_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t tft_load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t tft_load_u64(const unsigned char *p)
{
    return tft_load_u32(p) | (uint64_t)tft_load_u32(p + 4) << 32;
}

static inline void tft_store_u16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static inline void tft_store_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static inline void tft_store_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

#endif
