/* A request's additions to the logits before a token is chosen: logit_bias, and penalties for
   tokens that the answer already has. */
#ifndef SERVE_BIAS_H
#define SERVE_BIAS_H

#include "fields.h"

struct bias {
    struct bias_token {
        int32_t id;
        float add;
    } * token; /* [n] */
    size_t n;
    float frequency, presence; /* subtracted from a token's logit: for each occurrence; once */
    float *logits;             /* [n_vocab] biased logits to choose tokens from; NULL: the session's
                                  own */
    uint32_t *count;           /* [n_vocab] how often the answer has each token */
    size_t n_vocab;
};

/* Reads logit_bias, frequency_penalty and presence_penalty. */
void bias_read(struct bias *b, struct fields *f, const struct tft_model *m);
void bias_free(struct bias *b);

/* The biases of another job, with counts of its own; false: out of memory. */
bool bias_copy(struct bias *b, const struct bias *from);

/* The logits to choose the next token from: the session's logits, [n_vocab], with the biases; NULL
   without biases. */
const float *bias_apply(struct bias *b, const struct tft_session *s);

/* Counts a chosen token. */
void bias_count(struct bias *b, int32_t id);

#endif
