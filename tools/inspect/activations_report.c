#include "activations_report.h"

#include <stdlib.h>

#include "tools/cli/cli.h"
#include "report.h"

/* What a run runs. */
static const struct tft_model *model_of(const struct report *r, int run)
{
    return r->n_runs == RUNS && run == WITHOUT ? &r->bare : r->m;
}

struct progress {
    struct cli_progress bar;
    int run, n_runs;
};

static bool progress(void *user, double done)
{
    struct progress *p = user;
    cli_progress_at(&p->bar, (p->run + done) / p->n_runs);
    return !cli_interrupted();
}

static int run_all(struct report *r)
{
    struct activations_opts o = {.text = r->ids,
                                 .n_text = r->n_ids,
                                 .window = r->window,
                                 .kv = cli_session_options.kv,
                                 .n_threads = (int)cli_model_options.threads,
                                 .progress = progress};
    struct progress p = {.n_runs = r->n_runs};
    struct tft_error err;
    enum tft_status status = TFT_OK;
    bool stopped = false;
    o.user = &p;
    cli_progress_begin(&p.bar, "reading the text");
    for (; p.run < r->n_runs && status == TFT_OK && !stopped; p.run++)
        status = activations_run(&r->a[p.run], model_of(r, p.run), &o, &stopped, &err);
    cli_progress_end(&p.bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static int find_pivots(struct report *r)
{
    r->worst = activations_worst(&r->a[WITHOUT]);
    for (int i = 0; i < r->n_runs; i++) {
        r->pivot[i] = calloc(r->a[i].window, sizeof **r->pivot);
        if (!r->pivot[i])
            return cli_fail("no memory");
        activations_pivots(&r->a[i], r->worst, r->pivot[i]);
    }
    return CLI_OK;
}

/* Runs, draws, and says it. */
static int work(struct report *r)
{
    struct drawing drawing[DRAWINGS] = {{0}};
    int status = r->o->svg ? report_begin_drawings(drawing, r->o->svg) : CLI_OK;
    if (status == CLI_OK)
        status = run_all(r);
    if (status == CLI_OK)
        status = find_pivots(r);
    if (status == CLI_OK && r->o->svg)
        status = report_draw(r, drawing);
    report_end_drawings(drawing);
    if (status == CLI_OK)
        (r->o->json ? report_json : report_people)(r);
    return status;
}

/* Tokens of text in a window that both runs have room for: with BOS, if they begin with it, --ctx
   in all. */
static int choose_window(struct report *r)
{
    enum { USUAL = 512 };
    const struct tft_model *m = r->m;
    uint32_t bos = activations_bos(model_of(r, WITHOUT)), first = m->n_prefix + activations_bos(m),
             ctx = cli_session_options.ctx;
    uint32_t room = m->n_ctx - (first > bos ? first : bos);
    uint32_t wanted = ctx > bos ? ctx - bos : USUAL - bos;
    if (ctx && (wanted > room || ctx < 2 + bos))
        return cli_fail("%s: windows of --ctx %u tokens: not within %u .. %u", r->path, ctx,
                        2 + bos, room + bos);
    r->window = wanted < room ? wanted : room;
    if (r->window > r->n_ids)
        r->window = (uint32_t)r->n_ids;
    return r->window >= 2
               ? CLI_OK
               : cli_fail("%s: a window of %u tokens of text is too short", r->o->text, r->window);
}

static int prepare(struct report *r, const char *text, size_t len)
{
    r->n_runs = r->m->n_prefix ? RUNS : 1;
    if (r->n_runs == RUNS && !activations_bare(&r->bare, r->m))
        return cli_fail("no memory");
    r->ids = cli_tokenize(r->m, text, len, 0, &r->n_ids);
    if (!r->ids)
        return CLI_FAILED;
    r->n_ids = r->n_ids < r->o->tokens ? r->n_ids : r->o->tokens;
    int status = choose_window(r);
    return status == CLI_OK ? work(r) : status;
}

int activations_report(const char *model, const struct activations_report_opts *o)
{
    struct report r = {.o = o, .path = model};
    size_t len;
    char *text = cli_read(o->text, &len);
    int status = text ? cli_open_model(&r.m, model, false) : CLI_FAILED;
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = prepare(&r, text, len);
    for (int i = 0; i < RUNS; i++) {
        activations_close(&r.a[i]);
        free(r.pivot[i]);
    }
    free(r.bare.block);
    free(r.ids);
    free(text);
    tft_model_close(r.m);
    return status;
}
