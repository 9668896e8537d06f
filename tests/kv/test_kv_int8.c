/*
 * The cache i8: its slots agree with kv.h after passes, slides and rewinds, and its attention with
 * the same numbers in double precision.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed.h"
#include "run/pass.h"

enum { N = 300, E = 20, G = 2 };

static const struct toy toy = {.arch = "llama",
                               .n_vocab = 31,
                               .n_ctx = 640,
                               .n_embd = 24,
                               .n_layer = 1,
                               .n_head = 6,
                               .n_head_kv = G,
                               .head_dim = E,
                               .n_ff = 32,
                               .n_rot = E,
                               .type = TFT_F32};

/* A key or a value as the cache has it: number d of a slot and its scale. */
static int number(const struct tft_kv *kv, uint32_t head, enum tft_kv_which which, uint32_t slot,
                  uint32_t d, float *scale)
{
    /* keys: 16 slots side by side, 4 channels each; values: 16 channels, 4 slots each, by spans */
    struct tft_kv_int8 a = tft_kv_int8(kv, 0, head, which, 0);
    size_t padded = 32, at = which == TFT_KV_K
                                 ? slot / 16 * 16 * padded + d / 4 * 64 + slot % 16 * 4 + d % 4
                                 : slot / 256 * 256 * padded + d / 16 * 16 * 256 +
                                       slot % 256 / 4 * 64 + d % 16 * 4 + slot % 4;
    *scale = a.scale[slot];
    return a.data[at];
}

/* Keys and values of the toy's only layer do not depend on other tokens: f32 has them exactly. */
static float exact(const struct tft_session *f32, uint32_t head, enum tft_kv_which which,
                   uint32_t slot, uint32_t d)
{
    if (which == TFT_KV_V)
        return ((const float *)tft_kv_values(&f32->kv, 0, head, slot))[d];
    return ((const float *)tft_kv_keys(&f32->kv, 0, head, slot / 16 * 16))[d * 16 + slot % 16];
}

/* Fails unless slots 0 .. n - 1 of s are the rounded numbers of f32. */
static void same_slots(const struct tft_session *s, const struct tft_session *f32, uint32_t n)
{
    for (uint32_t h = 0; h < G; h++)
        for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++)
            for (uint32_t slot = 0; slot < n; slot++) {
                float most = 0, scale;
                int sum = 0;
                for (uint32_t d = 0; d < E; d++)
                    most = fmaxf(most, fabsf(exact(f32, h, i, slot, d)));
                for (uint32_t d = 0; d < E; d++) {
                    float x = exact(f32, h, i, slot, d);
                    int c = number(&s->kv, h, i, slot, d, &scale);
                    sum += c;
                    assert_true(scale == most / 127);
                    assert_true(abs(c) <= 127);
                    if (fabs((double)x - c * (double)scale) > 0.5001 * (double)scale)
                        fail_msg("slot %u: %g became %d of %g", slot, (double)x, c, (double)scale);
                }
                if (i == TFT_KV_K)
                    assert_int_equal(tft_kv_int8(&s->kv, 0, h, i, 0).sum[slot], sum);
            }
}

/* The sum of each channel of the values, over all slots of a span, also after the last token. */
static void sums_add_up(const struct tft_session *s)
{
    for (uint32_t h = 0; h < G; h++)
        for (uint32_t span = 0; span * 256 < s->kv.held; span++)
            for (uint32_t d = 0; d < E; d++) {
                int sum = 0;
                float scale;
                for (uint32_t j = 0; j < 256; j++)
                    sum += number(&s->kv, h, TFT_KV_V, span * 256 + j, d, &scale);
                assert_int_equal(tft_kv_int8(&s->kv, 0, h, TFT_KV_V, span * 256).sum[d], sum);
            }
}

static struct tft_session *of(const struct tft_model *m, const char *kv, int32_t *tokens)
{
    toy_tokens(11, toy.n_vocab, tokens, N);
    return session(m, (struct tft_session_opts){.kv = kv, .n_threads = 2});
}

static void slots_are_rounded(void **state)
{
    (void)state;
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session *s = of(m, "i8", tokens), *f32 = of(m, "f32", tokens);
    feed(s, tokens, N, 70);
    feed(f32, tokens, N, N);
    same_slots(s, f32, N);
    sums_add_up(s);

    static const uint32_t back[] = {299, 257, 255, 3};
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) {
        assert_int_equal(tft_rewind(s, back[i]), TFT_OK);
        assert_int_equal(tft_rewind(f32, back[i]), TFT_OK);
        assert_int_equal(s->kv.held, back[i]); /* nothing is computed again */
        feed(s, tokens + i, 20, 1);
        feed(f32, tokens + i, 20, 20);
        same_slots(s, f32, back[i] + 20);
        sums_add_up(s);
    }
    tft_session_close(s);
    tft_session_close(f32);
    tft_model_close(m);
}

/* The tokens that stay move to other slots as they are. */
static void slides(void **state)
{
    (void)state;
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session_opts o = {.kv = "i8", .n_threads = 1, .capacity = 280, .slide = true};
    struct tft_session *s = session(m, o);
    o.kv = "f32";
    struct tft_session *f32 = session(m, o);
    toy_tokens(12, toy.n_vocab, tokens, N);
    for (int i = 0; i < 2; i++) {
        feed(s, tokens, N, 30);
        feed(f32, tokens, N, 30);
        assert_true(s->kv.dropped > 0);
        same_slots(s, f32, s->kv.held);
        sums_add_up(s);
    }
    tft_session_close(s);
    tft_session_close(f32);
    tft_model_close(m);
}

/* ---- attention */

/* The outputs of a head for a query, in double precision, over the cache's numbers: spans of 256
   slots with weights of bytes, and the bytes of a span add up to the whole weight. */
static void oracle(const struct tft_session *s, uint32_t head, const float *q, uint32_t n,
                   double *out)
{
    double step_q = 0, all = 0, scale_a = (double)s->m->attn_scale, top = -INFINITY;
    int x[E];
    float scale;
    static double score[N], weight[N];
    for (uint32_t d = 0; d < E; d++)
        step_q = fmax(step_q, fabs((double)q[d]) / 127);
    for (uint32_t d = 0; d < E; d++) {
        x[d] = (int)lrint((double)q[d] / step_q);
        out[d] = 0;
    }
    for (uint32_t j = 0; j < n; j++) {
        int dot = 0;
        for (uint32_t d = 0; d < E; d++)
            dot += x[d] * number(&s->kv, head, TFT_KV_K, j, d, &scale);
        score[j] = scale_a * step_q * (double)scale * dot;
        top = fmax(top, score[j]);
    }
    for (uint32_t span = 0; span < n; span += 256) {
        uint32_t end = n < span + 256 ? n : span + 256;
        double most = 0, whole = 0, kept = 0;
        for (uint32_t j = span; j < end; j++) {
            number(&s->kv, head, TFT_KV_V, j, 0, &scale);
            all += exp(score[j] - top);
            weight[j] = exp(score[j] - top) * (double)scale;
            most = fmax(most, weight[j]);
            whole += weight[j];
        }
        for (uint32_t j = span; j < end; j++) {
            weight[j] = rint(weight[j] / most * 255);
            kept += weight[j];
        }
        for (uint32_t j = span; j < end; j++)
            for (uint32_t d = 0; d < E; d++)
                out[d] += whole / kept * weight[j] * number(&s->kv, head, TFT_KV_V, j, d, &scale);
    }
    for (uint32_t d = 0; d < E; d++)
        out[d] /= all;
}

/* The newest token's queries and attention's results are still in the session's rows. */
static void attention_is_that_of_the_numbers(void **state)
{
    (void)state;
    static const uint32_t at[] = {1, 17, 255, 256, 257, N};
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session *s = of(m, "i8", tokens);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        feed(s, tokens + s->pos, at[i] - s->pos - 1, N);
        assert_int_equal(tft_decode(s, tokens[s->pos]), TFT_OK);
        struct tft_pass pass = {.m = m, .work = s->work};
        for (uint32_t h = 0; h < 6; h++) {
            double want[E];
            const float *q = tft_pass_row(&pass, TFT_Q, 0) + h * E,
                        *got = tft_pass_row(&pass, TFT_A, 0) + h * E;
            oracle(s, h / 3, q, at[i], want);
            double most = 0, off = 0;
            for (uint32_t d = 0; d < E; d++) {
                most = fmax(most, fabs(want[d]));
                off = fmax(off, fabs(want[d] - (double)got[d]));
            }
            /* a number that lies between two bytes may become either */
            if (!(off <= 1e-5 * most) && !(off <= 5e-3 * most && at[i] > 1))
                fail_msg("%u tokens, head %u: off by %g of %g", at[i], h, off, most);
        }
    }
    tft_session_close(s);
    tft_model_close(m);
}

/* ---- keys with a large bias */

enum { LATER = 60 };

/* As qwen2's keys: a bias in slow channels that is `size`, where the rest of a key is about 1. */
static const char *biased(const char *arch, float size)
{
    const struct toy model = {.arch = arch,
                              .n_vocab = 61,
                              .n_ctx = 640,
                              .n_embd = 64,
                              .n_layer = 2,
                              .n_head = 4,
                              .n_head_kv = 2,
                              .head_dim = 16,
                              .n_ff = 96,
                              .n_rot = 16,
                              .type = TFT_F32};
    const char *path = written(&model);
    if (size > 0)
        assert_true(toy_give_key_bias(path, model.head_dim, size));
    return path;
}

/* The mean distance of the logits with a cache from the logits with f32. plain: without offsets. */
static double loss(const char *path, const char *kv, bool plain)
{
    double sum = 0;
    int32_t tokens[N];
    struct tft_model *m = opened(path);
    struct tft_session *f32 = session(m, (struct tft_session_opts){.kv = "f32", .n_threads = 1}),
                       *s = session(m, (struct tft_session_opts){.kv = kv, .n_threads = 1});
    if (plain)
        s->kv.key_offset = NULL;
    toy_tokens(13, m->n_vocab, tokens, N);
    feed(f32, tokens, N - LATER, N);
    feed(s, tokens, N - LATER, N);
    for (int i = N - LATER; i < N; i++) {
        assert_int_equal(tft_decode(f32, tokens[i]), TFT_OK);
        assert_int_equal(tft_decode(s, tokens[i]), TFT_OK);
        sum += distance(s, f32) / LATER;
    }
    tft_session_close(s);
    tft_session_close(f32);
    tft_model_close(m);
    return sum;
}

/* A bias of 100 hardly takes accuracy of i8: without offsets it would take most of it. The rounding
   of f16 is 16 times as coarse with it. */
static void biases_take_no_accuracy(void **state)
{
    (void)state;
    double i8 = loss(biased("qwen2", 0), "i8", false), f16 = loss(biased("qwen2", 0), "f16", false),
           with = loss(biased("qwen2", 100), "i8", false),
           f16_with = loss(biased("qwen2", 100), "f16", false),
           plain = loss(biased("qwen2", 100), "i8", true);
    if (!(with < 2 * i8))
        fail_msg("with a bias i8 loses %g, without %g", with, i8);
    if (!(plain > 5 * i8))
        fail_msg("a bias loses %g without offsets, no bias %g: the test tests nothing", plain, i8);
    if (!(f16_with > 2 * f16))
        fail_msg("f16 loses %g, %g without a bias: the bias is small", f16_with, f16);
}

/* Blocks have whole keys: the scores of slots get back what an offset took from them. */
static void biases_take_no_accuracy_beside_blocks(void **state)
{
    (void)state;
    const char *i8 = "k=8@channel,v=8@token,group=16,retain=window:40,slots=i8",
               *f16 = "k=8@channel,v=8@token,group=16,retain=window:40";
    double none = loss(biased("qwen2", 0), i8, false), with = loss(biased("qwen2", 100), i8, false),
           plain = loss(biased("qwen2", 100), i8, true),
           f16_none = loss(biased("qwen2", 0), f16, false);
    if (!(with < 2 * none))
        fail_msg("with a bias slots of bytes lose %g, without %g", with, none);
    if (!(plain > 2 * none))
        fail_msg("a bias loses %g without offsets, no bias %g", plain, none);
    if (!(none < 4 * f16_none))
        fail_msg("slots of bytes lose %g, of f16 %g", none, f16_none);
}

/* Only a bias makes an offset, which is the bias where RoPE does not turn it. */
static void offsets_are_of_biases(void **state)
{
    (void)state;
    struct tft_model *m = opened(biased("qwen2", 100));
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "i8", .n_threads = 1}),
                       *f16 = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    assert_null(f16->kv.key_offset);
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t h = 0; h < 2; h++) {
            const float *offset = tft_kv_key_offset(&s->kv, l, h),
                        *bias = m->layer[l].k.bias + (size_t)16 * h;
            /* turned by a tenth of a radian at the middle of the context */
            assert_true(fabsf(offset[7] - 89.5f) < 1 && fabsf(offset[15] - 109.5f) < 1);
            assert_true(fabsf(offset[0]) < 0.02f * (fabsf(bias[0]) + fabsf(bias[8])));
        }
    tft_session_close(s);
    tft_session_close(f16);
    tft_model_close(m);

    m = opened(biased("llama", 0));
    s = session(m, (struct tft_session_opts){.kv = "i8", .n_threads = 1});
    assert_null(s->kv.key_offset);
    tft_session_close(s);
    tft_model_close(m);
}

/* ---- numbers that are none */

static void strange_numbers(void **state)
{
    (void)state;
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session *s = of(m, "i8", tokens);
    float x[E] = {0}, scale;
    tft_kv_store_key(&s->kv, &m->kern, 0, 0, 0, x);
    assert_int_equal(number(&s->kv, 0, TFT_KV_K, 0, 0, &scale), 0);
    assert_true(scale == 0);
    x[1] = NAN, x[2] = 3, x[3] = -3;
    tft_kv_store_value(&s->kv, &m->kern, 0, 0, 0, x);
    assert_int_equal(number(&s->kv, 0, TFT_KV_V, 0, 1, &scale), -127); /* never -128 */
    assert_int_equal(number(&s->kv, 0, TFT_KV_V, 0, 2, &scale), 127);
    assert_int_equal(number(&s->kv, 0, TFT_KV_V, 0, 3, &scale), -127);
    assert_true(scale == 3.0f / 127);
    x[5] = INFINITY;
    tft_kv_store_value(&s->kv, &m->kern, 0, 0, 1, x);
    number(&s->kv, 0, TFT_KV_V, 1, 0, &scale);
    assert_true(scale == 0);
    tft_session_close(s);
    tft_model_close(m);
}

static void takes_half_of_f16(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    /* 32 numbers, a scale and a sum for each key; 32 and a scale for a value, 32 sums for a span */
    assert_int_equal(tft_kv_bytes(m, "i8", NULL), G * (32 + 8 + 32 + 4.5));
    struct tft_error err;
    assert_int_equal(tft_kv_bytes(m, "i8:group=32", &err), 0);
    assert_non_null(strstr(err.msg, "has no knobs"));
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_rounded),
        cmocka_unit_test(slides),
        cmocka_unit_test(attention_is_that_of_the_numbers),
        cmocka_unit_test(biases_take_no_accuracy),
        cmocka_unit_test(biases_take_no_accuracy_beside_blocks),
        cmocka_unit_test(offsets_are_of_biases),
        cmocka_unit_test(strange_numbers),
        cmocka_unit_test(takes_half_of_f16),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
