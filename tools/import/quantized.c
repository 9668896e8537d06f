/* Finds the quantized matrices of a folder by the names, types and shapes of their tensors. */
#include "quantized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "names.h"
#include "quantized_config.h"

enum { MOST_BITS = 8 };

struct finding {
    struct import_folder *f;
    struct tft_error *err;
    enum tft_status status; /* the first failure */
    unsigned widths;        /* bit b: the folder may have codes of b bits */
    uint64_t block[2];      /* rows and columns that share a scale; 0: not said */
    uint64_t group;         /* columns that share a scale; 0: not said */
    bool old_library, v2;
    const char *module; /* of the current matrix: `n` bytes */
    size_t n;
};

static void fail(struct finding *s, const char *what)
{
    if (s->status == TFT_OK)
        s->status = import_error(s->err, TFT_ERR_FORMAT, "%s: the quantized matrix \"%.*s\" %s",
                                 s->f->path, (int)s->n, s->module, what);
}

/* ---------------------------------------------------------------------------------- config.json */

/* A whole number of an object; 0: it has none. */
static uint64_t whole(const json_t *object, const char *name)
{
    uint64_t n = 0;
    return import_json_whole(json_object_get(object, name), INT32_MAX, &n) ? n : 0;
}

/* Sets the rows and columns that share a scale: v is [128,128], or "128x128" in older folders. */
static void read_block(struct finding *s, const json_t *v)
{
    uint64_t rows = 0, cols = 0;
    unsigned r, c;
    if (json_is_string(v) && sscanf(json_string_value(v), "%ux%u", &r, &c) == 2) {
        rows = r;
        cols = c;
    } else if (json_array_size(v) == 2) {
        import_json_whole(json_array_get(v, 0), INT32_MAX, &rows);
        import_json_whole(json_array_get(v, 1), INT32_MAX, &cols);
    }
    if (rows && cols) {
        s->block[0] = rows;
        s->block[1] = cols;
    }
}

static void read_group(struct finding *s, const json_t *weights)
{
    uint64_t bits = whole(weights, "num_bits");
    if (bits && bits <= MOST_BITS)
        s->widths |= 1u << bits;
    read_block(s, json_object_get(weights, "block_structure"));
}

/* Whether the library that wrote the folder is older than 0.18, which packs codes of 3 bits in
   another way. */
static bool is_old(const char *version)
{
    unsigned major, minor;
    return version && sscanf(version, "%u.%u", &major, &minor) == 2 && major == 0 && minor < 18;
}

static void read_config(struct finding *s)
{
    const json_t *q = import_quantization(s->f);
    const char *name, *format = json_string_value(json_object_get(q, "checkpoint_format"));
    json_t *group;
    json_object_foreach(json_object_get(q, "config_groups"), name, group)
        read_group(s, json_object_get(group, "weights"));
    read_block(s, json_object_get(q, "weight_block_size"));
    s->group = whole(q, "group_size");
    s->old_library = is_old(json_string_value(json_object_get(q, "version")));
    if (!format)
        format = json_string_value(json_object_get(q, "format"));
    s->v2 = format && strcmp(format, "gptq_v2") == 0;
    if (!s->widths)
        s->widths = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 8;
}

/* ---------------------------------------------------------------------------------------- parts */

/* The module's tensor with one of these ends, separated by '|'. The import will not see it. */
static struct import_part part(struct finding *s, const char *ends)
{
    char name[256];
    for (size_t n; *ends; ends += n + (ends[n] == '|')) {
        n = strcspn(ends, "|");
        snprintf(name, sizeof name, "%.*s%.*s", (int)s->n, s->module, (int)n, ends);
        const struct by_name *e = import_folder_entry(s->f, name);
        if (e) {
            e->tensor->used = true;
            return (struct import_part){e->tensor, e->shard->data + e->tensor->offset, e->shard};
        }
    }
    return (struct import_part){0};
}

static bool has_type(const struct import_part *p, const char *dtypes)
{
    char word[24];
    snprintf(word, sizeof word, " %s ", p->t->dtype);
    return strstr(dtypes, word);
}

/* One float, which other programs store as a shape of any dimensions. */
static bool is_one_float(const struct import_part *p)
{
    return p->t->floats && p->t->bytes == tft_dtype_info(p->t->type)->bytes;
}

static uint64_t divided_up(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }

/* --------------------------------------------------------------------------------------- shapes */

static bool set_shape(struct finding *s, struct import_matrix *m, uint64_t rows, uint64_t cols)
{
    m->rows = rows;
    m->cols = cols;
    if (!rows || !cols || rows > INT32_MAX || cols > INT32_MAX)
        fail(s, "has no rows or columns, or too many");
    return s->status == TFT_OK;
}

/* A matrix with codes in one tensor of two dimensions, `per` codes in an element. */
static bool take_codes(struct finding *s, struct import_matrix *m, uint64_t per)
{
    if (m->codes.t->n_dims != 2)
        fail(s, "has codes of other than two dimensions");
    return s->status == TFT_OK && set_shape(s, m, m->codes.t->ne[1], m->codes.t->ne[0] * per);
}

/* Sets the rows and columns that share a scale. */
static void set_scales(struct finding *s, struct import_matrix *m, const char *dtypes)
{
    const struct safetensor *t = m->scale.t;
    if (!t) {
        fail(s, "has no scales");
        return;
    }
    if (!has_type(&m->scale, dtypes))
        fail(s, "has scales of a type that does not go with its codes");
    bool vector = t->n_dims == 1 && t->ne[0] != 1;
    m->across = vector ? 1 : t->ne[0];
    m->down = vector ? t->ne[0] : t->ne[1] * t->ne[2];
    if (t->n_dims > 3 || !m->across || !m->down) {
        fail(s, "has no scales");
    } else if (s->block[0] && m->down == divided_up(m->rows, s->block[0]) &&
               m->across == divided_up(m->cols, s->block[1])) {
        m->tall = s->block[0];
        m->wide = s->block[1];
    } else if ((m->down == 1 || m->down == m->rows) && m->cols % m->across == 0) {
        m->tall = m->rows / m->down;
        m->wide = m->cols / m->across;
    } else {
        fail(s, "has scales that do not divide it into groups");
    }
}

static const char floats[] = " F32 F16 BF16 ";

/* The groups of columns. -1 stands for no groups of its own. */
static void set_index(struct finding *s, struct import_matrix *m)
{
    if (!m->index.t || s->status != TFT_OK)
        return;
    if (!has_type(&m->index, " I32 ") || m->index.t->bytes != 4 * m->cols) {
        fail(s, "has a g_idx that is not one I32 for each column");
        return;
    }
    for (uint64_t c = 0; c < m->cols; c++) {
        uint32_t g = tft_load_u32(m->index.data + 4 * c);
        if (g == UINT32_MAX) {
            m->index = (struct import_part){0};
            return;
        }
        if (g >= m->across) {
            fail(s, "has a g_idx of a group that has no scale");
            return;
        }
    }
}

/* ---------------------------------------------------------------------------------------- forms */

static void take_int8(struct finding *s, struct import_matrix *m)
{
    m->form = IMPORT_INT8;
    if (!take_codes(s, m, 1))
        return;
    m->scale = part(s, ".weight_scale|.embedding_scale");
    m->zero = part(s, ".weight_zero_point");
    set_scales(s, m, floats);
    if (m->zero.t && (!has_type(&m->zero, " I8 ") || m->zero.t->bytes != m->across * m->down))
        fail(s, "has zero points that are not one I8 for each scale");
}

static void take_fp8(struct finding *s, struct import_matrix *m)
{
    m->form = IMPORT_FP8;
    if (!take_codes(s, m, 1))
        return;
    m->scale = part(s, ".weight_scale|.weight_scale_inv|.qscale_weight");
    set_scales(s, m, " F32 F16 BF16 F8_E8M0 U8 ");
}

static void take_factor(struct finding *s, struct import_matrix *m)
{
    m->factor = part(s, ".weight_global_scale");
    m->divides = m->factor.t;
    if (!m->factor.t)
        m->factor = part(s, ".weight_scale_2");
    if (m->factor.t && !is_one_float(&m->factor))
        fail(s, "has a factor that is not one float");
}

static void take_fp4(struct finding *s, struct import_matrix *m)
{
    m->form = IMPORT_FP4;
    if (!take_codes(s, m, 2))
        return;
    m->scale = part(s, ".weight_scale");
    take_factor(s, m);
    set_scales(s, m, " F8_E4M3 F8_E8M0 U8 ");
    if (s->status == TFT_OK && has_type(&m->scale, " F8_E4M3 ") && !m->factor.t)
        fail(s, "has no factor of all scales (weight_global_scale, weight_scale_2)");
}

/* The bits of codes in rows of `bytes`: rows have a length of the model. 0: that does not say. */
static unsigned bits_of_bytes(const struct finding *s, uint64_t bytes)
{
    const json_t *text = json_object_get(s->f->config, "text_config"),
                 *from = text ? text : s->f->config;
    uint64_t heads = whole(from, "num_attention_heads"),
             embedded = whole(from, "hidden_size_per_layer_input"),
             ff = whole(from, "intermediate_size");
    const uint64_t lengths[] = {whole(from, "hidden_size"),
                                ff,
                                2 * ff,
                                heads * whole(from, "head_dim"),
                                heads * whole(from, "global_head_dim"),
                                embedded,
                                embedded * whole(from, "num_hidden_layers")};
    bool two = false, four = false;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        two |= lengths[i] == bytes * 4;
        four |= lengths[i] == bytes * 2;
    }
    return two == four ? 0 : two ? 2 : 4;
}

/* Gemma's bytes; or, with scales of e4m3, FP4 of ModelOpt. */
static void take_bytes(struct finding *s, struct import_matrix *m)
{
    struct import_part scale = part(s, ".weight_scale|.embedding_scale");
    if (scale.t && has_type(&scale, " F8_E4M3 ")) {
        take_fp4(s, m);
        return;
    }
    m->form = IMPORT_PACKED;
    m->scale = scale;
    if (!take_codes(s, m, 1))
        return;
    m->bits = bits_of_bytes(s, m->cols);
    if (!m->bits)
        fail(s, "has rows that are no length of the model with 2 or 4 bits");
    else if (set_shape(s, m, m->rows, m->cols * 8 / m->bits))
        set_scales(s, m, floats);
}

/* Words of n codes of m->bits. */
static uint64_t words(const struct import_matrix *m, uint64_t n)
{
    return m->old_words ? divided_up(n, 32 / m->bits) : divided_up(n * m->bits, 32);
}

/* The number of bits that makes rows of `have` words; both layouts of words are tried, first the
   one of the library that wrote the folder. */
static bool set_bits(const struct finding *s, struct import_matrix *m, uint64_t have)
{
    for (int turn = 0; turn < 2; turn++) {
        m->old_words = s->old_library != (turn == 1);
        for (m->bits = 1; m->bits <= MOST_BITS; m->bits++)
            if (s->widths >> m->bits & 1 && words(m, m->cols) == have)
                return true;
    }
    return false;
}

/* Whether a tensor of zero points that are not packed has zeros alone: symmetric folders of old
   libraries. */
static bool are_zeros(const struct import_part *p)
{
    for (uint64_t i = 0; i < p->t->bytes; i++)
        if (p->data[i])
            return false;
    return has_type(p, " I8 ");
}

static void take_packed(struct finding *s, struct import_matrix *m)
{
    struct import_part shape = part(s, ".weight_shape");
    m->form = IMPORT_PACKED;
    if (!take_codes(s, m, 1))
        return;
    uint64_t have = m->cols;
    if (!shape.t || !has_type(&shape, " I64 ") || shape.t->bytes != 16 ||
        tft_load_u64(shape.data) != m->rows) {
        fail(s, "has no weight_shape of its rows and columns");
        return;
    }
    if (!set_shape(s, m, m->rows, tft_load_u64(shape.data + 8)))
        return;
    if (!set_bits(s, m, have)) {
        fail(s, "has words that hold no codes of the bits that config.json says");
        return;
    }
    m->scale = part(s, ".weight_scale");
    m->zero = part(s, ".weight_zero_point");
    m->index = part(s, ".weight_g_idx");
    set_scales(s, m, floats);
    if (m->zero.t && are_zeros(&m->zero))
        m->zero = (struct import_part){0};
    if (m->zero.t && s->status == TFT_OK &&
        (!has_type(&m->zero, " I32 ") || m->zero.t->bytes != 4 * words(m, m->down) * m->across))
        fail(s, "has zero points that are not packed as its codes are");
    set_index(s, m);
}

/* The scales of GPTQ and AWQ, [groups, rows], and zero points, [groups, rows * bits / 32 words]. */
static void set_turned(struct finding *s, struct import_matrix *m)
{
    m->across = m->scale.t->ne[1];
    m->down = m->rows;
    m->tall = 1;
    if (s->group && divided_up(m->cols, s->group) == m->across)
        m->wide = s->group;
    else if (m->across && m->cols % m->across == 0)
        m->wide = m->cols / m->across;
    if (!has_type(&m->scale, floats) || m->scale.t->n_dims != 2)
        fail(s, "has scales of a type or shape that does not go with its codes");
    if (m->zero.t->ne[1] != m->across || m->zero.t->ne[0] * 32 != m->rows * m->bits)
        fail(s, "has zero points that are not one for each scale");
    set_index(s, m);
    if (!m->across || (!m->wide && !m->index.t))
        fail(s, "has scales that do not divide it into groups");
    if (s->status == TFT_OK && !import_matrix_zeros_fit(m))
        fail(s, "has a zero point of 2^bits, which its readers take for different numbers");
}

static void take_gptq(struct finding *s, struct import_matrix *m)
{
    uint64_t have = m->codes.t->ne[1];
    m->form = IMPORT_GPTQ;
    m->less_1 = !s->v2;
    m->index = part(s, ".g_idx");
    m->rows = m->codes.t->ne[0];
    m->bits = m->rows ? (unsigned)(m->zero.t->ne[0] * 32 / m->rows) : 0;
    if ((m->bits != 2 && m->bits != 3 && m->bits != 4 && m->bits != 8) || have * 32 % m->bits)
        fail(s, "has codes of other than 2, 3, 4 and 8 bits");
    else if (set_shape(s, m, m->rows, have * 32 / m->bits))
        set_turned(s, m);
}

static void take_awq(struct finding *s, struct import_matrix *m)
{
    m->form = IMPORT_AWQ;
    m->bits = 4;
    if (set_shape(s, m, m->codes.t->ne[0] * 8, m->codes.t->ne[1]))
        set_turned(s, m);
}

/* The two differ in the direction in which codes share a word. */
static void take_words(struct finding *s, struct import_matrix *m)
{
    m->scale = part(s, ".scales");
    m->zero = part(s, ".qzeros");
    if (!m->scale.t || !m->zero.t)
        fail(s, "has no scales, or no qzeros");
    else if (!has_type(&m->zero, " I32 ") || m->codes.t->n_dims != 2 || m->zero.t->n_dims != 2)
        fail(s, "has words of another type or shape than I32 of two dimensions");
    else if (m->codes.t->ne[0] == m->scale.t->ne[0])
        take_gptq(s, m);
    else if (m->codes.t->ne[0] <= INT32_MAX && m->codes.t->ne[0] * 8 == m->scale.t->ne[0])
        take_awq(s, m);
    else
        fail(s, "has neither the shapes of GPTQ nor those of AWQ's \"gemm\"");
}

/* MXFP4 of gpt-oss: all experts in one tensor, [experts, rows, blocks, 16]. The floats of the class
   are [experts, columns, rows]. */
static void take_blocks(struct finding *s, struct import_matrix *m)
{
    m->form = IMPORT_FP4;
    m->scale = part(s, "_scales");
    const uint64_t *ne = m->codes.t->ne;
    if (m->codes.t->n_dims != 4 || ne[0] != 16 || ne[3] > INT32_MAX || ne[2] > INT32_MAX ||
        ne[1] > INT32_MAX)
        fail(s, "has blocks of another shape than experts, rows, columns / 32, 16");
    else if (set_shape(s, m, ne[3] * ne[2], ne[1] * 32))
        set_scales(s, m, " U8 F8_E8M0 ");
    m->as.ne[2] = ne[3]; /* for set_tensor */
}

static const struct kind {
    const char *end, *dtype; /* of the tensor with the codes */
    void (*take)(struct finding *s, struct import_matrix *m);
    const char *becomes; /* the name's new end */
} kinds[] = {
    {".weight_packed", "I32", take_packed, ".weight"},
    {".weight_packed", "U8", take_fp4, ".weight"},
    {".qweight", "I32", take_words, ".weight"},
    {".weight", "I8", take_int8, ".weight"},
    {".weight", "U8", take_bytes, ".weight"},
    {".weight", "F8_E4M3", take_fp8, ".weight"},
    {".embedding_quantized", "I8", take_int8, ".weight"},
    {".embedding_quantized", "U8", take_bytes, ".weight"},
    {"_blocks", "U8", take_blocks, ""},
};

/* ------------------------------------------------------------------------------------- the list */

/* How the import sees the matrix. */
static void set_tensor(struct finding *s, struct import_matrix *m, const struct kind *kind)
{
    uint64_t experts = m->as.ne[2];
    int n = snprintf(m->name, sizeof m->name, "%.*s%s", (int)s->n, s->module, kind->becomes);
    if (n >= (int)sizeof m->name)
        fail(s, "has a name that is too long");
    m->as = (struct safetensor){.name = m->name,
                                .dtype = "codes",
                                .floats = true,
                                .type = TFT_F32,
                                .n_dims = 2,
                                .ne = {m->cols, m->rows, 1, 1, 1, 1, 1, 1},
                                .bytes = m->codes.t->bytes,
                                .matrix = m};
    if (!experts)
        return;
    m->as.n_dims = 3;
    m->as.ne[0] = m->rows / experts;
    m->as.ne[1] = m->cols;
    m->as.ne[2] = experts;
}

static void take_inputs(struct finding *s, struct import_matrix *m)
{
    m->input = part(s, ".input_scale|.input_activation_scale|.activation_scale|.qscale_act");
    m->input_zero = part(s, ".input_zero_point");
    part(s, ".input_global_scale");
    if (m->input.t && !is_one_float(&m->input))
        fail(s, "has a range of its inputs that is not one float");
    if (m->input_zero.t && (!has_type(&m->input_zero, " I8 ") || m->input_zero.t->bytes != 1))
        fail(s, "has a zero point of its inputs that is not one I8");
}

/* Takes the matrix, if the tensor has the codes of one. */
static void consider(struct finding *s, const struct by_name *e)
{
    struct safetensor *t = e->tensor;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !t->used; i++)
        if (import_ends(t->name, kinds[i].end) && strcmp(t->dtype, kinds[i].dtype) == 0) {
            struct import_matrix *m = &s->f->matrix[s->f->n_matrix++];
            s->module = t->name;
            s->n = strlen(t->name) - strlen(kinds[i].end);
            m->codes = (struct import_part){t, e->shard->data + t->offset, e->shard};
            t->used = true;
            kinds[i].take(s, m);
            take_inputs(s, m);
            if (s->status == TFT_OK)
                set_tensor(s, m, &kinds[i]);
            return;
        }
}

/* Scales of caches and of outputs; import_quantized_check has refused those that count. */
static bool is_left_over(const char *name)
{
    static const char *const ends[] = {".k_scale",           ".v_scale",
                                       ".q_scale",           ".k_cache_scale",
                                       ".v_cache_scale",     ".output_scale",
                                       ".output_zero_point", ".output_activation_scale",
                                       ".input_scale",       ".input_activation_scale"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (import_ends(name, ends[i]))
            return true;
    return false;
}

/* A matrix may not be there in two forms. */
static enum tft_status check_twice(const struct import_folder *f, struct tft_error *err)
{
    for (size_t i = 1; i < f->n_tensor; i++)
        if (strcmp(f->by_name[i - 1].tensor->name, f->by_name[i].tensor->name) == 0)
            return import_error(err, TFT_ERR_FORMAT, "%s: tensor \"%s\" is there in two forms",
                                f->path, f->by_name[i].tensor->name);
    return TFT_OK;
}

enum tft_status import_quantized_open(struct import_folder *f, struct tft_error *err)
{
    struct finding s = {.f = f, .err = err};
    f->matrix = calloc(f->n_tensor ? f->n_tensor : 1, sizeof *f->matrix);
    if (!f->matrix)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", f->path);
    read_config(&s);
    for (size_t i = 0; i < f->n_tensor && s.status == TFT_OK; i++)
        if (!import_not_needed(f->by_name[i].tensor->name))
            consider(&s, &f->by_name[i]);
    size_t n = 0;
    for (size_t i = 0; i < f->n_tensor; i++) {
        const struct safetensor *t = f->by_name[i].tensor;
        if (!t->used && !(import_quantization(f) && is_left_over(t->name)))
            f->by_name[n++] = f->by_name[i];
    }
    for (size_t i = 0; i < f->n_matrix && s.status == TFT_OK; i++)
        f->by_name[n++] = (struct by_name){&f->matrix[i].as, NULL};
    f->n_tensor = n;
    import_folder_sort(f);
    return s.status == TFT_OK ? check_twice(f, err) : s.status;
}
