/* Chooses a token among ranked ones: steps 4 to 11 of struct tft_sampler_more in tuffet.h. */
#ifndef TFT_CHOOSE_H
#define TFT_CHOOSE_H

#include "likely.h"
#include "tuffet.h"

/* Which logits a sampler knows. If it knows all, n is the size of the vocabulary. */
struct tft_known {
    size_t n;    /* the n largest; all others are smaller or equal */
    double rest; /* s->out.rest of session.h */
};

/* Returned in place of a token: the token depends on logits that are not known. */
enum { TFT_UNDECIDED = -2 };

/* z->temperature: above 0. o: z->more, or all zero; its filters need all logits. l: begun, with a
   first token. deviation: of step 5. */
int32_t tft_choose(struct tft_sampler *z, const struct tft_sampler_more *o, struct tft_likely *l,
                   double deviation, const struct tft_known *known);

/* The standard deviation of the finite logits of x[n]; 0 if there are none. */
double tft_deviation(const float *x, size_t n);

/* The probability relative to the most likely token: exp((logit - best) * inverse). 1 if the logits
   are equal, since infinite ones would give NaN. 0 for NaN, which would spoil every sum. */
float tft_weight(float logit, float best, float inverse);

/* The sum of the weights of all logits. */
double tft_sum_of_weights(const struct tft_likely *l, float inverse);

/* 1 / temperature, at most FLT_MAX */
float tft_inverse(float temperature);

static inline bool tft_has_top_p(const struct tft_sampler *z)
{
    return z->top_p > 0 && z->top_p < 1;
}

#endif
