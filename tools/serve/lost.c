#include "lost.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json/read.h"

static bool *watched; /* by the clients' thread, which alone calls libevent */

/* For small allocations of libevent when memory is short: without the one for a client's address,
   evhttp_connection_base_bufferevent_new() of libevent 2.1.12 frees a connection that has no event
   loop yet, and crashes. All of them are freed soon, with their connection. */
enum { RESERVED = 64, PIECE = 64 };
static union {
    char bytes[PIECE];
    max_align_t align;
} reserve[RESERVED];
static bool reserved[RESERVED];

static bool is_reserved(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)reserve && (uintptr_t)p < (uintptr_t)(reserve + RESERVED);
}

static void *take(size_t n)
{
    void *p = malloc(n);
    for (size_t i = 0; !p && n <= PIECE && i < RESERVED; i++)
        if (!reserved[i]) {
            reserved[i] = true;
            p = reserve[i].bytes;
        }
    if (!p)
        lost_note();
    return p;
}

static void give(void *p)
{
    if (is_reserved(p))
        reserved[((uintptr_t)p - (uintptr_t)reserve) / sizeof *reserve] = false;
    else
        free(p);
}

static void *change(void *p, size_t n)
{
    void *more = is_reserved(p) ? take(n) : realloc(p, n);
    if (is_reserved(p) && more) {
        memcpy(more, p, n < PIECE ? n : PIECE);
        give(p);
    } else if (!more && n) {
        lost_note();
    }
    return more;
}

void lost_begin(void) { event_set_mem_functions(take, change, give); }

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
