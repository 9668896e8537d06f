#include "tools/quantize/check.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/exp_log.h"
#include "models/open.h"
#include "run/session.h"
#include "tools/quantize/measure/text_loss.h"

/* --------------------------------------------------------------------------------------- floats */

struct floats {
    const struct check_how *how;
    uint32_t layer, n_layer; /* that runs */
    bool stopped;
};

static bool float_progress(void *user, double done)
{
    struct floats *f = user;
    f->stopped |=
        f->how->progress && !f->how->progress(f->how->user, (f->layer + done) / f->n_layer);
    return !f->stopped;
}

static void run_layers(struct layers *y, struct floats *f)
{
    y->on_window = float_progress;
    y->on_window_user = f;
    for (f->layer = 0; f->layer < f->n_layer && !f->stopped; f->layer++) {
        layers_load(y, f->layer);
        layers_run(y, f->layer, false);
        layers_unload(y, f->layer);
    }
}

enum tft_status check_floats(struct tft_model *m, const int32_t *prefix, uint32_t n_prefix,
                             const struct check_text *text, const struct check_how *how,
                             double *nats, bool *stopped, struct tft_error *err)
{
    struct quantize_opts o = {.text = text->ids,
                              .n_text = (size_t)text->n_windows * text->window,
                              .window = text->window,
                              .prefix = prefix,
                              .n_prefix = n_prefix,
                              .n_threads = how->n_threads};
    struct floats f = {.how = how, .n_layer = m->n_layer};
    struct layers y = {0};
    struct text_loss loss = {0};
    enum tft_status status = layers_open(&y, m, &o, err);
    if (status == TFT_OK && !text_loss_open(&loss, m, text->window))
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to compute the text's loss",
                          m->source.name);
    *nats = 0;
    if (status == TFT_OK)
        run_layers(&y, &f);
    for (uint32_t i = 0; status == TFT_OK && i < text->n_windows && !f.stopped; i++)
        *nats += text_loss_mean(&loss, &y, y.text + (size_t)i * text->window * y.stride,
                                text->ids + (size_t)i * text->window, text->window) /
                 text->n_windows;
    *stopped = f.stopped;
    text_loss_close(&loss);
    layers_close(&y);
    return status;
}

/* --------------------------------------------------------------------------------------- a file */

enum { BATCH = 64 }; /* tokens whose logits are there at a time */

/* -ln p(token) */
static double surprise(const float *logit, uint32_t n, int32_t token)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)logit[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += tft_exp((double)logit[i] - max);
    return tft_log(sum) + max - (double)logit[token];
}

struct surprise_task {
    const struct tft_session *s;
    const int32_t *next; /* [n] the token after each of the newest n */
    uint32_t n, n_vocab;
    double each[BATCH];
};

static void add_surprises(void *arg, int tid, int n_threads)
{
    struct surprise_task *t = arg;
    for (uint32_t i = (uint32_t)tid; i < t->n; i += (uint32_t)n_threads)
        t->each[i] = surprise(tft_logits(t->s, t->n - 1 - i), t->n_vocab, t->next[i]);
}

/* Adds -ln p of ids[1..n) to *sum. */
static enum tft_status add_window(const struct tft_model *m, const struct check_how *how,
                                  const int32_t *ids, uint32_t n, double *sum,
                                  struct tft_error *err)
{
    uint32_t batch = n < BATCH ? n : BATCH;
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = n,
                                  .n_batch = batch,
                                  .n_logits = batch,
                                  .n_threads = how->n_threads};
    struct tft_session *s;
    enum tft_status status = tft_session_open(&s, m, &so, err);
    if (status != TFT_OK)
        return status;
    for (uint32_t at = 0; at + 1 < n; at += batch) {
        struct surprise_task t = {
            .s = s, .next = ids + at + 1, .n = n - 1 - at < batch ? n - 1 - at : batch};
        t.n_vocab = m->n_vocab;
        status = tft_prefill(s, ids + at, t.n);
        if (status != TFT_OK) {
            tft_fail(err, status, "the text cannot be computed: %s", tft_session_error(s)->msg);
            break;
        }
        tft_port_team(s->n_threads, add_surprises, &t);
        for (uint32_t i = 0; i < t.n; i++)
            *sum += t.each[i];
    }
    tft_session_close(s);
    return status;
}

enum tft_status check_file(const char *path, const struct check_text *text,
                           const struct check_how *how, double *nats, bool *stopped,
                           struct tft_error *err)
{
    struct tft_model *m;
    struct tft_model_opts mo = {.size = sizeof mo, .n_threads = how->n_threads};
    double sum = 0;
    enum tft_status status = tft_model_open(&m, path, &mo, err);
    *stopped = false;
    if (status != TFT_OK)
        return status;
    for (uint32_t i = 0; i < text->n_windows && status == TFT_OK && !*stopped; i++) {
        status = add_window(m, how, text->ids + (size_t)i * text->window, text->window, &sum, err);
        *stopped = how->progress && !how->progress(how->user, (i + 1.0) / text->n_windows);
    }
    tft_model_close(m);
    *nats = sum / ((double)text->n_windows * (text->window - 1));
    return status;
}

/* ----------------------------------------------------------------------------------- the result */

enum { WARN_PERCENT = 3 };

double check_percent(double floats, double file)
{
    return 100 * (exp(file - floats) - 1);
}

void check_print(FILE *to, double floats, double file)
{
    if (floats == 0) {
        fputs("check: not measured, as the calibration text was too short to keep some of it out\n",
              to);
        return;
    }
    fprintf(to, "check: perplexity %.4g on text that was kept out, %+.1f %% over floats\n",
            exp(file), check_percent(floats, file));
    if (!(check_percent(floats, file) <= WARN_PERCENT))
        fputs("warning: that is much: --cushion auto, --rotate all or another calibration text may "
              "lower it\n", to);
}
