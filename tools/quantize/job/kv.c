#include "tools/quantize/job/kv.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/tune/kv_fisher.h"

/* Parses the part before the depth. */
static bool take_amount(const char **p, struct kv_search_opts *to)
{
    size_t n = strspn(*p, "0123456789.");
    uint32_t bytes;
    char *end;
    if ((*p)[n] == 'B') {
        bool ok = job_take_number(p, &bytes) && *(*p)++ == 'B' && bytes;
        to->bytes = ok ? bytes : 0;
        return ok;
    }
    to->bits = n ? strtod(*p, &end) : 0;
    if (!n || end != *p + n)
        return false;
    *p = end;
    return to->bits > 0 && to->bits <= 16;
}

enum tft_status job_kv_budget(struct job *j, struct kv_search_opts *to)
{
    const char *p = j->o->kv_search;
    bool ok = take_amount(&p, to);
    if (ok && *p == '@') {
        p++;
        ok = job_take_number(&p, &to->depth) && to->depth;
    }
    if (ok && !*p)
        return TFT_OK;
    return job_misuse(j,
                      "--kv-search takes bits per number up to 16, or bytes per token like 5632B, "
                      "and a depth like @8192, not \"%s\"",
                      j->o->kv_search);
}

enum tft_status job_kv_check(struct job *j)
{
    struct kv_search_opts budget;
    return j->o->kv_search ? job_kv_budget(j, &budget) : TFT_OK;
}

enum tft_status job_kv_begin(struct job_kv *k, struct job *j, const struct quantize_opts *o)
{
    if (!j->o->kv_search || kv_fisher_wanted(j->o->kv)) /* job/fisher.h chooses its bits */
        return TFT_OK;
    k->j = j;
    k->o = (struct kv_search_opts){
        .text = o->text,
        .n_windows = (uint32_t)(o->n_text / o->window),
        .window = o->window,
        .kv = o->kv ? o->kv : "tuffet",
        .n_threads = o->n_threads,
        .progress = job_progress,
        .user = j,
    };
    enum tft_status status = job_kv_budget(j, &k->o);
    return status == TFT_OK ? kv_search_check(j->m, &k->o, j->err) : status;
}

static enum tft_status search(struct job_kv *k, const struct tft_model *m)
{
    struct job *j = k->j;
    bool stopped;
    enum tft_status status = job_begin(j, "searching KV bits", 1);
    if (status != TFT_OK)
        return status;
    status = kv_search(m, &k->o, &k->result, &stopped, j->err);
    return job_end(j, status, stopped);
}

const struct kv_measured *job_kv_kept(const struct job_kv *k)
{
    return k->result.better ? &k->result.searched : &k->result.uniform;
}

enum tft_status job_kv_finish(struct job_kv *k, struct job_made *made)
{
    if (!k->j)
        return TFT_OK;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = search(k, made->model);
    made->change.kv = job_kv_kept(k)->kv;
    made->changed = true;
    return status;
}

void job_kv_free(struct job_kv *k) { kv_search_free(&k->result); }
