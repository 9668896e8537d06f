/* The variables of a template, and the forms of a message's content. */
#ifndef TFT_CHAT_INPUT_H
#define TFT_CHAT_INPUT_H

#include "chat/jinja/jinja.h"
#include "chat/tuffet_chat.h"

enum chat_content {
    CHAT_TEXT,  /* a string; or no form arrives */
    CHAT_PARTS, /* a list of parts only */
    CHAT_EITHER,
};

/* Finds the form of content that the template takes. TFT_ERR_NOMEM. */
enum tft_status tft_chat_probe(enum chat_content *out, const struct tft_chat_template *t);

/* A pool with the bounds and the clock of the input. */
struct jinja tft_chat_pool(const struct tft_chat_input *in);

/* Sets the variables. Strings of content become lists of parts if the template takes only these.
   Returns `messages`. */
struct jinja_value tft_chat_set_variables(struct jinja *x, const struct tft_chat_input *in,
                                          enum chat_content content);

/* ---- last.c */

/* The text of the last message; NULL: it has none. */
const struct jinja_string *tft_chat_last_text(struct jinja *x, struct jinja_value messages);

/* Ends the output after that text. */
void tft_chat_cut_after_last(struct jinja *x, struct jinja_buffer *b,
                             const struct jinja_string *said);

#endif
