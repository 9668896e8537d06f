/* Prompts of texts with a gap, which the answer fills. */
#ifndef SERVE_GAP_H
#define SERVE_GAP_H

#include "prompt.h"

/* The prompt of the texts before and after the gap; an error if the model has no tokens for it. */
void prompt_gap(struct prompt *p, const struct served *s, struct fields *f,
                const struct cli_text *before, const struct cli_text *after);

#endif
