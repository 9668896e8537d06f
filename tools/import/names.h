/* Names of tensors in folders. */
#ifndef IMPORT_NAMES_H
#define IMPORT_NAMES_H

#include <stdbool.h>

/* Whether `name` ends in `with`. */
bool import_ends(const char *name, const char *with);

/* Whether a text model does not need the tensor: it belongs to another modality, or to a block that
   predicts further tokens, or can be computed from config.json. */
bool import_not_needed(const char *name);

/* Whether an encoder does not need the tensor: it is of the heads that it was trained with. */
bool import_not_needed_to_embed(const char *name);

#endif
