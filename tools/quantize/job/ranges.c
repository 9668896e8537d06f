#include "tools/quantize/job/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/write/in_place.h"

/* Per-token ranges cost time. So inputs stay static if their total loss is below NEGLIGIBLE_NATS,
   or if per-token ranges gain less than LEAST_GAIN of the loss and still miss the bars. */
#define NEGLIGIBLE_NATS 0.002
#define LEAST_GAIN 0.1

static bool is_auto(const struct job *j) { return strcmp(j->o->dynamic, "auto") == 0; }

/* ---- the list */

/* Parses one item of the list, the n bytes at p: "all", "output", layers, a part, or layers, a dot
   and a part. The inputs get ranges per token. */
static bool take_item(const struct tft_model *m, enum tft_range *range, const char *p, size_t n)
{
    const char *end = p + n;
    uint32_t from = 0, to = m->n_layer - 1, head = m->n_layer * TFT_LAYER_INPUTS;
    bool every = job_is(p, n, "all"), found = every;
    if (every || job_is(p, n, "output"))
        range[head] = TFT_RANGE_TOKEN;
    if (job_is(p, n, "output"))
        return true;
    if (*p >= '0' && *p <= '9') {
        if (!job_take_layers(&p, &from, &to) || to >= m->n_layer || (p != end && *p != '.'))
            return false;
        every = found = p == end;
        p += p != end;
    }
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        if (tft_model_has_input(m, i) &&
            (every || job_is(p, (size_t)(end - p), quantize_part_name(i)))) {
            found = true;
            for (uint32_t l = from; l <= to; l++)
                range[tft_input_index(m, l, i)] = TFT_RANGE_TOKEN;
        }
    return found;
}

enum tft_status job_ranges_take(struct job *j, enum tft_range *range)
{
    const struct tft_model *m = j->m;
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        range[i] = TFT_RANGE_STATIC;
    if (is_auto(j) || strcmp(j->o->dynamic, "none") == 0)
        return TFT_OK;
    for (const char *p = j->o->dynamic, *next; p; p = next) {
        size_t n = strcspn(p, ",");
        if (!take_item(m, range, p, n))
            return job_misuse(j, "--dynamic: \"%.*s\" is not an input of a model of %u layers",
                              (int)n, p, m->n_layer);
        next = p[n] ? p + n + 1 : NULL;
    }
    return TFT_OK;
}

/* ---- auto */

bool job_ranges_hold(const struct job_check *c)
{
    bool good = true;
    for (int g = 0; g < CHECK_GROUPS; g++)
        good &= check_within(&c->loss[g], CHECK_PERCENT, CHECK_NATS);
    return good;
}

/* Measures the loss of each input. made: the model of the file */
static enum tft_status search(struct range_search *r, struct tft_model *made,
                              const struct job_text *t)
{
    struct job *j = t->j;
    bool stopped;
    uint32_t n[CHECK_GROUPS], all = 0;
    for (int g = 0; g < CHECK_GROUPS; g++)
        all += n[g] = t->group[g].n_windows;
    int32_t *ids = malloc(((size_t)all * t->window + 1) * sizeof *ids);
    if (!ids)
        return job_no_memory(j);
    memcpy(ids, t->group[0].ids, (size_t)n[0] * t->window * sizeof *ids);
    memcpy(ids + (size_t)n[0] * t->window, t->group[1].ids, (size_t)n[1] * t->window * sizeof *ids);
    struct divergence_opts o = {.text = ids,
                                .n_windows = all,
                                .window = t->window,
                                .n_threads = j->o->n_threads,
                                .progress = job_progress,
                                .user = j};
    enum tft_status status = job_begin(j, "comparing ranges", 0.6);
    if (status == TFT_OK) {
        status = range_search(r, made, &o, &stopped, j->err);
        status = job_end(j, status, stopped);
    }
    free(ids);
    if (status == TFT_ERR_CANCELLED)
        range_search_free(r);
    return status;
}

/* How many inputs, the worst first, get per-token ranges at least: all that lose more than half as
   much as the worst one. Any change moves the predictions a little, as all later numbers are
   rounded to other bytes, so every input loses something. */
static uint32_t first_guess(const struct range_search *r, uint32_t most)
{
    uint32_t n = 1;
    while (n < most && r->nats[r->order[n]] > r->nats[r->order[0]] / 2)
        n++;
    return n;
}

static double rest_of(const struct range_search *r, uint32_t from)
{
    double rest = 0;
    for (uint32_t i = from; i < r->n; i++)
        rest += r->nats[r->order[i]];
    return rest;
}

/* How many inputs come next, after n were too few: a quarter more, or as many as make up for the
   file's loss beyond the bar. */
static uint32_t next_guess(const struct range_search *r, uint32_t n, uint32_t most,
                           const struct job_check *c)
{
    double beyond = 0, gained = 0;
    uint32_t next = n + n / 4 + 1;
    for (int g = 0; g < CHECK_GROUPS; g++)
        beyond = fmax(beyond, c->loss[g].divergence - CHECK_NATS);
    for (uint32_t i = n; i < r->n && (i < next || gained < beyond); i++) {
        gained += r->nats[r->order[i]];
        next = i + 1 > next ? i + 1 : next;
    }
    return next < most ? next : most;
}

/* The model with the inputs that get ranges. */
struct ranged {
    struct job_made *made;
    struct job_check *check;
    enum tft_range *range; /* [n] of its inputs */
    uint32_t n;
};

/* Gives the first n inputs per-token ranges, in the file and in `range`. */
static enum tft_status give(struct job_ranges *c, uint32_t n, const struct ranged *f)
{
    for (uint32_t i = 0; i < c->found.n; i++)
        f->range[c->found.order[i]] = i < n ? TFT_RANGE_TOKEN : TFT_RANGE_STATIC;
    c->n = n;
    return write_ranges(job_made_path(f->made), f->range, f->n, f->check->j->err);
}

/* Loss of the file measured last, relative to the bars; 1: it just reaches them. */
static double beyond_bars(const struct job_check *check)
{
    double most = 0;
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const struct check_loss *l = &check->loss[g];
        if (l->tokens)
            most = fmax(most, fmax(l->divergence / CHECK_NATS, check_percent(l) / CHECK_PERCENT));
    }
    return most;
}

/* Gives per-token ranges to more inputs, as long as this gains something. */
static enum tft_status give_more(struct job_ranges *c, const struct ranged *f)
{
    const struct range_search *r = &c->found;
    struct job_check *check = f->check;
    enum tft_status status = TFT_OK;
    while (status == TFT_OK && c->n < c->most && !job_ranges_hold(check) &&
           rest_of(r, c->n) > NEGLIGIBLE_NATS) {
        uint32_t before = c->n,
                 n = c->n ? next_guess(r, c->n, c->most, check) : first_guess(r, c->most);
        struct check_loss lost[CHECK_GROUPS];
        double beyond = beyond_bars(check);
        memcpy(lost, check->loss, sizeof lost);
        status = give(c, n, f);
        if (status == TFT_OK)
            status = job_check_made(check, f->made, "checking ranges", 0.5);
        if (status != TFT_OK || job_ranges_hold(check) ||
            beyond_bars(check) < (1 - LEAST_GAIN) * beyond)
            continue;
        memcpy(check->loss, lost, sizeof lost);
        return give(c, before, f);
    }
    return status;
}

/* Measures the loss of each input with a static range. */
static enum tft_status search_made(struct job_ranges *c, struct job_made *made,
                                   const struct job_text *t)
{
    if (c->searched)
        return TFT_OK;
    enum tft_status status = job_made_open(made);
    if (status == TFT_OK)
        status = search(&c->found, made->model, t);
    job_made_close(made);
    if (status != TFT_OK)
        return status;
    c->searched = true;
    c->most = (c->found.n + 3) / 4;
    return TFT_OK;
}

enum tft_status job_ranges_choose(struct job_ranges *c, struct job_check *check,
                                  const struct job_text *t, struct job_made *made,
                                  enum tft_range *range)
{
    if (!is_auto(t->j) || job_ranges_hold(check))
        return TFT_OK;
    enum tft_status status = search_made(c, made, t);
    struct ranged file = {made, check, range, tft_model_inputs(t->j->m)};
    return status == TFT_OK ? give_more(c, &file) : status;
}

void job_ranges_free(struct job_ranges *c)
{
    range_search_free(&c->found);
    *c = (struct job_ranges){0};
}
