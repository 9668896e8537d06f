/*
 * The keys and tensors that tuffet adds to a GGUF file. `tuffet quantize` writes them,
 * model/w8a8.c and model/prefix.c read them. `tuffet pack` writes the keys of packed files, for
 * model/packed.c. docs/file-format.md has the whole format.
 *
 * Arrays "per input" have TFT_LAYER_INPUTS elements for each layer (enum in model.h), in the order
 * of the layers, then one for the input of the head. If layers have a feed-forward beside their
 * experts, one more for each layer follows, or two (tft_input_index).
 */
#ifndef TFT_KEYS_H
#define TFT_KEYS_H

/* ---- values that a model is computed with */

/* u32: TFT_FILE_VERSION. A file with this key is a W8A8 file of tuffet. */
#define TFT_KEY_VERSION "tuffet.version"
enum { TFT_FILE_VERSION = 1 };

/* u32: rows of the embedding without padding. Packed files have it too. */
#define TFT_KEY_VOCAB "tuffet.vocab_size"

/* i32[], one element for each tensor of the file, in the order of the file: bits + 256 * group of a
   matrix that is held as codes (simd/low_panel.h), otherwise 0. Absent: no matrix is.
   TFT_FILE_VERSION does not say so: older programs refuse the shape of such a matrix. */
#define TFT_KEY_WEIGHT_CODES "tuffet.weights.codes"

/* f32[], u8[] per input: the scale and the zero-point of 8-bit activations, struct tft_affine */
#define TFT_KEY_INPUT_SCALE "tuffet.input.scale"
#define TFT_INPUT_SCALE_MAX 1e30 /* the largest scale that a file may have */
#define TFT_KEY_INPUT_ZERO "tuffet.input.zero"

/* u8[] per input: enum tft_range */
#define TFT_KEY_INPUT_RANGE "tuffet.input.range"

/* u32: block size of the Hadamard transform of ffn_down's input; 0 or absent: none */
#define TFT_KEY_HADAMARD "tuffet.hadamard"

/* string, optional: "erf" or "tanh", the form of GELU. Without it, tanh: llama.cpp computes tanh
   for all files. tuffet import writes what config.json says. */
#define TFT_KEY_GELU "tuffet.gelu"

/* i32[]: the tokens of the prefix; -1: a position without a token. Absent: no prefix. */
#define TFT_KEY_PREFIX_TOKENS "tuffet.prefix.tokens"

/* Tensors: the keys and values of the prefix, F16 [n_layer, n_prefix, G, E], or Q8_0 or Q4_1
   [n_layer, n_prefix, G E], which are expanded to f16 in memory (IntactKV, appendix I) */
#define TFT_KEY_PREFIX_K "tuffet.prefix.k"
#define TFT_KEY_PREFIX_V "tuffet.prefix.v"

/* Tensor F32 [D], optional: the residual stream of the prefix's last token, after the last layer */
#define TFT_KEY_PREFIX_X "tuffet.prefix.x"

/* u32, optional: how many of the prefix's last tokens are text, which a prompt may begin with */
#define TFT_KEY_PREFIX_TEXT "tuffet.prefix.text"

/* string[], optional: names of further prefixes, each [a-z0-9_-]{1,32} and not "main". A named
   prefix is the prefix above and then tokens of text, for which the file has the same tensors and
   values, with the name inside. SYSTEM is a string, optional: the system message that the tokens
   spell in the model's chat format. */
#define TFT_KEY_PREFIX_NAMES "tuffet.prefix.names"
#define TFT_KEY_NAMED_TOKENS "tuffet.prefix.%s.tokens"
#define TFT_KEY_NAMED_SYSTEM "tuffet.prefix.%s.system"
#define TFT_KEY_NAMED_K "tuffet.prefix.%s.k"
#define TFT_KEY_NAMED_V "tuffet.prefix.%s.v"
#define TFT_KEY_NAMED_X "tuffet.prefix.%s.x"
#define TFT_KEY_NAMED_STATE "tuffet.prefix.%s.state"
enum {
    TFT_PREFIX_NAMES = 64, /* most names */
    TFT_PREFIX_NAME = 32,  /* most bytes of a name */
    TFT_PREFIX_KEY = 64,   /* bytes of a key with a name and its NUL, at most */
};

/* string, optional: the cache policy of sessions that name none, written as in tft_session_opts */
#define TFT_KEY_KV "tuffet.kv"

/* Tensor F32: the states of all layers after the prefix, if layers have one */
#define TFT_KEY_PREFIX_STATE "tuffet.prefix.state"

/* Tensor F32 [n_layer, G, E], optional: the cost of an error in a channel of the keys */
#define TFT_KEY_KV_IMPORTANCE "tuffet.kv.importance"

/* Tensor I32 [n_layer, G, E], if tuffet.kv has reorder=calibrated: the order of a head's
   channels */
#define TFT_KEY_KV_ORDER "tuffet.kv.order"

/* Tensors F32 [n_layer, G, groups of E channels], if tuffet.kv has clip=calibrated: the part of a
   group's range that is kept, SKVQ eq. 2's alpha, for keys and for values */
#define TFT_KEY_KV_CLIP_K "tuffet.kv.clip.k"
#define TFT_KEY_KV_CLIP_V "tuffet.kv.clip.v"

/* Tensors F32 [n_layer, G, 11, E], optional, both or neither: for keys and for values, rows of the
   mean, the weight in the gain, 4 steps and 5 losses of each channel: kv/fisher.h. In a file that
   is not W8A8 they are values f32[] of the same numbers, since other programs refuse tensors that
   they do not know. */
#define TFT_KEY_KV_FISHER_K "tuffet.kv.fisher.keys"
#define TFT_KEY_KV_FISHER_V "tuffet.kv.fisher.values"

/* ---- packed files */

/* u32: TFT_PACKED_VERSION, of the layout in simd/packed.h. A file with this key has packed
   matrices. */
#define TFT_KEY_PACKED "tuffet.packed"
enum { TFT_PACKED_VERSION = 1 };

/* i32[], one for each tensor, in the order of the file: the type (file/dtype.h) of a packed
   tensor's codes; -1: the tensor is not packed */
#define TFT_KEY_PACKED_TYPES "tuffet.packed.types"

/* The data of packed tensors is aligned to this many bytes, a cache line. */
enum { TFT_PACKED_ALIGNMENT = 64 };

/* ---- values for people: how the file was made. No computation depends on them. */

/* f32[] per input: |x - q(x)|^2 / |x|^2 over the calibration text, q(x) being x as 8 bits */
#define TFT_KEY_INPUT_ERROR "tuffet.input.error"

/* f32[] per input, optional: the share of its numbers, over the calibration text, that become the
   bytes 0 and 255 at the ends of the static range, to compare with the counts of
   tft_session_ends */
#define TFT_KEY_INPUT_ENDS "tuffet.input.ends"

/* string: "int8 per channel" or "int8 per tensor" */
#define TFT_KEY_WEIGHTS "tuffet.weights"

/* f32[] per tensor, in the order of the file, optional: the loss in nats a token that the search
   for bits expects of rounding this matrix to its codes; 0: none */
#define TFT_KEY_WEIGHT_NATS "tuffet.weights.nats"

/* u32: block size of the rotation of V and O that is in the weights; 0: none */
#define TFT_KEY_ROTATE_VALUES "tuffet.rotate.values"

/* bool: the residual stream is rotated; the gains of its norms are in the weights then */
#define TFT_KEY_ROTATE_RESIDUAL "tuffet.rotate.residual"

/* f32: SmoothQuant's alpha; 0: not smoothed */
#define TFT_KEY_SMOOTH "tuffet.smooth"

/* f32[10]: losses on text that was kept out of calibration. Five numbers for conversations in the
   model's template, then five for other text: how many tokens; the mean of -ln p of a token, for
   the model of floats and for this one; the mean divergence (Kullback and Leibler's) of this one,
   in nats; and how often the most likely token is the same. Zeros: not measured. Older files have
   f32[2]: the second and third, of text. */
#define TFT_KEY_HELD_OUT "tuffet.held_out"

/* string: "intact" (tokens were given, or are the template's first), "pivots" (the text's own
   outliers) or "cushion" (tokens were searched for) */
#define TFT_KEY_PREFIX_METHOD "tuffet.prefix.method"

/* f32, f32[]: the search for a cushion: its threshold tau, and two losses for each round, without
   and with the round's best token, also for the round that accepted no token */
#define TFT_KEY_PREFIX_TAU "tuffet.prefix.tau"
#define TFT_KEY_PREFIX_LOSSES "tuffet.prefix.losses"

/* string: "prediction" or "layer outputs", the loss by which the prefix was tuned. Absent: the
   prefix is not tuned. */
#define TFT_KEY_TUNE_LOSS "tuffet.tune.loss"

/* f32, f32, u32: the weight of the loss's second term, the learning rate, the number of epochs */
#define TFT_KEY_TUNE_LAMBDA "tuffet.tune.lambda"
#define TFT_KEY_TUNE_RATE "tuffet.tune.rate"
#define TFT_KEY_TUNE_EPOCHS "tuffet.tune.epochs"

/* f32[]: losses on held-out text, the first before any step. u32: the index of the kept prefix's
   loss */
#define TFT_KEY_TUNE_VALIDATION "tuffet.tune.validation"
#define TFT_KEY_TUNE_KEPT "tuffet.tune.kept"

/* string: "min-max", "percentile" or "mse". u32, u32: tokens of the calibration text, and of one of
   its windows. u32: CRC-32 of these tokens as i32 */
#define TFT_KEY_CALIBRATION_METHOD "tuffet.calibration.method"
#define TFT_KEY_CALIBRATION_TOKENS "tuffet.calibration.tokens"
#define TFT_KEY_CALIBRATION_WINDOW "tuffet.calibration.window"
#define TFT_KEY_CALIBRATION_HASH "tuffet.calibration.hash"

#endif
