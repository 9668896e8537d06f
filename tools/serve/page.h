/* The page at "/": page.html, which tools/scripts/page.py writes as C. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include "server.h"

extern const unsigned char serve_page_text[]; /* (serve_page_size,), UTF-8, no NUL at the end */
extern const size_t serve_page_size;
extern const char serve_page_policy[]; /* of the header Content-Security-Policy */
extern const char serve_page_tag[];    /* of the header ETag: differs for each page */

/* Replies with the page, or with 304 if the browser already has it. */
void serve_page(struct exchange *x);

#endif
