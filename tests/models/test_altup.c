/* Several residual streams through the whole chain: caches, codes of GGUF files, packed and W8A8
   files, saved sessions, refusals. test_models.c compares them with their formula. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "altup_toys.h"
#include "caches.h"
#include "tools/pack/pack.h"
#include "tools/quantize/tune/tune.h"
#include "w8a8.h"

enum { SHARED, OTHER };

static void the_same_bits_on_every_isa(void **state)
{
    (void)state;
    for (int i = 0; i < N_ALTUP; i++) {
        const char *path = written(&altup_toys[i]);
        assert_int_equal(tft_cpu_limit(tft_kernels_name(0)), TFT_OK);
        uint64_t want = fed_until(TWO_SPANS, path, 2, TWO_SPANS, 512, "f16");
        for (int isa = 1; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            if (fed_until(TWO_SPANS, path, 3, 97, 100, "f16") != want)
                fail_msg("toy %d on %s: other logits", i, tft_cpu_name());
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 4, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 1, 67, 60, "f32"),
                         fed_until(TWO_SPANS, path, 2, 1, 512, "f32"));
    }
}

static void every_cache_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_ALTUP; i++) {
        const char *path = written(&altup_toys[i]);
        for (int c = 0; c < N_CACHES; c++)
            if (!caches[c].file && !strstr(caches[c].kv, "mixed") && in_turn(c, i, 5)) {
                uint64_t want = fed(path, 2, TOKENS, 512, caches[c].kv);
                if (fed(path, 1, 97, 60, caches[c].kv) != want)
                    fail_msg("toy %d with --kv %s: other logits", i, caches[c].kv);
            }
    }
}

static void packs(const char *from, const char *to)
{
    struct tft_model *m;
    struct pack_result r;
    struct tft_error err;
    assert_int_equal(tft_model_open_unexpanded(&m, from, NULL, &err), TFT_OK);
    if (pack(m, to, &(struct pack_opts){.n_threads = 2}, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
}

/* A packed file has the same logits. */
static void codes(void **state)
{
    (void)state;
    for (int four = 0; four < 2; four++) {
        struct toy t = altup_toys[SHARED];
        t.type = four ? TFT_Q4_0 : TFT_Q8_0;
        const char *path = written(&t), *packed = in_folder("packed.gguf");
        double off = from_floats(path);
        if (!(off > 1e-6 && off < 0.1))
            fail_msg("off by %g", off);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 1, 100, "f16"), want);
        packs(path, packed);
        assert_int_equal(fed_until(TWO_SPANS, packed, 2, 97, 100, "f16"), want);
    }
}

static void near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 8];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_ALTUP; i++) {
        const struct toy *t = &altup_toys[i];
        for (int kind = 0; kind < 4; kind++) {
            struct quantize_opts o = usual(t);
            o.n_prefix = kind == 2 ? 0 : o.n_prefix;
            o.range = kind == 1 ? by_token : fixed;
            o.rotate = kind == 2 ? QUANTIZE_ROTATE_NONE : o.rotate;
            o.bits = kind == 3 ? bits : NULL;
            o.group = 32;
            o.rounding = i ? QUANTIZE_GPTQ : QUANTIZE_AWQ;
            double d = float_distance(t, quantized(t, &o), 40);
            if (!(d > 0 && d < (kind == 3 ? 0.9 : 0.35)))
                fail_msg("toy %d, kind %d: off by %.3f of the logits of floats", i, kind, d);
        }
    }
}

static void w8a8_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_ALTUP; i++) {
        const struct toy *t = &altup_toys[i];
        struct quantize_opts o = usual(t);
        const char *path = quantized(t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
}

static void saved_sessions_go_on(void **state)
{
    (void)state;
    int32_t tokens[120];
    for (int i = 0; i < N_ALTUP; i++) {
        struct tft_model *m = opened(written(&altup_toys[i]));
        struct tft_session *a = session(m, (struct tft_session_opts){.kv = "f16"}),
                           *b = session(m, (struct tft_session_opts){.kv = "f16"});
        toy_tokens(3, m->n_vocab, tokens, 120);
        assert_int_equal(tft_prefill(a, tokens, 100), TFT_OK);
        assert_int_equal(tft_session_save(a, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_session_load(b, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_prefill(a, tokens + 100, 20), TFT_OK);
        assert_int_equal(tft_prefill(b, tokens + 100, 20), TFT_OK);
        same_last_logits(a, b);
        tft_session_close(a);
        tft_session_close(b);
        tft_model_close(m);
    }
}

static void refusals(void **state)
{
    (void)state;
    struct tft_error err;
    const struct toy *t = &altup_toys[SHARED];
    struct quantize_opts o = usual(t);
    o.smooth = 0.5f;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "cannot smooth gemma3n"));
    struct tft_model *m = opened(written(t));
    assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
    tft_model_close(m);
    struct toy other = altup_toys[OTHER];
    const struct toy_number second[] = {{"attention.sliding_window", TOY_U32, 30},
                                        {"embedding_length_per_layer_input", TOY_U32, 20},
                                        {"altup.num_inputs", TOY_U32, 3},
                                        {"altup.active_idx", TOY_U32, 1},
                                        {0}};
    other.numbers = second;
    assert_int_equal(tft_model_open(&m, written(&other), NULL, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "3 residual streams"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_on_every_isa),
        cmocka_unit_test(every_cache_has_the_same_bits_however_fed),
        cmocka_unit_test(codes),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(w8a8_has_the_same_bits_however_fed),
        cmocka_unit_test(saved_sessions_go_on),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
