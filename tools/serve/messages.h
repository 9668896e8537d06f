/* Reads the messages of a conversation into the form that chat templates take. */
#ifndef SERVE_MESSAGES_H
#define SERVE_MESSAGES_H

#include <tuffet_chat.h>

#include "fields.h"

/* `messages` of the request in OpenAI's form, checked and changed in place; f->body keeps them.
   takes_parts: the template takes a user's content as a list of parts. A result of a tool gets the
   name of the tool whose call has its id, unless it has a name. */
json_t *messages_read(struct fields *f, bool takes_parts);

/* For templates that do not know tools: calls become text, and results messages of the user. */
void messages_write_plainly(struct fields *f, json_t *messages);

/* Describes the tools in the message of the system, likewise. Returns whether that is a new
   message, which comes first. */
bool messages_describe_tools(struct fields *f, json_t *messages,
                             const struct tft_chat_tools *tools);

#endif
