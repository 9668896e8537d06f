/* The members of messages, and past tool calls. */
#ifndef TFT_CHAT_HISTORY_H
#define TFT_CHAT_HISTORY_H

#include "chat/jinja/jinja.h"

/* Member `name`, of a kind, of v; NULL: absent, or of another kind. */
struct jinja_value *tft_chat_member(struct jinja *x, struct jinja_value v, const char *name,
                                    enum jinja_kind kind);

/* Turns arguments of tool calls from strings of JSON objects into objects. Other strings stay
   unchanged. */
void tft_chat_read_arguments(struct jinja *x, struct jinja_value messages);

#endif
