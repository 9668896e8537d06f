/* Rewriting a W8A8 file with another prefix: unchanged parts, a session's results, and refusals. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "fed.h"
#include "file/file.h"
#include "simd/half.h"
#include "tools/quantize/quantize.h"
#include "model/keys.h"
#include "model/open.h"
#include "models/open.h"
#include "models/registry.h"
#include "random.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/write/rewrite_model.h"

/* A token's keys are 32 numbers, one block of Q8_0; in `narrow` 24. */
static const struct toy toy = {.arch = "llama",
                               .n_vocab = 50,
                               .n_ctx = 640,
                               .n_embd = 40,
                               .n_layer = 2,
                               .n_head = 4,
                               .n_head_kv = 2,
                               .head_dim = 16,
                               .n_ff = 96,
                               .n_rot = 16,
                               .type = TFT_F32},
                        narrow = {.arch = "qwen2",
                                  .n_vocab = 50,
                                  .n_ctx = 640,
                                  .n_embd = 40,
                                  .n_layer = 2,
                                  .n_head = 2,
                                  .n_head_kv = 2,
                                  .head_dim = 12,
                                  .n_ff = 96,
                                  .n_rot = 12,
                                  .type = TFT_F32};
enum { TEXT = 200, PREFIX = 3, ROWS = 2 * PREFIX * 32 };
static uint16_t k[ROWS], v[ROWS];

static const char *quantized(const struct toy *t, uint32_t n_prefix, const char *name)
{
    static const int32_t prefix[PREFIX] = {1, 7, 3};
    const char *from = written(t), *to = in_folder(name);
    struct tft_model *m;
    struct tft_error err;
    int32_t text[TEXT];
    enum tft_range fixed[9];
    struct quantize_input result[9];
    bool stopped;
    toy_tokens(11, t->n_vocab, text, TEXT);
    for (int i = 0; i < 9; i++)
        fixed[i] = TFT_RANGE_STATIC;
    struct quantize_opts o = {.text = text,
                              .n_text = TEXT,
                              .window = TEXT / 2,
                              .rotate = QUANTIZE_ROTATE_O_DOWN,
                              .prefix = prefix,
                              .n_prefix = n_prefix,
                              .range = fixed,
                              .n_threads = 1};
    assert_int_equal(tft_model_open_unexpanded(&m, from, NULL, NULL), TFT_OK);
    if (quantize(m, to, &o, result, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
    remove(from);
    return to;
}

/* Copies the model's prefix to k and v. */
static struct rewrite as_it_is(const struct tft_model *m)
{
    memcpy(k, m->prefix_k, sizeof k);
    memcpy(v, m->prefix_v, sizeof v);
    return (struct rewrite){.k = k, .v = v};
}

static void random_rows(void)
{
    for (int i = 0; i < ROWS; i++) {
        k[i] = tft_f32_to_f16(random_even());
        v[i] = tft_f32_to_f16(random_even());
    }
}

static void made(const struct tft_model *m, const char *path, const struct rewrite *r)
{
    struct tft_error err;
    if (rewrite_model(m, path, r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
}

static bool same_file(const char *a, const char *b)
{
    struct tft_map f, g;
    assert_int_equal(tft_port_map(&f, a), 0);
    assert_int_equal(tft_port_map(&g, b), 0);
    bool same = f.size == g.size && memcmp(f.data, g.data, f.size) == 0;
    tft_port_unmap(&f);
    tft_port_unmap(&g);
    return same;
}

static uint64_t hash_of(const struct tft_model *m)
{
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    int32_t tokens[20];
    toy_tokens(3, m->n_vocab, tokens, 20);
    assert_int_equal(tft_prefill(s, tokens, 20), TFT_OK);
    uint64_t h = hash_logits(0xcbf29ce484222325, s);
    tft_session_close(s);
    return h;
}

static void the_same_rows_are_the_same_file(void **state)
{
    (void)state;
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf");
    struct tft_model *m = opened(q);
    struct rewrite same = as_it_is(m);
    made(m, r, &same);
    assert_true(same_file(q, r));
    tft_model_close(m);
}

static void the_session_sees_the_rows(void **state)
{
    (void)state;
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf");
    struct tft_model *m = opened(q);
    uint64_t before = hash_of(m), want;
    random_rows();
    made(m, r, &(struct rewrite){.k = k, .v = v});
    m->prefix_k = k;
    m->prefix_v = v;
    want = hash_of(m);
    assert_true(want != before);
    tft_model_close(m);

    m = opened(r);
    assert_memory_equal(m->prefix_k, k, sizeof k);
    assert_memory_equal(m->prefix_v, v, sizeof v);
    assert_int_equal(hash_of(m), want);
    uint64_t sum;
    assert_true(tft_value_uint(tft_source_value(&m->source, TFT_CHECKSUM_KEY), 0, &sum));
    assert_int_equal(tft_source_checksum(&m->source), sum);
    assert_int_equal(m->source.alignment, 64);
    tft_model_close(m);
}

/* The target may be the model's own file, which is mapped. */
static void a_file_takes_its_own_place(void **state)
{
    (void)state;
    const char *q = quantized(&toy, PREFIX, "q.gguf");
    struct tft_model *m = opened(q);
    random_rows();
    made(m, q, &(struct rewrite){.k = k, .v = v});
    tft_model_close(m);
    m = opened(q);
    assert_memory_equal(m->prefix_v, v, sizeof v);
    tft_model_close(m);
    assert_int_equal(files_in_folder(false), 1);
}

static void another_cache(void **state)
{
    (void)state;
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf"),
               *again = in_folder("again.gguf");
    static const char kv[] = "tuffet:k=3x1/2,v=16x1/1.5";
    struct tft_model *m = opened(q), *named;
    made(m, r, &(struct rewrite){.kv = kv});
    named = opened(r);
    assert_string_equal(named->kv_text, kv);
    assert_memory_equal(named->prefix_v, m->prefix_v, sizeof v);
    assert_int_equal(named->source.n_value, m->source.n_value + 1);
    assert_int_equal(named->source.n_tensor, m->source.n_tensor);

    /* a new KV cache keeps how the prefix was tuned; a new prefix keeps the KV cache; a second KV
       cache replaces the first */
    struct rewrite touch = as_it_is(m);
    static const float validation[] = {2, 1};
    touch.loss = "prediction";
    touch.validation = validation;
    touch.n_validation = 2;
    made(named, again, &touch);
    tft_model_close(named);
    named = opened(again);
    assert_string_equal(named->kv_text, kv);
    made(named, r, &(struct rewrite){.kv = "kivi"});
    tft_model_close(named);
    named = opened(r);
    assert_string_equal(named->kv_text, "kivi");
    assert_non_null(tft_source_value(&named->source, TFT_KEY_TUNE_LOSS));
    tft_model_close(named);
    tft_model_close(m);

    /* a new KV cache needs no prefix */
    m = opened(quantized(&toy, 0, "q.gguf"));
    made(m, r, &(struct rewrite){.kv = kv});
    tft_model_close(m);
    named = opened(r);
    assert_string_equal(named->kv_text, kv);
    tft_model_close(named);
}

/* The prefix of a file with few bits, widened to f16. */
static void expanded(uint16_t *to, const struct tft_tensor *t)
{
    float x[ROWS];
    tft_dtype_info(t->type)->to_f32(x, t->data, ROWS);
    for (int i = 0; i < ROWS; i++)
        to[i] = tft_f32_to_f16(x[i]);
}

static void few_bits(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_Q8_0, TFT_Q4_1};
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf"),
               *again = in_folder("again.gguf");
    struct tft_model *m = opened(q), *few, *f16;
    random_rows();
    for (int i = 0; i < 2; i++) {
        uint16_t want[ROWS];
        made(m, r, &(struct rewrite){.k = k, .v = v, .type = types[i]});
        few = opened(r);
        const struct tft_tensor *t = tft_source_tensor(&few->source, TFT_KEY_PREFIX_V);
        assert_true(t->type == types[i] && t->n_dims == 3 && t->ne[0] == 32 && t->ne[1] == PREFIX &&
                    t->ne[2] == 2);
        expanded(want, t);
        assert_memory_equal(few->prefix_v, want, sizeof want);
        expanded(want, tft_source_tensor(&few->source, TFT_KEY_PREFIX_K));
        assert_memory_equal(few->prefix_k, want, sizeof want);
        prefix_round(m, types[i], PREFIX, k, want);
        assert_memory_equal(few->prefix_k, want, sizeof want);
        for (int j = 0; j < ROWS; j++)
            assert_float_equal(tft_f16_to_f32(want[j]), tft_f16_to_f32(k[j]), i ? 0.07 : 0.005);

        /* back to f16, with the same numbers */
        made(few, again, &(struct rewrite){.k = few->prefix_k, .v = few->prefix_v});
        f16 = opened(again);
        assert_int_equal(tft_source_tensor(&f16->source, TFT_KEY_PREFIX_K)->type, TFT_F16);
        assert_int_equal(hash_of(f16), hash_of(few));
        tft_model_close(f16);
        tft_model_close(few);
    }
    tft_model_close(m);
}

/* A model counts the memory for the prefix's f16 before it allocates, and needs no other. */
static void few_bits_are_planned(void **state)
{
    (void)state;
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf");
    struct tft_model *m = opened(q), plan[2] = {0};
    made(m, r, &(struct rewrite){.k = m->prefix_k, .v = m->prefix_v, .type = TFT_Q4_1});
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tft_source_open(&plan[i].source, i ? r : q, NULL, NULL, NULL), TFT_OK);
        assert_int_equal(tft_open_plan(&plan[i], tft_archs, TFT_WEIGHTS_F32, NULL, NULL), TFT_OK);
        tft_source_close(&plan[i].source);
    }
    assert_int_equal(plan[1].memory_size - plan[0].memory_size, 2 * ROWS * sizeof *k);
    tft_model_close(m);
}

static void how_it_was_tuned(void **state)
{
    (void)state;
    static const float losses[] = {3.5f, 3.25f, 3.375f};
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *r = in_folder("r.gguf"),
               *again = in_folder("again.gguf");
    struct tft_model *m = opened(q);
    struct rewrite tuned = as_it_is(m);
    tuned.loss = "layer outputs";
    tuned.lambda = 0.5f;
    tuned.rate = 0.25f;
    tuned.epochs = 7;
    tuned.validation = losses;
    tuned.n_validation = 3;
    tuned.kept = 1;
    made(m, r, &tuned);
    tft_model_close(m);

    m = opened(r);
    const struct tft_source *s = &m->source;
    struct tft_str loss;
    double x;
    uint64_t n;
    assert_true(tft_value_str(tft_source_value(s, "tuffet.tune.loss"), &loss) &&
                tft_str_is(loss, "layer outputs"));
    assert_true(tft_value_real(tft_source_value(s, "tuffet.tune.lambda"), 0, &x) && x == 0.5);
    assert_true(tft_value_real(tft_source_value(s, "tuffet.tune.rate"), 0, &x) && x == 0.25);
    assert_true(tft_value_uint(tft_source_value(s, "tuffet.tune.epochs"), 0, &n) && n == 7);
    assert_true(tft_value_uint(tft_source_value(s, "tuffet.tune.kept"), 0, &n) && n == 1);
    const struct tft_value *v_losses = tft_source_value(s, "tuffet.tune.validation");
    assert_true(v_losses->is_array && v_losses->type == TFT_VALUE_F32 && v_losses->n == 3);
    assert_true(tft_value_real(v_losses, 2, &x) && x == 3.375);

    tuned.loss = "prediction"; /* replaces the old one */
    made(m, again, &tuned);
    tuned.loss = NULL;
    made(m, r, &tuned);
    tft_model_close(m);
    assert_true(same_file(q, r));
    m = opened(again);
    assert_true(tft_value_str(tft_source_value(&m->source, "tuffet.tune.loss"), &loss) &&
                tft_str_is(loss, "prediction"));
    tft_model_close(m);
}

/* ---- refusals */

static void fails(const struct tft_model *m, const char *path, const struct rewrite *r,
                  const char *why)
{
    struct tft_error err = {.msg = "made"};
    int files = files_in_folder(false);
    assert_int_not_equal(rewrite_model(m, path, r, &err), TFT_OK);
    if (!strstr(err.msg, why) || strchr(err.msg, '\n'))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
    assert_int_equal(files_in_folder(false), files);
}

static void what_cannot_be(void **state)
{
    (void)state;
    char no[64]; /* in_folder reuses its names, one of which is the model's */
    snprintf(no, sizeof no, "%s/no.gguf", folder);
    struct tft_model *m = opened(written(&toy));
    fails(m, no, &(struct rewrite){.k = k, .v = v}, "m.gguf: is not a W8A8 model with a prefix");
    tft_model_close(m);
    m = opened(quantized(&toy, 0, "bare.gguf"));
    fails(m, no, &(struct rewrite){.k = k, .v = v}, "bare.gguf: is not a W8A8 model with a prefix");
    tft_model_close(m);
    m = opened(quantized(&narrow, PREFIX, "narrow.gguf"));
    fails(m, no, &(struct rewrite){.k = m->prefix_k, .v = m->prefix_v, .type = TFT_Q8_0},
          "narrow.gguf: a token has 2 x 12 keys, not a multiple of 32: store the prefix as F16, "
          "not Q8_0");
    tft_model_close(m);
    m = opened(quantized(&toy, PREFIX, "q.gguf"));
    random_rows();
    fails(m, no, &(struct rewrite){.k = k, .v = v, .type = TFT_Q6_K},
          "q.gguf: a prefix cannot be stored as Q6_K: choose F16, Q8_0 or Q4_1");
    fails(m, in_folder("nowhere/r.gguf"), &(struct rewrite){.k = k, .v = v},
          "nowhere/r.gguf: cannot be created: No such file");
    fails(m, folder, &(struct rewrite){.k = k, .v = v}, "cannot be replaced: Is a directory");
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00};
    for (int i = 0; i < 3; i++) {
        uint16_t was = v[ROWS - 1];
        v[ROWS - 1] = bad[i];
        fails(m, no, &(struct rewrite){.k = k, .v = v},
              "q.gguf: NaN or infinity in the prefix's keys or values, layer 1");
        v[ROWS - 1] = was;
        was = k[5];
        k[5] = bad[i];
        fails(m, no, &(struct rewrite){.k = k, .v = v, .type = TFT_Q4_1},
              "q.gguf: NaN or infinity in the prefix's keys or values, layer 0");
        k[5] = was;
    }
    tft_model_close(m);
}

/* Limits the size of files, like test_gguf_write.c. */
static void the_disk_is_full(void **state)
{
    (void)state;
    static const size_t limits[] = {0, 100, 4096, 20000};
    const char *q = quantized(&toy, PREFIX, "q.gguf"), *kept = in_folder("kept.gguf");
    struct tft_model *m = opened(q);
    struct rewrite r = as_it_is(m);
    struct rlimit old;
    assert_true(m->source.size > 20000);
    made(m, kept, &r);
    random_rows();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct tft_error err;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limits[i], old.rlim_max}), 0);
        enum tft_status status = rewrite_model(m, kept, &r, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, TFT_ERR_IO);
        assert_int_equal(err.os, EFBIG);
        assert_non_null(strstr(err.msg, "/kept.gguf: cannot be written: "));
        assert_true(same_file(q, kept)); /* unchanged */
        assert_int_equal(files_in_folder(false), 2);
    }
    signal(SIGXFSZ, handler);
    tft_model_close(m);
}

static int clear(void **state)
{
    (void)state;
    files_in_folder(true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_same_rows_are_the_same_file, clear),
        cmocka_unit_test_teardown(the_session_sees_the_rows, clear),
        cmocka_unit_test_teardown(a_file_takes_its_own_place, clear),
        cmocka_unit_test_teardown(another_cache, clear),
        cmocka_unit_test_teardown(few_bits, clear),
        cmocka_unit_test_teardown(few_bits_are_planned, clear),
        cmocka_unit_test_teardown(how_it_was_tuned, clear),
        cmocka_unit_test_teardown(what_cannot_be, clear),
        cmocka_unit_test_teardown(the_disk_is_full, clear),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
