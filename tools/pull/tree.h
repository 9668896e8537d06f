/* The files of a repository, as the hub lists them. */
#ifndef PULL_TREE_H
#define PULL_TREE_H

#include "files.h"
#include "hub.h"

/* Reads the newest commit and its files. Refuses a list with a name that is not safe. Returns
   CLI_OK, CLI_FAILED or CLI_INTERRUPTED. */
int tree_read(struct hub *h, const char *repo, char commit[41], struct pull_files *files);

/* Adds the shards that an index of safetensors, json[n], names. Each must be in `all`. repo:
   for messages, or NULL for none. Returns CLI_OK or CLI_FAILED. */
int tree_add_shards(const char *json, size_t n, const char *repo, const struct pull_files *all,
                    struct pull_files *some);

#endif
