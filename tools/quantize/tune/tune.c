#include "tools/quantize/tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/splitmix64.h"
#include "model/parts.h"
#include "port/port.h"
#include "tools/quantize/measure/held_out.h"
#include "tools/quantize/tune/sequence_loss.h"

static const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0.01f;

struct tuning {
    const struct tft_model *m;
    const struct tune_opts *o;
    struct tune_result *r;
    struct sequence *s;
    size_t n;                         /* size of the prefix and of all arrays below */
    uint16_t *f16;                    /* [n] the prefix as the file holds it */
    float *rounded;                   /* [n] f16 widened: the model computes with these */
    float *exact;                     /* [n] the parameters that are trained */
    float *gradient, *first, *second; /* [n] and Adam's two moments */
    uint32_t *order;                  /* [n_train] training windows, in the order of the epoch */
    uint32_t n_train, step, steps;
    float first_left, second_left; /* beta^step */
    double work, all_work;
    bool stopped;
};

/* -------------------------------------------------------------------------------------- windows */

/* A new order for every epoch: Fisher-Yates shuffle. */
static void shuffle(struct tuning *t, uint32_t epoch)
{
    uint64_t seed = epoch;
    for (uint32_t i = t->n_train; i > 1; i--) {
        uint32_t j = (uint32_t)(tft_splitmix64(&seed) % i), swap = t->order[j];
        t->order[j] = t->order[i - 1];
        t->order[i - 1] = swap;
    }
}

/* Work of a window, in forward runs. With the gradient: forward, forward again and back. */
enum { FORWARD = 1, WITH_GRADIENT = 3 };

static void add_work(struct tuning *t, double work)
{
    t->work += work;
    if (t->o->progress && !t->o->progress(t->o->user, fmin(t->work / t->all_work, 1)))
        t->stopped = true;
}

static double run(struct tuning *t, uint32_t window, float *gradient)
{
    const struct tune_opts *o = t->o;
    size_t outputs = (size_t)t->m->n_layer * o->window * t->m->n_embd;
    struct sequence_loss loss = sequence_run(
        t->s, o->text + (size_t)window * o->window,
        o->float_outputs ? o->float_outputs + window * outputs : NULL, t->rounded, gradient);
    add_work(t, gradient ? WITH_GRADIENT : FORWARD);
    return loss.judged;
}

/* ---------------------------------------------------------------------------------------- steps */

static void round_to_file(struct tuning *t)
{
    t->m->kern.narrow[TFT_NUM_F16](t->f16, t->exact, t->n);
    t->m->kern.widen[TFT_NUM_F16](t->rounded, t->f16, t->n);
}

static float rate_now(const struct tuning *t)
{
    float rise = 10 * (float)t->step / (float)t->steps,
          fall = (float)(t->steps - t->step + 1) / (0.9f * (float)t->steps);
    return t->o->rate * fminf(1, fminf(rise, fall));
}

static void step(struct tuning *t, uint32_t window)
{
    memset(t->gradient, 0, t->n * sizeof *t->gradient);
    run(t, window, t->gradient);
    t->step++;
    t->first_left *= beta1;
    t->second_left *= beta2;
    float rate = rate_now(t), c1 = 1 - t->first_left, c2 = 1 - t->second_left;
    for (size_t i = 0; i < t->n; i++) {
        float g = t->gradient[i];
        t->first[i] = beta1 * t->first[i] + (1 - beta1) * g;
        t->second[i] = beta2 * t->second[i] + (1 - beta2) * g * g;
        t->exact[i] -=
            rate * (t->first[i] / c1 / (sqrtf(t->second[i] / c2) + epsilon) + decay * t->exact[i]);
    }
    round_to_file(t);
}

/* Computes the loss on held-out windows, and keeps the prefix if it is the best so far. */
static void validate(struct tuning *t)
{
    struct tune_result *r = t->r;
    double loss = 0;
    for (uint32_t i = 0; i < t->o->n_windows && !t->stopped; i++)
        if (held_out(i, t->o->n_windows))
            loss += run(t, i, NULL);
    r->validation[r->n_validation] = (float)(loss / (t->o->n_windows - t->n_train));
    if (r->n_validation == 0 || r->validation[r->n_validation] < r->validation[r->kept]) {
        r->kept = r->n_validation;
        memcpy(r->k, t->f16, t->n * sizeof *r->k);
    }
    r->n_validation++;
}

/* Training windows between validations: half an epoch. */
static uint32_t interval(const struct tuning *t) { return (t->n_train + 1) / 2; }

static uint32_t validations(const struct tuning *t)
{
    return t->o->epochs * ((t->n_train + interval(t) - 1) / interval(t)) + 1;
}

static void learn(struct tuning *t)
{
    validate(t);
    for (uint32_t epoch = 0; epoch < t->o->epochs; epoch++) {
        shuffle(t, epoch);
        for (uint32_t i = 0; i < t->n_train && !t->stopped; i++) {
            step(t, t->order[i]);
            if (!t->stopped && ((i + 1) % interval(t) == 0 || i + 1 == t->n_train))
                validate(t);
        }
    }
}

/* -------------------------------------------------------------------------------------- opening */

static bool alloc_all(struct tuning *t)
{
    size_t n = t->n;
    t->f16 = malloc(n * sizeof *t->f16);
    t->rounded = malloc(n * sizeof *t->rounded);
    t->exact = malloc(n * sizeof *t->exact);
    t->gradient = malloc(n * sizeof *t->gradient);
    t->first = calloc(n, sizeof *t->first);
    t->second = calloc(n, sizeof *t->second);
    t->order = malloc(t->o->n_windows * sizeof *t->order);
    t->r->k = malloc(n * sizeof *t->r->k);
    if (!t->order)
        return false;
    for (uint32_t i = 0; i < t->o->n_windows; i++)
        if (!held_out(i, t->o->n_windows))
            t->order[t->n_train++] = i;
    t->steps = t->n_train * t->o->epochs;
    t->r->v = t->r->k ? t->r->k + n / 2 : NULL;
    t->r->validation = malloc(validations(t) * sizeof *t->r->validation);
    int n_threads = !tft_port_threaded() ? 1 : t->o->n_threads ? t->o->n_threads : tft_port_cpus();
    t->s = sequence_open(t->m, t->o->window, t->o->float_outputs ? 0 : t->o->lambda, n_threads);
    return t->f16 && t->rounded && t->exact && t->gradient && t->first && t->second && t->order &&
           t->r->k && t->r->validation && t->s;
}

static void free_all(struct tuning *t)
{
    sequence_close(t->s);
    free(t->f16);
    free(t->rounded);
    free(t->exact);
    free(t->gradient);
    free(t->first);
    free(t->second);
    free(t->order);
}

void tune_free(struct tune_result *r)
{
    free(r->k);
    free(r->validation);
    *r = (struct tune_result){0};
}

/* The pieces of formulas that the modules of this folder support. Before a piece is added to the
   list of all, add it to these modules. */
static const uint64_t known =
    TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_EMBED_SCALE) | TFT_BIT(TFT_PART_RESIDUAL_SCALE) |
    TFT_BIT(TFT_PART_LOGIT_SCALE) | TFT_BIT(TFT_PART_ATTN_SCALE) |
    TFT_BIT(TFT_PART_NO_PRE_NORM) | TFT_BIT(TFT_PART_POST_NORM) |
    TFT_BIT(TFT_PART_WHOLE_QK_NORM) | TFT_BIT(TFT_PART_LATE_QK_NORM) |
    TFT_BIT(TFT_PART_OWN_QK_NORM) | TFT_BIT(TFT_PART_PARALLEL) | TFT_BIT(TFT_PART_ROPE_LAYERS) |
    TFT_BIT(TFT_PART_ROPE_AMPLITUDE) | TFT_BIT(TFT_PART_SCORE_CAP) |
    TFT_BIT(TFT_PART_LOGIT_CAP) | TFT_BIT(TFT_PART_WINDOW) | TFT_BIT(TFT_PART_QUERY_SCALE) |
    TFT_BIT(TFT_PART_VALUE_NORM) | TFT_BIT(TFT_PART_SHARED_KV) | TFT_BIT(TFT_PART_LAYER_SIZES) |
    TFT_BIT(TFT_PART_LAYER_EMBED) | TFT_BIT(TFT_PART_ROUNDS);

enum tft_status tune_check(const struct tft_model *m, struct tft_error *err)
{
    const char *unknown = tft_parts_unknown(m, known);
    return unknown ? tft_fail(err, TFT_ERR_UNSUPPORTED,
                              "%s: tuning does not support %s (architecture %s)", m->source.name,
                              unknown, m->arch->name)
                   : TFT_OK;
}

enum tft_status tune(const struct tft_model *m, const struct tune_opts *o, struct tune_result *r,
                     bool *stopped, struct tft_error *err)
{
    struct tuning t = {
        .m = m, .o = o, .r = r, .n = sequence_params(m), .first_left = 1, .second_left = 1};
    *r = (struct tune_result){0};
    *stopped = false;
    if (!m->n_prefix || !m->output.w.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG, "%s: tuning needs a W8A8 model with a prefix",
                        m->source.name);
    enum tft_status status = tune_check(m, err);
    if (status != TFT_OK)
        return status;
    if (o->n_windows < 2 || o->window < 2)
        return tft_fail(
            err, TFT_ERR_ARG,
            "%s: tuning needs at least two windows of text, one to train on and one held out",
            m->source.name);
    if (o->window > m->n_ctx - m->n_prefix)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a window of %u after a prefix of %u exceeds the context of %u",
                        m->source.name, o->window, m->n_prefix, m->n_ctx);
    bool room = alloc_all(&t);
    if (room) {
        m->kern.widen[TFT_NUM_F16](t.exact, m->prefix_k, t.n / 2);
        m->kern.widen[TFT_NUM_F16](t.exact + t.n / 2, m->prefix_v, t.n / 2);
        round_to_file(&t);
        t.all_work = (double)WITH_GRADIENT * t.steps +
                     (double)FORWARD * validations(&t) * (o->n_windows - t.n_train);
        learn(&t);
    }
    free_all(&t);
    *stopped = t.stopped;
    if (!room || t.stopped)
        tune_free(r);
    return room ? TFT_OK
                : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to tune the prefix",
                           m->source.name);
}
