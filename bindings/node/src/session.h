/* session.h - sessions, and the text that one generates. */
#ifndef TUFFET_SESSION_H
#define TUFFET_SESSION_H

#include "addon.h"

struct session {
    struct handle handle;
    struct tft_session *s;
    struct model *model; /* the parent */
    napi_env env;
    char *prefix;     /* the name of its prefix, or NULL */
    int64_t bytes;    /* of its memory, which V8 is told about */
    bool computing;   /* on another thread: nothing else may use it */

    /* The text that is generated, from generate_begin to generate_end. */
    struct sampler *sampler; /* NULL: none is */
    int32_t *prompt;         /* [n_prompt] NULL once it was fed */
    size_t n_prompt;
    struct tft_text text;
    int32_t next;        /* the token that was chosen and not yet fed, or -1 */
    double left;         /* how many tokens may come; perhaps infinite */
    const char *stopped; /* why it has ended, or NULL */
    size_t n_out;
    char out[TFT_TEXT_MAX]; /* [n_out] the newest text */
};

enum use {
    READ,  /* the session's tokens and logits */
    FEED,  /* changes its tokens: not while it generates */
    WRITE, /* as the text that it generates does */
};

/* The session of a value, not closed and not computing, or NULL with an exception. */
struct session *session_get(napi_env env, napi_value v, enum use use);

/* The sampler of a value; NULL with an exception if it has a grammar of another model than the
   session's, since the tokens of that are others. */
struct sampler *sampler_for(napi_env env, napi_value v, const struct session *session);

/* Starts a work on a session, which is busy until the end of the work calls session_done. */
napi_value session_start(napi_env env, struct session *session, struct work *w);
void session_done(struct session *session);

/* Copies the status of a call on a session to the work, with the session's line. */
void session_status(struct session *session, struct work *w, enum tft_status status);

/* Ends the text that the session generates, if it does. */
void session_forget(struct session *session);

#endif
