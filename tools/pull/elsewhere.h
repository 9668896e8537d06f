/* Files that other programs have fetched before. */
#ifndef PULL_ELSEWHERE_H
#define PULL_ELSEWHERE_H

#include "cache.h"

/* Makes a blob of a file with the same contents in the caches of llama.cpp or ollama, if there is
   one on the same disk. */
bool elsewhere_take(const struct cache *c, const char *repo, const struct pull_file *f);

#endif
