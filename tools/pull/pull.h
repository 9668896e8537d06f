/*
 * Models by name: USER/REPO[:QUANT] of the hub.
 *
 *     name -> the hub's list of files (tree) -> the files of the model (choice)
 *          -> blobs in the cache (transfer) -> links to them (cache) -> a path
 */
#ifndef PULL_PULL_H
#define PULL_PULL_H

#include "name.h"
#include "files.h"

struct pull_result {
    char path[PULL_PATH]; /* of the model: a GGUF file, or a folder of safetensors */
    bool folder;
    char commit[41];
    uint64_t bytes, fetched; /* of the model; of these from the hub, now */
    size_t files;
};

/* Fetches the newest files of a model that are not here. If the settings say that there is no
   network, takes what is here. Returns CLI_OK, CLI_FAILED or CLI_INTERRUPTED. */
int pull_fetch(const struct pull_name *n, struct pull_result *r);

/* Finds a model in the cache, without a message if it is not there. */
bool pull_find(const struct pull_name *n, struct pull_result *r);

#endif
