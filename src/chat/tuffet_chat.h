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
 *      held = tft_prefix_held(m, NULL, ids, n);
 *      tft_prefill(session, ids + held, n - held);
 *      tft_chat_text_free(&text);
 *      tft_chat_close(t);
 *
 * What a user writes stays text. Each character of the text is marked as trusted or not. Characters
 * of the template are trusted, and so are the names of BOS and EOS and a message's role if it is a
 * usual one; those of messages, tools and other variables are not. Whatever a template does with a
 * string (slices, replace, trim, join, tojson, ...), each character keeps its mark; what a filter
 * adds, such as a quote of tojson, is not trusted. Special tokens come from trusted text alone.
 *
 * Functions, errors, option structs and text follow the rules on top of tuffet.h: sizes are bytes
 * of UTF-8, and err, which may be NULL, gets one line for a person. A function that fails leaves
 * nothing to free: what it would have opened is NULL, a tft_chat_text is empty.
 *
 * Threads: a template and a set of tools never change once they are open. Any number of threads may
 * call the functions that take a `const` pointer to one. Use an answer from one thread at a time.
 * There is no global state.
 *
 * Memory comes from the C library, and is given back by the functions whose names end in close and
 * free. These take NULL or, for a text, an empty one (all zero). No argument is kept after the
 * call, except the tools of an answer and the pointers `event` and `user`.
 *
 * Link with -ltuffet-chat -ltuffet, or what pkg-config says of tuffet-chat.
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

/* t may be NULL. No other thread may use it then. */
TFT_API void tft_chat_close(struct tft_chat_template *t);

/* Whether the template names this variable, for example "tools" or "enable_thinking". */
TFT_API bool tft_chat_uses(const struct tft_chat_template *t, const char *variable);

/* The source, for tft_chat_open, of a template that is built in for files without one: "chatml",
   "qwen3", "llama2", "llama3", "zephyr", "phi3", "gemma" or "mistral". A constant string; NULL: no
   template has this name. */
TFT_API const char *tft_chat_builtin(const char *name);

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
    bool read_arguments;   /* arguments of tool calls in the messages that are strings of JSON, as
                              OpenAI's clients send them, are objects for the template, and the
                              string where it prints them or adds them to text. transformers
                              passes them as they are, which most templates do not take */
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

/* Frees the text and its list of trusted parts, and makes *t empty. */
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
 * All other tokens are there, also those that a prefix of the model has: many templates begin
 * without BOS, and a prefix may be their first tokens. tft_prefix_held says how many of the tokens
 * not to feed.
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
 * too deep or takes too many steps. err has the place, as a JSON pointer; of text that is not JSON,
 * the line and the column.
 */
enum { TFT_SCHEMA_ANY_ORDER = 1 };
TFT_API enum tft_status tft_chat_schema(struct tft_chat_text *out, const char *schema, size_t n,
                                        unsigned flags, struct tft_error *err);

/* ---- tools: functions that a model may ask a program to call (docs/chat.md, Tools)
 *
 *      struct tft_chat_tools *tools;
 *      struct tft_chat_text gbnf;
 *      struct tft_chat_answer *a;
 *      tft_chat_tools_open(&tools, json, n, tft_chat_call_format(t), 0, &err);
 *      tft_chat_tools_grammar(&gbnf, tools, m, TFT_CHAT_AUTO, NULL, false, &err);
 *      ...                          // tft_grammar_open(..., TFT_GBNF, gbnf.p, gbnf.n), generate
 *      tft_chat_answer_open(&a, tools, false, take_event, user, &err);
 *      tft_chat_answer_token(a, m, id);        // for each token of the answer
 *      status = tft_chat_answer_end(a, &err);  // TFT_ERR_FORMAT: the answer ends within a call
 *      tft_chat_answer_close(a);
 */

struct tft_chat_tools; /* declared tools, and the format of their calls; immutable, any number of
                          threads and answers may use it */

/* The format of calls that a template's text shows: "hermes", "qwen3.5", "lfm2", "gemma",
   "llama3", "mistral", "mistral-id" or "mistral-args"; "json" if it shows none of them. */
TFT_API const char *tft_chat_call_format(const struct tft_chat_template *t);

/* Reads OpenAI's `tools`, json[n]: a list of {"type": "function", "function": {"name",
   "description", "parameters"}}, or of functions without that frame. format: as above; NULL:
   "json". flags: TFT_SCHEMA_ANY_ORDER. The caller closes *out. TFT_ERR_ARG: not JSON, no tools, an
   invalid or repeated name, an unknown format. TFT_ERR_UNSUPPORTED: parameters that
   tft_chat_schema does not support, or names that the format cannot write. TFT_ERR_FULL: a bound
   (128 tools, 1 MiB). err has the place as a JSON pointer into json. */
TFT_API enum tft_status tft_chat_tools_open(struct tft_chat_tools **out, const char *json, size_t n,
                                            const char *format, unsigned flags,
                                            struct tft_error *err);
TFT_API void tft_chat_tools_close(struct tft_chat_tools *tools); /* tools may be NULL */

/* How many tools there are, at least 1; the name of tool i, in the order of the JSON: valid as long
   as the tools, NULL if there is no such tool. */
TFT_API size_t tft_chat_tools_count(const struct tft_chat_tools *tools);
TFT_API const char *tft_chat_tools_name(const struct tft_chat_tools *tools, size_t i);

/* Text for the system message, *out, that describes the tools and asks for calls in the format
   "json". Empty for the other formats: their templates write the variable `tools`. The caller frees
   *out. */
TFT_API enum tft_status tft_chat_tools_ask(struct tft_chat_text *out,
                                           const struct tft_chat_tools *tools,
                                           struct tft_error *err);

enum tft_chat_choice {
    TFT_CHAT_AUTO,     /* text, calls, or text and then calls */
    TFT_CHAT_NO_CALL,  /* text only */
    TFT_CHAT_REQUIRED, /* calls only */
};

/* Makes a grammar of an answer: GBNF for tft_grammar_open. Text comes freely up to the mark that
   begins a call; behind it, each call names a declared tool and has arguments that are valid by its
   schema. name: only this tool may be called; NULL: any. one: at most one call. m: whose special
   tokens stand for marks; NULL: marks are text. The caller frees *out. TFT_ERR_ARG: no tool of that
   name. */
TFT_API enum tft_status tft_chat_tools_grammar(struct tft_chat_text *out,
                                               const struct tft_chat_tools *tools,
                                               const struct tft_model *m,
                                               enum tft_chat_choice choice, const char *name,
                                               bool one, struct tft_error *err);

struct tft_chat_answer; /* an answer that is read while it is generated */

enum tft_chat_event_kind {
    TFT_CHAT_TEXT,      /* p[n]: text outside calls */
    TFT_CHAT_CALL,      /* call `index` begins: of the tool p[n] */
    TFT_CHAT_ARGUMENTS, /* p[n]: a piece of its arguments; the pieces together are a JSON object */
    TFT_CHAT_CALL_END,
};

/* p is valid during the call of the function. Pieces never split a character. */
struct tft_chat_event {
    enum tft_chat_event_kind kind;
    size_t index;
    const char *p;
    size_t n;
};

/* Begins to read an answer; the caller closes *out. tools must outlive it. event is called with
   `user` within the functions below, in the order of the answer; it must not call them for the same
   answer. text_goes_on: as tft_chat_tokenize gives it, for tft_chat_answer_token. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_chat_answer_open(struct tft_chat_answer **out,
                                             const struct tft_chat_tools *tools, bool text_goes_on,
                                             void (*event)(void *user,
                                                           const struct tft_chat_event *e),
                                             void *user, struct tft_error *err);
TFT_API void tft_chat_answer_close(struct tft_chat_answer *a); /* a may be NULL */

/* Reads on: bytes p[n], cut anywhere. Thoughts are not part of them. TFT_ERR_FORMAT: not a call of
   this format (only without the grammar); so says each later call. */
TFT_API enum tft_status tft_chat_answer_push(struct tft_chat_answer *a, const char *p, size_t n);

/* The same for a token of m: its text, or its name if it is a special token that the format uses as
   a mark; other special tokens are no text. */
TFT_API enum tft_status tft_chat_answer_token(struct tft_chat_answer *a, const struct tft_model *m,
                                              int32_t id);

/* The answer is complete. TFT_ERR_FORMAT: it ends within a call, whose arguments stay incomplete,
   or is not of the format. */
TFT_API enum tft_status tft_chat_answer_end(struct tft_chat_answer *a, struct tft_error *err);

#ifdef __cplusplus
}
#endif

#endif
