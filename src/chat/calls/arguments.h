/* The arguments of calls that come as text: what tuffet chat asks of those in a file. call.h has
   the rest of arguments.c. */
#ifndef TFT_CHAT_ARGUMENTS_H
#define TFT_CHAT_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether p[n] is one object of JSON. */
bool tft_call_is_object(const char *p, size_t n);

#endif
