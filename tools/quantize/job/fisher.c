#include "tools/quantize/job/fisher.h"

#include "tools/quantize/tune/tune.h"

enum tft_status job_fisher_look(struct job *j)
{
    const struct tft_model *m = j->m;
    if (!kv_fisher_wanted(j->o->kv))
        return TFT_OK;
    if (m->kv_heads || m->n_shared || m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_SPAN)
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: the KV cache fisher takes the same heads in all layers, each with its "
                        "own keys and values, of whole multiples of %d up to %d channels",
                        m->source.name, TFT_QUAD, TFT_CODED_SPAN);
    if (j->o->kv_search)
        return job_misuse(j, "--kv-search does not search a KV cache fisher: choose its bits, as "
                             "in --kv fisher:bits=1.5");
    return tune_check(m, j->err);
}

void job_fisher_begin(struct job_fisher *f, struct job *j, const struct quantize_opts *o)
{
    struct tft_kv_policy kv;
    if (!kv_fisher_wanted(j->o->kv))
        return;
    tft_kv_parse(&kv, j->o->kv, NULL);
    f->j = j;
    f->o = (struct kv_fisher_opts){
        .text = o->text,
        .n_windows = (uint32_t)(o->n_text / o->window),
        .window = o->window,
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

enum tft_status job_fisher_finish(struct job_fisher *f, struct job_made *made)
{
    if (!f->j)
        return TFT_OK;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = measure(f, made->model);
    made->change.kv = f->j->o->kv;
    for (int i = 0; i < TFT_KV_SIDES; i++)
        made->change.fisher[i] = f->found.table[i];
    made->changed = true;
    return status;
}

void job_fisher_free(struct job_fisher *f) { kv_fisher_free(&f->found); }
