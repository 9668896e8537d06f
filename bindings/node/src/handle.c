#include "addon.h"

#include <stdio.h>
#include <stdlib.h>

static const napi_type_tag tag = {0x9c0f3b52d1a84e67, 0x8e2a6d90c47b15f3}; /* random */
static const char *const names[] = {
    [MODEL] = "model", [SESSION] = "session", [BATCH] = "batch", [GRAMMAR] = "grammar",
    [SAMPLER] = "sampler"};

static void leave_parent(struct handle *h)
{
    struct handle **at = &h->parent->children;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    handle_leave(h->parent);
}

static void settle(struct handle *h)
{
    if (h->open || h->users)
        return;
    if (h->end) {
        h->end(h);
        h->end = NULL;
        if (h->parent)
            leave_parent(h);
    }
    if (!h->held)
        free(h);
}

void handle_leave(struct handle *h)
{
    h->users--;
    settle(h);
}

static void collected(napi_env env, void *data, void *hint)
{
    struct handle *h = data;
    (void)env;
    (void)hint;
    h->open = h->held = false;
    settle(h);
}

napi_value handle_new(napi_env env, struct handle *h, struct handle *parent)
{
    napi_value object;
    if (parent) {
        h->parent = parent;
        h->next = parent->children;
        parent->children = h;
        parent->users++;
    }
    h->open = h->held = ok(env, napi_create_object(env, &object)) &&
                        ok(env, napi_type_tag_object(env, object, &tag)) &&
                        ok(env, napi_wrap(env, object, h, collected, NULL, NULL));
    if (h->held)
        return object;
    settle(h);
    return NULL;
}

static struct handle *any_handle(napi_env env, napi_value v)
{
    bool tagged = false;
    void *h;
    if (napi_check_object_type_tag(env, v, &tag, &tagged) != napi_ok || !tagged) {
        throw_argument(env, "this is not an object of tuffet");
        return NULL;
    }
    return ok(env, napi_unwrap(env, v, &h)) ? h : NULL;
}

napi_value closed_error(napi_env env, const struct handle *h)
{
    char line[32];
    snprintf(line, sizeof line, "the %s is closed", names[h->kind]);
    return own_error(env, "CLOSED", line);
}

void *handle_peek(napi_env env, napi_value v, enum kind kind)
{
    struct handle *h = any_handle(env, v);
    return h && h->kind != kind ? throw_argument(env, "this is not a %s", names[kind]) : (void *)h;
}

void *handle_get(napi_env env, napi_value v, enum kind kind)
{
    struct handle *h = handle_peek(env, v, kind);
    if (!h || h->open)
        return h;
    napi_throw(env, closed_error(env, h));
    return NULL;
}

/* An open one of the objects that were made of it, innermost first, or NULL. To free one may free
   others. */
static struct handle *open_within(struct handle *h)
{
    for (struct handle *child = h->children; child; child = child->next) {
        struct handle *found = open_within(child);
        if (found || child->open)
            return found ? found : child;
    }
    return NULL;
}

/* close(handle): closes it, and the objects that were made of it */
napi_value handle_close(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    struct handle *h = arguments(env, info, 1, argv) ? any_handle(env, argv[0]) : NULL;
    while (h) {
        struct handle *inner = open_within(h), *closed = inner ? inner : h;
        closed->open = false;
        atomic_store(&closed->stop, true);
        settle(closed);
        h = inner ? h : NULL;
    }
    return NULL;
}
