#include "tools/quantize/command_tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/quantize/fold.h"
#include "tools/quantize/write/rewrite_model.h"

static struct {
    bool tune, calibrate;
    uint32_t epochs;
    float rate, lambda;
} opt = {.epochs = 2, .lambda = 0.01f};

const struct cli_option command_tune_option_list[] = {
    {0, "tune", CLI_FLAG, &opt.tune, NULL,
     "train the prefix to predict the text with little 8-bit error (CushionCache, section 4.2)"},
    {0, "calibrate", CLI_FLAG, &opt.calibrate, NULL,
     "train the prefix to bring layer outputs near the float model's (IntactKV, section 3.2)"},
    {0, "tune-epochs", CLI_COUNT, &opt.epochs, "N", "pass N times over the text"},
    {0, "tune-rate", CLI_REAL, &opt.rate, "R",
     "set the learning rate of AdamW (default 0.003; 0.0003 with --calibrate)"},
    {0, "tune-lambda", CLI_REAL, &opt.lambda, "L",
     "weight the 8-bit error by L in the loss of --tune"},
    {0},
};

int command_tune_check(void)
{
    if (opt.tune && opt.calibrate)
        return cli_usage("--tune and --calibrate exclude each other");
    return CLI_OK;
}

static bool is_wanted(void) { return opt.tune || opt.calibrate; }

int command_tune_look(const struct tft_model *m)
{
    struct tft_error err;
    return is_wanted() && tune_check(m, &err) != TFT_OK ? cli_fail("%s", err.msg) : CLI_OK;
}

/* The loss of --calibrate is flatter: the improvements are smaller than the noise of rounding. */
static float rate(void)
{
    return opt.rate > 0 ? opt.rate : opt.calibrate ? 0.0003f : 0.003f;
}

/* ---- before quantize() */

/* Stores the float model's output of block l over all windows: quantize_opts.outputs. */
static void store_outputs(void *user, uint32_t l, const float *x, size_t stride)
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

static int request_outputs(struct command_tune *t, struct quantize_opts *o)
{
    size_t bytes;
    if (tft_mul(o->n_text / o->window * o->window,
                (size_t)t->m->n_layer * t->m->n_embd * sizeof *t->float_outputs, &bytes))
        t->float_outputs = malloc(bytes);
    if (!t->float_outputs)
        return cli_fail(
            "out of memory for the outputs of %u layers over %zu tokens: lower --calib-tokens",
            t->m->n_layer, o->n_text);
    o->outputs = store_outputs;
    o->outputs_user = t;
    return CLI_OK;
}

int command_tune_begin(struct command_tune *t, const struct tft_model *m, struct quantize_opts *o,
                        const char **path)
{
    static const char suffix[] = ".untuned";
    if (!is_wanted())
        return CLI_OK;
    if (!o->n_prefix)
        return cli_usage(
            "there is no prefix to tune: --intact, --intact-tokens or --cushion makes one");
    if (o->n_text / o->window < 2)
        return cli_usage(
            "tuning needs at least two windows of text: --calib-tokens %zu, --calib-window %u",
            o->n_text, o->window);
    t->m = m;
    t->o = o;
    t->type = o->prefix_type;
    o->prefix_type = TFT_F16;
    t->untuned = malloc(strlen(*path) + sizeof suffix);
    if (!t->untuned || (!o->values && !quantize_values_open(&t->values, m)))
        return cli_fail("out of memory");
    o->values = o->values ? o->values : &t->values;
    strcpy(t->untuned, *path);
    strcat(t->untuned, suffix);
    *path = t->untuned;
    return opt.calibrate ? request_outputs(t, o) : CLI_OK;
}

/* ---- after quantize() */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int train(struct command_tune *t)
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
    enum tft_status status = tune(t->made, &o, &t->result, &stopped, &err);
    cli_progress_end(&bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

static const char *loss_name(void)
{
    return opt.calibrate ? "layer outputs" : "prediction";
}

/* Opens the file that quantize() made, and removes it: it stays mapped, and nothing is left if the
   process is killed. */
static int open_made(struct command_tune *t)
{
    struct tft_error err;
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = cli_model_options.tokenizer};
    if (tft_model_open(&t->made, t->untuned, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    remove(t->untuned);
    return CLI_OK;
}

static void close_made(struct command_tune *t)
{
    tft_model_close(t->made);
    t->made = NULL;
}

int command_tune_run(struct command_tune *t, struct quantize_opts *o, bool *again)
{
    *again = false;
    if (!t->untuned)
        return CLI_OK;
    if (t->too_large)
        return cli_fail(
            "%s: a layer's output exceeds f16, which --calibrate stores: try --rotate all",
            t->m->source.name);
    int status = open_made(t);
    if (status == CLI_OK)
        status = train(t);
    free(t->float_outputs);
    t->float_outputs = NULL;
    o->outputs = NULL;
    /* weights of few bits would be rounded anew, but the prefix was trained with the old rounding:
       on two of three texts this cost more than it gained (docs/accuracy.md) */
    if (status != CLI_OK || !t->result.kept || quantize_low_bits(o, 0, t->m->n_layer))
        return status;
    close_made(t);
    if (!fold_restore_rows(t->m, o, t->result.v))
        return cli_fail("out of memory");
    o->rows_k = t->result.k;
    o->rows_v = t->result.v;
    *again = true;
    return CLI_OK;
}

static int write_tuned(const struct command_tune *t, const char *path)
{
    struct tft_error err;
    const struct tune_result *r = &t->result;
    bool again = t->o->rows_k; /* then r has the float model's values */
    struct rewrite touch = {
        .k = again ? t->made->prefix_k : r->k,
        .v = again ? t->made->prefix_v : r->v,
        .type = t->type,
        .loss = loss_name(),
        .lambda = opt.calibrate ? 0 : opt.lambda,
        .rate = rate(),
        .epochs = opt.epochs,
        .validation = r->validation,
        .n_validation = r->n_validation,
        .kept = r->kept,
    };
    return rewrite_model(t->made, path, &touch, &err) == TFT_OK ? CLI_OK
                                                                : cli_fail("%s", err.msg);
}

int command_tune_finish(struct command_tune *t, const char *path)
{
    if (!t->untuned)
        return CLI_OK;
    int status = t->made ? CLI_OK : open_made(t);
    if (status == CLI_OK)
        status = write_tuned(t, path);
    close_made(t);
    return status;
}

void command_tune_free(struct command_tune *t)
{
    if (t->untuned)
        remove(t->untuned);
    free(t->untuned);
    free(t->float_outputs);
    tft_model_close(t->made);
    quantize_values_close(&t->values);
    tune_free(&t->result);
}

/* ---- the report */

void command_tune_report(const struct command_tune *t)
{
    const struct tune_result *r = &t->result;
    if (!r->n_validation)
        return;
    fprintf(stderr, "tuning: %s on held-out text %.4g -> %.4g",
            opt.calibrate ? "squared error" : "loss", (double)r->validation[0],
            (double)r->validation[r->kept]);
    if (r->kept)
        fprintf(stderr, ", after %.1f of %u epochs\n",
                (double)r->kept * opt.epochs / (r->n_validation - 1), (unsigned)opt.epochs);
    else
        fputs(": no step was better than the prefix before tuning, which is kept\n", stderr);
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
            fputs("null", stdout); /* JSON has no NaN or infinity */
    }
    fputs("]}", stdout);
}
