#define _POSIX_C_SOURCE 200809L
#include "batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fields.h"
#include "lost.h"
#include "router.h"
#include "served.h"
#include "tools/cli/system.h"

/* A file of lines. */
struct lines {
    const char *path;
    FILE *f;
    char *p;            /* the current line, without its newline */
    size_t room, n, at; /* n: bytes of the line; at: its number */
    bool whole;         /* it ends in a newline */
};

struct batch {
    struct server *s;
    struct lines in, out;
    json_t *ids; /* {} custom_id: true if its reply is in `out`, else false */
    size_t n, n_replies, n_errors, n_lost; /* requests; replies in `out`; errors among the new ones;
                                              requests that the server failed to answer */
    size_t running;
    struct task *open, *ended;
    bool stopping, failed;
    pthread_mutex_t lock; /* of `woken` */
    pthread_cond_t wake;
    bool woken;
};

/* A request under way. */
struct task {
    struct exchange x;
    struct batch *b;
    char *id;
    struct task *next, **at; /* in b->open; then next in b->ended */
};

/* ---- lines */

/* Reads the next line. False: there is none. */
static bool next_line(struct lines *l)
{
    int64_t n = system_line(&l->p, &l->room, l->f);
    if (n <= 0)
        return false;
    l->whole = l->p[n - 1] == '\n';
    l->n = (size_t)n - l->whole;
    l->p[l->n] = 0;
    l->at++;
    return true;
}

/* A device may have no end, and a pipe cannot be read twice. CLI_OK if there is no file, too. */
static int open_lines(struct lines *l, const char *mode)
{
    struct stat st;
    l->f = fopen(l->path, mode);
    if (!l->f)
        return errno == ENOENT ? CLI_OK : cli_fail("%s: %s", l->path, strerror(errno));
    if (fstat(fileno(l->f), &st) != 0 || !S_ISREG(st.st_mode))
        return cli_fail("%s: is not a regular file", l->path);
    return CLI_OK;
}

/* After next_line. */
static int check_end(const struct lines *l)
{
    return feof(l->f) ? CLI_OK : cli_fail("%s: %s", l->path, strerror(errno));
}

static void rewind_lines(struct lines *l)
{
    rewind(l->f);
    l->at = 0;
}

static bool is_blank(const struct lines *l) { return strspn(l->p, " \t\r") == l->n; }

static void close_lines(struct lines *l)
{
    if (l->f)
        fclose(l->f);
    free(l->p);
}

static int fail_at(const struct lines *l, const char *why)
{
    return cli_fail("%s:%zu: %s", l->path, l->at, why);
}

/* ---- the replies that are there */

static const char *id_of(const json_t *line)
{
    const json_t *id = json_object_get(line, "custom_id");
    const char *text = json_string_value(id);
    return text && *text && strlen(text) == json_string_length(id) ? text : NULL;
}

static const char beginning[] = "{\"id\":\"batch_req_"; /* of each reply */

/* Whether the current line, which has no newline, is a part of a reply: the program ended while it
   was written. */
static bool is_part(const struct lines *l)
{
    size_t n = sizeof beginning - 1;
    return memcmp(l->p, beginning, l->n < n ? l->n : n) == 0;
}

/* Opens the output if it is there, and notes the replies in it. A part of a reply at its end is
   removed. */
static int open_output(struct batch *b)
{
    struct lines *l = &b->out;
    char why[FIELDS_WHY];
    off_t end = 0;
    bool joins = false; /* the last line has no newline */
    int status = open_lines(l, "r+b");
    if (status != CLI_OK || !l->f)
        return status;
    while (next_line(l)) {
        if (!l->whole && is_part(l))
            break;
        json_t *line = json_body(l->p, l->n, why);
        const char *id = id_of(line);
        bool good = id && json_object_set_new(b->ids, id, json_true()) == 0;
        json_decref(line);
        if (!good)
            return fail_at(l, "this is no reply of tuffet batch: name another file with -o");
        end = ftello(l->f);
        joins = !l->whole;
    }
    if (l->whole && check_end(l) != CLI_OK)
        return CLI_FAILED;
    if (fseeko(l->f, end, SEEK_SET) != 0 || ftruncate(fileno(l->f), end) != 0 ||
        (joins && fputc('\n', l->f) == EOF))
        return cli_fail("%s: %s", l->path, strerror(errno));
    return CLI_OK;
}

/* ---- the requests */

/* The route of that name; NULL: a batch does not have it. */
static const char *route_of(const char *url)
{
    static const char *const all[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                      "/v1/responses"};
    for (size_t i = 0; url && i < sizeof all / sizeof *all; i++)
        if (strcmp(url, all[i]) == 0)
            return all[i];
    return NULL;
}

/* NULL: the line is a request. */
static const char *fault_of(const json_t *line)
{
    const char *method = json_string_value(json_object_get(line, "method"));
    const json_t *body = json_object_get(line, "body"), *stream = json_object_get(body, "stream");
    if (!id_of(line))
        return "custom_id must be a text, and not empty";
    if (!method || strcmp(method, "POST") != 0)
        return "method must be POST";
    if (!route_of(json_string_value(json_object_get(line, "url"))))
        return "url must be /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses";
    if (!json_is_object(body))
        return "body must be an object";
    return stream && !json_is_null(stream) && !json_is_false(stream) ? "a batch has no streams"
                                                                     : NULL;
}

/* Checks the current line. Notes its custom_id, if it has no reply yet. */
static int check(struct batch *b, json_t *seen)
{
    char why[FIELDS_WHY];
    json_t *line = json_body(b->in.p, b->in.n, why);
    const char *fault = line                    ? fault_of(line)
                        : strstr(why, "is not") ? "the line is not a JSON object"
                                                : why;
    const char *id = fault ? NULL : id_of(line);
    if (id && json_object_get(seen, id))
        fault = "another line has this custom_id";
    bool replied = id && json_object_get(b->ids, id);
    b->n++;
    b->n_replies += replied;
    if (!fault && (json_object_set_new(seen, id, json_true()) != 0 ||
                   (!replied && json_object_set_new(b->ids, id, json_false()) != 0)))
        fault = "out of memory";
    int status = fault ? fail_at(&b->in, fault) : CLI_OK;
    json_decref(line);
    return status;
}

/* Checks all requests before the first one is answered. */
static int open_input(struct batch *b)
{
    json_t *seen = json_object();
    int status = open_lines(&b->in, "rb");
    if (!b->in.f && status == CLI_OK)
        status = cli_fail("%s: %s", b->in.path, strerror(ENOENT));
    while (status == CLI_OK && next_line(&b->in))
        if (!is_blank(&b->in))
            status = check(b, seen);
    json_decref(seen);
    if (status == CLI_OK)
        status = check_end(&b->in);
    if (status == CLI_OK)
        rewind_lines(&b->in);
    return status;
}

/* ---- replies */

static void fail_output(struct batch *b, const char *why)
{
    if (!b->failed)
        cli_fail("%s: %s", b->out.path, why);
    b->failed = true;
}

static void write_reply(struct batch *b, const char *id, int code, const char *p, size_t n)
{
    struct cli_text t = {0};
    char name[NAME_ROOM], head[160];
    name_make(name, "", 16);
    snprintf(head, sizeof head, "%s%s\",\"custom_id\":", beginning, name);
    bool good = cli_text_append(&t, head, strlen(head)) && cli_text_json(&t, id, strlen(id));
    snprintf(head, sizeof head,
             ",\"response\":{\"status_code\":%d,\"request_id\":\"req_%s\",\"body\":", code, name);
    good = good && cli_text_append(&t, head, strlen(head)) && cli_text_append(&t, p, n) &&
           cli_text_append(&t, "},\"error\":null}\n", 16);
    if (!good)
        fail_output(b, "out of memory");
    else if (fwrite(t.p, 1, t.n, b->out.f) != t.n || fflush(b->out.f) != 0)
        fail_output(b, strerror(errno));
    free(t.p);
}

/* Whether the same request may get another reply next time: memory was short. */
static bool is_of_server(int code) { return code == 500 || code == 503 || code == 429; }

/* exchange.take. The handler may still use the task until it returns. */
static void take(struct exchange *x, int code, const char *p, size_t n)
{
    struct task *t = (struct task *)(void *)x;
    struct batch *b = t->b;
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    t->next = b->ended;
    b->ended = t;
    b->running--;
    if (b->stopping || b->failed)
        return;
    if (is_of_server(code)) {
        b->n_lost++;
        cli_fail("%s: the request %s has no reply: %.*s", b->in.path, t->id,
                 (int)(n < 300 ? n : 300), p);
        return;
    }
    b->n_replies++;
    b->n_errors += code >= 400;
    write_reply(b, t->id, code, p, n);
}

static void free_ended(struct batch *b)
{
    lost_watch(NULL);
    for (struct task *t = b->ended, *next; t; t = next) {
        next = t->next;
        lost_forget(&t->x.lost);
        json_decref(t->x.body);
        free(t->id);
        free(t);
    }
    b->ended = NULL;
}

/* ---- the work */

/* Called by the engine's thread. */
static void wake(void *user)
{
    struct batch *b = user;
    pthread_mutex_lock(&b->lock);
    b->woken = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

/* Waits for items of the engine, but not for long: Ctrl-C may come. */
static void await(struct batch *b)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&b->lock);
    if (!b->woken)
        pthread_cond_timedwait(&b->wake, &b->lock, &until);
    b->woken = false;
    pthread_mutex_unlock(&b->lock);
}

/* Begins to answer the request of a line, and takes the line. */
static void begin(struct batch *b, json_t *line)
{
    struct task *t = calloc(1, sizeof *t);
    char *id = strdup(id_of(line));
    if (!t || !id) {
        free(t);
        free(id);
        fail_output(b, "out of memory");
        return;
    }
    const char *url = route_of(json_string_value(json_object_get(line, "url")));
    *t = (struct task){.b = b, .id = id, .next = b->open, .at = &b->open};
    t->x = (struct exchange){.server = b->s,
                             .dialect = route_dialect(url),
                             .path = url,
                             .body = json_incref(json_object_get(line, "body")),
                             .take = take};
    if (t->next)
        t->next->at = &t->next;
    b->open = t;
    b->running++;
    lost_watch(&t->x.lost);
    route(&t->x, "POST", url);
    lost_watch(NULL);
}

/* Begins the next request without a reply. False: there is none. */
static bool begin_next(struct batch *b)
{
    char why[FIELDS_WHY];
    while (next_line(&b->in)) {
        json_t *line = is_blank(&b->in) ? NULL : json_body(b->in.p, b->in.n, why);
        const char *id = id_of(line);
        bool waits = id && json_is_false(json_object_get(b->ids, id));
        if (waits)
            begin(b, line);
        json_decref(line);
        if (waits)
            return true;
    }
    return false;
}

/* Keeps twice as many requests under way as there are slots, so that none waits for work. */
static void work(struct batch *b)
{
    struct cli_progress progress;
    bool more = true;
    cli_progress_begin(&progress, "batch");
    while (!b->failed && !cli_interrupted()) {
        while (more && !b->failed && b->running < (size_t)b->s->o.n_slots * 2)
            more = begin_next(b);
        free_ended(b);
        if (!b->running && !more)
            break;
        await(b);
        engine_take((*b->s->models)->engine);
        free_ended(b);
        cli_progress_at(&progress, (double)(b->n_replies + b->n_lost) / (double)b->n);
    }
    cli_progress_end(&progress);
    b->stopping = true;
}

static void print_end(const struct batch *b)
{
    if (b->s->o.json)
        printf("{\"requests\":%zu,\"replies\":%zu,\"new_errors\":%zu}\n", b->n, b->n_replies,
               b->n_errors);
    else
        printf("%s: %zu of %zu replies, %zu new ones are errors\n", b->out.path, b->n_replies, b->n,
               b->n_errors);
}

static int answer_all(struct batch *b)
{
    struct server *s = b->s;
    const struct served_options o = {.n_slots = s->o.n_slots,
                                     .n_queue = s->o.n_queue,
                                     .pooling = s->o.pooling,
                                     .store = s->o.store,
                                     .wake = wake,
                                     .user = b};
    int status = served_open(*s->models, &o);
    cli_catch_interrupts();
    if (status == CLI_OK)
        work(b);
    served_close(*s->models);
    free_ended(b);
    kept_free(&s->kept);
    if (status != CLI_OK || b->failed)
        return CLI_FAILED;
    print_end(b);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    return b->n_lost ? cli_fail("%zu requests have no reply: run the command again", b->n_lost)
                     : CLI_OK;
}

int batch_run(struct server *s, const char *in, const char *out)
{
    struct batch b = {.s = s,
                      .in.path = in,
                      .out.path = out,
                      .ids = json_object(),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .wake = PTHREAD_COND_INITIALIZER};
    lost_begin();
    int status = open_output(&b);
    if (status == CLI_OK)
        status = open_input(&b);
    if (status == CLI_OK && !b.out.f && !(b.out.f = fopen(out, "wb")))
        status = cli_fail("%s: %s", out, strerror(errno));
    if (status == CLI_OK)
        status = answer_all(&b);
    close_lines(&b.in);
    close_lines(&b.out);
    json_decref(b.ids);
    return status;
}
