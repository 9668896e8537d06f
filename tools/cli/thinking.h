/*
 * The budget of thoughts: after that many tokens between <think> and </think>, the closing tag's
 * tokens are forced, once, and the answer follows. The tags are found in the text of tokens,
 * whether they are one token or several.
 */
#ifndef THINKING_H
#define THINKING_H

#include "tuffet.h"

enum { THINKING_TAG = 16 }; /* most tokens of the tag; it has 8 bytes */

struct thinking {
    const struct tft_model *m;
    int32_t budget; /* -1: no bound */
    enum {
        THINKING_OVER,  /* no thoughts follow */
        THINKING_START, /* only white space has come, and <think> may follow */
        THINKING_ON,    /* </think> has not come yet */
    } at;
    int32_t tag[THINKING_TAG]; /* [n_tag] </think> */
    size_t n_tag;
    int32_t n;     /* tokens of thoughts so far */
    size_t seen;   /* bytes of the next tag that have come */
    unsigned open; /* bytes that the last character still lacks */
};

/* Begins an answer. in_thought: the prompt ends in <think>. */
void thinking_begin(struct thinking *t, const struct tft_model *m, int32_t budget, bool in_thought);

/* Follows a token of the answer. */
void thinking_take(struct thinking *t, int32_t id);

/* Writes the tokens to force next to ids[THINKING_TAG], and returns how many: 0 if none are.
   Thoughts do not end within a character or within the tag. */
size_t thinking_forced(const struct thinking *t, int32_t *ids);

/* Whether a text ends in <think>, and perhaps white space. */
bool thinking_ends(const char *p, size_t n);

#endif
