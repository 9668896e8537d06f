/*
 * Conversations of the program, by the template in a model's file (chat/tuffet_chat.h). For files
 * without a template, the formats of small models are built in, as templates too: the user names
 * one.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include "chat/tuffet_chat.h"
#include "template_json.h"

/* A template: of a model's file, or a built-in one. Templates are read once, and stay. */
struct template_format;

/* --template and --date; check: CLI_OK or CLI_USAGE. */
extern const struct cli_option template_option_list[];
int template_check(void);

/* --template-file: opens the template, which template_choose then returns for all models. Returns
   CLI_OK, or CLI_FAILED after an error message. */
extern const struct cli_option template_file_option_list[];
int template_open_file(void);

/* The value of --template, or NULL. */
const char *template_given(void);

/* The local time as seconds since 1970 began, or midnight of --date: the time of the first call. It
   stays the same, so that a prompt that begins with it keeps its beginning. */
int64_t template_time(void);

/* The built-in template of that name; NULL if the name is unknown. */
const struct template_format *template_named(const char *name);
const char *template_name(const struct template_format *f);

/* Its source. */
const char *template_source(const struct template_format *f);

/* The template that --template or --template-file names, or the model's own; NULL after an error
   message. path: of the
   model. tools: for conversations with tools. */
const struct template_format *template_choose(const struct tft_model *m, const char *path,
                                              bool tools);

/* Whether conversations with tools have a template of their own: tool_use of the file. */
bool template_has_tool_use(const struct tft_model *m);

/* All names, for error messages: "chatml, qwen3, ..." */
const char *template_names(void);

/* As tft_chat_uses. */
bool template_uses(const struct template_format *f, const char *variable);

/* Whether the template knows --no-think. */
bool template_thinks(const struct template_format *f);

/* Number of bytes at the start of an answer that belong to the template: 1 if it puts a space
   there. */
size_t template_lead(const struct template_format *f, const char *answer, size_t n);

/* As tft_chat_takes_parts. */
bool template_takes_parts(const struct template_format *f);

/* The format in which the model calls tools, as tft_chat_call_format. */
const char *template_calls(const struct template_format *f);

/* Renders the text of a conversation; the caller frees it with tft_chat_text_free. message[0] may
   be a system message; then messages of the user and answers alternate. Before an answer, there may
   be calls and their results. The last message is the answer that the model is to continue; it may
   be empty. Returns false after an error message. */
bool template_render(struct tft_chat_text *t, const struct template_format *f,
                     const struct tft_model *m, const struct template_message *message, size_t n,
                     const struct template_options *o);

/* Messages that the template dropped, as tft_chat_dropped. */
struct template_dropped {
    size_t said, result;
};

/* The same over the JSON of tft_chat_input, with the current time. goes_on: the last message is to
   be continued. The error goes to err. */
enum tft_status template_render_json(struct tft_chat_text *t, struct template_dropped *dropped,
                                     const struct template_format *f, const struct tft_model *m,
                                     const char *json, size_t n, bool goes_on,
                                     struct tft_error *err);

/* The tokens of the text, which the caller frees; NULL after an error message. *text_goes_on: as
   tft_chat_tokenize. */
int32_t *template_tokenize(const struct tft_chat_text *t, const struct tft_model *m, size_t *n,
                           bool *text_goes_on);

/* The tokens with which a conversation with this system message begins, for any message of the
   user; likewise. */
int32_t *template_system_tokens(const struct template_format *f, const struct tft_model *m,
                                const char *system, const struct template_options *o, size_t *n);

#endif
