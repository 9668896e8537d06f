#include "tools/quantize/command_tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/quantize/write/rewrite_model.h"

static struct {
    bool tune, calibrate;
    uint32_t epochs;
    float rate, lambda;
} opt = {.epochs = 2, .lambda = 0.01f};

const struct cli_option command_tune_option_list[] = {
    {0, "tune", CLI_FLAG, &opt.tune, NULL,
     "let the prefix learn to predict the text, and to lose little in 8 bits (CushionCache, "
     "section 4.2)"},
    {0, "calibrate", CLI_FLAG, &opt.calibrate, NULL,
     "let the prefix learn to bring what layers give near that of floats (IntactKV, section 3.2)"},
    {0, "tune-epochs", CLI_COUNT, &opt.epochs, "N", "how often it sees the text (2)"},
    {0, "tune-rate", CLI_REAL, &opt.rate, "R",
     "how far a step takes a number at most (0.003; 0.0003 with --calibrate)"},
    {0, "tune-lambda", CLI_REAL, &opt.lambda, "L",
     "weight of what 8 bits lose, with --tune (0.01)"},
    {0},
};

int command_tune_check(void)
{
    if (opt.tune && opt.calibrate)
        return cli_usage("--tune and --calibrate are two things to learn");
    return CLI_OK;
}

static bool wanted(void)
{
    return opt.tune || opt.calibrate;
}

/* The second loss is flatter: what it is after is smaller than the noise of rounding. */
static float rate(void)
{
    return opt.rate > 0 ? opt.rate : opt.calibrate ? 0.0003f : 0.003f;
}

/* ---- before */

/* What block l of the model of floats leaves of all windows, for quantize(). */
static void keep_outputs(void *user, uint32_t l, const float *x, size_t stride)
{
    struct command_tune *t = user;
    const struct tft_model *m = t->m;
    size_t window = t->o->window, n = t->o->n_text / window * window, d = m->n_embd;
    for (size_t i = 0; i < n; i++) {
        uint16_t *to =
            t->float_outputs + (i / window * m->n_layer + l) * window * d + i % window * d;
        m->kern.narrow[TFT_NUM_F16](to, x + i * stride, d);
        for (size_t j = 0; j < d; j++)
            t->too_large |= (to[j] & 0x7c00) == 0x7c00;
    }
}

static int take_outputs(struct command_tune *t, struct quantize_opts *o)
{
    size_t bytes;
    if (tft_mul(o->n_text / o->window * o->window,
                (size_t)t->m->n_layer * t->m->n_embd * sizeof *t->float_outputs, &bytes))
        t->float_outputs = malloc(bytes);
    if (!t->float_outputs)
        return cli_fail(
            "no memory for what %u layers give of %zu tokens: --calib-tokens takes fewer",
            t->m->n_layer, o->n_text);
    o->outputs = keep_outputs;
    o->outputs_user = t;
    return CLI_OK;
}

int command_tune_begin(struct command_tune *t, const struct tft_model *m, struct quantize_opts *o,
                        const char **path)
{
    static const char suffix[] = ".untuned";
    if (!wanted())
        return CLI_OK;
    if (!o->n_prefix)
        return cli_usage(
            "there is no prefix to be tuned: --intact, --intact-tokens and --cushion make one");
    if (o->n_text / o->window < 2)
        return cli_usage(
            "tuning takes two windows of text at least: --calib-tokens %zu, --calib-window %u",
            o->n_text, o->window);
    t->m = m;
    t->o = o;
    t->type = o->prefix_type;
    o->prefix_type = TFT_F16;
    t->untuned = malloc(strlen(*path) + sizeof suffix);
    if (!t->untuned)
        return cli_fail("no memory");
    strcpy(t->untuned, *path);
    strcat(t->untuned, suffix);
    *path = t->untuned;
    return opt.calibrate ? take_outputs(t, o) : CLI_OK;
}

/* ---- after */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int learn(struct command_tune *t, const struct tft_model *m)
{
    struct cli_progress bar;
    struct tft_error err;
    bool stopped;
    struct tune_opts o = {
        .text = t->o->text,
        .n_windows = (uint32_t)(t->o->n_text / t->o->window),
        .window = t->o->window,
        .float_outputs = t->float_outputs,
        .epochs = opt.epochs,
        .rate = rate(),
        .lambda = opt.lambda,
        .n_threads = t->o->n_threads,
        .progress = progress,
        .user = &bar,
    };
    cli_progress_begin(&bar, "tuning");
    enum tft_status status = tune(m, &o, &t->result, &stopped, &err);
    cli_progress_end(&bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static const char *loss_name(void)
{
    return opt.calibrate ? "layer outputs" : "prediction";
}

static int write_tuned(const struct command_tune *t, const struct tft_model *m, const char *path)
{
    struct tft_error err;
    const struct tune_result *r = &t->result;
    struct rewrite touch = {
        .k = r->k,
        .v = r->v,
        .type = t->type,
        .loss = loss_name(),
        .lambda = opt.calibrate ? 0 : opt.lambda,
        .rate = rate(),
        .epochs = opt.epochs,
        .validation = r->validation,
        .n_validation = r->n_validation,
        .kept = r->kept,
    };
    return rewrite_model(m, path, &touch, &err) == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

int command_tune_finish(struct command_tune *t, const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    if (!t->untuned)
        return CLI_OK;
    if (t->too_large)
        return cli_fail("%s: a layer gives more than f16 can hold: --rotate all may help",
                        t->m->source.name);
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = cli_model_options.tokenizer};
    if (tft_model_open(&m, t->untuned, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = learn(t, m);
    if (status == CLI_OK)
        status = write_tuned(t, m, path);
    tft_model_close(m);
    return status;
}

void command_tune_free(struct command_tune *t)
{
    if (t->untuned)
        remove(t->untuned);
    free(t->untuned);
    free(t->float_outputs);
    tune_free(&t->result);
}

/* ---- the report */

void command_tune_report(const struct command_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation)
        return;
    fprintf(stderr, "tuning: %s, on text held out %.4g -> %.4g",
            opt.calibrate ? "squared error" : "loss", (double)r->validation[0],
            (double)r->validation[r->kept]);
    if (r->kept)
        fprintf(stderr, ", after %.1f of %u epochs\n",
                (double)r->kept * opt.epochs / (r->n_validation - 1), (unsigned)opt.epochs);
    else
        fputs(": no step did better than the prefix that was there, which is kept\n", stderr);
}

void command_tune_json(const struct command_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation) {
        fputs("null", stdout);
        return;
    }
    printf("{\"loss\":\"%s\",\"rate\":%.6g,\"epochs\":%u,\"kept\":%u,\"validation\":[", loss_name(),
           (double)rate(), (unsigned)opt.epochs, (unsigned)r->kept);
    for (uint32_t i = 0; i < r->n_validation; i++) {
        fputs(i ? "," : "", stdout);
        if (isfinite(r->validation[i]))
            printf("%.7g", (double)r->validation[i]);
        else
            fputs("null", stdout); /* JSON has no word for it */
    }
    fputs("]}", stdout);
}
