/*
 * Greedy search for a cushion: CushionCache, section 4.1, algorithm 1. Tokens are added to a prefix
 * p one by one, each time the token that gives the least
 *
 *      L_q(t | p) = sum over the blocks, over the tokens of t:  |X - q(X)|^2         (eq. 6, 9)
 *
 * t: a sample of text after the prefix; X: output of a block in the residual stream; q: 8 bits over
 * the range of this X, of the tokens of t alone. The search ends when the best token does not lower
 * L_q below tau times its value before (eq. 10).
 *
 * Differences from the paper, and their reasons (cushion_opts.paper has none of them):
 *
 * Samples. The paper draws a new sample for each token. Here a token is judged by the four samples
 * of the text with the highest L_q so far, as some outliers are rare: after BOS and a newline,
 * tinyllama has one in 4 of 16 samples of prose, a newline after a full stop. L_q is summed over
 * the four, as a token may take the outlier of one sample and not of another. With the next sample
 * in turn, or the worst alone, the search found `1,13` and `1,13,25954,30`.
 *
 * Where to look. L_q is measured in the residual stream, where massive activations stand out,
 * however the inputs of linear layers are transformed. For tinyllama, a newline after BOS lowers
 * L_q to 0.11 times its value, but the sum over the linear layers' rotated inputs only to 0.93
 * times.
 *
 * Stages. The paper tries the whole vocabulary on the whole sample. Here a round is a successive
 * halving (Jamieson & Talwalkar 2016): it tries the whole vocabulary on one token of text, in the
 * layers up to where massive activations arise; then the best sixteenth on four times the text; and
 * so on. The text is the window of the sample with the highest L_q so far. In the first stages
 * weights are int8 with a scale per channel, and their inputs bytes with a range per token. This is
 * exact enough to tell which candidates take the outliers. The prefix's keys and values, the later
 * stages, which run all layers, and all losses that the search reports are the float model's.
 *
 * Cost. A token that takes the outliers may make the text less likely, even for the float model:
 * for stories15M, one that lowers L_q to 0.70 raises perplexity by 16 %. So a candidate is accepted
 * only if the mean of -ln p over the samples rises by at most `cost`. Else the candidate with the
 * next lowest L_q on the first sample is tried.
 *
 * Place. A token may be an outlier only after certain tokens: for tinyllama a newline is an outlier
 * after a full stop, and not after BOS. So a round first tries all tokens before the last accepted
 * one; if none is accepted there, the next round tries them at the end of the prefix. (In this
 * order, because at the end of `1,13` some words take as much of the error as a full stop before
 * its newline does, but make the text less likely.)
 */
#ifndef QUANTIZE_SEARCH_CUSHION_SEARCH_H
#define QUANTIZE_SEARCH_CUSHION_SEARCH_H

#include "model/model.h"
#include "tools/quantize/search/cushion.h"

struct cushion_opts {
    const int32_t *text; /* [n_text] */
    size_t n_text;
    uint32_t sample;      /* tokens of a sample; at most n_text */
    const int32_t *start; /* [n_start] first tokens of the prefix */
    uint32_t n_start;
    uint32_t most; /* most tokens of a prefix: n_start <= most <= CUSHION_MAX */
    double tau;
    double cost;     /* most nats that the mean -ln p may rise per accepted token; INFINITY: any */
    bool exhaustive; /* try all tokens on the whole sample */
    bool paper;      /* algorithm 1 to the letter: exhaustive, one sample drawn for each round, and
                        tokens only at the end of the prefix; `cost` should be INFINITY */
    double macs;     /* multiply-adds of a round's first stage; 0: 2e12, half a minute on two cores.
                        The smaller the model, the more text this allows; for a tiny model, all of
                        it */
    int n_threads;
    const char *checkpoint; /* NULL, or a file: the state is saved to it every few seconds, and a
                               search of the same model file with the same options resumes from
                               it */
    /* done: 0..1 of the round. false: stop */
    bool (*progress)(void *user, uint32_t round, double done);
    void *user;
};

/* m: opened by tft_model_open_unexpanded. If *stopped: TFT_OK and the prefix found so far. */
enum tft_status cushion_search(struct tft_model *m, const struct cushion_opts *o, struct cushion *c,
                               bool *stopped, struct tft_error *err);

/* For tests: L_q of text: [n], n <= o->sample, after a prefix of n_prefix <= CUSHION_MAX tokens.
   int8: computed as in the first stages; else by the float model. */
enum tft_status cushion_loss(struct tft_model *m, const struct cushion_opts *o,
                             const int32_t *prefix, uint32_t n_prefix, const int32_t *text,
                             uint32_t n, bool int8, double *loss, struct tft_error *err);

#endif
