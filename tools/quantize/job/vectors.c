#include "tools/quantize/job/vectors.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/array.h"
#include "tools/quantize/write/in_place.h"

enum tft_status job_vectors_check(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    const char *option = o->kv                      ? "--kv"
                         : o->kv_search             ? "--kv-search"
                         : o->bits_search           ? "--bits-search"
                         : o->tune != TFT_TUNE_NONE ? "--tune"
                         : o->smooth > 0            ? "--smooth"
                         : o->rotate != TFT_ROTATE_AUTO && o->rotate != TFT_ROTATE_NONE ? "--rotate"
                         : o->rounding == TFT_ROUND_AWQ   ? "--rounding awq"
                         : o->cushion != TFT_CUSHION_NONE ? "--cushion"
                         : o->n_system                    ? "--intact-system"
                         : o->intact_text || o->intact_tokens || o->intact == TFT_INTACT_BOS
                             ? "--intact"
                             : NULL;
    if (!j->m->encoder || !option)
        return TFT_OK;
    return tft_fail(j->err, TFT_ERR_UNSUPPORTED, "%s: is an encoder (%s): %s is not for encoders",
                    j->m->source.name, j->m->arch->name, option);
}

/* The vectors of all texts, by the mean of a reranker's tokens too: its scores are no vector. Sets
   the width. */
static enum tft_status embed(struct job_vectors *v, const struct tft_model *m, float **out)
{
    struct tft_embedder *e;
    struct tft_embedder_opts o = {.size = sizeof o,
                                  .pooling = TFT_POOLING_MEAN,
                                  .max_text = v->text->window,
                                  .n_threads = v->j->o->n_threads};
    struct tft_embedder_info info = {.size = sizeof info};
    enum tft_status status = tft_embedder_open(&e, m, &o, v->j->err);
    if (status != TFT_OK)
        return status;
    tft_embedder_describe(e, &info);
    v->width = info.width;
    if (!*out)
        *out = array_alloc(sizeof **out, v->text->n_windows, v->width, 1);
    status = *out ? TFT_OK : job_no_memory(v->j);
    for (uint32_t i = 0; i < v->text->n_windows && status == TFT_OK; i++) {
        struct tft_text_tokens one = {.ids = v->text->ids + (size_t)i * v->text->window,
                                      .n = v->text->window};
        status = tft_embed(e, &one, 1, *out + (size_t)i * v->width);
        if (status != TFT_OK)
            *v->j->err = *tft_embedder_error(e);
    }
    tft_embedder_close(e);
    return status;
}

/* Vectors have length 1. */
static void compare(struct job_vectors *v)
{
    double sum = 0;
    v->n = v->text->n_windows;
    v->most = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        double cosine = 0;
        for (uint32_t d = 0; d < v->width; d++)
            cosine += (double)v->floats[(size_t)i * v->width + d] *
                      (double)v->file[(size_t)i * v->width + d];
        sum += 1 - cosine;
        v->most = 1 - cosine > v->most ? 1 - cosine : v->most;
    }
    v->mean = sum / v->n;
}

/* The vectors of a file's model, which is opened as it is used: that of the run expands its layers
   one by one, and has no products of codes. */
static enum tft_status embed_file(struct job_vectors *v, const char *path, const char *ignore_keys,
                                  float **out)
{
    struct tft_model *m;
    struct tft_model_opts o = {.size = sizeof o, .ignore_keys = ignore_keys};
    enum tft_status status = tft_model_open(&m, path, &o, v->j->err);
    if (status != TFT_OK)
        return status;
    status = embed(v, m, out);
    tft_model_close(m);
    return status;
}

static enum tft_status measure(struct job_vectors *v, const struct job_made *made)
{
    enum tft_status status = job_begin(v->j, "checking", 0.5);
    if (status != TFT_OK)
        return status;
    status = embed_file(v, job_made_path(made), NULL, &v->file);
    if (status == TFT_OK)
        compare(v);
    return job_end(v->j, status, false);
}

/* Of the n inputs, gives `more` static ones ranges by token, the one with the largest error first.
   Returns how many there were. */
static uint32_t give(const struct quantize_input *result, enum tft_range *range, uint32_t n,
                     uint32_t more)
{
    uint32_t given = 0;
    while (given < more) {
        uint32_t worst = n;
        for (uint32_t i = 0; i < n; i++)
            if (range[i] == TFT_RANGE_STATIC && result[i].error > 0 &&
                (worst == n || result[i].error > result[worst].error))
                worst = i;
        if (worst == n)
            break;
        range[worst] = TFT_RANGE_TOKEN;
        given++;
    }
    return given;
}

static enum tft_status open(struct job_vectors *v, const struct job_text *t)
{
    const struct job *j = v->j = t->j;
    v->text = &t->group[CHECK_TEXT];
    return j->imported ? embed_file(v, j->imported->temp.name, NULL, &v->floats)
                       : embed_file(v, j->m->source.name, j->o->ignore_keys, &v->floats);
}

enum tft_status job_vectors_choose(struct job_vectors *v, const struct job_text *t,
                                   const struct job_made *made, const struct quantize_input *result,
                                   enum tft_range *range)
{
    uint32_t n = tft_model_inputs(t->j->m), more = (n + 7) / 8;
    bool is_auto = strcmp(t->j->o->dynamic, "auto") == 0;
    enum tft_status status = open(v, t);
    if (status == TFT_OK)
        status = measure(v, made);
    while (status == TFT_OK && is_auto && !(v->mean <= VECTORS_LOSS)) {
        uint32_t given = give(result, range, n, more);
        if (!given)
            break;
        v->n_ranges += given;
        status = write_ranges(job_made_path(made), range, n, v->j->err);
        if (status == TFT_OK)
            status = measure(v, made);
    }
    return status;
}

void job_vectors_free(struct job_vectors *v)
{
    free(v->floats);
    free(v->file);
    *v = (struct job_vectors){0};
}
