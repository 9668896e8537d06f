/* Messages that people send to a model: first_messages.txt, some 200 conversations without the
   answers, of questions, code, lists, numbers, forms and twenty languages, written for this
   purpose. */
#ifndef QUANTIZE_TEXT_FIRST_MESSAGES_H
#define QUANTIZE_TEXT_FIRST_MESSAGES_H

#include <stddef.h>

/* [first_messages_bytes] UTF-8. A line "---" ends a conversation, a line "+++" a message of the
   user. A conversation may begin with the line "tools", if the template gets tools, and then with a
   line "system: " and a system message. */
extern const unsigned char first_messages_text[];
extern const size_t first_messages_bytes;

#endif
