/* Architectures with Mamba-2. */
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "own.h"

static void check_mamba(struct import *im)
{
    enum { MOST = 1 << 12 };
    const uint64_t n[] = {im->mamba.heads, im->mamba.dim, im->mamba.groups, im->mamba.state};
    bool fits = true;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        fits &= n[i] >= 1 && n[i] <= MOST;
    if (im->status == TFT_OK && (!fits || im->mamba.heads % im->mamba.groups))
        import_unsupported(im, "Mamba-2 of this size is not supported");
}

/* In hybrids. */
static void mamba_dimensions(struct import *im)
{
    im->n_taps = import_whole(im, "mamba_d_conv", IMPORT_NEEDED);
    im->mamba.heads = import_whole(im, "mamba_n_heads", IMPORT_NEEDED);
    im->mamba.dim = import_whole(im, "mamba_d_head", IMPORT_NEEDED);
    im->mamba.groups = import_whole(im, "mamba_n_groups", 1);
    im->mamba.state = import_whole(im, "mamba_d_state", IMPORT_NEEDED);
    check_mamba(im);
}

void import_mamba_values(struct import *im)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"ssm.conv_kernel", im->n_taps},
                   {"ssm.state_size", im->mamba.state},
                   {"ssm.group_count", im->mamba.groups},
                   {"ssm.time_step_rank", im->mamba.heads},
                   {"ssm.inner_size", im->mamba.heads * im->mamba.dim}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
}

/* -------------------------------------------------------------------------------- granitehybrid */

/* Whether layer l has attention; all others have Mamba-2. */
static bool granitehybrid_attends(const struct import *im, size_t l)
{
    const char *type =
        json_string_value(json_array_get(import_find(im, "layer_types|layers_block_type"), l));
    return type && strcmp(type, "attention") == 0;
}

/* Without experts, the matrices called shared are the feed-forward. */
void import_granitehybrid_dimensions(struct import *im)
{
    uint64_t experts = import_whole(im, "num_local_experts", 0),
             shared = import_whole(im, "shared_intermediate_size", (int64_t)im->n_ff);
    mamba_dimensions(im);
    import_attention_layers(im, granitehybrid_attends);
    if (experts) {
        import_expert_dimensions(im, true, true);
        im->n_ff_shared = shared;
    } else {
        import_whole(im, "num_experts_per_tok", 0);
        im->n_ff = shared;
        im->n_leading = im->n_layer;
    }
}

void import_granitehybrid_values(struct import *im)
{
    const char *positions = json_string_value(import_find(im, "position_embedding_type"));
    import_mamba_values(im);
    if (positions && strcmp(positions, "nope") == 0)
        tft_gguf_put_bool(im->gguf, import_key(im, "rope.scaling.finetuned"), false);
    if (im->n_expert)
        import_expert_values(im);
}

/* --------------------------------------------------------------------------------------- mamba2 */

static bool never_attends(const struct import *im, size_t l)
{
    (void)im;
    (void)l;
    return false;
}

/* Neither attention nor feed-forward: their numbers are 0. head_dim is of Mamba-2. */
void import_mamba2_dimensions(struct import *im)
{
    im->n_taps = import_whole(im, "conv_kernel", 4);
    im->mamba.heads = import_whole(im, "num_heads", IMPORT_NEEDED);
    im->mamba.dim = import_whole(im, "head_dim", 64);
    im->mamba.groups = import_whole(im, "n_groups", 1);
    im->mamba.state = import_whole(im, "state_size", 128);
    im->n_head = im->n_ff = 0;
    check_mamba(im);
    import_attention_layers(im, never_attends);
}

/* ------------------------------------------------------------------------------------ falcon-h1 */

/* Numbers of a list of n; without the list, they are 1. */
static void multipliers(struct import *im, const char *name, double *to, size_t n)
{
    const json_t *list = import_find(im, name);
    if (list && json_array_size(list) != n)
        import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"%s\" is not a list of %zu numbers",
                    im->folder.path, name, n);
    for (size_t i = 0; i < n; i++)
        to[i] = list ? json_number_value(json_array_get(list, i)) : 1;
}

void import_falcon_h1_dimensions(struct import *im)
{
    struct import_multipliers *by = &im->by;
    mamba_dimensions(im);
    by->embedding = import_real(im, "embedding_multiplier", 1);
    by->head = import_real(im, "lm_head_multiplier", 1);
    by->key = import_real(im, "key_multiplier", 1);
    by->attn_in = import_real(im, "attention_in_multiplier", 1);
    by->attn_out = import_real(im, "attention_out_multiplier", 1);
    by->ssm_in = import_real(im, "ssm_in_multiplier", 1);
    by->ssm_out = import_real(im, "ssm_out_multiplier", 1);
    multipliers(im, "mlp_multipliers", by->ffn, 2);
    multipliers(im, "ssm_multipliers", by->ssm, 5);
    uint64_t width = im->mamba.heads * im->mamba.dim;
    if (import_whole(im, "mamba_d_ssm", (int64_t)width) != width)
        import_unsupported(im, "\"mamba_d_ssm\" is not \"mamba_n_heads\" times \"mamba_d_head\"");
    if (import_flag(im, "mamba_rms_norm", false) && import_flag(im, "mamba_norm_before_gate", true))
        import_unsupported(im, "a norm of Mamba-2 before its gate is not supported");
    import_find(im, "mamba_norm_before_gate"); /* changes nothing without the norm */
    if (by->embedding != by->head && import_flag(im, "tie_word_embeddings", false))
        import_unsupported(im, "a head tied to the embedding, with another multiplier, is not "
                               "supported");
}

/* Of a row of Mamba-2's first matrix: of z, x, b, c, and the steps. */
static double ssm_multiplier(const struct import *im, uint64_t row)
{
    uint64_t width = im->mamba.heads * im->mamba.dim, shared = im->mamba.groups * im->mamba.state;
    const uint64_t ends[] = {width, 2 * width, 2 * width + shared, 2 * width + 2 * shared};
    size_t i = 0;
    while (i < sizeof ends / sizeof *ends && row >= ends[i])
        i++;
    return im->by.ssm[i];
}

double import_falcon_h1_factor(const struct import *im, const char *to, uint64_t row)
{
    const struct import_multipliers *by = &im->by;
    const struct {
        const char *to;
        double factor;
    } tensors[] = {{"token_embd.weight", by->embedding},
                   {"output.weight", by->head},
                   {"blk.%u.attn_q.weight", by->attn_in},
                   {"blk.%u.attn_k.weight", by->attn_in * by->key},
                   {"blk.%u.attn_v.weight", by->attn_in},
                   {"blk.%u.attn_output.weight", by->attn_out},
                   {"blk.%u.ffn_gate.weight", by->ffn[0]},
                   {"blk.%u.ffn_down.weight", by->ffn[1]},
                   {"blk.%u.ssm_in.weight", by->ssm_in * ssm_multiplier(im, row)},
                   {"blk.%u.ssm_out.weight", by->ssm_out}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i].to, to) == 0)
            return tensors[i].factor;
    return 1;
}

/* ----------------------------------------------------------------------------------- nemotron_h */

/* The kind of layer l: 'M', '*', '-' or 'E', as in hybrid_override_pattern; 0: it is unknown. */
static char kind_of(const struct import *im, size_t l)
{
    static const struct {
        const char *name;
        char kind;
    } kinds[] = {{"mamba", 'M'},          {"linear_attention", 'M'}, {"attention", '*'},
                 {"full_attention", '*'}, {"mlp", '-'},              {"moe", 'E'}};
    const json_t *pattern = import_find(im, "hybrid_override_pattern");
    const char *name =
        json_string_value(json_array_get(import_find(im, "layers_block_type|layer_types"), l));
    if (l < json_string_length(pattern))
        return json_string_value(pattern)[l];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && name; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    return 0;
}

bool import_nemotron_has_experts(const struct import *im)
{
    const json_t *pattern = import_find(im, "hybrid_override_pattern"),
                 *list = import_find(im, "layers_block_type|layer_types");
    size_t n = pattern ? json_string_length(pattern) : json_array_size(list);
    for (size_t l = 0; l < n; l++)
        if (kind_of(im, l) == 'E')
            return true;
    return false;
}

static bool nemotron_attends(const struct import *im, size_t l) { return kind_of(im, l) == '*'; }

/* feed_forward: the kind of layers that have one. */
static void check_kinds(struct import *im, char feed_forward)
{
    const json_t *pattern = import_find(im, "hybrid_override_pattern");
    if (pattern && json_string_length(pattern) != im->n_layer)
        import_unsupported(im, "\"hybrid_override_pattern\" does not have a letter for each layer");
    for (size_t l = 0; l < im->n_layer && im->status == TFT_OK; l++) {
        char kind = kind_of(im, l);
        if (kind != 'M' && kind != '*' && kind != feed_forward)
            import_fail(im, TFT_ERR_UNSUPPORTED,
                        "%s/config.json: layer %zu of %s has neither Mamba-2, nor attention, nor "
                        "the others' feed-forward",
                        im->folder.path, l, im->arch->name);
    }
}

static void check_word(struct import *im, const char *name, const char *want)
{
    const char *is = json_string_value(import_find(im, name));
    if (is && strcmp(is, want) != 0)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: \"%s\" must be %s", im->folder.path,
                    name, want);
}

static void nemotron_dimensions(struct import *im, char feed_forward)
{
    im->n_taps = import_whole(im, "conv_kernel|mamba_d_conv", 4);
    im->mamba.heads = import_whole(im, "mamba_num_heads", IMPORT_NEEDED);
    im->mamba.dim = import_whole(im, "mamba_head_dim", IMPORT_NEEDED);
    im->mamba.groups = import_whole(im, "n_groups|mamba_n_groups", 1);
    im->mamba.state = import_whole(im, "ssm_state_size", IMPORT_NEEDED);
    check_mamba(im);
    check_word(im, "mlp_hidden_act", "relu2");
    check_word(im, "mamba_hidden_act", "silu");
    import_find(im, "rope_theta|partial_rotary_factor"); /* positions are not encoded */
    check_kinds(im, feed_forward);
    import_attention_layers(im, nemotron_attends);
    im->ffs = calloc((size_t)im->n_layer, sizeof *im->ffs);
    if (!im->ffs)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t l = 0; l < im->n_layer && im->ffs; l++)
        im->ffs[l] = kind_of(im, l) == feed_forward ? (uint32_t)im->n_ff : 0;
}

/* Newer folders also name numbers of experts that the model does not have. */
void import_nemotron_h_dimensions(struct import *im)
{
    nemotron_dimensions(im, '-');
    im->n_leading = im->n_layer;
    import_find(im, "n_routed_experts|n_shared_experts|num_experts_per_tok|moe_latent_size|"
                    "moe_shared_expert_intermediate_size|routed_scaling_factor|n_group|topk_group|"
                    "norm_topk_prob");
}

void import_nemotron_h_moe_dimensions(struct import *im)
{
    im->n_expert = import_whole(im, "n_routed_experts", IMPORT_NEEDED);
    im->n_ff_expert = im->n_ff = import_whole(im, "moe_intermediate_size", IMPORT_NEEDED);
    im->n_ff_shared = import_whole(im, "moe_shared_expert_intermediate_size", IMPORT_NEEDED);
    im->n_latent = import_whole(im, "moe_latent_size", 0);
    nemotron_dimensions(im, 'E');
    if (import_whole(im, "n_shared_experts", 1) != 1)
        import_unsupported(im, "nemotron_h must have one shared expert");
}

void import_nemotron_h_moe_values(struct import *im)
{
    import_mamba_values(im);
    import_late_values(im, 2);
    tft_gguf_put_bool(im->gguf, import_key(im, "expert_weights_norm"),
                      import_flag(im, "norm_topk_prob", true));
    if (im->n_latent)
        tft_gguf_put_u32(im->gguf, import_key(im, "moe_latent_size"), (uint32_t)im->n_latent);
}
