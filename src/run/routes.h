/* Which experts the tokens of a pass go to, in a layer that is a mixture of experts. */
#ifndef TFT_ROUTES_H
#define TFT_ROUTES_H

#include "base/arena.h"
#include "model/model.h"

/* A token's expert. */
struct tft_route {
    uint32_t expert;
    float weight;
};

/* Passes of at most this many tokens look for likely experts of the next layer. */
enum { TFT_GUESS_TOKENS = 4 };

/* The experts that a pass reads ahead of their use, if the model has a bound on their memory
   (model/resident.h). */
struct tft_wanted {
    uint32_t *unit; /* [4 n_expert] in the order of use: gate and up of the layer's experts, down of
                       the same, then likely units of the next layer. NULL: there is no bound */
    uint32_t n, n_own; /* units; of the layer itself, which come first */
    uint32_t asked;    /* the first ones that thread 0 has asked for */
    bool guesses;      /* the next layer with experts looks for likely ones of the layer after */
    float *in;    /* [TFT_GUESS_TOKENS, stride of R] R of the pass's tokens by the next layer's
                     router, */
    float *score; /* [TFT_GUESS_TOKENS, stride of E] and E */
    struct tft_route *route; /* [n_expert_used] */
};

/* K = n_expert_used. A pair is a token and one of its experts. */
struct tft_routes {
    struct tft_route *of_token; /* [n_batch, K] a token's, by the number of the expert */
    float *shared;    /* [n_batch] the weight of the block's own feed-forward */
    uint32_t *first;  /* [n_expert + 1] the pairs of expert e are first[e] .. first[e + 1] - 1 */
    uint32_t *token;  /* [n_batch K] token of a pair, in the order of an expert's tokens */
    float *weight;    /* [n_batch K] */
    struct tft_wanted wanted;
};

/* Tokens of an expert that a thread takes together. Their inputs are copied beside each other. */
enum { TFT_EXPERT_TOKENS = 32 };

/* A thread's copy of the inputs. */
struct tft_expert_inputs {
    float *x;                  /* [TFT_EXPERT_TOKENS, stride of XN], or NULL */
    uint8_t *bytes;            /* [TFT_EXPERT_TOKENS, byte stride of XN], or NULL */
    struct tft_affine *affine; /* [TFT_EXPERT_TOKENS], or NULL */
};

/* Counts, or places, the memory of passes of n_batch tokens. */
void tft_routes_layout(struct tft_routes *r, struct tft_arena *a, const struct tft_model *m,
                       uint32_t n_batch);

/* Fills in first, token and weight, from `of_token` of tokens [begin, end). */
void tft_routes_group(struct tft_routes *r, const struct tft_model *m, uint32_t begin,
                      uint32_t end);

/* Chooses a token's n_expert_used experts. score: [n_expert] the router's scores, which become
   weights in place; a NaN counts as the lowest. bias: [n_expert] or NULL; to: [n_expert_used]. */
void tft_routes_choose(const struct tft_model *m, const float *bias, float *score,
                       struct tft_route *to);

#endif
