/* The teacher's stories: files of struct target, one story after another, each from BOS. */
#ifndef DEMO_CORPUS_H
#define DEMO_CORPUS_H

#include "llama.h"

struct story {
    const struct target *at;
    size_t n;
};

struct corpus {
    struct story *story;
    size_t n, room, tokens;
};

/* Maps a file and adds its stories. */
void corpus_add(struct corpus *c, const char *path);

/* A window for training: stories drawn at random, one after another until t tokens are full;
   target[i] belongs to what follows token[i]. So every window starts as a story does, and knows
   what it is to have others before. */
void corpus_window(const struct corpus *c, uint64_t *random, uint16_t *token, struct target *target,
                   int t);

/* The cross-entropy of a perfect student: that of the targets with themselves. */
double targets_entropy(const struct target *target, int t);

#endif
