/* The architectures with folders that can be imported. */
#ifndef IMPORT_ARCHS_H
#define IMPORT_ARCHS_H

#include "arch.h"

/* The architecture of a class of transformers and a config.json; NULL: unknown. */
const struct import_arch *import_find_arch(const struct import *im, const char *class_name);

/* The rows of an architecture of GGUF, one after another: *at is 0 for the first. NULL: no more. */
const struct import_arch *import_next_arch(struct tft_str name, size_t *at);

#endif
