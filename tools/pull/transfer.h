/* Brings one file of a repository into the cache. */
#ifndef PULL_TRANSFER_H
#define PULL_TRANSFER_H

#include "cache.h"
#include "hub.h"
#include "tools/cli/cli.h"

/* What a pull has done so far. */
struct transfer_bar {
    struct cli_progress line;
    uint64_t done, total; /* bytes to fetch */
    uint64_t fetched;     /* bytes that came from the hub */
};

/* Bytes of the file that are still to be fetched. */
uint64_t transfer_missing(const struct cache *c, const struct pull_file *f);

/* Fetches the blob unless it is there, with what an earlier try has left, and checks its hash. A
   file of the same contents in a cache of llama.cpp or ollama is taken instead. Returns CLI_OK,
   CLI_FAILED or CLI_INTERRUPTED. */
int transfer_file(struct hub *h, const struct cache *c, const char *repo, const char *commit,
                  const struct pull_file *f, struct transfer_bar *bar);

#endif
