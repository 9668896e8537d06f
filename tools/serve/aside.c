#include "aside.h"

#include <stdlib.h>

#include "loop.h"
#include "lost.h"
#include "port/thread.h"

enum {
    SMALL = 32 << 10, /* bytes of a body that is handled at once, in about a millisecond */
    MOST = 8,         /* handlers in threads; further ones wait */
    STACK = 8 << 20,  /* of a thread, as the clients' has: musl gives 128 KiB */
};

enum turn { CLIENTS, HANDLER }; /* the thread that may touch the server */

struct aside {
    struct exchange *x;
    void (*handle)(struct exchange *x);
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t changed;
    enum turn turn;
    bool waits; /* it has done its long work */
    bool done;
    bool gone;    /* the client is; of the clients' thread, like the fields below */
    bool started; /* else it waits */
    struct aside *next;
};

static _Thread_local struct aside *own; /* of a handler's thread */

/* ---- the handler's thread */

bool aside_is_here(void) { return own; }

void aside_begin(void)
{
    struct aside *a = own;
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->turn = CLIENTS;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

void aside_end(void)
{
    struct aside *a = own;
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->waits = true;
    loop_wake(a->server);
    while (a->turn != HANDLER)
        pthread_cond_wait(&a->changed, &a->lock);
    a->waits = false;
    pthread_mutex_unlock(&a->lock);
    lost_watch(&a->x->lost);
}

static bool is_open(const struct aside *a)
{
    const struct exchange *x = a->server->loop->open;
    while (x && x != a->x)
        x = x->next;
    return x;
}

/* `gone` of the exchange while its handler is beside the loop. */
static void gone(void *user)
{
    struct aside *a = user;
    a->gone = true;
}

static void *run(void *arg)
{
    struct aside *a = own = arg;
    lost_watch(&a->x->lost);
    a->handle(a->x);
    if (is_open(a) && a->x->gone == gone)
        a->x->gone = NULL;
    else if (is_open(a) && a->gone && a->x->gone) /* the answer has begun for nobody */
        a->x->gone(a->x->user);
    lost_watch(NULL);
    pthread_mutex_lock(&a->lock);
    a->done = true;
    a->turn = CLIENTS;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- the clients' thread */

/* Until the handler gives the turn back. False: it is done. */
static bool wait_for(struct aside *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->turn != CLIENTS)
        pthread_cond_wait(&a->changed, &a->lock);
    bool done = a->done;
    pthread_mutex_unlock(&a->lock);
    lost_watch(NULL);
    if (done)
        pthread_join(a->thread, NULL);
    return !done;
}

static size_t count_started(const struct loop *l)
{
    size_t n = 0;
    for (const struct aside *a = l->asides; a; a = a->next)
        n += a->started;
    return n;
}

/* False: the handler is done. */
static bool start(struct aside *a)
{
    struct exchange *x = a->x;
    lost_watch(&x->lost);
    if (a->gone) {
        x->gone = NULL;
        reply_error(x, 503, "unavailable_error", "the request was cancelled");
    } else if (tft_port_start(&a->thread, STACK, run, a) == 0) {
        a->started = true;
        return wait_for(a);
    } else {
        x->gone = NULL;
        a->x = NULL; /* the handler may free it */
        a->handle(x);
    }
    lost_watch(NULL);
    return false;
}

/* NULL: no memory. */
static struct aside *new_aside(struct exchange *x, void (*handle)(struct exchange *x))
{
    struct aside *a = malloc(sizeof *a);
    if (!a)
        return NULL;
    *a = (struct aside){.x = x, .handle = handle, .server = x->server, .turn = HANDLER};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    x->gone = gone;
    x->user = a;
    return a;
}

static void free_aside(struct aside *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void aside_run(struct exchange *x, void (*handle)(struct exchange *x))
{
    struct loop *l = x->server->loop;
    bool at_once = own || !l || x->size < SMALL; /* `tuffet batch` has no loop */
    struct aside *a = at_once ? NULL : new_aside(x, handle);
    if (!a) {
        handle(x);
        return;
    }
    if (count_started(l) < MOST && !start(a)) {
        free_aside(a);
        return;
    }
    struct aside **at = &l->asides;
    while (*at)
        at = &(*at)->next;
    *at = a;
}

/* Gives the handler the turn, if it waits for it. */
static bool resume(struct aside *a)
{
    pthread_mutex_lock(&a->lock);
    bool waits = a->waits && a->turn == CLIENTS;
    if (waits) {
        a->turn = HANDLER;
        pthread_cond_signal(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return waits;
}

/* Calls goes_on for all that have started, or for those that wait, while there is room. */
static void step_all(struct loop *l, bool started, bool (*goes_on)(struct aside *a))
{
    struct aside **at = &l->asides;
    while (*at) {
        struct aside *a = *at;
        bool due = started ? a->started : !a->started && count_started(l) < MOST;
        if (!due || goes_on(a)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        free_aside(a);
    }
}

static bool go_on(struct aside *a) { return !resume(a) || wait_for(a); }

void aside_step(struct server *s)
{
    step_all(s->loop, true, go_on);
    step_all(s->loop, false, start);
}

bool aside_uses(const struct server *s, const struct served *m)
{
    const struct aside *a = s->loop->asides;
    while (a && (!a->x || a->x->served != m))
        a = a->next;
    return a;
}
