/* The decay of a recurrent state (tft_delta and tft_scan of kernels.h). The state is a matrix S
   times one factor. A decay changes the factor alone, unless the factor becomes too small. */
#ifndef TFT_DECAY_H
#define TFT_DECAY_H

struct tft_decay {
    float factor; /* of S before the token's part, with the token's decay */
    float keep;   /* S = S * keep + part * inverse */
    float inverse;
    float after; /* the factor of that S */
};

static inline struct tft_decay tft_decay_step(float factor, float decay)
{
    float f = factor * decay;
    if (f >= 0x1p-8f && f <= 1) /* false for NaN */
        return (struct tft_decay){.factor = f, .keep = 1, .inverse = 1 / f, .after = f};
    return (struct tft_decay){.factor = f, .keep = f, .inverse = 1, .after = 1};
}

#endif
