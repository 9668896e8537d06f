/* Weights of 4, 3 and 2 bits: a model of codes has the logits of the model that holds the same
   numbers as int8, on all ISA levels, with any number of threads and however it is fed. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "w8a8.h"

#include "low_copies.h"

/* ---- the same logits */

static void the_logits_of_int8(void **state)
{
    (void)state;
    char i8[64], low[64];
    snprintf(i8, sizeof i8, "%s", in_folder("i8.gguf"));
    snprintf(low, sizeof low, "%s", in_folder("low.gguf"));
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        o.range = i % 2 ? by_token : fixed;
        write_copies(quantized(&toys[i], &o), i8, low, 4 * i);
        struct tft_model *a = opened(i8), *b = opened(low);
        assert_true(b->weight_bytes < a->weight_bytes);
        assert_int_equal(a->n_params, b->n_params);
        tft_model_close(a);
        tft_model_close(b);
        uint64_t want = fed(i8, 1, TOKENS, TOKENS, "f16");
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(fed(low, 1 + isa % 3, TOKENS, TOKENS, "f16"), want);
            if (!in_turn(isa, i, tft_kernels_isas())) /* few tokens take other ways */
                continue;
            assert_int_equal(fed(low, 1, 3, 512, "f16"), want);
            assert_int_equal(fed(low, 2, 1, 512, "f16"), want);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed(low, 5, 100, 33, "f16"), want);
    }
}

/* ---- files that make no sense */

enum damage {
    NONE,
    NO_KEY,
    NO_VERSION,
    STRAY, /* the key in a file that has none */
    SHORT,
    LONG,
    NOT_AN_ARRAY,
    FLOATS,
    BITS,
    GROUP,
    NEGATIVE,
    NORM,
    OTHER_WIDTH,
    OTHER_GROUP,
    NO_CODES,
    ALL_CODES,
};

/* Copies a file, with damage to the key of codes. */
static const char *damaged(const char *from, enum damage what)
{
    const char *to = in_folder("damaged.gguf");
    struct tft_source s;
    struct tft_gguf_writer *w;
    struct tft_error err;
    int32_t codes[MOST] = {0};
    assert_int_equal(tft_source_open(&s, from, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    if (what == STRAY)
        tft_gguf_put_array(w, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, codes, 1);
    for (size_t i = 0; i < s.n_value; i++) {
        const struct tft_value *v = &s.value[i];
        if (what == NO_VERSION && tft_str_is(v->key, TFT_KEY_VERSION))
            continue;
        if (!tft_str_is(v->key, TFT_KEY_WEIGHT_CODES)) {
            tft_gguf_put_value(w, v);
            continue;
        }
        size_t first = s.n_tensor, last = 0, norm = 0, int8 = 0;
        for (size_t k = s.n_tensor; k-- > 0;) {
            uint64_t code;
            assert_true(tft_value_uint(v, k, &code));
            codes[k] = (int32_t)code;
            first = code ? k : first;
            last = code && k > last ? k : last;
            int8 = !code && s.tensor[k].type == TFT_I8 ? k : int8;
            norm = ends_with(s.tensor[k].name, "_norm.weight") ? k : norm;
        }
        if (what == BITS)
            codes[first] = 5 + 256 * 64;
        if (what == GROUP)
            codes[first] = 4 + 256 * 48;
        if (what == NEGATIVE)
            codes[first] = -1;
        if (what == NORM)
            codes[norm] = 4 + 256 * 64;
        if (what == OTHER_WIDTH)
            codes[first] ^= 4 ^ 2;
        if (what == OTHER_GROUP)
            codes[last] = (codes[last] & 255) + 256 * (codes[last] >> 8 == 128 ? 64 : 128);
        if (what == NO_CODES)
            codes[last] = 0;
        if (what == ALL_CODES)
            codes[int8] = 4 + 256 * 64;
        float floats[MOST] = {0};
        if (what == FLOATS)
            tft_gguf_put_array(w, TFT_KEY_WEIGHT_CODES, TFT_VALUE_F32, floats, s.n_tensor);
        else if (what == NOT_AN_ARRAY)
            tft_gguf_put_u32(w, TFT_KEY_WEIGHT_CODES, 4 + 256 * 64);
        else if (what != NO_KEY)
            tft_gguf_put_array(w, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, codes,
                               s.n_tensor - (what == SHORT) + (what == LONG));
    }
    for (size_t i = 0; i < s.n_tensor; i++)
        tft_gguf_put_tensor(w, s.tensor[i].name, s.tensor[i].type, s.tensor[i].n_dims,
                            s.tensor[i].ne);
    for (size_t i = 0; i < s.n_tensor; i++)
        tft_gguf_put_data(w, s.tensor[i].data, (size_t)s.tensor[i].bytes);
    if (tft_gguf_close(w, true, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_source_close(&s);
    return to;
}

static void keys_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        enum damage what;
        enum tft_status status;
        const char *why;
    } cases[] = {
        {NONE, TFT_OK, ""},
        {NO_KEY, TFT_ERR_FORMAT, "token_embd.weight"},
        {NO_VERSION, TFT_ERR_FORMAT, "the tensor token_embd.weight is "},
        {SHORT, TFT_ERR_FORMAT, "is not an array of"},
        {LONG, TFT_ERR_FORMAT, "is not an array of"},
        {NOT_AN_ARRAY, TFT_ERR_FORMAT, "is not an array of"},
        {FLOATS, TFT_ERR_UNSUPPORTED, "of the tensor token_embd.weight is neither 0 nor 2 to 4"},
        {BITS, TFT_ERR_UNSUPPORTED, "of the tensor token_embd.weight is neither 0 nor 2 to 4"},
        {GROUP, TFT_ERR_UNSUPPORTED, "of the tensor token_embd.weight is neither 0 nor 2 to 4"},
        {NEGATIVE, TFT_ERR_UNSUPPORTED, "of the tensor token_embd.weight is neither 0 nor 2 to 4"},
        {NORM, TFT_ERR_FORMAT, "norm.weight has codes, but it has type F32"},
        {OTHER_WIDTH, TFT_ERR_FORMAT, "the tensor token_embd.weight is "},
        {OTHER_GROUP, TFT_ERR_FORMAT, "the tensor output.weight is "},
        {NO_CODES, TFT_ERR_FORMAT, "the tensor output.weight is "},
        {ALL_CODES, TFT_ERR_FORMAT, "the tensor blk."},
    };
    char i8[64], low[64];
    snprintf(i8, sizeof i8, "%s", in_folder("i8.gguf"));
    snprintf(low, sizeof low, "%s", in_folder("low.gguf"));
    struct quantize_opts o = usual(&toys[0]);
    write_copies(quantized(&toys[0], &o), i8, low, 0);
    struct tft_model *m;
    assert_int_equal(tft_model_open(&m, damaged(written(&toys[0]), STRAY), NULL, NULL), TFT_OK);
    tft_model_close(m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_error err = {0};
        const char *path = damaged(low, cases[i].what);
        enum tft_status status = tft_model_open(&m, path, NULL, &err);
        if (status != cases[i].status || !strstr(err.msg, cases[i].why) || strchr(err.msg, '\n') ||
            (status && strncmp(err.msg, path, strlen(path)) != 0))
            fail_msg("case %zu: status %d: %s", i, (int)status, err.msg);
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logits_of_int8),
        cmocka_unit_test(keys_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
