/* Log-probabilities of tokens as OpenAI's API writes them. */
#ifndef SERVE_OPENAI_LOGPROBS_H
#define SERVE_OPENAI_LOGPROBS_H

#include "server.h"

/* How much of a completion's text the tokens so far have. The text begins with echo[n_echo]. */
struct shown {
    struct tft_text state;
    const char *echo;
    size_t n_echo, at, offset; /* at, offset: bytes and characters */
};

/* The entry of a chat for one item of ITEM_TOKEN. */
json_t *logprobs_entry(const struct tft_model *m, const struct item *item);

/* The entry of a token without a log-probability: the first of a text. */
json_t *logprobs_unknown(const struct tft_model *m, int32_t id);

/* The members `logprobs` of a choice made of such entries; these functions take the references. Of
   a chat; and of a completion, in which these tokens follow after `shown`. */
json_t *logprobs_chat(json_t *entries);
json_t *logprobs_completion(json_t *entries, const struct tft_model *m, struct shown *shown);

#endif
