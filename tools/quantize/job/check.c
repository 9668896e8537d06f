#include "tools/quantize/job/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/quantize.h"

enum { TRIAL_TOKENS = 2048 }; /* calibration tokens of a trial model */

bool job_check_has_text(const struct job_text *t)
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

static void free_texts(struct job_check *c)
{
    for (int g = 0; g < CHECK_GROUPS; g++) {
        free(c->ids[g]);
        free(c->start[g]);
        c->ids[g] = c->start[g] = NULL;
    }
}

/* Copies the texts, which t changes with the next prefix. */
static bool copy_texts(struct job_check *c, const struct job_text *t,
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

static struct check_how how_of(struct job *j)
{
    return (struct check_how){j->o->n_threads, job_progress, j};
}

enum tft_status job_check_open(struct job_check *c, const struct job_text *t)
{
    struct job *j = t->j;
    struct check_how how = how_of(j);
    struct check_text text[CHECK_GROUPS];
    bool stopped, same = c->open;
    for (int g = 0; g < CHECK_GROUPS && same; g++)
        same = is_same(&c->floats.text[g], &t->group[g]);
    if (same)
        return TFT_OK;
    check_close(&c->floats);
    c->open = false;
    c->j = j;
    if (!copy_texts(c, t, text))
        return job_no_memory(j);
    enum tft_status status = job_begin(j, "running the float model", 0.3);
    if (status != TFT_OK)
        return status;
    status = check_open(&c->floats, j->m, text, &how, &stopped, j->err);
    c->open = status == TFT_OK && !stopped;
    return job_end(j, status, stopped);
}

void job_check_free(struct job_check *c)
{
    check_close(&c->floats);
    free_texts(c);
    *c = (struct job_check){0};
}

enum tft_status job_check_made(struct job_check *c, const struct job_made *made, const char *step,
                               double share)
{
    struct job *j = c->j;
    struct check_how how = how_of(j);
    bool stopped;
    enum tft_status status = job_begin(j, step, share);
    if (status != TFT_OK)
        return status;
    status = check_file(&c->floats, job_made_path(made), &how, c->loss, &stopped, j->err);
    return job_end(j, status, stopped);
}

/* ---- choosing a prefix */

double job_check_divergence(const struct job_check *c)
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

/* Makes the model of the trial. */
static enum tft_status make_trial(struct job_made *trial, const struct quantize_opts *o,
                                  const char *step)
{
    struct job *j = trial->j;
    struct quantize_input *result = malloc(tft_model_inputs(j->m) * sizeof *result);
    bool stopped;
    enum tft_status status = result ? job_begin(j, step, 0.5) : job_no_memory(j);
    if (status == TFT_OK)
        status = quantize_temp(j->m, j->out, o, result, &trial->temp, &stopped, j->err);
    if (status == TFT_OK)
        status = job_end(j, status, stopped);
    free(result);
    return status;
}

enum tft_status job_check_try(struct job_check *c, struct job_text *t,
                              const struct quantize_opts *from, struct job_made *trial,
                              const struct check_prefix *prefix, uint32_t n_start, const char *step)
{
    struct quantize_opts o = *from;
    enum tft_status status = job_text_begin(t, prefix->token, prefix->n, 0, n_start);
    if (status == TFT_OK)
        status = job_check_open(c, t);
    if (status != TFT_OK)
        return status;
    job_text_spread(t, TRIAL_TOKENS);
    o.text = t->ids;
    o.n_text = t->n;
    o.bits = NULL;
    o.kv = quantize_float_cache(from->kv);
    o.prefix = prefix->token;
    o.n_prefix = prefix->n;
    status = make_trial(trial, &o, step);
    return status == TFT_OK ? job_check_made(c, trial, step, 0.5) : status;
}
