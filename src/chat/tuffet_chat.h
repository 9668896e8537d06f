/*
 * tuffet_chat.h - turn the messages of a conversation into the text and tokens of a model's chat
 * format.
 *
 * A model file has a chat template, a program in Jinja, and this library runs the template.
 * docs/chat.md lists the supported part of Jinja. Steps, memory, output and depth are bounded,
 * because a file is not trusted. A template that needs more of Jinja fails with a message that
 * names the missing part and the line. The text equals the output of Hugging Face's
 * apply_chat_template.
 *
 *      struct tft_chat_template *t;
 *      struct tft_chat_text text;
 *      struct tft_error err;
 *      struct tft_chat_message said[] = {{.role = "system", .text = "You are brief.", .n = 14},
 *                                        {.role = "user", .text = "Hello", .n = 5}};
 *      struct tft_chat_input in = {.size = sizeof in, .message = said, .n_message = 2};
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
 * A user's text never becomes a special token. Each character of the text is marked as trusted or
 * not. Characters of the template are trusted, and so are the names of BOS and EOS and the usual
 * roles of messages; characters of messages, tools and other variables are not. Each character
 * keeps its mark through all operations of a template (slices, replace, trim, join, tojson, ...);
 * characters that a filter adds, such as a quote of tojson, are not trusted. Special tokens come
 * from trusted text alone.
 *
 * Functions, errors, option structs and text follow the rules on top of tuffet.h: sizes are bytes
 * of UTF-8, and err, which may be NULL, gets one line for a person. A function that fails leaves
 * nothing to free: *out is NULL, or an empty tft_chat_text.
 *
 * Threads: a template and a set of tools never change once they are open. Any number of threads may
 * call the functions that take a `const` pointer to one. Use an answer from one thread at a time.
 * There is no global state.
 *
 * Memory comes from the C library; functions named ..._close and ..._free give it back. They accept
 * NULL or, for a text, an empty text (all zero). No argument is kept after the call, except the
 * tools of an answer and the pointers `event` and `user`.
 *
 * Link with -ltuffet-chat -ltuffet, or by pkg-config tuffet-chat.
 */
#ifndef TFT_CHAT_H
#define TFT_CHAT_H

#include "tuffet.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tft_chat_template;

/* Reads a template, source[n]; the caller closes *out. TFT_ERR_FORMAT: it is not Jinja.
   TFT_ERR_UNSUPPORTED: it needs a part of Jinja that this library lacks. err names the line.
   TFT_ERR_FULL: it is larger or nests deeper than any template should. */
TFT_API enum tft_status tft_chat_open(struct tft_chat_template **out, const char *source, size_t n,
                                      struct tft_error *err);

/* t may be NULL. No other thread may use it then. */
TFT_API void tft_chat_close(struct tft_chat_template *t);

/* Returns whether the template names this variable, for example "tools" or "enable_thinking". */
TFT_API bool tft_chat_uses(const struct tft_chat_template *t, const char *variable);

/* Returns whether the template takes the content of a message as a list of parts, {"type": "text",
   "text": ...}, as OpenAI's clients send it. If it takes nothing else (SmolVLM), strings are given
   to it as lists of one part. Tried once, by tft_chat_open. */
TFT_API bool tft_chat_takes_parts(const struct tft_chat_template *t);

/* Returns the source of a built-in template, for tft_chat_open and files without one: "chatml",
   "qwen3", "llama2", "llama3", "zephyr", "phi3", "gemma" or "mistral". A constant string; NULL: no
   template has this name. */
TFT_API const char *tft_chat_builtin(const char *name);

struct tft_chat_message {
    const char *role;     /* "system", "user", "assistant", ... NUL at the end */
    const char *text;     /* [n] its content */
    size_t n;
    uint64_t reserved[2]; /* for later versions: zero */
};

/* The input of a template. Without a value, the variables `messages`, `tools` and `documents` are
   none. */
struct tft_chat_input {
    size_t size;                            /* sizeof(struct tft_chat_input) */
    const struct tft_chat_message *message; /* [n_message] the variable `messages` */
    size_t n_message;
    const char *json; /* [n_json] an object; its members are variables too: "messages" in place of
                         the above, with tool calls and all; "tools"; ... NULL: none */
    size_t n_json;
    bool no_prompt;     /* set the variable add_generation_prompt to false: the text ends after the
                           last message, without the start of an answer */
    const char *answer; /* [n_answer] the start of the answer, after the prompt; not trusted */
    size_t n_answer;
    const char *bos, *eos; /* names of these tokens, for bos_token and eos_token; NULL: undefined */
    bool has_time;         /* strftime_now has a clock; without one it is an error */
    int64_t time;          /* that clock: seconds since 1970 began, in local time */
    uint64_t max_steps;    /* bounds, 0 for the defaults: 20 million steps, */
    size_t max_output;     /* 16 MiB of text, */
    size_t max_memory;     /* 256 MiB of memory, */
    uint32_t max_depth;    /* nesting of macros, statements, expressions and values: 250. On x86-64,
                              this needs 96 KiB of stack */
    bool read_arguments;   /* parse arguments of tool calls that are strings of JSON, as OpenAI's
                              clients send them: the template sees an object, and the string where
                              it prints the arguments or adds them to text. transformers passes the
                              string, which most templates do not take */
    bool continue_last;    /* the last message, an answer, is to be continued: the text ends after
                              the message's text, without an end of the turn, as with transformers'
                              continue_final_message. TFT_ERR_ARG: the template drops that text */
};

struct tft_chat_text {
    char *p; /* [n] the text, and a NUL */
    size_t n;
    struct tft_span *trusted; /* [n_trusted] the trusted parts, in order, without overlap */
    size_t n_trusted;
    uint64_t reserved[2];     /* for later versions: zero */
};

/* Runs the template; the caller frees *out with tft_chat_text_free. A template may drop messages in
   silence: see tft_chat_dropped. TFT_ERR_ARG: the template refuses this conversation (err has its
   words), or the JSON is not valid. TFT_ERR_UNSUPPORTED: the template needs a part of Jinja that
   this library lacks. TFT_ERR_FORMAT: the template fails, for example adds a number to a text.
   TFT_ERR_FULL: a bound. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_chat_render(struct tft_chat_text *out,
                                        const struct tft_chat_template *t,
                                        const struct tft_chat_input *in, struct tft_error *err);

/* The same, with the names of the model's BOS and EOS if `in` has none. */
TFT_API enum tft_status tft_chat_render_for(struct tft_chat_text *out,
                                            const struct tft_chat_template *t,
                                            const struct tft_model *m,
                                            const struct tft_chat_input *in, struct tft_error *err);

/* Looks for the messages of `in` in the text that a template made of it: templates drop what they
   do not know, such as results of tools. *said: the index of the first message of the roles system,
   developer and user that the text lacks; *result: of the other roles but assistant. SIZE_MAX:
   none. A message is there if all its text is, as it is or as a JSON string or value; white space
   does not count, nor do the switches /think, /no_think and /system_override, which templates
   remove. TFT_ERR_ARG: the JSON is not valid. TFT_ERR_FULL: a bound. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_chat_dropped(size_t *said, size_t *result,
                                         const struct tft_chat_text *text,
                                         const struct tft_chat_input *in, struct tft_error *err);

/* Frees the text and its list of trusted parts, and makes *t empty. */
TFT_API void tft_chat_text_free(struct tft_chat_text *t);

/*
 * Encodes a conversation as tft_tokenize_spans does: ids[cap] and *n; if ids is NULL, tokens are
 * only counted. A name becomes a special token if one trusted part of the text contains the whole
 * name. Text between two special tokens is encoded as one text, trusted or not, since a token may
 * begin in a trusted part and end outside. (Some vocabularies have tokens that any text may name,
 * such as <think>; these are found in any text.)
 *
 * BOS comes once. It is added if the model was trained with BOS (TFT_ADD_BOS); a BOS at the start
 * of the text is then left out. If the model's prefix includes BOS, there is none.
 *
 * All other tokens are there, also tokens that a prefix of the model holds: many templates begin
 * without BOS, and a prefix may be their first tokens. tft_prefix_held counts the tokens not to
 * feed.
 *
 * *text_goes_on, if neither it nor ids is NULL, becomes true if the last token is text and not
 * special, for tft_text.started. Errors as tft_tokenize_spans.
 */
TFT_API enum tft_status tft_chat_tokenize(const struct tft_chat_text *t, const struct tft_model *m,
                                          int32_t *ids, size_t cap, size_t *n, bool *text_goes_on);

/*
 * Makes a grammar of a JSON Schema (draft 2020-12): GBNF for tft_grammar_open. Every text of the
 * grammar is valid by the schema. docs/chat.md lists the keywords, and valid texts that the grammar
 * excludes. Properties come in the order in which the schema lists them, or in any order with
 * TFT_SCHEMA_ANY_ORDER. *out has no trusted parts; the caller frees it with tft_chat_text_free.
 *
 * TFT_ERR_UNSUPPORTED: a keyword, or a use of one, is not supported; only annotations are ignored.
 * TFT_ERR_ARG: the text is not JSON, or not a schema. TFT_ERR_FULL: the schema is too large, nests
 * too deep or takes too many steps. err has the place, as a JSON pointer; if the text is not JSON,
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

/* Returns the format of calls in a template's text: "hermes", "qwen3.5", "lfm2", "gemma", "llama3",
   "mistral", "mistral-id" or "mistral-args"; "json" if it shows none of them. */
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

/* The number of tools, at least 1; the name of tool i in the order of the JSON, valid as long as
   the tools, NULL if there is no such tool. */
TFT_API size_t tft_chat_tools_count(const struct tft_chat_tools *tools);
TFT_API const char *tft_chat_tools_name(const struct tft_chat_tools *tools, size_t i);

/* Writes text for the system message to *out: it describes the tools and asks for calls in the
   format "json". Empty for the other formats: their templates write the variable `tools`. The
   caller frees *out. */
TFT_API enum tft_status tft_chat_tools_ask(struct tft_chat_text *out,
                                           const struct tft_chat_tools *tools,
                                           struct tft_error *err);

enum tft_chat_choice {
    TFT_CHAT_AUTO,     /* text, calls, or text and then calls */
    TFT_CHAT_NO_CALL,  /* text only */
    TFT_CHAT_REQUIRED, /* calls only */
};

/* Makes a grammar of an answer: GBNF for tft_grammar_open. Text is free up to the mark that begins
   a call; each call names a declared tool and has arguments that are valid by the tool's schema.
   name: only this tool may be called; NULL: any. one: at most one call. m: the model with special
   tokens for marks; NULL: marks are text. The caller frees *out. TFT_ERR_ARG: no tool of that
   name. */
TFT_API enum tft_status tft_chat_tools_grammar(struct tft_chat_text *out,
                                               const struct tft_chat_tools *tools,
                                               const struct tft_model *m,
                                               enum tft_chat_choice choice, const char *name,
                                               bool one, struct tft_error *err);

/* Makes a grammar of an answer that is calls, or a text of the grammar form[n] in GBNF, such as one
   of tft_chat_schema. one, m: as above. The caller frees *out. */
TFT_API enum tft_status tft_chat_tools_or_form(struct tft_chat_text *out,
                                               const struct tft_chat_tools *tools,
                                               const struct tft_model *m, bool one,
                                               const char *form, size_t n, struct tft_error *err);

struct tft_chat_answer; /* an answer that is read while it is generated */

enum tft_chat_event_kind {
    TFT_CHAT_TEXT,      /* p[n]: text outside calls */
    TFT_CHAT_CALL,      /* call `index` begins: of the tool p[n] */
    TFT_CHAT_ARGUMENTS, /* p[n]: a part of its arguments; the parts together are a JSON object */
    TFT_CHAT_CALL_END,
};

/* p is valid during the callback. No event splits a character. */
struct tft_chat_event {
    size_t size; /* of this struct in the library, which makes it */
    enum tft_chat_event_kind kind;
    size_t index;
    const char *p;
    size_t n;
};

/* Begins to read an answer; the caller closes *out. tools must outlive the answer. The functions
   below call event with `user`, in the order of the answer; event must not call them for the same
   answer. text_goes_on: as tft_chat_tokenize gives it, for tft_chat_answer_token. TFT_ERR_NOMEM. */
TFT_API enum tft_status tft_chat_answer_open(struct tft_chat_answer **out,
                                             const struct tft_chat_tools *tools, bool text_goes_on,
                                             void (*event)(void *user,
                                                           const struct tft_chat_event *e),
                                             void *user, struct tft_error *err);
/* Before the first text: the answer is one of tft_chat_tools_or_form. If it does not begin with a
   call of a declared tool, all of it is text, marks of calls too. */
TFT_API void tft_chat_answer_or_form(struct tft_chat_answer *a);

TFT_API void tft_chat_answer_close(struct tft_chat_answer *a); /* a may be NULL */

/* Reads bytes p[n] of the answer, cut anywhere, without thoughts. TFT_ERR_FORMAT: not a call of
   this format (only without the grammar); each later call returns the same. */
TFT_API enum tft_status tft_chat_answer_push(struct tft_chat_answer *a, const char *p, size_t n);

/* The same for a token of m: its text, or its name if it is a special token that the format uses as
   a mark; other special tokens add no text. */
TFT_API enum tft_status tft_chat_answer_token(struct tft_chat_answer *a, const struct tft_model *m,
                                              int32_t id);

/* Ends the answer. TFT_ERR_FORMAT: it ends within a call, with incomplete arguments, or is not of
   the format. */
TFT_API enum tft_status tft_chat_answer_end(struct tft_chat_answer *a, struct tft_error *err);

/* Returns whether p[n] is one JSON object, as the arguments of a call are. Ask this of arguments
   from elsewhere, such as a saved conversation, before you write them into tft_chat_input.json. */
TFT_API bool tft_chat_is_object(const char *p, size_t n);

#ifdef __cplusplus
}
#endif

#endif
