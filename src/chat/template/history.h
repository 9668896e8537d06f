/* Past tool calls in the messages of a conversation. */
#ifndef TFT_CHAT_HISTORY_H
#define TFT_CHAT_HISTORY_H

#include "chat/jinja/jinja.h"

/* Turns arguments of tool calls from strings of JSON objects into objects. Other strings stay
   unchanged. */
void tft_chat_read_arguments(struct jinja *x, struct jinja_value messages);

#endif
