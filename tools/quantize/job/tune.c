#include "tools/quantize/job/tune.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tools/quantize/fold.h"

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

enum tft_status job_tune_begin(struct job_tune *t, struct job *j, struct quantize_opts *o)
{
    if (!is_wanted(j))
        return TFT_OK;
    if (!o->n_prefix)
        return job_misuse(
            j, "--tune has no prefix to tune: --intact, --intact-tokens or --cushion makes one");
    if (o->n_text / o->window < 2)
        return job_misuse(
            j, "--tune needs at least two windows of text: --calib-tokens %zu, --calib-window %u",
            o->n_text, o->window);
    t->j = j;
    t->o = o;
    t->type = o->prefix_type;
    o->prefix_type = TFT_F16;
    if (!o->values && !quantize_values_open(&t->values, j->m))
        return job_no_memory(j);
    o->values = o->values ? o->values : &t->values;
    return j->o->tune == TFT_TUNE_OUTPUTS ? request_outputs(t, o) : TFT_OK;
}

/* ---- after quantize() */

static enum tft_status train(struct job_tune *t, const struct tft_model *made)
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
    enum tft_status status = job_begin(j, "tuning", 0.8);
    if (status != TFT_OK)
        return status;
    status = tune(made, &o, &t->result, &stopped, j->err);
    return job_end(j, status, stopped);
}

const char *job_tune_loss(const struct tft_quantize_opts *o)
{
    return o->tune == TFT_TUNE_OUTPUTS ? "layer outputs" : "prediction";
}

enum tft_status job_tune_run(struct job_tune *t, struct quantize_opts *o, struct job_made *made,
                             bool *again)
{
    struct job *j = t->j;
    *again = false;
    if (!j)
        return TFT_OK;
    if (t->too_large)
        return tft_fail(
            j->err, TFT_ERR_UNSUPPORTED,
            "%s: a layer's output exceeds f16, which --calibrate stores: try --rotate all",
            j->m->source.name);
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = train(t, made->model);
    free(t->float_outputs);
    t->float_outputs = NULL;
    o->outputs = NULL;
    /* weights of few bits would be rounded anew, but the prefix was trained with the old rounding:
       on two of three texts this cost more than it gained (docs/accuracy.md) */
    if (status != TFT_OK || !t->result.kept || quantize_low_bits(o, 0, j->m->n_layer))
        return status;
    job_made_drop(made);
    if (!fold_restore_rows(j->m, o, t->result.v))
        return job_no_memory(j);
    o->rows_k = t->result.k;
    o->rows_v = t->result.v;
    *again = true;
    return TFT_OK;
}

enum tft_status job_tune_finish(struct job_tune *t, struct job_made *made)
{
    const struct tune_result *r = &t->result;
    struct rewrite *c = &made->change;
    if (!t->j)
        return TFT_OK;
    const struct tft_quantize_opts *o = t->j->o;
    bool again = t->o->rows_k; /* then r has the float model's values */
    enum tft_status status = job_made_open(made);
    if (status != TFT_OK)
        return status;
    c->k = again ? made->model->prefix_k : r->k;
    c->v = again ? made->model->prefix_v : r->v;
    c->type = t->type;
    c->loss = job_tune_loss(o);
    c->lambda = o->tune == TFT_TUNE_OUTPUTS ? 0 : o->tune_lambda;
    c->rate = o->tune_rate;
    c->epochs = o->tune_epochs;
    c->validation = r->validation;
    c->n_validation = r->n_validation;
    c->kept = r->kept;
    return job_made_change_prefix(made);
}

void job_tune_free(struct job_tune *t)
{
    free(t->float_outputs);
    quantize_values_close(&t->values);
    tune_free(&t->result);
}
