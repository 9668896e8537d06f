#include "tools/quantize/job/fisher.h"

#include "kv/fisher.h"
#include "run/session.h"
#include "tools/quantize/job/kv.h"
#include "tools/quantize/tune/tune.h"

static bool all_windows(const struct tft_model *m)
{
    uint32_t l = 0;
    while (l < m->n_kv_layer && tft_model_kv_window(m, l))
        l++;
    return l == m->n_kv_layer;
}

enum tft_status job_fisher_look(struct job *j)
{
    const struct tft_model *m = j->m;
    if (!kv_fisher_wanted(j->o->kv))
        return TFT_OK;
    const struct tft_kv_shape shape = tft_model_kv_shape(m);
    if (!tft_fisher_fits(&shape))
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: the KV cache fisher takes the same heads in all layers without a "
                        "window, of multiples of %d channels up to %d",
                        m->source.name, TFT_QUAD, TFT_CODED_DIM);
    if (all_windows(m))
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: all layers have windows, so the KV cache fisher has no codes here",
                        m->source.name);
    return tune_check(m, j->err);
}

/* Codes are read from far behind: two windows of the text make one here, if there are enough. */
static uint32_t window_of(const struct job *j, const struct quantize_opts *o)
{
    uint32_t twice = 2 * o->window;
    return o->n_text >= 8 * (size_t)o->window && twice + o->n_prefix <= j->m->n_ctx ? twice
                                                                                    : o->window;
}

void job_fisher_begin(struct job_fisher *f, struct job *j, const struct quantize_opts *o)
{
    uint32_t window = window_of(j, o);
    struct tft_kv_policy kv;
    if (!kv_fisher_wanted(j->o->kv))
        return;
    tft_kv_parse(&kv, j->o->kv, NULL);
    f->j = j;
    f->o = (struct kv_fisher_opts){
        .text = o->text,
        .n_windows = (uint32_t)(o->n_text / window),
        .window = window,
        .far = kv.k.window,
        .sinks = kv.sinks,
        .n_threads = o->n_threads,
        .progress = job_progress,
        .user = j,
    };
}

static enum tft_status measure(struct job_fisher *f, const struct tft_model *m)
{
    struct job *j = f->j;
    bool stopped;
    enum tft_status status = job_begin(j, "calibrating the KV cache", 1);
    if (status != TFT_OK)
        return status;
    status = kv_fisher_measure(m, &f->o, &f->found, &stopped, j->err);
    return job_end(j, status, stopped);
}

/* Chooses bits within the budget of --kv-search. m: the model without tables */
static enum tft_status choose(struct job_fisher *f, const struct tft_model *m)
{
    struct job *j = f->j;
    struct kv_search_opts o = {0};
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    double numbers = 0; /* of a token's keys and values */
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        numbers += tft_model_kv_window(m, l) ? 0 : 2.0 * (double)tft_model_kv_width(m, l);
    for (int i = 0; i < TFT_KV_SIDES; i++)
        shape.fisher[i] = f->found.table[i];
    enum tft_status status = job_kv_budget(j, &o);
    if (status != TFT_OK)
        return status;
    struct fisher_budget budget = {o.bytes ? (double)o.bytes : o.bits * numbers / 8, o.depth};
    return fisher_choose_bits(&f->chosen, &shape, j->o->kv, budget, m->source.name, j->err);
}

enum tft_status job_fisher_finish(struct job_fisher *f, struct job_made *made)
{
    if (!f->j)
        return TFT_OK;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = measure(f, made->model);
    if (status == TFT_OK && f->j->o->kv_search)
        status = choose(f, made->model);
    made->change.kv = *f->chosen.kv ? f->chosen.kv : f->j->o->kv;
    for (int i = 0; i < TFT_KV_SIDES; i++)
        made->change.fisher[i] = f->found.table[i];
    made->changed = true;
    return status;
}

void job_fisher_free(struct job_fisher *f) { kv_fisher_free(&f->found); }
