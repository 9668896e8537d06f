/* Requests to the hub, with its redirects, its errors and tries again. */
#ifndef PULL_HUB_H
#define PULL_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name.h"

struct hub;

/* Opens the hub of the settings. Returns CLI_OK or CLI_FAILED. */
int hub_open(struct hub **h);
void hub_close(struct hub *h); /* NULL is fine */

/* Its address, without a slash at the end. */
const char *hub_endpoint(const struct hub *h);

/* Takes the bytes of a reply. A function that returns false has printed an error message. */
struct hub_sink {
    /* How many bytes are here already: a try asks for the bytes after these. */
    uint64_t (*held)(void *user);
    /* The bytes of a try come, from this one on: held(), or 0. */
    bool (*begin)(void *user, uint64_t at);
    bool (*take)(void *user, const char *p, size_t n);
    void (*quiet)(void *user); /* NULL, or called before a message is printed */
    void *user;
};

/* Asks for a URL, and again after errors that may pass. repo: for messages. next: NULL, or the page
   that follows, empty after the last. The token goes to the hub's host alone. Returns CLI_OK,
   CLI_FAILED or CLI_INTERRUPTED. */
int hub_get(struct hub *h, const char *url, const char *repo, const struct hub_sink *sink,
            char next[PULL_URL]);

#endif
