/*
 * tuffet_chat.h - the messages of a conversation as the text, and the tokens, that a model was
 * trained on.
 *
 * A model file has a chat template, a program in Jinja. This library runs it: the part of Jinja
 * that chat templates use (docs/chat.md lists it), bounded in steps, memory, output and depth,
 * because a file is not trusted. A template that needs more of Jinja is an error that names what it
 * needs and the line, never a guess. The text is that of Hugging Face's apply_chat_template.
 *
 *      struct tft_chat_template *t;
 *      struct tft_chat_text text;
 *      struct tft_error err;
 *      struct tft_chat_message said[] = {{"system", "You are brief.", 14}, {"user", "Hello", 5}};
 *      struct tft_chat_input in = {sizeof in, said, 2};
 *
 *      const char *jinja = tft_model_chat_template(m);
 *      if (tft_chat_open(&t, jinja, strlen(jinja), &err) != TFT_OK ||
 *          tft_chat_render_for(&text, t, m, &in, &err) != TFT_OK)
 *          return puts(err.msg), 1;
 *      tft_chat_tokenize(&text, m, ids, cap, &n, NULL);
 *      tft_chat_text_free(&text);
 *      tft_chat_close(t);
 *
 * What a user writes stays text. Each character of the text is marked as trusted or not. Characters
 * of the template are trusted, and so are the names of BOS and EOS and a message's role if it is a
 * usual one; those of messages, tools and other variables are not. Whatever a template does with a
 * string (slices, replace, trim, join, tojson, ...), each character keeps its mark; what a filter
 * adds, such as a quote of tojson, is not trusted. Special tokens come from trusted text alone.
 *
 * Functions, errors, option structs and threads follow the rules on top of tuffet.h. A template is
 * immutable; any number of threads may render it.
 */
#ifndef TFT_CHAT_H
#define TFT_CHAT_H

#include "tuffet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tft_chat_template;

/* Reads a template, source[n]; the caller closes *out. TFT_ERR_FORMAT: it is not Jinja.
   TFT_ERR_UNSUPPORTED: it uses what this library lacks. err names the line. TFT_ERR_FULL: it is
   larger or nests deeper than any template should. */
TFT_API enum tft_status tft_chat_open(struct tft_chat_template **out, const char *source, size_t n,
                                      struct tft_error *err);

/* t may be NULL. */
TFT_API void tft_chat_close(struct tft_chat_template *t);

/* Whether the template names this variable, for example "tools" or "enable_thinking". */
TFT_API bool tft_chat_uses(const struct tft_chat_template *t, const char *variable);

struct tft_chat_message {
    const char *role; /* "system", "user", "assistant", ... NUL at the end */
    const char *text; /* [n] its content */
    size_t n;
};

/* What a template is run over. The variables `messages`, `tools` and `documents` are none where
   nothing gives them a value. */
struct tft_chat_input {
    size_t size;                            /* sizeof(struct tft_chat_input) */
    const struct tft_chat_message *message; /* [n_message] the variable `messages` */
    size_t n_message;
    const char *json; /* [n_json] an object whose members are variables too: "messages" in place of
                         the above, with tool calls and all; "tools"; ... NULL: none */
    size_t n_json;
    bool no_prompt;     /* the variable add_generation_prompt is false: the text ends behind the
                             last message, and does not go on to the answer */
    const char *answer; /* [n_answer] the start of the answer, behind the prompt; not trusted */
    size_t n_answer;
    const char *bos, *eos; /* names of these tokens, for bos_token and eos_token; NULL: undefined */
    bool has_time;         /* strftime_now has a clock; without one it is an error */
    int64_t time;          /* that clock: seconds since 1970 began, in local time */
    uint64_t max_steps;    /* bounds, 0 for the defaults: 20 million steps, */
    size_t max_output;     /* 16 MiB of text, */
    size_t max_memory;     /* 256 MiB of memory, */
    uint32_t max_depth;    /* nesting of macros, statements, expressions and values: 250. On x86-64,
                              this needs 96 KiB of stack */
};

struct tft_chat_text {
    char *p; /* [n] the text, and a NUL */
    size_t n;
    struct tft_span *trusted; /* [n_trusted] the parts that are trusted, in order, apart */
    size_t n_trusted;
};

/* Runs the template; the caller frees *out with tft_chat_text_free. TFT_ERR_ARG: the template does
   not take this conversation (err has its words), or the JSON is not valid. TFT_ERR_UNSUPPORTED:
   it uses what this library lacks. TFT_ERR_FORMAT: it goes wrong, such as by adding a number to a
   text. TFT_ERR_FULL: a bound. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_chat_render(struct tft_chat_text *out,
                                        const struct tft_chat_template *t,
                                        const struct tft_chat_input *in, struct tft_error *err);

/* The same with the names of the model's BOS and EOS where `in` has none. */
TFT_API enum tft_status tft_chat_render_for(struct tft_chat_text *out,
                                            const struct tft_chat_template *t,
                                            const struct tft_model *m,
                                            const struct tft_chat_input *in, struct tft_error *err);

TFT_API void tft_chat_text_free(struct tft_chat_text *t);

/*
 * The tokens of a conversation, as tft_tokenize_spans gives them: ids[cap] and *n; if ids is NULL,
 * they are only counted. Special tokens are those whose whole name stands in one trusted part of
 * the text. What lies between two of them is tokenized as one text, trusted or not, since a token
 * may begin in the one and end in the other. (Where a vocabulary has tokens that every text may
 * name, such as <think> in some, they are found in any text.)
 *
 * BOS comes once. It is added if the model was trained with it (TFT_ADD_BOS). If the text begins
 * with one as well, the text's is left out. If the model's prefix includes BOS, there is none.
 *
 * *text_goes_on, if it is not NULL, becomes whether the last token is text and not special, for
 * tft_text.started. TFT_ERR_FULL, TFT_ERR_NOMEM, TFT_ERR_UNSUPPORTED: as tft_tokenize.
 */
TFT_API enum tft_status tft_chat_tokenize(const struct tft_chat_text *t, const struct tft_model *m,
                                          int32_t *ids, size_t cap, size_t *n, bool *text_goes_on);

/*
 * Makes a grammar of a JSON Schema (draft 2020-12): GBNF for tft_grammar_open. Every text of the
 * grammar is valid by the schema. docs/chat.md lists the keywords, and valid texts that the grammar
 * does not have. Properties come in the order in which the schema lists them, or in any order with
 * TFT_SCHEMA_ANY_ORDER. *out has no trusted parts; the caller frees it with tft_chat_text_free.
 *
 * TFT_ERR_UNSUPPORTED: a keyword, or a use of one, is not supported; only annotations are ignored.
 * TFT_ERR_ARG: the text is not JSON, or not a schema. TFT_ERR_FULL: the schema is too large, nests
 * too deep or takes too many steps. err has the place, as a JSON pointer.
 */
enum { TFT_SCHEMA_ANY_ORDER = 1 };
TFT_API enum tft_status tft_chat_schema(struct tft_chat_text *out, const char *schema, size_t n,
                                        unsigned flags, struct tft_error *err);

#ifdef __cplusplus
}
#endif

#endif
