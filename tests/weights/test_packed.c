/* Packed weights: nothing is lost, products equal the float products, and a model of each type has
   the same logits on all ISA levels, with any number of threads and however it is fed. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed.h"
#include "run/session.h"
#include "weights/packed.h"

enum { COLS = 512, ROWS = 37 };

/* ROWS random rows of a type, as in a file. */
static unsigned char *rows_of(enum tft_dtype type, uint64_t seed, size_t *row_bytes)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    size_t blocks = COLS / info->block;
    unsigned char *rows = malloc(ROWS * blocks * info->bytes);
    assert_non_null(rows);
    for (size_t i = 0; i < ROWS * blocks; i++)
        toy_block(rows + i * info->bytes, type, &seed, 1);
    *row_bytes = blocks * info->bytes;
    return rows;
}

static struct tft_mat packed(const struct tft_format *f, const unsigned char *rows,
                             size_t row_bytes)
{
    uint64_t panel = tft_packed_bytes(f, TFT_PANEL, COLS), bad;
    unsigned char *to = malloc(tft_packed_bytes(f, ROWS, COLS));
    assert_non_null(to);
    for (uint32_t n = 0; n < ROWS; n += TFT_PANEL)
        assert_true(tft_pack_panel(to + n / TFT_PANEL * panel, f, rows + n * row_bytes,
                                   ROWS - n < TFT_PANEL ? ROWS - n : TFT_PANEL, COLS, &bad));
    return (struct tft_mat){.format = f, .rows = ROWS, .cols = COLS, .data = to};
}

/* The rows of packed weights are bit for bit the floats of the file, and they take few more bytes
   than the file, but for rows that fill a panel. */
static void nothing_is_lost(void **state)
{
    (void)state;
    struct tft_kernels kern;
    tft_kernels_fill(&kern, tft_kernels_best());
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++) {
        const struct tft_format *f = &tft_packed_formats[i];
        size_t row_bytes;
        unsigned char *rows = rows_of(f->type, i, &row_bytes);
        struct tft_mat w = packed(f, rows, row_bytes);
        assert_ptr_equal(tft_format_packed(f->type), f);
        assert_string_equal(f->name, tft_dtype_name(f->type));
        assert_in_range(w.format->bytes(&w), 48 * row_bytes, 48 * row_bytes * 108 / 100);
        for (uint32_t n = 0; n < ROWS; n++) {
            float want[COLS], got[COLS];
            tft_dtype_info(f->type)->to_f32(want, rows + n * row_bytes, COLS);
            f->row(&kern, &w, n, got);
            for (size_t k = 0; k < COLS; k++)
                if (want[k] != got[k])
                    fail_msg("%s: row %u, column %zu: %g is not %g", f->name, n, k, (double)got[k],
                             (double)want[k]);
        }
        free(rows);
        free((void *)(uintptr_t)w.data);
    }
}

/* Of every type that a file may have: a format packs it or uses it in place. */
static void all_quantized_types_are_packed(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < 64; type++) {
        const struct tft_dtype_info *info = tft_dtype_info(type);
        if (info && info->to_f32 && !tft_format_of(type))
            assert_non_null(tft_format_packed(type));
    }
}

static void an_infinite_scale_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++) {
        const struct tft_format *f = &tft_packed_formats[i];
        size_t row_bytes, block = tft_dtype_info(f->type)->bytes;
        unsigned char *rows = rows_of(f->type, i, &row_bytes), *to = malloc(64 * row_bytes);
        uint64_t bad = 0;
        /* each byte is a finite factor or scale, or the bits of a factor are apart */
        if (f->packing->exponent || f->packing->scales == TFT_SCALES_F8 || f->type == TFT_IQ1_M) {
            free(rows);
            free(to);
            continue;
        }
        /* some 16 bits of the block are its factor, some its minimum */
        unsigned found = 0;
        for (size_t at = 0; at < block; at += 2) {
            unsigned char old[2], *p = rows + 5 * row_bytes + block + at;
            memcpy(old, p, 2);
            for (unsigned nan = 0; nan < 2; nan++) {
                p[0] = (unsigned char)nan;
                p[1] = 0x7c;
                if (!tft_pack_panel(to, f, rows, TFT_PANEL, COLS, &bad)) {
                    assert_int_equal(bad, 5 * row_bytes + block);
                    found++;
                }
            }
            memcpy(p, old, 2);
        }
        assert_int_equal(found, f->packing->has_min ? 4 : 2);
        free(rows);
        free(to);
    }
}

/* The f16 of a block of IQ1_M is the high nibbles of four u16. */
static void an_infinite_scale_in_nibbles_is_refused(void **state)
{
    (void)state;
    static const uint16_t factor[] = {0x7bff, 0x7c00, 0xfc00, 0x7e01, 0x03ff};
    const struct tft_format *f = tft_format_packed(TFT_IQ1_M);
    size_t row_bytes;
    unsigned char *rows = rows_of(TFT_IQ1_M, 3, &row_bytes), *to = malloc(64 * row_bytes);
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++) {
        bool finite = (factor[i] & 0x7c00) != 0x7c00;
        uint64_t bad = 0;
        for (int k = 0; k < 4; k++) {
            unsigned char *p = rows + 5 * row_bytes + 49 + 2 * k;
            *p = (unsigned char)((*p & 15) | (factor[i] >> 4 * k & 15) << 4);
        }
        assert_int_equal(tft_pack_panel(to, f, rows, TFT_PANEL, COLS, &bad), finite);
        assert_int_equal(bad, finite ? 0 : 5 * row_bytes);
    }
    free(rows);
    free(to);
}

/* A scale of NVFP4 of 0x7f is 0, and its highest bit does not count: as in a row of floats. */
static void scales_of_nvfp4(void **state)
{
    (void)state;
    struct tft_kernels kern;
    const struct tft_format *f = tft_format_packed(TFT_NVFP4);
    size_t row_bytes;
    unsigned char *rows = rows_of(TFT_NVFP4, 4, &row_bytes);
    tft_kernels_fill(&kern, tft_kernels_best());
    for (unsigned s = 0; s < 256; s++) {
        float want[COLS], got[COLS];
        rows[s % 4] = (unsigned char)s;
        struct tft_mat w = packed(f, rows, row_bytes);
        tft_dtype_info(TFT_NVFP4)->to_f32(want, rows, COLS);
        f->row(&kern, &w, 0, got);
        for (size_t k = 0; k < COLS; k++)
            assert_true(want[k] == got[k]);
        free((void *)(uintptr_t)w.data);
    }
    free(rows);
}

/* ---- models */

static struct toy toy(enum tft_dtype type)
{
    return (struct toy){.arch = "llama",
                        .n_vocab = 70, /* not whole panels */
                        .n_ctx = 64,
                        .n_embd = 256,
                        .n_layer = 2,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .head_dim = 64,
                        .n_ff = 512,
                        .n_rot = 64,
                        .type = type,
                        .seed = 7};
}

enum { N_TOKENS = 21 };

/* The hash of the logits after 1 token, after some, and after all. */
static uint64_t logits_of(const char *path, int threads, uint32_t chunk, float *last)
{
    struct tft_model *m = opened(path);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = threads});
    int32_t tokens[N_TOKENS];
    uint64_t h = 0xcbf29ce484222325;
    toy_tokens(3, m->n_vocab, tokens, N_TOKENS);
    for (uint32_t at = 0; at < N_TOKENS;) {
        uint32_t stop = at < 1 ? 1 : at < 8 ? 8 : N_TOKENS;
        uint32_t n = stop - at < chunk ? stop - at : chunk;
        assert_int_equal(tft_prefill(s, tokens + at, n), TFT_OK);
        at += n;
        if (at == stop)
            h = hash_logits(h, s);
    }
    if (last)
        memcpy(last, tft_logits(s, 0), m->n_vocab * sizeof *last);
    tft_session_close(s);
    tft_model_close(m);
    return h;
}

/* The last logits of the same model with its weights expanded. */
static void logits_of_floats(const char *path, float *last)
{
    struct tft_model *m = opened_as_floats(path);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    int32_t tokens[N_TOKENS];
    toy_tokens(3, m->n_vocab, tokens, N_TOKENS);
    assert_int_equal(tft_prefill(s, tokens, N_TOKENS), TFT_OK);
    memcpy(last, tft_logits(s, 0), m->n_vocab * sizeof *last);
    tft_session_close(s);
    tft_model_close(m);
}

/* |a - b|^2 / |b|^2 */
static double difference(const float *a, const float *b, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return error / size;
}

static void models_of_every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++) {
        struct toy t = toy(tft_packed_formats[i].type);
        const char *path = written(&t);
        float got[70], floats[70];
        uint64_t h = logits_of(path, 1, N_TOKENS, got);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            if (!in_turn(isa, (int)i, tft_kernels_isas()))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            if (logits_of(path, 1 + isa % 3, 1 + 6 * (uint32_t)isa, NULL) != h)
                fail_msg("%s on %s: other logits", tft_packed_formats[i].name,
                         tft_kernels_name(isa));
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);

        /* the cost of rounding activations */
        logits_of_floats(path, floats);
        double off = difference(got, floats, t.n_vocab);
        if (!(off > 0 && off < 5e-3))
            fail_msg("%s: %g from the logits of floats", tft_packed_formats[i].name, off);
    }
}

/* Rows of one tensor that are q, k and v, and begin within panels. */
static void parts_of_a_tensor(void **state)
{
    (void)state;
    struct toy t = {.arch = "gpt2",
                    .n_vocab = 70,
                    .n_ctx = 64,
                    .n_embd = 96,
                    .n_layer = 2,
                    .n_head = 4,
                    .n_head_kv = 4,
                    .head_dim = 24,
                    .n_ff = 160,
                    .type = TFT_Q5_1,
                    .tied = true,
                    .seed = 8};
    const char *path = written(&t);
    float got[70], floats[70];
    uint64_t h = logits_of(path, 2, 3, got);
    assert_int_equal(logits_of(path, 1, N_TOKENS, NULL), h);
    logits_of_floats(path, floats);
    assert_true(difference(got, floats, 70) < 1e-3);
}

/* Each thread makes the normalised row of a single token for itself, also where a session has room
   for fewer tokens than threads. */
static void more_threads_than_tokens(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_0);
    struct tft_model *m = opened(written(&t));
    int32_t tokens[N_TOKENS];
    uint64_t h[2] = {0};
    toy_tokens(3, m->n_vocab, tokens, N_TOKENS);
    for (int i = 0; i < 2; i++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = i ? 7 : 1, .n_batch = 1});
        assert_int_equal(tft_prefill(s, tokens, N_TOKENS), TFT_OK);
        h[i] = hash_logits(h[i], s);
        tft_session_close(s);
    }
    assert_true(h[0] == h[1]);
    tft_model_close(m);
}

/* A model in the memory of the caller, which stays as it is: nothing of it is given back. */
static void a_model_in_memory(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_K);
    const char *path = written(&t);
    struct tft_map file;
    struct tft_model *m;
    assert_int_equal(tft_port_map(&file, path), 0);
    /* pages of its own: the kernel would clear them if they were given back */
    unsigned char *copy = tft_port_alloc((file.size + 4095) / 4096 * 4096, 4096);
    assert_non_null(copy);
    memcpy(copy, file.data, file.size);
    assert_int_equal(tft_model_open_mem(&m, copy, file.size, NULL, NULL), TFT_OK);
    assert_memory_equal(copy, file.data, file.size);
    tft_model_close(m);
    tft_port_free(copy);
    tft_port_unmap(&file);
}

/* A NaN as scale, in the file of a model: one line says where. */
static void a_model_with_a_bad_scale(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_K);
    const char *path = written(&t);
    struct tft_source s;
    struct tft_error err;
    struct tft_model *m;
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, &err), TFT_OK);
    const struct tft_tensor *w = tft_source_tensor(&s, "blk.1.ffn_up.weight");
    size_t size = s.size, at = (size_t)(w->data - s.data) + 144 * 70;
    unsigned char *file = malloc(size);
    assert_non_null(file);
    memcpy(file, s.data, size);
    tft_source_close(&s);
    memcpy(file + at + 2, &(uint16_t){0x7e00}, 2);
    assert_true(write_file(path, file, size));
    free(file);
    assert_int_equal(tft_model_open(&m, path, NULL, &err), TFT_ERR_FORMAT);
    assert_null(m);
    assert_int_equal(err.offset, at);
    assert_non_null(strstr(err.msg, "blk.1.ffn_up.weight"));
    assert_non_null(strstr(err.msg, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(all_quantized_types_are_packed),
        cmocka_unit_test(an_infinite_scale_is_refused),
        cmocka_unit_test(an_infinite_scale_in_nibbles_is_refused),
        cmocka_unit_test(scales_of_nvfp4),
        cmocka_unit_test(models_of_every_type),
        cmocka_unit_test(parts_of_a_tensor),
        cmocka_unit_test(more_threads_than_tokens),
        cmocka_unit_test(a_model_in_memory),
        cmocka_unit_test(a_model_with_a_bad_scale),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
