#define _POSIX_C_SOURCE 200809L
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "catalog.h"
#include "loop.h"
#include "lost.h"
#include "ollama.h"
#include "port/thread.h"
#include "query.h"
#include "request.h"
#include "room.h"

struct waiter {
    struct exchange *x;
    struct served *model;
    void (*handle)(struct exchange *x);
    int64_t keep;
    bool gone; /* the client is, or the server ends */
    struct pool *pool;
    struct waiter *next;
};

enum order { NOTHING, OPEN, CLOSE };

struct pool {
    struct server *server;
    struct served_options how;
    struct waiter *first, **last;
    size_t n_waiting;
    uint64_t turn;          /* number of requests so far */
    struct lodger *lodgers; /* [CATALOG_ALL] for the choice of a model to close */
    struct store_options store; /* of all models together */
    bool ordered;           /* the opener has an order, or has carried it out */
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t work;
    enum order order;
    bool done, closing;
    struct served *owner; /* the model of the order */
    struct served task;   /* its copy, which the opener opens or closes */
    int status;
    char why[256];
};

/* ---- the opener */

/* The reason of a failure, for clients: it begins with the path of the file, of which they get only
   the name. */
static void read_reason(struct pool *p)
{
    const char *path = p->task.path, *why = cli_last_error();
    size_t folder = (size_t)(system_file_name(path) - path);
    if (strncmp(why, path, folder) == 0)
        why += folder;
    snprintf(p->why, sizeof p->why, "%s", why);
}

static void carry_out(struct pool *p)
{
    p->status = CLI_OK;
    *p->why = 0;
    if (p->order == OPEN)
        p->status = served_open(&p->task, &p->how);
    if (p->status != CLI_OK)
        read_reason(p);
    if (p->order == CLOSE || p->status != CLI_OK)
        served_close(&p->task);
}

static void *run(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        if (!p->order || p->done) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        carry_out(p); /* until it is done, the order is the opener's alone */
        pthread_mutex_lock(&p->lock);
        p->done = true;
        p->how.wake(p->how.user);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void give_order(struct pool *p, enum order order, struct served *s)
{
    size_t n = p->server->n_models;
    if (order == CLOSE)
        s->past = engine_counts(s->engine);
    pthread_mutex_lock(&p->lock);
    p->how.store.memory = p->store.memory / n;
    p->how.store.disk = p->store.disk / n;
    p->order = order;
    p->owner = s;
    p->task = *s;
    p->done = false;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    p->ordered = true;
    s->state = order == OPEN ? SERVED_OPENING : SERVED_CLOSING;
    s->m = NULL;
    s->engine = NULL;
    s->folder = NULL;
    s->template = s->tool_template = NULL;
}

/* ---- the requests that wait */

static struct waiter *take(struct pool *p, struct waiter **at)
{
    struct waiter *w = *at;
    *at = w->next;
    if (!w->next)
        p->last = at;
    p->n_waiting--;
    w->x->gone = NULL;
    lost_watch(&w->x->lost);
    return w;
}

static void admit(struct pool *p, struct exchange *x, struct served *s, int64_t keep,
                  void (*handle)(struct exchange *x))
{
    s->used = ++p->turn;
    s->keep = keep;
    s->idle_since = 0;
    x->served = s;
    aside_run(x, handle);
    lost_watch(NULL);
}

static void refuse(struct waiter *w, const char *why)
{
    reply_error(w->x, 503, "unavailable_error", "%s", why);
    lost_watch(NULL);
    free(w);
}

static void refuse_all(struct pool *p, const struct served *s, const char *why)
{
    for (struct waiter **at = &p->first; *at;)
        if ((*at)->model == s)
            refuse(take(p, at), why);
        else
            at = &(*at)->next;
}

/* `gone` of an exchange that waits: pool_step replies. */
static void gone(void *user)
{
    struct waiter *w = user;
    w->gone = true;
    w->pool->how.wake(w->pool->how.user);
}

static void wait_for(struct pool *p, struct exchange *x, struct served *s, int64_t keep,
                     void (*handle)(struct exchange *x))
{
    struct waiter *w = p->n_waiting < p->how.n_queue ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        request_too_many(x);
        return;
    }
    *w = (struct waiter){.x = x, .model = s, .handle = handle, .keep = keep, .pool = p};
    *p->last = w;
    p->last = &w->next;
    p->n_waiting++;
    x->gone = gone;
    x->user = w;
}

/* ---- steps */

/* After an order has been carried out. */
static void take_result(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    bool done = p->done;
    enum order order = p->order;
    if (done) {
        p->order = NOTHING;
        p->done = false;
    }
    pthread_mutex_unlock(&p->lock);
    if (!done)
        return;
    struct served *s = p->owner;
    p->ordered = false;
    if (order == OPEN && p->status == CLI_OK) {
        bool retired = s->retired;
        *s = p->task;
        s->retired = retired;
        s->state = SERVED_OPEN;
        s->idle_since = 0;
        return;
    }
    s->state = SERVED_CLOSED;
    if (order == OPEN) {
        char why[sizeof p->why + 120];
        snprintf(why, sizeof why, "the model %.80s cannot be opened: %s", s->id, p->why);
        refuse_all(p, s, why);
    }
}

static bool is_idle(const struct pool *p, const struct served *s)
{
    return engine_is_idle(s->engine) && !aside_uses(p->server, s);
}

/* The bytes that all models take, and `for_one` takes or will take. */
static uint64_t taken(struct pool *p, const struct served *for_one)
{
    const struct server *s = p->server;
    for (size_t i = 0; i < s->n_all; i++) {
        const struct served *m = s->models[i];
        bool open = m->state == SERVED_OPEN, counts = m == for_one || m->state != SERVED_CLOSED;
        p->lodgers[i] = (struct lodger){.bytes = counts ? m->bytes : 0,
                                        .used = m->used,
                                        .may_go = open && m != for_one,
                                        .idle = open && is_idle(p, m)};
    }
    return room_taken(p->lodgers, s->n_all);
}

static void refuse_large(struct pool *p, struct served *s)
{
    char why[256];
    snprintf(why, sizeof why,
             "the model %.80s takes %llu MB with the caches of %u slots, and --mem allows %llu MB",
             s->id, (unsigned long long)(s->bytes >> 20), served_slots(s, p->how.n_slots),
             (unsigned long long)(p->server->o.memory >> 20));
    s->keep = 0;
    refuse_all(p, s, why);
}

/* Makes room for the model of the first waiting request, and opens the model. Returns whether its
   requests were refused instead. */
static bool make_room(struct pool *p, struct served *s)
{
    const struct server *all = p->server;
    uint64_t bytes = taken(p, s), budget = all->o.memory;
    if (s->bytes > budget) {
        refuse_large(p, s);
        return true;
    }
    if (p->ordered) /* the opener may be making room */
        return false;
    if (bytes <= budget && s->state == SERVED_CLOSED)
        give_order(p, OPEN, s);
    size_t i = bytes > budget ? room_leaver(p->lodgers, all->n_all) : all->n_all;
    if (i == all->n_all)
        return false;
    all->models[i]->leaving = true;
    if (p->lodgers[i].idle)
        give_order(p, CLOSE, all->models[i]);
    return false;
}

/* Whether the model takes requests now. */
static bool is_ready(struct pool *p, const struct served *s)
{
    return s->state == SERVED_OPEN && !s->leaving && taken(p, s) <= p->server->o.memory;
}

static void refuse_gone(struct pool *p)
{
    for (struct waiter **at = &p->first; *at;)
        if ((*at)->gone)
            refuse(take(p, at), "the request was cancelled");
        else
            at = &(*at)->next;
}

static void admit_waiter(struct pool *p, struct waiter **at)
{
    struct waiter *w = take(p, at);
    admit(p, w->x, w->model, w->keep, w->handle);
    free(w);
}

/* The first request that must wait chooses the model that leaves. Later requests for other models
   that are open need not wait for it. */
static void settle(struct pool *p)
{
    for (size_t i = 0; i < p->server->n_all; i++)
        p->server->models[i]->leaving = false;
    refuse_gone(p);
    while (p->first) {
        if (is_ready(p, p->first->model))
            admit_waiter(p, &p->first);
        else if (!make_room(p, p->first->model))
            break;
    }
    for (struct waiter **at = &p->first; *at;)
        if (is_ready(p, (*at)->model))
            admit_waiter(p, at);
        else
            at = &(*at)->next;
}

static void note_idle(struct pool *p)
{
    for (size_t i = 0; i < p->server->n_all; i++) {
        struct served *s = p->server->models[i];
        if (s->state == SERVED_OPEN)
            s->idle_since = !is_idle(p, s) ? 0 : s->idle_since ? s->idle_since : cli_ns();
    }
}

/* ns until keep_alive ends; UINT64_MAX: it does not. */
static uint64_t due(const struct served *s)
{
    if (s->state != SERVED_OPEN || !s->idle_since || (s->keep == SERVED_FOREVER && !s->retired))
        return UINT64_MAX;
    if (s->retired)
        return 0;
    uint64_t now = cli_ns(), end = s->idle_since + (uint64_t)s->keep;
    return end > now ? end - now : 0;
}

static void close_expired(struct pool *p)
{
    const struct server *all = p->server;
    size_t i = 0;
    while (i < all->n_all && due(all->models[i]))
        i++;
    if (i < all->n_all && !p->ordered)
        give_order(p, CLOSE, all->models[i]);
}

static bool has_request(const struct pool *p, const struct served *s)
{
    const struct exchange *x = p->server->loop->open;
    while (x && x->served != s)
        x = x->next;
    return x;
}

/* Frees the retired models that are closed and that no request has. */
static void drop_retired(struct pool *p)
{
    struct server *all = p->server;
    size_t n = all->n_models;
    for (size_t i = n; i < all->n_all; i++) {
        struct served *m = all->models[i];
        if (m->state == SERVED_CLOSED && !has_request(p, m))
            served_free(m);
        else
            all->models[n++] = m;
    }
    all->n_all = n;
}

void pool_retire(struct pool *p, struct served *s)
{
    s->retired = true;
    refuse_all(p, s, "the server no longer has this model: its configuration has changed");
}

void pool_step(struct pool *p)
{
    take_result(p);
    settle(p);
    note_idle(p);
    close_expired(p);
    drop_retired(p);
}

uint64_t pool_due(const struct pool *p)
{
    const struct server *all = p->server;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < all->n_all && !p->ordered; i++) {
        uint64_t one = due(all->models[i]);
        first = one < first ? one : first;
    }
    return first;
}

/* ---- requests */

/* Reads the name of the model; NULL: there is none. False after a reply. */
static bool read_name(struct exchange *x, enum pool_place place, const char **name, char *room)
{
    *name = NULL;
    if (place == POOL_QUERY) {
        *name = query_value(x->query, "model", room) ? room : NULL;
        return true;
    }
    x->body = exchange_json(x);
    if (!x->body)
        return false;
    const json_t *model = json_object_get(x->body, "model");
    if (model && !json_is_string(model) && !json_is_null(model)) {
        reply_error(x, 400, "invalid_request_error", "model must be a string");
        return false;
    }
    *name = json_string_value(model);
    return true;
}

/* Reads keep_alive; false after a reply. */
static bool read_keep(struct exchange *x, int64_t *keep)
{
    const json_t *v = json_object_get(x->body, "keep_alive");
    const char *text = json_string_value(v);
    bool good = !v || json_void(v);
    *keep = SERVED_FOREVER;
    if (text && *text)
        good = room_keep(text, keep);
    if (json_is_number(v)) {
        double seconds = json_number_value(v);
        *keep = seconds < 0 || seconds > 9e9 ? SERVED_FOREVER : (int64_t)(seconds * 1e9);
        good = true;
    }
    if (!good)
        reply_error(x, 400, "invalid_request_error",
                    "keep_alive must be seconds, or a duration such as \"5m\"");
    return good;
}

/* Whether the request has been answered: it only unloads the model. */
static bool only_unloads(struct exchange *x, struct served *s, int64_t keep)
{
    if (keep || !ollama_is_empty(x->path, x->body))
        return false;
    s->keep = 0;
    x->served = s;
    ollama_unloaded(x);
    return true;
}

void pool_ask(struct exchange *x, enum pool_place place, void (*handle)(struct exchange *x))
{
    struct server *all = x->server;
    struct pool *p = all->pool;
    char room[QUERY_VALUE];
    const char *name;
    int64_t keep;
    if (!p) {
        x->served = *all->models;
        handle(x);
        return;
    }
    if (!read_name(x, place, &name, room) || !read_keep(x, &keep))
        return;
    struct served *s = name && *name ? catalog_find(all, name) : *all->models;
    if (!s) {
        reply_error(x, 404, "not_found_error",
                    "model \"%.100s\" not found: /v1/models lists the models", name);
        return;
    }
    if (!only_unloads(x, s, keep)) {
        if (is_ready(p, s))
            admit(p, x, s, keep, handle);
        else
            wait_for(p, x, s, keep, handle);
    }
    if (aside_is_here()) /* other requests are not for this thread */
        loop_wake(all);
    else
        pool_step(p);
}

/* ---- opening and closing */

int pool_peek(struct server *s, size_t n_asked)
{
    size_t n = 0;
    int status = CLI_OK;
    for (size_t i = 0; i < s->n_models; i++) {
        struct served *m = s->models[i];
        int peeked = status == CLI_OK ? served_peek(m, s->o.pooling) : CLI_OK;
        if (peeked == CLI_USAGE || i < n_asked)
            status = peeked == CLI_OK ? status : peeked;
        if (peeked == CLI_OK)
            s->models[n++] = m;
        else
            served_free(m);
    }
    s->n_models = s->n_all = n;
    return status != CLI_OK || n ? status : cli_fail("there is no model to serve");
}

int pool_open(struct pool **out, struct server *s, const struct served_options *o)
{
    struct pool *p = *out = calloc(1, sizeof *p);
    if (!p)
        return cli_fail("out of memory");
    p->server = s;
    p->how = *o;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->store = o->store;
    p->lodgers = calloc(CATALOG_ALL, sizeof *p->lodgers);
    if (!p->lodgers)
        return cli_fail("out of memory");
    p->started = tft_port_start(&p->thread, 0, run, p) == 0;
    return p->started ? CLI_OK : cli_fail("a thread cannot be started");
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    if (p->started)
        pthread_join(p->thread, NULL);
    if (p->order == CLOSE || p->order == OPEN)
        served_close(&p->task); /* opened and not taken, or not closed yet */
    for (struct waiter *w = p->first, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->lodgers);
    free(p);
}
