/*
 * The frequencies of RoPE (Su et al. 2021, eq. 34), and their scalings. Pair i of n_rot / 2 has the
 * frequency base^(-2i / n_rot), and a file may have:
 *
 *   rope.scaling.type   "linear", also if there is none: all divided by rope.scaling.factor, which
 *                       older files call rope.scale_linear (Chen et al. 2023, 2.3)
 *                       "yarn":   YaRN (Peng et al. 2023, section 3), see yarn() below
 *                       "none", "llama3", "longrope": nothing but the divisors that follow
 *   rope_freqs.weight   a divisor for each pair: llama3's scaling, computed by the converter
 *   rope_factors_long.weight, rope_factors_short.weight
 *                       divisors for sessions longer than the model's first training,
 *                       rope.scaling.original_context_length, and for all others (LongRoPE:
 *                       Ding et al. 2024, section 3)
 *   rope.scaling.attn_factor
 *                       multiplies all cosines and sines, beside YaRN's factor, or
 *                       instead of it
 */
#include "model/load.h"

#include <math.h>
#include <string.h>

#include "base/rope.h"

/* ------------------------------------------------------------------------------------- scalings */

struct scaling {
    double divisor;   /* of frequencies */
    double amplitude; /* of cosines and sines */
    double low, high; /* YaRN: pairs up to `low` are not divided, pairs from `high` on are, and
                         pairs in between in part. All are divided: both are below 0 */
};

/* The pair that turns `turns` times within n_ctx positions, as a fraction: eq. 17 solved for i. */
static double pair_of(double turns, uint32_t n_ctx, uint32_t n_rot, double base)
{
    const double TWO_PI = 6.283185307179586;
    return n_rot * tft_rope_log(n_ctx / (turns * TWO_PI)) / (2 * tft_rope_log(base));
}

/*
 * Pairs that turn more often than beta_fast times within the original context keep their frequency;
 * pairs that turn less often than beta_slow times are divided by the factor; in between, a ramp
 * over i (section 3.2). Cosines and sines are multiplied by 0.1 ln(factor) + 1, eq. 22, divided by
 * the same with yarn_log_multiplier before ln where a file has that.
 */
static void yarn(struct tft_load *ld, struct scaling *s, double base, bool whole_factor)
{
    const struct tft_model *m = ld->m;
    double fast = (double)tft_load_real(ld, "rope.scaling.yarn_beta_fast", 32),
           slow = (double)tft_load_real(ld, "rope.scaling.yarn_beta_slow", 1),
           log_multiplier = (double)tft_load_factor(ld, "rope.scaling.yarn_log_multiplier", 0);
    uint32_t n_ctx = tft_load_dim(ld, "rope.scaling.original_context_length", m->n_ctx, INT32_MAX);
    if (tft_load_has(ld, "rope.scaling.yarn_ext_factor") &&
        (double)tft_load_real(ld, "rope.scaling.yarn_ext_factor", 1) != 1.0)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a rope.scaling.yarn_ext_factor other than 1 is not supported");
    double growth = s->divisor > 1 ? 0.1 * tft_rope_log(s->divisor) : 0;
    if (!whole_factor || !tft_load_has(ld, "rope.scaling.attn_factor"))
        s->amplitude *= (1 + growth) / (1 + growth * log_multiplier);
    s->low = fmax(0, floor(pair_of(fast, n_ctx, m->n_rot, base)));
    s->high = fmin(fmax(0, ceil(pair_of(slow, n_ctx, m->n_rot, base))), m->n_rot - 1.0);
}

/* Older files have it under another name. 0 is no factor. */
static bool has_factor(const struct tft_load *ld)
{
    return tft_load_has(ld, "rope.scaling.factor") || tft_load_has(ld, "rope.scale_linear");
}

static float factor(struct tft_load *ld)
{
    return tft_load_factor(ld, "rope.scaling.factor",
                           tft_load_factor(ld, "rope.scale_linear", 1));
}

/* rope.scaling.type; "linear" if the file has none. */
static struct tft_str scaling_type(struct tft_load *ld)
{
    static const char *const types[] = {"none", "linear", "yarn", "llama3", "longrope"};
    char full[96];
    struct tft_str name = {0};
    const struct tft_value *v = tft_load_value(ld, "rope.scaling.type", full);
    if (!v)
        return (struct tft_str){types[1], strlen(types[1])};
    tft_value_str(v, &name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (tft_str_is(name, types[i]))
            return name;
    if (ld->status == TFT_OK)
        ld->status = tft_fail_at(ld->err, TFT_ERR_UNSUPPORTED, ld->s->name, v->offset,
                                 "%s \"%.*s\" is not supported", full,
                                 name.n < 30 ? (int)name.n : 30, name.p ? name.p : "");
    return name;
}

static struct scaling scaling(struct tft_load *ld, double base, bool whole_factor)
{
    struct scaling s = {.divisor = 1, .low = -1, .high = -1};
    struct tft_str type = scaling_type(ld);
    bool divided = tft_str_is(type, "linear") || tft_str_is(type, "yarn");
    s.amplitude = (double)tft_load_real(ld, "rope.scaling.attn_factor", 1);
    if (tft_str_is(type, "none"))
        return s;
    if (tft_load_has(ld, "rope.scaling.type") && divided && !has_factor(ld))
        tft_load_real(ld, "rope.scaling.factor", 0); /* it is missing */
    s.divisor = (double)factor(ld);
    if (!divided && s.divisor != 1)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "a rope.scaling.factor of RoPE \"%.*s\" is not supported",
                      TFT_STR_ARG(type));
    if (tft_str_is(type, "yarn"))
        yarn(ld, &s, base, whole_factor);
    return s;
}

/* The divisor of pair i. */
static double divisor_of(const struct scaling *s, uint32_t i)
{
    if (s->high < 0)
        return s->divisor;
    double ramp = ((double)i - s->low) / fmax(0.001, s->high - s->low);
    ramp = fmin(fmax(ramp, 0), 1); /* the share of the divided frequency */
    return 1 / (ramp / s->divisor + (1 - ramp));
}

/* ---------------------------------------------------------------------------------- frequencies */

static const float *divisors(struct tft_load *ld, const char *name)
{
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    if (t && t->type != TFT_F32)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "the tensor %s is not f32", name);
    return t ? tft_load_table(ld, name, 1, ld->m->n_rot / 2).data : NULL;
}

/* The frequencies of all pairs; `by`: [n_rot / 2] divisors, or NULL. */
static const double *frequencies(struct tft_load *ld, uint32_t n_rot, double base,
                                 const struct scaling *s, const float *by)
{
    const struct tft_model *m = ld->m;
    uint32_t n = n_rot / 2;
    double *freq = tft_arena_take(&ld->arena, n, sizeof *freq);
    if (!freq || ld->status != TFT_OK)
        return freq;
    tft_rope_freqs(freq, n_rot, base);
    for (uint32_t i = 0; i < n; i++) {
        freq[i] /= divisor_of(s, i) * (by ? (double)by[i] : 1.0);
        if (!(freq[i] > 0 && freq[i] * m->n_ctx < TFT_ROPE_MAX))
            tft_load_fail(ld, TFT_ERR_FORMAT, "RoPE frequency %u is out of range: %g", i, freq[i]);
    }
    return freq;
}

static double base_of(struct tft_load *ld, const char *key, float def)
{
    double base = (double)tft_load_real(ld, key, def);
    if (base <= 1)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is %g and should be above 1", key, base);
    return ld->status == TFT_OK ? base : 10000;
}

/* How many of the `dim` numbers of a head are rotated: the key's value, or `def`. */
static uint32_t rotated(struct tft_load *ld, const char *key, uint32_t def, uint32_t dim)
{
    uint32_t n = tft_load_dim(ld, key, def, dim);
    if (n % 2 && ld->status == TFT_OK)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is %u and should be even", key, n);
    return n;
}

void tft_load_rope(struct tft_load *ld, bool halves, bool whole_factor)
{
    struct tft_model *m = ld->m;
    m->rope_halves = halves;
    m->n_rot = rotated(ld, "rope.dimension_count", m->head_dim, m->head_dim);
    double base = base_of(ld, "rope.freq_base", 10000);
    struct scaling s = scaling(ld, base, whole_factor);
    m->rope_amplitude = (float)s.amplitude;

    const float *by = divisors(ld, "rope_freqs.weight"),
                *by_short = divisors(ld, "rope_factors_short.weight"),
                *by_long = divisors(ld, "rope_factors_long.weight");
    bool has_short = tft_source_tensor(ld->s, "rope_factors_short.weight"),
         has_long = tft_source_tensor(ld->s, "rope_factors_long.weight");
    if (has_short != has_long)
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor rope_factors_%s.weight is missing",
                      has_short ? "long" : "short");
    m->rope_freq = frequencies(ld, m->n_rot, base, &s, by ? by : by_short);
    m->rope_freq_long = has_long ? frequencies(ld, m->n_rot, base, &s, by ? by : by_long) : NULL;
    m->rope_original_ctx =
        has_long ? tft_load_dim(ld, "rope.scaling.original_context_length", m->n_ctx, INT32_MAX)
                 : 0;
}

void tft_load_rope_window(struct tft_load *ld, float def, uint32_t dim)
{
    const struct scaling none = {.divisor = 1, .low = -1, .high = -1};
    struct tft_model *m = ld->m;
    float base = def > 0 ? def : (float)base_of(ld, "rope.freq_base", 10000);
    uint32_t n = m->n_rot < dim ? m->n_rot : dim;
    m->n_rot_window = rotated(ld, "rope.dimension_count_swa", n, dim);
    m->rope_freq_window =
        frequencies(ld, m->n_rot_window, base_of(ld, "rope.freq_base_swa", base), &none, NULL);
}
