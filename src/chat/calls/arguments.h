/* Checks call arguments that come as text, for `tuffet chat`. call.h declares the rest of
   arguments.c. */
#ifndef TFT_CHAT_ARGUMENTS_H
#define TFT_CHAT_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether p[n] is one JSON object. */
bool tft_call_is_object(const char *p, size_t n);

#endif
