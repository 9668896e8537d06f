/*
 * Chat formats: turn the messages of a conversation into the text, and then the tokens, that a
 * model was trained on.
 *
 * A model file has a template in Jinja, tokenizer.chat_template, which is not run. The formats of
 * small models are built in here, and recognized by strings that their templates contain, as in
 * llama-chat.cpp of llama.cpp. An unknown format is never guessed: the user has to name one.
 *
 * The format's own markup becomes special tokens. The text of a user or a model must never become
 * special tokens, whatever it contains. But the text cannot be tokenized in pieces, since a token
 * may begin in markup and end in a message. So the whole text is made first, with marks where the
 * markup is.
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

/* The format of that name, or of that template; NULL if it is unknown. */
const struct template_format *template_named(const char *name);
const struct template_format *template_recognize(const char *jinja);
const char *template_name(const struct template_format *f);

/* The format of that name, or by the model's own template where name is NULL; NULL after an error
   message. path: of the model. */
const struct template_format *template_choose(const struct tft_model *m, const char *name,
                                              const char *path);

/* All names, for error messages: "chatml, qwen3, ..." */
const char *template_names(void);

/* Whether models of the format think before they answer, in <think> </think>. */
bool template_thinks(const struct template_format *f);

/* How many bytes at the start of an answer belong to the format: 1 if it puts a space there. */
size_t template_lead(const struct template_format *f, const char *answer, size_t n);

struct template_text {
    struct cli_text text;
    struct template_mark { /* a part of the text that is markup */
        size_t begin, end;
    } *mark; /* [n_mark] */
    size_t n_mark, room;
};

/* Makes the text of a conversation: message[0] may be a system message, then messages of the user
   and answers alternate. The last message is the answer that the model is to continue, which may be
   empty; with no_think, an empty <think> block stands before it. Returns false if out of memory. */
bool template_render(struct template_text *t, const struct template_format *f,
                     const struct tft_model *m, const struct template_message *message, size_t n,
                     bool no_think);

/* The tokens of the text, which the caller frees: BOS first if the model was trained with it; NULL
   after an error message. *text_goes_on: whether the last token is text, not a special token, for
   tft_text.started. */
int32_t *template_tokenize(const struct template_text *t, const struct tft_model *m, size_t *n,
                           bool *text_goes_on);

/* The tokens with which a conversation with this system message begins, whatever the user says;
   likewise. */
int32_t *template_system_tokens(const struct template_format *f, const struct tft_model *m,
                                const char *system, size_t *n);

void template_free(struct template_text *t);

#endif
