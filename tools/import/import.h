/*
 * A folder of Hugging Face becomes a GGUF file: names of numbers and of tensors are those of GGUF,
 * and tensors are laid out as GGUF has them. The tables in archs.c say how.
 */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "opts.h"
#include "tuffet.h"

/* Writes the file `path`, which replaces another one when it is complete. A few rows of a tensor
   are in memory at a time; the folder's files are mapped. */
enum tft_status import_model(const char *folder, const char *path, const struct import_opts *o,
                             struct import_result *r, struct tft_error *err);

#endif
