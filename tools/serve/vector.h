/* Vectors of embeddings as JSON. */
#ifndef SERVE_VECTOR_H
#define SERVE_VECTOR_H

#include "tools/cli/cli.h"

/* Scales v[n] to length 1. A vector of zeros stays. */
void vector_normalise(float *v, size_t n);

/* Writes v[n] as a list of numbers, with enough digits that reading gives the same bits; false: out
   of memory. */
bool vector_write(struct cli_text *t, const float *v, size_t n);

/* Writes v[n] as a string: its bytes in base64, the least significant byte of each number first. */
bool vector_write_base64(struct cli_text *t, const float *v, size_t n);

#endif
