/* A hash of logits, by which two machines, builds or kernels are compared: tuffet bench --hash. */
#ifndef HASH_H
#define HASH_H

#include "tuffet.h"

/* Tokens: a prompt of the first, and the others one by one. */
enum { HASH_PROMPT = 48, HASH_TOKENS = 64 };

/* *hash: of the bits of all logits after ids[HASH_TOKENS], with the cache and the threads of the
   options. Returns a status of tools/cli/cli.h. */
int hash_logits(uint64_t *hash, const struct tft_model *m, const int32_t *ids);

/* The name of a CPU's kernels, from the slowest, 0; NULL: the CPU has no more. */
const char *hash_kernels(int i);

#endif
