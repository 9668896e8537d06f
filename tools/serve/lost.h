/*
 * Notices allocations that fail. jansson and libevent build replies by many small
 * allocations, and leave parts out where one fails. So their allocations are watched: a reply that
 * may lack a part is not sent (exchange.c).
 */
#ifndef SERVE_LOST_H
#define SERVE_LOST_H

#include <stdbool.h>

void lost_begin(void); /* before the first call of libevent */

/* Until the next call, *lost is set when the clients' thread cannot allocate. lost: NULL, or of the
   exchange that the thread works for. */
void lost_watch(bool *lost);

/* Sets it: an allocation has failed elsewhere. */
void lost_note(void);

/* Forgets *lost if it is watched: it will be freed. */
void lost_forget(const bool *lost);

#endif
