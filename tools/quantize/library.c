/* The functions of tuffet_quantize.h. */
#include "tools/quantize/tuffet_quantize.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tools/import/import.h"
#include "tools/quantize/report.h"
#include "tools/quantize/run.h"

/* ---- results */

/* A result and its arrays. */
struct owned {
    struct tft_quantize_result shown; /* first: tft_quantize_free gets its address */
    struct tft_quantize_loss loss[CHECK_GROUPS];
    struct tft_quantize_input *input; /* [inputs] */
    int32_t *prefix;
    char *bits, *kv, *report, *json;
};

static void copy_losses(struct owned *to, const struct quantize_run *run)
{
    to->shown.check = to->loss;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const struct check_loss *l = &run->check.loss[g];
        if (l->tokens)
            to->loss[to->shown.n_check++] =
                (struct tft_quantize_loss){.group = check_group_name((enum check_group)g),
                                           .tokens = l->tokens,
                                           .floats = l->floats,
                                           .file = l->file,
                                           .divergence = l->divergence,
                                           .same = l->same};
    }
}

static void copy_input(struct tft_quantize_input *to, const struct quantize_run *run,
                       uint32_t index)
{
    const struct quantize_input *from = &run->result[index];
    char name[64];
    *to = (struct tft_quantize_input){.per_token = run->range[index] != TFT_RANGE_STATIC,
                                      .zero = from->affine.zero,
                                      .scale = from->affine.scale,
                                      .min = from->min,
                                      .max = from->max,
                                      .error = from->error};
    size_t n = strlen(quantize_input_name(run->m->n_layer, index, name)),
           most = sizeof to->name - 1;
    memcpy(to->name, name, n < most ? n : most);
}

/* A copy of text; NULL stays NULL. Sets *good to false if memory is short. */
static char *copy_text(const char *text, bool *good)
{
    char *copy = text ? malloc(strlen(text) + 1) : NULL;
    *good &= copy || !text;
    return copy ? strcpy(copy, text) : NULL;
}

static void free_owned(struct owned *r)
{
    free(r->input);
    free(r->prefix);
    free(r->bits);
    free(r->kv);
    free(r->report);
    free(r->json);
    free(r);
}

/* A report in memory; NULL if it is short. */
static char *report_of(const struct quantize_run *run,
                       void (*write)(struct sink *to, const struct quantize_run *run))
{
    struct sink to = {0};
    write(&to, run);
    if (!to.failed)
        return to.text;
    free(to.text);
    return NULL;
}

/* NULL if memory is short. */
static struct owned *result_of(const struct quantize_run *run)
{
    uint32_t n_input = run->plain.mix ? 0 : tft_model_inputs(run->m), n_prefix = run->o.n_prefix;
    struct owned *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->input = malloc((n_input + 1) * sizeof *r->input);
    r->prefix = malloc((n_prefix + 1) * sizeof *r->prefix);
    r->bits = job_bits_text(&run->bits);
    r->report = report_of(run, quantize_report);
    r->json = report_of(run, quantize_report_json);
    bool good = r->input && r->prefix && r->report && r->json && (r->bits || !run->bits.matrix);
    r->kv = copy_text(run->kv.result.unit       ? job_kv_kept(&run->kv)->kv
                      : *run->fisher.chosen.kv ? run->fisher.chosen.kv
                                               : NULL,
                      &good);
    if (!good) {
        free_owned(r);
        return NULL;
    }
    for (uint32_t i = 0; i < n_input; i++)
        copy_input(&r->input[i], run, i);
    if (n_prefix)
        memcpy(r->prefix, run->o.prefix, n_prefix * sizeof *r->prefix);
    r->shown = (struct tft_quantize_result){
        .size = sizeof r->shown,
        .n_tokens = run->plain.mix ? run->plain.n_tokens
                                   : run->o.n_text / run->o.window * run->o.window,
        .window = run->plain.mix ? run->text.window : run->o.window,
        .prefix = r->prefix,
        .n_prefix = n_prefix,
        .input = r->input,
        .n_input = n_input,
        .bits = r->bits,
        .kv = r->kv,
        .report = r->report,
        .json = r->json,
    };
    copy_losses(r, run);
    return r;
}

/* ---- the functions */

enum tft_status quantize_with(const char *model, const char *out,
                              const struct tft_quantize_opts *opts, const struct quantize_lab *lab,
                              struct tft_quantize_result **result, struct tft_error *err)
{
    struct tft_error unseen;
    struct quantize_run *run = malloc(sizeof *run);
    struct owned *r = NULL;
    err = err ? err : &unseen;
    if (result)
        *result = NULL;
    if (!run)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    enum tft_status status = quantize_run_begin(run, model, out, opts, lab, err);
    if (status == TFT_OK)
        status = quantize_run_make(run);
    if (status == TFT_OK && result && !(r = result_of(run)))
        status = run->status =
            tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for the results", out);
    if (status == TFT_OK)
        status = quantize_run_keep(run);
    if (status == TFT_OK && result)
        *result = &r->shown;
    else if (r)
        free_owned(r);
    quantize_run_free(run);
    free(run);
    return status;
}

enum tft_status tft_quantize(const char *model, const char *out,
                             const struct tft_quantize_opts *opts,
                             struct tft_quantize_result **result, struct tft_error *err)
{
    static const struct quantize_lab product = {.method = RANGE_MSE};
    return quantize_with(model, out, opts, &product, result, err);
}

void tft_quantize_free(struct tft_quantize_result *r)
{
    if (r)
        free_owned((struct owned *)r);
}

static bool tell(void *user, double done)
{
    const struct tft_import_opts *o = user;
    return o->progress(o->user, "importing", done);
}

static void note(void *user, const char *text)
{
    const struct tft_import_opts *o = user;
    o->note(o->user, text);
}

enum tft_status tft_import(const char *folder, const char *out, const struct tft_import_opts *opts,
                           uint64_t *bytes, struct tft_error *err)
{
    struct tft_import_opts given;
    struct import_result r;
    struct tft_error unseen;
    err = err ? err : &unseen;
    enum tft_status status = tft_options_take(&given, sizeof given, opts, "tft_import_opts", err);
    if (status != TFT_OK)
        return status;
    struct import_opts o = {.type = (enum import_type)given.type,
                            .no_tokenizer = given.no_tokenizer,
                            .ignore_keys = given.ignore_keys,
                            .warn = given.note ? note : NULL,
                            .progress = given.progress ? tell : NULL,
                            .user = &given};
    if (given.type > TFT_IMPORT_F32)
        return tft_fail(err, TFT_ERR_ARG, "struct tft_import_opts: there is no type %d",
                        (int)given.type);
    status = import_model(folder, out, &o, &r, err);
    if (status == TFT_OK && r.stopped)
        return tft_fail(err, TFT_ERR_CANCELLED, "stopped while importing");
    if (status == TFT_OK && bytes)
        *bytes = r.bytes;
    return status;
}
