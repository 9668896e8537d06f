#include "tools/quantize/job/made.h"

#include <stdlib.h>

#include "tools/quantize/round/prefix_pack.h"

const char *job_made_path(const struct job_made *d) { return d->temp->temp.name; }

enum tft_status job_made_open(struct job_made *d)
{
    struct tft_model_opts o = {.size = sizeof o, .n_threads = d->j->o->n_threads};
    if (d->model)
        return TFT_OK;
    enum tft_status status = tft_model_open(&d->model, job_made_path(d), &o, d->j->err);
    if (status == TFT_OK)
        d->model->source.name = d->j->out; /* for messages */
    return status;
}

enum tft_status job_made_change_prefix(struct job_made *d)
{
    struct tft_model *m = d->model;
    struct rewrite *c = &d->change;
    size_t n = (size_t)(m->n_prefix * m->kv_numbers);
    enum tft_status status = prefix_check_type(m, c->type, d->j->err);
    if (status != TFT_OK)
        return status;
    d->rows = malloc((2 * n + 1) * sizeof *d->rows);
    if (!d->rows)
        return job_no_memory(d->j);
    prefix_round(m, c->type, m->n_prefix, c->k, d->rows);
    prefix_round(m, c->type, m->n_prefix, c->v, d->rows + n);
    m->prefix_k = d->rows;
    m->prefix_v = d->rows + n;
    d->changed = true;
    return TFT_OK;
}

void job_made_close(struct job_made *d)
{
    tft_model_close(d->model);
    d->model = NULL;
    free(d->rows);
    d->rows = NULL;
}

enum tft_status job_made_finish(struct job_made *d)
{
    struct tft_new_file *changed;
    if (!d->changed)
        return TFT_OK;
    enum tft_status status = rewrite_temp(d->model, d->j->out, &d->change, &changed, d->j->err);
    if (status == TFT_OK) {
        job_made_drop(d);
        d->temp = changed;
    }
    return status;
}

enum tft_status job_made_keep(struct job_made *d)
{
    struct tft_new_file *temp = d->temp;
    d->temp = NULL;
    return tft_new_file_end(temp, true, d->j->err);
}

void job_made_drop(struct job_made *d)
{
    job_made_close(d);
    if (d->temp)
        tft_new_file_end(d->temp, false, NULL);
    d->temp = NULL;
}
