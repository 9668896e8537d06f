/* The architectures with folders that can be imported. */
#ifndef IMPORT_ARCHS_H
#define IMPORT_ARCHS_H

#include "arch.h"

/* The architecture of a class of transformers and a config.json; NULL: unknown. */
const struct import_arch *import_find_arch(const struct import *im, const char *class_name);

#endif
