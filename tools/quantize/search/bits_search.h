/*
 * Chooses the bits of each matrix of the layers, and how many weights share a scale, within a
 * budget, from measurements. More bits and smaller groups go to a matrix if rounding it moves the
 * model's predictions more.
 *
 * Each matrix in turn is rounded to 2 bits, to nearest, with all others at 8, and the divergence
 * (measure/divergence.h) from the model with 8 bits is its loss. Two bits, because the cost of 4
 * bits in one matrix is less than the noise: any small change makes some activations round the
 * other way, which alone costs the floor; the floor is subtracted. An error of half the size costs
 * a quarter, as the unchanged model has the least divergence, with gradient 0. So
 *
 *      cost(matrix, b, group) = (loss at 2 bits - floor) e(b, group) / e(2)
 *
 * where e is the squared error of some rows, rounded to b bits in such groups, and e(2) that of the
 * matrix whose loss was measured, in groups of 64; 8 bits cost nothing. Costs are assumed to add
 * up, and knapsack.h finds the bits and groups with the least sum within the budget.
 */
#ifndef QUANTIZE_SEARCH_BITS_SEARCH_H
#define QUANTIZE_SEARCH_BITS_SEARCH_H

#include "model/model.h"

struct bits_search_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows;  /* at least 2 */
    uint32_t window;
    uint32_t group; /* of all matrices: 32, 64 or 128; 0: the search chooses */
    double bits;    /* budget: mean bits of a weight of the layers, with scales and zeros */
    uint64_t bytes; /* if not 0, the budget is the size of the file in bytes instead, without a
                       calibrated cache and named prefixes */
    int n_threads;  /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

struct bits_found {
    bool there;   /* the architecture has this matrix */
    double loss;  /* at 2 bits, in nats per token */
    double cost;  /* of the result, in nats per token */
    uint8_t bits; /* result */
    uint8_t group; /* result, unless bits is 8 */
};

struct bits_search {
    uint32_t n_layer;
    uint32_t group;            /* bits_search_opts.group */
    struct bits_found *matrix; /* [n_layer, LAYER_MATS]; bits_search_free frees it */
    double floor;              /* divergence from a change too small to matter */
    double bits;               /* of a weight of the layers: the resulting mean */
};

/* Fails if there is too little text, or if no model of m's shapes can meet a budget in bits. */
enum tft_status bits_search_check(struct tft_model *m, const struct bits_search_opts *o,
                                  struct tft_error *err);

/* m: a W8A8 model with layers of 8 bits. Its matrices are replaced during the search, so nothing
   else may use m. If *stopped: TFT_OK, and *r is all zeros. If the budget cannot be met, fails with
   a message that names the least possible budget. */
enum tft_status bits_search(struct tft_model *m, const struct bits_search_opts *o,
                            struct bits_search *r, bool *stopped, struct tft_error *err);

/* Accepts all zeros. */
void bits_search_free(struct bits_search *r);

/* text = the result in the syntax of --bits: "4,attn_v=8,0-2.ffn_down=8", or
   "4g64,attn_v=4g32,0-2.ffn_down=8" if groups were chosen. False if it does not fit. */
bool bits_search_text(const struct bits_search *r, char *text, size_t size);

#endif
