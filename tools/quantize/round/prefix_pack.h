/*
 * The prefix's keys and values as a file holds them (keys.h): f16, or each number rounded to
 * the nearest level of its block of 32. That costs little, as a prefix has no outliers (IntactKV,
 * appendix I):
 *
 *      TFT_Q8_0   x = d q, q in -127 .. 127      d = max |x| / 127
 *      TFT_Q4_1   x = m + d q, q in 0 .. 15      m = min x, d = (max x - min x) / 15
 *
 * d and m are f16, and q is chosen for the rounded d, so a number is off by at most d / 2.
 * Functions that take a type accept TFT_F32, which is 0, as TFT_F16: the default of an unset
 * option.
 */
#ifndef QUANTIZE_ROUND_PREFIX_PACK_H
#define QUANTIZE_ROUND_PREFIX_PACK_H

#include "file/file.h"
#include "model/model.h"

/* type: Q8_0 or Q4_1; x: [n] finite numbers in the range of f16, n a multiple of 32; to: the bytes
   of n numbers of that type. */
void prefix_pack(enum tft_dtype type, void *to, const float *x, size_t n);

/* Fails unless the model can have a prefix of this type: a token's keys are whole blocks of it, and
   RoPE does not depend on the session. */
enum tft_status prefix_check_type(const struct tft_model *m, enum tft_dtype type,
                                  struct tft_error *err);

/* Fails if a number is not finite; k, v: [n_kv_layer, n, G, E] f16. */
enum tft_status prefix_check_numbers(const struct tft_model *m, uint32_t n, const uint16_t *k,
                                     const uint16_t *v, struct tft_error *err);

/* Writes the tensor's description, then later its data; rows: [n_kv_layer, n, G, E] f16. Type and
   numbers must have passed the checks above. */
void prefix_describe(struct tft_gguf_writer *w, struct tft_str name, const struct tft_model *m,
                     enum tft_dtype type, uint32_t n);
void prefix_put(struct tft_gguf_writer *w, const struct tft_model *m, enum tft_dtype type,
                uint32_t n, const uint16_t *rows);

/* to = the rows as a model has them that reads them from a file with this type. */
void prefix_round(const struct tft_model *m, enum tft_dtype type, uint32_t n, const uint16_t *rows,
                  uint16_t *to);

#endif
