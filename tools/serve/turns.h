/* Builds the messages of a conversation in OpenAI's form. */
#ifndef SERVE_TURNS_H
#define SERVE_TURNS_H

#include "fields.h"

struct turns {
    struct fields *f;        /* for errors */
    json_t *all;             /* [] of messages */
    json_t *answer;          /* the last message, an answer that may go on; or NULL */
    struct cli_text thought; /* of that answer */
    char place[FIELDS_PLACE]; /* the client's name of the message that is read: f->places gets it */
};

struct turns turns_begin(struct fields *f);

/* Adds a message, and takes the content. Returns it. */
json_t *turns_add(struct turns *c, const char *role, json_t *content);

/* Add to the answer at the end, or begin one. turns_say takes a part of text, the others
   take no reference. arguments: JSON as text. */
void turns_say(struct turns *c, json_t *part);
void turns_think(struct turns *c, const json_t *text);
void turns_call(struct turns *c, json_t *id, json_t *name, json_t *arguments);

/* Ends the answer: what follows begins another one. */
void turns_close(struct turns *c);

/* Ends the conversation. The caller owns the messages. */
json_t *turns_end(struct turns *c);

/* A part of text; NULL if the value is not a string. */
json_t *turns_text(const json_t *text);

/* JSON as answers have it: spaces after "," and ":", and no more digits than the number needs. The
   caller frees it. */
char *turns_json(const json_t *value);

/* The member `type` of a part; "none" if it is not a string. */
const char *turns_type(const json_t *part);

#endif
