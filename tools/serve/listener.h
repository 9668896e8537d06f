/* Handles new connections when the process has no descriptor left for them. */
#ifndef SERVE_LISTENER_H
#define SERVE_LISTENER_H

#include "loop.h"

/* While accept() fails, connections wait in the system's queue, and a timer tries again, so that
   the loop does not spin. A line on stderr gives the reason, at most once a minute. */
bool listener_guard(struct loop *l); /* l->bound is set; false: out of memory */

void listener_close(struct loop *l);

#endif
