#include "read.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list {
    void **p;
    size_t n, room;
};

/* The blocks that jansson has allocated and dropped while it reads. It drops few, so they wait. */
static _Thread_local struct {
    bool reads, failed;
    struct list made, dropped;
    jmp_buf out;
} now;

static _Thread_local bool *lost;

/* jansson's functions before this file's, which call them: the process may have set its own, and
   blocks of both are one kind. */
static json_malloc_t below_malloc;
static json_free_t below_free;
static atomic_bool installed;

static bool add(struct list *l, void *p)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        void **more = realloc(l->p, room * sizeof *more);
        if (!more)
            return false;
        l->p = more;
        l->room = room;
    }
    l->p[l->n++] = p;
    return true;
}

static void leave(void)
{
    now.failed = true;
    longjmp(now.out, 1);
}

static void *take(size_t n)
{
    void *p = below_malloc(n);
    if (!now.reads) {
        if (!p && lost)
            *lost = true;
    } else if (!p || !add(&now.made, p)) {
        if (p)
            below_free(p);
        leave();
    }
    return p;
}

static void give(void *p)
{
    if (!now.reads)
        below_free(p);
    else if (!add(&now.dropped, p))
        leave();
}

static void install(void)
{
    if (atomic_exchange(&installed, true))
        return;
    json_get_alloc_funcs(&below_malloc, &below_free);
    json_set_alloc_funcs(take, give);
}

/* A library that is unloaded takes its functions along. */
__attribute__((destructor)) static void remove_functions(void)
{
    json_malloc_t m = NULL;
    json_get_alloc_funcs(&m, NULL);
    if (m == take)
        json_set_alloc_funcs(below_malloc, below_free);
}

/* A function of its own: no variable changes between setjmp and longjmp. */
static json_t *load(const char *p, size_t n, size_t flags, json_error_t *e)
{
    if (setjmp(now.out))
        return NULL;
    return json_loadb(p, n, flags, e);
}

static void free_all(struct list *l, bool blocks)
{
    for (size_t i = 0; blocks && i < l->n; i++)
        below_free(l->p[i]);
    free(l->p);
    *l = (struct list){0};
}

json_t *read_json(const char *p, size_t n, size_t flags, json_error_t *e)
{
    install();
    now.failed = false;
    now.reads = true;
    json_t *v = load(p, n, flags, e);
    now.reads = false;
    free_all(&now.dropped, !now.failed);
    free_all(&now.made, now.failed); /* the dropped blocks too */
    if (now.failed && lost)
        *lost = true;
    if (now.failed && e) {
        *e = (json_error_t){.line = -1, .column = -1};
        strcpy(e->text, "out of memory");
        e->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    }
    return v;
}

void watch_json(bool *to)
{
    install();
    lost = to;
}
