#include "choose.h"

#include <float.h>
#include <math.h>

#include "base/exp_log.h"
#include "base/splitmix64.h"
#include "simd/expf.h"

#define LN_2 0.693147180559945309417

/* The tokens that are left, which are neighbours in rank. */
struct choice {
    struct tft_sampler *z;
    const struct tft_sampler_more *o;
    struct tft_likely *l;
    const struct tft_known *known;
    float temperature, inverse;
    size_t first, end; /* ranks; the vocabulary may have fewer */
    bool counted;      /* it has as many as `end` says */
    double sum;        /* of their weights */
};

/* A random number in [0, 1). */
static double draw(uint64_t *state) { return (double)(tft_splitmix64(state) >> 11) * 0x1p-53; }

float tft_inverse(float temperature)
{
    return 1 / temperature < FLT_MAX ? 1 / temperature : FLT_MAX;
}

float tft_weight(float logit, float best, float inverse)
{
    if (logit == best)
        return 1;
    float w = tft_expf((logit - best) * inverse);
    return w > 0 ? w : 0;
}

double tft_sum_of_weights(const struct tft_likely *l, float inverse)
{
    if (!isinf(l->best))
        return l->kern->sum_exp(l->logits, l->n, l->best, inverse);
    size_t n = 0; /* all others have the weight 0 */
    for (size_t i = 0; i < l->n; i++)
        n += l->logits[i] == l->best;
    return (double)n;
}

static float weight(const struct choice *c, size_t rank)
{
    return tft_weight(c->l->c[rank].logit, c->l->best, c->inverse);
}

static bool has(const struct choice *c, size_t rank)
{
    return rank < c->end && tft_likely_has(c->l, rank);
}

/* ------------------------------------------------------------------- steps 4 to 7: rank, weight */

double tft_deviation(const float *x, size_t n)
{
    double sum = 0, squares = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            sum += (double)x[i];
            finite++;
        }
    double mean = finite ? sum / (double)finite : 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return finite ? sqrt(squares / (double)finite) : 0;
}

/* Counts the tokens that top_k and top_n_sigma keep. */
static void count(struct choice *c, double deviation)
{
    float least = -INFINITY;
    size_t n = 1;
    if (c->o->top_n_sigma > 0)
        least = (float)((double)c->l->best - (double)c->o->top_n_sigma * deviation);
    if (least > c->l->floor)
        c->l->floor = least;
    while (has(c, n) && c->l->c[n].logit >= least)
        n++;
    c->end = n;
    c->counted = true;
}

/* Sums over the weights of tokens. */
struct spread {
    double sum, dot; /* of the weights; of the weights times their logarithms */
    size_t n;
};

static void add(struct spread *s, float logit, float best, float inverse)
{
    double ln = logit == best ? 0 : (double)((logit - best) * inverse);
    s->n += logit > -INFINITY;
    if (!(ln > -700)) /* NaN, or a weight of about 0 */
        return;
    double w = tft_exp(ln);
    s->sum += w;
    s->dot += w * ln;
}

/* The entropy of the tokens that are left, all from the first rank; *n: their number. In order of
   rank if they are counted, otherwise in order of id. */
static double entropy(const struct choice *c, float inverse, size_t *n)
{
    struct spread s = {0};
    for (size_t i = 0; i < c->end; i++)
        add(&s, c->counted ? c->l->c[i].logit : c->l->logits[i], c->l->best, inverse);
    *n = s.n;
    return tft_log(s.sum) - s.dot / s.sum;
}

/* Dynamic temperature. */
static void set_temperature(struct choice *c)
{
    float range = c->o->dynatemp_range;
    c->temperature = c->z->temperature;
    if (range > 0) {
        size_t n;
        double h = entropy(c, 1, &n), power = (double)c->o->dynatemp_exponent;
        double low = c->temperature > range ? (double)(c->temperature - range) : 0,
               high = (double)(c->temperature + range);
        h = n > 1 ? h / tft_log((double)n) : 0;
        h = h > 0 ? tft_pow(h < 1 ? h : 1, power > 0 ? power : 1) : 0;
        c->temperature = (float)(low + (high - low) * h);
    }
    c->inverse = tft_inverse(c->temperature);
}

static void sum_up(struct choice *c)
{
    c->sum = 0;
    if (!c->counted)
        c->sum = tft_sum_of_weights(c->l, c->inverse) + c->known->rest;
    for (size_t i = 0; c->counted && i < c->end; i++)
        c->sum += (double)weight(c, i);
}

/* ------------------------------------------------------------------------------ step 8: typical */

/* A token's surprise less the entropy. rest: ln of the sum of weights, less the entropy. */
static double above(const struct choice *c, double rest, size_t rank)
{
    float logit = c->l->c[rank].logit, best = c->l->best;
    return rest - (logit == best ? 0 : (double)((logit - best) * c->inverse));
}

/* A token's surprise grows with its rank, so the tokens nearest to the entropy are neighbours. If
   the surprises of all tokens are equal but for rounding, the first tokens stay. */
static void keep_typical(struct choice *c)
{
    static const double rounding = 1e-5;
    size_t n, first = 0, end;
    double rest = tft_log(c->sum) - entropy(c, c->inverse, &n),
           enough = (double)c->o->typical_p * c->sum;
    while (has(c, first) && weight(c, first) > 0 && above(c, rest, first) < -rounding)
        first++;
    end = first;
    c->sum = 0;
    do {
        bool more = has(c, end) && weight(c, end) > 0;
        if (!first && !more)
            break;
        bool earlier = first && (!more || -above(c, rest, first - 1) <= above(c, rest, end));
        c->sum += (double)weight(c, earlier ? --first : end++);
    } while (c->sum < enough);
    c->first = first;
    c->end = end;
    c->counted = true;
}

/* ---------------------------------------------------------------------- step 9: top-p and min-p */

/* Keeps the tokens that top-p and min-p keep. Returns false if they depend on logits that are not
   known, or if an error of known->rest could change them. */
static bool keep_likeliest(struct choice *c)
{
    double enough = tft_has_top_p(c->z) ? (double)c->z->top_p * c->sum : INFINITY,
           doubt = c->known->n < c->end && tft_has_top_p(c->z) ? 1e-4 * enough : 0;
    float top = weight(c, c->first), least = c->z->min_p * top;
    size_t n = c->first + 1;
    for (c->sum = (double)top; c->sum < enough + doubt && has(c, n); n++) {
        if (n == c->known->n || c->sum > enough - doubt)
            return false;
        float w = weight(c, n);
        if (!(w >= least))
            break;
        c->sum += (double)w;
    }
    c->end = n;
    return true;
}

/* --------------------------------------------------------------------------------- step 10: XTC */

static void drop_top_choices(struct choice *c)
{
    float threshold = c->o->xtc_threshold > 0 ? c->o->xtc_threshold : 0.1f;
    double least = (double)threshold * c->sum;
    if (!(draw(&c->z->seed) < (double)c->o->xtc_probability) || threshold > 0.5f)
        return;
    while (has(c, c->first + 1) && (double)weight(c, c->first + 1) >= least)
        c->sum -= (double)weight(c, c->first++);
}

/* ---------------------------------------------------------------------------- step 11: the draw */

/* Returns the rank of the token. */
static size_t draw_rank(const struct choice *c)
{
    double u = draw(&c->z->seed) * c->sum - (double)weight(c, c->first);
    size_t i = c->first;
    for (; u >= 0 && has(c, i + 1); i++) {
        float w = weight(c, i + 1);
        if (!(w > 0)) /* rounding has left some of u */
            break;
        u -= (double)w;
    }
    return i;
}

/* ------------------------------------------------------------------------------------- mirostat */

static size_t mirostat(struct choice *c)
{
    struct tft_sampler *z = c->z;
    double tau = (double)c->o->mirostat_tau, eta = (double)c->o->mirostat_eta, all = c->sum;
    double mu = z->mirostat_mu != 0 && !isnan(z->mirostat_mu) ? (double)z->mirostat_mu : 2 * tau;
    double least = all * tft_exp(-mu * LN_2);
    size_t n = 1;
    for (c->sum = 1; has(c, n) && weight(c, n) > 0 && (double)weight(c, n) >= least; n++)
        c->sum += (double)weight(c, n);
    c->end = n;
    size_t rank = draw_rank(c);
    double bits = tft_log(all / (double)weight(c, rank)) / LN_2;
    mu = (double)(float)(mu - (eta > 0 ? eta : 0.1) * (bits - tau));
    z->mirostat_mu = mu != 0 ? (float)mu : FLT_MIN; /* 0 stands for the beginning */
    return rank;
}

/* ---------------------------------------------------------------------------------------- chain */

static bool has_typical(const struct tft_sampler_more *o)
{
    return o->typical_p > 0 && o->typical_p < 1;
}

/* min_p alone needs no sum. */
static bool needs_sum(const struct choice *c)
{
    return c->counted || tft_has_top_p(c->z) || !(c->z->min_p > 0) || has_typical(c->o);
}

int32_t tft_choose(struct tft_sampler *z, const struct tft_sampler_more *o, struct tft_likely *l,
                   double deviation, const struct tft_known *known)
{
    bool ranked = !(o->mirostat_tau > 0), min_p = z->min_p > 0;
    struct choice c = {.z = z, .o = o, .l = l, .known = known, .end = l->n};
    if (ranked && z->top_k > 0 && (size_t)z->top_k < l->n)
        c.end = (size_t)z->top_k;
    if (ranked && (c.end < l->n || o->top_n_sigma > 0))
        count(&c, deviation);
    set_temperature(&c);
    if (!ranked || needs_sum(&c))
        sum_up(&c);
    if (!ranked)
        return l->c[mirostat(&c)].id;
    if (has_typical(o))
        keep_typical(&c);
    if (min_p && !c.first && !c.counted) /* 0.01: more than tft_expf can be wrong by */
        l->floor = l->best + c.temperature * (float)(tft_log((double)z->min_p) - 0.01);
    if ((tft_has_top_p(z) || min_p) && !keep_likeliest(&c))
        return TFT_UNDECIDED;
    if (o->xtc_probability > 0)
        drop_top_choices(&c);
    return l->c[draw_rank(&c)].id;
}
