/* Builds the messages of a conversation in OpenAI's form. */
#ifndef SERVE_CONVERSATION_H
#define SERVE_CONVERSATION_H

#include "fields.h"

struct conversation {
    struct fields *f;        /* for errors */
    json_t *all;             /* [] of messages */
    json_t *answer;          /* the last message, an answer that may go on; or NULL */
    struct cli_text thought; /* of that answer */
};

struct conversation conversation_begin(struct fields *f);

/* Adds a message, and takes the content. Returns it. */
json_t *conversation_add(struct conversation *c, const char *role, json_t *content);

/* Add to the answer at the end, or begin one. conversation_say takes a part of text, the others
   take no reference. arguments: JSON as text. */
void conversation_say(struct conversation *c, json_t *part);
void conversation_think(struct conversation *c, const json_t *text);
void conversation_call(struct conversation *c, json_t *id, json_t *name, json_t *arguments);

/* Ends the answer: what follows begins another one. */
void conversation_close(struct conversation *c);

/* Ends the conversation. The caller owns the messages. */
json_t *conversation_end(struct conversation *c);

/* A part of text; NULL if the value is not a string. */
json_t *conversation_text(const json_t *text);

/* JSON as answers have it: spaces after "," and ":", and no more digits than the number needs. The
   caller frees it. */
char *conversation_json(const json_t *value);

/* The member `type` of a part; "none" if it is not a string. */
const char *conversation_type(const json_t *part);

#endif
