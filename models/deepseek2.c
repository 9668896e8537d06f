/*
 * deepseek2: DeepSeek-V2-Lite, V3 (arXiv 2405.04434 and 2412.19437, section 2.1), and models of
 * that form: GLM-4.7-Flash, Kimi-VL's text, GigaChat 3. Latent attention, and a mixture of experts
 * in all layers but the first.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + latent(h)                           models/latent.h; rotated in pairs of
 *                                                      neighbours
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)       leading_dense_block_count layers
 *          or x = x + mixture(h)                       models/mixture.h
 *      logits = Wout (rms(x) g_out)
 *
 * YaRN: where a file has rope.scaling.yarn_log_multiplier, m, cosines and sines have no factor, but
 * scores have (1 + m ln(rope.scaling.factor))^2. Elsewhere m is ten times that number. Blocks that
 * predict further tokens come last and are not computed. Youtu-LLM has no experts. V2 of 236B
 * chooses groups of experts by their largest weight, and is refused.
 */
#include "model/load.h"
#include "base/rope.h"
#include "models/latent.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.says_renorm = true, .optional = true, .groups = true};

static const struct tft_transformer deepseek2 = {
    .rope = TFT_ROPE_PAIRS,
    .mixture = &mixture,
    .mixer = tft_latent_load,
};

/* Of a file with yarn_log_multiplier. */
static void move_yarn_to_scores(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    float log_multiplier = tft_load_factor(ld, "rope.scaling.yarn_log_multiplier", 0),
          factor = tft_load_factor(ld, "rope.scaling.factor", 1);
    if (log_multiplier <= 0 || factor <= 1)
        return;
    double growth = 1 + (double)log_multiplier * tft_rope_log((double)factor);
    m->attn_scale = (float)((double)m->attn_scale * growth * growth);
    m->rope_amplitude = tft_load_real(ld, "rope.scaling.attn_factor", 1);
}

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_drop_predicting(ld);
    tft_load_count(ld, "leading_dense_block_count", 0, ld->n_block); /* without experts, too */
    tft_latent_shape(ld);
    tft_transformer_values(ld);
    move_yarn_to_scores(ld);
    tft_transformer_tensors(ld);
    if (ld->m->n_expert_group && !ld->m->expert_sigmoid)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "groups of experts by their largest weight");
}

const struct tft_arch tft_arch_deepseek2 = {
    .name = "deepseek2",
    .parts = TFT_BIT(TFT_PART_LATENT),
    .load = load,
    .layer = tft_latent_layer,
    .transformer = &deepseek2,
};
