/* Decodes many sequences in lockstep, one token of each per step, so that every weight is read once
   for all of them. */
#ifndef DEMO_DECODE_H
#define DEMO_DECODE_H

#include "llama.h"

struct decoder;
/* A decoder of n sequences. */
struct decoder *decoder_open(const struct shape *s, const struct params *w, int n);

/* Limits the logits to token[n], in this order. */
void decoder_narrow_head(struct decoder *d, const int *token, int n);

/* Puts token[i] at position pos[i] of sequence i, and drops the positions after it; position 0
   starts a sequence again. Returns logits [n, tokens of the head], valid until the next step. */
float *decoder_step(struct decoder *d, const uint16_t *token, const int *pos);

#endif
