/*
 * What a W8A8 file of tuffet's has beyond a GGUF of its architecture. tools/quantize writes it,
 * quantized.c reads it. Nothing depends on the order of the tensors, but speed: the panels of a
 * layer should lie one after the other in the order in which they are used, so that memory is read
 * in one long run.
 *
 *   NAME.weight  I8 [N padded, K padded]: panels (panel.h) in place of each linear layer's matrix
 *                and of the embedding
 *   NAME.scale   F32 [N padded], NAME.rowsum I32 [N padded]: struct tft_panels
 *   output       is absent where the head is tied: the panels of token_embd then serve both. A
 *                rotated residual stream unties them, as the head takes up the gain of output_norm
 *
 * Arrays "of the inputs" have TFT_LAYER_INPUTS elements per layer (enum in model.h), then one for
 * the head.
 */
#ifndef TFT_QUANTIZED_H
#define TFT_QUANTIZED_H

#include "load.h"

/* u32: TFT_FILE_VERSION. Its presence makes a file one of these. */
#define TFT_KEY_VERSION "tuffet.version"
/* u32: rows of the embedding before padding */
#define TFT_KEY_VOCAB "tuffet.vocab_size"
/* f32[] of the inputs */
#define TFT_KEY_INPUT_SCALE "tuffet.input.scale"
/* u8[] of the inputs */
#define TFT_KEY_INPUT_ZERO "tuffet.input.zero"
/* u8[] of the inputs: enum tft_range */
#define TFT_KEY_INPUT_RANGE "tuffet.input.range"
/* f32[] of the inputs, for people: |x - q(x)|^2 / |x|^2 of the calibration text with these */
#define TFT_KEY_INPUT_ERROR "tuffet.input.error"
/* u32: block of the transform at ffn_down's input; absent or 0: none */
#define TFT_KEY_HADAMARD "tuffet.hadamard"
/* i32[]: the tokens whose keys and values are the prefix, -1: none in particular */
#define TFT_KEY_PREFIX_TOKENS "tuffet.prefix.tokens"
/* tensors F16 [n_layer, n_prefix, G, E], */
#define TFT_KEY_PREFIX_K "tuffet.prefix.k"
/* or Q8_0 or Q4_1 [n_layer, n_prefix, G E], which are f16 in memory (IntactKV, appendix I) */
#define TFT_KEY_PREFIX_V "tuffet.prefix.v"
/* tensor F32 [n_embd], may be absent: struct tft_model */
#define TFT_KEY_PREFIX_X "tuffet.prefix.x"
/* string, may be absent: the cache of sessions that name none, as tft_session_opts has it */
#define TFT_KEY_KV "tuffet.kv"
/* tensor F32 [n_layer, G, E], may be absent: of the keys' channels, struct tft_model */
#define TFT_KEY_KV_IMPORTANCE "tuffet.kv.importance"
/* tensor I32 [n_layer, G, E], if tuffet.kv has reorder=calibrated */
#define TFT_KEY_KV_ORDER "tuffet.kv.order"
/* tensors F32 [n_layer, G, groups of a head's channels], if it has clip=calibrated */
#define TFT_KEY_KV_CLIP_K "tuffet.kv.clip.k"
#define TFT_KEY_KV_CLIP_V "tuffet.kv.clip.v"
enum { TFT_FILE_VERSION = 1 };

/* How it was made, for people */
/* string: "int8 per channel", "int8 per tensor" */
#define TFT_KEY_WEIGHTS "tuffet.weights"
/* u32: block of the rotation of V and O; 0: none */
#define TFT_KEY_ROTATE_VALUES "tuffet.rotate.values"
/* bool: of the residual stream, whose norms' gains are in the weights then */
#define TFT_KEY_ROTATE_RESIDUAL "tuffet.rotate.residual"
/* f32: SmoothQuant's alpha; 0: none */
#define TFT_KEY_SMOOTH "tuffet.smooth"
/* string: "intact", "cushion" */
#define TFT_KEY_PREFIX_METHOD "tuffet.prefix.method"
/* f32: of the search for a cushion */
#define TFT_KEY_PREFIX_TAU "tuffet.prefix.tau"
/* f32[]: its loss before and after each round, also of those that took no token */
#define TFT_KEY_PREFIX_LOSSES "tuffet.prefix.losses"
/* string, absent if its numbers are those of its tokens: "prediction", "layer outputs" */
#define TFT_KEY_TUNE_LOSS "tuffet.tune.loss"
/* f32 */
#define TFT_KEY_TUNE_LAMBDA "tuffet.tune.lambda"
/* f32 */
#define TFT_KEY_TUNE_RATE "tuffet.tune.rate"
/* u32 */
#define TFT_KEY_TUNE_EPOCHS "tuffet.tune.epochs"
/* f32[]: loss on held-out text, before the first step and then now and again */
#define TFT_KEY_TUNE_VALIDATION "tuffet.tune.validation"
/* u32: which of these is that of the numbers that were kept */
#define TFT_KEY_TUNE_KEPT "tuffet.tune.kept"
/* string: "min-max", "percentile", "mse" */
#define TFT_KEY_CALIBRATION_METHOD "tuffet.calibration.method"
/* u32, and in windows of */
#define TFT_KEY_CALIBRATION_TOKENS "tuffet.calibration.tokens"
/* u32 */
#define TFT_KEY_CALIBRATION_WINDOW "tuffet.calibration.window"
/* u32: CRC-32 of the tokens as i32 */
#define TFT_KEY_CALIBRATION_HASH "tuffet.calibration.hash"

/* Before the architecture loads: whether the file is one of these, and a version that can be
   read. */
void tft_load_quantized(struct tft_load *ld);

/* Whether BOS is in the prefix: all that a tokenizer by itself needs to know of it. */
void tft_load_prefix_bos(struct tft_load *ld);

/* After the architecture: gives every linear layer its input, and the model its prefix and what is
   known of its keys. */
void tft_load_inputs(struct tft_load *ld);
void tft_load_prefix(struct tft_load *ld);
void tft_load_kv(struct tft_load *ld);

#endif
