/* The likelihood of a text under a model: the basis of perplexity, and of the choice among
   answers. */
#ifndef SCORER_H
#define SCORER_H

#include "tools/cli/cli.h"

enum { SCORER_BATCH = 128 }; /* tokens between two checks for Ctrl-C */

struct scorer {
    const struct tft_model *m;
    struct tft_session *s;
    uint32_t n_logits;  /* newest tokens of a pass for which the session keeps logits */
    uint32_t ctx;       /* most tokens before a scored one, BOS included */
    bool bos;           /* sequences begin with BOS */
    bool bos_in_prefix; /* BOS is in the model's prefix, not among the session's tokens */
};

/* Opens a session by the command line's options. n_logits: at most SCORER_BATCH; a small number is
   faster for short continuations, a large one for long ones. Returns CLI_OK or CLI_FAILED. */
int scorer_open(struct scorer *z, const struct tft_model *m, uint32_t n_logits);
void scorer_close(struct scorer *z);

/* The tokens of a text, which the caller frees, with BOS as the first if z->bos; NULL after an
   error message. special: names of special tokens are these tokens. */
int32_t *scorer_tokenize(const struct scorer *z, const char *text, size_t len, bool special,
                         size_t *n);

struct score {
    double nll;         /* the sum of -ln p */
    uint32_t n, greedy; /* tokens scored; how many of them are the greedy choice */
};

/* Adds the tokens ids[first..n) of a sequence to a score; first >= 1, n <= z->ctx + 1. Tokens of
   ids[..first) that the session already holds are not computed again. Tokens that the model's
   prefix holds (tft_prefix_held) are neither fed nor scored. After Ctrl-C, the score may be
   incomplete. */
enum tft_status scorer_add(struct scorer *z, const int32_t *ids, size_t n, size_t first,
                           struct score *total);

#endif
