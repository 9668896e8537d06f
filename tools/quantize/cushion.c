#include "cushion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "layers.h"

enum { PASS_TOKENS = 2048 };

struct candidate {
    int32_t token;
    double loss;
};

struct search {
    struct tft_model *m;
    const struct cushion_opts *o;
    struct cushion *c;
    struct layers y;
    struct quantize_opts shape; /* what layers.h wants to know */
    int32_t prefix[CUSHION_MAX]; /* c->token, and any others after them */
    uint32_t rows; /* tokens of a pass, at most */
    bool stopped;

    struct candidate *candidate; /* [V] */
    int32_t *tokens; /* [rows] of a pass */
    double *loss;    /* [rows] of its sequences, of */
    uint32_t n_seq, each, skip; /* so many of so many tokens, of which the first few do not count */

    double done, all; /* work of the round */
    uint32_t layers;  /* of the rounds' first stages */
};

/* ------------------------------------------------------------------------------------------------- L_q */

/* |X - q(X)|^2, x: [n, width], rows `stride` apart */
static double rounding(const struct tft_kernels *kern, const float *x, size_t stride, size_t n, size_t width)
{
    float min = 0, max = 0;
    double sum = 0;
    for (size_t t = 0; t < n; t++) {
        float row_min, row_max;
        kern->range(x + t * stride, width, &row_min, &row_max);
        min = fminf(min, row_min);
        max = fmaxf(max, row_max);
    }
    struct tft_affine q = stats_cover(min, max);
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < width; j++) {
            double e = stats_lost(x[t * stride + j], &q);
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
        k->loss[i] += rounding(&k->m->kern, k->y.text + (i * k->each + k->skip) * stride, stride, k->each - k->skip, k->m->n_embd);
}

/* -------------------------------------------------------------------------------------------- sequences */

static void pass(struct search *k, int what, uint32_t layer, float *x, const int32_t *tokens, uint32_t n, uint32_t pos, uint32_t each)
{
    struct layers_job j = {.x = x, .tokens = tokens, .n = n, .pos = pos, .each = each, .layer = layer};
    j.what = what == LAYERS_EMBED ? LAYERS_EMBED : LAYERS_LAYER;
    layers_pass(&k->y, &j);
}

/* The prefix' keys and values in a layer, which are those of sequence 0, to all the others. */
static void share_prefix(const struct search *k, uint32_t n_prefix, uint32_t n_seq)
{
    const struct tft_kv *kv = &k->y.s->kv;
    size_t row = kv->head_dim * tft_num_bytes(kv->num), panels = (n_prefix + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (uint32_t i = 1; i < n_seq; i++) {
            memcpy(tft_kv_keys(kv, i, h, 0), tft_kv_keys(kv, 0, h, 0), panels * TFT_KEY_PANEL * row);
            memcpy(tft_kv_values(kv, i, h, 0), tft_kv_values(kv, 0, h, 0), n_prefix * row);
        }
}

static void report(struct search *k, double work)
{
    k->done += work;
    if (k->o->progress && !k->o->progress(k->o->user, k->c->tried, fmin(k->done / k->all, 1)))
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

/* k->loss: [n_seq] of the sequences in k->tokens after the first n_prefix tokens of k->prefix, in so many layers; top: [layers], NULL or the
   largest number that each leaves in the residual stream. */
static void run(struct search *k, uint32_t n_prefix, uint32_t n_seq, uint32_t layers, float *top)
{
    struct tft_kv *kv = &k->y.s->kv;
    uint32_t n = n_seq * k->each, capacity = kv->capacity;
    k->n_seq = n_seq;
    kv->capacity = (n_prefix + k->each + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    memset(k->loss, 0, n_seq * sizeof *k->loss);
    if (n_prefix)
        pass(k, LAYERS_EMBED, 0, k->y.prefix, k->prefix, n_prefix, 0, n_prefix);
    pass(k, LAYERS_EMBED, 0, k->y.text, k->tokens, n, n_prefix, k->each);
    for (uint32_t l = 0; l < layers && !k->stopped; l++) {
        layers_load(&k->y, l);
        if (n_prefix)
            pass(k, LAYERS_LAYER, l, k->y.prefix, NULL, n_prefix, 0, n_prefix);
        share_prefix(k, n_prefix, n_seq);
        pass(k, LAYERS_LAYER, l, k->y.text, NULL, n, n_prefix, k->each);
        layers_unload(&k->y, l);
        tft_port_team(k->y.s->n_threads, add_losses, k);
        if (top)
            top[l] = largest(k, n);
        report(k, n);
    }
    kv->capacity = capacity;
}

/* As many sequences of `each` tokens as a pass and the cache, which the sequences share, have room for. */
static uint32_t room(const struct search *k, uint32_t n_prefix, uint32_t each)
{
    const struct tft_kv *kv = &k->y.s->kv;
    uint32_t slots = (n_prefix + each + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    uint32_t by_cache = k->m->n_layer * kv->capacity / slots, by_rows = k->rows / each;
    return by_cache < by_rows ? by_cache : by_rows;
}

static double loss_of(struct search *k, uint32_t n_prefix, const int32_t *text, uint32_t n, float *top)
{
    memcpy(k->tokens, text, n * sizeof *text);
    k->each = n;
    k->skip = 0;
    run(k, n_prefix, 1, k->m->n_layer, top);
    return k->loss[0];
}

/* ----------------------------------------------------------------------------------------------- a round */

/* The stages of a round: tokens of text, whether only in the first layers, and how many candidates are left for the next. */
struct stage {
    uint32_t text;
    bool first_layers;
    size_t left;
};

/* A candidate and its text in one sequence: all of the candidates' losses. */
static void try_all(struct search *k, size_t n, const int32_t *text, uint32_t n_text, uint32_t layers)
{
    uint32_t n_prefix = k->c->n, each = n_text + 1, most = room(k, n_prefix, each);
    for (size_t first = 0; first < n && !k->stopped; first += most) {
        uint32_t n_seq = n - first < most ? (uint32_t)(n - first) : most;
        k->each = each;
        k->skip = 1;
        for (uint32_t i = 0; i < n_seq; i++) {
            k->tokens[i * each] = k->candidate[first + i].token;
            memcpy(k->tokens + i * each + 1, text, n_text * sizeof *text);
        }
        run(k, n_prefix, n_seq, layers, NULL);
        for (uint32_t i = 0; i < n_seq; i++)
            k->candidate[first + i].loss = isnan(k->loss[i]) ? INFINITY : k->loss[i];
    }
}

static int by_loss(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->loss != y->loss ? (x->loss > y->loss) - (x->loss < y->loss) : (x->token > y->token) - (x->token < y->token);
}

/* Of the sample's windows of n tokens, the one that the prefix so far serves worst. */
static const int32_t *worst_window(struct search *k, const int32_t *sample, uint32_t n, uint32_t layers)
{
    uint32_t windows = k->o->sample / n, best = 0, most = room(k, k->c->n, n);
    double top = -1;
    for (uint32_t first = 0; first < windows && !k->stopped; first += most) {
        uint32_t n_seq = windows - first < most ? windows - first : most;
        memcpy(k->tokens, sample + (size_t)first * n, (size_t)n_seq * n * sizeof *sample);
        k->each = n;
        k->skip = 0;
        run(k, k->c->n, n_seq, layers, NULL);
        for (uint32_t i = 0; i < n_seq; i++)
            if (k->loss[i] > top) {
                top = k->loss[i];
                best = first + i;
            }
    }
    return sample + (size_t)best * n;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum { STAGES = 8, FIRST_TEXT = 2, MORE_TEXT = 4, FINALISTS = 8 };

/* Multiply-adds that the first stage may take, half a minute of two cores: with a small model it sees more text, and a tiny one is tried
   exhaustively. */
static const double first_macs = 2e12;

/* Every stage has four times the text of the one before, and at most half of its work. */
static uint32_t plan(const struct search *k, struct stage stage[STAGES])
{
    double n = k->m->n_vocab, macs = (double)k->m->matmul_macs - n * k->m->n_embd, text = fmax(first_macs / (n * macs), FIRST_TEXT);
    uint32_t i = 0;
    for (; i + 1 < STAGES && text < k->o->sample && !k->o->exhaustive; i++, text *= MORE_TEXT) {
        n = fmin(n, fmax(n / (2 * MORE_TEXT), FINALISTS));
        stage[i] = (struct stage){(uint32_t)text, i < 2, (size_t)n};
    }
    stage[i] = (struct stage){k->o->sample, false, 1};
    return i + 1;
}

/* What a round takes, in tokens and layers. */
static double work_of(const struct search *k, const struct stage *stage, uint32_t stages)
{
    double work = 0, n = k->m->n_vocab;
    for (uint32_t i = 0; i < stages; i++) {
        uint32_t layers = stage[i].first_layers ? k->layers : k->m->n_layer;
        work += (n * (stage[i].text + 1) + (stages > 1 ? k->o->sample : 0)) * layers;
        n = fmin(n, (double)stage[i].left);
    }
    return work;
}

/* Large activations arise within a layer or two, and stay (Sun et al. 2024, section 2): up to there, or the half of the stack. */
static uint32_t first_layers(const struct tft_model *m, const float *top)
{
    float most = 0;
    for (uint32_t l = 0; l < m->n_layer; l++)
        most = fmaxf(most, top[l]);
    uint32_t l = 0;
    while (l + 1 < m->n_layer && !(top[l] >= most / 4))
        l++;
    return l + 1;
}

static struct candidate best_token(struct search *k, const int32_t *sample)
{
    struct stage stage[STAGES];
    uint32_t stages = plan(k, stage);
    size_t n = k->m->n_vocab;
    k->done = 0;
    k->all = work_of(k, stage, stages);
    for (size_t i = 0; i < n; i++)
        k->candidate[i] = (struct candidate){(int32_t)i, 0};
    for (uint32_t i = 0; i < stages && !k->stopped; i++) {
        uint32_t layers = stage[i].first_layers ? k->layers : k->m->n_layer;
        const int32_t *text = stages > 1 ? worst_window(k, sample, stage[i].text, layers) : sample;
        try_all(k, n, text, stage[i].text, layers);
        qsort(k->candidate, n, sizeof *k->candidate, by_loss);
        n = least(n, stage[i].left);
    }
    return k->candidate[0];
}

/* Whether the prefix has become longer. */
static bool add_token(struct search *k, float *top)
{
    struct cushion *c = k->c;
    size_t samples = k->o->n_text / k->o->sample;
    const int32_t *sample = k->o->text + c->tried % samples * k->o->sample;
    k->all = INFINITY;
    c->before[c->tried] = loss_of(k, c->n, sample, k->o->sample, top);
    k->layers = first_layers(k->m, top);
    struct candidate best = best_token(k, sample);
    if (k->stopped)
        return false;
    c->after[c->tried++] = best.loss;
    if (!(best.loss < k->o->tau * c->before[c->tried - 1]))
        return false;
    k->prefix[c->n] = best.token;
    c->token[c->n++] = best.token;
    return true;
}

/* ----------------------------------------------------------------------------------------------- the whole */

/* For passes of so many tokens. */
static enum tft_status open(struct search *k, uint32_t rows, struct tft_error *err)
{
    const struct tft_model *m = k->m;
    const struct cushion_opts *o = k->o;
    uint32_t n_ctx = m->n_ctx > CUSHION_MAX ? m->n_ctx - CUSHION_MAX : 0;
    if (!o->sample || o->sample > o->n_text || o->sample + 1 > n_ctx)
        return tft_fail(err, TFT_ERR_ARG, "%s: a sample of %u tokens does not fit a context of %u and a text of %zu", m->source.name, o->sample,
                        m->n_ctx, o->n_text);
    k->rows = rows;
    k->shape = (struct quantize_opts){.n_prefix = CUSHION_MAX, .n_threads = o->n_threads};
    enum tft_status status = layers_take(&k->y, k->m, &k->shape, k->rows, k->rows, err);
    if (status != TFT_OK)
        return status;
    k->candidate = malloc(m->n_vocab * sizeof *k->candidate);
    k->tokens = malloc(k->rows * sizeof *k->tokens);
    k->loss = malloc(k->rows * sizeof *k->loss);
    if (!k->candidate || !k->tokens || !k->loss)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    return TFT_OK;
}

static void close(struct search *k)
{
    layers_close(&k->y);
    free(k->candidate);
    free(k->tokens);
    free(k->loss);
}

enum tft_status cushion_search(struct tft_model *m, const struct cushion_opts *o, struct cushion *c, bool *stopped, struct tft_error *err)
{
    struct search k = {.m = m, .o = o, .c = c};
    float *top = malloc(m->n_layer * sizeof *top);
    uint32_t rows = o->sample + 1 > PASS_TOKENS ? o->sample + 1 : PASS_TOKENS;
    enum tft_status status = top ? open(&k, rows, err) : tft_fail(err, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    *c = (struct cushion){.n = o->n_start, .tau = o->tau};
    if (status == TFT_OK) {
        memcpy(c->token, o->start, o->n_start * sizeof *o->start);
        memcpy(k.prefix, c->token, sizeof k.prefix);
        while (c->n < o->most && add_token(&k, top))
            continue;
    }
    *stopped = k.stopped;
    close(&k);
    free(top);
    return status;
}

enum tft_status cushion_loss(struct tft_model *m, const struct cushion_opts *o, const int32_t *prefix, uint32_t n_prefix, const int32_t *text,
                             uint32_t n, double *loss, struct tft_error *err)
{
    struct cushion c = {0};
    struct search k = {.m = m, .o = o, .c = &c, .all = 1};
    enum tft_status status = open(&k, o->sample, err);
    if (status == TFT_OK) {
        memcpy(k.prefix, prefix, n_prefix * sizeof *prefix);
        *loss = loss_of(&k, n_prefix, text, n, NULL);
    }
    close(&k);
    return status;
}
