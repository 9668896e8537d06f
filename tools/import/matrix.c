#include "matrix.h"

#include <math.h>

#include "base/bytes.h"
#include "simd/half.h"

/* ---------------------------------------------------------------------------------------- codes */

/* Code j of a stream of bits in words of 32, the lowest bits first. The words are `apart` words
   apart. */
static unsigned stream_code(const unsigned char *words, uint64_t apart, uint64_t j,
                            const struct import_matrix *m)
{
    unsigned per_word = 32 / m->bits;
    uint64_t word = m->old_words ? j / per_word : j * m->bits / 32;
    unsigned at = (unsigned)(m->old_words ? j % per_word * m->bits : j * m->bits % 32);
    uint64_t v = tft_load_u32(words + 4 * apart * word);
    if (at + m->bits > 32)
        v |= (uint64_t)tft_load_u32(words + 4 * apart * (word + 1)) << 32;
    return (unsigned)(v >> at) & ((1u << m->bits) - 1);
}

static void read_int8(const struct import_matrix *m, uint64_t r, float *code)
{
    const unsigned char *row = m->codes.data + r * m->cols;
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = (float)(int8_t)row[c];
}

/* Bytes of 2 or 4 bits are the same stream as words, but a row need not end with a word. */
static void read_packed(const struct import_matrix *m, uint64_t r, float *code)
{
    uint64_t size = m->codes.t->bytes / m->rows;
    const unsigned char *row = m->codes.data + r * size;
    bool in_bytes = m->codes.t->bytes == m->codes.t->ne[0] * m->rows;
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = (float)(in_bytes ? row[c * m->bits / 8] >> c * m->bits % 8 & ((1 << m->bits) - 1)
                                   : (int)stream_code(row, 1, c, m));
}

static void read_gptq(const struct import_matrix *m, uint64_t r, float *code)
{
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = (float)stream_code(m->codes.data + 4 * r, m->rows, c, m);
}

/* Output n of a word of 8: nibbles hold the outputs 0 2 4 6 1 3 5 7. */
static unsigned awq_code(const unsigned char *words, uint64_t n)
{
    static const unsigned char nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return tft_load_u32(words + n / 8 * 4) >> 4 * nibble[n % 8] & 15;
}

static void read_awq(const struct import_matrix *m, uint64_t r, float *code)
{
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = (float)awq_code(m->codes.data + c * (m->rows / 2), r);
}

static void read_fp8(const struct import_matrix *m, uint64_t r, float *code)
{
    const unsigned char *row = m->codes.data + r * m->cols;
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = tft_f8_to_f32(row[c]);
}

static void read_fp4(const struct import_matrix *m, uint64_t r, float *code)
{
    static const float level[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    const unsigned char *row = m->codes.data + r * (m->cols / 2);
    for (uint64_t c = 0; c < m->cols; c++)
        code[c] = level[row[c / 2] >> 4 * (c % 2) & 15];
}

/* --------------------------------------------------------------------------------------- scales */

/* Number i of a tensor of floats, of e4m3, or of exponents of two. */
static float number_at(const struct import_part *p, uint64_t i)
{
    float x;
    if (p->t->floats) {
        const struct tft_dtype_info *info = tft_dtype_info(p->t->type);
        info->to_f32(&x, p->data + i * info->bytes, 1);
        return x;
    }
    if (p->t->dtype[0] == 'F' && p->t->dtype[4] == '4') /* F8_E4M3 */
        return tft_f8_to_f32(p->data[i]);
    return p->data[i] == 255 ? NAN : ldexpf(1, (int)p->data[i] - 127); /* E8M0 */
}

float import_part_number(const struct import_part *p) { return number_at(p, 0); }

/* The index of a scale, of group g of row r. GPTQ and AWQ store groups as rows. */
static uint64_t scale_index(const struct import_matrix *m, uint64_t r, uint64_t g)
{
    bool turned = m->form == IMPORT_GPTQ || m->form == IMPORT_AWQ;
    return turned ? g * m->rows + r : r / m->tall * m->across + g;
}

static float scale_at(const struct import_matrix *m, uint64_t r, uint64_t g)
{
    float s = number_at(&m->scale, scale_index(m, r, g));
    if (!m->factor.t)
        return s;
    return m->divides ? s / number_at(&m->factor, 0) : s * number_at(&m->factor, 0);
}

float import_matrix_factor(const struct import_matrix *m)
{
    if (!m->factor.t)
        return 0;
    return m->divides ? 1 / number_at(&m->factor, 0) : number_at(&m->factor, 0);
}

static float zero_at(const struct import_matrix *m, uint64_t r, uint64_t g)
{
    const unsigned char *zeros = m->zero.data;
    switch (m->form) {
    case IMPORT_INT8: return zeros ? (float)(int8_t)zeros[scale_index(m, r, g)] : 0;
    case IMPORT_PACKED:
        return zeros ? (float)stream_code(zeros + 4 * g, m->across, r / m->tall, m)
                     : (float)(1 << (m->bits - 1));
    case IMPORT_GPTQ:
        return (float)stream_code(zeros + g * (m->rows * m->bits / 8), 1, r, m) + m->less_1;
    case IMPORT_AWQ: return (float)awq_code(zeros + g * (m->rows / 2), r);
    default: return 0;
    }
}

static uint64_t group_of(const struct import_matrix *m, uint64_t c)
{
    return m->index.t ? tft_load_u32(m->index.data + 4 * c) : c / m->wide;
}

void import_matrix_row(const struct import_matrix *m, uint64_t r, float *code, float *scale)
{
    static void (*const read[IMPORT_FORMS])(const struct import_matrix *, uint64_t, float *) = {
        [IMPORT_INT8] = read_int8, [IMPORT_PACKED] = read_packed, [IMPORT_GPTQ] = read_gptq,
        [IMPORT_AWQ] = read_awq,   [IMPORT_FP8] = read_fp8,       [IMPORT_FP4] = read_fp4,
    };
    uint64_t last = UINT64_MAX;
    float s = 0, zero = 0;
    read[m->form](m, r, code);
    for (uint64_t c = 0; c < m->cols; c++) {
        uint64_t g = group_of(m, c);
        if (g != last) {
            s = scale_at(m, r, g);
            zero = zero_at(m, r, g);
            last = g;
        }
        code[c] -= zero; /* also keeps -0 */
        scale[c] = s;
    }
}

/* A zero point of 2^bits is stored as 2^bits - 1, and then readers differ: some wrap it to 0. */
bool import_matrix_zeros_fit(const struct import_matrix *m)
{
    for (uint64_t g = 0; m->less_1 && g < m->across; g++)
        for (uint64_t r = 0; r < m->rows; r++)
            if (zero_at(m, r, g) >= (float)(1 << m->bits))
                return false;
    return true;
}

/* -------------------------------------------------------------------------------------- memory */

static void forget(const struct import_part *p)
{
    if (!p->t)
        return;
    size_t begin = (size_t)(p->data - p->shard->map.data);
    tft_port_forget(&p->shard->map, begin, begin + (size_t)p->t->bytes);
}

void import_matrix_forget(const struct import_matrix *m)
{
    forget(&m->codes);
    forget(&m->scale);
    forget(&m->zero);
}
