/* The report on activations as three drawings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "activations_report.h"
#include "plot.h"
#include "tools/cli/cli.h"

/* [n_runs] the titles of the panels of a drawing. title, only: buffer for the title of a single
   panel. */
static const char *const *panel_titles(const struct report *r, char title[256], const char *only[1])
{
    static const char *const both[RUNS] = {"without the prefix", "with the prefix"};
    snprintf(title, 256, "%s, %u tokens", drawing_file_name(r->o->text),
             r->run[0].n_window * r->window);
    only[0] = title;
    return r->n_runs == RUNS ? both : only;
}

/* The numbers of each block's input. Returns false if out of memory, as the other two drawings. */
static bool draw_magnitudes(const struct report *r, FILE *f)
{
    static const char *const series[] = {"top-1", "top-2", "top-3", "top 10 %", "median"};
    enum { SERIES = sizeof series / sizeof *series };
    char title[256], panel_title[256];
    const char *only[1];
    size_t n = r->m->n_layer;
    double *y = calloc(n, RUNS * SERIES * sizeof *y);
    if (!y)
        return false;
    for (int run = 0; run < r->n_runs; run++)
        for (size_t l = 0; l < n; l++) {
            const struct activations_input *in = &r->run[run].stream[l];
            const double all[SERIES] = {in->top[0], in->top[1], in->top[2], in->tenth, in->median};
            for (size_t i = 0; i < SERIES; i++)
                y[((size_t)run * SERIES + i) * n + l] = all[i];
        }
    snprintf(title, sizeof title, "Inputs of the blocks of %s", drawing_file_name(r->model_path));
    plot_lines(f, &(struct plot_lines){.title = title,
                                       .x_title = "block",
                                       .y_title = "magnitude",
                                       .name = series,
                                       .n_series = SERIES,
                                       .panel = panel_titles(r, panel_title, only),
                                       .n_panels = (size_t)r->n_runs,
                                       .n = n,
                                       .y = y});
    free(y);
    return true;
}

/* The label of a token's bar, which the caller frees: the token's text, in quotes if it is all
   spaces; also its position if the token stands out. NULL if out of memory. */
static char *bar_label(const struct report *r, int run, uint32_t position)
{
    struct cli_text label = {0};
    char before[16];
    size_t n;
    const char *p = tft_token_text(r->m, report_token(&r->run[run], 0, position), true, &n);
    bool blank = n > 0;
    for (size_t i = 0; i < n; i++)
        blank &= p[i] == ' ';
    int len = r->pivot[run][position] ? snprintf(before, sizeof before, "%u: ", position) : 0;
    if (cli_text_append(&label, before, (size_t)len) && cli_text_append(&label, "\"", blank) &&
        cli_text_escaped(&label, p, n) && cli_text_append(&label, blank ? "\"" : "", 1 + blank))
        return label.p;
    free(label.p);
    return NULL;
}

enum { BARS = 56 }; /* the first tokens; more would not fit */

/* The bars of one run. Returns false if out of memory. */
static bool fill_bars(const struct report *r, int run, struct plot_bar *bar, size_t n)
{
    const struct activations *a = &r->run[run];
    for (uint32_t i = 0; i < n; i++) {
        bar[i].y = (double)a->token_top[(size_t)r->worst * a->window + i];
        bar[i].marked = r->pivot[run][i];
        bar[i].label = bar_label(r, run, i);
        if (!bar[i].label)
            return false;
    }
    return true;
}

/* The first tokens at the input of the worst block. */
static bool draw_tokens(const struct report *r, FILE *f)
{
    struct plot_bar bar[RUNS][BARS] = {{{0}}};
    struct plot_bars_panel panel[RUNS];
    char title[256], panel_title[256];
    const char *only[1], *const *name = panel_titles(r, panel_title, only);
    bool done = true;
    for (int run = 0; run < r->n_runs; run++) {
        uint32_t first = r->run[0].window - r->run[run].window, n = r->run[run].window;
        n = n < BARS - first ? n : BARS - first;
        panel[run] = (struct plot_bars_panel){name[run], bar[run], n, first};
        done = done && fill_bars(r, run, bar[run], n);
    }
    snprintf(title, sizeof title, "The largest number of each token at the input of block %u of %s",
             r->worst, drawing_file_name(r->model_path));
    if (done)
        plot_bars(f, &(struct plot_bars){title, "magnitude", panel, (size_t)r->n_runs});
    for (int i = 0; i < RUNS * BARS; i++)
        free((char *)(uintptr_t)bar[i / BARS][i % BARS].label);
    return done;
}

/* The share of attention that the first token or the prefix receives, for each head. */
static bool draw_attention(const struct report *r, FILE *f)
{
    static const char *const panel[RUNS] = {"on the first token, without the prefix",
                                            "on the prefix"};
    static const char *const only[] = {"on the first token"};
    char title[256];
    size_t each = (size_t)r->m->n_layer * r->m->n_head;
    double *share = calloc(each, RUNS * sizeof *share);
    if (!share)
        return false;
    for (int run = 0; run < r->n_runs; run++)
        for (size_t i = 0; i < each; i++) /* cells of layers without attention stay empty */
            share[(size_t)run * each + i] = isnan(r->run[run].sink[i]) ? 0 : r->run[run].sink[i];
    snprintf(title, sizeof title, "Share of attention in %s", drawing_file_name(r->model_path));
    plot_heat(f, &(struct plot_heat){.title = title,
                                     .x_title = "head",
                                     .y_title = "block",
                                     .panel = r->n_runs == RUNS ? panel : only,
                                     .rows = r->m->n_layer,
                                     .columns = r->m->n_head,
                                     .n_panels = (size_t)r->n_runs,
                                     .share = share});
    free(share);
    return true;
}

static const struct {
    const char *suffix;
    bool (*draw)(const struct report *r, FILE *f);
} drawings[DRAWINGS] = {{"-magnitudes.svg", draw_magnitudes},
                        {"-tokens.svg", draw_tokens},
                        {"-attention.svg", draw_attention}};

/* ---- files */

int report_begin_drawings(struct drawing d[DRAWINGS], const char *prefix)
{
    int status = CLI_OK;
    for (int i = 0; i < DRAWINGS && status == CLI_OK; i++)
        status = drawing_begin(&d[i], prefix, drawings[i].suffix);
    return status;
}

int report_draw(const struct report *r, struct drawing d[DRAWINGS])
{
    int status = CLI_OK;
    for (int i = 0; i < DRAWINGS && status == CLI_OK; i++)
        status = drawings[i].draw(r, d[i].file) ? drawing_finish(&d[i]) : cli_fail("out of memory");
    return status;
}

void report_end_drawings(struct drawing d[DRAWINGS])
{
    for (int i = 0; i < DRAWINGS; i++)
        drawing_end(&d[i]);
}
