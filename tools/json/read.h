/* Reads JSON, also where memory is short. */
#ifndef JSON_READ_H
#define JSON_READ_H

#include <jansson.h>
#include <stdbool.h>

/*
 * json_loadb, which jansson 2.14 cannot do safely: if the buffer of a string cannot grow, it drops
 * bytes and then reads and writes past the ends of others. So the first allocation that fails
 * leaves jansson at once, and all that it has allocated is freed: the result is NULL, with the code
 * json_error_out_of_memory in *e.
 */
json_t *read_json(const char *p, size_t n, size_t flags, json_error_t *e);

/* Until the next call, an allocation that jansson cannot make in this thread sets *lost: the
   value under construction may then lack a part, without an error. NULL: none does. */
void watch_json(bool *lost);

#endif
