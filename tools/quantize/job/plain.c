#include "tools/quantize/job/plain.h"

#include <stdlib.h>
#include <string.h>

#include "kv/policy.h"
#include "model/keys.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/tune/kv_fisher.h"

/* ---- options */

/* The first option of W8A8 models that is given; NULL: none. */
static const char *other_option(const struct tft_quantize_opts *o)
{
    return o->bits                           ? "--bits"
           : o->bits_search                  ? "--bits-search"
           : o->group                        ? "--group"
           : o->rounding == TFT_ROUND_AWQ    ? "--rounding awq"
           : o->rotate                       ? "--rotate"
           : o->smooth > 0                   ? "--smooth"
           : strcmp(o->dynamic, "auto") != 0 ? "--dynamic"
           : o->intact                       ? "--intact"
           : o->intact_text                  ? "--intact-text"
           : o->intact_tokens                ? "--intact-tokens"
           : o->n_system                     ? "--intact-system"
           : o->cushion                      ? "--cushion"
           : o->tune                         ? "--tune"
                                             : NULL;
}

/* Whether a cache is calibrated together with weights of a W8A8 model; kv may be NULL, or
   invalid. */
static bool is_of_w8a8(const char *kv)
{
    struct tft_kv_policy p;
    return kv && tft_kv_parse(&p, kv, NULL) == TFT_OK &&
           (p.reorder || p.clip == TFT_KV_CALIBRATED || p.k.axis == TFT_KV_MIXED);
}

static enum tft_status check_cache(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    if (is_of_w8a8(o->kv))
        return job_misuse(j,
                          "--kv %.60s is for W8A8 models, which have its calibration, and --gguf "
                          "makes a plain file: choose fisher, or a cache that needs none",
                          o->kv);
    if (o->kv_search && !kv_fisher_wanted(o->kv))
        return job_misuse(j, "--kv-search is for W8A8 models, and with --gguf for --kv fisher");
    return TFT_OK;
}

/* Whether codes of these blocks are chosen with feedback. */
static bool is_fed(enum tft_dtype type)
{
    unsigned levels = blocks_levels(type);
    return levels && levels <= 32;
}

bool job_plain_needs_text(const struct job_plain *p, const struct job *j)
{
    return mix_makes_blocks(p->mix) || kv_fisher_wanted(j->o->kv);
}

enum tft_status job_plain_check(struct job_plain *p, struct job *j)
{
    if (!j->o->gguf)
        return TFT_OK;
    const char *other = other_option(j->o);
    p->mix = mix_find(j->o->gguf);
    if (!p->mix)
        return job_misuse(j, "--gguf: tuffet does not write %s; it writes %s", j->o->gguf,
                          mix_names());
    if (other)
        return job_misuse(j, "%s is for W8A8 models, and --gguf makes a plain file", other);
    if (check_cache(j) != TFT_OK)
        return TFT_ERR_ARG;
    if (!job_plain_needs_text(p, j) && (j->o->calib || j->o->calib_window))
        return job_misuse(j, "%s: --gguf %s makes no blocks, and needs no text",
                          j->o->calib ? "--calib" : "--calib-window", p->mix->name);
    if (j->o->rounding == TFT_ROUND_GPTQ_ONLY && !is_fed(p->mix->usual))
        return job_misuse(j, "--rounding gptq is for blocks of 3 to 5 bits, and --gguf %s makes "
                          "none: leave it out",
                          p->mix->name);
    return TFT_OK;
}

/* Whether a tensor becomes blocks with codes that are chosen with feedback. */
static bool makes_fed(const struct job_plain *p, const struct tft_source *s)
{
    for (size_t i = 0; i < s->n_tensor; i++) {
        enum tft_dtype type = mix_type(p->mix, s, &s->tensor[i]);
        if (type != s->tensor[i].type && is_fed(type))
            return true;
    }
    return false;
}

enum tft_status job_plain_fits(const struct job_plain *p, struct job *j)
{
    const struct tft_source *s = &j->m->source;
    if (tft_source_value(s, TFT_KEY_VERSION) || tft_source_value(s, TFT_KEY_PACKED))
        return tft_fail(j->err, TFT_ERR_ARG,
                        "%s: is %s already: give the float model, or another GGUF file", s->name,
                        tft_source_value(s, TFT_KEY_PACKED) ? "packed" : "quantized");
    if (j->o->rounding == TFT_ROUND_GPTQ_ONLY && j->m->encoder)
        return job_misuse(j, "--rounding gptq: %s is an encoder, which --gguf rounds to nearest",
                          s->name);
    if (j->o->rounding == TFT_ROUND_GPTQ_ONLY && !makes_fed(p, s))
        return job_misuse(j, "--rounding gptq: no matrix of %s becomes blocks of 4 or 5 bits",
                          s->name);
    return TFT_OK;
}

/* ---- text */

/* As of quantize(), without a prefix. */
static struct quantize_opts opts_of(struct job *j, const struct job_text *t)
{
    return (struct quantize_opts){.text = t->ids,
                                  .n_text = t->n,
                                  .window = t->window,
                                  .n_threads = j->o->n_threads,
                                  .progress = job_progress,
                                  .user = j};
}

static enum tft_status make_text(struct job *j, struct job_text *t)
{
    static const int32_t none[1];
    if (j->m->encoder)
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: is an encoder, which --gguf does not calibrate", j->m->source.name);
    enum tft_status status = job_text_make(t, j, NULL, 0);
    if (status == TFT_OK)
        status = job_text_begin(t, none, 0, 0, 0);
    if (status != TFT_OK)
        return status;
    job_text_spread(t, 0);
    struct quantize_opts o = opts_of(j, t);
    return quantize_check(j->m, &o, j->err);
}

enum tft_status job_plain_text(struct job_plain *p, struct job *j, struct job_text *t)
{
    bool fisher = kv_fisher_wanted(j->o->kv);
    enum tft_status status = job_plain_needs_text(p, j) ? make_text(j, t) : TFT_OK;
    p->n_tokens = t->n;
    if (status == TFT_OK || status == TFT_ERR_NOMEM || status == TFT_ERR_ARG || j->o->calib ||
        fisher)
        return status; /* TFT_ERR_ARG: --calib-window or --calib-tokens do not fit */
    if (j->o->rounding == TFT_ROUND_GPTQ_ONLY)
        return job_misuse(j, "--rounding gptq needs a text: %s", j->err->msg);
    job_note(j, "no calibration: all columns count alike, and the loss is not measured: %s",
             j->err->msg);
    job_text_free(t);
    return TFT_OK;
}

enum tft_status job_plain_measure(struct job_plain *p, struct job *j, const struct job_text *t)
{
    bool stopped;
    if (!t->n || !mix_makes_blocks(p->mix) || j->lab->equal_columns)
        return TFT_OK;
    struct quantize_opts o = opts_of(j, t);
    enum tft_status status = job_begin(j, "measuring", 1);
    if (status != TFT_OK)
        return status;
    return job_end(j, importance_measure(&p->importance, j->m, &o, &stopped, j->err), stopped);
}

bool job_plain_has_feedback(const struct job_plain *p, const struct job *j)
{
    bool wanted = j->o->rounding == TFT_ROUND_GPTQ || j->o->rounding == TFT_ROUND_GPTQ_ONLY;
    return wanted && !j->m->encoder && is_fed(p->mix->usual);
}

enum tft_status job_plain_round(struct job_plain *p, struct job *j, const struct job_text *t)
{
    bool stopped;
    if (!t->n || !job_plain_has_feedback(p, j))
        return TFT_OK;
    struct quantize_opts o = opts_of(j, t);
    p->blocks.mix = p->mix;
    p->blocks.of = calloc(j->m->source.n_tensor + 1, sizeof *p->blocks.of);
    o.blocks = &p->blocks;
    if (!p->blocks.of)
        return job_no_memory(j);
    enum tft_status status = job_begin(j, "rounding weights", 0.8);
    if (status != TFT_OK)
        return status;
    return job_end(j, quantize_to_blocks(j->m, &o, &stopped, j->err), stopped);
}

void job_plain_free(struct job_plain *p, const struct job *j)
{
    for (size_t i = 0; p->blocks.of && i < j->m->source.n_tensor; i++)
        free(p->blocks.of[i]);
    free(p->blocks.of);
    importance_close(&p->importance);
}

/* ---- the file */

enum tft_status job_plain_write(const struct job_plain *p, struct job_made *made)
{
    struct job *j = made->j;
    bool fisher = kv_fisher_wanted(j->o->kv);
    if (!mix_keeps(p->mix) && !j->o->kv && tft_source_value(&j->m->source, TFT_KEY_KV))
        job_note(j, "%s: its default KV cache and its calibration are not kept: give --kv",
                 j->m->source.name);
    struct plain_opts o = {.mix = p->mix,
                           .importance = &p->importance,
                           .rounded = p->blocks.of,
                           .kv = fisher ? NULL : j->o->kv, /* job/fisher.h sets it later */
                           .keeps_cache = !fisher,
                           .n_threads = j->o->n_threads ? j->o->n_threads : tft_cpu_threads(),
                           .progress = job_progress,
                           .user = j};
    bool stopped;
    enum tft_status status = job_begin(j, "writing blocks", 1);
    if (status != TFT_OK)
        return status;
    status = plain_write(&j->m->source, j->out, &o, &made->temp, &stopped, j->err);
    return job_end(j, status, stopped);
}
