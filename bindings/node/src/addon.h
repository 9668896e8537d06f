/*
 * addon.h - shared by the files of the addon: values, handles, work.
 *
 * All of it runs on the one thread of JavaScript, except the function `compute` of a work.
 *
 * Reading an argument can run code of the caller, such as a getter that closes the session. So each
 * function reads its arguments first, and only then asks a handle for its object.
 */
#ifndef TUFFET_ADDON_H
#define TUFFET_ADDON_H

#define NAPI_VERSION 8
#include <node_api.h>
#include <stdatomic.h>
#include <tuffet.h>
#include <tuffet_chat.h>

/* --------------------------------------------------------------------------------------- errors */

/* Whether a call of Node-API went well. If not, an exception is pending. */
bool ok(napi_env env, napi_status status);

/* A library's failure in JavaScript: an Error with the name of the status as its `code`. */
napi_value error_of(napi_env env, enum tft_status status, const struct tft_error *err);

/* Errors of this package, with a `code` that is no status: "CLOSED", "BUSY". */
napi_value own_error(napi_env env, const char *code, const char *line);

/* These throw, and return NULL. `err` may be NULL. throw_argument: a TypeError. */
napi_value throw_status(napi_env env, enum tft_status status, const struct tft_error *err);
__attribute__((format(printf, 2, 3))) napi_value throw_argument(napi_env env, const char *format,
                                                                ...);

/* --------------------------------------------------------------------------------------- values */

/* The arguments of a call; missing ones are undefined. */
bool arguments(napi_env env, napi_callback_info info, size_t n, napi_value *argv);

/* These read a value that the message calls `what`. On failure they throw, and return false or
   NULL. The caller frees texts and tokens. */
bool read_number(napi_env env, napi_value v, const char *what, double least, double most,
                 double *out);
bool read_integer(napi_env env, napi_value v, const char *what, double least, double most,
                  double *out);
bool read_bool(napi_env env, napi_value v, const char *what, bool *out);
char *read_text(napi_env env, napi_value v, const char *what, size_t *n); /* n NULL: a C string */
uint8_t *read_bytes(napi_env env, napi_value v, const char *what, size_t *n); /* not to be freed */
int32_t *read_tokens(napi_env env, napi_value v, size_t *n); /* a number, an array, an Int32Array */

/* Copies as an Int32Array, a Float32Array, a Uint8Array; a string; ... NULL: an exception is
   pending. */
napi_value tokens_value(napi_env env, const int32_t *ids, size_t n);
napi_value floats_value(napi_env env, const float *x, size_t n);
napi_value text_value(napi_env env, const char *text, size_t n);
napi_value bytes_value(napi_env env, const void *bytes, size_t n);
napi_value number_value(napi_env env, double x);
napi_value bool_value(napi_env env, bool x);
napi_value null_value(napi_env env);

/* Sets object[name]. A value of NULL, which is an exception, is a failure too. */
bool put(napi_env env, napi_value object, const char *name, napi_value value);

enum option_type {
    OPTION_INT,
    OPTION_U32,
    OPTION_FLOAT,
    OPTION_SEED, /* uint64_t, of a number or a BigInt */
    OPTION_BOOL,
    OPTION_TEXT,
    OPTION_WEIGHTS,
};

/* Where in a struct of options a property goes; lists end with a name of NULL. */
struct option {
    const char *name;
    enum option_type type;
    size_t at;
    double least, most; /* of numbers */
};

/* Reads an object, or undefined, into a struct. A property that is not in the list is an error.
   options_free frees the texts, also after a failure. */
bool options_read(napi_env env, napi_value v, const struct option *list, void *to);
void options_free(const struct option *list, void *of);

/* -------------------------------------------------------------------------------------- handles */

enum kind { MODEL, SESSION, BATCH, GRAMMAR, SAMPLER };

/*
 * The first member of the struct of a JavaScript object. The handle is closed by close(), or when
 * the JavaScript object is collected. The library's object is freed when it is closed and nothing
 * uses it any more: no object that was made of it, and no computation.
 */
struct handle {
    enum kind kind;
    bool open;        /* JavaScript may use it */
    bool held;        /* there is a JavaScript object, which points here */
    atomic_bool stop; /* asks its computation to end */
    unsigned users;   /* how many objects were made of it and are not freed, and computations */
    struct handle *parent, *children, *next; /* the object that it was made of, or NULL; a list */
    void (*end)(struct handle *h);           /* frees the object of the library; NULL once it has */
};

/* Makes the JavaScript object of a handle from calloc, with kind and end set, and counts it as a
   user of its parent. On failure the handle is freed, and NULL is returned. */
napi_value handle_new(napi_env env, struct handle *h, struct handle *parent);

/* "the session is closed" */
napi_value closed_error(napi_env env, const struct handle *h);

/* The handle of a value, or NULL with an exception. handle_get: an open one. */
void *handle_peek(napi_env env, napi_value v, enum kind kind);
void *handle_get(napi_env env, napi_value v, enum kind kind);

/* Ends a use of a handle: frees objects without users, perhaps the handle itself. */
void handle_leave(struct handle *h);

/* ----------------------------------------------------------------------------------------- work */

/* A computation on a thread of Node's pool, the first member of a struct with its arguments. */
struct work {
    void (*compute)(struct work *w);                    /* on that thread: sets status and err */
    napi_value (*result)(napi_env env, struct work *w); /* the value of the promise, after TFT_OK */
    void (*end)(struct work *w);                        /* frees the struct */
    struct handle *handle; /* the object that it uses: stays until the work has ended; or NULL */
    enum tft_status status;
    struct tft_error err;
    napi_async_work work;
    napi_deferred deferred;
};

/* A result: undefined. */
napi_value work_nothing(napi_env env, struct work *w);

/* Starts a work from calloc, and returns its promise; it ends in any case. */
napi_value work_start(napi_env env, struct work *w);

/* -------------------------------------------------------------------------------------- objects */

struct model {
    struct handle handle;
    struct tft_model *m;
    struct tft_lexicon *lexicon; /* these three are NULL until they are needed */
    struct tft_chat_template *chat, *tool_chat;
};

struct grammar { /* of a model */
    struct handle handle;
    struct tft_grammar *g;
};

struct sampler { /* of a grammar, or of nothing */
    struct handle handle;
    struct tft_sampler z;
    struct tft_sampler_more more; /* without breakers of DRY */
};

/* Functions, as JavaScript and as C name them. */
#define FUNCTIONS(X)                                                                               \
    X(modelOpen, model_open)                                                                       \
    X(modelInfo, model_info)                                                                       \
    X(modelTemplate, model_template)                                                               \
    X(modelPrefixes, model_prefixes)                                                               \
    X(modelPrompt, model_prompt)                                                                   \
    X(modelTokenize, model_tokenize)                                                               \
    X(tokenBytes, token_bytes)                                                                     \
    X(tokenEnds, token_ends)                                                                       \
    X(tokenBos, token_bos)                                                                         \
    X(tokenEos, token_eos)                                                                         \
    X(textBegin, text_begin)                                                                       \
    X(textPush, text_push)                                                                         \
    X(textEnd, text_end)                                                                           \
    X(grammarGbnf, grammar_gbnf)                                                                   \
    X(grammarRegex, grammar_regex)                                                                 \
    X(grammarSchema, grammar_schema)                                                               \
    X(samplerOpen, sampler_open)                                                                   \
    X(sessionOpen, session_open)                                                                   \
    X(sessionFeed, session_feed)                                                                   \
    X(sessionStop, session_stop)                                                                   \
    X(sessionRewind, session_rewind)                                                               \
    X(sessionPromptEnd, session_prompt_end)                                                        \
    X(sessionUseThreads, session_use_threads)                                                      \
    X(sessionSample, session_sample)                                                               \
    X(sessionPos, session_pos)                                                                     \
    X(sessionCapacity, session_capacity)                                                           \
    X(sessionGuessed, session_guessed)                                                             \
    X(sessionTokens, session_tokens)                                                               \
    X(sessionStopped, session_stopped)                                                             \
    X(sessionLogits, session_logits)                                                               \
    X(sessionHidden, session_hidden)                                                               \
    X(sessionLikeliest, session_likeliest)                                                         \
    X(sessionLogprob, session_logprob)                                                             \
    X(sessionSave, session_save)                                                                   \
    X(sessionLoad, session_load)                                                                   \
    X(sessionDump, session_dump)                                                                   \
    X(sessionRestore, session_restore)                                                             \
    X(sessionCopy, session_copy)                                                                   \
    X(batchOpen, batch_open)                                                                       \
    X(batchStep, batch_step)                                                                       \
    X(generateBegin, generate_begin)                                                               \
    X(generateNext, generate_next)                                                                 \
    X(generateEnd, generate_end)                                                                   \
    X(close, handle_close)

#define DECLARE(name, function) napi_value function(napi_env env, napi_callback_info info);
FUNCTIONS(DECLARE)
#undef DECLARE

#endif
