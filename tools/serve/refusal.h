/* The replies that evhttp makes itself. */
#ifndef SERVE_REFUSAL_H
#define SERVE_REFUSAL_H

struct evhttp;

/* evhttp refuses what it cannot read (400, 413, 417, 501) by a page in HTML, and has no call for
   another one. From here on they have OpenAI's JSON. */
void refusal_as_json(struct evhttp *http);

#endif
