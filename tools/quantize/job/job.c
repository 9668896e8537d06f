#include "tools/quantize/job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/text/talks.h"
#include "tools/quantize/tune/kv_fisher.h"

static void complete(uint32_t *option, uint32_t usual) { *option = *option ? *option : usual; }

static void complete_real(float *option, float usual)
{
    *option = *option < 0 ? 0 : *option > 0 ? *option : usual;
}

void job_complete(struct tft_quantize_opts *o)
{
    complete(&o->calib_tokens, 8192);
    complete(&o->prefix_bits, 16);
    complete(&o->cushion_max, 4);
    complete(&o->tune_epochs, 2);
    complete_real(&o->cushion_tau, 0.5f);
    complete_real(&o->cushion_cost, 0.02f);
    complete_real(&o->tune_lambda, 0.01f);
    /* the loss of OUTPUTS is flatter: the improvements are smaller than the noise of rounding */
    complete_real(&o->tune_rate, o->tune == TFT_TUNE_OUTPUTS ? 0.0003f : 0.003f);
    o->dynamic = o->dynamic ? o->dynamic : "auto";
    o->calib_name = o->calib_name ? o->calib_name : "the calibration text";
    o->time = o->time ? o->time : TALKS_TIME;
}

/* ---- errors */

enum tft_status job_misuse(struct job *j, const char *fmt, ...)
{
    char text[sizeof j->err->msg];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return tft_fail(j->err, TFT_ERR_ARG, "%s", text);
}

enum tft_status job_no_memory(struct job *j)
{
    return tft_fail(j->err, TFT_ERR_NOMEM, "out of memory");
}

/* ---- callbacks */

void job_note(struct job *j, const char *fmt, ...)
{
    char text[2 * sizeof j->err->msg];
    va_list args;
    if (!j->o->note)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    j->o->note(j->o->user, text);
}

/* Of a plain run these are 7 passes, as quantize_plan_of has it. */
void job_expect(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    double rounds = o->cushion == TFT_CUSHION_EXHAUSTIVE ? 500 : 50;
    bool nearest = o->rounding == TFT_ROUND_NEAREST || o->rounding == TFT_ROUND_AWQ,
         gptq = (o->bits || o->bits_search) && !nearest;
    j->done = (struct job_done){
        .left = {[JOB_IMPORT] = 0.2,
                 [JOB_TEXT] = o->calib ? 0.1 : 1,
                 [JOB_LOOK] = 0.5,
                 [JOB_SEARCH] = o->cushion == TFT_CUSHION_NONE ? 0 : rounds * o->cushion_max,
                 [JOB_TRY] = 2.5,
                 [JOB_BITS] = o->bits_search ? 30 : 0,
                 [JOB_QUANTIZE] = gptq ? 15 : 1.5,
                 [JOB_RANGES] = 1,
                 [JOB_TUNE] = o->tune == TFT_TUNE_NONE ? 0 : 10.0 * o->tune_epochs + 2,
                 [JOB_SYSTEM] = 0.1 * (double)o->n_system,
                 [JOB_KV] = kv_fisher_wanted(o->kv) ? 4 : o->kv_search ? 30 : 0,
                 [JOB_CHECK] = 0.5}};
}

static void return_part(struct job_done *d)
{
    d->left[d->phase] += d->part;
    d->part = 0;
}

void job_part(struct job *j, double share)
{
    struct job_done *d = &j->done;
    return_part(d);
    d->part = share * d->left[d->phase];
    d->left[d->phase] -= d->part;
}

void job_enter(struct job *j, enum job_phase phase)
{
    struct job_done *d = &j->done;
    return_part(d);
    for (int p = 0; p < (int)phase; p++)
        d->left[p] = 0;
    d->phase = phase;
    job_part(j, 1);
}

static void take_step(struct job_done *d, double share)
{
    double work = share * d->part, ahead = d->part;
    for (int p = 0; p < JOB_PHASES; p++)
        ahead += d->left[p];
    d->from += d->span;
    d->span = ahead > 0 ? (1 - d->from) * work / ahead : 0;
    d->part -= work;
}

static bool tell(struct job *j, double done)
{
    struct job_done *d = &j->done;
    d->shown = done > d->shown ? done : d->shown;
    d->shown = d->shown < 1 ? d->shown : 1;
    return !j->o->progress || j->o->progress(j->o->user, j->step, d->shown);
}

bool job_progress(void *user, double done)
{
    struct job *j = user;
    return tell(j, j->done.from + j->done.span * done);
}

static enum tft_status stopped_by_caller(struct job *j)
{
    return tft_fail(j->err, TFT_ERR_CANCELLED, "stopped while %s", j->step);
}

enum tft_status job_begin(struct job *j, const char *step, double share)
{
    j->step = step;
    take_step(&j->done, share);
    return job_progress(j, 0) ? TFT_OK : stopped_by_caller(j);
}

enum tft_status job_end(struct job *j, enum tft_status status, bool stopped)
{
    return status == TFT_OK && stopped ? stopped_by_caller(j) : status;
}

enum tft_status job_complete_progress(struct job *j)
{
    return tell(j, 1) ? TFT_OK : stopped_by_caller(j);
}

/* ---- text */

enum tft_status job_tokenize(struct job *j, int32_t **ids, size_t *n, const char *text, size_t len,
                             unsigned flags)
{
    size_t room = 2 * len + 2; /* a token takes at least a byte, except BOS and the spaces that some
                                  vocabularies put around special tokens */
    *ids = malloc((room + 1) * sizeof **ids);
    if (!*ids)
        return job_no_memory(j);
    enum tft_status status = tft_tokenize(j->m, text, len, flags, *ids, room, n);
    if (status == TFT_OK)
        return TFT_OK;
    free(*ids);
    *ids = NULL;
    if (status == TFT_ERR_UNSUPPORTED)
        return tft_fail(j->err, status,
                        "the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    return tft_fail(j->err, status, "cannot tokenize the text: %s", tft_status_text(status));
}

bool job_take_number(const char **p, uint32_t *n)
{
    size_t digits = strspn(*p, "0123456789");
    if (!digits || digits > 9)
        return false;
    *n = (uint32_t)strtoul(*p, NULL, 10);
    *p += digits;
    return true;
}

bool job_take_layers(const char **p, uint32_t *from, uint32_t *to)
{
    if (!job_take_number(p, from))
        return false;
    *to = *from;
    if (**p != '-')
        return true;
    ++*p;
    return job_take_number(p, to) && *from <= *to;
}

bool job_is(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}
