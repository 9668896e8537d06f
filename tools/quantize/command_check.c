#include "tools/quantize/command_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/windows.h"
#include "tools/quantize/write/held_out.h"

/* Tokens that are kept out, and the part of a short text that may be; tokens that a model to choose
   by is calibrated with. */
enum { KEEP_TOKENS = 2048, KEEP_PART = 5, TRIAL_TOKENS = 2048 };

/* ---- keeping out */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many windows of `have` are kept out if `wanted` are for calibration. */
static size_t windows_to_keep(size_t have, size_t wanted, uint32_t window)
{
    size_t keep = (KEEP_TOKENS + window - 1) / window, unused = have > wanted ? have - wanted : 0;
    size_t most = have < KEEP_PART ? have / 3 : have / KEEP_PART; /* one window of three or four */
    if (window < 2)
        return 0; /* nothing is predicted in a window of one token */
    return unused >= keep ? keep : least(keep, most);
}

int command_check_keep_out(struct command_check *c, int32_t *ids, size_t *n, uint32_t window,
                           size_t wanted)
{
    size_t have = *n / window, keep = windows_to_keep(have, wanted / window, window), to = 0;
    c->text = (struct check_text){.window = window};
    c->ids = malloc((keep * window + 1) * sizeof *c->ids);
    if (!c->ids)
        return cli_fail("out of memory");
    for (size_t i = 0; i < have; i++) {
        /* windows that are spread evenly, none of them the first */
        bool kept = keep && (i + 1) * keep / have > i * keep / have;
        int32_t *at = kept ? c->ids + c->text.n_windows++ * (size_t)window : ids + to++ * window;
        memmove(at, ids + i * window, window * sizeof *ids);
    }
    c->text.ids = c->ids;
    *n = keep ? to * window : *n;
    return CLI_OK;
}

void command_check_begin_windows(struct command_check *c, int32_t bos)
{
    for (uint32_t i = 0; i < c->text.n_windows; i++)
        c->ids[(size_t)i * c->text.window] = bos;
}

void command_check_free(struct command_check *c)
{
    free(c->ids);
}

/* ---- measuring */

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

static int measure_file(const struct command_check *c, const char *path, const char *title,
                        int n_threads, double *nats)
{
    struct cli_progress bar;
    struct check_how how = {n_threads, progress, &bar};
    struct tft_error err;
    bool stopped;
    cli_progress_begin(&bar, title);
    enum tft_status status = check_file(path, &c->text, &how, nats, &stopped, &err);
    return end_step(&bar, status, stopped, &err);
}

/* ---- choosing a prefix */

/* Makes a model with the prefix, and measures it. from: its text is little. result: [inputs]
   scratch */
static int try_prefix(const struct command_check *c, struct tft_model *m,
                      const struct quantize_opts *from, const char *path,
                      struct check_prefix *prefix, struct quantize_input *result,
                      const char *title)
{
    struct cli_progress bar;
    struct quantize_opts o = *from;
    struct tft_error err;
    bool stopped;
    o.bits = NULL;
    o.kv = NULL;
    o.prefix = prefix->token;
    o.n_prefix = prefix->n;
    o.progress = progress;
    o.user = &bar;
    cli_progress_begin(&bar, title);
    enum tft_status status = quantize(m, path, &o, result, &stopped, &err);
    int code = end_step(&bar, status, stopped, &err);
    if (code == CLI_OK)
        code = measure_file(c, path, title, o.n_threads, &prefix->nats);
    if (isnan(prefix->nats))
        prefix->nats = (double)INFINITY;
    return code;
}

int command_check_choose(struct command_check *c, struct tft_model *m,
                         const struct quantize_opts *o, const char *path,
                         struct check_prefix *prefix, uint32_t n, uint32_t *best)
{
    static const char suffix[] = ".trial";
    char title[64], *trial = malloc(strlen(path) + sizeof suffix);
    struct quantize_input *result = malloc(tft_model_inputs(m) * sizeof *result);
    int32_t *text = malloc((o->n_text + 1) * sizeof *text);
    struct quantize_opts with = *o;
    int status = trial && result && text ? CLI_OK : cli_fail("out of memory");
    if (text) {
        memcpy(text, o->text, o->n_text * sizeof *text);
        with.text = text;
        with.n_text = quantize_spread_windows(text, o->n_text, o->window,
                                              (TRIAL_TOKENS + o->window - 1) / o->window);
    }
    *best = 0;
    for (uint32_t i = 0; i < n && status == CLI_OK; i++) {
        snprintf(title, sizeof title, "trying prefix %u of %u", (unsigned)i + 1, (unsigned)n);
        strcat(strcpy(trial, path), suffix);
        status = try_prefix(c, m, &with, trial, &prefix[i], result, title);
        remove(trial);
        if (prefix[i].nats < prefix[*best].nats)
            *best = i;
    }
    free(trial);
    free(result);
    free(text);
    return status;
}

/* ---- the finished file */

int command_check_finish(struct command_check *c, struct tft_model *m, const int32_t *start,
                         uint32_t n_start, const char *path, int n_threads)
{
    struct cli_progress bar;
    struct check_how how = {n_threads, progress, &bar};
    struct tft_error err;
    bool stopped;
    if (!c->text.n_windows)
        return CLI_OK;
    int code = measure_file(c, path, "checking", n_threads, &c->file);
    if (code != CLI_OK)
        return code;
    cli_progress_begin(&bar, "checking the model of floats");
    enum tft_status status =
        check_floats(m, start, n_start, &c->text, &how, &c->floats, &stopped, &err);
    code = end_step(&bar, status, stopped, &err);
    c->measured = code == CLI_OK;
    if (c->measured && write_held_out(path, c->floats, c->file, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    return code;
}

void command_check_report(const struct command_check *c)
{
    check_print(stderr, c->floats, c->file);
}

void command_check_json(const struct command_check *c)
{
    if (!c->measured) {
        fputs("null", stdout);
        return;
    }
    printf("{\"tokens\":%u", c->text.n_windows * (c->text.window - 1));
    cli_json_number("floats", c->floats);
    cli_json_number("file", c->file);
    cli_json_number("percent", check_percent(c->floats, c->file));
    fputs("}", stdout);
}
