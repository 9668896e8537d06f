/* Latent attention through the whole chain: caches, codes of GGUF files, packed and W8A8 files,
   saved sessions, refusals. test_models.c compares it with its formula. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "caches.h"
#include "latent_toys.h"
#include "model/parts.h"
#include "tools/pack/pack.h"
#include "tools/quantize/tune/tune.h"
#include "w8a8.h"

enum { V3, LITE, MINICPM3, MANY_HEADS };

static bool is_minicpm3(const struct toy *t) { return strcmp(t->arch, "minicpm3") == 0; }

/* RoPE of minicpm3 depends on the length of the session, which rules out a prefix. */
static struct quantize_opts usual_for(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.n_prefix = is_minicpm3(t) ? 0 : o.n_prefix;
    return o;
}

/* ---- caches */

/* A token has one key of rank + rot numbers, and one value, for all heads. */
static void the_cache_has_one_head(void **state)
{
    (void)state;
    static const uint32_t want[] = {48, 48, 48, 28};
    for (int i = 0; i < N_LATENT; i++) {
        struct tft_model *m = opened(written(&latent_toys[i]));
        assert_int_equal(m->n_head_kv, 1);
        assert_int_equal(m->head_dim, want[i]);
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32"});
        const int32_t tokens[] = {3, 1, 4};
        assert_int_equal(tft_prefill(s, tokens, 3), TFT_OK);
        const float *v = tft_kv_values(&s->kv, 1, 0, 2);
        for (uint32_t k = 0; k < want[i]; k++)
            assert_int_equal(v[k] == 0, k < m->latent.rot);
        tft_session_close(s);
        tft_model_close(m);
    }
}

static void every_cache_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_LATENT; i++) {
        const char *path = written(&latent_toys[i]);
        for (int c = 0; c < N_CACHES; c++)
            if (!caches[c].file && !strstr(caches[c].kv, "mixed") &&
                (in_turn(c, i, 4) || strcmp(caches[c].kv, "i8") == 0)) {
                uint64_t want = fed(path, 2, TOKENS, 512, caches[c].kv);
                if (fed(path, 1, 97, 60, caches[c].kv) != want)
                    fail_msg("toy %d with --kv %s: other logits", i, caches[c].kv);
            }
    }
}

static void the_same_bits_on_every_isa(void **state)
{
    (void)state;
    for (int i = 0; i < N_LATENT; i++) {
        const char *path = written(&latent_toys[i]);
        assert_int_equal(tft_cpu_limit(tft_kernels_name(0)), TFT_OK);
        uint64_t want = fed_until(TWO_SPANS, path, 2, TWO_SPANS, 512, "f16");
        for (int isa = 1; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            if (fed_until(TWO_SPANS, path, 3, 97, 100, "f16") != want)
                fail_msg("toy %d on %s: other logits", i, tft_cpu_name());
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 4, 1, 512, "f16"), want);
    }
}

/* ---- codes of GGUF files */

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
    for (int i = 0; i < MANY_HEADS; i++)
        for (int four = 0; four < 2; four++) {
            struct toy t = latent_toys[i];
            t.type = four ? TFT_Q4_0 : TFT_Q8_0;
            const char *path = written(&t), *packed = in_folder("packed.gguf");
            double off = from_floats(path);
            if (!(off > 1e-6 && off < (is_minicpm3(&t) ? 0.1 : 0.3)))
                fail_msg("toy %d: off by %g", i, off);
            uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
            assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
            packs(path, packed);
            assert_int_equal(fed_until(TWO_SPANS, packed, 2, 97, 100, "f16"), want);
        }
}

/* ---- W8A8 */

static void near(int i, const struct quantize_opts *o, double most, const char *what)
{
    double d = float_distance(&latent_toys[i], quantized(&latent_toys[i], o), 40);
    if (!(d > 0 && d < most))
        fail_msg("toy %d, %s: off by %.3f of the logits of floats", i, what, d);
}

static void near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 8];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_LATENT; i++) {
        const struct toy *t = &latent_toys[i];
        struct quantize_opts o = usual_for(t);
        double most = is_minicpm3(t) ? 0.2 : 0.45; /* experts are chosen: errors grow */
        near(i, &o, most, "as usual");
        o.range = by_token;
        near(i, &o, most, "dynamic");
        o.range = fixed;
        o.rotate = QUANTIZE_ROTATE_NONE;
        near(i, &o, most, "not rotated");
        o.rotate = QUANTIZE_ROTATE_ALL;
        if (!toy_has_experts(t))
            near(i, &o, most, "all rotated");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.smooth = 0.5f;
        if (!toy_has_experts(t))
            near(i, &o, most, "smoothed");
        o.smooth = 0;
        o.bits = bits;
        o.group = 32;
        o.rounding = in_turn(0, i, 2) ? QUANTIZE_GPTQ : QUANTIZE_AWQ;
        near(i, &o, 0.9, "4 bits");
    }
}

static void w8a8_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_LATENT; i++) {
        const struct toy *t = &latent_toys[i];
        struct quantize_opts o = usual_for(t);
        const char *path = quantized(t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
}

/* Matrices that stay as they are may have codes. */
static void w8a8_of_codes(void **state)
{
    (void)state;
    for (int i = 0; i < MANY_HEADS; i++) {
        struct toy t = latent_toys[i];
        t.type = TFT_Q8_0;
        struct quantize_opts o = usual_for(&t);
        const char *path = quantized(&t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 33, "f16"), want);
    }
}

/* ---- saved sessions */

static void saved_sessions_go_on(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:window=32,group=16", "f32"};
    int32_t tokens[120];
    for (int i = 0; i < N_LATENT; i++) {
        struct tft_model *m = opened(written(&latent_toys[i]));
        struct tft_session *a = session(m, (struct tft_session_opts){.kv = kv[i]}),
                           *b = session(m, (struct tft_session_opts){.kv = kv[i]});
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

/* ---- refusals */

static void quantize_refuses(void **state)
{
    (void)state;
    struct tft_error err;
    const struct toy *t = &latent_toys[V3];
    struct quantize_opts o = usual_for(t);
    o.rotate = QUANTIZE_ROTATE_O;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "whose layers have matrices of heads for values"));
    o = usual_for(t);
    o.kv = "skvq";
    assert_int_equal(convert(written(t), in_folder("no.gguf"), &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "cannot be reordered"));
}

static void tuning_refuses(void **state)
{
    (void)state;
    struct tft_error err;
    struct tft_model *m = opened(written(&latent_toys[V3]));
    assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
    assert_string_equal(tft_parts_unknown(m, ~TFT_BIT(TFT_PART_LATENT)), "latent attention");
    tft_model_close(m);
}

/* Numbers of heads that latent attention cannot have. */
static void sizes_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_rot, head_dim;
        double rank;
        const char *why;
    } bad[] = {{16, 16, 32, "all 16 numbers of a key are rotated"},
               {16, 64, 32, "heads of 64 numbers of a latent vector of 32"},
               {16, 48, 0, "attention.kv_lora_rank is not an integer of a possible size"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct toy t = latent_toys[MINICPM3];
        struct tft_model *m;
        struct tft_error err;
        const struct toy_number numbers[] = {{"attention.q_lora_rank", TOY_U32, 32},
                                             {"attention.kv_lora_rank", TOY_U32, bad[i].rank},
                                             {0}};
        t.numbers = numbers;
        t.n_rot = bad[i].n_rot;
        t.head_dim = bad[i].head_dim;
        assert_int_not_equal(tft_model_open(&m, written(&t), NULL, &err), TFT_OK);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("\"%s\" is not \"%s\"", err.msg, bad[i].why);
    }
}

/* V2 of 236B: the largest weight decides, not the sum of two. */
static void groups_of_softmax(void **state)
{
    (void)state;
    struct toy t = latent_toys[V3];
    struct toy_number numbers[sizeof deepseek_v3 / sizeof *deepseek_v3];
    struct tft_model *m;
    struct tft_error err;
    memcpy(numbers, deepseek_v3, sizeof numbers);
    for (struct toy_number *n = numbers; n->key; n++)
        if (strcmp(n->key, "expert_gating_func") == 0)
            n->x = 1;
    t.numbers = numbers;
    assert_int_equal(tft_model_open(&m, written(&t), NULL, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "groups of experts by their largest weight"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_has_one_head),
        cmocka_unit_test(every_cache_has_the_same_bits_however_fed),
        cmocka_unit_test(the_same_bits_on_every_isa),
        cmocka_unit_test(codes),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(w8a8_has_the_same_bits_however_fed),
        cmocka_unit_test(w8a8_of_codes),
        cmocka_unit_test(saved_sessions_go_on),
        cmocka_unit_test(quantize_refuses),
        cmocka_unit_test(tuning_refuses),
        cmocka_unit_test(sizes_that_make_no_sense),
        cmocka_unit_test(groups_of_softmax),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
