/* How an answer is shown: as it comes; on a terminal that can style text, thoughts (<think> to
   </think>) are dim. */
#ifndef DISPLAY_H
#define DISPLAY_H

#include <stdbool.h>
#include <stddef.h>

/* For struct conversation. */
void display_begin(bool in_thought);
bool display_print(const char *p, size_t n);

/* The answer ends, or has failed. Returns false, with errno, if it could not be printed. */
bool display_end(void);

#endif
