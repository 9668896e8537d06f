/* The variables of a template. */
#ifndef TFT_CHAT_INPUT_H
#define TFT_CHAT_INPUT_H

#include "chat/jinja/jinja.h"
#include "chat/tuffet_chat.h"

void tft_chat_set_variables(struct jinja *x, const struct tft_chat_input *in);

#endif
