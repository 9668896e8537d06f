/* A model that the server answers with: its names and numbers for lists, and, while it is open, its
   engine. */
#ifndef SERVE_SERVED_H
#define SERVE_SERVED_H

#include "engine.h"
#include "setup.h"
#include "tools/cli/system.h"
#include "tools/cli/template.h"

struct baton;

enum served_state { SERVED_CLOSED, SERVED_OPENING, SERVED_OPEN, SERVED_CLOSING };

enum { SERVED_FOREVER = -1 };

struct served {
    char *id, *path; /* its name for clients; its file */
    char *jinja;     /* its chat template; NULL: it has none */
    bool of_setup;   /* the file of --config names it */
    struct setup_own own; /* its options in that file; the texts are own_kv and own_pooling */
    char *own_kv, *own_pooling;

    /* For lists. The numbers of a model that has never been open are 0, but n_vocab
       and n_ctx. */
    struct tft_model_info info; /* without its texts */
    char arch[64], digest[TFT_IDENTITY + 16];
    uint64_t bytes;     /* its weights, and the caches of all slots; before the first opening, the
                           size of the file */
    int64_t modified;   /* the file, seconds since 1970 */
    struct system_file file; /* tells it from one that replaces it */
    uint32_t capacity;  /* tokens of a prompt and its answer */
    bool calls, thinks;
    struct engine_counts past; /* of its engines, until the last one was closed */

    /* While it is open. */
    struct tft_model *m;
    const struct template_format *template; /* NULL: the model has no template, and cannot chat */
    const struct template_format *tool_template; /* of conversations with tools; likewise */
    struct engine *engine;
    enum tft_pooling pooling; /* of embeddings */
    struct loras loras;       /* of requests that do not say it; of the clients' thread */
    char *folder;             /* of its saved sessions, if it has one of its own; or NULL */

    /* The pool's (pool.h). */
    enum served_state state;
    bool retired;        /* the file of --config no longer has it: it goes once it has answered */
    bool leaving;        /* it takes no further requests: another model needs its memory */
    uint64_t used;       /* number of its last request */
    uint64_t idle_since; /* ns; 0: it answers */
    int64_t keep;        /* ns after its last answer; or SERVED_FOREVER */
};

struct served_options {
    uint32_t n_slots, n_queue;
    const char *pooling; /* of --pooling; NULL: by the file */
    struct store_options store;
    bool several;        /* models may be served: their sessions go to folders of their own */
    struct baton *baton; /* NULL: there is one model */
    void (*wake)(void *user);
    void *user;
};

/* Whether the path leads to the file that the server looked at. */
bool served_is_same_file(const struct served *s);

/* Reads the vocabulary and the template, for lists, and closes the file. pooling: of --pooling, or
   NULL. Returns CLI_OK, or CLI_FAILED or CLI_USAGE after an error message. */
int served_peek(struct served *s, const char *pooling);

/* Returns CLI_OK, or CLI_FAILED or CLI_USAGE after an error message; call served_close in any
   case. */
int served_open(struct served *s, const struct served_options *o);
void served_close(struct served *s); /* also if it is closed */

/* A closed model with these texts, which it takes; own: or NULL. NULL after an error message. */
struct served *served_new(char *id, char *path, const struct setup_own *own);
void served_free(struct served *s); /* s may be NULL */

/* The number of its slots; n: of a model that says none. */
static inline uint32_t served_slots(const struct served *s, uint32_t n)
{
    return s->own.n_slots ? s->own.n_slots : n;
}

#endif
