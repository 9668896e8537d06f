#include "tools/quantize/measure/kv_clip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/expf.h"
#include "simd/half.h"
#include "tools/quantize/array.h"

/* Candidates for alpha, the least clipping first. Of equal errors the first wins. */
static const float alphas[] = {1,    0.95f, 0.9f,  0.85f, 0.8f,  0.75f, 0.7f,  0.65f, 0.6f,
                               0.55f, 0.5f, 0.45f, 0.4f,  0.35f, 0.3f,  0.25f, 0.2f};

/* Number of candidates to try: the fewer levels, the smaller the best part. */
static int n_alphas(unsigned levels)
{
    return levels == 2 ? 17 : levels == 3 ? 14 : 11;
}

/* One thread's workspace for a KV head. T: tokens of prefix and window, padded to whole panels. */
struct head_work {
    const struct kv_clip *c;
    uint32_t tokens, padded; /* before padding; T */
    uint32_t heads, dim, group; /* of the layer: G, E, channels that share a scale */
    uint32_t rows;  /* queries of a window, of all query heads that read the KV head */
    float *k, *v;   /* [windows, E, T], channels in the order of the cache */
    float *coded;   /* [windows, E, T] numbers that the codes of the keys stand for, later of the
                       values */
    float *q;       /* [windows, rows, E] in the order of the keys */
    float *p;       /* [windows, rows, T] probabilities from the coded keys */
    float *o;       /* [windows, rows, E] output of exact keys and values */
    float *scores;  /* [T] */
    uint8_t *code;  /* [E, 16] */
    float *by_token; /* [T, E] */
};

/* Of a layer with these heads. */
static uint64_t floats_of(const struct kv_clip *c, struct tft_kv_heads heads)
{
    uint64_t t = (c->n_prefix + c->window + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL,
             rows = (uint64_t)KV_CLIP_QUERIES * (c->m->n_head / heads.n);
    return KV_CLIP_WINDOWS * (3 * heads.dim * t + 2 * rows * heads.dim + rows * t) + t +
           t * heads.dim + heads.dim * TFT_PANEL;
}

static uint64_t work_floats(const struct kv_clip *c)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < c->m->n_kv_layer; l++) {
        uint64_t n = floats_of(c, tft_model_kv_heads(c->m, l));
        most = n > most ? n : most;
    }
    return most;
}

static struct head_work work_of(const struct kv_clip *c, uint32_t layer, int tid)
{
    struct tft_kv_heads heads = tft_model_kv_heads(c->m, layer);
    struct head_work w = {.c = c,
                          .tokens = c->n_prefix + c->window,
                          .heads = heads.n,
                          .dim = heads.dim,
                          .group = c->policy->group};
    w.padded = (w.tokens + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
    w.rows = KV_CLIP_QUERIES * (c->m->n_head / heads.n);
    size_t keys = (size_t)KV_CLIP_WINDOWS * w.dim * w.padded,
           queries = (size_t)KV_CLIP_WINDOWS * w.rows * w.dim;
    float *at = c->work + (size_t)tid * (size_t)work_floats(c);
    w.k = at;
    w.v = w.k + keys;
    w.coded = w.v + keys;
    w.q = w.coded + keys;
    w.o = w.q + queries;
    w.p = w.o + queries;
    w.scores = w.p + (size_t)KV_CLIP_WINDOWS * w.rows * w.padded;
    w.by_token = w.scores + w.padded;
    w.code = (uint8_t *)(w.by_token + (size_t)w.padded * w.dim);
    return w;
}

bool kv_clip_open(struct kv_clip *c, const struct tft_model *m, const struct tft_kv_policy *policy,
               const struct quantize_opts *o, int n_threads)
{
    *c = (struct kv_clip){.m = m,
                       .policy = policy,
                       .window = o->window,
                       .n_prefix = o->n_prefix,
                       .n_threads = n_threads};
    size_t width = (size_t)m->n_head_kv * m->head_dim;
    c->k = array_alloc(sizeof *c->k, KV_CLIP_WINDOWS, c->window, width);
    c->v = array_alloc(sizeof *c->v, KV_CLIP_WINDOWS, c->window, width);
    c->q = array_alloc(sizeof *c->q, KV_CLIP_WINDOWS * KV_CLIP_QUERIES, m->n_head, m->head_dim);
    uint64_t floats = work_floats(c);
    c->work = floats <= SIZE_MAX / sizeof *c->work
                  ? calloc((size_t)n_threads, (size_t)floats * sizeof *c->work)
                  : NULL;
    return c->k && c->v && c->q && c->work;
}

void kv_clip_close(struct kv_clip *c)
{
    free(c->k);
    free(c->v);
    free(c->q);
    free(c->work);
    *c = (struct kv_clip){0};
}

void kv_clip_clear(struct kv_clip *c)
{
    c->windows = 0;
}

/* The token of query i of a window: queries are spread evenly, the last one at the window's end. */
static uint32_t query_token(const struct kv_clip *c, uint32_t i)
{
    return (uint32_t)(((uint64_t)c->window * (i + 1) + KV_CLIP_QUERIES - 1) / KV_CLIP_QUERIES) - 1;
}

void kv_clip_add(struct kv_clip *c, uint32_t l, const float *q, size_t q_stride, const float *k,
                 size_t k_stride, const float *v, size_t v_stride)
{
    size_t width = tft_model_kv_width(c->m, l),
           queries = (size_t)c->m->n_head * tft_model_kv_heads(c->m, l).dim;
    if (c->windows == KV_CLIP_WINDOWS)
        return;
    for (uint32_t t = 0; t < c->window; t++) {
        size_t at = ((size_t)c->windows * c->window + t) * width;
        memcpy(c->k + at, k + t * k_stride, width * sizeof *k);
        memcpy(c->v + at, v + t * v_stride, width * sizeof *v);
    }
    for (uint32_t i = 0; i < KV_CLIP_QUERIES; i++)
        memcpy(c->q + ((size_t)c->windows * KV_CLIP_QUERIES + i) * queries,
               q + query_token(c, i) * q_stride, queries * sizeof *q);
    c->windows++;
}

/* ---- a head */

static uint32_t channel(const struct kv_clip_layer *y, int side, uint32_t head, uint32_t dim,
                        uint32_t i)
{
    return y->order[side] ? (uint32_t)y->order[side][head * dim + i] : i;
}

static void gather_side(const struct head_work *w, const struct kv_clip_layer *y, int side,
                        uint32_t head)
{
    const struct kv_clip *c = w->c;
    const uint16_t *prefix = side ? y->prefix_v : y->prefix_k;
    const float *text = side ? c->v : c->k;
    float *to = side ? w->v : w->k;
    size_t width = (size_t)w->heads * w->dim;
    memset(to, 0, (size_t)c->windows * w->dim * w->padded * sizeof *to);
    for (uint32_t n = 0; n < c->windows; n++)
        for (uint32_t i = 0; i < w->dim; i++, to += w->padded) {
            size_t at = head * w->dim + channel(y, side, head, w->dim, i);
            for (uint32_t t = 0; t < c->n_prefix; t++)
                to[t] = tft_f16_to_f32(prefix[t * width + at]);
            for (uint32_t t = 0; t < c->window; t++)
                to[c->n_prefix + t] = text[((size_t)n * c->window + t) * width + at];
        }
}

static void gather_queries(const struct head_work *w, const struct kv_clip_layer *y, uint32_t head)
{
    const struct kv_clip *c = w->c;
    uint32_t each = c->m->n_head / w->heads;
    bool scaled = c->m->parts & TFT_BIT(TFT_PART_ATTN_SCALE);
    float *to = w->q, divisor = scaled ? 1 / c->m->attn_scale : sqrtf((float)w->dim);
    for (uint32_t n = 0; n < c->windows * KV_CLIP_QUERIES; n++)
        for (uint32_t h = head * each; h < (head + 1) * each; h++, to += w->dim)
            for (uint32_t i = 0; i < w->dim; i++)
                to[i] =
                    c->q[((size_t)n * c->m->n_head + h) * w->dim + channel(y, 0, head, w->dim, i)] /
                    divisor;
}

/* Number of tokens that query row r of a window attends to. */
static uint32_t seen(const struct head_work *w, uint32_t r)
{
    return w->c->n_prefix + query_token(w->c, r / (w->rows / KV_CLIP_QUERIES)) + 1;
}

/* p: [T] = the probabilities of query row r of window n with keys k: [E, T] */
static void attend(const struct head_work *w, uint32_t n, uint32_t r, const float *k, float *p)
{
    const float *q = w->q + ((size_t)n * w->rows + r) * w->dim;
    uint32_t tokens = seen(w, r);
    float most = -INFINITY, sum = 0;
    memset(p, 0, w->padded * sizeof *p);
    for (uint32_t d = 0; d < w->dim; d++, k += w->padded)
        for (uint32_t t = 0; t < tokens; t++)
            p[t] += q[d] * k[t];
    if (w->c->m->score_cap > 0)
        w->c->m->kern.softcap(p, tokens, w->c->m->score_cap, 1 / w->c->m->score_cap);
    for (uint32_t t = 0; t < tokens; t++)
        most = fmaxf(most, p[t]);
    for (uint32_t t = 0; t < tokens; t++)
        sum += p[t] = tft_expf(p[t] - most);
    for (uint32_t t = 0; t < tokens; t++)
        p[t] /= sum;
}

/* o: [E] = p V, v: [T, E] */
static void mix(const struct head_work *w, const float *p, uint32_t tokens, const float *v,
                float *o)
{
    memset(o, 0, w->dim * sizeof *o);
    for (uint32_t t = 0; t < tokens; t++, v += w->dim)
        for (uint32_t d = 0; d < w->dim; d++)
            o[d] += p[t] * v[d];
}

/* Transposes x: [E, T] of a window to [T, E]. */
static const float *by_token(const struct head_work *w, const float *x)
{
    for (uint32_t t = 0; t < w->padded; t++)
        for (uint32_t d = 0; d < w->dim; d++)
            w->by_token[t * w->dim + d] = x[d * w->padded + t];
    return w->by_token;
}

/* y = the numbers that codes of `levels` levels stand for, of channels first .. first + n - 1 of a
   window; x, y: [E, T]. Prefix and sinks stay exact. */
static void round_to_codes(const struct head_work *w, const float *x, float *y, uint32_t first,
                           uint32_t n, unsigned levels, float alpha)
{
    struct tft_fit how = {.clip = {&alpha, &alpha, &alpha}, .n_clip = 1, .to_zero = true};
    float half[TFT_PANEL], scale[TFT_PANEL], mid[TFT_PANEL];
    uint32_t exact = w->c->n_prefix + w->c->policy->sinks;
    for (int i = 0; i < TFT_PANEL; i++)
        half[i] = (float)(levels - 1) / 2;
    x += (size_t)first * w->padded;
    y += (size_t)first * w->padded;
    for (uint32_t t = 0; t < w->padded; t += TFT_PANEL) {
        w->c->m->kern.fit(&(struct tft_fit_groups){w->code, TFT_PANEL, scale, mid, x + t, w->padded,
                                                   n, half},
                          &how);
        for (uint32_t d = 0; d < n; d++)
            for (uint32_t i = 0; i < TFT_PANEL; i++) {
                float coded = ((float)w->code[d * TFT_PANEL + i] - half[i]) * scale[i] + mid[i];
                y[d * w->padded + t + i] = t + i < exact ? x[d * w->padded + t + i] : coded;
            }
    }
}

/* |O^q - O|^2 over all windows, O^q with keys `coded` and exact values. If `exact`: fills w->o with
   O and returns 0. */
static double keys_error(const struct head_work *w, bool exact)
{
    double sum = 0;
    float o[TFT_CODED_DIM];
    for (uint32_t n = 0; n < w->c->windows; n++) {
        const float *v = by_token(w, w->v + (size_t)n * w->dim * w->padded),
                    *k = exact ? w->k : w->coded;
        for (uint32_t r = 0; r < w->rows; r++) {
            float *want = w->o + ((size_t)n * w->rows + r) * w->dim;
            attend(w, n, r, k + (size_t)n * w->dim * w->padded, w->scores);
            mix(w, w->scores, seen(w, r), v, exact ? want : o);
            for (uint32_t d = 0; !exact && d < w->dim; d++)
                sum += ((double)o[d] - (double)want[d]) * ((double)o[d] - (double)want[d]);
        }
    }
    return sum;
}

/* |O^q - O|^2 of channels first .. first + n - 1, with values `coded` and the probabilities w->p of
   the coded keys. */
static double values_error(const struct head_work *w, uint32_t first, uint32_t n)
{
    double sum = 0;
    float o[TFT_CODED_DIM];
    for (uint32_t i = 0; i < w->c->windows; i++) {
        const float *v = by_token(w, w->coded + (size_t)i * w->dim * w->padded);
        for (uint32_t r = 0; r < w->rows; r++) {
            size_t at = (size_t)i * w->rows + r;
            mix(w, w->p + at * w->padded, seen(w, r), v, o);
            for (uint32_t d = first; d < first + n; d++)
                sum += ((double)o[d] - (double)w->o[at * w->dim + d]) *
                       ((double)o[d] - (double)w->o[at * w->dim + d]);
        }
    }
    return sum;
}

/* round_to_codes for a group of channels in all windows. */
static void round_group(const struct head_work *w, const float *x, uint32_t first, uint32_t n,
                        unsigned levels, float alpha)
{
    for (uint32_t i = 0; i < w->c->windows; i++)
        round_to_codes(w, x + (size_t)i * w->dim * w->padded,
                       w->coded + (size_t)i * w->dim * w->padded, first, n, levels, alpha);
}

/* alpha: [groups] = the best alpha of each group of the keys (side 0) or values (side 1). */
static void choose_side(const struct head_work *w, int side, unsigned bits, float *alpha)
{
    const float *x = side ? w->v : w->k;
    unsigned levels = bits == TFT_KV_BITS_F16 ? 0 : tft_bits_levels((enum tft_bits)bits);
    memcpy(w->coded, x, (size_t)w->c->windows * w->dim * w->padded * sizeof *x);
    for (uint32_t d = 0, g = 0; d < w->dim; d += w->group, g++) {
        alpha[g] = 1;
        if (levels)
            round_group(w, x, d, w->dim - d < w->group ? w->dim - d : w->group, levels, 1);
    }
    for (uint32_t d = 0, g = 0; levels && d < w->dim; d += w->group, g++) {
        uint32_t n = w->dim - d < w->group ? w->dim - d : w->group;
        double least = INFINITY;
        for (int i = 0; i < n_alphas(levels); i++) {
            round_group(w, x, d, n, levels, alphas[i]);
            double error = side ? values_error(w, d, n) : keys_error(w, false);
            if (error < least) {
                least = error;
                alpha[g] = alphas[i];
            }
        }
        round_group(w, x, d, n, levels, alpha[g]);
    }
}

static void choose_head(const struct head_work *w, const struct kv_clip_layer *y, uint32_t head)
{
    const struct tft_kv_policy *policy = w->c->policy;
    uint32_t groups = (w->dim + w->group - 1) / w->group;
    for (int side = 0; side < 2; side++)
        gather_side(w, y, side, head);
    gather_queries(w, y, head);
    keys_error(w, true);
    choose_side(w, 0, tft_kv_held(&policy->k, y->layer), y->alpha[0] + head * groups);
    for (uint32_t n = 0; n < w->c->windows; n++)
        for (uint32_t r = 0; r < w->rows; r++)
            attend(w, n, r, w->coded + (size_t)n * w->dim * w->padded,
                   w->p + ((size_t)n * w->rows + r) * w->padded);
    choose_side(w, 1, tft_kv_held(&policy->v, y->layer), y->alpha[1] + head * groups);
}

struct finish_task {
    const struct kv_clip *c;
    const struct kv_clip_layer *y;
};

static void finish(void *arg, int tid, int n_threads)
{
    const struct finish_task *j = arg;
    struct head_work w = work_of(j->c, j->y->layer, tid);
    for (uint32_t head = (uint32_t)tid; head < w.heads; head += (uint32_t)n_threads)
        choose_head(&w, j->y, head);
}

void kv_clip_finish(const struct kv_clip *c, const struct kv_clip_layer *y)
{
    tft_port_team(c->n_threads, finish, &(struct finish_task){c, y});
}
