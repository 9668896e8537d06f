#include "page.h"

#include <string.h>

void serve_page(struct exchange *x)
{
    const char *known = exchange_header(x, "If-None-Match");
    reply_header(x, "Content-Security-Policy", serve_page_policy);
    reply_header(x, "X-Content-Type-Options", "nosniff");
    reply_header(x, "Referrer-Policy", "no-referrer");
    reply_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    reply_header(x, "Cache-Control", "no-cache"); /* ask each time; 304 is short */
    reply_header(x, "ETag", serve_page_tag);
    if (known && strcmp(known, serve_page_tag) == 0)
        reply_text(x, 304, "text/html; charset=utf-8", NULL, 0);
    else
        reply_text(x, 200, "text/html; charset=utf-8", (const char *)serve_page_text,
                   serve_page_size);
}
