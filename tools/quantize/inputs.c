#include "tools/quantize/inputs.h"

#include <stdio.h>

const char *quantize_part_name(uint32_t which)
{
    static const char *const part[TFT_LAYER_INPUTS] = {[TFT_IN_ATTN] = "attn_q",
                                                       [TFT_IN_O] = "attn_output",
                                                       [TFT_IN_FFN] = "ffn_up",
                                                       [TFT_IN_DOWN] = "ffn_down"};
    return part[which];
}

const char *quantize_input_name(uint32_t n_layer, uint32_t index, char name[64])
{
    if (index == n_layer * TFT_LAYER_INPUTS)
        snprintf(name, 64, "output");
    else
        snprintf(name, 64, "blk.%u.%s", index / TFT_LAYER_INPUTS,
                 quantize_part_name(index % TFT_LAYER_INPUTS));
    return name;
}
