/* The replies that evhttp makes itself. */
#ifndef SERVE_REFUSAL_H
#define SERVE_REFUSAL_H

struct bufferevent;

/* evhttp refuses unreadable requests (400, 413, 417, 501) with a page in HTML, and has no call to
   replace it. After this call such replies have OpenAI's JSON. b: of a new connection. */
void refusal_as_json(struct bufferevent *b);

#endif
