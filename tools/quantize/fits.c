/* quantize_check(): which models and options fit each other. */
#include "base/error.h"
#include "model/parts.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/round/prefix_pack.h"

/* Fails if o->kv is invalid, or needs calibration and the model cannot use it. */
static enum tft_status check_cache(const struct tft_model *m, const struct quantize_opts *o,
                                   struct tft_error *err)
{
    struct tft_kv_policy kv;
    enum tft_status status = tft_kv_parse(&kv, o->kv, err);
    bool odd = m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_DIM;
    bool latent = m->parts & TFT_BIT(TFT_PART_LATENT),
         shorter = m->parts & TFT_BIT(TFT_PART_SHORT_VALUES),
         norm = m->parts & (TFT_BIT(TFT_PART_SUB_NORM) | TFT_BIT(TFT_PART_VALUE_NORM)),
         gate = m->parts & (TFT_BIT(TFT_PART_OUTPUT_GATE) | TFT_BIT(TFT_PART_OWN_GATE));
    if (status == TFT_OK && kv.reorder && m->n_round)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: the channels of its values cannot be reordered, since the rounds of "
                        "its layers have the same weights: use a cache with reorder=none",
                        m->source.name);
    if (status == TFT_OK && tft_kv_quantizes(&kv) && !m->n_kv_layer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: %s has no attention, and so no KV cache to quantize", m->source.name,
                        m->arch->name);
    if (status == TFT_OK && kv.reorder && (gate || norm || latent || shorter))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: the channels of its values cannot be reordered, since its attention "
                        "has a %s: use a cache with reorder=none",
                        m->source.name,
                        latent    ? "matrix for each head's values"
                        : norm    ? "norm within"
                        : shorter ? "key longer than its value"
                                  : "gate");
    if (status == TFT_OK && odd && (kv.reorder || kv.clip == TFT_KV_CALIBRATED))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: no quantized KV cache supports its heads of %u channels",
                        m->source.name, m->head_dim);
    return status;
}

/* Fails if an option fits weights to the inputs of each layer: rounds of layers have the same
   weights, but other inputs. GPTQ rounds them for the inputs of the first round. */
static enum tft_status check_rounds(const struct tft_model *m, const struct quantize_opts *o,
                                    struct tft_error *err)
{
    if (m->n_round && quantize_low_bits(o, 0, m->n_layer) && o->rounding == QUANTIZE_AWQ)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: AWQ does not support %s: its layers run several times, with other "
                        "inputs",
                        m->source.name, m->arch->name);
    for (uint32_t l = m->n_round; m->n_round && l < m->n_layer; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            if (quantize_bits(o, l, i) != quantize_bits(o, l % m->n_round, i))
                return tft_fail(err, TFT_ERR_ARG,
                                "%s: layers %u and %u have the same weights, but other bits",
                                m->source.name, l % m->n_round, l);
    if (m->n_round && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its layers run several times, with other inputs",
                        m->source.name, m->arch->name);
    return TFT_OK;
}

enum tft_status quantize_check(const struct tft_model *m, const struct quantize_opts *o,
                               struct tft_error *err)
{
    if (m->embed.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG, "%s: is already quantized: give the float model",
                        m->source.name);
    const char *part = tft_parts_unknown(m, ~TFT_BIT(TFT_PART_RWKV));
    if (part)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: quantize does not support %s yet: %s",
                        m->source.name, m->arch->name, part);
    if (o->rotate == QUANTIZE_ROTATE_ALL && !quantize_rotate_all_possible(m))
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: cannot rotate the residual stream of %s (all): its norms are %s",
            m->source.name, m->arch->name,
            m->out_norm.b || m->pos_embed.data ? "not RMSNorm"
            : m->n_expert                      ? "inputs of its experts' router"
            : m->n_round                       ? "the same in all rounds of its layers"
                                               : "after attention and feed-forward");
    if (o->rotate == QUANTIZE_ROTATE_O && !quantize_rotate_o_possible(m))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot rotate attention's output in %s, whose layers have %s: use "
                        "none, o+down or all",
                        m->source.name, m->arch->name,
                        tft_model_has_states(m)                   ? "gates"
                        : m->parts & TFT_BIT(TFT_PART_OWN_GATE)   ? "gates"
                        : m->parts & TFT_BIT(TFT_PART_LATENT)     ? "matrices of heads for values"
                        : m->parts & TFT_BIT(TFT_PART_SHORT_VALUES) ? "values shorter than keys"
                        : m->qkv_bound > 0                        ? "bounded values"
                        : m->parts & TFT_BIT(TFT_PART_VALUE_NORM) ? "keys for values"
                                                                  : "a norm after attention");
    if (o->smooth > 0 && m->parts & TFT_BIT(TFT_PART_NO_PRE_NORM))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: it has no norms before attention and feed-forward",
                        m->source.name, m->arch->name);
    if (m->altup.n && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its norms are inputs of matrices that stay floats",
                        m->source.name, m->arch->name);
    if (m->n_expert && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its norms are inputs of its experts' router",
                        m->source.name, m->arch->name);
    if (o->n_text < o->window || !o->window)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a calibration text of %zu tokens is too short for a window of %u",
                        m->source.name, o->n_text, o->window);
    if (m->n_embd > TFT_PANEL_MAX_K ||
        quantize_input_width(m, NULL, TFT_IN_DOWN) > TFT_PANEL_MAX_K ||
        m->mixed_width > TFT_PANEL_MAX_K)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: a weight matrix has rows longer than %d, which panels do not support",
                        m->source.name, TFT_PANEL_MAX_K);
    enum tft_status status = check_rounds(m, o, err);
    if (status == TFT_OK)
        status = check_cache(m, o, err);
    return status == TFT_OK && o->n_prefix ? prefix_check_type(m, o->prefix_type, err) : status;
}
