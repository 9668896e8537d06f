/* The replies that evhttp makes itself. */
#ifndef SERVE_REFUSAL_H
#define SERVE_REFUSAL_H

struct evhttp;

/* evhttp refuses unreadable requests (400, 413, 417, 501) with a page in HTML, and has no call to
   replace it. After this call such replies have OpenAI's JSON. */
void refusal_as_json(struct evhttp *http);

#endif
