#include "policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The presets: a name, and its knobs. docs/cache.md has the papers. */
static const struct {
    const char *name, *knobs;
} presets[] = {
    /* round to nearest, by token, no window */
    {"rtn", "bits=2,group=32,k=@token,v=@token,retain=fill:32"},
    {"kivi", "bits=2,group=32,k=@channel,v=@token,retain=fill:128"},
    /* Section 4: W is a third of the 128 tokens that KIVI keeps. In the variant W is a half of 128:
       the keys keep up to 3 W, the values W. */
    {"logquant", "bits=2,group=64,k=@channel,v=@token,retain=log2:42"},
    {"partial-logquant", "bits=2,group=64,k=@channel,v=@token,kr=log2:64,vr=window:64"},
    {"asymkv", "high=2,low=1,lk=16,lv=0,group=32,k=@channel,v=@token,retain=fill:128"},
    /* Groups of 32 as in table 3. The paper's groups take channels of all heads, ours of one
       head. */
    {"skvq", "bits=2,group=32,k=@token,v=@token,retain=window:128,sinks=5,scales=f8,"
             "reorder=calibrated,clip=calibrated"},
    {"tuffet",
     "k=2@mixed,v=2@token,group=64,retain=window:128,clip=centre,sinks=4,keep=12"},
    {"fisher", "k=1.5@fisher,v=1.5@fisher,retain=window:64,sinks=4,keep=12,slots=i8"},
};

/* ---- parsing values */

/* A piece of a policy's text. */
struct piece {
    const char *s;
    size_t n;
};

static bool is(struct piece a, const char *b)
{
    return strlen(b) == a.n && memcmp(a.s, b, a.n) == 0;
}

/* The part of `a` before the first c; *rest is the part after c, with s NULL if `a` has no c. */
static struct piece cut(struct piece a, char c, struct piece *rest)
{
    const char *at = a.n ? memchr(a.s, c, a.n) : NULL;
    *rest = at ? (struct piece){at + 1, a.n - (size_t)(at - a.s) - 1} : (struct piece){0};
    return at ? (struct piece){a.s, (size_t)(at - a.s)} : a;
}

/* A decimal number with at most seven digits before the point and six after the point. */
static bool number(struct piece a, double *x)
{
    struct piece fraction, whole = cut(a, '.', &fraction);
    double unit = 1, sum = 0;
    if (!whole.n || whole.n > 7 || fraction.n > 6 || (fraction.s && !fraction.n))
        return false;
    for (size_t i = 0; i < whole.n; i++) {
        if (whole.s[i] < '0' || whole.s[i] > '9')
            return false;
        sum = sum * 10 + (whole.s[i] - '0');
    }
    for (size_t i = 0; i < fraction.n; i++) {
        if (fraction.s[i] < '0' || fraction.s[i] > '9')
            return false;
        sum += (fraction.s[i] - '0') * (unit /= 10);
    }
    *x = sum;
    return true;
}

static bool count(struct piece a, uint32_t most, uint32_t *n)
{
    double x;
    if (!number(a, &x) || memchr(a.s, '.', a.n) || x > most)
        return false;
    *n = (uint32_t)x;
    return true;
}

static bool one_of(struct piece a, const char *const *names, unsigned n, unsigned *which)
{
    for (unsigned i = 0; i < n; i++)
        if (is(a, names[i])) {
            *which = i;
            return true;
        }
    return false;
}

/* Bits of a number by enum tft_bits, then by TFT_KV_BITS_F16. */
static const float numbers_of_bits[] = {1, 1.5f, 2, 3, 4, 8, 16};
_Static_assert(sizeof numbers_of_bits / sizeof *numbers_of_bits == TFT_KV_BITS_F16 + 1,
               "one number of bits for each way to hold a code, and one for f16");
enum { N_BITS = sizeof numbers_of_bits / sizeof *numbers_of_bits };

/* The index of `bits` in numbers_of_bits; N_BITS if absent. */
static unsigned held_as(float bits)
{
    unsigned i = 0;
    while (i < N_BITS && numbers_of_bits[i] != bits)
        i++;
    return i;
}

unsigned tft_kv_held(const struct tft_kv_side *s, uint32_t layer)
{
    float bits = tft_kv_bits(s, layer);
    if (s->axis == TFT_KV_FISHER)
        return TFT_BITS_4;
    return s->axis == TFT_KV_MIXED && bits != 16 ? (unsigned)TFT_BITS_4 : held_as(bits);
}

static bool can_have(enum tft_kv_axis axis, float bits)
{
    if (axis == TFT_KV_FISHER)
        return bits >= 0.25f && bits <= 4;
    return axis == TFT_KV_MIXED ? (bits >= 1 && bits <= 4) || bits == 16 : held_as(bits) < N_BITS;
}

static bool bits_of(struct piece a, enum tft_kv_axis axis, float *bits)
{
    double x;
    if (!number(a, &x) || !can_have(axis, (float)x))
        return false;
    *bits = (float)x;
    return true;
}

/* ---- knobs: each function returns false if the value is invalid */

/* "3x4/2": 3 bits in 4 layers, 2 bits in all others. */
static bool set_runs(struct tft_kv_side *s, struct piece a)
{
    struct piece rest;
    for (int i = 0; i < TFT_KV_RUNS; i++, a = rest) {
        struct piece layers, bits = cut(cut(a, '/', &rest), 'x', &layers);
        s->run[i].layers = TFT_KV_REST;
        if (!bits_of(bits, s->axis, &s->run[i].bits) || !layers.s != !rest.s ||
            (layers.s && !count(layers, 1 << 15, &s->run[i].layers)))
            return false;
        if (!rest.s)
            return true;
    }
    return false;
}

static bool set_side(struct tft_kv_side *s, struct piece a)
{
    static const char *const axes[] = {"channel", "token", "mixed", "fisher"};
    struct piece axis, bits = cut(a, '@', &axis);
    unsigned which = s->axis;
    if (axis.s && !one_of(axis, axes, 4, &which))
        return false;
    s->axis = (enum tft_kv_axis)which;
    return bits.n ? set_runs(s, bits) : axis.s != NULL;
}

/* AsymKV's lk and lv: run 0 is the first layers, run 1 all others. */
static bool set_layers(struct tft_kv_side *s, struct piece a)
{
    s->run[1].layers = TFT_KV_REST;
    return count(a, 1 << 15, &s->run[0].layers);
}

static bool set_bits_of_run(struct tft_kv_policy *p, int run, struct piece a)
{
    return bits_of(a, TFT_KV_CHANNEL, &p->k.run[run].bits) &&
           bits_of(a, TFT_KV_TOKEN, &p->v.run[run].bits);
}

static bool set_bits(struct tft_kv_policy *p, struct piece a)
{
    return set_side(&p->k, a) && set_side(&p->v, a);
}

static bool set_rule(struct tft_kv_side *s, struct piece a)
{
    static const char *const kinds[] = {"fill", "window", "log2"};
    struct piece n, kind = cut(a, ':', &n);
    unsigned which;
    if (!one_of(kind, kinds, 3, &which) || !n.s || !count(n, 1 << 15, &s->window))
        return false;
    s->retain = (enum tft_kv_retain)which;
    return true;
}

static bool set_retain(struct tft_kv_policy *p, struct piece a)
{
    return set_rule(&p->k, a) && set_rule(&p->v, a);
}

static bool set_window(struct tft_kv_policy *p, struct piece a)
{
    return count(a, 1 << 15, &p->k.window) && count(a, 1 << 15, &p->v.window);
}

static bool set_group(struct tft_kv_policy *p, struct piece a)
{
    return count(a, 256, &p->group) && p->group >= 16 && !(p->group & (p->group - 1));
}

static bool set_scales(struct tft_kv_policy *p, struct piece a)
{
    p->f8 = is(a, "f8");
    return p->f8 || is(a, "f16");
}

static bool set_slots(struct tft_kv_policy *p, struct piece a)
{
    p->i8 = is(a, "i8");
    return p->i8 || is(a, "f16");
}

static bool set_clip(struct tft_kv_policy *p, struct piece a)
{
    static const char *const names[] = {"none", "centre", "zero", "calibrated"};
    unsigned which;
    if (!one_of(a, names, 4, &which))
        return false;
    p->clip = (enum tft_kv_clip)which;
    return true;
}

static bool set_reorder(struct tft_kv_policy *p, struct piece a)
{
    p->reorder = is(a, "calibrated");
    return p->reorder || is(a, "none");
}

static bool set_k(struct tft_kv_policy *p, struct piece a) { return set_side(&p->k, a); }
static bool set_v(struct tft_kv_policy *p, struct piece a) { return set_side(&p->v, a); }
static bool set_high(struct tft_kv_policy *p, struct piece a) { return set_bits_of_run(p, 0, a); }
static bool set_low(struct tft_kv_policy *p, struct piece a) { return set_bits_of_run(p, 1, a); }
static bool set_lk(struct tft_kv_policy *p, struct piece a) { return set_layers(&p->k, a); }
static bool set_lv(struct tft_kv_policy *p, struct piece a) { return set_layers(&p->v, a); }
static bool set_kr(struct tft_kv_policy *p, struct piece a) { return set_rule(&p->k, a); }
static bool set_vr(struct tft_kv_policy *p, struct piece a) { return set_rule(&p->v, a); }
static bool set_sinks(struct tft_kv_policy *p, struct piece a)
{
    p->names_sinks = true;
    return count(a, 1 << 15, &p->sinks);
}
static bool set_prefill(struct tft_kv_policy *p, struct piece a)
{
    if (is(a, "prompt")) {
        p->prefill = TFT_KV_PROMPT;
        return true;
    }
    return count(a, 1 << 20, &p->prefill);
}
static bool set_keep(struct tft_kv_policy *p, struct piece a)
{
    return count(a, 1 << 15, &p->keep);
}

static const struct {
    const char *name;
    bool (*set)(struct tft_kv_policy *p, struct piece value);
    const char *takes;
} knobs[] = {
    {"k", set_k,
     "1, 1.5, 2, 3, 4, 8 or 16, @channel or @token, or 1..4@mixed, or such by layer, 3x4/2, "
     "or 0.25..4@fisher"},
    {"v", set_v,
     "1, 1.5, 2, 3, 4, 8 or 16, @channel or @token, or such by layer, 3x4/2, or 0.25..4@fisher"},
    {"bits", set_bits,
     "1, 1.5, 2, 3, 4, 8 or 16, or such by layer, 3x4/2, or 0.25..4 with @fisher"},
    {"high", set_high, "1, 1.5, 2, 3, 4, 8 or 16"},
    {"low", set_low, "1, 1.5, 2, 3, 4, 8 or 16"},
    {"lk", set_lk, "a number of layers"},
    {"lv", set_lv, "a number of layers"},
    {"group", set_group, "16, 32, 64, 128 or 256"},
    {"retain", set_retain, "fill:N, window:N or log2:N"},
    {"kr", set_kr, "fill:N, window:N or log2:N"},
    {"vr", set_vr, "fill:N, window:N or log2:N"},
    {"residual", set_window, "a number of tokens"},
    {"window", set_window, "a number of tokens"},
    {"sinks", set_sinks, "a number of tokens"},
    {"prefill", set_prefill, "a number of tokens or prompt"},
    {"keep", set_keep, "a number of tokens"},
    {"slots", set_slots, "f16 or i8"},
    {"scales", set_scales, "f16 or f8"},
    {"clip", set_clip, "none, centre, zero or calibrated"},
    {"reorder", set_reorder, "none or calibrated"},
};
enum { N_PRESETS = sizeof presets / sizeof *presets, N_KNOBS = sizeof knobs / sizeof *knobs };

/* Texts, by the knobs that they may have: each has the knobs of the texts before it, too. */
enum texts {
    GIVEN,     /* no synonyms of knobs */
    OF_ASYMKV, /* the knobs of AsymKV's paper */
    STORED,    /* in a model file: `residual`, too, and AsymKV's with all presets */
};

/* How to write a knob that these texts may not have; NULL: they may have it. */
static const char *instead_of(struct piece knob, enum texts texts)
{
    static const char *const asymkv[] = {"high", "low", "lk", "lv"};
    unsigned which;
    if (texts < STORED && is(knob, "residual"))
        return "is window: write window=N";
    if (texts < OF_ASYMKV && one_of(knob, asymkv, 4, &which))
        return "goes with asymkv: write bits by layer, k=3x4/2 or v=3x4/2";
    return NULL;
}

static enum tft_status set_knobs(struct tft_kv_policy *p, struct piece text, enum texts texts,
                                 struct tft_error *err)
{
    for (struct piece rest; text.s; text = rest) {
        struct piece value, one = cut(text, ',', &rest), key = cut(one, '=', &value);
        size_t i = 0;
        while (i < N_KNOBS && !is(key, knobs[i].name))
            i++;
        if (i == N_KNOBS)
            return tft_fail(err, TFT_ERR_ARG, "a KV cache has no knob \"%.*s\"",
                            (int)(key.n < 40 ? key.n : 40), key.s);
        const char *instead = instead_of(key, texts);
        if (instead)
            return tft_fail(err, TFT_ERR_ARG, "a KV cache's %s %s", knobs[i].name, instead);
        if (!value.s || !knobs[i].set(p, value))
            return tft_fail(err, TFT_ERR_ARG, "a KV cache's %s is %s, not \"%.*s\"", knobs[i].name,
                            knobs[i].takes, (int)(value.n < 40 ? value.n : 40),
                            value.s ? value.s : "");
    }
    return TFT_OK;
}

/* ---- the policy as a whole */

/* The first run with bits that the axis does not allow: the text may name the axis after the bits.
   NULL: all runs are valid. */
static const struct tft_kv_run *odd_run(const struct tft_kv_side *s)
{
    for (const struct tft_kv_run *r = s->run;; r++)
        if (r->layers && !can_have(s->axis, r->bits))
            return r;
        else if (r->layers == TFT_KV_REST)
            return NULL;
}

/* A side with a window that is too short, or NULL. */
static const struct tft_kv_side *short_window(const struct tft_kv_policy *p)
{
    for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++) {
        const struct tft_kv_side *s = tft_kv_side(p, i);
        if (s->retain != TFT_KV_WINDOW && s->window < 2)
            return s;
    }
    return NULL;
}

/* What a FISHER policy cannot have, as a line; NULL: it is valid, or not FISHER. */
static const char *fisher_fault(const struct tft_kv_policy *p)
{
    bool k = p->k.axis == TFT_KV_FISHER, v = p->v.axis == TFT_KV_FISHER;
    if (!k && !v)
        return NULL;
    if (k != v)
        return "keys and values are both @fisher, or neither";
    if (p->k.run[0].layers != TFT_KV_REST || p->v.run[0].layers != TFT_KV_REST ||
        p->k.run[0].bits != p->v.run[0].bits)
        return "@fisher takes one number of bits for all layers, keys and values: bits=1.5";
    if (tft_kv_split(p))
        return "@fisher takes retain, not a different kr and vr";
    if (p->k.retain == TFT_KV_LOG2)
        return "@fisher takes retain=fill or window, not log2";
    if (p->f8 || p->reorder || p->clip != TFT_KV_WHOLE)
        return "@fisher has no scales, clip or reorder";
    return NULL;
}

static bool has_log2(const struct tft_kv_policy *p)
{
    return p->k.retain == TFT_KV_LOG2 || p->v.retain == TFT_KV_LOG2;
}

static enum tft_status check(const struct tft_kv_policy *p, struct tft_error *err)
{
    const char *fault = fisher_fault(p);
    const struct tft_kv_run *k = odd_run(&p->k), *v = odd_run(&p->v);
    if (p->v.axis == TFT_KV_MIXED)
        return tft_fail(err, TFT_ERR_ARG, "a KV cache's values cannot be mixed");
    if (k || v)
        return tft_fail(err, TFT_ERR_ARG, "a KV cache's %s cannot have %g bits",
                        !k ? "values" : p->k.axis == TFT_KV_MIXED ? "mixed keys" : "keys",
                        (double)(k ? k : v)->bits);
    if (fault)
        return tft_fail(err, TFT_ERR_ARG, "a KV cache: %s", fault);
    if ((p->reorder || p->clip == TFT_KV_CALIBRATED) &&
        (p->k.axis != TFT_KV_TOKEN || p->v.axis != TFT_KV_TOKEN))
        return tft_fail(
            err, TFT_ERR_ARG,
            "a KV cache's reorder=calibrated and clip=calibrated go with keys and values by token");
    if (p->i8 && tft_kv_split(p))
        return tft_fail(err, TFT_ERR_ARG,
                        "a KV cache's slots=i8 takes retain, not a different kr and vr");
    if (p->keep && has_log2(p))
        return tft_fail(err, TFT_ERR_ARG,
                        "a KV cache's keep goes with retain=fill or retain=window");
    if (short_window(p))
        return tft_fail(
            err, TFT_ERR_ARG,
            "a KV cache's retain=fill and retain=log2 take a window of at least 2 tokens, "
            "not %u",
            short_window(p)->window);
    return TFT_OK;
}

static enum tft_status parse(struct tft_kv_policy *p, const char *text, enum texts texts,
                             struct tft_error *err)
{
    struct piece all = {text ? text : "f16", text ? strlen(text) : 3}, more,
                name = cut(all, ':', &more);
    struct tft_error quiet;
    *p = (struct tft_kv_policy){
        .num = TFT_NUM_F16,
        .sinks = TFT_KV_SLIDE_SINKS,
        .group = 32,
        .k = {.axis = TFT_KV_CHANNEL, .retain = TFT_KV_ALL, .window = 128},
        .v = {.axis = TFT_KV_TOKEN, .retain = TFT_KV_ALL, .window = 128},
    };
    for (int i = 0; i < TFT_KV_RUNS; i++)
        p->k.run[i] = p->v.run[i] = (struct tft_kv_run){TFT_KV_REST, 2};
    if (is(all, "f16") || is(all, "f32") || is(all, "i8")) {
        p->num = is(all, "f32") ? TFT_NUM_F32 : TFT_NUM_F16;
        p->i8 = is(all, "i8");
        return TFT_OK;
    }
    if (is(name, "f16") || is(name, "f32") || is(name, "i8"))
        return tft_fail(err, TFT_ERR_ARG, "a KV cache of %.*s has no knobs", (int)name.n, name.s);
    if (all.n >= TFT_KV_TEXT)
        return tft_fail(err, TFT_ERR_ARG, "a KV cache of %zu bytes of text is too long", all.n);
    p->k.retain = p->v.retain = TFT_KV_FILL;
    p->sinks = 0;
    size_t i = 0;
    while (i < N_PRESETS && !is(name, presets[i].name))
        i++;
    if (i < N_PRESETS)
        set_knobs(p, (struct piece){presets[i].knobs, strlen(presets[i].knobs)}, OF_ASYMKV, &quiet);
    else if (!memchr(name.s, '=', name.n))
        return tft_fail(err, TFT_ERR_ARG, "no KV cache is called \"%.*s\"",
                        (int)(name.n < 40 ? name.n : 40), name.s);
    else
        more = all;
    if (texts < OF_ASYMKV && is(name, "asymkv"))
        texts = OF_ASYMKV;
    uint32_t keep = p->keep;
    p->keep = UINT32_MAX;
    enum tft_status status = set_knobs(p, more, texts, err);
    if (p->keep == UINT32_MAX) /* the preset's, where the rules for tokens allow it */
        p->keep = has_log2(p) ? 0 : keep;
    return status == TFT_OK ? check(p, err) : status;
}

enum tft_status tft_kv_parse(struct tft_kv_policy *p, const char *text, struct tft_error *err)
{
    return parse(p, text, GIVEN, err);
}

enum tft_status tft_kv_check(const char *kv, struct tft_error *err)
{
    struct tft_kv_policy p;
    return tft_kv_parse(&p, kv, err);
}

enum tft_status tft_kv_parse_stored(struct tft_kv_policy *p, const char *text,
                                    struct tft_error *err)
{
    return parse(p, text, STORED, err);
}

static bool same_bits(const struct tft_kv_side *file, const struct tft_kv_side *s, uint32_t layer)
{
    return tft_kv_held(s, layer) == TFT_KV_BITS_F16 ||
           tft_kv_held(s, layer) == tft_kv_held(file, layer);
}

bool tft_kv_calibrated_for(const struct tft_kv_policy *file, const struct tft_kv_policy *p,
                           uint32_t n_layer)
{
    if (!tft_kv_quantizes(file) || file->group != p->group || (p->reorder && !file->reorder))
        return false;
    if (p->clip != TFT_KV_CALIBRATED)
        return true;
    bool same = file->clip == TFT_KV_CALIBRATED && file->reorder == p->reorder;
    for (uint32_t l = 0; same && l < n_layer; l++)
        same = same_bits(&file->k, &p->k, l) && same_bits(&file->v, &p->v, l);
    return same;
}

uint32_t tft_kv_block(const struct tft_kv_policy *p)
{
    if (!tft_kv_quantizes(p))
        return TFT_KEY_PANEL;
    bool by_token = p->k.axis == TFT_KV_TOKEN && p->v.axis == TFT_KV_TOKEN;
    return by_token || tft_kv_is_fisher(p) ? 32 : p->group;
}
