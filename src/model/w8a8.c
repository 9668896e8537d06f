#include "model/w8a8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kv/fisher.h"
#include "model/keys.h"

void tft_w8a8_version(struct tft_load *ld)
{
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_VERSION);
    uint64_t version;
    ld->w8a8 = v != NULL;
    if (v && (v->is_array || !tft_value_uint(v, 0, &version)))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an integer", TFT_KEY_VERSION);
    else if (v && version != TFT_FILE_VERSION)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "version %llu of tuffet's format; this program reads version %d",
                      (unsigned long long)version, TFT_FILE_VERSION);
}

/* --------------------------------------------------------------------------------------- codes */

void tft_w8a8_codes(struct tft_load *ld)
{
    const struct tft_source *s = ld->s;
    const struct tft_value *v = ld->w8a8 ? tft_source_value(s, TFT_KEY_WEIGHT_CODES) : NULL;
    ld->codes = NULL;
    if (!v || ld->status != TFT_OK)
        return;
    if (!v->is_array || v->n != s->n_tensor) {
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an array of %zu numbers, one for each tensor",
                      TFT_KEY_WEIGHT_CODES, s->n_tensor);
        return;
    }
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        uint64_t code;
        if (!tft_value_uint(v, i, &code) || code > UINT16_MAX ||
            (code && !tft_format_low(code & 255, (unsigned)code >> 8)))
            tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                          "%s of the tensor %.*s is neither 0 nor 2 to 4 bits + 256 * a group of "
                          "32, 64 or 128",
                          TFT_KEY_WEIGHT_CODES, TFT_STR_ARG(t->name));
        else if (code && t->type != TFT_I8)
            tft_load_fail(ld, TFT_ERR_FORMAT,
                          "%s says that the tensor %.*s has codes, but it has type %s and should "
                          "have I8",
                          TFT_KEY_WEIGHT_CODES, TFT_STR_ARG(t->name), tft_dtype_name(t->type));
    }
    ld->codes = ld->status == TFT_OK ? v : NULL;
}

/* --------------------------------------------------------------------------------------- inputs */

struct input_arrays {
    const struct tft_value *scale, *zero, *range;
    uint32_t hadamard;
};

static const struct tft_value *array(struct tft_load *ld, const char *key, uint64_t n)
{
    const struct tft_value *v = tft_source_value(ld->s, key);
    if (!v || !v->is_array || v->n != n)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing, or not an array of %llu numbers", key,
                      (unsigned long long)n);
    return v;
}

/* In files of --dynamic-per tensor, which tuffet quantize had once. */
enum { OF_A_PASS = TFT_RANGE_TOKEN + 1 };

static struct tft_input input(struct tft_load *ld, const struct input_arrays *a, uint32_t index)
{
    struct tft_input in = {.index = index};
    double scale;
    uint64_t zero, range;
    const char *bad = NULL;
    if (!ld->w8a8 || ld->status != TFT_OK)
        return in;
    if (!tft_value_real(a->scale, index, &scale) ||
        !(scale >= (double)FLT_MIN && scale <= TFT_INPUT_SCALE_MAX))
        bad = TFT_KEY_INPUT_SCALE;
    else if (!tft_value_uint(a->zero, index, &zero) || zero > 255)
        bad = TFT_KEY_INPUT_ZERO;
    else if (!tft_value_uint(a->range, index, &range) || range < TFT_RANGE_STATIC ||
             range > OF_A_PASS)
        bad = TFT_KEY_INPUT_RANGE;
    if (bad) {
        tft_load_fail(ld, TFT_ERR_FORMAT, "element %u of %s is out of range", index, bad);
        return in;
    }
    if (range == OF_A_PASS) {
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "element %u of %s is 3: ranges of all tokens of a pass are not supported; "
                      "quantize the float model again",
                      index, TFT_KEY_INPUT_RANGE);
        return in;
    }
    in.range = (enum tft_range)range;
    in.affine = (struct tft_affine){(float)scale, 1 / (float)scale, (int32_t)zero};
    return in;
}

/* Gives l its input. Packed weights want groups of bytes of it. */
static void connect(struct tft_model *m, struct tft_linear *l, struct tft_input *in)
{
    l->in = in;
    in->width = l->w.rows ? l->w.cols : in->width;
    if (l->w.format && l->w.format->packing) {
        in->range = TFT_RANGE_GROUPS;
        m->group_inputs = true;
    }
}

static void connect_block(struct tft_model *m, struct tft_layer *b)
{
    bool experts = tft_layer_has_experts(b);
    struct tft_input *ffn = &b->in[tft_layer_has_own_input(b) ? TFT_IN_BESIDE : TFT_IN_FFN];
    for (uint32_t i = 0; i < tft_layer_reads(b); i++)
        connect(m, &b->reads[i], &b->in[TFT_IN_ATTN]);
    connect(m, &b->o, &b->in[TFT_IN_O]);
    if (b->side_out.w.rows)
        connect(m, &b->side_out, &b->in[TFT_IN_SHARED]);
    connect(m, &b->gate, ffn);
    connect(m, &b->up, ffn);
    connect(m, &b->down, &b->in[experts ? TFT_IN_SHARED : TFT_IN_DOWN]);
    connect(m, &b->experts.gate, &b->in[TFT_IN_FFN]);
    connect(m, &b->experts.up, &b->in[TFT_IN_FFN]);
    connect(m, &b->experts.latent_down, &b->latent_in[0]);
    connect(m, &b->experts.latent_up, &b->latent_in[1]);
    if (experts)
        connect(m, &b->experts.down, &b->in[TFT_IN_DOWN]);
    connect(m, &b->latent.q_b, &b->latent.in);
    connect(m, &b->altup.left, &b->altup.in[0]);
    connect(m, &b->altup.right, &b->altup.in[1]);
    connect(m, &b->embed_gate, &b->embed_in[0]);
    connect(m, &b->embed_out, &b->embed_in[1]);
}

/* Whether the hidden activations that l reads are rows of floats before they take the form that its
   weights read. */
static bool is_floats_first(const struct tft_linear *l)
{
    return l->w.rows && ((l->in->range != TFT_RANGE_STATIC && l->in->range != TFT_RANGE_GROUPS) ||
                         l->in->norm);
}

/* The width of some hidden activations that `block` does not divide; 0: there are none. */
static uint32_t undivided(const struct tft_load *ld, uint32_t block)
{
    const struct tft_model *m = ld->m;
    const uint32_t mixed[] = {m->n_ff_dense, m->n_ff_shared};
    for (uint32_t i = 0; i < 2; i++)
        if (mixed[i] % block)
            return mixed[i];
    for (uint32_t l = 0; l < m->n_layer; l++)
        if (tft_load_ff(ld, l) % block)
            return tft_load_ff(ld, l);
    return m->n_ff_expert % block ? m->n_ff_expert : 0;
}

static uint32_t hadamard(struct tft_load *ld)
{
    const struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_HADAMARD);
    uint64_t block = 0;
    bool good = !v || (!v->is_array && tft_value_uint(v, 0, &block) && block <= 256 &&
                       (block & (block - 1)) == 0);
    uint32_t width = good && block ? undivided(ld, (uint32_t)block) : 0;
    if (!good || width)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a power of two up to 256 that divides %u",
                      TFT_KEY_HADAMARD, width ? width : m->n_ff);
    return ld->status == TFT_OK ? (uint32_t)block : 0;
}

/* The inputs of layer l. */
static void layer_inputs(struct tft_load *ld, const struct input_arrays *a, uint32_t l)
{
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, l);
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        b->in[i] = (struct tft_input){.index = TFT_NO_INDEX};
        if (!tft_model_has_input(m, i))
            continue;
        b->in[i] = input(ld, a, tft_input_index(m, l, i));
        m->float_inputs |= b->in[i].range != TFT_RANGE_STATIC;
    }
    b->in[TFT_IN_O].norm = b->attn_sub_norm.w;
    b->in[TFT_IN_DOWN].norm = b->ffn_sub_norm.w;
    b->in[TFT_IN_DOWN].xielu = b->xielu;
    m->float_inputs |= b->attn_sub_norm.w || tft_layer_has_latent_experts(b);
    b->in[TFT_IN_DOWN].hadamard = a->hadamard;
    b->in[TFT_IN_SHARED].hadamard = m->mamba_beside ? 0 : a->hadamard;
    b->embed_in[0].index = b->embed_in[1].index = TFT_NO_INDEX;
    b->altup.in[0].index = b->altup.in[1].index = TFT_NO_INDEX;
    b->latent.in = (struct tft_input){.index = TFT_NO_INDEX, .norm = b->latent.q_norm.w};
    b->latent_in[0].index = b->latent_in[1].index = TFT_NO_INDEX;
    connect_block(m, b);
    m->float_hidden |= is_floats_first(&b->down) || is_floats_first(&b->experts.down) ||
                       b->altup.sparsity > 0;
}

void tft_w8a8_inputs(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct input_arrays a = {0};
    if (ld->status == TFT_OK && ld->w8a8) {
        uint32_t n = tft_model_inputs(m);
        a.scale = array(ld, TFT_KEY_INPUT_SCALE, n);
        a.zero = array(ld, TFT_KEY_INPUT_ZERO, n);
        a.range = array(ld, TFT_KEY_INPUT_RANGE, n);
        a.hadamard = hadamard(ld);
    }
    m->float_inputs = !ld->w8a8 || m->layer_embed.n || (m->n_round && m->round_norm);
    m->byte_inputs = ld->w8a8;
    m->group_inputs = m->float_hidden = false;
    for (uint32_t l = 0; l < m->n_layer && ld->status == TFT_OK; l++)
        layer_inputs(ld, &a, l);
    if (tft_model_predicts(m) && ld->status == TFT_OK) {
        bool w8a8 = ld->w8a8;
        ld->w8a8 = false; /* of floats, or codes, in every file */
        layer_inputs(ld, &(struct input_arrays){0}, m->n_layer);
        ld->w8a8 = w8a8;
        m->predictor.in = (struct tft_input){.index = TFT_NO_INDEX};
        connect(m, &m->predictor.proj, &m->predictor.in);
    }
    m->layer_embed.in.index = TFT_NO_INDEX;
    connect(m, &m->layer_embed.w, &m->layer_embed.in);
    m->head_in = input(ld, &a, m->n_layer * TFT_LAYER_INPUTS);
    m->float_inputs |= m->head_in.range != TFT_RANGE_STATIC;
    connect(m, &m->output, &m->head_in);
}

/* ---------------------------------------------------------------------------------------- cache */

/* Layers of the cache that the file's numbers are for: not the predictor's, which is the last. */
static uint32_t calibrated_layers(const struct tft_model *m)
{
    return m->n_kv_layer - tft_model_predicts(m);
}

/* data: [calibrated_layers, n] of 4 bytes; the predictor's layer gets the numbers of the layer
   before. */
static const void *for_all_layers(struct tft_load *ld, const void *data, size_t n)
{
    uint32_t layers = calibrated_layers(ld->m);
    if (!tft_model_predicts(ld->m))
        return data;
    char *to = tft_arena_take(&ld->arena, layers + 1, 4 * n);
    if (to && data) {
        memcpy(to, data, layers * 4 * n);
        memcpy(to + layers * 4 * n, to + (layers - 1) * 4 * n, 4 * n);
    }
    return to;
}

/* In a model whose layers differ, tensors have one dimension: a layer after the other. */
static bool layers_differ(const struct tft_model *m)
{
    return m->parts & TFT_BIT(TFT_PART_LAYER_SIZES);
}

/* The counting run does not know heads that differ. */
static bool knows_heads(const struct tft_model *m)
{
    return m->kv_heads || m->kv_numbers == (uint64_t)m->n_kv_layer * m->n_head_kv * m->head_dim;
}

/* A number for each channel of the keys: [n_kv_layer, G, E]. */
static const void *by_channel(struct tft_load *ld, const char *name, enum tft_dtype type)
{
    const struct tft_model *m = ld->m;
    const uint64_t differ[4] = {m->kv_numbers, 1, 1, 1},
                   equal[4] = {m->head_dim, m->n_head_kv, calibrated_layers(m), 1};
    return tft_load_exactly(ld, name, type, layers_differ(m) ? differ : equal);
}

/* Whether order has each number below n once; n <= TFT_CODED_DIM. */
static bool is_permutation(const int32_t *order, uint32_t n)
{
    bool seen[TFT_CODED_DIM] = {false};
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] < 0 || (uint32_t)order[i] >= n || seen[order[i]])
            return false;
        seen[order[i]] = true;
    }
    return true;
}

/* Checks that the channels of each head are all there, each once. */
static const int32_t *key_order(struct tft_load *ld)
{
    const struct tft_model *m = ld->m;
    const int32_t *order = by_channel(ld, TFT_KEY_KV_ORDER, TFT_I32), *at = order;
    if (m->head_dim > TFT_CODED_DIM)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s: heads of %u channels; at most %d can be reordered",
                      TFT_KEY_KV_ORDER, m->head_dim, TFT_CODED_DIM);
    for (uint32_t l = 0; ld->status == TFT_OK && knows_heads(m) && l < calibrated_layers(m); l++) {
        struct tft_kv_heads own = tft_model_kv_heads(m, l);
        for (uint32_t h = 0; h < own.n; h++, at += own.dim)
            if (!is_permutation(at, own.dim))
                tft_load_fail(ld, TFT_ERR_FORMAT,
                              "%s is not a permutation of the channels in layer %u, KV head %u",
                              TFT_KEY_KV_ORDER, l, h);
    }
    return for_all_layers(ld, order, (size_t)m->n_head_kv * m->head_dim);
}

static const float *clip(struct tft_load *ld, const char *name, uint32_t group)
{
    const struct tft_model *m = ld->m;
    uint64_t groups = (m->head_dim + group - 1) / group, n = 0;
    if (!knows_heads(m))
        return NULL;
    for (uint32_t l = 0; l < calibrated_layers(m); l++) {
        struct tft_kv_heads own = tft_model_kv_heads(m, l);
        n += (uint64_t)own.n * ((own.dim + group - 1) / group);
    }
    const uint64_t differ[4] = {n, 1, 1, 1},
                   equal[4] = {groups, m->n_head_kv, calibrated_layers(m), 1};
    const float *alpha = tft_load_exactly(ld, name, TFT_F32, layers_differ(m) ? differ : equal);
    for (uint64_t i = 0; ld->status == TFT_OK && i < n; i++)
        if (!(alpha[i] > 0 && alpha[i] <= 1))
            tft_load_fail(ld, TFT_ERR_FORMAT, "%s has a number that is not above 0 and at most 1",
                          name);
    return for_all_layers(ld, alpha, (size_t)groups * m->n_head_kv);
}

/* Tables of kv/fisher.h in the file: a tensor, or an array of values. */
struct tables {
    const float *tensor;
    const struct tft_value *array;
};

static struct tables find_tables(struct tft_load *ld, const char *name, bool tensor)
{
    const struct tft_kv_heads own = tft_model_coded_heads(ld->m);
    const uint64_t shape[4] = {own.dim, TFT_FISHER_ROWS, own.n, calibrated_layers(ld->m)};
    if (tensor)
        return (struct tables){.tensor = tft_load_exactly(ld, name, TFT_F32, shape)};
    const struct tft_value *v = array(ld, name, shape[0] * shape[1] * shape[2] * shape[3]);
    if (ld->status == TFT_OK && v->type != TFT_VALUE_F32)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an array of f32", name);
    return (struct tables){.array = v};
}

static float number(const struct tables *t, size_t i)
{
    double x = (double)NAN;
    if (t->tensor)
        return t->tensor[i];
    tft_value_real(t->array, i, &x);
    return (float)x;
}

/* In memory, [n_kv_layer, n], as for_all_layers places a tensor. */
static const float *place_array(struct tft_load *ld, const struct tables *t, size_t n,
                                enum tft_kv_which which)
{
    size_t layers = calibrated_layers(ld->m);
    float *to = tft_arena_take(&ld->arena, ld->m->n_kv_layer, n * sizeof *to);
    if (!to && ld->tables)
        to = ld->tables + which * layers * n;
    for (size_t i = 0; to && ld->status == TFT_OK && i < ld->m->n_kv_layer * n; i++)
        to[i] = number(t, i < layers * n ? i : i - n);
    return to;
}

/* Finite, and not negative but for the means. */
static const float *fisher(struct tft_load *ld, const char *name, enum tft_kv_which which,
                           bool tensor)
{
    const struct tft_model *m = ld->m;
    const struct tft_kv_heads own = tft_model_coded_heads(m);
    const struct tables t = find_tables(ld, name, tensor);
    size_t rows = (size_t)calibrated_layers(m) * own.n * TFT_FISHER_ROWS,
           n = (size_t)own.n * TFT_FISHER_ROWS * own.dim;
    for (size_t r = 0; ld->status == TFT_OK && r < rows; r++)
        for (uint32_t d = 0; d < own.dim; d++) {
            float x = number(&t, r * own.dim + d);
            bool mean = r % TFT_FISHER_ROWS == TFT_FISHER_MEAN;
            if (!isfinite(x) || (!mean && x < 0))
                tft_load_fail(ld, TFT_ERR_FORMAT, "%s has a number that is %s", name,
                              mean ? "not finite" : "negative or not finite");
        }
    return t.array ? place_array(ld, &t, n, which) : for_all_layers(ld, t.tensor, n);
}

static void load_fisher(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    bool tensors = tft_source_tensor(ld->s, TFT_KEY_KV_FISHER_K),
         arrays = tft_source_value(ld->s, TFT_KEY_KV_FISHER_K) ||
                  tft_source_value(ld->s, TFT_KEY_KV_FISHER_V);
    if (ld->status != TFT_OK || (!tensors && !arrays))
        return;
    m->kv_fisher[TFT_KV_K] = fisher(ld, TFT_KEY_KV_FISHER_K, TFT_KV_K, tensors);
    m->kv_fisher[TFT_KV_V] = fisher(ld, TFT_KEY_KV_FISHER_V, TFT_KV_V, tensors);
}

/* The calibration by `tuffet quantize` for the file's own cache policy. A tensor that the policy
   does not use stays unused, which tft_load_check_all_used refuses. */
static void load_calibrated(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_kv_policy *kv = &m->kv_policy;
    if (ld->status == TFT_OK && kv->reorder)
        m->key_order = key_order(ld);
    if (ld->status == TFT_OK && kv->clip == TFT_KV_CALIBRATED) {
        m->kv_clip[0] = clip(ld, TFT_KEY_KV_CLIP_K, kv->group);
        m->kv_clip[1] = clip(ld, TFT_KEY_KV_CLIP_V, kv->group);
    }
}

void tft_w8a8_kv(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_KV);
    struct tft_error err;
    struct tft_str text;
    char kv[TFT_KV_TEXT + 1];
    m->key_importance = NULL;
    m->key_order = NULL;
    m->kv_clip[0] = m->kv_clip[1] = NULL;
    m->kv_fisher[TFT_KV_K] = m->kv_fisher[TFT_KV_V] = NULL;
    tft_kv_parse(&m->kv_policy, NULL, &err);
    if (ld->status == TFT_OK && v && tft_value_str(v, &text)) {
        snprintf(kv, sizeof kv, "%.*s", (int)(text.n < sizeof kv ? text.n : sizeof kv), text.p);
        if (tft_kv_parse_stored(&m->kv_policy, kv, &err) != TFT_OK)
            tft_load_fail(ld, TFT_ERR_FORMAT, "%s: %s", TFT_KEY_KV, err.msg);
        load_calibrated(ld);
    }
    if (ld->status == TFT_OK && tft_source_tensor(ld->s, TFT_KEY_KV_IMPORTANCE))
        m->key_importance = for_all_layers(ld, by_channel(ld, TFT_KEY_KV_IMPORTANCE, TFT_F32),
                                           (size_t)m->n_head_kv * m->head_dim);
    load_fisher(ld);
}
