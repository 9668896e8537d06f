#include "refusal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1024 }; /* bytes: evhttp's pages are shorter, with their headers */

static const char *why_of(int code)
{
    switch (code) {
    case 400:
        return "the request is not HTTP/1.1, has headers of more than 64 KiB, or leaves open where "
               "it ends or to whom it goes";
    case 413: /* for evhttp these are one fault */
        return "the body is longer than 8 MiB, or has wrong chunks, or chunks with extensions";
    case 501: return "there is no such method";
    default: return "the request cannot be read";
    }
}

static void write_reply(struct evbuffer *out, int code, const char *reason, size_t n_reason)
{
    char body[256];
    int n = snprintf(body, sizeof body,
                     "{\"error\":{\"code\":%d,\"message\":\"%s\",\"type\":\"%s\",\"param\":null}}",
                     code, why_of(code),
                     code == 501   ? "not_supported_error"
                     : code >= 500 ? "server_error"
                                   : "invalid_request_error");
    evbuffer_add_printf(out,
                        "HTTP/1.1 %d %.*s\r\nContent-Type: application/json; charset=utf-8\r\n"
                        "Connection: close\r\nContent-Length: %d\r\n\r\n%s",
                        code, (int)n_reason, reason, n, body);
}

/* Called after a write. A page of evhttp follows its headers at once, and nothing is before them:
   the reply before has been sent. Replies of the router have no such words. */
static void on_written(struct evbuffer *out, const struct evbuffer_cb_info *info, void *user)
{
    static const char begin[] = "HTTP/1.", page[] = "\r\n\r\n<HTML><HEAD>\n<TITLE>";
    char text[PAGE], *reason;
    size_t n = evbuffer_get_length(out);
    (void)user;
    if (!info->n_added || n >= sizeof text)
        return;
    evbuffer_copyout(out, text, n);
    text[n] = 0;
    if (strncmp(text, begin, strlen(begin)) != 0 || !strstr(text, page))
        return;
    int code = (int)strtol(text + strlen("HTTP/1.1 "), &reason, 10);
    reason += *reason == ' ';
    evbuffer_unfreeze(out, 1); /* otherwise only the bufferevent takes from the front */
    evbuffer_drain(out, n);
    evbuffer_freeze(out, 1);
    write_reply(out, code, reason, strcspn(reason, "\r\n"));
}

void refusal_as_json(struct bufferevent *b)
{
    evbuffer_add_cb(bufferevent_get_output(b), on_written, NULL);
}
