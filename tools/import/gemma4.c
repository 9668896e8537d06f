/*
 * Layers of gemma4 differ: in their heads, with a window and without one; in the width of
 * feed-forward; and the last ones may use keys and values of earlier ones. Either all layers have
 * experts beside feed-forward, or none. Names and defaults are from Gemma4TextConfig in
 * transformers.
 */
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "own.h"
#include "rope.h"

enum { MOST_HEAD_DIM = 65536 };

static void unsupported(struct import *im, const char *what)
{
    import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: %s", im->folder.path, what);
}

/* transformers gives the last layer no window, even if layer_types says otherwise. */
static bool has_window(const struct import *im, uint64_t l)
{
    return l + 1 < im->n_layer && import_has_window(im, l, 6);
}

/* [n_layer] numbers: `yes` for layers with has(), `no` for the others. */
static uint32_t *by_layer(struct import *im, bool (*has)(const struct import *im, uint64_t l),
                          uint64_t yes, uint64_t no)
{
    uint32_t *list = calloc((size_t)im->n_layer, sizeof *list);
    if (!list)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && list; l++)
        list[l] = (uint32_t)(has(im, l) ? yes : no);
    return list;
}

static bool shares(const struct import *im, uint64_t l)
{
    return l >= im->n_layer - im->layers.n_shared;
}

void import_gemma4_dimensions(struct import *im)
{
    const char *bidirectional = json_string_value(import_find(im, "use_bidirectional_attention"));
    uint64_t kv = im->n_head_kv;
    im->layers.window_dim = im->head_dim;
    im->layers.full_dim = im->head_dim = import_whole(im, "global_head_dim", IMPORT_NEEDED);
    im->layers.n_embed = import_whole(im, "hidden_size_per_layer_input", 0);
    im->layers.n_shared = import_whole(im, "num_kv_shared_layers", 0);
    if (import_flag(im, "attention_k_eq_v", false))
        kv = import_whole(im, "num_global_key_value_heads", (int64_t)kv);
    if (!kv || im->n_head % kv)
        unsupported(im, "\"num_global_key_value_heads\" does not divide the number of heads");
    if (im->layers.full_dim > MOST_HEAD_DIM)
        unsupported(im, "\"global_head_dim\" is above 65536");
    if (im->layers.n_shared >= im->n_layer)
        unsupported(im, "\"num_kv_shared_layers\" leaves no layer with keys and values");
    if (bidirectional && strcmp(bidirectional, "all") == 0)
        unsupported(im, "attention to later tokens is not supported");
    im->n_leading = im->n_layer;
    if (import_flag(im, "enable_moe_block", false)) {
        im->n_leading = 0;
        im->n_expert = import_whole(im, "num_experts", IMPORT_NEEDED);
        im->n_ff_expert = import_whole(im, "moe_intermediate_size", IMPORT_NEEDED);
    }
    if (im->status != TFT_OK)
        return;
    if (kv != im->n_head_kv)
        im->kv_heads = by_layer(im, has_window, im->n_head_kv, kv);
    if (im->layers.n_shared && import_flag(im, "use_double_wide_mlp", false))
        im->ffs = by_layer(im, shares, 2 * im->n_ff, im->n_ff);
}

void import_gemma4_layer(struct import *im, unsigned layer)
{
    bool window = has_window(im, layer);
    im->head_dim = window ? im->layers.window_dim : im->layers.full_dim;
    im->n_head_kv = im->kv_heads ? im->kv_heads[layer] : im->n_head_kv;
    im->n_ff = im->ffs ? im->ffs[layer] : im->n_ff;
    im->layers.shares = shares(im, layer);
    im->layers.keys_are_values = !window && import_flag(im, "attention_k_eq_v", false);
}

/* Layers with a window rotate a part of each head, or all of it, as most models do. */
static uint64_t window_rotation(struct import *im)
{
    const json_t *p = json_object_get(import_find(im, "rope_parameters"), "sliding_attention");
    const char *type = json_string_value(json_object_get(p, "rope_type"));
    double share = import_member(im, p, "partial_rotary_factor", 1);
    if (type && strcmp(type, "default") != 0)
        unsupported(im, "RoPE of layers with a window must be of type \"default\"");
    if (!(share > 0 && share <= 1))
        unsupported(im, "\"partial_rotary_factor\" is not possible");
    return im->status == TFT_OK ? (uint64_t)(share * (double)im->layers.window_dim) : 0;
}

void import_gemma4_values(struct import *im)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"attention.key_length_swa", im->layers.window_dim},
                   {"attention.value_length_swa", im->layers.window_dim},
                   {"rope.dimension_count_swa", window_rotation(im)},
                   {"attention.shared_kv_layers", im->layers.n_shared},
                   {"embedding_length_per_layer_input", im->layers.n_embed}};
    bool *windows = calloc((size_t)im->n_layer, sizeof *windows);
    if (!windows)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && windows; l++)
        windows[l] = has_window(im, l);
    if (windows)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, windows, (size_t)im->n_layer);
    free(windows);
    import_put_window(im);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
    if (im->n_expert)
        import_expert_values(im);
    if (strcmp(import_rope_type(im), "proportional") != 0)
        unsupported(im, "RoPE of layers without a window must be of type \"proportional\"");
}

/* ---- gemma3n: heads of one size, several residual streams, no experts */

enum { STREAMS = 4, MOST_STREAMS = 8, LAUREL_RANK = 64 };

/* The width of feed-forward may be a list. */
static void list_widths(struct import *im)
{
    const json_t *list = import_find(im, "intermediate_size");
    uint64_t n;
    if (!json_is_array(list))
        return;
    im->ffs = calloc((size_t)im->n_layer, sizeof *im->ffs);
    if (!im->ffs)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t l = 0; l < im->n_layer && im->ffs; l++) {
        if (!import_json_whole(json_array_get(list, l), INT32_MAX, &n) || !n)
            unsupported(im, "\"intermediate_size\" is not a list of widths");
        else
            im->ffs[l] = (uint32_t)n;
    }
}

void import_gemma3n_dimensions(struct import *im)
{
    im->layers.window_dim = im->layers.full_dim = im->head_dim;
    im->layers.n_embed = import_whole(im, "hidden_size_per_layer_input", 256);
    im->layers.n_shared = import_whole(im, "num_kv_shared_layers", 15);
    im->n_streams = import_whole(im, "altup_num_inputs", STREAMS);
    im->n_leading = im->n_layer;
    import_whole(im, "vocab_size_per_layer_input", 0); /* the tensor has as many rows */
    import_real(im, "altup_coef_clip", 0);             /* of training, */
    import_real(im, "altup_lr_multiplier", 1);         /* likewise */
    if (im->n_streams < 2 || im->n_streams > MOST_STREAMS ||
        import_whole(im, "altup_active_idx", 0) != 0 ||
        !import_flag(im, "altup_correct_scale", true) ||
        import_whole(im, "laurel_rank", LAUREL_RANK) != LAUREL_RANK)
        unsupported(im, "its residual streams, or its rank of Laurel, are not those of Gemma 3n");
    if (im->layers.n_shared >= im->n_layer)
        unsupported(im, "\"num_kv_shared_layers\" leaves no layer with keys and values");
    if (im->status == TFT_OK)
        list_widths(im);
}

/* Standard deviations above the mean that keep a share 1 - p of a normal distribution: 0 for a p of
   0, and for 0.95 the number of llama.cpp's converter. */
static void put_sparsity(struct import *im)
{
    const json_t *list = import_find(im, "activation_sparsity_pattern");
    float *x = calloc((size_t)im->n_layer, sizeof *x);
    if (!x)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t l = 0; l < im->n_layer && x; l++) {
        const json_t *of = json_is_array(list) ? json_array_get(list, l) : list;
        double p = of ? json_number_value(of) : l < 10 ? 0.95 : 0;
        if (p != 0 && p != 0.95)
            unsupported(im, "\"activation_sparsity_pattern\" has numbers other than 0 and 0.95");
        x[l] = p != 0 ? 1.6448533535003662f : 0;
    }
    if (x)
        tft_gguf_put_array(im->gguf, import_key(im, "activation_sparsity_scale"), TFT_VALUE_F32, x,
                           (size_t)im->n_layer);
    free(x);
}

void import_gemma3n_values(struct import *im)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"attention.shared_kv_layers", im->layers.n_shared},
                   {"embedding_length_per_layer_input", im->layers.n_embed},
                   {"altup.num_inputs", im->n_streams},
                   {"altup.active_idx", 0}};
    bool *windows = calloc((size_t)im->n_layer, sizeof *windows);
    if (!windows)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && windows; l++)
        windows[l] = import_has_window(im, l, 5);
    if (windows)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, windows, (size_t)im->n_layer);
    free(windows);
    import_put_window(im);
    put_sparsity(im);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
}
