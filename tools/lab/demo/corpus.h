/* The teacher's stories: files of struct target, story after story, each from BOS. */
#ifndef DEMO_CORPUS_H
#define DEMO_CORPUS_H

#include "llama.h"

struct story {
    const struct target *at;
    size_t n;
};

struct corpus {
    struct story *story;
    size_t n, capacity, tokens;
};

/* Maps a file and adds its stories. */
void corpus_add(struct corpus *c, const char *path);

/* Fills a window for training with stories drawn at random, one after another, up to t tokens;
   target[i] is what should follow token[i]. So every window starts with the start of a story, and
   the student also learns to start a story after another one. */
void corpus_window(const struct corpus *c, uint64_t *random, uint16_t *token, struct target *target,
                   int t);

/* The cross-entropy of the targets with themselves, summed over target[t]: that of a perfect
   student. */
double targets_entropy(const struct target *target, int t);

#endif
