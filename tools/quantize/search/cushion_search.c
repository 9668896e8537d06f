#include "tools/quantize/search/cushion_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/quantize/search/cushion_checkpoint.h"
#include "base/crc32.h"
#include "base/error.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/measure/text_loss.h"
#include "tools/quantize/round/affine.h"

/* A layer's weights are expanded, and packed, once for so many tokens; a stop loses the work on
   them. */
enum { PASS_TOKENS = 2048, PASSES = CUSHION_SAMPLES, SAVE_SECONDS = 2 };

struct search {
    struct tft_model *m;
    const struct cushion_opts *o;
    struct checkpoint at;
    uint32_t key; /* of its file */
    time_t saved;
    struct layers y;
    struct quantize_opts shape; /* what layers.h wants to know */
    int32_t prefix[CUSHION_MAX]; /* those found, or others for cushion_loss */
    struct layers_capacity room;
    struct text_loss guess;
    bool stopped;

    int32_t *tokens; /* [room.rows] of sequences that go through a layer together */
    double *loss;    /* [room.rows] what each loses, of */
    uint32_t n_seq, each, skip; /* so many of so many tokens, of which the first few do not count */

    uint32_t tail; /* tokens of the prefix that come after the candidates of the round */
    double all;    /* its work */
};

/* ------------------------------------------------------------------------------------------ L_q */

/* |X - q(X)|^2, x: [n, width], rows `stride` apart */
static double rounding(const struct tft_kernels *kern, const float *x, size_t stride, size_t n,
                       size_t width)
{
    float min = 0, max = 0;
    double sum = 0;
    for (size_t t = 0; t < n; t++) {
        float row_min, row_max;
        kern->range(x + t * stride, width, &row_min, &row_max);
        min = fminf(min, row_min);
        max = fmaxf(max, row_max);
    }
    struct tft_affine q = affine_cover(min, max);
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < width; j++) {
            double e = affine_error(x[t * stride + j], &q);
            sum += e * e;
        }
    return sum;
}

/* Adds to the losses what the block has left of the sequences in hand. */
static void add_losses(void *arg, int tid, int n_threads)
{
    const struct search *k = arg;
    size_t stride = k->y.stride;
    for (uint32_t i = (uint32_t)tid; i < k->n_seq; i += (uint32_t)n_threads)
        k->loss[i] += rounding(&k->m->kern, k->y.text + (i * k->each + k->skip) * stride, stride,
                               k->each - k->skip, k->m->n_embd);
}

/* ------------------------------------------------------------------------------------ sequences */

static void pass(struct search *k, int part, uint32_t layer, float *x, const int32_t *tokens,
                 uint32_t n, uint32_t pos, uint32_t seq_len)
{
    struct layers_pass pass = {
        .x = x, .tokens = tokens, .n = n, .pos = pos, .seq_len = seq_len, .layer = layer};
    pass.part = part == LAYERS_EMBED ? LAYERS_EMBED : LAYERS_LAYER;
    layers_run_pass(&k->y, &pass);
}

/* The prefix' keys and values in a layer, which are those of sequence 0, to all the others. */
static void share_prefix(const struct search *k, uint32_t n_prefix, uint32_t n_seq)
{
    const struct tft_kv *kv = &k->y.s->kv;
    size_t row = kv->head_dim * tft_num_bytes(kv->num),
           panels = (n_prefix + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (uint32_t i = 1; i < n_seq; i++) {
            memcpy(tft_kv_keys(kv, i, h, 0), tft_kv_keys(kv, 0, h, 0),
                   panels * TFT_KEY_PANEL * row);
            memcpy(tft_kv_values(kv, i, h, 0), tft_kv_values(kv, 0, h, 0), n_prefix * row);
        }
}

static void report(struct search *k, double work)
{
    k->at.done += work;
    if (k->o->progress &&
        !k->o->progress(k->o->user, k->at.found.tried, fmin(k->at.done / k->all, 1)))
        k->stopped = true;
}

static float largest(const struct search *k, uint32_t n)
{
    float most = 0;
    for (uint32_t t = 0; t < n; t++) {
        float min, max;
        k->m->kern.range(k->y.text + t * k->y.stride, k->m->n_embd, &min, &max);
        most = fmaxf(most, fmaxf(-min, max));
    }
    return most;
}

/* As many sequences as a pass and the cache, which the sequences share, have room for. */
static uint32_t room(const struct search *k, uint32_t n_prefix)
{
    const struct tft_kv *kv = &k->y.s->kv;
    uint32_t slots = (n_prefix + k->each + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    uint32_t by_cache = k->m->n_layer * kv->capacity / slots, by_rows = k->room.batch / k->each;
    return by_cache < by_rows ? by_cache : by_rows;
}

/* How far sequences go, and whether in integers. */
struct depth {
    uint32_t layers;
    bool bytes;
};

/* A layer over all sequences, `most` at a time. The prefix' own keys and values are those of
   floats. */
static void run_layer(struct search *k, uint32_t l, bool bytes, uint32_t n_prefix, uint32_t most)
{
    layers_load(&k->y, l);
    if (n_prefix)
        pass(k, LAYERS_LAYER, l, k->y.prefix, NULL, n_prefix, 0, n_prefix);
    if (bytes)
        layers_pack(&k->y, l); /* where that cannot be, floats will do */
    share_prefix(k, n_prefix, most);
    for (uint32_t i = 0, n_seq; i < k->n_seq && !k->stopped; i += n_seq) {
        n_seq = k->n_seq - i < most ? k->n_seq - i : most;
        pass(k, LAYERS_LAYER, l, k->y.text + (size_t)i * k->each * k->y.stride, NULL,
             n_seq * k->each, n_prefix, k->each);
        report(k, n_seq * k->each);
    }
    layers_unload(&k->y, l);
}

/* k->loss: [n_seq] of the sequences in k->tokens after the first n_prefix tokens of k->prefix; top:
   [layers], NULL or the largest number that each leaves in the residual stream. */
static void run(struct search *k, uint32_t n_prefix, uint32_t n_seq, struct depth depth, float *top)
{
    struct tft_kv *kv = &k->y.s->kv;
    uint32_t n = n_seq * k->each, capacity = kv->capacity, most = room(k, n_prefix);
    k->n_seq = n_seq;
    kv->capacity = (n_prefix + k->each + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    memset(k->loss, 0, n_seq * sizeof *k->loss);
    if (n_prefix)
        pass(k, LAYERS_EMBED, 0, k->y.prefix, k->prefix, n_prefix, 0, n_prefix);
    pass(k, LAYERS_EMBED, 0, k->y.text, k->tokens, n, n_prefix, k->each);
    for (uint32_t l = 0; l < depth.layers && !k->stopped; l++) {
        run_layer(k, l, depth.bytes, n_prefix, most < n_seq ? most : n_seq);
        tft_port_team(k->y.s->n_threads, add_losses, k);
        if (top)
            top[l] = largest(k, n);
    }
    kv->capacity = capacity;
}

static double loss_of(struct search *k, uint32_t n_prefix, const int32_t *text, uint32_t n,
                      bool bytes, float *top)
{
    memcpy(k->tokens, text, n * sizeof *text);
    k->each = n;
    k->skip = 0;
    run(k, n_prefix, 1, (struct depth){k->m->n_layer, bytes}, top);
    return k->loss[0];
}

/* -------------------------------------------------------------------------------------- samples */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static uint32_t samples(const struct search *k)
{
    return (uint32_t)(k->o->n_text / k->o->sample);
}

/* The i-th of a round. */
static const int32_t *sample_of(const struct search *k, const struct cushion_round *r, uint32_t i)
{
    return k->o->text + (size_t)r->sample[i] * k->o->sample;
}

/* How many a round has. */
static uint32_t judges(const struct search *k)
{
    return (uint32_t)least(CUSHION_SAMPLES, samples(k));
}

/* -------------------------------------------------------------------------------------- a round */

/* The stages of a round: tokens of text, whether only in the first layers and in integers, and how
   many candidates are left then. */
struct stage {
    uint32_t text;
    bool first_layers;
    size_t left;
};

/* A file that cannot be written is none: the search is worth more than its checkpoint. */
static void save(struct search *k)
{
    k->at.found.kept = k->o->checkpoint &&
                       checkpoint_save(k->o->checkpoint, k->key, &k->at, k->m->n_vocab);
    k->saved = time(NULL);
}

/* So much is lost where it is killed. */
static void save_at_times(struct search *k)
{
    if (time(NULL) - k->saved >= SAVE_SECONDS)
        save(k);
}

/* Into sequence i: a candidate, what comes after it, the rest of the prefix, and text. */
static void put_candidate(struct search *k, uint32_t i, int64_t token, const int32_t *text,
                          uint32_t n_text)
{
    const struct cushion *found = &k->at.found;
    k->skip = 1 + k->tail;
    k->each = k->skip + n_text;
    int32_t *to = k->tokens + (size_t)i * k->each;
    *to = (int32_t)token;
    memcpy(to + 1, found->token + found->n - k->tail, k->tail * sizeof *to);
    memcpy(to + k->skip, text, n_text * sizeof *to);
}

static void run_candidates(struct search *k, uint32_t n_seq, struct depth depth)
{
    run(k, k->at.found.n - k->tail, n_seq, depth, NULL);
}

/* The losses of all that have not been tried yet. */
static void try_all(struct search *k, const int32_t *text, uint32_t n_text, struct depth depth)
{
    struct checkpoint *at = &k->at;
    uint32_t most = (uint32_t)k->room.rows / (1 + k->tail + n_text);
    while (at->next < at->n) {
        uint32_t n_seq = at->n - at->next < most ? at->n - at->next : most;
        struct candidate *c = at->candidate + at->next;
        for (uint32_t i = 0; i < n_seq; i++)
            put_candidate(k, i, c[i].token, text, n_text);
        run_candidates(k, n_seq, depth);
        if (k->stopped)
            return;
        for (uint32_t i = 0; i < n_seq; i++)
            c[i].loss = isnan(k->loss[i]) ? INFINITY : k->loss[i];
        at->next += n_seq;
        save_at_times(k);
    }
}

static int by_loss(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->loss != y->loss ? (x->loss > y->loss) - (x->loss < y->loss)
                              : (x->token > y->token) - (x->token < y->token);
}

/* Windows of n tokens in a sample, each with a token before it; or one that begins with the
   sample. */
static uint32_t windows_of(const struct search *k, uint32_t n)
{
    return k->o->sample > 2 * n ? (k->o->sample - 1) / n : 1;
}

/* Texts of `each` tokens, `stride` apart, of which the first `skip` do not count. */
struct texts {
    const int32_t *first;
    size_t stride;
    uint32_t n, each, skip;
};

/* Puts number i with its loss among the n with the largest; those that come first stay before
   others as large. */
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

/* The n <= CUSHION_SAMPLES that the prefix so far serves worst in the first layers, the worst
   first. */
static void find_worst(struct search *k, const struct texts *t, uint32_t layers, uint32_t *found,
                       uint32_t n)
{
    uint32_t most = (uint32_t)k->room.rows / t->each;
    double loss[CUSHION_SAMPLES];
    for (uint32_t i = 0; i < n; i++) {
        found[i] = 0;
        loss[i] = -1;
    }
    for (uint32_t first = 0; t->n > 1 && first < t->n && !k->stopped; first += most) {
        uint32_t n_seq = t->n - first < most ? t->n - first : most;
        for (uint32_t i = 0; i < n_seq; i++)
            memcpy(k->tokens + i * t->each, t->first + (first + i) * t->stride,
                   t->each * sizeof *t->first);
        k->each = t->each;
        k->skip = t->skip;
        run(k, k->at.found.n, n_seq, (struct depth){layers, true}, NULL);
        for (uint32_t i = 0; i < n_seq; i++)
            rank(found, loss, n, first + i, k->loss[i]);
    }
}

/* A token is tried before a window, so here it is the text's own that comes before it: a newline
   may be an outlier after a word and none after BOS (tinyllama). */
static void choose_window(struct search *k, const int32_t *sample, uint32_t n)
{
    uint32_t window;
    find_worst(k, &(struct texts){sample, n, windows_of(k, n), n + 1, 1}, k->at.layers, &window, 1);
    if (!k->stopped)
        k->at.window = window;
}

/* In half of the layers: there is where large activations arise, and in later ones the stream of
   any text grows. */
static void choose_samples(struct search *k)
{
    const struct cushion_opts *o = k->o;
    struct cushion_round r = {.tail = k->tail};
    find_worst(k, &(struct texts){o->text, o->sample, samples(k), o->sample, 0},
               (k->m->n_layer + 1) / 2, r.sample, judges(k));
    if (k->stopped)
        return;
    k->at.found.round[k->at.found.tried] = r;
    k->at.sampled = 1;
}

static const int32_t *chosen(const struct search *k, const int32_t *sample, uint32_t n)
{
    return windows_of(k, n) > 1 ? sample + 1 + (size_t)k->at.window * n : sample;
}

enum { STAGES = 8, FIRST_TEXT = 1, MORE_TEXT = 4, FEWER = 16, FINALISTS = 4 };

/* Every stage has four times the text of the one before and a sixteenth of its candidates, so that
   most of the work is the first one's, until there are few: they see all of the sample. A large
   model's first stage is a token of text, a small one's has as many as its work allows. One is
   enough where it is an outlier itself, because candidates that take it stand out by far: at
   tinyllama after BOS a newline has an L_q of 0.005 on a newline, most tokens one of 85. */
static uint32_t plan(const struct search *k, struct stage stage[STAGES])
{
    double n = k->m->n_vocab, macs = (double)k->m->matmul_macs - n * k->m->n_embd,
           text = fmax((k->o->macs > 0 ? k->o->macs : 2e12) / (n * macs), FIRST_TEXT);
    uint32_t i = 0;
    for (; i + 1 < STAGES && text < k->o->sample && n > FINALISTS && !k->o->exhaustive;
         i++, text *= MORE_TEXT) {
        n = fmax(floor(n / FEWER), FINALISTS);
        stage[i] = (struct stage){(uint32_t)text, i < 2, (size_t)n};
    }
    stage[i] = (struct stage){k->o->sample, false, least(k->m->n_vocab, FINALISTS)};
    return i + 1;
}

/* What a round takes, in tokens and layers, if all finalists are asked. */
static double work_of(const struct search *k, const struct stage *stage, uint32_t stages)
{
    double work = 0, n = k->m->n_vocab;
    for (uint32_t i = 0; i < stages; i++) {
        uint32_t layers = stage[i].first_layers ? k->at.layers : k->m->n_layer;
        uint32_t windows = windows_of(k, stage[i].text);
        work += (1 + k->tail + stage[i].text) *
                (n * layers + (windows > 1 ? (double)windows * k->at.layers : 0));
        n = (double)stage[i].left;
    }
    return work + n * judges(k) * (1 + k->tail + k->o->sample) * k->m->n_layer;
}

/* Massive activations arise within a layer or two and stay nearly to the end (Sun et al. 2024,
   section 2): up to the first that has a quarter of the largest. Without them the stream grows
   slowly to its end; what a token does to it shows in half of the layers. */
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
    k->at.stage = stage;
    k->at.window = CHECKPOINT_NONE;
    k->at.n = n;
    k->at.next = 0;
}

static void run_stages(struct search *k, const int32_t *sample, const struct stage *stage,
                       uint32_t stages)
{
    struct checkpoint *at = &k->at;
    while (at->stage < stages) {
        const struct stage *s = &stage[at->stage];
        struct depth depth = {s->first_layers ? at->layers : k->m->n_layer, s->first_layers};
        if (at->window == CHECKPOINT_NONE)
            choose_window(k, sample, s->text);
        if (!k->stopped)
            try_all(k, chosen(k, sample, s->text), s->text, depth);
        if (k->stopped)
            return;
        qsort(at->candidate, at->n, sizeof *at->candidate, by_loss);
        begin_stage(k, at->stage + 1, (uint32_t)s->left);
    }
}

/* The mean of -ln p over them, at the end of the sequences that were run last. */
static double guess_samples(const struct search *k, const struct cushion_round *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < judges(k); i++)
        sum += text_loss_mean(&k->guess, &k->y, k->y.text + (i * k->each + k->skip) * k->y.stride,
                          sample_of(k, r, i), k->o->sample);
    return sum / judges(k);
}

/* The same for L_q, which is a sum. */
static double lost_samples(const struct search *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < judges(k); i++)
        sum += k->loss[i];
    return sum;
}

/* The prefix without a further token. */
static void measure(struct search *k, float *top)
{
    struct checkpoint *at = &k->at;
    struct cushion_round *r = &at->found.round[at->found.tried];
    k->each = k->o->sample;
    k->skip = 0;
    for (uint32_t i = 0; i < judges(k); i++)
        memcpy(k->tokens + (size_t)i * k->each, sample_of(k, r, i), k->each * sizeof *k->tokens);
    run(k, at->found.n, judges(k), (struct depth){k->m->n_layer, false}, top);
    if (k->stopped)
        return;
    r->before = lost_samples(k);
    at->alone = k->loss[0];
    at->nats = guess_samples(k, r);
    at->layers = first_layers(k->m, top);
}

/* All tokens may be the next. */
static void begin_stages(struct search *k)
{
    struct checkpoint *at = &k->at;
    at->done = 0;
    for (uint32_t i = 0; i < k->m->n_vocab; i++)
        at->candidate[i] = (struct candidate){0, i};
    begin_stage(k, 0, k->m->n_vocab);
}

static void begin_round(struct search *k, float *top)
{
    k->all = INFINITY;
    if (!k->at.sampled)
        choose_samples(k);
    if (!k->stopped)
        measure(k, top);
    if (!k->stopped)
        begin_stages(k);
}

/* Whether a finalist is taken. The best is the round's if none of them is. Who does little for the
   first sample need not be asked. */
static void ask(struct search *k, const struct candidate *c)
{
    struct checkpoint *at = &k->at;
    struct cushion_round *r = &at->found.round[at->found.tried];
    if (at->next && !(c->loss < k->o->tau * at->alone))
        return;
    for (uint32_t i = 0; i < judges(k); i++)
        put_candidate(k, i, c->token, sample_of(k, r, i), k->o->sample);
    run_candidates(k, judges(k), (struct depth){k->m->n_layer, false});
    if (k->stopped)
        return;
    double lost = lost_samples(k), nats = guess_samples(k, r) - at->nats;
    bool little = lost < k->o->tau * r->before;
    r->taken = little && isfinite(nats) && nats <= k->o->cost;
    r->refused += little && !r->taken;
    if (r->taken || !at->next) {
        r->token = (int32_t)c->token;
        r->after = lost;
        r->nats = nats;
    }
}

static void ask_finalists(struct search *k)
{
    struct checkpoint *at = &k->at;
    while (at->next < at->n && !at->found.round[at->found.tried].taken) {
        ask(k, at->candidate + at->next);
        if (k->stopped)
            return;
        at->next++;
        save_at_times(k);
    }
}

/* Where the next token is tried: how many come after it. False if the search is over. */
static bool next_place(const struct search *k, const struct cushion *c, uint32_t *tail)
{
    const struct cushion_round *last = c->tried ? &c->round[c->tried - 1] : NULL;
    bool failed = last && !last->taken;
    *tail = c->n > k->o->n_start && !failed;
    return c->n < k->o->most && (!failed || last->tail);
}

static void add_token(struct cushion *c, const struct cushion_round *r)
{
    int32_t *place = c->token + c->n - r->tail;
    memmove(place + 1, place, r->tail * sizeof *place);
    *place = r->token;
    c->n++;
}

/* The next round has another prefix, or another place in this one: then what is known of the prefix
   stays. */
static void end_round(struct search *k)
{
    struct checkpoint *at = &k->at;
    struct cushion *c = &at->found;
    struct cushion_round last = c->round[c->tried++];
    if (last.taken) {
        add_token(c, &last);
        memcpy(k->prefix, c->token, sizeof k->prefix);
        at->sampled = at->layers = 0;
    } else if (next_place(k, c, &k->tail)) {
        c->round[c->tried] = (struct cushion_round){.before = last.before, .tail = k->tail};
        memcpy(c->round[c->tried].sample, last.sample, sizeof last.sample);
        begin_stages(k);
    }
}

static void run_round(struct search *k, float *top)
{
    struct stage stage[STAGES];
    uint32_t stages = plan(k, stage);
    struct checkpoint *at = &k->at;
    struct cushion *c = &at->found;
    if (!at->layers)
        begin_round(k, top);
    const int32_t *sample = sample_of(k, &c->round[c->tried], 0);
    k->all = work_of(k, stage, stages);
    if (!k->stopped)
        run_stages(k, sample, stage, stages);
    if (!k->stopped)
        ask_finalists(k);
    if (k->stopped)
        return;
    end_round(k);
}

/* ------------------------------------------------------------------------------- the checkpoint */

static uint32_t key_of(const struct search *k)
{
    const struct cushion_opts *o = k->o;
    const struct tft_source *s = &k->m->source;
    struct {
        uint64_t size, n_text;
        double tau, cost, macs;
        uint32_t sample, most, n_start, exhaustive;
    } all = {s->size,   o->n_text, o->tau,     o->cost,      o->macs,
             o->sample, o->most,   o->n_start, o->exhaustive};
    uint32_t crc = tft_crc32(tft_crc32(0, &all, sizeof all), s->data, least(s->size, 1 << 20));
    crc = tft_crc32(crc, o->start, o->n_start * sizeof *o->start);
    return tft_crc32(crc, o->text, o->n_text * sizeof *o->text);
}

/* The prefix that a file's rounds have found, each where the ones before it say. False if they
   cannot have come from here. */
static bool replay(const struct search *k, struct checkpoint *at)
{
    struct cushion *c = &at->found;
    uint32_t tried = c->tried, tail;
    for (c->tried = 0; c->tried < tried; c->tried++) {
        const struct cushion_round *r = &c->round[c->tried];
        if (!next_place(k, c, &tail) || r->tail != tail)
            return false;
        if (r->taken)
            add_token(c, r);
    }
    return next_place(k, c, &tail) && (!at->sampled || c->round[tried].tail == tail);
}

/* A file may say anything: what cannot have come from here is as if there were none. */
static bool possible(const struct search *k, const struct checkpoint *at)
{
    struct stage stage[STAGES];
    uint32_t stages = plan(k, stage);
    for (uint32_t i = 0; at->sampled && i < CUSHION_SAMPLES; i++)
        if (at->found.round[at->found.tried].sample[i] >= samples(k))
            return false;
    if (!at->layers)
        return true;
    if (!at->sampled || at->layers > k->m->n_layer || at->stage > stages ||
        at->n != (at->stage ? stage[at->stage - 1].left : k->m->n_vocab))
        return false;
    return at->window == CHECKPOINT_NONE ||
           (at->stage < stages && at->window < windows_of(k, stage[at->stage].text));
}

static void resume(struct search *k)
{
    struct checkpoint found = k->at;
    k->key = key_of(k);
    if (checkpoint_load(k->o->checkpoint, k->key, &found, k->m->n_vocab) && replay(k, &found) &&
        possible(k, &found)) {
        k->at = found;
        k->at.found.kept = true;
    }
}

/* ------------------------------------------------------------------------------------ the whole */

static enum tft_status open(struct search *k, struct tft_error *err)
{
    const struct tft_model *m = k->m;
    const struct cushion_opts *o = k->o;
    uint32_t n_ctx = m->n_ctx > CUSHION_MAX ? m->n_ctx - CUSHION_MAX : 0;
    if (!o->sample || o->sample > o->n_text || o->sample + 1 > n_ctx)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a sample of %u tokens does not fit a context of %u and a text of %zu",
                        m->source.name, o->sample, m->n_ctx, o->n_text);
    k->shape = (struct quantize_opts){.n_prefix = CUSHION_MAX, .n_threads = o->n_threads};
    enum tft_status status = layers_open_empty(&k->y, k->m, &k->shape, &k->room, err);
    if (status != TFT_OK)
        return status;
    k->at.candidate = malloc(m->n_vocab * sizeof *k->at.candidate);
    k->tokens = malloc(k->room.rows * sizeof *k->tokens);
    k->loss = malloc(k->room.rows * sizeof *k->loss);
    if (!k->at.candidate || !k->tokens || !k->loss || !text_loss_open(&k->guess, m, o->sample))
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    return TFT_OK;
}

static void close(struct search *k)
{
    layers_close(&k->y);
    text_loss_close(&k->guess);
    free(k->at.candidate);
    free(k->tokens);
    free(k->loss);
}

enum tft_status cushion_search(struct tft_model *m, const struct cushion_opts *o, struct cushion *c,
                               bool *stopped, struct tft_error *err)
{
    struct search k = {.m = m, .o = o};
    float *top = malloc(m->n_layer * sizeof *top);
    /* a candidate and a token after it */
    uint32_t batch = o->sample + 2 > PASS_TOKENS ? o->sample + 2 : PASS_TOKENS;
    k.room = (struct layers_capacity){batch, PASSES * (size_t)batch, true};
    enum tft_status status = top ? open(&k, err)
                                 : tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    struct cushion *found = &k.at.found;
    *found = (struct cushion){.n = o->n_start, .tau = o->tau, .cost = o->cost};
    if (status == TFT_OK) {
        memcpy(found->token, o->start, o->n_start * sizeof *o->start);
        if (o->checkpoint)
            resume(&k);
        memcpy(k.prefix, found->token, sizeof k.prefix);
        while (!k.stopped && next_place(&k, found, &k.tail))
            run_round(&k, top);
    }
    if (k.stopped)
        save(&k);
    *c = *found;
    *stopped = k.stopped;
    close(&k);
    free(top);
    return status;
}

enum tft_status cushion_loss(struct tft_model *m, const struct cushion_opts *o,
                             const int32_t *prefix, uint32_t n_prefix, const int32_t *text,
                             uint32_t n, bool bytes, double *loss, struct tft_error *err)
{
    struct search k = {.m = m, .o = o, .room = {o->sample, o->sample, bytes}, .all = 1};
    enum tft_status status = open(&k, err);
    if (status == TFT_OK) {
        memcpy(k.prefix, prefix, n_prefix * sizeof *prefix);
        *loss = loss_of(&k, n_prefix, text, n, bytes, NULL);
    }
    close(&k);
    return status;
}
