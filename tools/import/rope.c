#include "rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"

static const char params_names[] = "rope_parameters|rope_scaling";

const json_t *import_rope(const struct import *im)
{
    const json_t *all = import_find(im, params_names),
                 *full = json_object_get(all, "full_attention");
    return full ? full : all;
}

const json_t *import_rope_window(const struct import *im)
{
    return json_object_get(import_find(im, params_names), "sliding_attention");
}

const char *import_rope_type(const struct import *im)
{
    const json_t *p = import_rope(im), *type = json_object_get(p, "rope_type");
    const char *name = json_string_value(type ? type : json_object_get(p, "type"));
    return name ? name : "default";
}

static void put_f32(struct import *im, const char *key, double x)
{
    tft_gguf_put_f32(im->gguf, import_key(im, key), (float)x);
}

static void put_str(struct import *im, const char *key, const char *text)
{
    tft_gguf_put_str(im->gguf, import_key(im, key), (struct tft_str){text, strlen(text)});
}

/* The context of the model's first training. */
static double original_ctx(struct import *im)
{
    const char *name = "original_max_position_embeddings";
    double n = import_member(im, import_rope(im), name, import_real(im, name, (double)im->n_ctx));
    if (!(n >= 1 && n <= INT32_MAX))
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"%s\" is out of range", im->folder.path,
                    name);
    return im->status == TFT_OK ? n : 1;
}

static void put_original_ctx(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "rope.scaling.original_context_length"),
                     (uint32_t)original_ctx(im));
}

static struct import_factors *new_factors(struct import *im, const char *name, size_t n)
{
    struct import_factors *f = im->factors;
    while (f->v)
        f++;
    f->name = name;
    f->n = n;
    f->v = calloc(n ? n : 1, sizeof *f->v);
    if (!f->v)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    return f->v ? f : NULL;
}

uint64_t import_context(struct import *im)
{
    const json_t *p = import_rope(im);
    bool yarn = !im->arch->no_rope && strcmp(import_rope_type(im), "yarn") == 0;
    double n = yarn ? original_ctx(im) * import_member(im, p, "factor", 1) : 0;
    return n > (double)im->n_ctx && n <= INT32_MAX ? (uint64_t)n : im->n_ctx;
}

/* Llama 3.1's scaling: frequencies below a wavelength stay, frequencies above another one are
   divided by the factor, and a ramp leads from the first to the second. */
static void llama3(struct import *im, double base)
{
    const json_t *p = import_rope(im);
    double factor = import_member(im, p, "factor", 8), ctx = import_member(
               im, p, "original_max_position_embeddings",
               import_real(im, "original_max_position_embeddings", 8192)),
           low = import_member(im, p, "low_freq_factor", 1),
           high = import_member(im, p, "high_freq_factor", 4);
    struct import_factors *f = new_factors(im, "rope_freqs.weight", (size_t)im->n_rot / 2);
    for (size_t i = 0; f && i < f->n; i++) {
        double wavelength = 6.283185307179586 * pow(base, 2.0 * (double)i / (double)im->n_rot),
               smooth = (ctx / wavelength - low) / (high - low);
        f->v[i] = (float)(wavelength < ctx / high  ? 1
                          : wavelength > ctx / low ? factor
                                                   : 1 / ((1 - smooth) / factor + smooth));
    }
}

/* Whether an object has a member other than null. */
static bool member_of(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return v && !json_is_null(v);
}

/* The factor, of which readers of GGUF ignore 0. */
static double factor_of(struct import *im)
{
    double factor = import_member(im, import_rope(im), "factor", IMPORT_NEEDED);
    if (!(factor > 0))
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: RoPE has a factor of %g", im->folder.path,
                    factor);
    return factor;
}

/* The pair that turns `turns` times within the original context (Peng et al. 2023, eq. 17). */
static double pair_of(const struct import *im, double turns, double ctx, double base)
{
    return (double)im->n_rot * log(ctx / (turns * 6.283185307179586)) / (2 * log(base));
}

/* YaRN with "truncate": false, whose ramp begins and ends between pairs. Readers of GGUF round its
   ends, so divisors have the place of the scaling's type. */
static void yarn_divisors(struct import *im, double base, double factor, double amplitude)
{
    const json_t *p = import_rope(im);
    double ctx = original_ctx(im),
           low = pair_of(im, import_member(im, p, "beta_fast", 32), ctx, base),
           high = pair_of(im, import_member(im, p, "beta_slow", 1), ctx, base);
    struct import_factors *f = new_factors(im, "rope_freqs.weight", (size_t)im->n_rot / 2);
    low = fmax(low, 0);
    high = fmin(high, (double)im->n_rot - 1);
    high = high == low ? low + 0.001 : high;
    for (size_t i = 0; f && i < f->n; i++) {
        double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        f->v[i] = (float)(1 / (ramp / factor + (1 - ramp)));
    }
    put_f32(im, "rope.scaling.attn_factor", amplitude);
}

static void yarn(struct import *im, double base)
{
    static const struct import_number numbers[] = {
        {"rope.scaling.yarn_ext_factor", "extrapolation_factor", 0},
        {"rope.scaling.yarn_beta_fast", "beta_fast", 0},
        {"rope.scaling.yarn_beta_slow", "beta_slow", 0},
        {0},
    };
    const json_t *p = import_rope(im);
    double factor = factor_of(im), usual = 0.1 * log(factor) + 1,
           amplitude = import_member(im, p, "attention_factor|attn_factor", usual);
    /* the others have no key for mscale */
    bool has_key = strcmp(im->arch->name, "mistral3") == 0 || im->latent.rank;
    if (!has_key && !member_of(p, "attention_factor") &&
        (member_of(p, "mscale") || member_of(p, "mscale_all_dim")))
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s/config.json: YaRN with \"mscale\" is not supported in %s", im->folder.path,
                    im->arch->name);
    const json_t *truncate =
        import_ignores(im, "truncate") ? NULL : json_object_get(p, "truncate");
    if (truncate && !json_is_boolean(truncate))
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"truncate\" is neither true nor false",
                    im->folder.path);
    if (json_is_false(truncate)) {
        yarn_divisors(im, base, factor, amplitude);
        return;
    }
    put_str(im, "rope.scaling.type", "yarn");
    put_f32(im, "rope.scaling.factor", factor);
    put_original_ctx(im);
    for (const struct import_number *n = numbers; n->key; n++)
        if (json_is_real(json_object_get(p, n->names)))
            put_f32(im, n->key, import_member(im, p, n->names, n->def));
    bool whole = strcmp(im->arch->name, "olmo2") == 0; /* otherwise a reader multiplies the two */
    if (fabs(amplitude - usual) > 1e-4 * usual)
        put_f32(im, "rope.scaling.attn_factor", whole ? amplitude : amplitude / usual);
}

static void take_list(struct import *im, const char *name, const char *tensor)
{
    const json_t *list = json_object_get(import_rope(im), name);
    struct import_factors *f = new_factors(im, tensor, (size_t)im->n_rot / 2);
    if (f && json_array_size(list) != f->n)
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"%s\" is not a list of %zu numbers",
                    im->folder.path, name, f->n);
    for (size_t i = 0; f && i < f->n && im->status == TFT_OK; i++) {
        const json_t *x = json_array_get(list, i);
        if (!json_is_real(x))
            import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"%s\" has more than numbers in it",
                        im->folder.path, name);
        f->v[i] = (float)json_real_value(x);
    }
}

/* LongRoPE: divisors for short and for long contexts. Cosines and sines grow with the growth of the
   context (Ding et al. 2024). */
static void longrope(struct import *im)
{
    double ctx = original_ctx(im),
           grown = import_member(im, import_rope(im), "factor", (double)im->n_ctx / ctx),
           amplitude = grown > 1 ? sqrt(1 + log(grown) / log(ctx)) : 1;
    put_str(im, "rope.scaling.type", "longrope");
    put_original_ctx(im);
    put_f32(im, "rope.scaling.attn_factor",
            import_member(im, import_rope(im), "attention_factor", amplitude));
    take_list(im, "long_factor", "rope_factors_long.weight");
    take_list(im, "short_factor", "rope_factors_short.weight");
}

static void linear(struct import *im)
{
    put_str(im, "rope.scaling.type", "linear");
    put_f32(im, "rope.scaling.factor", factor_of(im));
}

/* Frequencies are spread over the whole head, and only a share of its pairs rotates: divisors stop
   the others (Gemma 4's p-RoPE). */
static void proportional(struct import *im, double share)
{
    struct import_factors *f = new_factors(im, "rope_freqs.weight", (size_t)im->head_dim / 2);
    size_t turning = (size_t)(share * (double)im->head_dim / 2);
    im->n_rot = im->head_dim;
    if (import_member(im, import_rope(im), "factor", 1) != 1)
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s/config.json: RoPE of type \"proportional\" with a factor is not supported",
                    im->folder.path);
    for (size_t i = 0; f && i < f->n; i++)
        f->v[i] = i < turning ? 1 : 1e30f;
}

/* Within the model's context, "dynamic" changes nothing, except the base if there is an alpha
   (Hunyuan). */
static double dynamic_base(struct import *im, double base)
{
    double e = (double)im->head_dim,
           alpha = import_member(im, import_rope(im), "alpha", 1);
    return base * pow(alpha, e / (e - 2));
}

/* granite_swa: the base of all layers with RoPE; the others have 0. 0: config.json has no list. */
static double listed_base(struct import *im)
{
    const json_t *list =
        strcmp(im->arch->name, "granite_swa") == 0 ? import_find(im, "layer_rope_theta") : NULL;
    double base = 0;
    for (size_t l = 0; l < json_array_size(list); l++) {
        double x = json_number_value(json_array_get(list, l));
        if (x != 0 && base != 0 && x != base)
            import_fail(im, TFT_ERR_UNSUPPORTED,
                        "%s/config.json: layers with different bases of RoPE are not supported",
                        im->folder.path);
        base = x != 0 ? x : base;
    }
    return base;
}

void import_rope_values(struct import *im)
{
    const json_t *p = import_rope(im), *sliding = import_rope_window(im);
    const char *type = import_rope_type(im);
    double listed = listed_base(im),
           base = import_member(
               im, p, "rope_theta",
               import_real(im, "rope_theta|rotary_emb_base|global_rope_theta", 10000)),
           local = import_member(im, sliding, "rope_theta",
                                 import_real(
                                     im, "rope_local_base_freq|local_rope_theta|swa_rope_theta",
                                     0)),
           share = import_member(
               im, p, "partial_rotary_factor",
               import_real(im, "partial_rotary_factor|rotary_pct|rope_pct", 1));
    bool possible = share > 0 && share <= 1;
    im->n_rot = im->latent.rank ? im->latent.rot
                : possible      ? (uint64_t)(share * (double)im->head_dim)
                                : 0;
    if (im->n_rot < 2)
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: RoPE of %g of a head is not possible",
                    im->folder.path, share);
    if (im->arch->permuted && im->n_rot != im->head_dim)
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s/config.json: RoPE of a part of a head is not supported in %s",
                    im->folder.path, im->arch->name);
    base = listed > 0 ? listed : base;
    if (strcmp(type, "dynamic") == 0)
        base = dynamic_base(im, base);
    if (strcmp(type, "proportional") == 0 && im->status == TFT_OK)
        proportional(im, share);
    if (im->status != TFT_OK)
        return;
    tft_gguf_put_u32(im->gguf, import_key(im, "rope.dimension_count"), (uint32_t)im->n_rot);
    put_f32(im, "rope.freq_base", base);
    if (local > 0)
        put_f32(im, "rope.freq_base_swa", local);
    if (strcmp(type, "default") == 0 && import_member(im, p, "factor", 1) != 1)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: RoPE has a factor, but no type",
                    im->folder.path);
    if (strcmp(type, "llama3") == 0)
        llama3(im, base);
    else if (strcmp(type, "yarn") == 0)
        yarn(im, base);
    else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
        longrope(im);
    else if (strcmp(type, "linear") == 0)
        linear(im);
    else if (strcmp(type, "default") != 0 && strcmp(type, "dynamic") != 0 &&
             strcmp(type, "proportional") != 0 && strcmp(type, "mrope") != 0)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: RoPE of type \"%s\" is not supported",
                    im->folder.path, type);
}

void import_rope_free(struct import *im)
{
    for (size_t i = 0; i < sizeof im->factors / sizeof *im->factors; i++)
        free(im->factors[i].v);
}
