#include "tools/quantize/job/merge.h"

#include <math.h>
#include <stdlib.h>

#include "base/new_file.h"
#include "base/options.h"
#include "models/open.h"
#include "tools/quantize/write/merge.h"

enum tft_status job_merge_check(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    if (o->n_loras && !o->loras)
        return job_misuse(j, "struct tft_quantize_opts: n_loras is not 0, and loras is NULL");
    for (size_t i = 0; i < o->n_loras; i++) {
        const struct tft_quantize_lora *lora = &o->loras[i];
        if (tft_options_reserved(lora->reserved, sizeof lora->reserved, "tft_quantize_lora",
                                 j->err) != TFT_OK)
            return TFT_ERR_ARG;
        if (!lora->path || !isfinite(lora->scale))
            return job_misuse(j, "--lora: an adapter has no path, or a scale that is not a number");
    }
    return TFT_OK;
}

/* Tells the caller how much disk the merged file takes. */
static enum tft_status tell_plan(struct job *j, uint64_t bytes)
{
    struct tft_quantize_plan plan = {.size = sizeof plan, .disk = bytes, .imported = bytes};
    j->imported_bytes = bytes;
    return !j->o->plan || j->o->plan(j->o->user, &plan)
               ? TFT_OK
               : tft_fail(j->err, TFT_ERR_CANCELLED, "stopped before the work");
}

static enum tft_status write_merged(struct job *j, const struct merge *g,
                                    struct tft_new_file **temp)
{
    uint64_t bytes;
    bool stopped;
    enum tft_status status = merge_check(g, &bytes, j->err);
    if (status == TFT_OK)
        status = tell_plan(j, bytes);
    if (status == TFT_OK)
        status = job_begin(j, "merging", 1);
    if (status != TFT_OK)
        return status;
    status = merge_temp(g, j->out, temp, &stopped, j->err);
    return job_end(j, status, stopped);
}

static enum tft_status merge_with(struct job *j, const struct tft_model *m, struct tft_lora **lora,
                                  struct tft_lora_use *use, struct tft_new_file **temp)
{
    const struct tft_quantize_opts *o = j->o;
    enum tft_status status = TFT_OK;
    for (size_t i = 0; i < o->n_loras && status == TFT_OK; i++) {
        status = tft_lora_open(&lora[i], m, o->loras[i].path, j->err);
        use[i] = (struct tft_lora_use){.lora = lora[i], .scale = o->loras[i].scale};
    }
    struct merge g = {.m = m, .use = use, .n = o->n_loras, .progress = job_progress, .user = j};
    return status == TFT_OK ? write_merged(j, &g, temp) : status;
}

static enum tft_status merge_model(struct job *j, const struct tft_model *m,
                                   struct tft_new_file **temp)
{
    size_t n = j->o->n_loras;
    struct tft_lora **lora = calloc(n, sizeof *lora);
    struct tft_lora_use *use = calloc(n, sizeof *use);
    enum tft_status status = lora && use ? merge_with(j, m, lora, use, temp) : job_no_memory(j);
    for (size_t i = 0; lora && i < n; i++)
        tft_lora_close(lora[i]);
    free(lora);
    free(use);
    return status;
}

enum tft_status job_merge(struct job *j, const char *path)
{
    struct tft_model_opts o = {.size = sizeof o,
                               .tokenizer = j->o->tokenizer,
                               .ignore_keys = j->imported ? NULL : j->o->ignore_keys};
    struct tft_model *m;
    struct tft_new_file *temp = NULL;
    const char *file = j->imported ? j->imported->temp.name : path;
    enum tft_status status = tft_model_open_unexpanded(&m, file, &o, j->err);
    if (status == TFT_OK) {
        m->source.name = path; /* for messages */
        status = merge_model(j, m, &temp);
    }
    tft_model_close(m);
    if (status != TFT_OK)
        return status;
    if (j->imported)
        tft_new_file_end(j->imported, false, NULL);
    j->imported = temp;
    return TFT_OK;
}
