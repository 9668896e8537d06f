#include "tools/quantize/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "port/port.h"
#include "tools/quantize/job/format.h"
#include "tools/quantize/job/merge.h"
#include "tools/quantize/job/open.h"
#include "tools/quantize/plan.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/write/in_place.h"

/* ---- the new model */

static enum tft_status convert(struct quantize_run *run)
{
    struct job *j = &run->job;
    bool stopped;
    enum tft_status status = job_begin(j, run->o.rows_k ? "quantizing again" : "quantizing", 1);
    if (status != TFT_OK)
        return status;
    status = quantize_temp(run->m, j->out, &run->o, run->result, &run->made.temp, &stopped, j->err);
    return job_end(j, status, stopped);
}

/* Measures the model, and chooses the inputs with per-token ranges. */
static enum tft_status choose_ranges(struct quantize_run *run)
{
    if (!job_check_has_text(&run->text))
        return TFT_OK;
    job_enter(&run->job, JOB_RANGES);
    if (run->m->encoder)
        return job_vectors_choose(&run->vectors, &run->text, &run->made, run->result, run->range);
    enum tft_status status = job_check_open(&run->check, &run->text);
    if (status == TFT_OK)
        status = job_check_made(&run->check, &run->made, "checking", 0.3);
    return status == TFT_OK
               ? job_ranges_choose(&run->ranges, &run->check, &run->text, &run->made, run->range)
               : status;
}

/* Stores the loss of the finished model in it. changed: later steps have changed the measured
   model */
static enum tft_status check(struct quantize_run *run, bool changed)
{
    enum tft_status status = TFT_OK;
    if (!job_check_has_text(&run->text) || run->m->encoder)
        return TFT_OK;
    job_enter(&run->job, JOB_CHECK);
    if (changed)
        status = job_check_made(&run->check, &run->made, "checking", 1);
    return status == TFT_OK
               ? write_held_out(job_made_path(&run->made), run->check.loss, run->job.err)
               : status;
}

/* Tunes the prefix, and makes the model again if its ranges have changed. */
static enum tft_status tune_prefix(struct quantize_run *run)
{
    bool again;
    job_enter(&run->job, JOB_TUNE);
    enum tft_status status = job_tune_run(&run->tune, &run->o, &run->made, &again);
    if (status == TFT_OK && again)
        status = convert(run);
    return status == TFT_OK ? job_tune_finish(&run->tune, &run->made) : status;
}

/* What follows quantize_temp(). */
static enum tft_status finish(struct quantize_run *run)
{
    struct job_made *made = &run->made;
    enum tft_status status = choose_ranges(run);
    if (status == TFT_OK)
        status = tune_prefix(run);
    job_enter(&run->job, JOB_SYSTEM);
    if (status == TFT_OK)
        status = job_system_finish(&run->system, made);
    job_enter(&run->job, JOB_KV);
    if (status == TFT_OK)
        status = job_kv_finish(&run->kv, made);
    if (status == TFT_OK)
        status = job_fisher_finish(&run->fisher, made);
    if (status == TFT_OK)
        status = job_made_finish(made);
    if (status == TFT_OK)
        status = check(run, made->changed);
    return status == TFT_OK ? job_complete_progress(&run->job) : status;
}

static enum tft_status make(struct quantize_run *run)
{
    struct job *j = &run->job;
    uint64_t start = tft_port_ns();
    run->result = malloc(tft_model_inputs(run->m) * sizeof *run->result);
    enum tft_status status = run->result ? job_kv_begin(&run->kv, j, &run->o) : job_no_memory(j);
    if (status == TFT_OK)
        status = job_system_begin(&run->system, &run->o);
    if (status == TFT_OK)
        status = job_tune_begin(&run->tune, j, &run->o);
    job_fisher_begin(&run->fisher, j, &run->o);
    job_enter(j, JOB_BITS);
    if (status == TFT_OK)
        status = job_bits_run(j, &run->o, run->matrix_bits, &run->bits);
    run->o.nats = run->bits.matrix ? run->matrix_bits.nats : NULL;
    job_enter(j, JOB_QUANTIZE);
    if (status == TFT_OK)
        status = convert(run);
    if (status == TFT_OK)
        status = finish(run);
    run->seconds = (double)(tft_port_ns() - start) / 1e9;
    return status;
}

/* ---- its prefix */

/* Makes a small model with a candidate, and measures it. */
static enum tft_status try_prefix(struct quantize_run *run, uint32_t index, struct job_made *trial)
{
    struct job_prefix *prefix = &run->prefix;
    char step[64];
    snprintf(step, sizeof step, "trying prefix %u of %u", (unsigned)index + 1,
             (unsigned)prefix->n_choices);
    return job_check_try(&run->check, &run->text, &run->o, trial, &prefix->choice[index],
                         run->n_start, step);
}

/* The first candidate is BOS, or no prefix: it may have per-token ranges too, and if they suffice,
   no other is tried. chosen: [inputs] its ranges */
static enum tft_status try_start(struct quantize_run *run, struct job_made *trial,
                                 enum tft_range *chosen)
{
    size_t bytes = tft_model_inputs(run->m) * sizeof *chosen;
    enum tft_range *fixed = malloc(bytes);
    if (!fixed)
        return job_no_memory(&run->job);
    memcpy(fixed, run->range, bytes);
    enum tft_status status = try_prefix(run, 0, trial);
    if (status == TFT_OK)
        status = job_ranges_choose(&run->ranges, &run->check, &run->text, trial, run->range);
    memcpy(chosen, run->range, bytes);
    memcpy(run->range, fixed, bytes);
    free(fixed);
    return status;
}

/* The work of the first candidate, in units of another one's: it has a run of the float model
   before it, and a search for ranges after it. */
#define FIRST 4.0

/* Tries each candidate. A prefix of words makes the model expect other text. *best: the prefix of
   the model nearest to the float model */
static enum tft_status try_all(struct quantize_run *run, enum tft_range *chosen, uint32_t *best)
{
    struct job_prefix *prefix = &run->prefix;
    struct job_made trial = {.j = &run->job};
    enum tft_status status = TFT_OK;
    *best = 0;
    for (uint32_t i = 0; i < prefix->n_choices && status == TFT_OK; i++) {
        struct check_prefix *p = &prefix->choice[i];
        job_part(&run->job,
                 i ? 1.0 / (prefix->n_choices - i) : FIRST / (FIRST - 1 + prefix->n_choices));
        status = i ? try_prefix(run, i, &trial) : try_start(run, &trial, chosen);
        job_made_drop(&trial);
        p->nats = job_check_divergence(&run->check);
        if (p->nats < prefix->choice[*best].nats)
            *best = i;
        if (i == 0 && !prefix->searched && job_ranges_hold(&run->check))
            prefix->n_choices = 1;
    }
    return status;
}

static enum tft_status try_prefixes(struct quantize_run *run, uint32_t *best)
{
    size_t bytes = tft_model_inputs(run->m) * sizeof *run->range;
    enum tft_range *chosen = malloc(bytes);
    enum tft_status status = chosen ? try_all(run, chosen, best) : job_no_memory(&run->job);
    if (status == TFT_OK && *best == 0)
        memcpy(run->range, chosen, bytes);
    else
        job_ranges_free(&run->ranges);
    free(chosen);
    return status;
}

/* Adds the candidates that the text suggests. */
static enum tft_status look_for_prefixes(struct quantize_run *run)
{
    struct job_text *t = &run->text;
    size_t n_first;
    job_enter(&run->job, JOB_LOOK);
    enum tft_status status = job_prefix_look(&run->prefix, t->ids, t->n, t->window);
    job_enter(&run->job, JOB_SEARCH);
    if (status == TFT_OK)
        status = job_prefix_search(&run->prefix, t->ids, t->n);
    if (status != TFT_OK)
        return status;
    const int32_t *first = job_text_first(t, &n_first);
    job_prefix_add_first(&run->prefix, first, n_first);
    status = job_prefix_fit(&run->prefix);
    if (status == TFT_OK)
        status = job_system_fit(&run->system);
    run->n_start = job_prefix_start(&run->prefix);
    return status;
}

/* Of several candidates takes the best. */
static enum tft_status choose_prefix(struct quantize_run *run)
{
    uint32_t best = 0;
    if (run->prefix.n_choices < 2 || !job_check_has_text(&run->text))
        return TFT_OK;
    job_enter(&run->job, JOB_TRY);
    enum tft_status status = try_prefixes(run, &best);
    return status == TFT_OK ? job_prefix_take(&run->prefix, best) : status;
}

/* Finds the prefix, and takes the windows of the calibration text. */
static enum tft_status find_prefix(struct quantize_run *run)
{
    struct quantize_opts *o = &run->o;
    struct job_prefix *prefix = &run->prefix;
    struct job_text *t = &run->text;
    enum tft_status status = job_text_begin(t, prefix->ids, (uint32_t)prefix->n, prefix->n_text, 0);
    o->text = t->ids;
    o->n_text = t->n;
    o->window = t->window;
    if (status == TFT_OK)
        status = quantize_check(run->m, o, run->job.err);
    if (status == TFT_OK)
        status = look_for_prefixes(run);
    if (status == TFT_OK)
        status = choose_prefix(run);
    if (status == TFT_OK)
        status = job_text_begin(t, prefix->ids, (uint32_t)prefix->n, prefix->n_text, run->n_start);
    if (status != TFT_OK)
        return status;
    job_text_spread(t, 0);
    o->text = t->ids;
    o->n_text = t->n;
    o->prefix = prefix->ids;
    o->n_prefix = (uint32_t)prefix->n;
    o->n_prefix_text = t->n_prefix_text;
    o->pivots = prefix->pivots;
    o->cushion = prefix->searched ? &prefix->cushion : NULL;
    return TFT_OK;
}

/* ---- the options */

static enum tft_status check_kv(struct job *j)
{
    struct tft_kv_policy kv;
    struct tft_error err;
    if (!j->o->kv)
        return TFT_OK;
    if (tft_kv_parse(&kv, j->o->kv, &err) != TFT_OK)
        return job_misuse(j, "--kv: %s", err.msg);
    return TFT_OK;
}

/* A program that was built with a later header may choose what this library does not know. */
static enum tft_status check_choices(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    const struct {
        const char *name;
        unsigned chosen, last;
    } all[] = {{"rotate", o->rotate, TFT_ROTATE_ALL},
               {"rounding", o->rounding, TFT_ROUND_GPTQ_ONLY},
               {"intact", o->intact, TFT_INTACT_BOS},
               {"cushion", o->cushion, TFT_CUSHION_EXHAUSTIVE},
               {"tune", o->tune, TFT_TUNE_OUTPUTS}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].chosen > all[i].last)
            return job_misuse(j, "--%s: there is no choice %u in this version", all[i].name,
                              all[i].chosen);
    return TFT_OK;
}

static enum tft_status check_options(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    if (check_choices(j) != TFT_OK)
        return TFT_ERR_ARG;
    if (o->smooth < 0 || !(o->smooth <= 1))
        return job_misuse(j, "--smooth must be within 0 .. 1");
    if (o->smooth > 0 && o->rounding == TFT_ROUND_AWQ)
        return job_misuse(j, "--smooth and --rounding awq scale the same inputs: choose one");
    enum tft_status status = job_bits_check(j);
    if (status == TFT_OK)
        status = check_kv(j);
    if (status == TFT_OK)
        status = job_text_check(j);
    if (status == TFT_OK)
        status = job_prefix_check(j);
    if (status == TFT_OK)
        status = job_format_check(j);
    if (status == TFT_OK)
        status = job_system_check(j);
    if (status == TFT_OK)
        status = job_merge_check(j);
    return status == TFT_OK ? job_kv_check(j) : status;
}

/* Whether weights of Q4_0 get 4 bits, and nothing that was asked for changes them before: their
   codes are kept then (round/keep_codes.h), if neither rotation nor a group of several blocks
   forbids it. The first layer stands for all. */
static bool keeps_codes(const struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    const struct tft_layer *b = &j->m->layer[0];
    const struct tft_tensor *up = (tft_layer_has_experts(b) ? &b->experts.up : &b->up)->w.tensor;
    return o->bits && o->bits[0] == '4' && o->rounding != TFT_ROUND_AWQ && !(o->smooth > 0) && up &&
           up->type == TFT_Q4_0;
}

static enum quantize_rotate rotation(const struct job *j)
{
    return j->o->rotate != TFT_ROTATE_AUTO ? (enum quantize_rotate)(j->o->rotate - 1)
           : keeps_codes(j)                ? QUANTIZE_ROTATE_NONE
                                           : quantize_rotate_auto(j->m);
}

static enum quantize_rounding rounding(const struct job *j)
{
    return j->o->rounding == TFT_ROUND_GPTQ_ONLY ? QUANTIZE_GPTQ
                                                 : (enum quantize_rounding)j->o->rounding;
}

static struct quantize_opts opts_of(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    return (struct quantize_opts){
        .method = j->lab->method,
        .param = j->lab->percentile,
        .smooth = o->smooth,
        .rotate = rotation(j),
        .per_tensor = j->lab->per_tensor,
        .prefix_type = job_prefix_type(j),
        .group = o->group         ? o->group
                 : keeps_codes(j) ? 32
                                  : 0, /* job/bits.h chooses */
        .rounding = rounding(j),
        .kv = kv_fisher_wanted(o->kv) ? NULL : o->kv, /* job/fisher.h sets it later */
        .n_threads = o->n_threads,
        .progress = job_progress,
        .user = j,
    };
}

/* What the options say about this model. */
static enum tft_status apply_options(struct quantize_run *run)
{
    struct job *j = &run->job;
    run->range = malloc(tft_model_inputs(run->m) * sizeof *run->range);
    run->matrix_bits.bits = calloc(run->m->n_layer, LAYER_MATS);
    run->matrix_bits.groups = calloc(run->m->n_layer, LAYER_MATS);
    run->matrix_bits.nats = calloc(run->m->n_layer, LAYER_MATS * sizeof *run->matrix_bits.nats);
    if (!run->range || !run->matrix_bits.bits || !run->matrix_bits.groups ||
        !run->matrix_bits.nats)
        return job_no_memory(j);
    run->o = opts_of(j);
    run->o.bits = run->matrix_bits.bits;
    run->o.groups = run->matrix_bits.groups;
    run->o.range = run->range;
    enum tft_status status = job_ranges_take(j, run->range);
    return status == TFT_OK ? job_bits_choose(j, &run->o, run->matrix_bits) : status;
}

/* ---- a plain GGUF file */

/* Compares the file with the float model, if there is text. */
static enum tft_status finish_plain(struct quantize_run *run)
{
    enum tft_status status = TFT_OK;
    job_enter(&run->job, JOB_CHECK);
    if (run->text.n && job_check_has_text(&run->text)) {
        status = job_check_open(&run->check, &run->text);
        if (status == TFT_OK)
            status = job_check_made(&run->check, &run->made, "checking", 1);
    } else {
        status = job_made_open(&run->made); /* whether it can be opened */
        job_made_close(&run->made);
    }
    return status == TFT_OK ? job_complete_progress(&run->job) : status;
}

/* Calibrates the file for the cache fisher, on the windows that blocks were chosen by. */
static enum tft_status calibrate_plain(struct quantize_run *run)
{
    struct quantize_opts *o = &run->o;
    o->text = run->text.ids;
    o->n_text = run->text.n;
    o->window = run->text.window;
    job_enter(&run->job, JOB_KV);
    job_fisher_begin(&run->fisher, &run->job, o);
    enum tft_status status = job_fisher_finish(&run->fisher, &run->made);
    return status == TFT_OK ? job_made_finish(&run->made) : status;
}

static enum tft_status make_plain(struct quantize_run *run)
{
    struct job *j = &run->job;
    uint64_t start = tft_port_ns();
    enum tft_status status = job_fisher_look(j);
    job_enter(j, JOB_TEXT);
    if (status == TFT_OK)
        status = job_plain_text(&run->plain, j, &run->text);
    job_enter(j, JOB_LOOK);
    if (status == TFT_OK)
        status = job_plain_measure(&run->plain, j, &run->text);
    job_enter(j, JOB_QUANTIZE);
    if (status == TFT_OK)
        status = job_plain_round(&run->plain, j, &run->text);
    if (status == TFT_OK)
        status = job_plain_write(&run->plain, &run->made);
    if (status == TFT_OK)
        status = calibrate_plain(run);
    if (status == TFT_OK)
        status = finish_plain(run);
    run->seconds = (double)(tft_port_ns() - start) / 1e9;
    return status;
}

/* ---- the whole */

/* Makes the calibration text, for any prefix that the options allow. */
static enum tft_status prepare(struct quantize_run *run)
{
    struct job *j = &run->job;
    enum tft_status status = job_prefix_choose(&run->prefix, j);
    if (status == TFT_OK)
        status = job_tune_look(j);
    if (status == TFT_OK)
        status = job_fisher_look(j);
    if (status == TFT_OK)
        status = job_system_choose(&run->system, j, &run->prefix);
    job_enter(j, JOB_TEXT);
    if (status == TFT_OK)
        status = job_text_make(&run->text, j, run->runs, job_prefix_most(&run->prefix));
    tft_model_close(run->runs); /* and its memory is free */
    run->runs = NULL;
    return status;
}

enum tft_status quantize_run_begin(struct quantize_run *run, const char *model, const char *out,
                                   const struct tft_quantize_opts *given,
                                   const struct quantize_lab *lab, struct tft_error *err)
{
    struct job *j = &run->job;
    *run = (struct quantize_run){.job = {.out = out, .o = &run->given, .lab = lab, .err = err},
                                 .made = {.j = j}};
    run->status = tft_options_take(&run->given, sizeof run->given, given, "tft_quantize_opts", err);
    if (run->status == TFT_OK) {
        job_complete(&run->given);
        job_expect(j);
        run->status = job_plain_check(&run->plain, j);
    }
    if (run->status == TFT_OK)
        run->status = check_options(j);
    if (run->status == TFT_OK)
        run->status = job_open(j, model, j->o->calib || run->plain.mix ? NULL : &run->runs);
    run->m = j->m;
    if (run->status == TFT_OK)
        run->status = job_vectors_check(j);
    if (run->status == TFT_OK && run->plain.mix)
        run->status = job_plain_fits(&run->plain, j);
    if (run->status == TFT_OK) {
        job_format_open(j);
        run->status = apply_options(run);
    }
    return run->status;
}

/* Tells the caller of the run what it takes. */
static enum tft_status tell_plan(struct quantize_run *run)
{
    const struct tft_quantize_opts *o = &run->given;
    bool feedback = run->plain.mix && job_plain_has_feedback(&run->plain, &run->job);
    if (feedback) /* as of codes of 4 bits */
        memset(run->matrix_bits.bits, 4, (size_t)run->m->n_layer * LAYER_MATS);
    struct tft_quantize_plan plan = quantize_plan_of(
        run->m, &run->o, o->calib_tokens, run->plain.mix,
        o->n_system || o->kv_search || o->tune != TFT_TUNE_NONE || kv_fisher_wanted(o->kv));
    uint64_t fisher = kv_fisher_wanted(o->kv) ? kv_fisher_bytes(run->m) : 0;
    if (fisher && (!run->plain.mix || mix_makes_blocks(run->plain.mix))) /* else instead of them */
        plan.operations += quantize_plan_fisher(run->m, o->calib_tokens);
    if (run->plain.mix && !job_plain_needs_text(&run->plain, &run->job))
        plan.operations = 0;
    if (run->plain.mix) {
        struct plain_made made = plain_plan(&run->m->source, run->plain.mix);
        plan.file = made.bytes;
        plan.disk = fisher ? 2 * made.bytes : made.bytes;
        fisher += fisher ? made.blocks : 0; /* in panels */
    }
    if (feedback)
        plan.memory += plan.file;
    plan.imported = run->job.imported_bytes;
    plan.memory = plan.memory > fisher ? plan.memory : fisher;
    return !o->plan || o->plan(o->user, &plan)
               ? TFT_OK
               : tft_fail(run->job.err, TFT_ERR_CANCELLED, "stopped before the work");
}

enum tft_status quantize_run_make(struct quantize_run *run)
{
    run->status = tell_plan(run);
    if (run->status == TFT_OK && run->plain.mix)
        return run->status = make_plain(run);
    if (run->status == TFT_OK)
        run->status = prepare(run);
    if (run->status == TFT_OK)
        run->status = find_prefix(run);
    if (run->status == TFT_OK)
        run->status = make(run);
    if (run->status == TFT_ERR_CANCELLED && run->prefix.cushion.kept)
        job_note(&run->job, "stopped: the same command resumes from %s", run->prefix.checkpoint);
    return run->status;
}

enum tft_status quantize_run_keep(struct quantize_run *run)
{
    return run->status = job_made_keep(&run->made);
}

void quantize_run_free(struct quantize_run *run)
{
    bits_search_free(&run->bits);
    job_made_drop(&run->made);
    job_kv_free(&run->kv);
    job_fisher_free(&run->fisher);
    job_tune_free(&run->tune);
    job_system_free(&run->system);
    job_prefix_free(&run->prefix, run->status);
    job_check_free(&run->check);
    job_plain_free(&run->plain, &run->job);
    job_ranges_free(&run->ranges);
    job_vectors_free(&run->vectors);
    job_text_free(&run->text);
    job_format_close(&run->job);
    free(run->result);
    free(run->range);
    free(run->matrix_bits.bits);
    free(run->matrix_bits.groups);
    free(run->matrix_bits.nats);
    tft_model_close(run->runs);
    job_close(&run->job);
}
