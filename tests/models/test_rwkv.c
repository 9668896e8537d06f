/* RWKV-7 through the whole chain: codes of GGUF files, packed files, saved sessions, refusals.
   test_models.c compares it with its formula; test_lookup.c and test_batch.c have its toys, too. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"
#include "model/parts.h"
#include "rwkv_toys.h"
#include "tools/pack/pack.h"
#include "tools/quantize/tune/tune.h"
#include "w8a8.h"

enum { WIDE, SMALL };

/* ---- states */

/* Two vectors and the matrices of all heads; no cache. */
static void memory(void **state)
{
    (void)state;
    for (int i = 0; i < N_RWKV; i++) {
        const struct toy *t = &rwkv_toys[i];
        struct tft_model *m = opened(written(t));
        struct tft_model_info info = {.size = sizeof info};
        tft_model_describe(m, &info);
        assert_int_equal(info.kv_width, 0);
        assert_int_equal(info.state_bytes,
                         t->n_layer * t->n_embd * (2 + (i == SMALL ? 16 : 32)) * sizeof(float));
        tft_model_close(m);
    }
}

static void the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_RWKV; i++) {
        const char *path = written(&rwkv_toys[i]);
        assert_int_equal(tft_cpu_limit(tft_kernels_name(0)), TFT_OK);
        uint64_t want = fed_until(TWO_SPANS, path, 2, TWO_SPANS, 512, "f16");
        for (int isa = 1; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            if (fed_until(TWO_SPANS, path, 3, 97, 33, "f16") != want)
                fail_msg("toy %d on %s: other logits", i, tft_cpu_name());
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 4, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 1, 67, 60, "f32"), want);
    }
}

/* A pass that returns no logits moves the states of the last layer on. */
static void passes_without_logits(void **state)
{
    (void)state;
    int32_t tokens[40];
    struct tft_model *m = opened(written(&rwkv_toys[WIDE]));
    struct tft_session *whole = session(m, (struct tft_session_opts){.n_logits = 40}),
                       *last = session(m, (struct tft_session_opts){.n_batch = 3});
    toy_tokens(5, m->n_vocab, tokens, 40);
    assert_int_equal(tft_prefill(whole, tokens, 40), TFT_OK);
    assert_int_equal(tft_prefill(last, tokens, 40), TFT_OK);
    same_last_logits(whole, last);
    tft_session_close(whole);
    tft_session_close(last);
    tft_model_close(m);
}

static void saved_sessions_go_on(void **state)
{
    (void)state;
    int32_t tokens[120];
    for (int i = 0; i < N_RWKV; i++) {
        struct tft_model *m = opened(written(&rwkv_toys[i]));
        struct tft_session *a = session(m, (struct tft_session_opts){.n_threads = 2}),
                           *b = session(m, (struct tft_session_opts){.n_threads = 1});
        toy_tokens(3, m->n_vocab, tokens, 120);
        assert_int_equal(tft_prefill(a, tokens, 100), TFT_OK);
        assert_int_equal(tft_session_save(a, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_session_load(b, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_prefill(a, tokens + 100, 20), TFT_OK);
        assert_int_equal(tft_prefill(b, tokens + 100, 20), TFT_OK);
        same_last_logits(a, b);
        tft_rewind(a, 60);
        tft_rewind(b, 60);
        assert_int_equal(tft_prefill(a, tokens + 60, 20), TFT_OK);
        assert_int_equal(tft_prefill(b, tokens + 60, 20), TFT_OK);
        same_last_logits(a, b);
        tft_session_close(a);
        tft_session_close(b);
        tft_model_close(m);
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
    for (int four = 0; four < 2; four++) {
        struct toy t = rwkv_toys[WIDE];
        t.type = four ? TFT_Q4_0 : TFT_Q8_0;
        const char *path = written(&t), *packed = in_folder("packed.gguf");
        double off = from_floats(path);
        if (!(off > 1e-6 && off < 0.2))
            fail_msg("off by %g", off);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 1, 100, "f16"), want);
        packs(path, packed);
        assert_int_equal(fed_until(TWO_SPANS, packed, 2, 97, 100, "f16"), want);
    }
}

/* ---- refusals */

static void refusals(void **state)
{
    (void)state;
    struct tft_error err;
    const struct toy *t = &rwkv_toys[WIDE];
    struct quantize_opts o = usual(t);
    o.n_prefix = 0;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), &o, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, "quantize does not support rwkv7 yet: layers of RWKV-7"))
        fail_msg("%s", err.msg);
    struct tft_model *m = opened(written(t));
    assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
    assert_true(m->parts == (TFT_BIT(TFT_PART_RWKV) | TFT_BIT(TFT_PART_PLAIN_RELU2)));
    assert_string_equal(tft_parts_unknown(m, ~TFT_BIT(TFT_PART_RWKV)), "layers of RWKV-7");
    tft_model_close(m);
}

/* Sizes that RWKV-7 cannot have. */
static void sizes_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        double size, shifts;
        const char *why;
    } bad[] = {{24, 2, "heads of 24 numbers for a width of 96"},
               {64, 2, "heads of 64 numbers for a width of 96"},
               {0, 2, "wkv.head_size is not an integer of a possible size"},
               {2048, 2, "wkv.head_size is not an integer of a possible size"},
               {32, 1, "rwkv7.token_shift_count is not 2"},
               {32, 3, "rwkv7.token_shift_count is not an integer of a possible size"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct toy t = rwkv_toys[WIDE];
        struct tft_model *m;
        struct tft_error err;
        const struct toy_number numbers[] = {{"attention.decay_lora_rank", TOY_U32, 5},
                                             {"wkv.head_size", TOY_U32, bad[i].size},
                                             {"attention.iclr_lora_rank", TOY_U32, 4},
                                             {"attention.value_residual_mix_lora_rank", TOY_U32, 4},
                                             {"attention.gate_lora_rank", TOY_U32, 4},
                                             {"token_shift_count", TOY_U32, bad[i].shifts},
                                             {0}};
        t.numbers = numbers;
        assert_int_not_equal(tft_model_open(&m, written(&t), NULL, &err), TFT_OK);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("\"%s\" is not \"%s\"", err.msg, bad[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(the_same_bits_however_fed),
        cmocka_unit_test(passes_without_logits),
        cmocka_unit_test(saved_sessions_go_on),
        cmocka_unit_test(codes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(sizes_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
