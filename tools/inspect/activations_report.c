#include "activations_report.h"

#include <stdlib.h>

#include "tools/cli/cli.h"

/* The model of a run. */
static const struct tft_model *model_of(const struct report *r, int run)
{
    return r->n_runs == RUNS && run == WITHOUT_PREFIX ? &r->bare : r->m;
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
        status = activations_run(&r->run[p.run], model_of(r, p.run), &o, &stopped, &err);
    cli_progress_end(&p.bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static int find_pivots(struct report *r)
{
    r->worst = activations_worst(&r->run[WITHOUT_PREFIX]);
    for (int i = 0; i < r->n_runs; i++) {
        r->pivot[i] = calloc(r->run[i].window, sizeof **r->pivot);
        if (!r->pivot[i])
            return cli_fail("out of memory");
        activations_pivots(&r->run[i], r->worst, r->pivot[i]);
    }
    return CLI_OK;
}

/* Runs, draws and prints. */
static int make_report(struct report *r)
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
        (r->o->json ? report_print_json : report_print_text)(r);
    return status;
}

/* Chooses a window that both runs have room for: --ctx tokens, including BOS if the text begins
   with it. */
static int choose_window(struct report *r)
{
    enum { USUAL = 512 };
    const struct tft_model *m = r->m;
    uint32_t bos = activations_bos(model_of(r, WITHOUT_PREFIX)), ctx = cli_session_options.ctx,
             before = m->n_prefix + activations_bos(m); /* tokens before the text */
    uint32_t room = m->n_ctx - (before > bos ? before : bos);
    uint32_t wanted = ctx > bos ? ctx - bos : USUAL - bos;
    if (ctx && (wanted > room || ctx < 2 + bos))
        return cli_fail("%s: --ctx %u is not a window that the model can read: use %u to %u",
                        r->model_path, ctx, 2 + bos, room + bos);
    r->window = wanted < room ? wanted : room;
    if (r->window > r->n_ids)
        r->window = (uint32_t)r->n_ids;
    return r->window >= 2 ? CLI_OK
                          : cli_fail("%s: a window of %u tokens is too short: the report needs 2 "
                                     "tokens of text",
                                     r->o->text, r->window);
}

static int prepare(struct report *r, const char *text, size_t len)
{
    r->n_runs = r->m->n_prefix ? RUNS : 1;
    if (r->n_runs == RUNS && !activations_bare(&r->bare, r->m))
        return cli_fail("out of memory");
    r->ids = cli_tokenize(r->m, text, len, 0, &r->n_ids);
    if (!r->ids)
        return CLI_FAILED;
    r->n_ids = r->n_ids < r->o->tokens ? r->n_ids : r->o->tokens;
    int status = choose_window(r);
    return status == CLI_OK ? make_report(r) : status;
}

int report_activations(const char *model_path, const struct report_opts *o)
{
    struct report r = {.o = o, .model_path = model_path};
    size_t len;
    char *text = cli_read(o->text, &len);
    int status = text ? cli_open_model(&r.m, model_path, false) : CLI_FAILED;
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = prepare(&r, text, len);
    for (int i = 0; i < RUNS; i++) {
        activations_close(&r.run[i]);
        free(r.pivot[i]);
    }
    free(r.bare.layer);
    free(r.ids);
    free(text);
    tft_model_close(r.m);
    return status;
}
