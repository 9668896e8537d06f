/* Folders of models in which layers with a window differ from the others: mimo2 and spark2_5. */
#include "own.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "rope.h"

/* Whether layer l has a window: by hybrid_layer_pattern, of 0 and 1, or by layer_types, or in each
   period of four layers but for the last one. */
static bool has_window(const struct import *im, uint64_t l)
{
    const json_t *list = import_find(im, "hybrid_layer_pattern");
    return list ? json_number_value(json_array_get(list, (size_t)l)) != 0
                : import_has_window(im, l, 4);
}

/* The size of windows, and a bool for each layer; nothing, if no layer has one. */
static void put_windows(struct import *im)
{
    bool *has = calloc((size_t)im->n_layer, sizeof *has), some = false;
    if (!has)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && has; l++)
        some |= has[l] = has_window(im, l);
    if (some) {
        import_put_window(im);
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, has, (size_t)im->n_layer);
    }
    free(has);
}

/* ---- mimo2 */

/* Dense layers, which moe_layer_freq has as 0, come before all others. */
static void leading_layers(struct import *im)
{
    const json_t *list = import_find(im, "moe_layer_freq");
    if (!json_is_array(list)) {
        import_leading_by_type(im);
        return;
    }
    im->n_leading = 0;
    for (size_t l = 0; l < im->n_layer; l++) {
        uint64_t has_experts = 0;
        if (!import_json_whole(json_array_get(list, l), 1, &has_experts))
            import_unsupported(im, "\"moe_layer_freq\" is not a list of 0 and 1 for all layers");
        bool dense = !has_experts;
        if (dense && im->n_leading == l)
            im->n_leading++;
        else if (dense)
            import_unsupported(im, "\"moe_layer_freq\" has dense layers after others");
    }
    if (im->n_leading >= im->n_layer)
        import_unsupported(im, "none of its layers has experts");
}

/* Layers with a window have as many heads of queries as the others, of the same lengths. */
static void check_heads(struct import *im)
{
    uint64_t heads = import_whole(im, "swa_num_attention_heads", (int64_t)im->n_head),
             key = import_whole(im, "swa_head_dim", (int64_t)im->head_dim),
             value = import_whole(im, "swa_v_head_dim", (int64_t)im->latent.value);
    if (heads != im->n_head || key != im->head_dim || value != im->latent.value)
        import_unsupported(im, "layers with a window and others with different heads of queries "
                               "are not supported");
    if (im->status == TFT_OK && (!im->latent.value || im->latent.value > im->head_dim))
        import_unsupported(im, "values longer than keys are not supported");
}

/* Without a list, layers would have another model's windows. */
static void check_lists(struct import *im)
{
    const json_t *list = import_find(im, "hybrid_layer_pattern"),
                 *types = import_find(im, "layer_types"), *one;
    size_t l;
    uint64_t n;
    if (json_array_size(list ? list : types) != im->n_layer)
        import_unsupported(im, "neither \"hybrid_layer_pattern\" nor \"layer_types\" has all "
                               "layers");
    json_array_foreach((json_t *)(uintptr_t)(list ? list : types), l, one)
    {
        if (list ? !import_json_whole(one, 1, &n) : !json_is_string(one))
            import_unsupported(im, "the list of layers with windows has an entry that is neither "
                                   "0, 1 nor a name");
    }
}

void import_mimo2_dimensions(struct import *im)
{
    check_lists(im);
    import_late_dimensions(im);
    leading_layers(im);
    im->latent.value = import_whole(im, "v_head_dim", (int64_t)im->head_dim);
    check_heads(im);
    uint64_t kv = import_whole(im, "swa_num_key_value_heads", (int64_t)im->n_head_kv);
    im->kv_heads = calloc((size_t)im->n_layer, sizeof *im->kv_heads);
    if (!im->kv_heads)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    if (!kv)
        import_unsupported(im, "\"swa_num_key_value_heads\" is 0");
    for (uint64_t l = 0; l < im->n_layer && im->kv_heads; l++)
        im->kv_heads[l] = (uint32_t)(has_window(im, l) ? kv : im->n_head_kv);
}

void import_mimo2_layer(struct import *im, unsigned layer)
{
    im->n_head_kv = im->kv_heads[layer];
}

/* The same number under another name. */
static void check_window(struct import *im, const char *name)
{
    uint64_t window = import_whole(im, "sliding_window", 0);
    if (import_find(im, name) && import_whole(im, name, 0) != window)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: \"%s\" is not \"sliding_window\"",
                    im->folder.path, name);
}

/* Whether layers have sinks is what the folder's tensors say. */
void import_mimo2_values(struct import *im)
{
    import_sigmoid_values(im);
    put_windows(im);
    check_window(im, "sliding_window_size");
    check_window(im, "attention_chunk_size");
    import_find(im, "add_swa_attention_sink_bias|add_full_attention_sink_bias");
}

/* ---- spark2_5 */

void import_spark2_5_values(struct import *im)
{
    const char *gate = json_string_value(import_find(im, "gate_attn_act_mode"));
    if (!import_flag(im, "headwise_attn_output_gate", true) || (gate && strcmp(gate, "sigmoid")))
        import_unsupported(im, "spark2_5 must have sigmoids as gates of heads");
    put_windows(im);
    double share = import_member(im, import_rope_window(im), "partial_rotary_factor", 1);
    if (!(share > 0 && share <= 1))
        import_unsupported(im, "RoPE of this part of a head is not possible");
    else
        tft_gguf_put_u32(im->gguf, import_key(im, "rope.dimension_count_swa"),
                         (uint32_t)(share * (double)im->head_dim));
}
