#include "tools/quantize/command_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/write/in_place.h"

enum { TRIAL_TOKENS = 2048 }; /* calibration tokens of a trial model */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

/* Returns the exit status of a step whose bar ends now. */
static int end_step(struct cli_progress *bar, enum tft_status status, bool stopped,
                    const struct tft_error *err)
{
    cli_progress_end(bar);
    return status != TFT_OK ? cli_fail("%s", err->msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

bool command_check_has_text(const struct command_text *t)
{
    return t->group[CHECK_CONVERSATION].n_windows + t->group[CHECK_TEXT].n_windows > 0;
}

/* Whether the windows and their starts have the same tokens. */
static bool is_same(const struct check_text *a, const struct check_text *b)
{
    size_t n = (size_t)a->n_windows * a->window;
    return a->n_windows == b->n_windows && a->window == b->window && a->n_start == b->n_start &&
           memcmp(a->start, b->start, a->n_start * sizeof *a->start) == 0 &&
           (!n || memcmp(a->ids, b->ids, n * sizeof *a->ids) == 0);
}

static void free_texts(struct command_check *c)
{
    for (int g = 0; g < CHECK_GROUPS; g++) {
        free(c->ids[g]);
        free(c->start[g]);
        c->ids[g] = c->start[g] = NULL;
    }
}

/* Copies the texts, which t changes with the next prefix. */
static bool copy_texts(struct command_check *c, const struct command_text *t,
                       struct check_text to[CHECK_GROUPS])
{
    free_texts(c);
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const struct check_text *from = &t->group[g];
        size_t n = (size_t)from->n_windows * from->window;
        c->ids[g] = malloc((n + 1) * sizeof *c->ids[g]);
        c->start[g] = malloc((from->n_start + 1) * sizeof *c->start[g]);
        if (!c->ids[g] || !c->start[g])
            return false;
        memcpy(c->ids[g], from->ids, n * sizeof *c->ids[g]);
        memcpy(c->start[g], from->start, from->n_start * sizeof *c->start[g]);
        to[g] = *from;
        to[g].ids = c->ids[g];
        to[g].start = c->start[g];
    }
    return true;
}

int command_check_open(struct command_check *c, struct tft_model *m, const struct command_text *t)
{
    struct cli_progress bar;
    struct check_how how = {(int)cli_model_options.threads, progress, &bar};
    struct check_text text[CHECK_GROUPS];
    struct tft_error err;
    bool stopped, same = c->open;
    for (int g = 0; g < CHECK_GROUPS && same; g++)
        same = is_same(&c->floats.text[g], &t->group[g]);
    if (same)
        return CLI_OK;
    check_close(&c->floats);
    c->open = false;
    if (!copy_texts(c, t, text))
        return cli_fail("out of memory");
    cli_progress_begin(&bar, "running the float model");
    enum tft_status status = check_open(&c->floats, m, text, &how, &stopped, &err);
    c->open = status == TFT_OK && !stopped;
    return end_step(&bar, status, stopped, &err);
}

void command_check_free(struct command_check *c)
{
    check_close(&c->floats);
    free_texts(c);
    *c = (struct command_check){0};
}

int command_check_file(struct command_check *c, const char *path, const char *title, int n_threads)
{
    struct cli_progress bar;
    struct check_how how = {n_threads, progress, &bar};
    struct tft_error err;
    bool stopped;
    cli_progress_begin(&bar, title);
    enum tft_status status = check_file(&c->floats, path, &how, c->loss, &stopped, &err);
    return end_step(&bar, status, stopped, &err);
}

int command_check_store(const struct command_check *c, const char *path)
{
    struct tft_error err;
    return write_held_out(path, c->loss, &err) == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

/* ---- choosing a prefix */

double command_check_divergence(const struct command_check *c)
{
    const struct check_loss *loss = c->loss;
    double sum = 0;
    int n = 0;
    for (int g = 0; g < CHECK_GROUPS; g++)
        if (loss[g].tokens) {
            sum += loss[g].divergence;
            n++;
        }
    return n && !isnan(sum) ? sum / n : (double)INFINITY;
}

int command_check_try(struct command_check *c, struct tft_model *m, struct command_text *t,
                      const struct quantize_opts *from, const char *path,
                      const struct check_prefix *prefix, uint32_t n_start, const char *title)
{
    struct cli_progress bar;
    struct quantize_opts o = *from;
    struct tft_error err;
    bool stopped;
    struct quantize_input *result = malloc(tft_model_inputs(m) * sizeof *result);
    int status = result ? command_text_begin(t, prefix->token, prefix->n, 0, n_start)
                        : cli_fail("out of memory");
    if (status == CLI_OK)
        status = command_check_open(c, m, t);
    if (status == CLI_OK) {
        command_text_spread(t, TRIAL_TOKENS);
        o.text = t->ids;
        o.n_text = t->n;
        o.bits = NULL;
        o.kv = NULL;
        o.prefix = prefix->token;
        o.n_prefix = prefix->n;
        o.progress = progress;
        o.user = &bar;
        cli_progress_begin(&bar, title);
        enum tft_status made = quantize(m, path, &o, result, &stopped, &err);
        status = end_step(&bar, made, stopped, &err);
    }
    if (status == CLI_OK)
        status = command_check_file(c, path, title, o.n_threads);
    free(result);
    return status;
}
