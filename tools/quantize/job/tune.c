#include "tools/quantize/job/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/quantize/fold.h"
#include "tools/quantize/write/rewrite_model.h"

static bool is_wanted(const struct job *j) { return j->o->tune != TFT_TUNE_NONE; }

enum tft_status job_tune_look(struct job *j)
{
    return is_wanted(j) ? tune_check(j->m, j->err) : TFT_OK;
}

/* ---- before quantize() */

/* Stores the float model's output of block l over all windows: quantize_opts.outputs. */
static void store_outputs(void *user, uint32_t l, const float *x, size_t stride)
{
    struct job_tune *t = user;
    const struct tft_model *m = t->j->m;
    size_t window = t->o->window, n = t->o->n_text / window * window, d = m->n_embd;
    for (size_t i = 0; i < n; i++) {
        uint16_t *to =
            t->float_outputs + (i / window * m->n_layer + l) * window * d + i % window * d;
        m->kern.narrow[TFT_NUM_F16](to, x + i * stride, d);
        for (size_t j = 0; j < d; j++)
            t->too_large |= (to[j] & 0x7c00) == 0x7c00;
    }
}

static enum tft_status request_outputs(struct job_tune *t, struct quantize_opts *o)
{
    const struct tft_model *m = t->j->m;
    size_t bytes;
    if (tft_mul(o->n_text / o->window * o->window,
                (size_t)m->n_layer * m->n_embd * sizeof *t->float_outputs, &bytes))
        t->float_outputs = malloc(bytes);
    if (!t->float_outputs)
        return tft_fail(
            t->j->err, TFT_ERR_NOMEM,
            "out of memory for the outputs of %u layers over %zu tokens: lower --calib-tokens",
            m->n_layer, o->n_text);
    o->outputs = store_outputs;
    o->outputs_user = t;
    return TFT_OK;
}

enum tft_status job_tune_begin(struct job_tune *t, struct job *j, struct quantize_opts *o,
                               const char **path)
{
    static const char suffix[] = ".untuned";
    if (!is_wanted(j))
        return TFT_OK;
    if (!o->n_prefix)
        return job_misuse(
            j, "there is no prefix to tune: --intact, --intact-tokens or --cushion makes one");
    if (o->n_text / o->window < 2)
        return job_misuse(
            j, "tuning needs at least two windows of text: --calib-tokens %zu, --calib-window %u",
            o->n_text, o->window);
    t->j = j;
    t->o = o;
    t->type = o->prefix_type;
    o->prefix_type = TFT_F16;
    t->untuned = malloc(strlen(*path) + sizeof suffix);
    if (!t->untuned || (!o->values && !quantize_values_open(&t->values, j->m)))
        return job_no_memory(j);
    o->values = o->values ? o->values : &t->values;
    strcpy(t->untuned, *path);
    strcat(t->untuned, suffix);
    *path = t->untuned;
    return j->o->tune == TFT_TUNE_OUTPUTS ? request_outputs(t, o) : TFT_OK;
}

/* ---- after quantize() */

static enum tft_status train(struct job_tune *t)
{
    struct job *j = t->j;
    bool stopped;
    struct tune_opts o = {
        .text = t->o->text,
        .n_windows = (uint32_t)(t->o->n_text / t->o->window),
        .window = t->o->window,
        .float_outputs = t->float_outputs,
        .epochs = j->o->tune_epochs,
        .rate = j->o->tune_rate,
        .lambda = j->o->tune_lambda,
        .n_threads = j->o->n_threads,
        .progress = job_progress,
        .user = j,
    };
    enum tft_status status = job_begin(j, "tuning");
    if (status != TFT_OK)
        return status;
    status = tune(t->made, &o, &t->result, &stopped, j->err);
    return job_end(j, status, stopped);
}

const char *job_tune_loss(const struct tft_quantize_opts *o)
{
    return o->tune == TFT_TUNE_OUTPUTS ? "layer outputs" : "prediction";
}

/* Opens the file that quantize() made, and removes it: it stays mapped, and nothing is left if the
   process is killed. */
static enum tft_status open_made(struct job_tune *t)
{
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = t->j->o->tokenizer};
    enum tft_status status = tft_model_open(&t->made, t->untuned, &mo, t->j->err);
    if (status == TFT_OK)
        remove(t->untuned);
    return status;
}

static void close_made(struct job_tune *t)
{
    tft_model_close(t->made);
    t->made = NULL;
}

enum tft_status job_tune_run(struct job_tune *t, struct quantize_opts *o, bool *again)
{
    *again = false;
    if (!t->untuned)
        return TFT_OK;
    struct job *j = t->j;
    if (t->too_large)
        return tft_fail(
            j->err, TFT_ERR_UNSUPPORTED,
            "%s: a layer's output exceeds f16, which --calibrate stores: try --rotate all",
            j->m->source.name);
    enum tft_status status = open_made(t);
    if (status == TFT_OK)
        status = train(t);
    free(t->float_outputs);
    t->float_outputs = NULL;
    o->outputs = NULL;
    /* weights of few bits would be rounded anew, but the prefix was trained with the old rounding:
       on two of three texts this cost more than it gained (docs/accuracy.md) */
    if (status != TFT_OK || !t->result.kept || quantize_low_bits(o, 0, j->m->n_layer))
        return status;
    close_made(t);
    if (!fold_restore_rows(j->m, o, t->result.v))
        return job_no_memory(j);
    o->rows_k = t->result.k;
    o->rows_v = t->result.v;
    *again = true;
    return TFT_OK;
}

static enum tft_status write_tuned(const struct job_tune *t, const char *path)
{
    const struct tft_quantize_opts *o = t->j->o;
    const struct tune_result *r = &t->result;
    bool again = t->o->rows_k; /* then r has the float model's values */
    struct rewrite touch = {
        .k = again ? t->made->prefix_k : r->k,
        .v = again ? t->made->prefix_v : r->v,
        .type = t->type,
        .loss = job_tune_loss(o),
        .lambda = o->tune == TFT_TUNE_OUTPUTS ? 0 : o->tune_lambda,
        .rate = o->tune_rate,
        .epochs = o->tune_epochs,
        .validation = r->validation,
        .n_validation = r->n_validation,
        .kept = r->kept,
    };
    return rewrite_model(t->made, path, &touch, t->j->err);
}

enum tft_status job_tune_finish(struct job_tune *t, const char *path)
{
    if (!t->untuned)
        return TFT_OK;
    enum tft_status status = t->made ? TFT_OK : open_made(t);
    if (status == TFT_OK)
        status = write_tuned(t, path);
    close_made(t);
    return status;
}

void job_tune_free(struct job_tune *t)
{
    if (t->untuned)
        remove(t->untuned);
    free(t->untuned);
    free(t->float_outputs);
    tft_model_close(t->made);
    quantize_values_close(&t->values);
    tune_free(&t->result);
}
