/* Log-probabilities of tokens as OpenAI's API writes them. */
#ifndef SERVE_OPENAI_LOGPROBS_H
#define SERVE_OPENAI_LOGPROBS_H

#include "server.h"

/* The entry of a chat for one item of ITEM_TOKEN. */
json_t *logprobs_entry(const struct tft_model *m, const struct item *item);

/* The members `logprobs` of a choice made of such entries; these functions take the references. Of
   a chat; and of a completion, whose first token begins at byte *offset. */
json_t *logprobs_chat(json_t *entries);
json_t *logprobs_completion(json_t *entries, size_t *offset);

#endif
