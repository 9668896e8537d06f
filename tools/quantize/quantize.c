#include "quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"
#include "error.h"
#include "gguf.h"
#include "layers.h"
#include "pack.h"
#include "quantized.h"
#include "rotate.h"
#include "smooth.h"

struct work {
    struct tft_model *m;
    const struct quantize_opts *o;
    struct quantize_input *result;
    struct layers y;
    struct tft_gguf_writer *w;
    bool describe; /* the tensors are only named yet */
    bool stopped;
    uint32_t layers_done, runs; /* and runs of the next layer over the text */
    struct tft_error bad; /* the first problem */

    struct stats *stats; /* [TFT_LAYER_INPUTS, threads] of the layer in hand; the head's are at TFT_IN_ATTN */
    bool plain;          /* they are shown what comes by as it is, untransformed */
    float *smooth[2];    /* [D] what the inputs of attention and of the FFN are divided by */
    uint16_t *prefix_k, *prefix_v; /* [n_layer, n_prefix, G, E] */

    size_t widest; /* vector of the model, and */
    float *row;    /* [threads + 1, widest] room for some */
    float *rows;   /* [16, widest row of a matrix] */
    int8_t *panel; /* likewise, padded */
    float *scale[LAYER_MATS];    /* [most rows, padded] */
    int32_t *rowsum[LAYER_MATS]; /* likewise */
    uint64_t scale_place, zero_place, range_place, error_place; /* of the inputs' arrays in the file */
};

static bool failed(const struct work *k)
{
    return k->bad.code != TFT_OK || k->stopped;
}

uint32_t quantize_head_block(const struct tft_model *m)
{
    return (uint32_t)rotate_block(m->head_dim);
}

/* Eight blocks at least, so that threads can share them. */
uint32_t quantize_down_block(const struct tft_model *m)
{
    uint32_t block = (uint32_t)rotate_block(m->n_ff);
    while (block > 1 && m->n_ff / block < 8)
        block /= 2;
    return block;
}

static uint32_t head_block(const struct work *k)
{
    return k->o->rotate == QUANTIZE_ROTATE_NONE ? 0 : quantize_head_block(k->m);
}

static uint32_t down_block(const struct work *k)
{
    return k->o->rotate == QUANTIZE_ROTATE_O_DOWN ? quantize_down_block(k->m) : 0;
}

static struct stats *stats_of(const struct work *k, uint32_t which, int tid)
{
    return &k->stats[which * (uint32_t)k->y.s->n_threads + (uint32_t)tid];
}

static size_t prefix_numbers(const struct work *k)
{
    return (size_t)k->m->n_layer * k->o->n_prefix * k->m->n_head_kv * k->m->head_dim;
}

/* ------------------------------------------------------------------------------------------------ watching */

static size_t input_width(const struct tft_model *m, uint32_t which)
{
    return which == TFT_IN_O ? (size_t)m->n_head * m->head_dim : which == TFT_IN_DOWN ? m->n_ff : m->n_embd;
}

/* As the quantized model's linear layer will get it. */
static void transform(const struct work *k, uint32_t which, float *x, size_t n)
{
    uint32_t block = which == TFT_IN_O ? head_block(k) : which == TFT_IN_DOWN ? down_block(k) : 0;
    if (which == TFT_IN_ATTN || which == TFT_IN_FFN) {
        const float *s = k->smooth[which == TFT_IN_FFN];
        for (size_t j = 0; j < n; j++)
            x[j] /= s[j];
    }
    if (block)
        k->m->kern.hadamard(x, n, block);
    if (which == TFT_IN_O && block)
        k->m->kern.scale(x, 1 / sqrtf((float)block), n);
}

static void watch(void *user, int tid, const struct tft_input *in, size_t first, size_t n, const float *rows, size_t stride)
{
    (void)first;
    const struct work *k = user;
    uint32_t which = in->index % TFT_LAYER_INPUTS;
    size_t width = input_width(k->m, which);
    float *x = k->row + (size_t)tid * k->widest;
    for (size_t i = 0; i < n; i++) {
        memcpy(x, rows + i * stride, width * sizeof *x);
        if (!k->plain)
            transform(k, which, x, width);
        stats_add(stats_of(k, which, tid), x, 1, width);
    }
}

/* All threads' statistics of an input together, which are cleared from the others. */
static struct stats *gathered(const struct work *k, uint32_t which)
{
    struct stats *s = stats_of(k, which, 0);
    for (int i = 1; i < k->y.s->n_threads; i++) {
        stats_merge(s, stats_of(k, which, i));
        stats_clear(stats_of(k, which, i));
    }
    return s;
}

static void forget(const struct work *k)
{
    for (uint32_t which = 0; which < TFT_LAYER_INPUTS; which++)
        for (int i = 0; i < k->y.s->n_threads; i++)
            stats_clear(stats_of(k, which, i));
}

const char *quantize_part_name(uint32_t which)
{
    static const char *const part[TFT_LAYER_INPUTS] = {
        [TFT_IN_ATTN] = "attn_q", [TFT_IN_O] = "attn_output", [TFT_IN_FFN] = "ffn_up", [TFT_IN_DOWN] = "ffn_down"};
    return part[which];
}

const char *quantize_input_name(uint32_t n_layer, uint32_t index, char name[64])
{
    if (index == n_layer * TFT_LAYER_INPUTS)
        snprintf(name, 64, "output");
    else
        snprintf(name, 64, "blk.%u.%s", index / TFT_LAYER_INPUTS, quantize_part_name(index % TFT_LAYER_INPUTS));
    return name;
}

/* Scale and zero-point of an input from what was seen of it. */
static void settle(struct work *k, uint32_t index)
{
    char name[64];
    struct stats *s = gathered(k, index % TFT_LAYER_INPUTS);
    struct quantize_input *r = &k->result[index];
    if (!stats_affine(s, k->o->method, k->o->param, &r->affine)) {
        tft_fail(&k->bad, TFT_ERR_FORMAT, "%s: NaN or infinity at the input of %s", k->m->source.name,
                 quantize_input_name(k->m->n_layer, index, name));
        return;
    }
    r->error = stats_error(s, &r->affine);
    for (size_t j = 0; j < s->n_channel; j++) {
        r->min = s->min[j] < r->min ? s->min[j] : r->min;
        r->max = s->max[j] > r->max ? s->max[j] : r->max;
    }
}

/* ------------------------------------------------------------------------------------------------ folding */

/* While a layer is loaded its matrices are ours to change. */
static float *numbers(const struct tft_linear *l)
{
    return (float *)(uintptr_t)l->w.data;
}

/* The linear layers that share one of the two inputs that come out of a norm. */
static size_t readers(struct tft_block *b, uint32_t which, struct tft_linear *l[3])
{
    if (which == TFT_IN_ATTN) {
        l[0] = &b->q, l[1] = &b->k, l[2] = &b->v;
        return 3;
    }
    l[0] = &b->up, l[1] = &b->gate;
    return b->gate.w.rows ? 2 : 1;
}

static void smooth_input(struct work *k, struct tft_block *b, uint32_t which)
{
    struct tft_linear *l[3];
    size_t n = readers(b, which, l), d = k->m->n_embd;
    float *w_max = k->row, *x_max = k->row + k->widest;
    memset(w_max, 0, d * sizeof *w_max);
    for (size_t i = 0; i < n; i++)
        smooth_columns_max(w_max, numbers(l[i]), d, l[i]->w.rows, d);
    stats_absmax(gathered(k, which), x_max);
    smooth_factors(k->smooth[which == TFT_IN_FFN], x_max, w_max, d, k->o->smooth);
}

/* The layer runs once more, to see what its inputs are before they are smoothed. */
static void choose_smooth(struct work *k, struct tft_block *b, uint32_t l)
{
    if (k->o->smooth == 0)
        return;
    k->plain = true;
    layers_run(&k->y, l, true);
    k->plain = false;
    k->runs = 1;
    smooth_input(k, b, TFT_IN_ATTN);
    smooth_input(k, b, TFT_IN_FFN);
    forget(k);
}

/* Changes the layer's matrices so that they undo what happens to their inputs. */
static void fold(struct work *k, struct tft_block *b)
{
    static const uint32_t from_norm[] = {TFT_IN_ATTN, TFT_IN_FFN};
    uint32_t head = head_block(k), down = down_block(k);
    struct tft_linear *l[3];
    for (int i = 0; i < 2 && k->o->smooth > 0; i++)
        for (size_t j = 0, n = readers(b, from_norm[i], l); j < n; j++)
            smooth_columns(numbers(l[j]), l[j]->w.cols, l[j]->w.rows, l[j]->w.cols, k->smooth[i]);
    if (head) {
        rotate_rows(numbers(&b->v), b->v.w.cols, b->v.w.rows, b->v.w.cols, head);
        rotate_columns(numbers(&b->o), b->o.w.cols, b->o.w.rows, b->o.w.cols, head);
    }
    if (down)
        rotate_columns_online(numbers(&b->down), b->down.w.cols, b->down.w.rows, b->down.w.cols, down);
}

/* Keys and values that the layer has for the prefix; values as its rotated weights would make them. */
static void take_prefix(struct work *k, uint32_t l)
{
    size_t dim = k->m->head_dim, rows = (size_t)k->o->n_prefix * k->m->n_head_kv, at = l * rows * dim;
    layers_prefix(&k->y, l, k->prefix_k + at, k->prefix_v + at);
    if (!head_block(k))
        return;
    float *row = k->row;
    for (size_t i = 0; i < rows; i++) {
        k->m->kern.widen[TFT_NUM_F16](row, k->prefix_v + at + i * dim, dim);
        rotate_columns(row, dim, 1, dim, head_block(k));
        k->m->kern.narrow[TFT_NUM_F16](k->prefix_v + at + i * dim, row, dim);
    }
}

static const char *const mat_names[LAYER_MATS] = {
    "blk.%u.attn_q", "blk.%u.attn_k", "blk.%u.attn_v", "blk.%u.attn_output", "blk.%u.ffn_gate", "blk.%u.ffn_up", "blk.%u.ffn_down"};

static bool bad_row(struct work *k, const char *fmt, unsigned layer, size_t row, size_t found, size_t rows)
{
    char name[64];
    snprintf(name, sizeof name, fmt, layer);
    if (found < rows)
        tft_fail(&k->bad, TFT_ERR_FORMAT, "%s: NaN or infinity among the weights of %s, row %zu", k->m->source.name, name, row + found);
    return found < rows;
}

/* Before they spoil what is computed with them. */
static void check_weights(struct work *k, struct tft_block *b, uint32_t layer)
{
    for (int i = 0; i < LAYER_MATS && !failed(k); i++) {
        const struct tft_linear *l = layers_linear(b, i);
        if (l)
            bad_row(k, mat_names[i], layer, 0, pack_max(k->scale[0], numbers(l), l->w.cols, l->w.rows, l->w.cols), l->w.rows);
    }
}

/* Takes layer l through everything but the writing. */
static void work_layer(struct work *k, uint32_t l)
{
    struct tft_block *b = &k->m->block[l];
    layers_load(&k->y, l);
    check_weights(k, b, l);
    if (!failed(k))
        choose_smooth(k, b, l);
    if (!failed(k))
        layers_run(&k->y, l, false);
    for (uint32_t i = 0; i < TFT_LAYER_INPUTS && !failed(k); i++)
        settle(k, l * TFT_LAYER_INPUTS + i);
    forget(k);
    if (failed(k))
        return;
    take_prefix(k, l);
    fold(k, b);
}

/* ------------------------------------------------------------------------------------------------ writing */

static void progress(struct work *k, double done)
{
    if (k->o->progress && !k->o->progress(k->o->user, done))
        k->stopped = true;
}

/* A window of a layer, which smoothing takes two runs over all of them, or of the head, which counts as one. */
static bool step(void *user, double done)
{
    struct work *k = user;
    double runs = k->o->smooth > 0 && k->layers_done < k->m->n_layer ? 2 : 1;
    progress(k, (k->layers_done + (k->runs + done) / runs) / (k->m->n_layer + 1.0));
    return !k->stopped;
}

static void named(struct work *k, enum tft_dtype type, uint32_t n_dims, const uint64_t *ne, const char *fmt, unsigned layer, const char *suffix)
{
    char name[80];
    int n = snprintf(name, sizeof name, fmt, layer);
    n += snprintf(name + n, sizeof name - (size_t)n, "%s", suffix);
    tft_gguf_put_tensor(k->w, (struct tft_str){name, (size_t)n}, type, n_dims, ne);
}

/* v: [rows, n]; divide: [n] or NULL */
static void put_floats(struct work *k, const char *fmt, unsigned layer, const char *suffix, const float *v, size_t rows, size_t n,
                       const float *divide)
{
    if (!v)
        return;
    if (k->describe) {
        named(k, TFT_F32, rows > 1 ? 2 : 1, (const uint64_t[]){n, rows}, fmt, layer, suffix);
        return;
    }
    for (size_t i = 0; i < rows; i++) {
        float *copy = memcpy(k->row, v + i * n, n * sizeof *v);
        if (divide)
            smooth_divide(copy, divide, n);
        tft_gguf_put_data(k->w, copy, n * sizeof *v);
    }
}

static void put_vector(struct work *k, const char *fmt, unsigned layer, const char *suffix, const float *v, size_t n, const float *divide)
{
    put_floats(k, fmt, layer, suffix, v, 1, n, divide);
}

static void put_norm(struct work *k, const char *fmt, unsigned layer, const struct tft_norm *w, size_t n, const float *divide)
{
    put_vector(k, fmt, layer, ".weight", w->w, n, divide);
    put_vector(k, fmt, layer, ".bias", w->b, n, divide);
}

/* Row i of a matrix, wherever its numbers are now. */
static void get_rows(const struct work *k, const struct tft_mat *w, uint32_t first, uint32_t n, float *to)
{
    for (uint32_t i = 0; i < n; i++)
        tft_mat_row(k->m, w, first + i, to + (size_t)i * w->cols);
}

/* The largest weights of every row, then what they are to be scaled by. */
static void choose_scales(struct work *k, const char *fmt, unsigned layer, const struct tft_mat *w, float *scale)
{
    float top = 0;
    for (uint32_t i = 0; i < w->rows && !failed(k); i += TFT_PANEL) {
        uint32_t n = w->rows - i < TFT_PANEL ? w->rows - i : TFT_PANEL;
        get_rows(k, w, i, n, k->rows);
        bad_row(k, fmt, layer, i, pack_max(scale + i, k->rows, w->cols, n, w->cols), n);
    }
    for (uint32_t i = 0; i < w->rows; i++)
        top = scale[i] > top ? scale[i] : top;
    for (uint32_t i = 0; i < tft_panel_rows(w->rows); i++)
        scale[i] = pack_scale(i >= w->rows ? 0 : k->o->per_tensor ? top : scale[i]);
}

/* The panels of matrix `which`, whose scales and sums are kept for put_beside. */
static void put_panels(struct work *k, const char *fmt, unsigned layer, const struct tft_mat *w, int which)
{
    size_t cols = tft_panel_cols(w->cols);
    if (k->describe) {
        named(k, TFT_I8, 2, (const uint64_t[]){cols, tft_panel_rows(w->rows)}, fmt, layer, ".weight");
        return;
    }
    choose_scales(k, fmt, layer, w, k->scale[which]);
    for (uint32_t i = 0; i < w->rows && !failed(k); i += TFT_PANEL) {
        uint32_t n = w->rows - i < TFT_PANEL ? w->rows - i : TFT_PANEL;
        get_rows(k, w, i, n, k->rows);
        pack_panel(k->panel, k->rowsum[which] + i, k->scale[which] + i, k->rows, w->cols, n, w->cols);
        tft_gguf_put_data(k->w, k->panel, TFT_PANEL * cols);
    }
}

/* What goes with them. A bias of rotated rows is rotated too. */
static void put_beside(struct work *k, const char *fmt, unsigned layer, const struct tft_linear *l, int which, uint32_t rotated)
{
    const float *bias = l->bias;
    size_t rows = tft_panel_rows(l->w.rows);
    if (rotated && bias && !k->describe) {
        float *copy = memcpy(k->row + k->widest, bias, l->w.rows * sizeof *copy);
        rotate_columns(copy, l->w.rows, 1, l->w.rows, rotated);
        bias = copy;
    }
    put_vector(k, fmt, layer, ".scale", k->scale[which], rows, NULL);
    put_vector(k, fmt, layer, ".bias", bias, l->w.rows, NULL);
    if (k->describe)
        named(k, TFT_I32, 1, (const uint64_t[]){rows}, fmt, layer, ".rowsum");
    else
        tft_gguf_put_data(k->w, k->rowsum[which], rows * sizeof *k->rowsum[which]);
}

static void put_single(struct work *k, const char *name, const struct tft_mat *w)
{
    put_panels(k, name, 0, w, 0);
    if (!failed(k))
        put_beside(k, name, 0, &(struct tft_linear){.w = *w}, 0, 0);
}

/* Panels first, then all that is small: see quantized.h. */
static void put_block(struct work *k, uint32_t l)
{
    const struct tft_model *m = k->m;
    struct tft_block *b = &m->block[l];
    const float *attn = k->o->smooth > 0 ? k->smooth[0] : NULL, *ffn = k->o->smooth > 0 ? k->smooth[1] : NULL;
    for (int i = 0; i < LAYER_MATS && !failed(k); i++)
        if (layers_linear(b, i))
            put_panels(k, mat_names[i], l, &layers_linear(b, i)->w, i);
    for (int i = 0; i < LAYER_MATS && !failed(k); i++)
        if (layers_linear(b, i))
            put_beside(k, mat_names[i], l, layers_linear(b, i), i, i == MAT_V ? head_block(k) : 0);
    put_norm(k, "blk.%u.attn_norm", l, &b->attn_norm, m->n_embd, attn);
    put_norm(k, "blk.%u.attn_q_norm", l, &b->q_norm, m->head_dim, NULL);
    put_norm(k, "blk.%u.attn_k_norm", l, &b->k_norm, m->head_dim, NULL);
    put_norm(k, "blk.%u.ffn_norm", l, &b->ffn_norm, m->n_embd, ffn);
}

static void put_layer(struct work *k, uint32_t l)
{
    if (k->describe) {
        put_block(k, l);
        return;
    }
    work_layer(k, l);
    if (!failed(k))
        put_block(k, l);
    layers_unload(&k->y, l);
    k->layers_done++;
    k->runs = 0;
}

/* The head reads the embedding's panels where the two are one. */
static bool tied(const struct tft_model *m)
{
    return m->output.w.tensor == m->embed.tensor;
}

static void put_head(struct work *k)
{
    const struct tft_model *m = k->m;
    if (!k->describe) {
        for (int i = 0; i < 2; i++)
            for (uint32_t j = 0; j < m->n_embd; j++)
                k->smooth[i][j] = 1;
        layers_run_head(&k->y);
        if (!failed(k))
            settle(k, m->n_layer * TFT_LAYER_INPUTS);
    }
    if (failed(k))
        return;
    put_norm(k, "output_norm", 0, &m->out_norm, m->n_embd, NULL);
    if (!tied(m))
        put_single(k, "output", &m->output.w);
}

static void put_prefix(struct work *k)
{
    const struct tft_model *m = k->m;
    const uint64_t ne[4] = {m->head_dim, m->n_head_kv, k->o->n_prefix, m->n_layer};
    if (!k->o->n_prefix)
        return;
    if (k->describe) {
        named(k, TFT_F16, 4, ne, TFT_KEY_PREFIX_K, 0, "");
        named(k, TFT_F16, 4, ne, TFT_KEY_PREFIX_V, 0, "");
    } else {
        tft_gguf_put_data(k->w, k->prefix_k, prefix_numbers(k) * sizeof *k->prefix_k);
        tft_gguf_put_data(k->w, k->prefix_v, prefix_numbers(k) * sizeof *k->prefix_v);
    }
    put_vector(k, TFT_KEY_PREFIX_X, 0, "", k->y.prefix + (k->o->n_prefix - 1) * k->y.stride, m->n_embd, NULL);
}

/* Run once to name the tensors, and once to make and write them. */
static void put_tensors(struct work *k, bool describe)
{
    const struct tft_model *m = k->m;
    const struct tft_tensor *freqs = tft_source_tensor(&m->source, "rope_freqs.weight");
    k->describe = describe;
    put_single(k, "token_embd", &m->embed);
    put_floats(k, "position_embd", 0, ".weight", m->pos_embed.data, m->pos_embed.rows, m->pos_embed.cols, NULL);
    if (freqs)
        put_vector(k, "rope_freqs", 0, ".weight", (const float *)(const void *)freqs->data, (size_t)freqs->ne[0], NULL);
    for (uint32_t l = 0; l < m->n_layer && !failed(k); l++)
        put_layer(k, l);
    if (!failed(k))
        put_head(k);
    if (!failed(k))
        put_prefix(k);
}

/* ------------------------------------------------------------------------------------------------ values */

/* What says how the old file was written, a checksum of ours perhaps. */
static bool of_the_file(struct tft_str key)
{
    static const char *const some[] = {"general.alignment", "general.file_type", "general.quantization_version"}, ours[] = "tuffet.";
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (tft_str_is(key, some[i]))
            return true;
    return key.n >= sizeof ours - 1 && memcmp(key.p, ours, sizeof ours - 1) == 0;
}

static void put_text(struct work *k, const char *key, const char *text)
{
    tft_gguf_put_str(k->w, key, (struct tft_str){text, strlen(text)});
}

static void put_values(struct work *k)
{
    static const char *const methods[] = {"min-max", "percentile", "mse"};
    const struct quantize_opts *o = k->o;
    const struct tft_source *s = &k->m->source;
    uint32_t n = quantize_inputs(k->m);
    tft_gguf_put_u32(k->w, "general.alignment", 64); /* a cache line, and a quad of a panel */
    for (size_t i = 0; i < s->n_value; i++)
        if (!of_the_file(s->value[i].key))
            tft_gguf_put_value(k->w, &s->value[i]);

    tft_gguf_put_u32(k->w, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_checksum(k->w, TFT_CHECKSUM_KEY);
    tft_gguf_put_u32(k->w, TFT_KEY_VOCAB, k->m->n_vocab);
    put_text(k, TFT_KEY_WEIGHTS, o->per_tensor ? "int8 per tensor" : "int8 per channel");
    k->scale_place = tft_gguf_put_array_later(k->w, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, n);
    k->zero_place = tft_gguf_put_array_later(k->w, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, n);
    k->range_place = tft_gguf_put_array_later(k->w, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, n);
    k->error_place = tft_gguf_put_array_later(k->w, TFT_KEY_INPUT_ERROR, TFT_VALUE_F32, n);
    tft_gguf_put_u32(k->w, TFT_KEY_HADAMARD, down_block(k));

    /* how it was made, for people */
    tft_gguf_put_u32(k->w, TFT_KEY_ROTATE_VALUES, head_block(k));
    tft_gguf_put_f32(k->w, TFT_KEY_SMOOTH, o->smooth);
    put_text(k, TFT_KEY_CALIBRATION_METHOD, methods[o->method]);
    tft_gguf_put_u32(k->w, TFT_KEY_CALIBRATION_TOKENS, (uint32_t)(k->y.n_windows * o->window));
    tft_gguf_put_u32(k->w, TFT_KEY_CALIBRATION_WINDOW, o->window);
    tft_gguf_put_u32(k->w, TFT_KEY_CALIBRATION_HASH, tft_crc32(0, o->text, o->n_text * sizeof *o->text));
    if (o->n_prefix) {
        tft_gguf_put_array(k->w, TFT_KEY_PREFIX_TOKENS, TFT_VALUE_I32, o->prefix, o->n_prefix);
        put_text(k, TFT_KEY_PREFIX_METHOD, "intact");
    }
}

static void fill_inputs(struct work *k)
{
    for (uint32_t i = 0; i < quantize_inputs(k->m); i++) {
        float error = (float)k->result[i].error;
        uint8_t zero = (uint8_t)k->result[i].affine.zero, range = (uint8_t)k->o->range[i];
        tft_gguf_fill_array(k->w, k->scale_place + 4 * i, TFT_VALUE_F32, &k->result[i].affine.scale, 1);
        tft_gguf_fill_array(k->w, k->zero_place + i, TFT_VALUE_U8, &zero, 1);
        tft_gguf_fill_array(k->w, k->error_place + 4 * i, TFT_VALUE_F32, &error, 1);
        tft_gguf_fill_array(k->w, k->range_place + i, TFT_VALUE_U8, &range, 1);
    }
}

/* ------------------------------------------------------------------------------------------------- memory */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool take_stats(struct work *k)
{
    int threads = k->y.s->n_threads;
    k->stats = calloc((size_t)TFT_LAYER_INPUTS * (size_t)threads, sizeof *k->stats);
    for (uint32_t which = 0; k->stats && which < TFT_LAYER_INPUTS; which++)
        for (int i = 0; i < threads; i++)
            if (!stats_init(stats_of(k, which, i), input_width(k->m, which)))
                return false;
    return k->stats;
}

static bool take(struct work *k)
{
    const struct tft_model *m = k->m;
    size_t q = (size_t)m->n_head * m->head_dim, cols = larger(larger(m->n_embd, m->n_ff), q);
    size_t kv = (size_t)m->n_head_kv * m->head_dim, rows = larger(larger(cols, m->n_vocab), kv);
    k->widest = tft_panel_rows(rows);
    k->row = calloc((size_t)k->y.s->n_threads + 1, k->widest * sizeof *k->row);
    k->rows = malloc(TFT_PANEL * cols * sizeof *k->rows);
    k->panel = malloc(TFT_PANEL * tft_panel_cols(cols));
    for (int i = 0; i < LAYER_MATS; i++) {
        size_t most = tft_panel_rows(i ? larger(cols, kv) : rows); /* the first serves the vocabulary too */
        k->scale[i] = malloc(most * sizeof *k->scale[i]);
        k->rowsum[i] = malloc(most * sizeof *k->rowsum[i]);
        if (!k->scale[i] || !k->rowsum[i])
            return false;
    }
    k->prefix_k = malloc((prefix_numbers(k) + 1) * sizeof *k->prefix_k);
    k->prefix_v = malloc((prefix_numbers(k) + 1) * sizeof *k->prefix_v);
    for (int i = 0; i < 2; i++) {
        k->smooth[i] = malloc(m->n_embd * sizeof *k->smooth[i]);
        for (uint32_t j = 0; k->smooth[i] && j < m->n_embd; j++)
            k->smooth[i][j] = 1;
    }
    return k->row && k->rows && k->panel && k->prefix_k && k->prefix_v && k->smooth[0] && k->smooth[1] &&
           take_stats(k);
}

static void give_back(struct work *k)
{
    for (int i = 0; k->stats && i < TFT_LAYER_INPUTS * k->y.s->n_threads; i++)
        stats_free(&k->stats[i]);
    free(k->stats);
    free(k->row);
    free(k->rows);
    free(k->panel);
    for (int i = 0; i < LAYER_MATS; i++) {
        free(k->scale[i]);
        free(k->rowsum[i]);
    }
    free(k->prefix_k);
    free(k->prefix_v);
    free(k->smooth[0]);
    free(k->smooth[1]);
}

/* ---------------------------------------------------------------------------------------------- the whole */

static enum tft_status refuse(const struct tft_model *m, const struct quantize_opts *o, struct tft_error *err)
{
    if (m->output.w.num == TFT_NUM_I8)
        return tft_fail(err, TFT_ERR_ARG, "%s: is quantized already", m->source.name);
    if (o->n_text < o->window || !o->window)
        return tft_fail(err, TFT_ERR_ARG, "%s: a calibration text of %zu tokens is too short for a window of %u", m->source.name, o->n_text,
                        o->window);
    if (m->n_embd > TFT_PANEL_MAX_K || m->n_ff > TFT_PANEL_MAX_K || (uint64_t)m->n_head * m->head_dim > TFT_PANEL_MAX_K)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: rows longer than %d", m->source.name, TFT_PANEL_MAX_K);
    return TFT_OK;
}

static void convert(struct work *k, const char *path)
{
    if (tft_gguf_create(&k->w, path, &k->bad) != TFT_OK)
        return;
    put_values(k);
    put_tensors(k, true);
    put_tensors(k, false);
    if (!failed(k)) {
        fill_inputs(k);
        progress(k, 1);
    }
    struct tft_error err = {0};
    if (tft_gguf_close(k->w, !failed(k), &err) != TFT_OK && k->bad.code == TFT_OK)
        k->bad = err;
}

enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o, struct quantize_input *result, bool *stopped,
                         struct tft_error *err)
{
    struct work k = {.m = m, .o = o, .result = result};
    enum tft_status status = refuse(m, o, err);
    *stopped = false;
    if (status == TFT_OK)
        status = layers_open(&k.y, m, o, err);
    if (status != TFT_OK)
        return status;
    k.y.s->tap = watch;
    k.y.s->tap_user = &k;
    k.y.step = step;
    k.y.step_user = &k;
    memset(result, 0, quantize_inputs(m) * sizeof *result);
    if (take(&k))
        convert(&k, path);
    else
        tft_fail(&k.bad, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    give_back(&k);
    layers_close(&k.y);
    *stopped = k.stopped;
    if (k.bad.code != TFT_OK && err)
        *err = k.bad;
    return k.bad.code;
}
