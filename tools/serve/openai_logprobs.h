/* Log-probabilities of tokens as OpenAI's API writes them. */
#ifndef SERVE_OPENAI_LOGPROBS_H
#define SERVE_OPENAI_LOGPROBS_H

#include "server.h"

/* Bytes that all requests together may keep: 23,000 tokens with 20 alternatives each. As JSON they
   take ten times as much. */
enum { LOGPROBS_ALL = 4 << 20 };

/* The tokens of a choice that have not been sent, as numbers. Starts from all zero. */
struct logprobs {
    struct cli_text kept;
};

/* How much of a completion's text the tokens so far have. The text begins with echo[n_echo]. */
struct shown {
    struct tft_text state;
    const char *echo;
    size_t n_echo, at, offset; /* at, offset: bytes and characters */
};

/* Adds one item of ITEM_TOKEN; false: out of memory, or of LOGPROBS_ALL. */
bool logprobs_keep(struct logprobs *l, const struct item *item);

/* Adds a token without a log-probability: the first of a text. */
bool logprobs_keep_unknown(struct logprobs *l, int32_t id);

void logprobs_free(struct logprobs *l);

/* Writes the member `logprobs` of a choice, and forgets the tokens. shown: NULL in a chat; of a
   completion, in which these tokens follow after it. False: out of memory. */
bool logprobs_write(struct cli_text *to, const struct tft_model *m, struct logprobs *l,
                    struct shown *shown);

/* The same as JSON, for a part of a stream. NULL: out of memory. */
json_t *logprobs_take(const struct tft_model *m, struct logprobs *l, struct shown *shown);

#endif
