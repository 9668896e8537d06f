#include "lost.h"

#include <event2/event.h>
#include <stdlib.h>

#include "tools/json/read.h"

static bool *watched; /* by the clients' thread, which alone calls libevent */

static void *take(size_t n)
{
    void *p = malloc(n);
    if (!p)
        lost_note();
    return p;
}

static void *change(void *p, size_t n)
{
    void *more = realloc(p, n);
    if (!more && n)
        lost_note();
    return more;
}

void lost_begin(void) { event_set_mem_functions(take, change, free); }

void lost_watch(bool *lost)
{
    watched = lost;
    watch_json(lost);
}

void lost_note(void)
{
    if (watched)
        *watched = true;
}

void lost_forget(const bool *lost)
{
    if (watched == lost)
        lost_watch(NULL);
}
