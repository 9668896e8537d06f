/* Folders with quantized matrices, written from the libraries' documents: matrices of a folder of
   F32 become codes, and a second folder has the numbers that the codes stand for. Include it after
   hf.h. */
#ifndef TFT_TEST_QUANTIZED_FOLDER_H
#define TFT_TEST_QUANTIZED_FOLDER_H

#include <math.h>

#include "simd/half.h"
#include "tools/import/safetensors.h"

enum written_form { CT_PACKED, CT_INT8, GPTQ, AWQ, FP8, NVFP4, MXFP4 };

struct variant {
    const char *name, *config; /* config: the members of quantization_config */
    enum written_form form;
    unsigned bits, group; /* group 0: a whole row */
    bool asym, old_words, act_order, v1;
    bool one_scale; /* of the whole matrix */
    bool bf16;      /* scales are BF16, not F16 */
    float inputs;   /* the scale of static inputs; 0: none */
    int input_zero; /* their zero point */
    bool minus_128; /* the first code of each row is the least of its bits */
    float outputs;  /* the scale of outputs */
    bool has_outputs, highest_zero, bad_index;
    bool modelopt;       /* NVFP4 with ModelOpt's names */
    bool no_index;       /* GPTQ without g_idx */
    bool mixed_inputs;   /* those of k are twice as wide */
    bool zero_inputs;    /* their scale is 0 */
    bool zero_points;    /* those of old symmetric folders: I8, all 0 */
    bool caches;         /* scales of caches, under the names of outputs */
    bool twice;          /* floats too */
    enum tft_dtype type; /* of the import */
};

/* ---- a file of safetensors */

struct tensors {
    char head[1 << 16];
    unsigned char *data;
    size_t n_head, n, room;
};

static inline void add_tensor(struct tensors *to, const char *name, const char *end,
                              const char *dtype, const char *shape, const void *data, size_t bytes)
{
    to->n_head +=
        (size_t)snprintf(to->head + to->n_head, sizeof to->head - to->n_head,
                         "%c\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
                         "\"data_offsets\":[%zu,%zu]}",
                         to->n_head ? ',' : '{', name, end, dtype, shape, to->n, to->n + bytes);
    assert_true(to->n_head < sizeof to->head);
    while (to->n + bytes > to->room) {
        to->room = to->room ? 2 * to->room : 1 << 16;
        to->data = realloc(to->data, to->room);
        assert_non_null(to->data);
    }
    memcpy(to->data + to->n, data, bytes);
    to->n += bytes;
}

/* Writes the file and empties `t`. */
static inline void write_tensors(struct tensors *t, const char *path)
{
    char temp[200];
    snprintf(temp, sizeof temp, "%s.new", path); /* the old file may be mapped */
    FILE *f = fopen(temp, "wb");
    assert_non_null(f);
    uint64_t n = t->n_head + 1;
    assert_int_equal(fwrite(&n, 8, 1, f), 1);
    assert_int_equal(fwrite(t->head, t->n_head, 1, f), 1);
    assert_int_equal(fputc('}', f), '}');
    assert_int_equal(fwrite(t->data, 1, t->n, f), t->n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(temp, path), 0);
    free(t->data);
    *t = (struct tensors){.n = 0};
}

/* ---- one matrix */

enum { MOST_ROWS = 128, MOST_COLS = 128 };

struct coded {
    const struct variant *v;
    const char *module;
    unsigned rows, cols, group, groups;
    unsigned code[MOST_ROWS][MOST_COLS], zero[MOST_ROWS][MOST_COLS]; /* zero: of a group */
    float scale[MOST_ROWS][MOST_COLS];                               /* likewise */
    float number[MOST_ROWS][MOST_COLS];                              /* that the codes stand for */
};

static inline unsigned group_at(const struct coded *m, unsigned c)
{
    return m->v->act_order ? c * 7 % m->cols / m->group : c / m->group;
}

/* The nearest number that the scale's type has. */
static inline float stored_scale(const struct variant *v, float s)
{
    return v->bf16 ? tft_bf16_to_f32(tft_f32_to_bf16(s)) : tft_f16_to_f32(tft_f32_to_f16(s));
}

static inline void choose_range(struct coded *m, const float *w, unsigned r, unsigned g)
{
    const struct variant *v = m->v;
    float low = 0, high = 0, top = (float)((1u << v->bits) - 1);
    for (unsigned i = 0; i < (v->one_scale ? m->rows : 1); i++)
        for (unsigned c = 0; c < m->cols; c++)
            if (group_at(m, c) == g) {
                float x = w[(v->one_scale ? i : r) * m->cols + c];
                low = fminf(low, x);
                high = fmaxf(high, x);
            }
    float s = v->asym ? (high - low) / top : 2 * fmaxf(high, -low) / top;
    m->scale[r][g] = s = stored_scale(v, s);
    m->zero[r][g] = 1u << (v->bits - 1);
    if (v->asym)
        m->zero[r][g] = (unsigned)fmaxf(1, fminf(top, rintf(-low / s)));
    if (v->highest_zero)
        m->zero[r][g] = (unsigned)top;
}

static inline void make_integers(struct coded *m, const float *w)
{
    int top = (1 << m->v->bits) - 1;
    for (unsigned r = 0; r < m->rows; r++) {
        for (unsigned g = 0; g < m->groups; g++)
            choose_range(m, w, r, g);
        for (unsigned c = 0; c < m->cols; c++) {
            unsigned g = group_at(m, c);
            int q = (int)rintf(w[r * m->cols + c] / m->scale[r][g]) + (int)m->zero[r][g];
            q = q < 0 ? 0 : q > top ? top : q;
            if (m->v->form == CT_INT8 && q == 0) /* the least one, which panels do not have */
                q = 1;
            if (m->v->minus_128 && c == 0)
                q = 0;
            m->code[r][c] = (unsigned)q;
            m->number[r][c] = (float)(q - (int)m->zero[r][g]) * m->scale[r][g];
        }
    }
}

static inline float e4m3(unsigned b)
{
    int e = (int)(b >> 3 & 15), f = (int)(b & 7);
    float x = e ? ldexpf(1 + (float)f / 8, e - 7) : ldexpf((float)f, -9);
    return b & 128 ? -x : x;
}

static inline float e2m1(unsigned b)
{
    static const float level[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return b & 8 ? -level[b & 7] : level[b & 7];
}

/* The code below n of the nearest number. */
static inline unsigned nearest(float (*number)(unsigned), unsigned n, float x)
{
    unsigned best = 0;
    for (unsigned b = 1; b < n; b++)
        if ((b & 127) != 127 && fabsf(number(b) - x) < fabsf(number(best) - x))
            best = b;
    return best;
}

/* FP8: blocks of 48 rows and 40 columns. Others: groups of a row. */
static inline void make_floats(struct coded *m, const float *w)
{
    bool fp8 = m->v->form == FP8;
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c++) {
            unsigned first = fp8 ? r / 48 : r, g = fp8 ? c / 40 : c / m->group;
            float x = w[r * m->cols + c], s = m->scale[first][g];
            m->code[r][c] = fp8 ? nearest(e4m3, 256, x / s) : nearest(e2m1, 16, x / s);
            m->number[r][c] = (fp8 ? e4m3(m->code[r][c]) : e2m1(m->code[r][c])) * s;
        }
}

/* ---- its parts in the folder */

/* Bit by bit: code j of a stream of words that are `apart` words apart. */
static inline void put_code(uint32_t *words, size_t apart, size_t j, const struct variant *v,
                            unsigned code)
{
    size_t per = 32 / v->bits;
    for (unsigned b = 0; b < v->bits; b++) {
        size_t at = v->old_words ? j / per * 32 + j % per * v->bits + b : j * v->bits + b;
        words[at / 32 * apart] |= (code >> b & 1) << at % 32;
    }
}

static inline size_t words_of(const struct variant *v, size_t n)
{
    size_t per = 32 / v->bits;
    return v->old_words ? (n + per - 1) / per : (n * v->bits + 31) / 32;
}

static uint32_t words[MOST_ROWS * MOST_COLS];

static inline void add_words(struct tensors *to, const struct coded *m, const char *end,
                             size_t rows, size_t cols)
{
    char shape[40];
    snprintf(shape, sizeof shape, "%zu,%zu", rows, cols);
    add_tensor(to, m->module, end, "I32", shape, words, 4 * rows * cols);
}

/* scales [rows, groups], or [groups, rows] if `turned`. */
static inline void add_scales(struct tensors *to, const struct coded *m, const char *end,
                              bool turned)
{
    static uint16_t half[MOST_ROWS * MOST_COLS];
    char shape[40];
    size_t n = m->v->one_scale ? 1 : m->rows;
    for (unsigned r = 0; r < n; r++)
        for (unsigned g = 0; g < m->groups; g++)
            half[turned ? g * m->rows + r : r * m->groups + g] =
                m->v->bf16 ? tft_f32_to_bf16(m->scale[r][g]) : tft_f32_to_f16(m->scale[r][g]);
    snprintf(shape, sizeof shape, n == 1 ? "1" : "%zu,%zu", turned ? m->groups : n,
             turned ? n : m->groups);
    add_tensor(to, m->module, end, m->v->bf16 ? "BF16" : "F16", shape, half, 2 * n * m->groups);
}

static inline void add_index(struct tensors *to, const struct coded *m, const char *end)
{
    char shape[20];
    for (unsigned c = 0; c < m->cols; c++)
        words[c] = group_at(m, c);
    if (m->v->bad_index)
        words[5] = m->groups;
    snprintf(shape, sizeof shape, "%u", m->cols);
    add_tensor(to, m->module, end, "I32", shape, words, 4 * m->cols);
}

static inline void add_inputs(struct tensors *to, const struct coded *m)
{
    int8_t zero = (int8_t)m->v->input_zero;
    bool of_k = strstr(m->module, "k_proj");
    float scale = m->v->inputs * (m->v->mixed_inputs && of_k ? 2 : 1);
    if (m->v->inputs != 0 || m->v->zero_inputs)
        add_tensor(to, m->module, ".input_scale", "F32", "1", &scale, 4);
    if (m->v->caches && of_k)
        add_tensor(to, m->module, ".output_scale", "F32", "1", &(float){0.02f}, 4);
    if (m->v->has_outputs)
        add_tensor(to, m->module, ".output_scale", "F32", "1", &m->v->outputs, 4);
    if (zero)
        add_tensor(to, m->module, ".input_zero_point", "I8", "1", &zero, 1);
}

static inline void add_ct_packed(struct tensors *to, const struct coded *m)
{
    size_t wide = words_of(m->v, m->cols), tall = words_of(m->v, m->rows);
    int64_t shape[2] = {m->rows, m->cols};
    memset(words, 0, sizeof words);
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c++)
            put_code(words + r * wide, 1, c, m->v, m->code[r][c]);
    add_words(to, m, ".weight_packed", m->rows, wide);
    add_tensor(to, m->module, ".weight_shape", "I64", "2", shape, sizeof shape);
    add_scales(to, m, ".weight_scale", false);
    if (m->v->act_order)
        add_index(to, m, ".weight_g_idx");
    memset(words, 0, sizeof words);
    if (m->v->zero_points) {
        char zeros[40];
        snprintf(zeros, sizeof zeros, "%u,%u", m->rows, m->groups);
        add_tensor(to, m->module, ".weight_zero_point", "I8", zeros, words, m->rows * m->groups);
    }
    if (!m->v->asym)
        return;
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned g = 0; g < m->groups; g++)
            put_code(words + g, m->groups, r, m->v, m->zero[r][g]);
    add_words(to, m, ".weight_zero_point", tall, m->groups);
}

static inline void add_ct_int8(struct tensors *to, const struct coded *m)
{
    static int8_t code[MOST_ROWS * MOST_COLS];
    char shape[40];
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c++)
            code[r * m->cols + c] = (int8_t)((int)m->code[r][c] - 128);
    snprintf(shape, sizeof shape, "%u,%u", m->rows, m->cols);
    add_tensor(to, m->module, ".weight", "I8", shape, code, (size_t)m->rows * m->cols);
    add_scales(to, m, ".weight_scale", false);
}

static inline void add_gptq(struct tensors *to, const struct coded *m)
{
    memset(words, 0, sizeof words);
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c++)
            put_code(words + r, m->rows, c, m->v, m->code[r][c]);
    add_words(to, m, ".qweight", m->cols * m->v->bits / 32, m->rows);
    memset(words, 0, sizeof words);
    for (unsigned g = 0; g < m->groups; g++)
        for (unsigned r = 0; r < m->rows; r++)
            put_code(words + g * (m->rows * m->v->bits / 32), 1, r, m->v, m->zero[r][g] - m->v->v1);
    add_words(to, m, ".qzeros", m->groups, m->rows * m->v->bits / 32);
    add_scales(to, m, ".scales", true);
    if (!m->v->no_index)
        add_index(to, m, ".g_idx");
}

/* Nibble i of word k is output 8 k + order[i]. */
static inline void put_awq(uint32_t *row, unsigned r, unsigned code)
{
    static const unsigned order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    for (unsigned i = 0; i < 8; i++)
        if (order[i] == r % 8)
            row[r / 8] |= code << 4 * i;
}

static inline void add_awq(struct tensors *to, const struct coded *m)
{
    memset(words, 0, sizeof words);
    for (unsigned c = 0; c < m->cols; c++)
        for (unsigned r = 0; r < m->rows; r++)
            put_awq(words + c * (m->rows / 8), r, m->code[r][c]);
    add_words(to, m, ".qweight", m->cols, m->rows / 8);
    memset(words, 0, sizeof words);
    for (unsigned g = 0; g < m->groups; g++)
        for (unsigned r = 0; r < m->rows; r++)
            put_awq(words + g * (m->rows / 8), r, m->zero[r][g]);
    add_words(to, m, ".qzeros", m->groups, m->rows / 8);
    add_scales(to, m, ".scales", true);
}

static inline void add_fp8(struct tensors *to, struct coded *m, const float *w)
{
    static unsigned char code[MOST_ROWS * MOST_COLS];
    static float scale[MOST_ROWS * MOST_COLS];
    char shape[40];
    unsigned tall = (m->rows + 47) / 48, wide = (m->cols + 39) / 40;
    for (unsigned i = 0; i < tall; i++)
        for (unsigned g = 0; g < wide; g++)
            scale[i * wide + g] = m->scale[i][g] = 0.0013f * (float)(1 + i + 2 * g);
    make_floats(m, w);
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c++)
            code[r * m->cols + c] = (unsigned char)m->code[r][c];
    snprintf(shape, sizeof shape, "%u,%u", m->rows, m->cols);
    add_tensor(to, m->module, ".weight", "F8_E4M3", shape, code, (size_t)m->rows * m->cols);
    snprintf(shape, sizeof shape, "%u,%u", tall, wide);
    add_tensor(to, m->module, ".weight_scale_inv", "F32", shape, scale, 4 * (size_t)tall * wide);
}

/* Scales: e4m3 over a factor, or times one in ModelOpt; or powers of two. */
static inline void add_fp4(struct tensors *to, struct coded *m, const float *w)
{
    static unsigned char code[MOST_ROWS * MOST_COLS], scale[MOST_ROWS * MOST_COLS];
    bool nv = m->v->form == NVFP4, opt = m->v->modelopt;
    const float factor = opt ? 0.0037f : 300;
    char shape[40];
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned g = 0; g < m->groups; g++) {
            unsigned b = nv ? 40 + (r + 3 * g) % 60 : 120 + (r + g) % 6;
            scale[r * m->groups + g] = (unsigned char)b;
            m->scale[r][g] = opt  ? e4m3(b) * factor
                             : nv ? e4m3(b) / factor
                                  : ldexpf(1, (int)b - 127);
        }
    make_floats(m, w);
    for (unsigned r = 0; r < m->rows; r++)
        for (unsigned c = 0; c < m->cols; c += 2)
            code[(r * m->cols + c) / 2] = (unsigned char)(m->code[r][c] | m->code[r][c + 1] << 4);
    snprintf(shape, sizeof shape, "%u,%u", m->rows, m->cols / 2);
    add_tensor(to, m->module, opt ? ".weight" : ".weight_packed", "U8", shape, code,
               (size_t)m->rows * m->cols / 2);
    snprintf(shape, sizeof shape, "%u,%u", m->rows, m->groups);
    add_tensor(to, m->module, ".weight_scale", nv ? "F8_E4M3" : "U8", shape, scale,
               (size_t)m->rows * m->groups);
    if (nv)
        add_tensor(to, m->module, opt ? ".weight_scale_2" : ".weight_global_scale", "F32",
                   opt ? "" : "1", &factor, 4);
}

static inline void add_parts(struct tensors *to, struct coded *m, const float *w)
{
    if (m->v->form < FP8)
        make_integers(m, w);
    switch (m->v->form) {
    case CT_PACKED: add_ct_packed(to, m); break;
    case CT_INT8: add_ct_int8(to, m); break;
    case GPTQ: add_gptq(to, m); break;
    case AWQ: add_awq(to, m); break;
    case FP8: add_fp8(to, m, w); break;
    default: add_fp4(to, m, w);
    }
    add_inputs(to, m);
}

/* ---- the folder */

static inline void add_same(struct tensors *to, const struct safetensor *t, const void *data)
{
    char shape[60];
    if (t->n_dims == 3)
        snprintf(shape, sizeof shape, "%u,%u,%u", (unsigned)t->ne[2], (unsigned)t->ne[1],
                 (unsigned)t->ne[0]);
    else if (t->n_dims == 2)
        snprintf(shape, sizeof shape, "%u,%u", (unsigned)t->ne[1], (unsigned)t->ne[0]);
    else
        snprintf(shape, sizeof shape, "%u", (unsigned)t->ne[0]);
    add_tensor(to, t->name, "", t->dtype, shape, data, (size_t)t->bytes);
}

/* The matrix as codes in `codes`, as floats in `floats`. */
static inline void add_matrix(struct tensors *codes, struct tensors *floats,
                              const struct variant *v, const struct safetensor *t,
                              const unsigned char *data)
{
    static struct coded m;
    static float w[MOST_ROWS * MOST_COLS], number[MOST_ROWS * MOST_COLS];
    char module[200];
    snprintf(module, sizeof module, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    m = (struct coded){.v = v, .module = module};
    m.rows = (unsigned)t->ne[1];
    m.cols = (unsigned)t->ne[0];
    m.group = v->group ? v->group : m.cols;
    m.groups = m.cols / m.group;
    assert_true(m.rows <= MOST_ROWS && m.cols <= MOST_COLS && strcmp(t->dtype, "F32") == 0);
    memcpy(w, data, (size_t)t->bytes);
    add_parts(codes, &m, w);
    for (unsigned r = 0; r < m.rows; r++)
        memcpy(number + r * m.cols, m.number[r], m.cols * sizeof *number);
    add_same(floats, t, number);
}

/* The parts of a folder's tensor in each of two folders. */
typedef void split_tensor(struct tensors *codes, struct tensors *floats, const void *how,
                          const struct safetensor *t, const unsigned char *data);

/* Turns hf(), a folder of F32, into one of codes. Before that, imports the numbers of these codes
   to want.gguf. */
static inline void quantize_by(split_tensor *split, const void *how, const char *config)
{
    static struct tensors codes, floats;
    struct safetensors s;
    char path[100], with[600];
    snprintf(path, sizeof path, "%s/model.safetensors", hf());
    assert_int_equal(safetensors_open(&s, path, &err), TFT_OK);
    for (size_t i = 0; i < s.n; i++)
        split(&codes, &floats, how, &s.tensor[i], s.data + s.tensor[i].offset);
    write_tensors(&floats, path);
    if (import_hf(&keep) != TFT_OK)
        fail_msg("%s: %s", config, err.msg);
    assert_int_equal(rename(in_folder("i.gguf"), in_folder("want.gguf")), 0);
    write_tensors(&codes, path);
    safetensors_close(&s);
    snprintf(with, sizeof with, "\"quantization_config\":{%s},\"tie_word_embeddings\"", config);
    edit("\"tie_word_embeddings\"", with);
}

static inline void add_both(struct tensors *codes, struct tensors *floats,
                            const struct safetensor *t, const void *data)
{
    add_same(codes, t, data);
    add_same(floats, t, data);
}

static inline void split_matrix(struct tensors *codes, struct tensors *floats, const void *v,
                                const struct safetensor *t, const unsigned char *data)
{
    const struct variant *how = v;
    if (!strstr(t->name, "_proj.weight")) {
        add_both(codes, floats, t, data);
        return;
    }
    add_matrix(codes, floats, how, t, data);
    if (how->twice)
        add_same(codes, t, data);
}

static inline void quantize_hf(const struct variant *v) { quantize_by(split_matrix, v, v->config); }

/* ---- gpt-oss */

enum { MOST_NUMBERS = 1 << 16 };

/* Floats [experts, columns, rows]; blocks of 32 columns of a row: low halves are even columns. */
static inline void split_experts(struct tensors *codes, struct tensors *floats, const void *how,
                                 const struct safetensor *t, const unsigned char *data)
{
    static float w[MOST_NUMBERS];
    static unsigned char code[MOST_NUMBERS], exponent[MOST_NUMBERS];
    unsigned rows = (unsigned)t->ne[0], cols = (unsigned)t->ne[1], n = (unsigned)t->ne[2];
    char shape[60];
    (void)how;
    if (t->n_dims != 3) {
        add_both(codes, floats, t, data);
        return;
    }
    assert_true(t->bytes <= sizeof w && cols % 32 == 0);
    memcpy(w, data, (size_t)t->bytes);
    memset(code, 0, sizeof code);
    for (unsigned i = 0; i < n * rows * cols; i++) { /* in the order of the blocks */
        unsigned c = i % cols, r = i / cols % rows, e = i / cols / rows;
        float *x = &w[(e * cols + c) * rows + r];
        exponent[i / 32] = (unsigned char)(121 + i / 32 % 5);
        float s = ldexpf(1, exponent[i / 32] - 127);
        unsigned nibble = nearest(e2m1, 16, *x / s);
        code[i / 2] = (unsigned char)(code[i / 2] | nibble << 4 * (i % 2));
        *x = e2m1(nibble) * s;
    }
    snprintf(shape, sizeof shape, "%u,%u,%u,16", n, rows, cols / 32);
    add_tensor(codes, t->name, "_blocks", "U8", shape, code, (size_t)t->bytes / 8);
    snprintf(shape, sizeof shape, "%u,%u,%u", n, rows, cols / 32);
    add_tensor(codes, t->name, "_scales", "U8", shape, exponent, (size_t)t->bytes / 128);
    add_same(floats, t, w);
}

static inline void quantize_experts(void)
{
    quantize_by(split_experts, NULL, "\"quant_method\":\"mxfp4\"");
}

#endif
