#include "tools/quantize/search/pivots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/quantize/search/sequences.h"

enum {
    PLACES = 16,     /* the strongest pivots; candidates are tried on their surroundings */
    PLACE = 32,      /* tokens of such a place, with the pivot as the last if possible */
    LONGEST = 3,     /* tokens of a candidate */
    CANDIDATES = LONGEST * PLACES,
    PASS_TOKENS = 2048
};

struct candidate {
    int32_t token[LONGEST];
    uint32_t n;
    double loss;
};

struct search {
    const struct pivots_opts *o;
    struct sequences q;
    uint32_t layers; /* in which pivots arise */
    float *top;      /* [n_layer] the largest number of the text after each layer */
    float *peak;     /* [n_windows, window] each token's largest number, over the layers */
    float *sorted;   /* likewise, scratch */
    uint32_t place[PLACES], n_places; /* indices of the strongest pivots in the text */
    struct candidate candidate[CANDIDATES];
    uint32_t n_candidates;
    struct pivots *r;
    double work, all_work; /* in tokens times layers */
};

static bool report(void *user, double rows)
{
    struct search *k = user;
    k->work += rows;
    return !k->o->progress || k->o->progress(k->o->user, fmin(k->work / k->all_work, 1));
}

static size_t text_tokens(const struct search *k)
{
    return (size_t)k->o->n_windows * k->o->window;
}

/* ----------------------------------------------------------------------- the text and its peaks */

struct note_task {
    struct search *k;
    float top[TFT_PORT_THREADS];
};

static void note_some(void *arg, int tid, int n_threads)
{
    struct note_task *task = arg;
    const struct search *k = task->k;
    for (size_t t = (size_t)tid; t < text_tokens(k); t += (size_t)n_threads) {
        float peak = sequences_peak(&k->q, t);
        k->peak[t] = fmaxf(k->peak[t], peak);
        task->top[tid] = fmaxf(task->top[tid], peak);
    }
}

static void note_peaks(void *user, uint32_t layer)
{
    struct note_task task = {user, {0}};
    tft_port_team(task.k->q.y.s->n_threads, note_some, &task);
    task.k->top[layer] = 0;
    for (int i = 0; i < TFT_PORT_THREADS; i++)
        task.k->top[layer] = fmaxf(task.k->top[layer], task.top[i]);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_peak(const struct search *k)
{
    size_t n = text_tokens(k);
    memcpy(k->sorted, k->peak, n * sizeof *k->sorted);
    qsort(k->sorted, n, sizeof *k->sorted, by_size);
    return k->sorted[n / 2];
}

static bool is_pivot(const struct search *k, size_t t)
{
    return k->peak[t] > PIVOT_TIMES * k->r->median;
}

/* Runs the whole text after the prefix: its peaks, and the remaining pivots. */
static void scan(struct search *k, struct pivots_prefix *p, bool first)
{
    size_t n = text_tokens(k);
    struct sequences *q = &k->q;
    q->n = k->o->n_windows;
    q->len = k->o->window;
    q->skip = 0;
    q->after_layer = note_peaks;
    memcpy(q->tokens, k->o->text, n * sizeof *q->tokens);
    memset(k->peak, 0, n * sizeof *k->peak);
    sequences_run(q, p->token, p->n, (struct sequences_depth){k->layers, true});
    q->after_layer = NULL;
    if (first)
        k->r->median = median_peak(k);
    p->left = 0;
    p->loss = p->peak = 0;
    for (size_t t = 0; t < n; t++) {
        p->left += is_pivot(k, t);
        p->peak = fmaxf(p->peak, k->peak[t]);
    }
    for (uint32_t i = 0; i < q->n; i++)
        p->loss += q->loss[i];
}

/* Pivots arise within a layer or two and stay: all scans but the first end at the first layer that
   has a quarter of the largest number. */
static uint32_t layers_of_pivots(const struct search *k)
{
    float most = 0;
    uint32_t l = 0;
    for (uint32_t i = 0; i < k->layers; i++)
        most = fmaxf(most, k->top[i]);
    while (l + 1 < k->layers && !(k->top[l] >= most / 4))
        l++;
    return l + 1;
}

/* ----------------------------------------------------------------------------------- candidates */

/* Finds the strongest pivots, strongest first. */
static void find_places(struct search *k)
{
    k->n_places = 0;
    for (uint32_t t = 0; t < text_tokens(k); t++) {
        if (!is_pivot(k, t))
            continue;
        uint32_t at = k->n_places < PLACES ? k->n_places++ : PLACES;
        for (; at > 0 && k->peak[t] > k->peak[k->place[at - 1]]; at--)
            if (at < PLACES)
                k->place[at] = k->place[at - 1];
        if (at < PLACES)
            k->place[at] = t;
    }
}

static void add_candidate(struct search *k, const int32_t *token, uint32_t n)
{
    for (uint32_t i = 0; i < k->n_candidates; i++)
        if (k->candidate[i].n == n &&
            !memcmp(k->candidate[i].token, token, n * sizeof *token))
            return;
    struct candidate *c = &k->candidate[k->n_candidates++];
    *c = (struct candidate){.n = n};
    memcpy(c->token, token, n * sizeof *token);
}

/* The pivots' tokens, with up to LONGEST - 1 tokens before them; short ones first. */
static void find_candidates(struct search *k, uint32_t room)
{
    k->n_candidates = 0;
    for (uint32_t n = 1; n <= LONGEST && n <= room; n++)
        for (uint32_t i = 0; i < k->n_places; i++)
            if (k->place[i] % k->o->window + 1 >= n)
                add_candidate(k, k->o->text + k->place[i] + 1 - n, n);
}

static const int32_t *place_text(const struct search *k, uint32_t i, uint32_t len)
{
    uint32_t in_window = k->place[i] % k->o->window, first = k->place[i] - in_window;
    return k->o->text + first + (in_window + 1 > len ? in_window + 1 - len : 0);
}

/* Tries candidates first .. end - 1, all of one length, before every place. */
static void try_some(struct search *k, const struct pivots_prefix *p, uint32_t first, uint32_t end)
{
    struct sequences *q = &k->q;
    uint32_t len = k->o->window < PLACE ? k->o->window : PLACE;
    q->skip = k->candidate[first].n;
    q->len = q->skip + len;
    uint32_t together = (uint32_t)(q->capacity.rows / ((size_t)q->len * k->n_places));
    for (uint32_t n; first < end && !q->stopped; first += n) {
        n = end - first < together ? end - first : together;
        int32_t *to = q->tokens;
        for (uint32_t c = first; c < first + n; c++)
            for (uint32_t i = 0; i < k->n_places; i++, to += q->len) {
                memcpy(to, k->candidate[c].token, q->skip * sizeof *to);
                memcpy(to + q->skip, place_text(k, i, len), len * sizeof *to);
            }
        q->n = n * k->n_places;
        sequences_run(q, p->token, p->n, (struct sequences_depth){k->layers, true});
        for (uint32_t i = 0; i < q->n; i++)
            k->candidate[first + i / k->n_places].loss +=
                isnan(q->loss[i]) ? (double)INFINITY : q->loss[i];
    }
}

static int by_loss(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

static void try_candidates(struct search *k, const struct pivots_prefix *p)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i <= k->n_candidates; i++)
        if (i == k->n_candidates || k->candidate[i].n != k->candidate[first].n) {
            try_some(k, p, first, i);
            first = i;
        }
    qsort(k->candidate, k->n_candidates, sizeof *k->candidate, by_loss);
}

/* ----------------------------------------------------------------------------------- the search */

static int by_prefix_loss(const void *a, const void *b)
{
    const struct pivots_prefix *x = a, *y = b;
    return (x->loss > y->loss) - (x->loss < y->loss);
}

/* Prefixes that begin with *p, and are longer, replace the prefixes in k->r if the best of them
   leaves fewer pivots. */
static bool extend(struct search *k, const struct pivots_prefix *p)
{
    struct pivots_prefix next[PIVOT_PREFIXES];
    uint32_t n;
    find_places(k);
    find_candidates(k, k->o->most - p->n);
    try_candidates(k, p);
    n = k->n_candidates < PIVOT_PREFIXES ? k->n_candidates : PIVOT_PREFIXES;
    for (uint32_t i = 0; i < n && !k->q.stopped; i++) {
        const struct candidate *c = &k->candidate[i];
        next[i] = *p;
        memcpy(next[i].token + p->n, c->token, c->n * sizeof *c->token);
        next[i].n += c->n;
        scan(k, &next[i], false);
    }
    if (!n || k->q.stopped)
        return false;
    qsort(next, n, sizeof *next, by_prefix_loss);
    if (next[0].left >= p->left || !(next[0].loss < p->loss))
        return false;
    k->r->n = n;
    memcpy(k->r->prefix, next, n * sizeof *next);
    return true;
}

static void search(struct search *k)
{
    struct pivots *r = k->r;
    const struct pivots_opts *o = k->o;
    uint32_t half = (k->q.m->n_layer + 1) / 2;
    k->layers = half;
    k->all_work = (double)text_tokens(k) * half * (1 + PIVOT_PREFIXES + 2);
    memcpy(r->start.token, o->start, o->n_start * sizeof *o->start);
    r->start.n = o->n_start;
    scan(k, &r->start, true);
    k->layers = layers_of_pivots(k);
    struct pivots_prefix best = r->start;
    while (best.left && best.n < o->most && !k->q.stopped && extend(k, &best)) {
        best = r->prefix[0];
        scan(k, &best, false); /* the peaks after it, for its pivots */
    }
}

static enum tft_status open(struct search *k, struct tft_model *m, struct tft_error *err)
{
    const struct pivots_opts *o = k->o;
    size_t rows = text_tokens(k), least = (size_t)PLACES * (PLACE + LONGEST);
    uint32_t batch = o->window > PASS_TOKENS ? o->window : PASS_TOKENS;
    struct layers_capacity capacity = {
        .batch = batch, .rows = rows > least ? rows : least, .int8 = true};
    enum tft_status status = sequences_open(&k->q, m, CUSHION_MAX, o->n_threads, &capacity, err);
    k->q.progress = report;
    k->q.user = k;
    k->top = malloc(m->n_layer * sizeof *k->top);
    k->peak = malloc((rows + 1) * sizeof *k->peak);
    k->sorted = malloc((rows + 1) * sizeof *k->sorted);
    if (status == TFT_OK && !(k->top && k->peak && k->sorted))
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to search for pivots",
                          m->source.name);
    return status;
}

enum tft_status pivots_search(struct tft_model *m, const struct pivots_opts *o, struct pivots *r,
                              bool *stopped, struct tft_error *err)
{
    struct search k = {.o = o, .r = r};
    *r = (struct pivots){0};
    enum tft_status status = open(&k, m, err);
    if (status == TFT_OK && text_tokens(&k)) {
        search(&k);
        status = sequences_status(&k.q, err);
    }
    *stopped = k.q.stopped;
    sequences_close(&k.q);
    free(k.top);
    free(k.peak);
    free(k.sorted);
    return status;
}
