#include "tools/quantize/search/cushion_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/quantize/array.h"
#include "tools/quantize/search/cushion_checkpoint.h"
#include "base/crc32.h"
#include "base/error.h"
#include "tools/quantize/measure/text_loss.h"
#include "tools/quantize/search/sequences.h"

/* A layer's weights are expanded, and packed, once for PASSES * PASS_TOKENS tokens. A stop loses
   the work on these tokens. */
enum { PASS_TOKENS = 2048, PASSES = CUSHION_SAMPLES, SAVE_SECONDS = 2 };

struct search {
    struct tft_model *m;
    const struct cushion_opts *o;
    struct checkpoint state;
    uint32_t key; /* of the checkpoint file */
    time_t saved;
    struct sequences q;
    int32_t prefix[CUSHION_MAX]; /* the tokens found so far, or the argument of cushion_loss */
    struct text_loss text_loss;
    float *top;        /* [n_layer] the largest magnitude after each layer */
    uint32_t tail;     /* tokens of the prefix after the candidates of the round */
    double round_work; /* total work of the round, in tokens times layers */
};

static bool report(void *user, double work)
{
    struct search *k = user;
    k->state.done += work;
    return !k->o->progress ||
           k->o->progress(k->o->user, k->state.found.tried, fmin(k->state.done / k->round_work, 1));
}

/* Records the largest magnitude in the residual stream after the layer. */
static void note_largest(void *user, uint32_t layer)
{
    struct search *k = user;
    k->top[layer] = 0;
    for (size_t t = 0; t < (size_t)k->q.n * k->q.len; t++)
        k->top[layer] = fmaxf(k->top[layer], sequences_peak(&k->q, t));
}

/* Runs the sequences in k->q.tokens after the first n_prefix tokens of k->prefix. */
static void run_layers(struct search *k, uint32_t n_prefix, uint32_t n_seq,
                       struct sequences_depth depth)
{
    k->q.n = n_seq;
    sequences_run(&k->q, k->prefix, n_prefix, depth);
}

static double loss_of(struct search *k, uint32_t n_prefix, const int32_t *text, uint32_t n,
                      bool int8)
{
    memcpy(k->q.tokens, text, n * sizeof *text);
    k->q.len = n;
    k->q.skip = 0;
    run_layers(k, n_prefix, 1, (struct sequences_depth){k->m->n_layer, int8});
    return k->q.loss[0];
}

/* -------------------------------------------------------------------------------------- samples */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Number of samples of the text. */
static uint32_t samples(const struct search *k)
{
    return (uint32_t)(k->o->n_text / k->o->sample);
}

/* Text of a round's sample i. */
static const int32_t *sample_of(const struct search *k, const struct cushion_round *r, uint32_t i)
{
    return k->o->text + (size_t)r->sample[i] * k->o->sample;
}

/* Number of samples of a round. */
static uint32_t round_samples(const struct search *k)
{
    return k->o->paper ? 1 : (uint32_t)least(CUSHION_SAMPLES, samples(k));
}

/* -------------------------------------------------------------------------------------- a round */

/* A stage of a round. */
struct stage {
    uint32_t text;     /* tokens */
    bool first_layers; /* only these layers, in int8 */
    size_t left;       /* candidates for the next stage */
};

/* A failure to write is not an error: the search is worth more than its checkpoint. */
static void save(struct search *k)
{
    k->state.found.kept =
        k->o->checkpoint && checkpoint_save(k->o->checkpoint, k->key, &k->state, k->m->n_vocab);
    k->saved = time(NULL);
}

/* A killed search loses at most the work since the last saving call. */
static void save_at_times(struct search *k)
{
    if (time(NULL) - k->saved >= SAVE_SECONDS)
        save(k);
}

/* Fills sequence i with a candidate, the prefix tokens after it, and text. */
static void put_candidate(struct search *k, uint32_t i, int64_t token, const int32_t *text,
                          uint32_t n_text)
{
    const struct cushion *found = &k->state.found;
    k->q.skip = 1 + k->tail;
    k->q.len = k->q.skip + n_text;
    int32_t *to = k->q.tokens + (size_t)i * k->q.len;
    *to = (int32_t)token;
    memcpy(to + 1, found->token + found->n - k->tail, k->tail * sizeof *to);
    memcpy(to + k->q.skip, text, n_text * sizeof *to);
}

static void run_candidates(struct search *k, uint32_t n_seq, struct sequences_depth depth)
{
    run_layers(k, k->state.found.n - k->tail, n_seq, depth);
}

/* Computes the losses of all candidates not tried yet. */
static void try_candidates(struct search *k, const int32_t *text, uint32_t n_text,
                           struct sequences_depth depth)
{
    struct checkpoint *state = &k->state;
    uint32_t most = (uint32_t)k->q.capacity.rows / (1 + k->tail + n_text);
    while (state->next < state->n) {
        uint32_t n_seq = state->n - state->next < most ? state->n - state->next : most;
        struct candidate *c = state->candidate + state->next;
        for (uint32_t i = 0; i < n_seq; i++)
            put_candidate(k, i, c[i].token, text, n_text);
        run_candidates(k, n_seq, depth);
        if (k->q.stopped)
            return;
        for (uint32_t i = 0; i < n_seq; i++)
            c[i].loss = isnan(k->q.loss[i]) ? INFINITY : k->q.loss[i];
        state->next += n_seq;
        save_at_times(k);
    }
}

static int by_loss(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->loss != y->loss ? (x->loss > y->loss) - (x->loss < y->loss)
                              : (x->token > y->token) - (x->token < y->token);
}

/* How many windows of n tokens a sample has, each with a token before it; or 1, at the start of the
   sample. */
static uint32_t windows_of(const struct search *k, uint32_t n)
{
    return k->o->sample > 2 * n ? (k->o->sample - 1) / n : 1;
}

/* Texts of `each` tokens, `stride` apart; their first `skip` tokens do not count in L_q. */
struct texts {
    const int32_t *first;
    size_t stride;
    uint32_t n, seq_len, skip;
};

/* Inserts index i with loss `own` into the n largest losses. Of equal losses the first stays first.
   */
static void rank(uint32_t *number, double *loss, uint32_t n, uint32_t i, double own)
{
    uint32_t at = n;
    for (; at > 0 && own > loss[at - 1]; at--)
        if (at < n) {
            loss[at] = loss[at - 1];
            number[at] = number[at - 1];
        }
    if (at < n) {
        loss[at] = own;
        number[at] = i;
    }
}

/* found: [n <= CUSHION_SAMPLES] the texts with the highest L_q in the first `layers` layers after
   the prefix so far, highest first. */
static void find_worst(struct search *k, const struct texts *t, uint32_t layers, uint32_t *found,
                       uint32_t n)
{
    uint32_t most = (uint32_t)k->q.capacity.rows / t->seq_len;
    double loss[CUSHION_SAMPLES];
    for (uint32_t i = 0; i < n; i++) {
        found[i] = 0;
        loss[i] = -1;
    }
    for (uint32_t first = 0; t->n > 1 && first < t->n && !k->q.stopped; first += most) {
        uint32_t n_seq = t->n - first < most ? t->n - first : most;
        for (uint32_t i = 0; i < n_seq; i++)
            memcpy(k->q.tokens + i * t->seq_len, t->first + (first + i) * t->stride,
                   t->seq_len * sizeof *t->first);
        k->q.len = t->seq_len;
        k->q.skip = t->skip;
        run_layers(k, k->state.found.n, n_seq, (struct sequences_depth){layers, true});
        for (uint32_t i = 0; i < n_seq; i++)
            rank(found, loss, n, first + i, k->q.loss[i]);
    }
}

/* Candidates are tried before a window. To choose the window, the text's own token comes before it:
   a newline may be an outlier after a word and none after BOS (tinyllama). */
static void choose_window(struct search *k, const int32_t *sample, uint32_t n)
{
    uint32_t window;
    find_worst(k, &(struct texts){sample, n, windows_of(k, n), n + 1, 1}, k->state.layers, &window,
               1);
    if (!k->q.stopped)
        k->state.window = window;
}

/* A pseudo-random sample, the same in every run: multiplicative hashing of the round's number. */
static uint32_t draw_sample(const struct search *k)
{
    return (uint32_t)(((uint64_t)(k->state.found.tried + 1) * 2654435769u & UINT32_MAX) *
                          samples(k) >> 32);
}

/* Looks at half of the layers: massive activations arise there, and in later layers the stream
   grows for any text. */
static void choose_samples(struct search *k)
{
    const struct cushion_opts *o = k->o;
    struct cushion_round r = {.tail = k->tail};
    if (o->paper)
        r.sample[0] = draw_sample(k);
    else
        find_worst(k, &(struct texts){o->text, o->sample, samples(k), o->sample, 0},
               (k->m->n_layer + 1) / 2, r.sample, round_samples(k));
    if (k->q.stopped)
        return;
    k->state.found.round[k->state.found.tried] = r;
    k->state.sampled = 1;
}

static const int32_t *window_text(const struct search *k, const int32_t *sample, uint32_t n)
{
    return windows_of(k, n) > 1 ? sample + 1 + (size_t)k->state.window * n : sample;
}

enum { STAGES = 8, FIRST_TEXT = 1, MORE_TEXT = 4, FEWER = 16, FINALISTS = 4 };

/* Each stage has four times the text and a sixteenth of the candidates of the stage before, so most
   work is in the first. The last few candidates see the whole sample. The first stage of a large
   model has one token of text, of a small one as many as `macs` allows. One token is enough if it
   is an outlier itself, as candidates that take it stand out by far: for tinyllama after BOS, L_q
   on a newline is 0.005 after a newline, and 85 after most tokens. */
static uint32_t plan(const struct search *k, struct stage stage[STAGES])
{
    bool exhaustive = k->o->exhaustive || k->o->paper;
    double n = k->m->n_vocab, macs = (double)k->m->matmul_macs - n * k->m->n_embd,
           text = fmax((k->o->macs > 0 ? k->o->macs : 2e12) / (n * macs), FIRST_TEXT);
    uint32_t i = 0;
    for (; i + 1 < STAGES && text < k->o->sample && n > FINALISTS && !exhaustive;
         i++, text *= MORE_TEXT) {
        n = fmax(floor(n / FEWER), FINALISTS);
        stage[i] = (struct stage){(uint32_t)text, i < 2, (size_t)n};
    }
    stage[i] = (struct stage){k->o->sample, false, least(k->m->n_vocab, FINALISTS)};
    return i + 1;
}

/* Work of a round in tokens times layers, if all finalists are tried. */
static double work_of_round(const struct search *k, const struct stage *stage, uint32_t stages)
{
    double work = 0, n = k->m->n_vocab;
    for (uint32_t i = 0; i < stages; i++) {
        uint32_t layers = stage[i].first_layers ? k->state.layers : k->m->n_layer;
        uint32_t windows = windows_of(k, stage[i].text);
        work += (1 + k->tail + stage[i].text) *
                (n * layers + (windows > 1 ? (double)windows * k->state.layers : 0));
        n = (double)stage[i].left;
    }
    return work + n * round_samples(k) * (1 + k->tail + k->o->sample) * k->m->n_layer;
}

/* How many layers the first stages run: up to the first one with a quarter of the largest
   magnitude, as massive activations arise within a layer or two and stay nearly to the end (Sun et
   al. 2024, section 2); at most half of all. Without massive activations the stream grows slowly,
   and half of the layers show the effect of a token. */
static uint32_t first_layers(const struct tft_model *m, const float *top)
{
    float most = 0;
    uint32_t l = 0, half = (m->n_layer + 1) / 2;
    for (uint32_t i = 0; i < m->n_layer; i++)
        most = fmaxf(most, top[i]);
    while (l + 1 < half && !(top[l] >= most / 4))
        l++;
    return l + 1;
}

static void begin_stage(struct search *k, uint32_t stage, uint32_t n)
{
    k->state.stage = stage;
    k->state.window = CHECKPOINT_NONE;
    k->state.n = n;
    k->state.next = 0;
}

static void run_stages(struct search *k, const int32_t *sample, const struct stage *stage,
                       uint32_t stages)
{
    struct checkpoint *state = &k->state;
    while (state->stage < stages) {
        const struct stage *s = &stage[state->stage];
        struct sequences_depth depth = {s->first_layers ? state->layers : k->m->n_layer,
                                        s->first_layers};
        if (state->window == CHECKPOINT_NONE)
            choose_window(k, sample, s->text);
        if (!k->q.stopped)
            try_candidates(k, window_text(k, sample, s->text), s->text, depth);
        if (k->q.stopped)
            return;
        qsort(state->candidate, state->n, sizeof *state->candidate, by_loss);
        begin_stage(k, state->stage + 1, (uint32_t)s->left);
    }
}

/* The mean of -ln p over the round's samples, which end the sequences that ran last. */
static double mean_text_loss(const struct search *k, const struct cushion_round *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < round_samples(k); i++)
        sum += text_loss_mean(&k->text_loss, &k->q.y,
                              k->q.y.text + (i * k->q.len + k->q.skip) * k->q.y.stride,
                              sample_of(k, r, i), k->o->sample);
    return sum / round_samples(k);
}

/* The sum of L_q over the sequences that ran last. */
static double sum_losses(const struct search *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < round_samples(k); i++)
        sum += k->q.loss[i];
    return sum;
}

/* Losses of the prefix without a further token. */
static void measure_prefix(struct search *k)
{
    struct checkpoint *state = &k->state;
    struct cushion_round *r = &state->found.round[state->found.tried];
    k->q.len = k->o->sample;
    k->q.skip = 0;
    for (uint32_t i = 0; i < round_samples(k); i++)
        memcpy(k->q.tokens + (size_t)i * k->q.len, sample_of(k, r, i),
               k->q.len * sizeof *k->q.tokens);
    k->q.after_layer = note_largest;
    run_layers(k, state->found.n, round_samples(k),
               (struct sequences_depth){k->m->n_layer, false});
    k->q.after_layer = NULL;
    if (k->q.stopped)
        return;
    r->before = sum_losses(k);
    state->alone = k->q.loss[0];
    state->nats = mean_text_loss(k, r);
    state->layers = first_layers(k->m, k->top);
}

/* All tokens are candidates. */
static void begin_stages(struct search *k)
{
    struct checkpoint *state = &k->state;
    state->done = 0;
    for (uint32_t i = 0; i < k->m->n_vocab; i++)
        state->candidate[i] = (struct candidate){0, i};
    begin_stage(k, 0, k->m->n_vocab);
}

static void begin_round(struct search *k)
{
    k->round_work = INFINITY;
    if (!k->state.sampled)
        choose_samples(k);
    if (!k->q.stopped)
        measure_prefix(k);
    if (!k->q.stopped)
        begin_stages(k);
}

/* Tries a finalist on all of the round's samples, and accepts or rejects it. If none is accepted,
   the round records the first one. The others are tried only if they lower L_q of the first sample
   enough. */
static void try_finalist(struct search *k, const struct candidate *c)
{
    struct checkpoint *state = &k->state;
    struct cushion_round *r = &state->found.round[state->found.tried];
    if (state->next && !(c->loss < k->o->tau * state->alone))
        return;
    for (uint32_t i = 0; i < round_samples(k); i++)
        put_candidate(k, i, c->token, sample_of(k, r, i), k->o->sample);
    run_candidates(k, round_samples(k), (struct sequences_depth){k->m->n_layer, false});
    if (k->q.stopped)
        return;
    double lost = sum_losses(k), nats = mean_text_loss(k, r) - state->nats;
    bool little = lost < k->o->tau * r->before;
    r->taken = little && isfinite(nats) && nats <= k->o->cost;
    r->refused += little && !r->taken;
    if (r->taken || !state->next) {
        r->token = (int32_t)c->token;
        r->after = lost;
        r->nats = nats;
    }
}

static void try_finalists(struct search *k)
{
    struct checkpoint *state = &k->state;
    while (state->next < state->n && !state->found.round[state->found.tried].taken) {
        try_finalist(k, state->candidate + state->next);
        if (k->q.stopped)
            return;
        state->next++;
        save_at_times(k);
    }
}

/* *tail: number of prefix tokens after the next candidates. False if the search is over. */
static bool next_tail(const struct search *k, const struct cushion *c, uint32_t *tail)
{
    const struct cushion_round *last = c->tried ? &c->round[c->tried - 1] : NULL;
    bool failed = last && !last->taken;
    *tail = c->n > k->o->n_start && !failed && !k->o->paper;
    return c->n < k->o->most && (!failed || last->tail);
}

static void add_token(struct cushion *c, const struct cushion_round *r)
{
    int32_t *place = c->token + c->n - r->tail;
    memmove(place + 1, place, r->tail * sizeof *place);
    *place = r->token;
    c->n++;
}

/* Either the prefix grows, or the next round tries another place in it and keeps the measurements.
   */
static void end_round(struct search *k)
{
    struct checkpoint *state = &k->state;
    struct cushion *c = &state->found;
    struct cushion_round last = c->round[c->tried++];
    if (last.taken) {
        add_token(c, &last);
        memcpy(k->prefix, c->token, sizeof k->prefix);
        state->sampled = state->layers = 0;
    } else if (next_tail(k, c, &k->tail)) {
        c->round[c->tried] = (struct cushion_round){.before = last.before, .tail = k->tail};
        memcpy(c->round[c->tried].sample, last.sample, sizeof last.sample);
        begin_stages(k);
    }
}

static void run_round(struct search *k)
{
    struct stage stage[STAGES];
    uint32_t stages = plan(k, stage);
    struct checkpoint *state = &k->state;
    struct cushion *c = &state->found;
    if (!state->layers)
        begin_round(k);
    const int32_t *sample = sample_of(k, &c->round[c->tried], 0);
    k->round_work = work_of_round(k, stage, stages);
    if (!k->q.stopped)
        run_stages(k, sample, stage, stages);
    if (!k->q.stopped)
        try_finalists(k);
    if (k->q.stopped)
        return;
    end_round(k);
}

/* ------------------------------------------------------------------------------- the checkpoint */

/* Of the whole file: a fine-tune may differ in its last layers only. A GB takes half a second, the
   search minutes. */
static uint32_t hash_of_search(const struct search *k)
{
    const struct cushion_opts *o = k->o;
    const struct tft_source *s = &k->m->source;
    struct {
        uint64_t size, n_text;
        double tau, cost, macs;
        uint32_t sample, most, n_start, exhaustive;
    } all = {s->size,   o->n_text, o->tau,     o->cost,      o->macs,
             o->sample, o->most,   o->n_start, o->exhaustive + 2u * o->paper};
    uint32_t crc = tft_crc32(tft_crc32(0, &all, sizeof all), s->data, s->size);
    crc = tft_crc32(crc, o->start, o->n_start * sizeof *o->start);
    return tft_crc32(crc, o->text, o->n_text * sizeof *o->text);
}

/* Rebuilds the prefix from a file's rounds. False if this search cannot have made these rounds. */
static bool replay(const struct search *k, struct checkpoint *state)
{
    struct cushion *c = &state->found;
    uint32_t tried = c->tried, tail;
    for (c->tried = 0; c->tried < tried; c->tried++) {
        const struct cushion_round *r = &c->round[c->tried];
        if (!next_tail(k, c, &tail) || r->tail != tail)
            return false;
        if (r->taken)
            add_token(c, r);
    }
    return next_tail(k, c, &tail) && (!state->sampled || c->round[tried].tail == tail);
}

/* Whether this search can have saved the state. A file may hold anything; a state of another search
   is ignored. */
static bool is_possible(const struct search *k, const struct checkpoint *state)
{
    struct stage stage[STAGES];
    uint32_t stages = plan(k, stage);
    for (uint32_t i = 0; state->sampled && i < CUSHION_SAMPLES; i++)
        if (state->found.round[state->found.tried].sample[i] >= samples(k))
            return false;
    if (!state->layers)
        return true;
    if (!state->sampled || state->layers > k->m->n_layer || state->stage > stages ||
        state->n != (state->stage ? stage[state->stage - 1].left : k->m->n_vocab))
        return false;
    return state->window == CHECKPOINT_NONE ||
           (state->stage < stages && state->window < windows_of(k, stage[state->stage].text));
}

static void resume(struct search *k)
{
    struct checkpoint found = k->state;
    k->key = hash_of_search(k);
    if (checkpoint_load(k->o->checkpoint, k->key, &found, k->m->n_vocab) && replay(k, &found) &&
        is_possible(k, &found)) {
        k->state = found;
        k->state.found.kept = true;
    }
}

/* ------------------------------------------------------------------------------------ the whole */

static enum tft_status open(struct search *k, const struct layers_capacity *capacity,
                            struct tft_error *err)
{
    struct tft_model *m = k->m;
    const struct cushion_opts *o = k->o;
    uint32_t n_ctx = m->n_ctx > CUSHION_MAX ? m->n_ctx - CUSHION_MAX : 0;
    if (!o->sample || o->sample > o->n_text || o->sample + 1 > n_ctx)
        return tft_fail(
            err, TFT_ERR_ARG,
            "%s: a sample of %u tokens does not fit the context of %u or the text of %zu",
            m->source.name, o->sample, m->n_ctx, o->n_text);
    enum tft_status status = sequences_open(&k->q, m, CUSHION_MAX, o->n_threads, capacity, err);
    if (status != TFT_OK)
        return status;
    k->q.progress = report;
    k->q.user = k;
    k->state.candidate = array_alloc(sizeof *k->state.candidate, m->n_vocab, 1, 1);
    k->top = malloc(m->n_layer * sizeof *k->top);
    if (!k->state.candidate || !k->top || !text_loss_open(&k->text_loss, m, o->sample))
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to search for a cushion",
                        m->source.name);
    return TFT_OK;
}

static void close(struct search *k)
{
    sequences_close(&k->q);
    text_loss_close(&k->text_loss);
    free(k->state.candidate);
    free(k->top);
}

enum tft_status cushion_search(struct tft_model *m, const struct cushion_opts *o, struct cushion *c,
                               bool *stopped, struct tft_error *err)
{
    struct search k = {.m = m, .o = o};
    /* a sample with a candidate and a token after it */
    uint32_t batch = o->sample + 2 > PASS_TOKENS ? o->sample + 2 : PASS_TOKENS;
    enum tft_status status =
        open(&k,
             &(struct layers_capacity){
                 .batch = batch, .rows = PASSES * (size_t)batch, .int8 = true},
             err);
    struct cushion *found = &k.state.found;
    *found = (struct cushion){.n = o->n_start, .tau = o->tau, .cost = o->cost};
    if (status == TFT_OK) {
        memcpy(found->token, o->start, o->n_start * sizeof *o->start);
        if (o->checkpoint)
            resume(&k);
        memcpy(k.prefix, found->token, sizeof k.prefix);
        while (!k.q.stopped && next_tail(&k, found, &k.tail))
            run_round(&k);
        status = sequences_status(&k.q, err);
    }
    if (k.q.stopped)
        save(&k);
    *c = *found;
    *stopped = k.q.stopped;
    close(&k);
    return status;
}

enum tft_status cushion_loss(struct tft_model *m, const struct cushion_opts *o,
                             const int32_t *prefix, uint32_t n_prefix, const int32_t *text,
                             uint32_t n, bool int8, double *loss, struct tft_error *err)
{
    struct search k = {.m = m, .o = o, .round_work = 1};
    struct layers_capacity capacity = {.batch = o->sample, .rows = o->sample, .int8 = int8};
    enum tft_status status = open(&k, &capacity, err);
    if (status == TFT_OK) {
        memcpy(k.prefix, prefix, n_prefix * sizeof *prefix);
        *loss = loss_of(&k, n_prefix, text, n, int8);
        status = sequences_status(&k.q, err);
    }
    close(&k);
    return status;
}
