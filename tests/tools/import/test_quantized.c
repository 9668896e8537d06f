/* Quantized folders: the samples of ../shared against their matrices, and whole toys in each form
   against the same toys as floats. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"
#include "hf.h"
#include "paths.h"
#include "quantized_folder.h"
#include "tools/import/blocks.h"
#include "tools/import/quantized.h"
#include "tools/import/quantized_config.h"

/* ---- samples */

enum { OUT = 64, IN = 256 };

static const struct {
    const char *name;
    enum tft_dtype type; /* the smallest that holds the matrix as it is */
    float input;         /* the scale of its inputs; 0: none */
} samples[] = {
    {"awq4-gemm", TFT_Q8_0, 0},
    {"ct-int8-channel-static", TFT_Q8_0, 1},
    {"ct-int8-channel-static-azp", TFT_Q8_0, 1},
    {"ct-mxfp4", TFT_MXFP4, 0},
    {"ct-nvfp4", TFT_F32, 0},
    {"ct-pack2-channel-io", TFT_Q2_0, 0.03125f},
    {"ct-pack3-channel", TFT_Q4_0, 0},
    {"ct-pack3-channel-old", TFT_Q4_0, 0},
    {"ct-pack4-actorder", TFT_F32, 0},
    {"ct-pack4-group-asym", TFT_Q8_0, 0},
    {"ct-pack4-group-sym", TFT_Q4_0, 0},
    {"fp8-block", TFT_F32, 0},
    {"fp8-tensor-static", TFT_F32, 0.02f},
    {"gemma-int2", TFT_Q2_0, 0.03125f},
    {"gptq2-v1", TFT_Q2_0, 0},
    {"gptq3-v1", TFT_Q4_0, 0},
    {"gptq4-v1-asym", TFT_Q8_0, 0},
    {"gptq4-v1-desc_act", TFT_F32, 0},
    {"gptq4-v2-asym", TFT_Q8_0, 0},
    {"gptq8-v1", TFT_Q8_0, 0},
};

static void read_expected(const char *dir, float *to)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/expected.f32", dir);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(to, 4, OUT * IN, f), OUT * IN);
    fclose(f);
}

static void same_row(const char *name, const float *got, const float *want, unsigned r)
{
    for (unsigned c = 0; c < IN; c++)
        if (got[c] != want[c])
            fail_msg("%s: row %u, column %u is %.9g, not %.9g", name, r, c, (double)got[c],
                     (double)want[c]);
}

/* Each row equals the expected one, and so does the row in the type that was chosen. */
static void check_matrix(const char *name, const struct import_matrix *m, const float *want,
                         enum tft_dtype type)
{
    static float code[OUT][IN], scale[OUT][IN];
    float got[IN];
    unsigned char row[IN * 2];
    struct import_blocks b = import_blocks_all(IN, 0);
    for (unsigned r = 0; r < OUT; r++) {
        import_matrix_row(m, r, code[r], scale[r]);
        for (unsigned c = 0; c < IN; c++)
            got[c] = code[r][c] * scale[r][c];
        same_row(name, got, want + r * IN, r);
        import_blocks_see(&b, code[r], scale[r], IN);
    }
    if (import_blocks_type(&b) != type)
        fail_msg("%s is %s, not %s", name, tft_dtype_name(import_blocks_type(&b)),
                 tft_dtype_name(type));
    for (unsigned r = 0; r < OUT && import_blocks_has(type); r++) {
        import_blocks_row(row, type, code[r], scale[r], IN, 0);
        tft_dtype_info(type)->to_f32(got, row, IN);
        same_row(name, got, want + r * IN, r);
    }
}

/* Floats of a stack of which another part has codes: a whole number that has no neighbour. */
static void large_numbers(void **state)
{
    (void)state;
    float code[64], scale[64];
    struct import_blocks b = import_blocks_all(64, 0);
    for (int c = 0; c < 64; c++) {
        code[c] = 0x1p60f;
        scale[c] = 1;
    }
    assert_true(import_blocks_see(&b, code, scale, 64));
    assert_int_equal(import_blocks_type(&b), TFT_BF16);
}

static void check_sample(size_t i, const char *dir)
{
    static float want[OUT * IN];
    const char *name = samples[i].name;
    struct import_folder f;
    const unsigned char *data;
    if (import_folder_open(&f, dir, &err) != TFT_OK || import_quantized_open(&f, &err) != TFT_OK)
        fail_msg("%s: %s", name, err.msg);
    const struct safetensor *t =
        import_folder_find(&f, "model.layers.0.mlp.down_proj.weight", &data);
    assert_true(t && t->matrix && t->ne[0] == IN && t->ne[1] == OUT && f.n_tensor == 1);
    read_expected(dir, want);
    check_matrix(name, t->matrix, want, samples[i].type);
    const struct import_part *input = &t->matrix->input;
    assert_int_equal(input->t != NULL, samples[i].input != 0);
    if (samples[i].input != 0 && samples[i].input != 1)
        assert_true(import_part_number(input) == samples[i].input);
    import_folder_close(&f);
}

/* Static ranges of outputs, which are a part of the formula, are refused. */
static void check_refusal(const char *name, const char *dir)
{
    struct import_folder f;
    bool outputs = strcmp(name, "ct-pack2-channel-io") == 0 || strcmp(name, "gemma-int2") == 0;
    assert_int_equal(import_folder_open(&f, dir, &err), TFT_OK);
    assert_int_equal(import_quantized_check(&f, &err), outputs ? TFT_ERR_UNSUPPORTED : TFT_OK);
    if (outputs)
        assert_non_null(strstr(err.msg, "a static range of outputs"));
    import_folder_close(&f);
}

static void all_samples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char name[100], dir[4100];
        snprintf(name, sizeof name, "/models/quantized/%s/config.json", samples[i].name);
        const char *path = shared_path(name);
        if (!path)
            skip_because("no ../shared/models/quantized");
        snprintf(dir, sizeof dir, "%.*s", (int)(strlen(path) - strlen("/config.json")), path);
        check_sample(i, dir);
        check_refusal(samples[i].name, dir);
    }
}

/* MXFP4 of gpt-oss: a byte has two neighbouring columns, and all experts are in one tensor. */
static void blocks_of_experts(void **state)
{
    (void)state;
    enum { EXPERTS = 3, ROWS = 4, COLS = 64, BLOCKS = EXPERTS * ROWS * COLS / 32 };
    static struct tensors t;
    unsigned char code[16 * BLOCKS], exponent[BLOCKS];
    float got[COLS], scale[COLS];
    char path[100];
    struct import_folder f;
    const unsigned char *data;
    for (unsigned i = 0; i < sizeof code; i++)
        code[i] = (unsigned char)(i * 37);
    for (unsigned i = 0; i < BLOCKS; i++)
        exponent[i] = (unsigned char)(120 + i % 9);
    empty_hf();
    snprintf(path, sizeof path, "%s/config.json", hf());
    assert_true(write_file(path, "{}", 2));
    add_tensor(&t, "experts.down_proj", "_blocks", "U8", "3,4,2,16", code, sizeof code);
    add_tensor(&t, "experts.down_proj", "_scales", "U8", "3,4,2", exponent, sizeof exponent);
    snprintf(path, sizeof path, "%s/model.safetensors", hf());
    write_tensors(&t, path);
    assert_int_equal(import_folder_open(&f, hf(), &err), TFT_OK);
    assert_int_equal(import_quantized_open(&f, &err), TFT_OK);
    const struct safetensor *m = import_folder_find(&f, "experts.down_proj", &data);
    assert_true(m && m->n_dims == 3 && m->ne[2] == EXPERTS && m->ne[1] == COLS && m->ne[0] == ROWS);
    for (unsigned r = 0; r < EXPERTS * ROWS; r++) {
        import_matrix_row(m->matrix, r, got, scale);
        for (unsigned c = 0; c < COLS; c++) {
            unsigned at = r * COLS + c, nibble = code[at / 2] >> 4 * (c % 2) & 15;
            float want = e2m1(nibble) * ldexpf(1, exponent[at / 32] - 127);
            assert_true(got[c] * scale[c] == want);
        }
    }
    import_folder_close(&f);
}

/* ---- whole toys */

static const struct toy toy = {.arch = "llama",
                               .n_vocab = 43,
                               .n_ctx = 640,
                               .n_embd = 64,
                               .n_layer = 2,
                               .n_head = 4,
                               .n_head_kv = 2,
                               .head_dim = 16,
                               .n_ff = 128,
                               .n_rot = 16,
                               .seed = 5,
                               .type = TFT_F32};

#define CT "\"quant_method\":\"compressed-tensors\",\"quantization_status\":\"compressed\","
#define CT_BITS(format, bits)                                                                      \
    CT "\"format\":\"" format "\",\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],"       \
       "\"weights\":{\"num_bits\":" bits ",\"type\":\"int\"},\"input_activations\":null}}"
#define INT8_INPUTS(format, bits, dynamic)                                                         \
    CT "\"format\":\"" format "\",\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],"       \
       "\"weights\":{\"num_bits\":" bits ",\"type\":\"int\"},\"input_activations\":{"              \
       "\"num_bits\":8,\"type\":\"int\",\"dynamic\":" dynamic "}}}"
#define GPTQ_V1 "\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq\""
#define GPTQ_V2 "\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\""

static const struct variant variants[] = {
    {"4 bits in groups", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4, .group = 32,
     .bf16 = true, .type = TFT_Q4_0},
    {"4 bits, asymmetric", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4,
     .group = 32, .asym = true, .type = TFT_Q8_0},
    {"4 bits by channel", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4,
     .bf16 = true, .type = TFT_Q4_0},
    {"4 bits of a tensor", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4,
     .one_scale = true, .type = TFT_Q4_0},
    {"3 bits", CT_BITS("pack-quantized", "3") ",\"version\":\"0.18.0\"", .form = CT_PACKED,
     .bits = 3, .type = TFT_Q4_0},
    {"3 bits in old words", CT_BITS("pack-quantized", "3") ",\"version\":\"0.15.0\"",
     .form = CT_PACKED, .bits = 3, .old_words = true, .type = TFT_Q4_0},
    {"3 bits, asymmetric, in old words", CT_BITS("pack-quantized", "3"), .form = CT_PACKED,
     .bits = 3, .asym = true, .old_words = true, .type = TFT_Q4_0},
    {"2 bits", CT_BITS("pack-quantized", "2"), .form = CT_PACKED, .bits = 2, .type = TFT_Q2_0},
    {"8 bits, packed", CT_BITS("pack-quantized", "8"), .form = CT_PACKED, .bits = 8, .group = 32,
     .type = TFT_Q8_0},
    {"act order", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4, .group = 32,
     .act_order = true, .type = TFT_F32},
    {"int8", CT_BITS("int-quantized", "8"), .form = CT_INT8, .bits = 8, .bf16 = true,
     .type = TFT_Q8_0},
    {"int8 of a tensor", CT_BITS("int-quantized", "8"), .form = CT_INT8, .bits = 8,
     .one_scale = true, .type = TFT_Q8_0},
    {"GPTQ of 4 bits", GPTQ_V1, .form = GPTQ, .bits = 4, .group = 32, .v1 = true, .type = TFT_Q4_0},
    {"GPTQ with act order", GPTQ_V1 ",\"desc_act\":true", .form = GPTQ, .bits = 4, .group = 32,
     .v1 = true, .act_order = true, .type = TFT_F32},
    {"GPTQ of 4 bits, asymmetric", GPTQ_V1, .form = GPTQ, .bits = 4, .group = 32, .v1 = true,
     .asym = true, .type = TFT_Q8_0},
    {"GPTQ of 4 bits, version 2", GPTQ_V2, .form = GPTQ, .bits = 4, .group = 32, .asym = true,
     .type = TFT_Q8_0},
    {"GPTQ of 3 bits", GPTQ_V1, .form = GPTQ, .bits = 3, .group = 32, .v1 = true, .asym = true,
     .type = TFT_Q4_0},
    {"GPTQ of 2 bits", GPTQ_V1, .form = GPTQ, .bits = 2, .v1 = true, .type = TFT_Q2_0},
    {"GPTQ of 8 bits", GPTQ_V1, .form = GPTQ, .bits = 8, .group = 32, .v1 = true, .type = TFT_Q8_0},
    {"AWQ", "\"quant_method\":\"awq\",\"version\":\"gemm\",\"zero_point\":true", .form = AWQ,
     .bits = 4, .group = 32, .asym = true, .type = TFT_Q8_0},
    {"FP8", "\"quant_method\":\"fp8\",\"weight_block_size\":[48,40]", .form = FP8, .type = TFT_F32},
    {"NVFP4", CT "\"format\":\"nvfp4-pack-quantized\"", .form = NVFP4, .group = 16,
     .type = TFT_NVFP4},
    {"MXFP4", CT "\"format\":\"mxfp4-pack-quantized\"", .form = MXFP4, .group = 32,
     .type = TFT_MXFP4},
    {"ModelOpt's NVFP4", "\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"", .form = NVFP4,
     .group = 16, .modelopt = true, .type = TFT_NVFP4},
    {"GPTQ without g_idx", GPTQ_V1, .form = GPTQ, .bits = 4, .group = 32, .v1 = true,
     .no_index = true, .type = TFT_Q4_0},
    {"zero points of 0", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4, .group = 32,
     .zero_points = true, .type = TFT_Q4_0},
    {"FP8 of compressed-tensors",
     CT
     "\"config_groups\":{\"a\":{\"weights\":{\"type\":\"float\",\"block_structure\":\"48x40\"}}}",
     .form = FP8, .type = TFT_F32},
    {"4 bits in groups, inputs by token", INT8_INPUTS("pack-quantized", "4", "true"),
     .form = CT_PACKED, .bits = 4, .group = 32, .type = TFT_Q4_0},
};

static void make_quantized(const struct variant *v)
{
    empty_hf();
    as_folder(&toy, written(&toy), hf(), 1);
    quantize_hf(v);
}

/* Both files have the same tensors: got's as floats are want's. Matrices of codes, which have
   n_dims dimensions, have `type`. */
static void same_numbers_of(const char *name, enum tft_dtype type, uint32_t n_dims)
{
    static float got_row[MOST_COLS], want_row[MOST_COLS];
    struct tft_source got, want;
    assert_int_equal(tft_source_open(&got, in_folder("i.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_source_open(&want, in_folder("want.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(got.n_tensor, want.n_tensor);
    for (size_t i = 0; i < want.n_tensor; i++) {
        const struct tft_tensor *w = &want.tensor[i], *g = &got.tensor[i];
        bool coded = w->n_dims == n_dims && memcmp(w->name.p, "blk.", 4) == 0;
        assert_true(w->name.n == g->name.n && memcmp(w->name.p, g->name.p, w->name.n) == 0);
        assert_true(w->ne[0] == g->ne[0] && w->ne[1] == g->ne[1] && w->type == TFT_F32);
        if (g->type != (coded ? type : TFT_F32))
            fail_msg("%s: %.*s is %s, not %s", name, TFT_STR_ARG(w->name), tft_dtype_name(g->type),
                     tft_dtype_name(type));
        assert_true(w->ne[2] == g->ne[2]);
        for (uint64_t r = 0, rows = w->ne[1] * w->ne[2]; r < rows; r++) {
            const struct tft_dtype_info *info = tft_dtype_info(g->type);
            size_t n = (size_t)w->ne[0];
            info->to_f32(got_row, g->data + r * (g->bytes / rows), n);
            memcpy(want_row, w->data + r * n * 4, n * 4);
            for (size_t c = 0; c < n; c++)
                if (got_row[c] != want_row[c])
                    fail_msg("%s: %.*s: row %u, column %zu", name, TFT_STR_ARG(w->name),
                             (unsigned)r, c);
        }
    }
    tft_source_close(&got);
    tft_source_close(&want);
}

static void same_numbers(const char *name, enum tft_dtype type) { same_numbers_of(name, type, 2); }

static void import_as(const char *name, enum import_type type)
{
    struct import_opts o = keep;
    o.type = type;
    if (import_hf(&o) != TFT_OK)
        fail_msg("%s: %s", name, err.msg);
}

/* As same_numbers for NVFP4: each matrix has a factor, which is rounded. */
static void same_with_factors(const char *name)
{
    static float got_row[MOST_COLS], want_row[MOST_COLS];
    struct tft_source got, want;
    size_t factors = 0;
    assert_int_equal(tft_source_open(&got, in_folder("i.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_source_open(&want, in_folder("want.gguf"), NULL, NULL, NULL), TFT_OK);
    for (size_t i = 0; i < want.n_tensor; i++) {
        const struct tft_tensor *w = &want.tensor[i];
        char text[80], scale[80];
        float factor;
        snprintf(text, sizeof text, "%.*s", TFT_STR_ARG(w->name));
        snprintf(scale, sizeof scale, "%.*sscale", (int)(w->name.n - strlen("weight")), w->name.p);
        const struct tft_tensor *g = tft_source_tensor(&got, text),
                                *s = tft_source_tensor(&got, scale);
        assert_non_null(g);
        assert_int_equal(s != NULL, w->n_dims == 2 && strncmp(text, "blk.", 4) == 0);
        if (!s)
            continue;
        factors++;
        assert_true(g->type == TFT_NVFP4 && s->type == TFT_F32 && s->bytes == 4);
        memcpy(&factor, s->data, 4);
        for (uint64_t r = 0; r < w->ne[1]; r++) {
            size_t n = (size_t)w->ne[0];
            tft_dtype_info(TFT_NVFP4)->to_f32(got_row, g->data + r * (g->bytes / g->ne[1]), n);
            memcpy(want_row, w->data + r * n * 4, n * 4);
            for (size_t c = 0; c < n; c++)
                if (fabsf(got_row[c] * factor - want_row[c]) > 1e-6f * fabsf(want_row[c]))
                    fail_msg("%s: %s: row %u, column %zu", name, text, (unsigned)r, c);
        }
    }
    assert_int_equal(factors, 14);
    assert_int_equal(got.n_tensor, want.n_tensor + factors);
    tft_source_close(&got);
    tft_source_close(&want);
}

static void every_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const struct variant *v = &variants[i];
        make_quantized(v);
        import_as(v->name, IMPORT_F32);
        same_numbers(v->name, TFT_F32);
        assert_int_equal(fed_until(17, in_folder("i.gguf"), 1, 60, 512, "f32"),
                         fed_until(17, in_folder("want.gguf"), 1, 60, 512, "f32"));
        import_as(v->name, IMPORT_KEEP);
        if (v->type == TFT_NVFP4)
            same_with_factors(v->name);
        else
            same_numbers(v->name, v->type);
    }
}

static const struct toy gpt_oss = {.arch = "gpt-oss",
                                   .n_vocab = 45,
                                   .n_ctx = 1200,
                                   .n_embd = 64,
                                   .n_layer = 2,
                                   .n_head = 4,
                                   .n_head_kv = 2,
                                   .head_dim = 16,
                                   .n_ff = 32,
                                   .n_rot = 16,
                                   .type = TFT_F32,
                                   .yarn = 8};

/* gpt-oss as OpenAI has it: rows of gate and up take turns in both forms, and the floats have
   columns first. */
static void experts_of_gpt_oss(void **state)
{
    (void)state;
    empty_hf();
    as_folder(&gpt_oss, written(&gpt_oss), hf(), 1);
    quantize_experts();
    import_as("gpt-oss", IMPORT_F32);
    same_numbers_of("gpt-oss", TFT_F32, 3);
    import_as("gpt-oss", IMPORT_KEEP);
    same_numbers_of("gpt-oss", TFT_MXFP4, 3);
}

/* ---- W8A8 */

static const struct variant with_inputs[] = {
    {"W8A8", INT8_INPUTS("int-quantized", "8", "false"), .form = CT_INT8, .bits = 8, .bf16 = true,
     .inputs = 0.06f},
    {"W8A8, asymmetric inputs", INT8_INPUTS("int-quantized", "8", "false"), .form = CT_INT8,
     .bits = 8, .inputs = 0.06f, .input_zero = -20},
    {"W8A8 of a tensor", INT8_INPUTS("int-quantized", "8", "false"), .form = CT_INT8, .bits = 8,
     .one_scale = true, .inputs = 0.06f},
    {"W8A8, inputs by token", INT8_INPUTS("int-quantized", "8", "true"), .form = CT_INT8,
     .bits = 8},
    {"W8A8, inputs of scale 0", INT8_INPUTS("int-quantized", "8", "false"), .form = CT_INT8,
     .bits = 8, .zero_inputs = true},
    {"W4A8", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4, .inputs = 0.06f},
    {"W3A8", CT_BITS("pack-quantized", "3"), .form = CT_PACKED, .bits = 3, .inputs = 0.06f},
    {"W2A8", CT_BITS("pack-quantized", "2"), .form = CT_PACKED, .bits = 2, .inputs = 0.06f},
    {"W4A8 in groups", CT_BITS("pack-quantized", "4"), .form = CT_PACKED, .bits = 4, .group = 32,
     .inputs = 0.06f},
};
enum { IN_GROUPS = 8 };

static const struct tft_linear *matrix_of(const struct tft_layer *b, int i)
{
    const struct tft_linear *const all[] = {&b->q, &b->k, &b->v, &b->o, &b->gate, &b->up, &b->down};
    return all[i];
}

static const char *const names[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                    "ffn_gate", "ffn_up", "ffn_down"};
enum { MATRICES = sizeof names / sizeof *names };

/* The largest difference of a matrix of the layer from want.gguf, relative to its row's largest
   number. */
static double matrix_error(const struct tft_source *want, const struct tft_layer *b, unsigned l,
                           int i)
{
    char name[64];
    float row[MOST_COLS], w[MOST_COLS];
    const struct tft_mat *m = &matrix_of(b, i)->w;
    double worst = 0;
    snprintf(name, sizeof name, "blk.%u.%s.weight", l, names[i]);
    const struct tft_tensor *t = tft_source_tensor(want, name);
    assert_true(t && t->ne[0] == m->cols && t->ne[1] == m->rows);
    for (uint32_t r = 0; r < m->rows; r++) {
        double off = 0, largest = 0;
        m->format->row(NULL, m, r, row);
        memcpy(w, t->data + (size_t)r * m->cols * 4, m->cols * 4);
        for (uint32_t c = 0; c < m->cols; c++) {
            off = fmax(off, fabs((double)row[c] - (double)w[c]));
            largest = fmax(largest, fabs((double)w[c]));
        }
        worst = fmax(worst, off / largest);
    }
    return worst;
}

/* The matrices have the folder's codes, in as many bits; inputs have its ranges. */
static void check_w8a8(const struct variant *v, bool exact)
{
    struct tft_source want;
    struct tft_model *m = opened(in_folder("i.gguf"));
    assert_int_equal(tft_source_open(&want, in_folder("want.gguf"), NULL, NULL, NULL), TFT_OK);
    for (unsigned l = 0; l < m->n_layer; l++) {
        struct tft_layer *b = &m->layer[l];
        for (int i = 0; i < MATRICES; i++) {
            const struct tft_format *f = matrix_of(b, i)->w.format;
            double error = matrix_error(&want, b, l, i);
            if (exact ? error != 0 : !(error > 0 && error < 0.5 / 127 + 1e-6))
                fail_msg("%s: %s of layer %u is off by %g", v->name, names[i], l, error);
            assert_int_equal(f->low ? tft_bits_levels(f->low->bits) : 256,
                             exact ? 1u << v->bits : 256);
        }
        for (int i = 0; i < TFT_LAYER_INPUTS; i++) {
            assert_int_equal(b->in[i].range, v->inputs != 0 ? TFT_RANGE_STATIC : TFT_RANGE_TOKEN);
            assert_true(v->inputs == 0 || (b->in[i].affine.scale == v->inputs &&
                                           b->in[i].affine.zero == 128 + v->input_zero));
        }
    }
    assert_int_equal(m->head_in.range, TFT_RANGE_TOKEN);
    tft_source_close(&want);
    tft_model_close(m);
}

/* The distance of the file's logits from those of the same numbers as floats. */
static double from_want(void)
{
    const char *const path[2] = {in_folder("i.gguf"), in_folder("want.gguf")};
    struct tft_model *m[2];
    struct tft_session *s[2];
    int32_t tokens[40];
    toy_tokens(9, toy.n_vocab, tokens, 40);
    for (int i = 0; i < 2; i++) {
        m[i] = opened(path[i]);
        s[i] = session(m[i], (struct tft_session_opts){.kv = "f32", .n_threads = 1});
        assert_int_equal(tft_prefill(s[i], tokens, 40), TFT_OK);
    }
    double d = distance(s[0], s[1]);
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
    return d;
}

static void ranges_and_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof with_inputs / sizeof *with_inputs; i++) {
        const struct variant *v = &with_inputs[i];
        make_quantized(v);
        import_as(v->name, IMPORT_KEEP);
        check_w8a8(v, i != IN_GROUPS);
        double d = from_want(), most = v->inputs != 0 ? 0.4 : 0.1;
        if (!(d > 0 && d < most))
            fail_msg("%s: the logits are off by %g", v->name, d);
    }
}

static char told[4096];

static void tell(void *user, const char *text)
{
    (void)user;
    strncat(told, text, sizeof told - strlen(told) - 1);
    strcat(told, "\n");
}

/* -128 becomes -127, and matrices of floats are rounded: the import says so. */
static void losses(void **state)
{
    (void)state;
    struct variant v = with_inputs[0];
    struct import_opts o = {.no_tokenizer = true, .warn = tell};
    v.minus_128 = true;
    make_quantized(&v);
    *told = 0;
    assert_int_equal(import_hf(&o), TFT_OK);
    assert_non_null(strstr(told, "8 of 9 inputs have the folder's ranges"));
    assert_non_null(strstr(told, "model.embed_tokens.weight is rounded to 8 bits"));
    assert_non_null(strstr(told, "lm_head.weight is rounded to 8 bits"));
    /* 64 rows of q, o, down; 32 of k, v; 128 of gate, up; in each of 2 layers */
    assert_non_null(strstr(told, "1024 weights of -128 in 14 matrices become -127"));
    assert_null(strstr(told, "_proj.weight is rounded"));
    o.type = IMPORT_F32;
    assert_int_equal(import_hf(&o), TFT_OK);
    same_numbers("floats of W8A8", TFT_F32);
    o = (struct import_opts){.no_tokenizer = true, .no_ranges = true, .warn = tell};
    *told = 0;
    assert_int_equal(import_hf(&o), TFT_OK);
    same_numbers("W8A8 without ranges", TFT_Q8_0);
    assert_non_null(strstr(told, "the ranges of inputs are left out"));
    assert_non_null(strstr(told, "quantized matrices become, without loss: 14 Q8_0"));
}

/* q, k and v have one input: it takes the widest of their ranges. */
static void mixed_ranges(void **state)
{
    (void)state;
    struct variant v = with_inputs[0];
    struct import_opts o = {.no_tokenizer = true, .warn = tell};
    v.mixed_inputs = true;
    make_quantized(&v);
    *told = 0;
    assert_int_equal(import_hf(&o), TFT_OK);
    assert_non_null(strstr(told, "2 inputs have different ranges for their matrices"));
    struct tft_model *m = opened(in_folder("i.gguf"));
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_input *in = m->layer[l].in;
        assert_true(in[TFT_IN_ATTN].affine.scale == 2 * v.inputs &&
                    in[TFT_IN_O].affine.scale == v.inputs);
        assert_int_equal(in[TFT_IN_ATTN].affine.zero, 128);
    }
    tft_model_close(m);
}

/* Ranges of caches are left out, also where they have the name of outputs. */
static void ranges_of_caches(void **state)
{
    (void)state;
    struct variant v = variants[0];
    struct import_opts o = {.no_tokenizer = true, .warn = tell};
    v.caches = true;
    v.config = CT_BITS("pack-quantized", "4") ",\"kv_cache_scheme\":{\"num_bits\":8}";
    make_quantized(&v);
    *told = 0;
    assert_int_equal(import_hf(&o), TFT_OK);
    same_numbers("caches", TFT_Q4_0);
    assert_non_null(strstr(told, "kv_cache_scheme is not applied"));
}

static bool never(void *user, double done)
{
    ++*(int *)user;
    return done > 0;
}

/* While types are chosen, too. */
static void stops(void **state)
{
    (void)state;
    int calls = 0;
    struct import_opts o = {.no_tokenizer = true, .progress = never, .user = &calls};
    struct import_result r;
    struct stat st;
    make_quantized(&variants[0]);
    remove(in_folder("i.gguf"));
    assert_int_equal(import_model(hf(), in_folder("i.gguf"), &o, &r, &err), TFT_OK);
    assert_true(r.stopped);
    assert_int_equal(calls, 1);
    assert_int_equal(stat(in_folder("i.gguf"), &st), -1);
}

/* ---- refusals */

static void refused(const struct variant *v, const char *in, const char *what, const char *with,
                    const char *message)
{
    make_quantized(v);
    file = in;
    if (what)
        edit(what, with);
    file = "config.json";
    assert_int_not_equal(import_hf(&keep), TFT_OK);
    if (!strstr(err.msg, message))
        fail_msg("\"%s\" is not \"%s\"", err.msg, message);
}

/* The formula has a range of outputs, unless it is 0, or the config is left out by name. */
static void outputs(void **state)
{
    (void)state;
    struct variant v = variants[0];
    struct import_opts o = {.no_tokenizer = true, .ignore_keys = "quantization_config"};
    v.has_outputs = true;
    make_quantized(&v);
    assert_int_equal(import_hf(&keep), TFT_OK);
    same_numbers("outputs without a range", TFT_Q4_0);
    v.outputs = 0.01f;
    refused(&v, NULL, NULL, NULL, "a static range of outputs is not supported");
    assert_int_equal(import_hf(&o), TFT_OK);
    same_numbers("ignored outputs", TFT_Q4_0);
}

/* The header of the weights is edited: both strings have one length. */
static void refuses_parts(void **state)
{
    (void)state;
    const char *weights = "model.safetensors";
    const struct variant *packed = &variants[0], *gptq = &variants[12], *awq = &variants[19],
                         *fp8 = &variants[20], *nvfp4 = &variants[21];
    struct variant bad = *gptq;
    refused(packed, weights, "q_proj.weight_scale\"", "q_proj.weight_scalf\"", "has no scales");
    refused(packed, weights, "q_proj.weight_shape\"", "q_proj.weight_shapf\"",
            "has no weight_shape of its rows and columns");
    refused(packed, weights, "q_proj.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[64,2]",
            "q_proj.weight_scale\":{\"dtype\":\"BF16\",\"shape\":[32,4]",
            "has scales that do not divide it into groups");
    refused(packed, weights, "q_proj.weight_scale\":{\"dtype\":\"BF16\"",
            "q_proj.weight_scale\":{\"dtype\":\"I16\" ", "has scales of a type");
    refused(packed, weights, "q_proj.weight_packed\":{\"dtype\":\"I32\",\"shape\":[64,8]",
            "q_proj.weight_packed\":{\"dtype\":\"I32\",\"shape\":[8,64]", "has no weight_shape");
    refused(packed, "config.json", "\"num_bits\":4", "\"num_bits\":8",
            "has words that hold no codes of the bits that config.json says");
    refused(gptq, weights, "q_proj.qzeros\"", "q_proj.qzerox\"", "has no scales, or no qzeros");
    refused(gptq, weights, "q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[2,64]",
            "q_proj.scales\":{\"dtype\":\"F16\",\"shape\":[4,32]", "neither the shapes of GPTQ");
    refused(awq, weights, "q_proj.qzeros\":{\"dtype\":\"I32\",\"shape\":[2,8]",
            "q_proj.qzeros\":{\"dtype\":\"I32\",\"shape\":[8,2]",
            "has zero points that are not one for each scale");
    refused(fp8, weights, "q_proj.weight_scale_inv\"", "q_proj.weight_scale_ind\"",
            "has no scales");
    refused(nvfp4, weights, "q_proj.weight_global_scale\"", "q_proj.weight_global_scalf\"",
            "has no factor of all scales");
    refused(fp8, "config.json", "[48,40]", "[48,0]",
            "has scales that do not divide it into groups");
    struct variant twice = *packed;
    twice.twice = true;
    refused(&twice, NULL, NULL, NULL, "is there in two forms");
    bad.bad_index = true;
    refused(&bad, NULL, NULL, NULL, "has a g_idx of a group that has no scale");
    bad = *gptq;
    bad.highest_zero = true; /* 15 is stored as 14, so read as version 1 it is 15 again */
    make_quantized(&bad);
    assert_int_equal(import_hf(&keep), TFT_OK);
    bad.v1 = false;
    refused(&bad, NULL, NULL, NULL, "has a zero point of 2^bits");
}

static void refuses_methods(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
    } cases[] = {
        {"\"quant_method\":\"bitsandbytes\"", "quantized by \"bitsandbytes\""},
        {"\"load_in_4bit\":true", "quantized by \"bitsandbytes\""},
        {"\"quant_method\":\"quark\"", "quantized by \"quark\""},
        {"\"quant_method\":\"awq\",\"version\":\"gemv\"", "another version than \"gemm\""},
        {"\"quant_method\":\"awq\",\"version\":\"gemm\",\"backend\":\"llm-awq\"",
         "another version than \"gemm\""},
        {"\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\"", "another checkpoint_format"},
        {"\"quant_method\":\"gptq\",\"format\":\"gptq_p\"", "another checkpoint_format"},
        {"\"quant_method\":\"gptq\",\"is_marlin_format\":true", "another checkpoint_format"},
        {"\"quant_method\":\"gptq\",\"rotation\":\"hadamard\"", "a transform of inputs"},
        {CT "\"format\":\"marlin-24\"", "sparse weights"},
        {CT "\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}", "sparse weights"},
        {CT "\"transform_config\":{\"config_groups\":{\"a\":{\"apply\":[{\"location\":"
            "\"input\"}]}}}",
         "transforms of inputs"},
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A16_AWQ\"", "a scaling of inputs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct variant v = variants[0];
        v.config = cases[i].config;
        refused(&v, NULL, NULL, NULL, cases[i].message);
    }
    /* transforms of weights are in the weights */
    struct variant v = variants[0];
    v.config = CT "\"transform_config\":{\"config_groups\":{\"a\":{\"apply\":[{\"location\":"
                  "\"weight_output\"}]}}}";
    make_quantized(&v);
    assert_int_equal(import_hf(&keep), TFT_OK);
    same_numbers("transforms of weights", TFT_Q4_0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_samples),      cmocka_unit_test(blocks_of_experts),
        cmocka_unit_test(every_form),       cmocka_unit_test(ranges_and_codes),
        cmocka_unit_test(losses),           cmocka_unit_test(refuses_parts),
        cmocka_unit_test(refuses_methods),  cmocka_unit_test(outputs),
        cmocka_unit_test(mixed_ranges),     cmocka_unit_test(stops),
        cmocka_unit_test(ranges_of_caches), cmocka_unit_test(experts_of_gpt_oss),
        cmocka_unit_test(large_numbers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_all);
}
