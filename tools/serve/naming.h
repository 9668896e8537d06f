/* Random names of replies and of calls. */
#ifndef SERVE_NAMING_H
#define SERVE_NAMING_H

#include <stddef.h>

enum { NAME_ROOM = 40 };

/* `before`, and up to 16 hexadecimal digits, which nobody can guess: the name of a response opens
   it. */
void name_make(char out[NAME_ROOM], const char *before, int digits);

/* The name of a call: nine letters, as Mistral's template requires. */
void name_call(char out[NAME_ROOM]);

#endif
