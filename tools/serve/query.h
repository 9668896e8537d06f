/* The query of a path: NAME=VALUE, with "&" between them. */
#ifndef SERVE_QUERY_H
#define SERVE_QUERY_H

#include <stdbool.h>

enum { QUERY_VALUE = 256 };

/* The value of this name, decoded; false: it is not there, or too long. query may be NULL. */
bool query_value(const char *query, const char *name, char value[QUERY_VALUE]);

#endif
