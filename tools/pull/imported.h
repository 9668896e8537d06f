/* GGUF files that tuffet has made of folders of safetensors. */
#ifndef PULL_IMPORTED_H
#define PULL_IMPORTED_H

#include <stdint.h>

#include "name.h"

/* The path of the file of a commit, whether it is there or not. false: no folder is known. */
bool imported_path(const char *repo, const char *commit, char path[PULL_PATH]);

/* Removes the files of a repository. Returns their number; *bytes grows by their size. */
size_t imported_remove(const char *repo, uint64_t *bytes);

#endif
