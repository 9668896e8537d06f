/* Tool calls in the messages of a conversation. */
#ifndef TFT_CHAT_HISTORY_H
#define TFT_CHAT_HISTORY_H

#include "chat/jinja/jinja.h"

/* Makes objects of the arguments of tool calls that are strings of JSON objects. Other strings stay
   as they are. */
void tft_chat_read_arguments(struct jinja *x, struct jinja_value messages);

#endif
