#include "listener.h"

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <string.h> /* of evutil_socket_error_to_string */

enum { QUIET = 60 }; /* seconds between two messages */

static const struct timeval pause = {.tv_usec = 100000};

static struct loop *guarded; /* evhttp passes on_error no pointer of ours; there is one loop */

/* accept() has failed. */
static void on_error(struct evconnlistener *listener, void *user)
{
    struct loop *l = guarded;
    (void)user;
    const char *why = evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR());
    uint64_t now = cli_ns() / 1000000000u + 1;
    if (!l->said || now - l->said >= QUIET) {
        fprintf(stderr, "tuffet: new connections wait: %s\n", why);
        l->said = now;
    }
    evconnlistener_disable(listener);
    event_add(l->again, &pause);
}

static void on_timer(evutil_socket_t fd, short what, void *user)
{
    struct loop *l = user;
    (void)fd;
    (void)what;
    if (!l->ending)
        evconnlistener_enable(evhttp_bound_socket_get_listener(l->bound));
}

bool listener_guard(struct loop *l)
{
    guarded = l;
    l->again = evtimer_new(l->base, on_timer, l);
    if (l->again)
        evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(l->bound), on_error);
    return l->again;
}

void listener_close(struct loop *l)
{
    if (l->again)
        event_free(l->again);
}
