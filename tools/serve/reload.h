/* SIGHUP: the server reads its files again. */
#ifndef SERVE_RELOAD_H
#define SERVE_RELOAD_H

#include "server.h"

/* Reads the keys and the file of --config again. If one of them is wrong, all stays as it was,
   after an error message, which names the line. Clients wait while new models are looked at. */
void reload(struct server *s);

#endif
