/* RoPE: its base, its scaling, and the divisors that are tensors of GGUF files. */
#ifndef IMPORT_ROPE_H
#define IMPORT_ROPE_H

#include "work.h"

/* rope_parameters or rope_scaling of config.json, full attention's if layers differ; NULL: none. */
const json_t *import_rope(const struct import *im);

/* That of layers with a window, if they have members of their own; or NULL. */
const json_t *import_rope_window(const struct import *im);

/* Its rope_type; "default" if it has none. */
const char *import_rope_type(const struct import *im);

/* Writes the values of RoPE, and fills im->factors in, which import_rope_free frees. */
void import_rope_values(struct import *im);
void import_rope_free(struct import *im);

/* The model's context: where YaRN makes that of config.json longer, the longer one. */
uint64_t import_context(struct import *im);

#endif
