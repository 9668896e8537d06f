/* What a request adds to logits before a token is chosen: logit_bias, and penalties for tokens that
   the answer has already. */
#ifndef SERVE_BIAS_H
#define SERVE_BIAS_H

#include "fields.h"

struct bias {
    struct bias_token {
        int32_t id;
        float add;
    } * token; /* [n] */
    size_t n;
    float frequency, presence; /* taken off a token's logit: each time it has come, and once */
    float *logits;             /* [n_vocab] what tokens are chosen from; NULL: the session's own */
    uint32_t *count;           /* [n_vocab] how often a token has come */
    size_t n_vocab;
};

/* Reads logit_bias, frequency_penalty and presence_penalty. */
void bias_read(struct bias *b, struct fields *f, const struct tft_model *m);
void bias_free(struct bias *b);

/* The biases of another job, with counts of its own; false: out of memory. */
bool bias_copy(struct bias *b, const struct bias *from);

/* What the next token is chosen from: the session's logits, [n_vocab], with the biases, or NULL
   where there are none. */
const float *bias_apply(struct bias *b, const struct tft_session *s);

/* A token has come. */
void bias_count(struct bias *b, int32_t id);

#endif
