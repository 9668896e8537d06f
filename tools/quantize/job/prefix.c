#include "tools/quantize/job/prefix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/parts.h"
#include "tools/quantize/array.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/search/cushion_search.h"
#include "tools/quantize/windows.h"

enum { LOOK_TOKENS = 4096 }; /* of the text, searched for outliers */

/* Whether the text may determine the tokens of the prefix. */
static bool looks_for_pivots(const struct job_prefix *f)
{
    const struct tft_quantize_opts *o = f->j->o;
    return f->intact == TFT_INTACT_AUTO && !o->intact_text && !o->intact_tokens &&
           !f->j->lab->paper;
}

static bool has_search(const struct job *j) { return j->o->cushion != TFT_CUSHION_NONE; }

/* Whether the options want a prefix: then a model that cannot have it is refused. */
static bool is_asked(const struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    return o->intact != TFT_INTACT_AUTO || o->intact_text || o->intact_tokens || has_search(j);
}

enum tft_status job_prefix_check(struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    if ((o->intact != TFT_INTACT_AUTO) + !!o->intact_text + !!o->intact_tokens > 1)
        return job_misuse(j, "--intact, --intact-text and --intact-tokens exclude each other");
    if (o->cushion_max > CUSHION_MAX)
        return job_misuse(j, "--cushion-max is at most %d", CUSHION_MAX);
    if (o->prefix_bits != 16 && o->prefix_bits != 8 && o->prefix_bits != 4)
        return job_misuse(j, "--prefix-bits is 16, 8 or 4");
    return TFT_OK;
}

enum tft_dtype job_prefix_type(const struct job *j)
{
    return j->o->prefix_bits == 16 ? TFT_F16 : j->o->prefix_bits == 8 ? TFT_Q8_0 : TFT_Q4_1;
}

/* ---- given tokens */

static enum tft_status take_tokens(struct job_prefix *f)
{
    struct job *j = f->j;
    const char *list = j->o->intact_tokens;
    f->ids = malloc((strlen(list) + 1) * sizeof *f->ids);
    if (!f->ids)
        return job_no_memory(j);
    for (const char *p = list;; p++) {
        uint32_t id;
        if (!job_take_number(&p, &id) || id >= j->m->n_vocab || (*p && *p != ','))
            return job_misuse(j, "--intact-tokens takes token ids below %u like 1,13, not \"%s\"",
                              j->m->n_vocab, list);
        f->ids[f->n++] = (int32_t)id;
        if (!*p)
            return TFT_OK;
    }
}

/* BOS, if texts begin with it, and the given text. A text may spell BOS itself. */
static enum tft_status take_text(struct job_prefix *f)
{
    struct job *j = f->j;
    const char *text = j->o->intact_text ? j->o->intact_text : "";
    int32_t bos = tft_token_bos(j->m);
    enum tft_status status =
        job_tokenize(j, &f->ids, &f->n, text, strlen(text), TFT_ADD_BOS | TFT_PARSE_SPECIAL);
    if (status != TFT_OK)
        return status;
    if (f->n > 1 && f->ids[0] == bos && f->ids[1] == bos)
        memmove(f->ids, f->ids + 1, --f->n * sizeof *f->ids);
    f->n_text = (uint32_t)f->n - (f->n && f->ids[0] == bos);
    return TFT_OK;
}

static enum tft_status choose(struct job_prefix *f)
{
    struct job *j = f->j;
    if (j->o->intact_tokens)
        return take_tokens(f);
    enum tft_status status = take_text(f);
    if (status != TFT_OK)
        return status;
    if (f->intact == TFT_INTACT_NONE)
        f->n = 0;
    if (f->intact != TFT_INTACT_BOS)
        return TFT_OK;
    f->ids[0] = tft_token_bos(j->m);
    f->n = 1;
    return f->ids[0] >= 0
               ? TFT_OK
               : tft_fail(j->err, TFT_ERR_ARG, "%s: the vocabulary has no BOS for --intact bos",
                          j->m->source.name);
}

enum tft_status job_prefix_choose(struct job_prefix *f, struct job *j)
{
    const struct tft_quantize_opts *o = j->o;
    const struct tft_model *m = j->m;
    const char *piece = tft_parts_unknown(m, ~TFT_BIT(TFT_PART_ROPE_BY_CONTEXT));
    if (!m->n_kv_layer)
        piece = "no attention";
    f->j = j;
    f->intact = o->intact;
    if (!is_asked(j) && m->encoder) {
        f->intact = TFT_INTACT_NONE;
    } else if (!is_asked(j) && piece) {
        job_note(j, "%s: made without a prefix: %s has %s", m->source.name, m->arch->name, piece);
        f->intact = TFT_INTACT_NONE;
    }
    enum tft_status status = choose(f);
    if (status == TFT_OK && (f->n || looks_for_pivots(f) || has_search(j)))
        status = prefix_check_type(m, job_prefix_type(j), j->err); /* not after minutes of search */
    return status;
}

/* Number of tokens that the search begins with. The tokens of --intact-text, except BOS, come after
   the found tokens. */
static size_t search_start(const struct job_prefix *f) { return f->n - f->n_text; }

uint32_t job_prefix_most(const struct job_prefix *f)
{
    bool searches = looks_for_pivots(f) || has_search(f->j);
    uint32_t most = f->j->o->cushion_max;
    size_t start = search_start(f);
    return (uint32_t)f->n + (searches && most > start ? most - (uint32_t)start : 0);
}

uint32_t job_prefix_start(const struct job_prefix *f)
{
    bool bos = f->n && f->ids[0] == tft_token_bos(f->j->m);
    return f->j->o->intact_text ? (uint32_t)f->n : bos;
}

/* ---- the text's own outliers */

static void add_choice(struct job_prefix *f, const int32_t *token, size_t n)
{
    struct check_prefix *to = &f->choice[f->n_choices++];
    *to = (struct check_prefix){.n = (uint32_t)n};
    memcpy(to->token, token, n * sizeof *token);
}

static enum tft_status set_tokens(struct job_prefix *f, const int32_t *token, size_t n)
{
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        return job_no_memory(f->j);
    memcpy(ids, token, n * sizeof *ids);
    free(f->ids);
    f->ids = ids;
    f->n = n;
    return TFT_OK;
}

static enum tft_status take(struct job_prefix *f, uint32_t choice)
{
    f->pivots = choice > 0 && choice <= f->n_pivots;
    return set_tokens(f, f->choice[choice].token, f->choice[choice].n);
}

enum tft_status job_prefix_take(struct job_prefix *f, uint32_t choice)
{
    f->tried = true;
    return take(f, choice);
}

/* Searches windows of the text ids[n], which it changes. */
static enum tft_status find_pivots(struct job_prefix *f, int32_t *ids, size_t n, uint32_t window,
                                   struct pivots *found)
{
    struct job *j = f->j;
    bool stopped;
    size_t kept = quantize_spread_windows(ids, n, window, LOOK_TOKENS / window + 1);
    struct pivots_opts o = {
        .text = ids,
        .n_windows = (uint32_t)(kept / window),
        .window = window,
        .start = f->ids,
        .n_start = (uint32_t)f->n,
        .most = j->o->cushion_max,
        .n_threads = j->o->n_threads,
        .progress = job_progress,
        .user = j,
    };
    enum tft_status status = job_begin(j, "looking for outliers", 1);
    if (status != TFT_OK)
        return status;
    status = pivots_search(j->m, &o, found, &stopped, j->err);
    return job_end(j, status, stopped);
}

/* A copy of ids[n]; NULL if memory is short. */
static int32_t *copy_of(const int32_t *ids, size_t n)
{
    int32_t *copy = malloc((n + 1) * sizeof *copy);
    return copy ? memcpy(copy, ids, n * sizeof *copy) : NULL;
}

enum tft_status job_prefix_look(struct job_prefix *f, const int32_t *ids, size_t n, uint32_t window)
{
    struct pivots found;
    if (!looks_for_pivots(f) || f->n > f->j->o->cushion_max)
        return TFT_OK;
    int32_t *text = copy_of(ids, n);
    if (!text)
        return job_no_memory(f->j);
    enum tft_status status = find_pivots(f, text, n, window, &found);
    free(text);
    if (status != TFT_OK)
        return status;
    add_choice(f, f->ids, f->n);
    for (uint32_t i = 0; i < found.n; i++)
        add_choice(f, found.prefix[i].token, found.prefix[i].n);
    f->n_pivots = found.n;
    return found.n ? take(f, 1) : TFT_OK;
}

static bool is_choice(const struct job_prefix *f, const struct check_prefix *p)
{
    for (uint32_t i = 0; i < f->n_choices; i++)
        if (f->choice[i].n == p->n &&
            memcmp(f->choice[i].token, p->token, p->n * sizeof *p->token) == 0)
            return true;
    return false;
}

void job_prefix_add_first(struct job_prefix *f, const int32_t *token, size_t n)
{
    if (!f->n_choices)
        return;
    struct check_prefix p = f->choice[0];
    for (size_t i = 0; i < n && p.n < f->j->o->cushion_max; i++)
        p.token[p.n++] = token[i];
    if (!is_choice(f, &p))
        add_choice(f, p.token, p.n);
}

/* ---- whether its rows fit */

/* Numbers of a file's prefix are f16. The rotation of a head may make values larger: of a head of
   256 numbers by a factor of up to 16. */
enum { INFINITE = 0x7c00, LARGE_VALUE = 0x6c00 /* 4096 as f16, a sixteenth of 65536 */ };

static bool all_below(const uint16_t *rows, size_t n, unsigned end)
{
    for (size_t i = 0; i < n; i++)
        if ((rows[i] & 0x7fffu) >= end)
            return false;
    return true;
}

/* Runs the float model over the prefix alone. row: [2, n, G, E] of the widest layer */
static bool layers_fit(struct layers *y, uint16_t *row)
{
    const struct tft_model *m = y->m;
    bool fit = true;
    layers_run_pass(y, &(struct layers_pass){.part = LAYERS_EMBED,
                                             .x = y->prefix,
                                             .tokens = y->o->prefix,
                                             .n = y->o->n_prefix});
    for (uint32_t l = 0; l < m->n_layer && fit; l++) {
        layers_load(y, l);
        layers_run_prefix(y, l, false);
        layers_unload(y, l);
        if (!tft_layer_has_kv(&m->layer[l]))
            continue;
        size_t each = y->o->n_prefix * tft_model_kv_width(m, m->layer[l].kv_layer);
        layers_prefix_kv(y, l, row, row + each);
        fit = all_below(row, each, INFINITE) && all_below(row + each, each, LARGE_VALUE);
    }
    return fit;
}

enum tft_status job_prefix_check_fit(struct job *j, const int32_t *ids, uint32_t n, bool *fit)
{
    struct quantize_opts o = {.prefix = ids, .n_prefix = n, .n_threads = j->o->n_threads};
    struct layers y;
    bool f32 = strcmp(quantize_float_cache(j->o->kv), "f32") == 0;
    if (!f32 || !n || !*fit)
        return TFT_OK;
    enum tft_status status = layers_open_empty(
        &y, j->m, &o, &(struct layers_capacity){.batch = n, .rows = 1}, j->err);
    if (status != TFT_OK)
        return status;
    uint16_t *row = array_alloc(2 * sizeof *row, n, j->m->n_head_kv, j->m->head_dim);
    if (row)
        *fit = layers_fit(&y, row);
    free(row);
    layers_close(&y);
    return row ? TFT_OK : job_no_memory(j);
}

enum tft_status job_prefix_fit(struct job_prefix *f)
{
    struct job *j = f->j;
    bool fit = true;
    enum tft_status status = job_prefix_check_fit(j, f->ids, (uint32_t)f->n, &fit);
    for (uint32_t i = 0; i < f->n_choices && status == TFT_OK; i++)
        status = job_prefix_check_fit(j, f->choice[i].token, f->choice[i].n, &fit);
    if (status != TFT_OK || fit)
        return status;
    if (is_asked(j))
        return tft_fail(j->err, TFT_ERR_UNSUPPORTED,
                        "%s: no prefix for this model: keys or values exceed f16, in which a file "
                        "stores a prefix",
                        j->m->source.name);
    job_note(j,
             "%s: made without a prefix: keys or values exceed f16, in which a file stores a "
             "prefix",
             j->m->source.name);
    f->intact = TFT_INTACT_NONE;
    f->n = f->n_choices = f->n_pivots = 0;
    f->pivots = false;
    return TFT_OK;
}

/* ---- the search */

/* path with a suffix, to be freed; NULL if memory is short. */
static char *beside(const char *path, const char *suffix)
{
    size_t len = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(len);
    if (name)
        snprintf(name, len, "%s%s", path, suffix);
    return name;
}

struct search_steps {
    struct job *j;
    uint32_t round;
    char step[64];
};

static enum tft_status begin_round(struct search_steps *s, uint32_t round)
{
    s->round = round;
    snprintf(s->step, sizeof s->step, "searching, round %u", (unsigned)round + 1);
    uint32_t most = s->j->o->cushion_max; /* tokens, and rounds unless some are refused */
    return job_begin(s->j, s->step, round < most ? 1.0 / (most - round) : 0.5);
}

/* A step for each round, as the number of rounds is not known. */
static bool search_progress(void *user, uint32_t round, double done)
{
    struct search_steps *s = user;
    if (round != s->round && begin_round(s, round) != TFT_OK)
        return false;
    return job_progress(s->j, done);
}

/* Puts the found tokens before the rest of the prefix. */
static enum tft_status replace_start(struct job_prefix *f)
{
    const struct cushion *c = &f->cushion;
    size_t start = search_start(f), rest = f->n - start;
    int32_t *ids = malloc((c->n + rest + 1) * sizeof *ids);
    if (!ids)
        return job_no_memory(f->j);
    memcpy(ids, c->token, c->n * sizeof *ids);
    memcpy(ids + c->n, f->ids + start, rest * sizeof *ids);
    enum tft_status status = set_tokens(f, ids, c->n + rest);
    free(ids);
    if (f->n_choices && c->n > start)
        add_choice(f, f->ids, f->n);
    return status;
}

/* Searches samples of the text ids[n], which it changes. */
static enum tft_status search(struct job_prefix *f, int32_t *ids, size_t n)
{
    struct job *j = f->j;
    const struct tft_quantize_opts *q = j->o;
    uint32_t room = j->m->n_ctx > CUSHION_MAX + 1 ? j->m->n_ctx - CUSHION_MAX - 1 : 0,
             sample = q->cushion_sample ? q->cushion_sample : 512;
    sample = q->cushion_sample || sample < room ? sample : room;
    struct search_steps steps = {.j = j};
    struct cushion_opts o = {
        .text = ids,
        .n_text = sample ? quantize_spread_windows(ids, n, sample, CUSHION_ROUNDS) : n,
        .sample = sample,
        .start = f->ids,
        .n_start = (uint32_t)search_start(f),
        .most = q->cushion_max,
        .tau = (double)q->cushion_tau,
        .cost = j->lab->paper ? (double)INFINITY : (double)q->cushion_cost,
        .exhaustive = q->cushion == TFT_CUSHION_EXHAUSTIVE && !j->lab->paper,
        .paper = j->lab->paper,
        .n_threads = q->n_threads,
        .checkpoint = f->checkpoint,
        .progress = search_progress,
        .user = &steps,
    };
    bool stopped;
    enum tft_status status = begin_round(&steps, 0);
    if (status != TFT_OK)
        return status;
    status = cushion_search(j->m, &o, &f->cushion, &stopped, j->err);
    return job_end(j, status, stopped);
}

enum tft_status job_prefix_search(struct job_prefix *f, const int32_t *ids, size_t n)
{
    struct job *j = f->j;
    size_t start = search_start(f);
    if (!has_search(j))
        return TFT_OK;
    if (start > j->o->cushion_max)
        return job_misuse(
            j, "--cushion-max %u is less than the %zu tokens that the prefix begins with",
            j->o->cushion_max, start);
    f->checkpoint = beside(j->out, ".cushion");
    int32_t *text = f->checkpoint ? copy_of(ids, n) : NULL;
    if (!text)
        return job_no_memory(j);
    enum tft_status status = search(f, text, n);
    free(text);
    f->searched = status == TFT_OK;
    return f->searched ? replace_start(f) : status;
}

void job_prefix_free(struct job_prefix *f, enum tft_status status)
{
    if (f->checkpoint && status == TFT_OK)
        remove(f->checkpoint);
    free(f->checkpoint);
    free(f->ids);
}
