/*
 * tuffet serve: HTTP for the engine. The clients' thread, an event loop, has the connections; a
 * request becomes an exchange, which the router (router.c) gives to a handler. The handler replies
 * once, immediately or when jobs of the engine have items, by one of the functions below.
 */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <jansson.h>

#include "dialect.h"
#include "kept.h"
#include "keys.h"
#include "log.h"
#include "quota.h"
#include "served.h"

struct server_options {
    const char *host;
    uint32_t port;            /* 0: any free port */
    const char *key, *origin; /* of --api-key and --cors; NULL: none */
    const char *key_file;     /* of --api-key-file; NULL: none */
    struct keys *keys;        /* of this file, as it was read last */
    const char *config;       /* of --config; NULL: none */
    struct cli_texts allowed; /* of --allow-host: names of the server */
    const char *slot_folder;  /* of --slot-save-path; NULL: none */
    uint32_t n_slots, n_queue;
    int32_t n_most; /* tokens of an answer; -1: any */
    float seconds;  /* for a prompt and its answer; 0: any */
    bool truncate; /* conversations that outgrow the context lose their oldest messages, unless a
                      request says otherwise */
    const char *pooling;        /* of --pooling; NULL: by the file */
    struct cli_texts aliases;   /* of --alias: NEW=NAME */
    uint64_t memory;            /* of --mem, bytes of the open models */
    struct store_options store; /* of --cache-mem, --cache-dir and --cache-disk */
    bool json; /* print the address as JSON */
};

struct event;
struct evhttp_request;

struct server {
    struct server_options o;
    /* [n_models], of which a request that names none is for the first; up to [n_all] models that a
       file of --config no longer has, until they have answered */
    struct served **models;
    size_t n_models, n_all;
    size_t n_named; /* models of the command line, the first ones */
    const struct cli_command *command;
    struct setup *setup;       /* of --config, as it was read last; NULL: none */
    struct setup *first_setup; /* which options point to */
    struct quota *quota;       /* of the setup; or NULL */
    bool several;      /* they are opened when requests ask for them */
    struct pool *pool; /* opens and closes them; NULL: there is one model, which is open */
    int64_t started;   /* seconds since 1970 */
    struct kept kept;  /* responses of /v1/responses; of the clients' thread */
    struct log log;
    struct loop *loop; /* http.c's */
};

/* Serves until a signal ends it. Returns CLI_OK, or CLI_FAILED after an error message. */
int server_run(struct server *s);

/* ---- a request and its reply */

struct exchange {
    struct server *server;
    struct served *served; /* the model of the request, which is open; NULL: the route needs none */
    struct evhttp_request *request;
    enum dialect dialect; /* of errors */
    const char *path, *query; /* query: after the question mark; or NULL */
    size_t size;     /* bytes of the body, as it came */
    void (*handle)(struct exchange *x); /* router.c's */
    uint64_t client; /* the same for all requests from one address */

    /* For the log. */
    size_t n_prompt, n_answer; /* tokens; set by the handler before its reply ends */
    const char *method;
    char key_name[KEYS_NAME + 1];
    bool counts;    /* against the limits of its key */
    uint64_t start; /* ns */
    int status;     /* of the reply */

    /* Set by a handler that replies later: called if the client goes away, or the server ends. The
       handler must still reply, and soon. */
    void (*gone)(void *user);
    void *user;

    /* Of a request without a connection, whose `request` is NULL: takes the whole reply (batch.c).
       There is no stream then. */
    void (*take)(struct exchange *x, int code, const char *p, size_t n);

    /* http.c's */
    bool closed;    /* the connection is gone */
    bool lost;      /* a part of the reply may be missing: lost.h */
    bool streaming; /* the beginning of the reply has been sent */
    bool ended;     /* evhttp has all of the reply */
    struct event *watch;
    json_t *body; /* read before the model was known; NULL: not yet, or taken */
    struct exchange *next, **at;
};

/* The body as JSON, which the caller owns; NULL: an error has been sent. */
json_t *exchange_json(struct exchange *x);
json_t *exchange_list(struct exchange *x); /* likewise a JSON list, of routes without a model */

/* Frees the body, which is not read. */
void exchange_drop(struct exchange *x);

/* A header's value, or NULL; valid as long as the exchange. */
const char *exchange_header(const struct exchange *x, const char *name);

/* Adds a header to the reply, before it begins. */
void reply_header(struct exchange *x, const char *name, const char *value);

/* Replies end the exchange. reply_json takes the reference. */
void reply_json(struct exchange *x, int code, json_t *body);
void reply_text(struct exchange *x, int code, const char *type, const char *p, size_t n);
/* type: OpenAI's, such as "invalid_request_error". In a stream, the error is its last part. */
void reply_error(struct exchange *x, int code, const char *type, const char *fmt, ...)
    CLI_PRINTF(4, 5);

/* A reply in parts. reply_event writes JSON as server-sent events, reply_typed as events with the
   name in the member `type`, reply_line one object a line; all take the reference. reply_end ends
   the exchange. */
void reply_begin(struct exchange *x, const char *type);
void reply_event(struct exchange *x, json_t *part);
void reply_typed(struct exchange *x, json_t *part);
void reply_line(struct exchange *x, json_t *part);
void reply_part(struct exchange *x, const char *p, size_t n);
void reply_end(struct exchange *x);

#endif
