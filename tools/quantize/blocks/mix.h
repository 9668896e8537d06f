/*
 * Mixes: which type each tensor of a plain GGUF file gets. The rules are llama.cpp's
 * (src/llama-quant.cpp), so that files of one name have one size:
 *
 *   - vectors, norms, routers of experts, small matrices of states and of positions stay;
 *   - the head, or the embedding that is the head too, gets 6 bits at least;
 *   - "_M": values and ffn_down get the larger type in the first and the last eighth of the layers,
 *     and in every third layer between;
 *   - Q3_K_M: all values, outputs of attention and ffn_down get Q4_K, the values of the first two
 *     layers and ffn_down of the first sixteenth Q5_K;
 *   - rows that are no multiple of 256 get a type with blocks of 32; of 32 neither: f16.
 *
 * "keep" is ours: all tensors stay as they are.
 */
#ifndef QUANTIZE_BLOCKS_MIX_H
#define QUANTIZE_BLOCKS_MIX_H

#include "file/file.h"

struct mix {
    const char *name;
    uint32_t file_type; /* general.file_type, or MIX_KEEPS */
    enum tft_dtype usual, more, head;
};
#define MIX_KEEPS UINT32_MAX

/* In capitals or not; NULL: there is none. */
const struct mix *mix_find(const char *name);

/* "f32, f16, ...", for messages. */
const char *mix_names(void);

/* Whether all tensors stay, and the keys that name their types. */
bool mix_keeps(const struct mix *x);

/* Whether numbers become blocks, whose codes depend on a text. */
bool mix_makes_blocks(const struct mix *x);

/* The type of a tensor of the source in the new file. A tensor of codes stays if the mix has blocks
   of as many bits for it, or more: they would gain nothing. A mix of floats expands it. */
enum tft_dtype mix_type(const struct mix *x, const struct tft_source *s,
                        const struct tft_tensor *t);

#endif
