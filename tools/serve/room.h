/* Room for models in a budget of memory. */
#ifndef SERVE_ROOM_H
#define SERVE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lodger {
    uint64_t bytes, used; /* used: number of its last request */
    bool may_go;          /* it is open, and not the model that needs the room */
    bool idle;
};

/* The lodger all[returned] of all[n] to close next, so that there is room: the least recently used
   one that is idle; if none is, the least recently used one, once it has answered. n: none can
   go. */
size_t room_leaver(const struct lodger *all, size_t n);

/* The bytes of all[n]; UINT64_MAX if they are more. */
uint64_t room_taken(const struct lodger *all, size_t n);

/* The time that `keep_alive` tells: p[n] is a duration such as "1h30m", "2.5s" or "-1", or a number
   of seconds. Returns ns; -1: for ever. False: it is no duration. */
bool room_keep(const char *p, int64_t *ns);

#endif
