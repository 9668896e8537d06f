#include "tools/quantize/round/prefix_pack.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "simd/half.h"

enum { BLOCK = 32 }; /* numbers of a block, for both types */

/* -------------------------------------------------------------------------------------- packing */

/* The step d as f16: the f16 nearest to range / steps, or the one above where rounding down would
   leave the end of the range more than d / 2 beyond the last level. That happens for the smallest
   f16s, which are far apart. */
static uint16_t step(float range, float steps)
{
    uint16_t d = tft_f32_to_f16(range / steps);
    return tft_f16_to_f32(d) * (steps + 0.5f) < range ? (uint16_t)(d + 1) : d;
}

static int nearest(float x, float d, int least, int most)
{
    int q = d > 0 ? (int)rintf(x / d) : 0;
    return q < least ? least : q > most ? most : q;
}

/* to: d, 32 i8 */
static void pack_q8_0(unsigned char *to, const float *x)
{
    float max = 0;
    for (int i = 0; i < BLOCK; i++)
        max = fmaxf(max, fabsf(x[i]));
    uint16_t d = step(max, 127);
    tft_store_u16(to, d);
    for (int i = 0; i < BLOCK; i++)
        to[2 + i] = (unsigned char)nearest(x[i], tft_f16_to_f32(d), -127, 127);
}

/* to: d, m, 16 bytes of nibbles: the first half of the numbers in the low nibbles */
static void pack_q4_1(unsigned char *to, const float *x)
{
    float min = x[0], max = x[0];
    for (int i = 1; i < BLOCK; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    uint16_t step_bits = step(max - min, 15);
    float d = tft_f16_to_f32(step_bits);
    tft_store_u16(to, step_bits);
    tft_store_u16(to + 2, tft_f32_to_f16(min));
    for (int i = 0; i < BLOCK / 2; i++)
        to[4 + i] = (unsigned char)(nearest(x[i] - min, d, 0, 15) |
                                    nearest(x[i + BLOCK / 2] - min, d, 0, 15) << 4);
}

void prefix_pack(enum tft_dtype type, void *to, const float *x, size_t n)
{
    unsigned char *block = to;
    for (size_t i = 0; i < n; i += BLOCK, block += tft_dtype_info(type)->bytes)
        if (type == TFT_Q8_0)
            pack_q8_0(block, x + i);
        else
            pack_q4_1(block, x + i);
}

/* ---------------------------------------------------------------------------------------- files */

static enum tft_dtype or_f16(enum tft_dtype type) { return type == TFT_F32 ? TFT_F16 : type; }

/* Whether the rows of every layer are whole blocks. */
static bool whole_blocks(const struct tft_model *m, uint32_t block)
{
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        if (tft_model_kv_width(m, l) % block)
            return false;
    return true;
}

enum tft_status prefix_check_type(const struct tft_model *m, enum tft_dtype type,
                                  struct tft_error *err)
{
    type = or_f16(type);
    if (type != TFT_F16 && type != TFT_Q8_0 && type != TFT_Q4_1)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a prefix cannot be stored as %s: choose F16, Q8_0 or Q4_1",
                        m->source.name, tft_dtype_name(type));
    if (m->parts & TFT_BIT(TFT_PART_ROPE_BY_CONTEXT))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: no prefix for %s: its RoPE depends on the length of the session, and "
                        "the prefix's keys are rotated once",
                        m->source.name, m->arch->name);
    if (!m->n_kv_layer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: no prefix for %s, which has no attention",
                        m->source.name, m->arch->name);
    if (!whole_blocks(m, tft_dtype_info(type)->block))
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: a token has %u x %u keys, not a multiple of %d: store the prefix as F16, not %s",
            m->source.name, m->n_head_kv, m->head_dim, BLOCK, tft_dtype_name(type));
    return TFT_OK;
}

static bool all_finite(const uint16_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((rows[i] & 0x7c00) == 0x7c00)
            return false;
    return true;
}

enum tft_status prefix_check_numbers(const struct tft_model *m, uint32_t n, const uint16_t *k,
                                     const uint16_t *v, struct tft_error *err)
{
    for (uint32_t l = 0; l < m->n_kv_layer; l++) {
        size_t at = n * tft_model_kv_before(m, l), each = n * tft_model_kv_width(m, l);
        if (!all_finite(k + at, each) || !all_finite(v + at, each))
            return tft_fail(err, TFT_ERR_FORMAT,
                            "%s: NaN or infinity in the prefix's keys or values, layer %u",
                            m->source.name, l);
    }
    return TFT_OK;
}

void prefix_describe(struct tft_gguf_writer *w, struct tft_str name, const struct tft_model *m,
                     enum tft_dtype type, uint32_t n)
{
    const uint64_t by_head[4] = {m->head_dim, m->n_head_kv, n, m->n_kv_layer},
                   by_token[3] = {(uint64_t)m->n_head_kv * m->head_dim, n, m->n_kv_layer},
                   all = n * m->kv_numbers;
    bool f16 = or_f16(type) == TFT_F16;
    if (m->parts & TFT_BIT(TFT_PART_LAYER_SIZES))
        tft_gguf_put_tensor(w, name, or_f16(type), 1, &all);
    else
        tft_gguf_put_tensor(w, name, or_f16(type), f16 ? 4 : 3, f16 ? by_head : by_token);
}

/* Packs a block of rows to `to`. */
static void pack_rows(const struct tft_model *m, enum tft_dtype type, unsigned char *to,
                      const uint16_t *rows)
{
    float x[BLOCK];
    m->kern.widen[TFT_NUM_F16](x, rows, BLOCK);
    prefix_pack(type, to, x, BLOCK);
}

void prefix_round(const struct tft_model *m, enum tft_dtype type, uint32_t n, const uint16_t *rows,
                  uint16_t *to)
{
    size_t all = (size_t)(n * m->kv_numbers);
    if (or_f16(type) == TFT_F16) {
        memcpy(to, rows, all * sizeof *to);
        return;
    }
    for (size_t i = 0; i < all; i += BLOCK) {
        float x[BLOCK];
        unsigned char block[40];
        pack_rows(m, type, block, rows + i);
        tft_dtype_info(type)->to_f32(x, block, BLOCK);
        m->kern.narrow[TFT_NUM_F16](to + i, x, BLOCK);
    }
}

void prefix_put(struct tft_gguf_writer *w, const struct tft_model *m, enum tft_dtype type,
                uint32_t n, const uint16_t *rows)
{
    size_t all = (size_t)(n * m->kv_numbers);
    if (or_f16(type) == TFT_F16) {
        tft_gguf_put_data(w, rows, all * sizeof *rows);
        return;
    }
    for (size_t i = 0; i < all; i += BLOCK) {
        unsigned char block[40];
        pack_rows(m, type, block, rows + i);
        tft_gguf_put_data(w, block, tft_dtype_info(type)->bytes);
    }
}
