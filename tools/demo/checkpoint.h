/* llama2.c checkpoints, version 0, float, with a shared head (karpathy/llama2.c export.py
   legacy_export). */
#ifndef DEMO_CHECKPOINT_H
#define DEMO_CHECKPOINT_H

#include "llama.h"

/* All parameters, as params_at wants them. */
float *checkpoint_read(struct shape *s, const char *path);
void checkpoint_write(const struct shape *s, const float *flat, const char *path);

#endif
