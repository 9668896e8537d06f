/*
 * How far a change moves a model's next-token distribution: the Kullback-Leibler divergence from
 * the unchanged model, the mean over the second halves of some windows of text. All tokens of the
 * vocabulary count, not only the next token of the text: perplexity, a difference of two large
 * numbers, is noisier.
 */
#ifndef QUANTIZE_MEASURE_DIVERGENCE_H
#define QUANTIZE_MEASURE_DIVERGENCE_H

#include "tuffet.h"

struct divergence_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows, window;
    int n_threads;                             /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* NULL, or told after each window; false: stop */
    void *user;
};

struct divergence {
    const struct tft_model *m;
    struct divergence_opts o;
    struct tft_error *bad;
    uint32_t *picked; /* [n_windows] indices of the n_picked windows */
    uint32_t n_picked;
    uint32_t scored;  /* tokens of a window */
    float *reference; /* [n_picked, scored, V] logits of the unchanged model */
    double *each;     /* [scored] */
    double work, total_work; /* in windows; the caller sets the total */
    bool stopped;
};

/* m: an open model. Failures, here and below, go to *bad, which may hold an earlier failure of the
   caller: then, and after a stop, nothing is measured. close accepts all zeros. */
void divergence_open(struct divergence *d, const struct tft_model *m,
                     const struct divergence_opts *o, struct tft_error *bad);
void divergence_close(struct divergence *d);

/* Windows that may be measured: DIVERGENCE_HELD are the held-out ones (held_out.h) and
   DIVERGENCE_OTHERS the rest, if something is fitted to the rest; DIVERGENCE_ALL is for text that
   nothing was fitted to. */
enum divergence_part { DIVERGENCE_ALL, DIVERGENCE_HELD, DIVERGENCE_OTHERS };

/* Picks windows of about `tokens` tokens in all, spread evenly over the part. Returns their
   number. */
uint32_t divergence_pick(struct divergence *d, enum divergence_part part, uint32_t tokens);

/* Computes the reference on the picked windows; then measures the model in its current state, with
   the KV cache `kv`: nats per token. */
void divergence_refer(struct divergence *d, const char *kv);
double divergence_measure(struct divergence *d, const char *kv);

/* Number of threads in a team of the measurements. */
int divergence_threads(const struct divergence *d);

#endif
