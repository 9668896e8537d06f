/*
 * Chat formats: how the messages of a conversation become the text, and the tokens, that a model
 * was trained on.
 *
 * A file names its format by a Jinja program, tokenizer.chat_template. It is not run: the formats
 * that small models use are known here, each by its name and by marks that its programs have, as in
 * llama.cpp's llama-chat.cpp. What is not recognised is the user's to name, never guessed.
 *
 * What a user or a model wrote must not stand for special tokens, whatever it looks like; what the
 * format writes must. Still the tokens have to be those of the whole text, since a word may begin
 * in the one and end in the other. So the text is made first, with marks where the format wrote it.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include "tools/cli/cli.h"

enum template_role { TEMPLATE_SYSTEM, TEMPLATE_USER, TEMPLATE_ASSISTANT };

struct template_message {
    enum template_role role;
    struct cli_text text;
};

struct template_format;

/* NULL for a name, or a program, of none. */
const struct template_format *template_named(const char *name);
const struct template_format *template_recognize(const char *jinja);
const char *template_name(const struct template_format *f);

/* "chatml, qwen3, ...": for messages. */
const char *template_names(void);

/* Whether its models think aloud before they answer, in <think> </think>. */
bool template_thinks(const struct template_format *f);

/* The bytes at the start of an answer that belong to the format: the space that it has before
   one. */
size_t template_lead(const struct template_format *f, const char *answer, size_t n);

struct template_text {
    struct cli_text text;
    struct template_mark { /* what the format wrote */
        size_t begin, end;
    } *mark;
    size_t n_mark, room;
};

/* The text of a conversation: a system message or none, then users' and assistants' in turn. The
   last one is the assistant's and stays open, to be written on; it is empty before that. With
   no_think it begins with an empty <think> block. False without memory. */
bool template_render(struct template_text *t, const struct template_format *f,
                     const struct tft_model *m, const struct template_message *message, size_t n,
                     bool no_think);

/* Its tokens, to be freed, BOS first if the model was trained with one; NULL after an error line.
   *text_goes_on: the last one is a piece of text and no special token, which tft_text.started wants
   *to know. */
int32_t *template_tokenize(const struct template_text *t, const struct tft_model *m, size_t *n,
                           bool *text_goes_on);

void template_free(struct template_text *t);

#endif
