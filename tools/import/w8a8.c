#include "w8a8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "model/keys.h"
#include "model/model.h"
#include "simd/low_panel.h"
#include "simd/panel.h"
#include "weights/format.h"

/* -------------------------------------------------------------------------------- architectures */

static bool is_vector(const struct import_tensor *rule) { return strlen(rule->shape) == 1; }

/* One matrix of the folder is one matrix of the file, in the same columns. */
static bool is_plain(const struct import_tensor *rule)
{
    return !(rule->how & ~(unsigned)(IMPORT_MAY_MISS | IMPORT_HEAD | IMPORT_Q | IMPORT_K)) &&
           strspn(rule->shape, "DFQKV") == strlen(rule->shape);
}

bool import_w8a8_fits(const struct import *im)
{
    if (im->arch->layer || im->n_expert)
        return false;
    for (const struct import_tensor *const *list = im->arch->tensors; *list; list++)
        for (const struct import_tensor *rule = *list; rule->from; rule++)
            if (!is_vector(rule) && !is_plain(rule))
                return false;
    return true;
}

bool import_w8a8_is_matrix(const struct import_target *t) { return !is_vector(t->rule); }

/* --------------------------------------------------------------------------------------- inputs */

void import_w8a8_begin(struct import *im)
{
    im->n_inputs = (size_t)im->n_layer * TFT_LAYER_INPUTS + 1;
    im->input = malloc(im->n_inputs * sizeof *im->input);
    if (!im->input)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t i = 0; i < im->n_inputs && im->input; i++)
        im->input[i] = (struct import_input){.scale = 1, .zero = 128};
}

void import_w8a8_free(struct import *im)
{
    free(im->input);
    im->input = NULL;
}

/* The input of a target; NULL: it is the embedding. */
static struct import_input *input_of(const struct import *im, const struct import_target *t)
{
    static const struct {
        const char *to;
        uint32_t which;
    } inputs[] = {
        {"blk.%u.attn_q.weight", TFT_IN_ATTN},   {"blk.%u.attn_k.weight", TFT_IN_ATTN},
        {"blk.%u.attn_v.weight", TFT_IN_ATTN},   {"blk.%u.attn_output.weight", TFT_IN_O},
        {"blk.%u.ffn_gate.weight", TFT_IN_FFN},  {"blk.%u.ffn_up.weight", TFT_IN_FFN},
        {"blk.%u.ffn_down.weight", TFT_IN_DOWN},
    };
    if (strcmp(t->rule->to, "output.weight") == 0)
        return &im->input[im->n_layer * TFT_LAYER_INPUTS];
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (strcmp(t->rule->to, inputs[i].to) == 0)
            return &im->input[t->layer * TFT_LAYER_INPUTS + inputs[i].which];
    return NULL;
}

static float low_end(const struct import_input *in) { return (float)-in->zero * in->scale; }

static float high_end(const struct import_input *in) { return (float)(255 - in->zero) * in->scale; }

static bool contains(const struct import_input *a, const struct import_input *b)
{
    return low_end(a) <= low_end(b) && high_end(a) >= high_end(b);
}

/* The range of both. Matrices of one input have one range as a rule. */
static struct import_input both(const struct import_input *a, const struct import_input *b)
{
    float low = fminf(low_end(a), low_end(b)),
          scale = (fmaxf(high_end(a), high_end(b)) - low) / 255;
    return (struct import_input){scale, (int)rintf(-low / scale), true, true};
}

static void add_range(struct import_input *in, struct import_input range)
{
    bool same = !in->is_static || (in->scale == range.scale && in->zero == range.zero),
         mixed = in->mixed || !same;
    if (!in->is_static || contains(&range, in))
        *in = range;
    else if (!contains(in, &range))
        *in = both(in, &range);
    in->mixed = mixed;
}

/* Takes the static range of the target's inputs. 0 stands for none. */
static void take_range(struct import *im, const struct import_target *t)
{
    const struct import_matrix *m = t->tensor->matrix;
    struct import_input *in = input_of(im, t);
    if (!m || !m->input.t || !in)
        return;
    float scale = import_part_number(&m->input);
    int zero = m->input_zero.t ? (int8_t)m->input_zero.data[0] : 0;
    if (scale != 0 && !(scale >= FLT_MIN && (double)scale <= TFT_INPUT_SCALE_MAX))
        import_fail(im, TFT_ERR_FORMAT, "%s: the range of the inputs of \"%s\" is no range",
                    im->folder.path, t->from);
    else if (scale != 0)
        add_range(in, (struct import_input){scale, zero + 128, true, false});
}

/* ----------------------------------------------------------------------------------------- rows */

/* Whether a row is codes of int8 with one scale, which panels hold: -128 becomes -127. */
static bool is_codes(const struct import_codes *s, uint64_t n)
{
    if (!(s->scale[0] >= FLT_MIN && s->scale[0] <= FLT_MAX))
        return false;
    for (uint64_t c = 0; c < n; c++)
        if (s->scale[c] != s->scale[0] || s->code[c] != rintf(s->code[c]) || s->code[c] < -128 ||
            s->code[c] > 127)
            return false;
    return true;
}

unsigned import_w8a8_plan(struct import *im, const char *prefix, const struct import_target *t)
{
    struct import_codes s;
    float low = 0, high = 0;
    bool fits = t->tensor->matrix;
    take_range(im, t);
    if (t->cols > TFT_PANEL_MAX_K)
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\" has rows of more than %d numbers",
                    im->folder.path, t->from, TFT_PANEL_MAX_K);
    fits = import_codes_open(im, &s, t->cols) && fits;
    for (uint64_t r = 0; r < t->rows && fits && im->status == TFT_OK; r++) {
        import_read_codes(im, prefix, t, r, &s);
        fits = is_codes(&s, t->cols);
        for (uint64_t c = 0; c < t->cols; c++) {
            low = fminf(low, s.code[c]);
            high = fmaxf(high, s.code[c]);
        }
        fits = fits && low >= -8 && high <= 7;
    }
    import_codes_close(&s);
    return !fits ? 8 : low >= -2 && high <= 1 ? 2 : low >= -4 && high <= 3 ? 3 : 4;
}

static void measure(struct import_loss *loss, const struct import_codes *s, const int8_t *q,
                    float scale, uint64_t n)
{
    double largest = 0, off = 0;
    for (uint64_t c = 0; c < n; c++) {
        double w = (double)(s->code[c] * s->scale[c]), e = w - (double)q[c] * (double)scale;
        largest = fmax(largest, fabs(w));
        off = fmax(off, fabs(e));
        loss->all += w * w;
        loss->error += e * e;
    }
    if (largest > 0)
        loss->largest = fmax(loss->largest, off / largest);
}

/* Returns the row's scale; q: [n]. */
static float round_row(const struct import_codes *s, uint64_t n, int8_t *q,
                       struct import_loss *loss)
{
    if (is_codes(s, n)) {
        uint64_t before = loss->ends;
        for (uint64_t c = 0; c < n; c++) {
            loss->ends += s->code[c] == -128;
            q[c] = (int8_t)(s->code[c] == -128 ? -127 : s->code[c]);
        }
        if (loss->ends > before)
            measure(loss, s, q, s->scale[0], n);
        return s->scale[0];
    }
    float most = 0;
    for (uint64_t c = 0; c < n; c++)
        most = fmaxf(most, fabsf(s->code[c] * s->scale[c]));
    float scale = most > 0 ? fmaxf(most / 127, FLT_MIN) : 1; /* as tuffet quantize does */
    for (uint64_t c = 0; c < n; c++)
        q[c] = (int8_t)fmaxf(-127, fminf(127, rintf(s->code[c] * s->scale[c] / scale)));
    loss->codes |= most > 0;
    measure(loss, s, q, scale, n);
    return scale;
}

/* --------------------------------------------------------------------------------------- panels */

unsigned import_w8a8_group(uint64_t cols)
{
    return cols % 128 == 0 ? 128 : cols % 64 == 0 ? 64 : 32;
}

static const struct tft_low *low_of(const struct import_target *t)
{
    return t->bits < 8 ? tft_format_low(t->bits, import_w8a8_group(t->cols))->low : NULL;
}

/* Bytes of a panel. */
static uint64_t panel_bytes(const struct import_target *t)
{
    size_t cols = tft_panel_cols((size_t)t->cols);
    return t->bits < 8 ? tft_low_panel(low_of(t), cols) : TFT_PANEL * cols;
}

/* q: [rows, cols] */
static void put_int8(unsigned char *to, const struct import_target *t, const int8_t *q, size_t rows)
{
    size_t cols = (size_t)t->cols, padded = tft_panel_cols(cols);
    memset(to, 0, TFT_PANEL * padded);
    for (size_t n = 0; n < rows; n++)
        for (size_t k = 0; k < cols; k++)
            to[tft_panel_at(n, k, padded)] = (unsigned char)q[n * cols + k];
}

/* The same as codes: q = 1 * (code - 2^(bits - 1)). */
static void put_low(unsigned char *to, const struct import_target *t, const int8_t *q, size_t rows)
{
    const struct tft_low *low = low_of(t);
    size_t cols = (size_t)t->cols, groups = tft_low_groups(low, tft_panel_cols(cols));
    int zero = 1 << (t->bits - 1);
    for (size_t g = 0; g < groups; g++, to += tft_low_group_bytes(low)) {
        uint8_t quads[TFT_LOW_MAX_GROUP * TFT_PANEL] = {0};
        size_t first = g * low->group, end = first + low->group < cols ? first + low->group : cols;
        for (size_t n = 0; n < TFT_PANEL; n++)
            to[n] = (unsigned char)(n < rows ? 1 | zero << 4 : 1);
        for (size_t n = 0; n < rows; n++)
            for (size_t k = first; k < end; k++)
                quads[tft_panel_at(n, k - first, low->group)] = (uint8_t)(q[n * cols + k] + zero);
        tft_codes_pack(to + TFT_PANEL, quads, low->bits, low->group / TFT_QUAD);
    }
}

struct panels {
    struct import_codes s;
    int8_t *q;            /* [16, cols] */
    unsigned char *panel; /* [panel_bytes] */
    float *scale;         /* [rows, padded] */
    int32_t *rowsum;      /* likewise */
};

static bool open_panels(struct import *im, struct panels *p, const struct import_target *t)
{
    size_t rows = tft_panel_rows((size_t)t->rows);
    *p = (struct panels){.q = malloc(TFT_PANEL * (size_t)t->cols),
                         .panel = malloc((size_t)panel_bytes(t)),
                         .scale = malloc(rows * sizeof *p->scale),
                         .rowsum = calloc(rows, sizeof *p->rowsum)};
    bool good = import_codes_open(im, &p->s, t->cols);
    if (!p->q || !p->panel || !p->scale || !p->rowsum)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    return good && im->status == TFT_OK;
}

static void close_panels(struct panels *p)
{
    import_codes_close(&p->s);
    free(p->q);
    free(p->panel);
    free(p->scale);
    free(p->rowsum);
}

/* The panel of rows from `first` on. */
static void put_panel(struct import *im, const char *prefix, const struct import_target *t,
                      struct panels *p, size_t first, struct import_loss *loss)
{
    size_t cols = (size_t)t->cols, n = 0;
    for (; n < TFT_PANEL && first + n < t->rows; n++) {
        int8_t *q = p->q + n * cols;
        import_read_codes(im, prefix, t, first + n, &p->s);
        import_check_codes(im, t, &p->s);
        if (im->status != TFT_OK)
            return;
        p->scale[first + n] = round_row(&p->s, cols, q, loss);
        for (size_t k = 0; k < cols; k++)
            p->rowsum[first + n] += q[k];
    }
    for (size_t i = n; i < TFT_PANEL; i++)
        p->scale[first + i] = 1;
    (t->bits < 8 ? put_low : put_int8)(p->panel, t, p->q, n);
    tft_gguf_put_data(im->gguf, p->panel, (size_t)panel_bytes(t));
}

void import_w8a8_write(struct import *im, const char *prefix, const struct import_target *t,
                       struct import_loss *loss)
{
    size_t rows = tft_panel_rows((size_t)t->rows);
    struct panels p;
    *loss = (struct import_loss){0};
    if (open_panels(im, &p, t))
        for (size_t r = 0; r < t->rows && import_goes_on(im); r += TFT_PANEL)
            put_panel(im, prefix, t, &p, r, loss);
    if (import_goes_on(im)) {
        tft_gguf_put_data(im->gguf, p.scale, rows * sizeof *p.scale);
        tft_gguf_put_data(im->gguf, p.rowsum, rows * sizeof *p.rowsum);
    }
    close_panels(&p);
    import_forget_source(im, prefix, t);
}

/* ------------------------------------------------------------------------- values, descriptions */

static void describe(struct import *im, const struct import_target *t, const char *end,
                     enum tft_dtype type, uint32_t n_dims, const uint64_t *ne)
{
    char name[96];
    int stem = (int)(strlen(t->name) - strlen("weight"));
    int n = snprintf(name, sizeof name, "%.*s%s", stem, t->name, end);
    tft_gguf_put_tensor(im->gguf, (struct tft_str){name, (size_t)n}, type, n_dims, ne);
}

uint64_t import_w8a8_describe(struct import *im, const struct import_target *t)
{
    uint64_t rows = tft_panel_rows((size_t)t->rows), cols = tft_panel_cols((size_t)t->cols),
             panels = rows / TFT_PANEL;
    const uint64_t int8[] = {cols, rows}, low[] = {panel_bytes(t), panels};
    describe(im, t, "weight", TFT_I8, 2, t->bits < 8 ? low : int8);
    describe(im, t, "scale", TFT_F32, 1, &rows);
    describe(im, t, "rowsum", TFT_I32, 1, &rows);
    return panels * panel_bytes(t) + rows * (sizeof(float) + sizeof(int32_t));
}

static void put_inputs(struct import *im, float *scale, uint8_t *zero, uint8_t *range)
{
    for (size_t i = 0; i < im->n_inputs; i++) {
        const struct import_input *in = &im->input[i];
        scale[i] = in->scale;
        zero[i] = (uint8_t)in->zero;
        range[i] = in->is_static ? TFT_RANGE_STATIC : TFT_RANGE_TOKEN;
    }
    tft_gguf_put_array(im->gguf, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, scale, im->n_inputs);
    tft_gguf_put_array(im->gguf, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, zero, im->n_inputs);
    tft_gguf_put_array(im->gguf, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, range, im->n_inputs);
}

void import_w8a8_values(struct import *im, const int32_t *codes, size_t n)
{
    static const char weights[] = "int8 per channel";
    float *scale = malloc(im->n_inputs * sizeof *scale);
    uint8_t *bytes = malloc(2 * im->n_inputs);
    if (!scale || !bytes)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    tft_gguf_put_u32(im->gguf, "general.alignment", 64); /* a cache line */
    tft_gguf_put_u32(im->gguf, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_checksum(im->gguf, TFT_CHECKSUM_KEY);
    tft_gguf_put_u32(im->gguf, TFT_KEY_VOCAB, (uint32_t)im->n_vocab);
    tft_gguf_put_str(im->gguf, TFT_KEY_WEIGHTS, (struct tft_str){weights, sizeof weights - 1});
    tft_gguf_put_array(im->gguf, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, codes, n);
    if (scale && bytes)
        put_inputs(im, scale, bytes, bytes + im->n_inputs);
    free(scale);
    free(bytes);
}
