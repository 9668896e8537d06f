/* Shows an answer as it comes. On a terminal with styles, thoughts (<think> to </think>) are
   dim. */
#ifndef DISPLAY_H
#define DISPLAY_H

#include <stdbool.h>
#include <stddef.h>

/* `begin` and `print` of struct conversation. */
void display_begin(bool in_thought);
bool display_print(const char *p, size_t n);

/* Call when an answer ends or has failed. Returns false, with errno, if the answer could not be
   printed. */
bool display_end(void);

#endif
