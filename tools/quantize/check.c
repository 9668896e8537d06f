#include "tools/quantize/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "models/open.h"
#include "run/session.h"
#include "tools/quantize/measure/text_loss.h"

const char *check_group_name(enum check_group g)
{
    return g == CHECK_CONVERSATION ? "conversation" : "text";
}

static uint32_t all_windows(const struct check_text text[CHECK_GROUPS])
{
    uint32_t n = 0;
    for (int g = 0; g < CHECK_GROUPS; g++)
        n += text[g].n_windows;
    return n;
}

/* --------------------------------------------------------------------------------------- floats */

struct floats {
    const struct check_how *how;
    double before, part;     /* of the work: done so far, and the share of the current group */
    uint32_t layer, n_layer; /* of the current group */
    bool stopped;
};

static bool float_progress(void *user, double done)
{
    struct floats *f = user;
    double all = f->before + f->part * (f->layer + done) / f->n_layer;
    f->stopped |= f->how->progress && !f->how->progress(f->how->user, all);
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

/* Runs a group and keeps the residual stream after its last layer. */
static enum tft_status run_group(struct check *c, int g, struct floats *f, struct tft_error *err)
{
    const struct check_text *text = &c->text[g];
    struct quantize_opts o = {.text = text->ids,
                              .n_text = (size_t)text->n_windows * text->window,
                              .window = text->window,
                              .prefix = text->start,
                              .n_prefix = text->n_start,
                              .n_threads = f->how->n_threads};
    struct layers y = {0};
    enum tft_status status = layers_open(&y, c->m, &o, err);
    if (status != TFT_OK)
        return status;
    run_layers(&y, f);
    c->x[g] = y.text;
    c->stride = y.stride;
    y.text = NULL;
    layers_close(&y);
    return TFT_OK;
}

enum tft_status check_open(struct check *c, struct tft_model *m,
                           const struct check_text text[CHECK_GROUPS], const struct check_how *how,
                           bool *stopped, struct tft_error *err)
{
    struct floats f = {.how = how, .n_layer = m->n_layer};
    enum tft_status status = TFT_OK;
    *c = (struct check){.m = m};
    memcpy(c->text, text, sizeof c->text);
    for (int g = 0; g < CHECK_GROUPS && status == TFT_OK && !f.stopped; g++) {
        if (!text[g].n_windows)
            continue;
        f.part = (double)text[g].n_windows / all_windows(text);
        status = run_group(c, g, &f, err);
        f.before += f.part;
    }
    *stopped = f.stopped;
    if (status != TFT_OK)
        check_close(c);
    return status;
}

void check_close(struct check *c)
{
    for (int g = 0; g < CHECK_GROUPS; g++)
        tft_port_free(c->x[g]);
    *c = (struct check){0};
}

/* --------------------------------------------------------------------------------------- a file */

enum { BATCH = 64 }; /* tokens per pass, and their logits */

struct comparison {
    const struct check *c;
    const struct tft_model *file;
    const struct check_how *how;
    const struct check_text *text;
    const float *x;  /* of the group */
    struct layers y; /* for the head of the float model */
    struct text_loss head;
    struct check_loss *loss;
    double done, work; /* in windows */
    bool stopped;
};

/* n tokens of a window from `at` on; the session has their logits. */
static void add_batch(struct comparison *k, const struct tft_session *s, size_t window, uint32_t at,
                      uint32_t n)
{
    const float *other[BATCH];
    struct text_pair each[BATCH];
    size_t row = window * k->text->window + at;
    for (uint32_t i = 0; i < n; i++)
        other[i] = tft_logits(s, n - 1 - i);
    text_loss_pairs(&k->head, &k->y, (float *)(uintptr_t)k->x + row * k->c->stride,
                    k->text->ids + row + 1, other, n, each);
    for (uint32_t i = 0; i < n; i++) {
        k->loss->floats += each[i].floats;
        k->loss->file += each[i].other;
        k->loss->divergence += each[i].divergence;
        k->loss->same += each[i].same;
    }
    k->loss->tokens += n;
}

static enum tft_status add_window(struct comparison *k, size_t window, struct tft_error *err)
{
    uint32_t n = k->text->window, batch = n < BATCH ? n : BATCH;
    const int32_t *ids = k->text->ids + window * n;
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = n,
                                  .n_batch = batch,
                                  .n_logits = batch,
                                  .n_threads = k->how->n_threads,
                                  .kv = k->file->kv_text ? NULL : "f16"}; /* as the floats have */
    struct tft_session *s;
    enum tft_status status = tft_session_open(&s, k->file, &so, err);
    if (status != TFT_OK)
        return status;
    for (uint32_t at = 0, more; at + 1 < n && status == TFT_OK; at += more) {
        more = n - 1 - at < batch ? n - 1 - at : batch;
        status = tft_prefill(s, ids + at, more);
        if (status == TFT_OK)
            add_batch(k, s, window, at, more);
        else
            tft_fail(err, status, "the text cannot be computed: %s", tft_session_error(s)->msg);
    }
    tft_session_close(s);
    k->done++;
    k->stopped = k->how->progress && !k->how->progress(k->how->user, k->done / k->work);
    return status;
}

static enum tft_status compare(struct comparison *k, struct check_loss loss[CHECK_GROUPS],
                               struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        k->text = &k->c->text[g];
        k->x = k->c->x[g];
        k->loss = &loss[g];
        for (uint32_t i = 0; i < k->text->n_windows && status == TFT_OK && !k->stopped; i++)
            status = add_window(k, i, err);
        if (loss[g].tokens) {
            loss[g].floats /= loss[g].tokens;
            loss[g].file /= loss[g].tokens;
            loss[g].divergence /= loss[g].tokens;
            loss[g].same /= loss[g].tokens;
        }
    }
    return status;
}

enum tft_status check_model(const struct check *c, const struct tft_model *file,
                            const struct check_how *how, struct check_loss loss[CHECK_GROUPS],
                            bool *stopped, struct tft_error *err)
{
    struct comparison k = {.c = c, .file = file, .how = how, .work = all_windows(c->text)};
    struct quantize_opts o = {.window = BATCH, .n_threads = how->n_threads};
    struct layers_capacity capacity = {.batch = BATCH};
    memset(loss, 0, CHECK_GROUPS * sizeof *loss);
    *stopped = false;
    enum tft_status status = layers_open_empty(&k.y, c->m, &o, &capacity, err);
    if (status != TFT_OK)
        return status;
    if (text_loss_open(&k.head, c->m, BATCH))
        status = compare(&k, loss, err);
    else
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to compare predictions",
                          c->m->source.name);
    text_loss_close(&k.head);
    layers_close(&k.y);
    *stopped = k.stopped;
    return status;
}

enum tft_status check_file(const struct check *c, const char *path, const struct check_how *how,
                           struct check_loss loss[CHECK_GROUPS], bool *stopped,
                           struct tft_error *err)
{
    struct tft_model *file;
    struct tft_model_opts mo = {.size = sizeof mo, .n_threads = how->n_threads};
    enum tft_status status = tft_model_open(&file, path, &mo, err);
    *stopped = false;
    if (status != TFT_OK)
        return status;
    status = check_model(c, file, how, loss, stopped, err);
    tft_model_close(file);
    return status;
}

/* ----------------------------------------------------------------------------------- the result */

#define WARN_PERCENT 3.0
#define WARN_NATS 0.03

double check_percent(const struct check_loss *l) { return 100 * (exp(l->file - l->floats) - 1); }

bool check_within(const struct check_loss *l, double percent, double nats)
{
    return !l->tokens || (check_percent(l) <= percent && !(l->divergence > nats));
}

static void print_group(struct sink *to, const char *name, const struct check_loss *l,
                        uint32_t n_vocab)
{
    sink_print(to, "check: %s: perplexity %.4g, %+.1f %% over floats", name, exp(l->file),
               check_percent(l));
    if (isnan(l->divergence)) /* a file of an older version */
        sink_print(to, "\n");
    else
        sink_print(to, "; divergence %.4f nats; the same most likely token %.1f %%\n",
                   l->divergence, 100 * l->same);
    if (n_vocab && exp(l->floats) > n_vocab / 10.0)
        sink_print(
            to,
            "note: the float model cannot predict this text (perplexity %.4g with %u tokens), "
            "so its loss means little\n",
            exp(l->floats), (unsigned)n_vocab);
}

void check_json(struct sink *to, const struct check_loss loss[CHECK_GROUPS])
{
    bool any = false;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const struct check_loss *l = &loss[g];
        if (!l->tokens)
            continue;
        sink_print(to, "%s\"%s\":{\"tokens\":%u", any ? "," : "{", check_group_name(g), l->tokens);
        sink_number(to, "floats", l->floats);
        sink_number(to, "file", l->file);
        sink_number(to, "percent", check_percent(l));
        sink_number(to, "divergence", l->divergence);
        sink_number(to, "same", l->same);
        sink_print(to, "}");
        any = true;
    }
    sink_print(to, "%s", any ? "}" : "null");
}

bool check_print_groups(struct sink *to, const struct check_loss loss[CHECK_GROUPS],
                        uint32_t n_vocab)
{
    bool measured = false;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        if (!loss[g].tokens)
            continue;
        measured = true;
        print_group(to, check_group_name(g), &loss[g], n_vocab);
    }
    return measured;
}

void check_print(struct sink *to, const struct check_loss loss[CHECK_GROUPS], uint32_t n_vocab)
{
    bool warn = false;
    for (int g = 0; g < CHECK_GROUPS; g++)
        warn |= loss[g].tokens && !check_within(&loss[g], WARN_PERCENT, WARN_NATS);
    if (!check_print_groups(to, loss, n_vocab))
        sink_print(to, "check: not measured: the calibration text is too short to hold some of it "
                       "out\n");
    if (warn)
        sink_print(
            to, "warning: this loss is high: --dynamic all, --cushion auto or another calibration "
                "text may lower it\n");
}
