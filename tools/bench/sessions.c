#include "sessions.h"

#include <stdlib.h>

#include "port/port.h"
#include "tools/cli/cli.h"

/* A prompt is fed in pieces of this many tokens, so that sessions have few rows. */
enum { PIECE = 64 };

struct group {
    const struct sessions_opts *o;
    struct tft_session **session; /* [n] */
    struct tft_step *step;        /* [n] */
    struct tft_batch *batch;
    size_t bytes; /* taken from the allocator */
};

static void *take(void *user, size_t size, size_t align)
{
    *(size_t *)user += size;
    return tft_port_alloc(size, align);
}

static void give(void *user, void *p, size_t size)
{
    (void)user;
    (void)size;
    tft_port_free(p);
}

static void close_group(struct group *g)
{
    tft_batch_close(g->batch);
    for (uint32_t i = 0; g->session && i < g->o->n; i++)
        tft_session_close(g->session[i]);
    free(g->session);
    free(g->step);
}

static int open_group(struct group *g, const struct tft_allocator *a)
{
    const struct sessions_opts *o = g->o;
    struct tft_error err;
    struct tft_batch_opts bo = {.size = sizeof bo,
                                .allocator = a,
                                .n_sessions = o->n,
                                .n_tokens = o->n > PIECE ? o->n : PIECE,
                                .n_threads = o->threads};
    g->session = calloc(o->n, sizeof(struct tft_session *));
    g->step = calloc(o->n, sizeof *g->step);
    if (!g->session || !g->step)
        return cli_fail("out of memory");
    if (tft_batch_open(&g->batch, o->m, &bo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    for (uint32_t i = 0; i < o->n; i++) {
        struct tft_session_opts so = {
            .allocator = a, .capacity = cli_context(o->depth + o->tokens), .n_batch = PIECE};
        if (cli_open_session(&g->session[i], o->m, &so) != CLI_OK)
            return CLI_FAILED;
    }
    return CLI_OK;
}

/* Each session then has exactly the first `depth` tokens. */
static int begin(struct group *g)
{
    for (uint32_t i = 0; i < g->o->n; i++) {
        struct tft_session *s = g->session[i];
        enum tft_status status =
            g->o->depth ? cli_sync(s, g->o->ids, g->o->depth) : tft_rewind(s, 0);
        if (status != TFT_OK)
            return cli_fail_session(s);
        if (cli_interrupted())
            return CLI_INTERRUPTED;
        tft_prompt_end(s);
    }
    return CLI_OK;
}

static int generate(struct group *g)
{
    const struct sessions_opts *o = g->o;
    for (uint32_t t = 0; t < o->tokens; t++) {
        if (cli_interrupted())
            return CLI_INTERRUPTED;
        for (uint32_t i = 0; i < o->n; i++)
            g->step[i] = (struct tft_step){
                .session = g->session[i], .tokens = o->ids + o->depth + t, .n = 1};
        tft_step(g->batch, g->step, o->n);
        for (uint32_t i = 0; i < o->n; i++)
            if (g->step[i].status != TFT_OK)
                return cli_fail_session(g->session[i]);
    }
    return CLI_OK;
}

int time_sessions(double *seconds, size_t *bytes, uint32_t runs, const struct sessions_opts *o)
{
    struct group g = {.o = o};
    struct tft_allocator a = {.user = &g.bytes, .alloc = take, .free = give};
    int status = open_group(&g, &a);
    for (uint32_t r = 0; r < runs + 1 && status == CLI_OK; r++) { /* the first is a warm-up */
        if (r)
            samples_between(o->limits);
        status = begin(&g);
        uint64_t start = cli_ns();
        if (status == CLI_OK)
            status = generate(&g);
        if (r)
            seconds[r - 1] = (double)(cli_ns() - start) / 1e9;
    }
    *bytes = g.bytes;
    close_group(&g);
    return status;
}
