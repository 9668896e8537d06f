/*
 * Runs many short texts, each after the same prefix, through the float model a layer at a time, and
 * measures the loss that 8 bits would cause in the residual stream.
 */
#ifndef QUANTIZE_SEARCH_SEQUENCES_H
#define QUANTIZE_SEARCH_SEQUENCES_H

#include "tools/quantize/measure/layers.h"

struct sequences {
    struct tft_model *m;
    struct layers y; /* y.text has the residual stream: [n, len] rows, y.stride apart */
    struct quantize_opts shape; /* options that layers.h reads */
    struct layers_capacity capacity;
    int32_t *tokens;  /* [n, len] of the sequences that run together; the caller fills it */
    double *loss;     /* [n] result: L_q of each sequence, summed over the layers that ran */
    uint32_t n, len;  /* sequences and their length; n * len <= capacity.rows, len <= batch */
    uint32_t skip;    /* their first tokens that do not count in L_q */
    /* NULL, or called after the rows of some sequences went through a layer; false: stop */
    bool (*progress)(void *user, double rows);
    /* NULL, or called after each layer */
    void (*after_layer)(void *user, uint32_t layer);
    void *user;
    struct shared_kv shared; /* of the sequences, while they run */
    bool stopped;
    struct tft_error bad; /* why, if not by `progress` */
};

/* How many layers sequences run through, and whether in int8: weights with a scale for each row,
   inputs with a range for each token. The prefix always runs in floats. */
struct sequences_depth {
    uint32_t layers;
    bool int8;
};

/* prefix: most tokens of a prefix. sequences_close must follow, also on failure. */
enum tft_status sequences_open(struct sequences *q, struct tft_model *m, uint32_t prefix,
                               int n_threads, const struct layers_capacity *capacity,
                               struct tft_error *err);
void sequences_close(struct sequences *q);

/* Fills q->loss and q->y.text for the sequences in q->tokens after prefix: [n_prefix]. Stops if
   memory is short. */
void sequences_run(struct sequences *q, const int32_t *prefix, uint32_t n_prefix,
                   struct sequences_depth depth);

/* Whether memory was short. */
enum tft_status sequences_status(const struct sequences *q, struct tft_error *err);

/* The largest magnitude in the residual stream of row t. */
float sequences_peak(const struct sequences *q, size_t t);

#endif
