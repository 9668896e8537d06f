/* The models on this machine, in the caches of several programs. */
#ifndef PULL_FOUND_H
#define PULL_FOUND_H

#include <stdint.h>

#include "name.h"

struct found {
    const char *model; /* what a command takes: hf:USER/REPO:QUANT, or a path */
    const char *path;
    const char *from;  /* "tuffet", "huggingface", "llama.cpp", "ollama" */
    const char *known; /* the name in ollama, or "" */
    uint64_t bytes;
};

/* Calls `each` for every model. Returns CLI_OK or CLI_FAILED. */
int found_each(void (*each)(void *user, const struct found *f), void *user);

#endif
