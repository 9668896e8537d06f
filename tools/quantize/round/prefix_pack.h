/*
 * The keys and values of a prefix as a file has them (keys.h): f16, or each rounded to the
 * nearest level of its block of 32, which costs little, as they have no outliers (IntactKV,
 * appendix I):
 *
 *      TFT_Q8_0   x = d q, q in -127 .. 127      d = max |x| / 127
 *      TFT_Q4_1   x = m + d q, q in 0 .. 15      m = min x, d = (max x - min x) / 15
 *
 * d and m are f16, and q is chosen for the d that the file has: what is read back is off by half a
 * d at most. Where a type is taken, TFT_F32, which is 0, is TFT_F16 too: nothing was said.
 */
#ifndef QUANTIZE_ROUND_PREFIX_PACK_H
#define QUANTIZE_ROUND_PREFIX_PACK_H

#include "file/file.h"
#include "model/model.h"

/* x: [n] finite numbers of f16, n a multiple of 32; to: tft_dtype_bytes of these. type: Q8_0 or
   Q4_1 */
void prefix_pack(enum tft_dtype type, void *to, const float *x, size_t n);

/* Whether there is such a type, and the keys of a token of the model are whole blocks of it. */
enum tft_status prefix_check_type(const struct tft_model *m, enum tft_dtype type,
                                  struct tft_error *err);

/* Whether all of the numbers of n tokens, [n_layer, n, G, E] f16, are some. */
enum tft_status prefix_check_numbers(const struct tft_model *m, uint32_t n, const uint16_t *k,
                                     const uint16_t *v, struct tft_error *err);

/* What passed both as a tensor of a file: its description, then its data. rows: [n_layer, n, G, E]
   f16 */
void prefix_describe(struct tft_gguf_writer *w, struct tft_str name, const struct tft_model *m,
                     enum tft_dtype type, uint32_t n);
void prefix_put(struct tft_gguf_writer *w, const struct tft_model *m, enum tft_dtype type,
                uint32_t n, const uint16_t *rows);

#endif
