/*
 * Greedy prefix search: CushionCache, section 4.1, algorithm 1. Tokens are added one by one to a
 * prefix p, each the one that leaves the least
 *
 *      L_q(t | p) = sum over the blocks, over the tokens t:  |X - q(X)|^2                          
 *                     (eq. 6, 9)
 *
 * where t is a sample of text that comes after the prefix, X is what a block leaves in the residual
 * stream, and q the 8-bit numbers whose range is that of this X, the tokens of t alone; until one
 * does not make it less than tau times what it was (eq. 10). The paper gives each token a sample of
 * its own. Here it has the four of the text's that the prefix so far serves worst, because some
 * outliers are rare: after BOS and a newline, tinyllama has one in 4 of 16 samples of prose, a
 * newline after a full stop. And L_q is the sum over the four, because a token may take an outlier
 * in one and not in another: where the next sample in turn was looked at, or the worst alone,
 * `1,13` and `1,13,25954,30` were found.
 *
 * It is in the residual stream that a token's massive activations stand out, whatever is done about
 * the inputs of linear layers: at tinyllama a newline after BOS takes L_q to 0.11 of what it was
 * there, but the sum over the linear layers' inputs, rotated, to 0.93.
 *
 * The paper tries the whole vocabulary on the whole sample. Here the whole vocabulary is tried too,
 * but on a token of text and in the layers up to where large activations arise; a sixteenth of it,
 * which does best there, on four times the text, and so on: successive halving (Jamieson &
 * Talwalkar 2016). The text to try on is the part of the sample that the prefix so far serves
 * worst. In those layers the model's weights are int8, with a scale for each channel, and what they
 * multiply is bytes in the range of each token: that tells which candidates take the outliers, and
 * no more is asked of it. The keys and values of the prefix, the later stages, in which all layers
 * are computed, and all losses that a search reports are those of the model of floats.
 *
 * Two more things are not the paper's. A token that takes the outliers may make the text less
 * likely, in floats too: at stories15M one that takes L_q to 0.70 raises perplexity by 16 %. So a
 * candidate is taken only if the mean of -ln p over the samples does not rise by more than `cost`;
 * else the one with the next least L_q of the first sample is asked. And what is an outlier may
 * depend on what comes before: at tinyllama a newline is one after a full stop and none after BOS.
 * So a round tries every token before the last that was found, and where none is worth it there, at
 * the end of the prefix. (In this order, because at the end of `1,13` there are words that take as
 * much of the error as a full stop before its newline, but text is less likely after them.)
 */
#ifndef QUANTIZE_SEARCH_CUSHION_SEARCH_H
#define QUANTIZE_SEARCH_CUSHION_SEARCH_H

#include "model/model.h"
#include "tools/quantize/search/cushion.h"

struct cushion_opts {
    const int32_t *text; /* [n_text] */
    size_t n_text;
    uint32_t sample;      /* tokens of a sample; at most n_text */
    const int32_t *start; /* [n_start] tokens that the prefix begins with */
    uint32_t n_start, most; /* tokens of the prefix at most: n_start <= most <= CUSHION_MAX */
    double tau;
    double cost; /* nats that a token of the prefix may cost a token of the text; INFINITY: any */
    bool exhaustive; /* all tokens on all of the sample */
    double macs;     /* multiply-adds of a round's first stage: with a small model it sees more text
                        for them, and a tiny one is tried exhaustively.     0: 2e12, half a minute
                        of two cores */
    int n_threads;
    const char *checkpoint; /* NULL, or a file that the search is written to every few seconds, and
                               goes on from if it is the same search */
    /* done: of the round, 0..1. false: stop */
    bool (*progress)(void *user, uint32_t round, double done);
    void *user;
};

/* m: opened by tft_model_open_unexpanded. TFT_OK with the prefix so far if *stopped. */
enum tft_status cushion_search(struct tft_model *m, const struct cushion_opts *o, struct cushion *c,
                               bool *stopped, struct tft_error *err);

/* For the tests. L_q of text: [n] after a prefix of n_prefix <= CUSHION_MAX tokens, by floats or as
   the first stages have it; for text of at most o->sample tokens. */
enum tft_status cushion_loss(struct tft_model *m, const struct cushion_opts *o,
                             const int32_t *prefix, uint32_t n_prefix, const int32_t *text,
                             uint32_t n, bool bytes, double *loss, struct tft_error *err);

#endif
