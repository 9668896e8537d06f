/* Reads and writes llama2.c checkpoints of version 0 whose head is the embedding
   (karpathy/llama2.c export.py legacy_export). */
#ifndef DEMO_CHECKPOINT_H
#define DEMO_CHECKPOINT_H

#include "llama.h"

/* Reads the shape and returns the parameters, for params_at. */
float *checkpoint_read(struct shape *s, const char *path);
void checkpoint_write(const struct shape *s, const float *flat, const char *path);

#endif
