/* The head of a reply: values of a few headers, which anyone may have written. */
#ifndef PULL_REPLY_H
#define PULL_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name.h"

struct reply {
    char code[64], message[256]; /* the hub's error; printable */
    char next[PULL_URL];         /* of Link; empty: no page follows */
    bool has_wait, has_at;
    unsigned wait; /* seconds until a request is welcome */
    uint64_t at;   /* of Content-Range: the first byte */
};

/* Reads one line of the head, which may end with CR LF. A status line begins a new head. */
void reply_add_line(struct reply *r, const char *p, size_t n);

#endif
