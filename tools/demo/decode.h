/* Decoding many sequences in lockstep: one token each per step, so that every weight is read once
   for all of them. */
#ifndef DEMO_DECODE_H
#define DEMO_DECODE_H

#include "llama.h"

struct decoder;
/* n: sequences */
struct decoder *decoder_open(const struct shape *s, const struct params *w, int n);

/* From now on there are logits for these tokens only, in this order. */
void decoder_narrow_head(struct decoder *d, const int *token, int n);

/* Puts token[i] at position pos[i] of sequence i. Returns logits [n, tokens of the head], valid
   until the next step. Positions from pos[i] on are forgotten, so that a sequence starts again with
   position 0. */
float *decoder_step(struct decoder *d, const uint16_t *token, const int *pos);

#endif
