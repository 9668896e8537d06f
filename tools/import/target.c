#include "target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exp_log.h"
#include "blocks.h"
#include "matrix.h"
#include "names.h"
#include "simd/half.h"

uint64_t import_dimension(const struct import *im, char letter)
{
    switch (letter) {
    case 'D': return im->n_embd;
    case 'F': return im->n_ff;
    case 'E': return im->head_dim;
    case 'V': return im->n_vocab;
    case 'H': return im->n_head;
    case 'G': return im->n_head_kv;
    case 'Q': return im->n_head * im->head_dim;
    case 'K': return im->n_head_kv * im->head_dim;
    case 'A': return (im->n_head + 2 * im->n_head_kv) * im->head_dim;
    case '2': return 2 * im->n_ff;
    case '3': return 3 * im->n_embd;
    case 'T': return 2 * im->n_embd;
    case 'R': return 2 * im->n_head * im->head_dim;
    case 'N': return im->delta.v_heads;
    case '5': return 2 * im->delta.v_heads;
    case 'Y': return im->delta.dim;
    case 'Z': return im->delta.v_heads * im->delta.dim;
    case 'C': return (2 * im->delta.k_heads + im->delta.v_heads) * im->delta.dim;
    case 'O': return im->mamba.heads;
    case 'W': return im->mamba.heads * im->mamba.dim;
    case 'U': return im->mamba.heads * im->mamba.dim + 2 * im->mamba.groups * im->mamba.state;
    case 'I':
        return im->mamba.heads * (2 * im->mamba.dim + 1) + 2 * im->mamba.groups * im->mamba.state;
    case '6': return sizeof IMPORT_LERP_NAMES - 1;
    case 'h': return im->n_embd / im->head_dim;
    case 'w': return im->rwkv.decay;
    case 'i': return im->rwkv.rate;
    case 'v': return im->rwkv.value;
    case 'g': return im->rwkv.gate;
    case '1': return 1;
    case 'L': return im->n_taps;
    case 'X': return im->n_expert;
    case 'M': return im->n_ff_expert;
    case 'S': return im->n_ff_shared;
    case '4': return im->n_latent ? im->n_latent : im->n_embd;
    case 'J': return im->layers.n_embed;
    case 'B': return im->layers.n_embed * im->n_layer;
    case 't': return im->n_streams - 1;
    case 'r': return im->n_streams;
    case 'n': return im->n_streams * im->n_streams;
    case 'a': return 64;
    case 'q': return im->latent.q_rank;
    case 'c': return im->latent.rank;
    case 'k': return im->latent.rank + im->latent.rot;
    case 'b': return im->n_head * (im->head_dim - im->latent.rot + im->latent.value);
    case 'o': return im->n_head * im->latent.value;
    case 'u': return im->n_head_kv * im->latent.value;
    case 'y': return im->encoder.types;
    case 'l': return im->encoder.labels;
    case 'd': return im->encoder.dense[0];
    case 'e': return im->encoder.dense[1];
    default: return im->n_ctx; /* 'P' */
    }
}

struct safetensor *import_find_name(const struct import *im, const char *prefix, const char *from,
                                    unsigned layer, unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data)
{
    char fmt[96];
    struct safetensor *t = NULL;
    for (size_t n; *from && !t; from += n + (from[n] == '|')) {
        n = strcspn(from, "|");
        snprintf(fmt, sizeof fmt, "%s%.*s", prefix, (int)n, from);
        snprintf(name, IMPORT_MOST_NAME, fmt, layer, index);
        t = import_folder_find(&im->folder, name, data);
    }
    return t;
}

struct safetensor *import_find_rule(const struct import *im, const char *prefix,
                                    const struct import_tensor *rule, unsigned layer,
                                    unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data)
{
    bool head = rule->how & IMPORT_HEAD, bare = head || rule->how & IMPORT_BARE;
    struct safetensor *t = NULL;
    if (rule->how & IMPORT_LERPS)
        index = (unsigned char)IMPORT_LERP_NAMES[index];
    if (rule->how & IMPORT_STACK && !strstr(rule->to, "%u")) /* of no layer */
        layer = index;
    if (head)
        t = import_find_name(im, "language_model.", rule->from, layer, index, name, data);
    if (!t)
        t = import_find_name(im, bare ? "" : prefix, rule->from, layer, index, name, data);
    return t;
}

bool import_moves_rows(const struct import *im, const struct import_tensor *rule)
{
    return (rule->how & (IMPORT_QKV | IMPORT_V_ROWS)) ||
           ((rule->how & (IMPORT_Q | IMPORT_K)) && im->arch->permuted);
}

/* The head in the folder that becomes head j of a delta net's values. */
static uint64_t source_head(const struct import *im, uint64_t j)
{
    uint64_t keys = im->delta.k_heads;
    return j % keys * (im->delta.v_heads / keys) + j / keys;
}

/* The row that becomes row r of queries, keys and values, or of z. */
static uint64_t qkvz_row(const struct import *im, bool z, uint64_t r)
{
    uint64_t dim = im->delta.dim, keys = im->delta.k_heads, of_one = im->delta.v_heads / keys,
             head = r / dim, unit = 2 + 2 * of_one; /* heads of a group */
    if (!z && head < 2 * keys)
        return (head % keys * unit + head / keys) * dim + r % dim;
    head -= z ? 0 : 2 * keys;
    return (head / of_one * unit + 2 + (z ? of_one : 0) + head % of_one) * dim + r % dim;
}

uint64_t import_source_row(const struct import *im, const struct import_target *t, uint64_t r)
{
    uint64_t e = im->head_dim, head = r / e, x = r % e;
    if (t->rule->how & IMPORT_QKV) {
        uint64_t q = im->n_head, kv = im->n_head_kv, of_one = q / kv;
        uint64_t group = head < q ? head / of_one : (head - q) % kv,
                 place = head < q ? head % of_one : of_one + (head - q) / kv;
        bool turned = im->arch->permuted && head < q + kv;
        return (group * (of_one + 2) + place) * e + (turned ? x % 2 * (e / 2) + x / 2 : x);
    }
    if (t->rule->how & IMPORT_QKVZ)
        return qkvz_row(im, t->rule->shape[0] == 'Z', r);
    if (t->rule->how & (IMPORT_GATE | IMPORT_UP)) {
        uint64_t half = t->ne[1];
        return r / half * 2 * half + (t->rule->how & IMPORT_UP ? half : 0) + r % half;
    }
    if (t->rule->how & IMPORT_V_ROWS) {
        uint64_t v = im->delta.v_heads, unit = t->rows == v ? 1 : im->delta.dim,
                 first = t->rows - v * unit, i = r < first ? 0 : r - first;
        return r < first ? r : first + source_head(im, i / unit) * unit + i % unit;
    }
    if (import_moves_rows(im, t->rule))
        return head * e + x % 2 * (e / 2) + x / 2;
    return t->rule->shape[0] == 'P' ? r + im->encoder.skipped : r;
}

/* s of IMPORT_TERNARY: the mean magnitude (Ma et al. 2024, arXiv 2402.17764, eq. 3), summed row by
   row. */
static double mean_size(const struct import_target *t, float *row)
{
    const struct tft_dtype_info *info = tft_dtype_info(t->tensor->type);
    double sum = 0;
    for (uint64_t r = 0; r < t->rows; r++) {
        info->to_f32(row, t->data + r * t->cols * info->bytes, (size_t)t->cols);
        for (uint64_t c = 0; c < t->cols; c++)
            sum += fabs((double)row[c]);
    }
    double mean = sum / ((double)t->rows * (double)t->cols);
    return mean < 1e-5 ? 1e-5 : mean; /* a NaN stays NaN */
}

/* Rounds each number to the nearest of -s, 0 and s. A number half-way, at s / 2, becomes 0. */
static void make_ternary(float *row, uint64_t n, double s)
{
    for (uint64_t c = 0; c < n; c++) {
        double x = (double)row[c] / s;
        row[c] = (float)(x > 0.5 ? s : x < -0.5 ? -s : 0);
    }
}

/* Row r of a target with IMPORT_TURNED: a column of an expert's matrix, or an expert's bias. */
static void read_turned(const struct import_target *t, uint64_t r, float *row)
{
    const struct tft_dtype_info *info = tft_dtype_info(t->tensor->type);
    bool matrix = t->n_dims == 3;
    unsigned how = t->rule->how;
    uint64_t step = how & (IMPORT_GATE | IMPORT_UP) ? 2 : 1, begin = how & IMPORT_UP ? 1 : 0,
             rows = matrix ? t->ne[1] : 1, e = r / rows;
    for (uint64_t c = 0; c < t->cols; c++) {
        uint64_t at = matrix ? (e * t->cols + c) * rows * step + r % rows * step + begin
                             : e * t->cols * step + c * step + begin;
        info->to_f32(&row[c], t->data + at * info->bytes, 1);
    }
}

/* ---- codes */

bool import_codes_open(struct import *im, struct import_codes *s, uint64_t cols)
{
    s->code = malloc((size_t)cols * sizeof *s->code);
    s->scale = malloc((size_t)cols * sizeof *s->scale);
    s->spare = malloc((size_t)cols * sizeof *s->spare);
    if (!s->code || !s->scale || !s->spare)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    return s->code && s->scale && s->spare;
}

void import_codes_close(struct import_codes *s)
{
    free(s->code);
    free(s->scale);
    free(s->spare);
}

/* The row of a quantized matrix with IMPORT_TURNED: outputs are its rows, and gate and up take
   turns. */
static uint64_t halves_row(const struct import_target *t, uint64_t r)
{
    unsigned how = t->rule->how;
    uint64_t step = how & (IMPORT_GATE | IMPORT_UP) ? 2 : 1;
    return r * step + (how & IMPORT_UP ? 1 : 0);
}

/* The tensor of the folder with row r of the target; *row is the row of it. */
static const struct safetensor *source(const struct import *im, const char *prefix,
                                       const struct import_target *t, uint64_t r, uint64_t *row,
                                       const unsigned char **data)
{
    char name[IMPORT_MOST_NAME];
    *data = t->data;
    *row = r;
    if (t->rule->how & IMPORT_TURNED && t->tensor->matrix) {
        *row = halves_row(t, r);
        return t->tensor;
    }
    if (!(t->rule->how & IMPORT_STACK)) {
        *row = import_source_row(im, t, r);
        if (t->rule->how & IMPORT_PADDED && *row >= t->tensor->ne[1])
            *row = 0;
        return t->tensor;
    }
    uint64_t of_one = t->rows / import_dimension(im, t->rule->shape[0]);
    *row = r % of_one;
    return import_find_rule(im, prefix, t->rule, t->layer, (unsigned)(r / of_one), name, data);
}

/* Heads of a delta net's values, in the order of the GGUF file. */
static void sort_columns(const struct import *im, float *row, float *spare, uint64_t cols)
{
    uint64_t dim = im->delta.dim;
    memcpy(spare, row, (size_t)cols * sizeof *row);
    for (uint64_t j = 0; j < im->delta.v_heads; j++)
        memcpy(row + j * dim, spare + source_head(im, j) * dim, (size_t)dim * sizeof *row);
}

void import_read_codes(const struct import *im, const char *prefix, const struct import_target *t,
                       uint64_t r, struct import_codes *s)
{
    const unsigned char *data;
    uint64_t row;
    const struct safetensor *from = source(im, prefix, t, r, &row, &data);
    if (from->matrix) {
        import_matrix_row(from->matrix, row, s->code, s->scale);
    } else {
        const struct tft_dtype_info *info = tft_dtype_info(from->type);
        info->to_f32(s->code, data + row * t->cols * info->bytes, (size_t)t->cols);
        for (uint64_t c = 0; c < t->cols; c++)
            s->scale[c] = 1;
    }
    if (t->rule->how & IMPORT_V_COLUMNS) {
        sort_columns(im, s->code, s->spare, t->cols);
        sort_columns(im, s->scale, s->spare, t->cols);
    }
}

/* ---- floats */

/* Reads row r of the target as floats: row[cols]. */
static void read_row(const struct import *im, const char *prefix, const struct import_target *t,
                     uint64_t r, struct import_codes *s, float *row)
{
    const struct tft_dtype_info *info = tft_dtype_info(t->tensor->type);
    const unsigned char *data;
    uint64_t at;
    const struct safetensor *from = source(im, prefix, t, r, &at, &data);
    if (from->matrix) {
        import_read_codes(im, prefix, t, r, s);
        for (uint64_t c = 0; c < t->cols; c++)
            row[c] = s->code[c] * s->scale[c];
    } else if (t->rule->how & IMPORT_TURNED) {
        read_turned(t, r, row);
    } else if (t->rule->how & IMPORT_TRANSPOSE) {
        for (uint64_t c = 0; c < t->cols; c++)
            info->to_f32(&row[c], t->data + (c * t->rows + r) * info->bytes, 1);
    } else if (t->rule->how & IMPORT_V_COLUMNS) {
        uint64_t dim = im->delta.dim;
        for (uint64_t j = 0; j < im->delta.v_heads; j++)
            info->to_f32(row + j * dim,
                         t->data + (r * t->cols + source_head(im, j) * dim) * info->bytes,
                         (size_t)dim);
    } else {
        info = tft_dtype_info(from->type);
        info->to_f32(row, data + at * t->cols * info->bytes, (size_t)t->cols);
    }
    bool plus_1 = im->arch->norm_plus_1 && import_ends(t->name, "norm.weight") &&
                  !import_ends(t->name, "ssm_norm.weight");
    for (uint64_t c = 0; c < t->cols && plus_1; c++)
        row[c] += 1;
    for (uint64_t c = 0; c < t->cols && t->rule->how & IMPORT_MINUS_EXP; c++)
        row[c] = -(float)tft_exp((double)row[c]);
    double factor = im->arch->factor ? im->arch->factor(im, t->rule->to, r) : 1;
    for (uint64_t c = 0; c < t->cols && factor != 1; c++)
        row[c] = (float)((double)row[c] * factor);
}

static void refuse_infinite(struct import *im, const struct import_target *t, const float *row,
                            uint64_t n)
{
    for (uint64_t c = 0; c < n; c++)
        if (!isfinite(row[c])) {
            import_fail(im, TFT_ERR_FORMAT, "%s: NaN or infinity in tensor \"%s\"",
                        im->folder.path, t->from);
            return;
        }
}

void import_check_codes(struct import *im, const struct import_target *t,
                        const struct import_codes *s)
{
    for (uint64_t c = 0; c < t->cols; c++)
        refuse_infinite(im, t, &(float){s->code[c] * s->scale[c]}, 1);
}

enum tft_dtype import_type_of_codes(struct import *im, const char *prefix,
                                    const struct import_target *t)
{
    struct import_blocks b = import_blocks_all(t->cols, t->factor);
    struct import_codes s;
    bool more = import_codes_open(im, &s, t->cols);
    for (uint64_t r = 0; r < t->rows && more && im->status == TFT_OK; r++) {
        import_read_codes(im, prefix, t, r, &s);
        import_check_codes(im, t, &s);
        more = import_blocks_see(&b, s.code, s.scale, t->cols);
    }
    import_codes_close(&s);
    return import_blocks_type(&b);
}

void import_write_row(struct import *im, const struct import_target *t, const float *row,
                      uint16_t *half)
{
    if (t->type == TFT_F32) {
        tft_gguf_put_data(im->gguf, row, (size_t)t->cols * sizeof *row);
        return;
    }
    for (uint64_t c = 0; c < t->cols; c++) {
        half[c] = t->type == TFT_F16 ? tft_f32_to_f16(row[c]) : tft_f32_to_bf16(row[c]);
        if (t->type == TFT_F16 && fabsf(row[c]) >= 65520)
            import_fail(im, TFT_ERR_UNSUPPORTED,
                        "%s: tensor \"%s\" has numbers too large for f16: use --type bf16",
                        im->folder.path, t->from);
    }
    tft_gguf_put_data(im->gguf, half, (size_t)t->cols * sizeof *half);
}

void import_forget_source(const struct import *im, const char *prefix,
                          const struct import_target *t)
{
    char name[IMPORT_MOST_NAME];
    const unsigned char *data;
    uint64_t n = t->rule->how & IMPORT_STACK ? import_dimension(im, t->rule->shape[0]) : 1;
    for (uint64_t i = 0; i < n; i++)
        if (import_find_rule(im, prefix, t->rule, t->layer, (unsigned)i, name, &data))
            import_folder_forget(&im->folder, name);
}

bool import_goes_on(const struct import *im)
{
    return im->status == TFT_OK && !tft_gguf_failed(im->gguf);
}

/* Rows of floats, or of codes as the folder has them. */
static void write_rows(struct import *im, const char *prefix, const struct import_target *t,
                       struct import_codes *s, float *row, void *coded)
{
    bool ternary = t->rule->how & IMPORT_TERNARY && im->is_ternary;
    double size = ternary ? mean_size(t, row) : 0;
    uint64_t bytes = 0;
    tft_dtype_bytes(t->type, t->cols, &bytes);
    refuse_infinite(im, t, &(float){(float)size}, 1);
    for (uint64_t r = 0; r < t->rows && import_goes_on(im); r++) {
        if (import_blocks_has(t->type)) {
            import_read_codes(im, prefix, t, r, s);
            import_blocks_row(coded, t->type, s->code, s->scale, t->cols, t->factor);
            tft_gguf_put_data(im->gguf, coded, (size_t)bytes);
            continue;
        }
        read_row(im, prefix, t, r, s, row);
        if (ternary)
            make_ternary(row, t->cols, size);
        refuse_infinite(im, t, row, t->cols);
        import_write_row(im, t, row, coded);
    }
}

void import_write_data(struct import *im, const char *prefix, const struct import_target *t)
{
    struct import_codes s;
    float *row = malloc((size_t)t->cols * sizeof *row);
    void *coded = malloc((size_t)t->cols * 2); /* f16, or blocks, which are smaller */
    if (!row || !coded)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    if (import_codes_open(im, &s, t->cols) && import_goes_on(im))
        write_rows(im, prefix, t, &s, row, coded);
    import_codes_close(&s);
    free(row);
    free(coded);
    import_forget_source(im, prefix, t);
}
