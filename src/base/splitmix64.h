/* Random numbers with a state of one number. */
#ifndef TFT_SPLITMIX64_H
#define TFT_SPLITMIX64_H

#include <stdint.h>

/* The next 64 random bits: SplitMix64 (Steele et al. 2014, figure 16). Any state, including 0, is a
   valid seed. */
static inline uint64_t tft_splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

#endif
