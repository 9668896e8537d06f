/* How likely text is to a model: what perplexity and the choice among answers are made of. */
#ifndef SCORER_H
#define SCORER_H

#include "tools/cli/cli.h"

enum { SCORER_BATCH = 128 }; /* tokens computed between looks at Ctrl-C */

struct scorer {
    const struct tft_model *m;
    struct tft_session *s;
    uint32_t n_vocab;
    uint32_t n_logits; /* tokens whose logits are kept at a time */
    uint32_t ctx;      /* tokens that can come before another, BOS included */
    bool bos;          /* sequences begin with BOS */
    bool bos_given;    /* and the model's prefix has it, where it takes no room */
};

/* Opens a session as the options say. n_logits: at most SCORER_BATCH; few make short continuations
   cheap, many long ones. CLI_OK or CLI_FAILED. */
int scorer_open(struct scorer *z, const struct tft_model *m, uint32_t n_logits);
void scorer_close(struct scorer *z);

/* The tokens of a text, the first one BOS if z->bos, to be freed; NULL after an error line. */
int32_t *scorer_tokenize(const struct scorer *z, const char *text, size_t len, size_t *n);

struct score {
    double nll;         /* the sum of -ln p */
    uint32_t n, greedy; /* tokens scored, and those that no other token is likelier than */
};

/* Adds the tokens ids[first..n) of a sequence, first >= 1, n <= z->ctx + 1, to a score. What the
   session holds of ids[..first) already is not computed again. After an interrupt some may be
   missing. */
enum tft_status scorer_add(struct scorer *z, const int32_t *ids, size_t n, size_t first,
                           struct score *total);

#endif
