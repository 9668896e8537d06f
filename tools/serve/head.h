/* The head of a request, as the gate reads it. evhttp reads it again. */
#ifndef SERVE_HEAD_H
#define SERVE_HEAD_H

#include "access.h"

struct head {
    struct claims claims;
    int64_t length; /* of the body; -1: not given, or no number */
    bool coded;     /* Transfer-Encoding */
    bool expects;   /* the client waits before it sends the body */
    bool has_length;
    bool unclear; /* where the body ends, or to whom the request goes (RFC 9112, sections 3.2, 5.1
                     and 6.3): more than one Host or length, a length that is no number, a length
                     and a coding, a coding other than chunks, or a space before a colon */
    char *text; /* which the claims point into */
};

/* Whether p[n], without the end of the line, may be in a head. first: the line of the request. */
bool head_is_line(const char *p, size_t n, bool first);

/* Whether a request may begin with this character. TLS, for one, begins with another. */
bool head_may_begin(char c);

/* Makes one slash of several in a row in the path of a request; returns the new n. evhttp takes the
   name in //NAME/PATH for a host, and drops it. */
size_t head_slashes(char *p, size_t n);

/* Reads the head p[n], with its empty line. False: out of memory. */
bool head_read(struct head *h, const char *p, size_t n);
void head_free(struct head *h);

bool head_has_body(const struct head *h);

/* Removes the headers that announce a body, and with `connection` also Connection; returns the new
   n. */
size_t head_strip(char *p, size_t n, bool connection);

/* Adds a line before the empty one. False: out of memory. */
bool head_add(struct cli_text *t, const char *line);

#endif
