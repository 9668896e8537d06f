/* Texts as tokens, one after another, each a sequence with a beginning: conversations, or texts
   that a model has written. Windows of calibration contain whole texts. */
#ifndef QUANTIZE_TEXT_TALKS_H
#define QUANTIZE_TEXT_TALKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuffet.h"

struct talks {
    int32_t *ids; /* [n_ids] of all texts, without the BOS of talks_lead */
    size_t n_ids;
    size_t *end; /* [n] where each text ends in ids */
    size_t n;
    size_t room_ids, room;
};

/* The time for templates with a date: midday of 1 June 2024, so that texts are the same each
   day. */
#define TALKS_TIME ((int64_t)1717243200)

/* 1 if the text begins with a BOS that comes before every text of the model, and is not stored
   here; 0 if it has no BOS, or if BOS is a token of the template, as in models that begin texts
   without BOS. */
size_t talks_lead(const struct tft_model *m, const int32_t *ids, size_t n);

/* Adds a text of n tokens. False if memory is short. free accepts all zeros. */
bool talks_add(struct talks *t, const int32_t *ids, size_t n);
void talks_free(struct talks *t);

/* Every KEPT_TALK-th text is held out. */
enum { KEPT_TALK = 3 };
bool talks_is_kept(size_t text);

/* The tokens of the held-out texts, or of the others. */
size_t talks_tokens(const struct talks *t, bool kept);

/* How many tokens all texts begin with and continue after. */
size_t talks_same(const struct talks *t);

/* Tokens at the beginning of every sequence at run time. */
struct talks_start {
    int32_t bos;           /* put before each window; below 0: none */
    int32_t held;          /* BOS, if the prefix has it: a text that begins with BOS continues after
                              the prefix; below 0: the prefix has none */
    const int32_t *prefix; /* [n_prefix] the text of the file's prefix: a text that begins with it
                              continues after the prefix, as a prompt does (tft_prefix_held) */
    uint32_t n_prefix;
};

/* Windows of the held-out texts, or of the others. Each begins at the start of a text; further
   texts follow until the window is full, and the last one is cut. out: [most, window]; returns the
   number of windows. */
size_t talks_windows(const struct talks *t, bool kept, const struct talks_start *start,
                     uint32_t window, size_t most, int32_t *out);

#endif
