/* Mixtures of experts: the choice of experts, the same bits however they are fed, in floats and in
   codes; that only chosen experts are read; and files that make no sense. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "expert_toys.h"
#include "tools/pack/pack.h"
#include "tools/quantize/measure/moments.h"
#include "tools/quantize/tune/tune.h"
#include "ranges.h"

/* ---- the choice */

/* A model with only the tensors that the choice reads. */
static struct tft_model chooser(uint32_t n, uint32_t used)
{
    struct tft_model m = {.n_expert = n, .n_expert_used = used, .expert_scale = 1};
    tft_kernels_fill(&m.kern, tft_kernels_best());
    return m;
}

static void choose(const struct tft_model *m, const float *bias, const float *score,
                   struct tft_route *to)
{
    float copy[TFT_MAX_EXPERTS];
    memcpy(copy, score, m->n_expert * sizeof *copy);
    tft_routes_choose(m, bias, copy, to);
}

static void is_near(float got, double want)
{
    if (!(fabs((double)got - want) < 1e-6))
        fail_msg("%g is not %g", (double)got, want);
}

static void weights(void **state)
{
    (void)state;
    static const float score[] = {1, 3, -1, 2};
    const double all = exp(1) + exp(3) + exp(-1) + exp(2);
    struct tft_model m = chooser(4, 2);
    struct tft_route r[2];
    choose(&m, NULL, score, r);
    assert_int_equal(r[0].expert, 1);
    assert_int_equal(r[1].expert, 3);
    is_near(r[0].weight, exp(3) / all);
    is_near(r[1].weight, exp(2) / all);
    m.expert_renorm = true;
    choose(&m, NULL, score, r);
    is_near(r[0].weight, exp(3) / (exp(3) + exp(2)));
    is_near(r[1].weight, exp(2) / (exp(3) + exp(2)));
    m.expert_scale = 2.5f;
    choose(&m, NULL, score, r);
    is_near(r[0].weight, 2.5 * exp(3) / (exp(3) + exp(2)));
    m.expert_sigmoid = true;
    m.expert_renorm = false;
    choose(&m, NULL, score, r);
    is_near(r[1].weight, 2.5 / (1 + exp(-2)));
}

/* The bias helps to choose, and is no part of the weight. */
static void bias_is_for_the_choice_alone(void **state)
{
    (void)state;
    static const float score[] = {1, 3, -1, 2}, bias[] = {0, -1, 1, 0};
    struct tft_model m = chooser(4, 2);
    struct tft_route r[2];
    m.expert_sigmoid = m.expert_renorm = true;
    choose(&m, bias, score, r);
    double two = 1 / (1 + exp(1)), three = 1 / (1 + exp(-2));
    assert_int_equal(r[0].expert, 2);
    assert_int_equal(r[1].expert, 3);
    is_near(r[0].weight, two / (two + three));
    is_near(r[1].weight, three / (two + three));
}

static void equal_scores_take_the_first(void **state)
{
    (void)state;
    static const float score[] = {0, 1, 1, 0, 1, 0};
    struct tft_model m = chooser(6, 5);
    struct tft_route r[5];
    choose(&m, NULL, score, r);
    static const uint32_t want[] = {0, 1, 2, 3, 4};
    for (int i = 0; i < 5; i++)
        assert_int_equal(r[i].expert, want[i]);
    m.n_expert_used = 2;
    choose(&m, NULL, score, r);
    assert_int_equal(r[0].expert, 1);
    assert_int_equal(r[1].expert, 2);
}

/* A sum of weights of almost nothing does not make infinite ones. */
static void tiny_weights(void **state)
{
    (void)state;
    static const float score[] = {-80, -90, -100};
    struct tft_model m = chooser(3, 2);
    struct tft_route r[2];
    m.expert_sigmoid = m.expert_renorm = true;
    choose(&m, NULL, score, r);
    assert_int_equal(r[0].expert, 0);
    is_near(r[0].weight, exp(-80) * 0x1p14);
}

static void what_is_no_number_chooses_some_experts(void **state)
{
    (void)state;
    float score[8];
    struct tft_route r[3];
    for (int all = 0; all < 2; all++)
        for (int kind = 0; kind < 2; kind++) {
            struct tft_model m = chooser(8, 3);
            m.expert_sigmoid = kind;
            m.expert_renorm = true;
            for (int i = 0; i < 8; i++)
                score[i] = all || i == 2 ? NAN : i == 5 ? INFINITY : (float)i;
            choose(&m, NULL, score, r);
            assert_true(r[0].expert < r[1].expert && r[1].expert < r[2].expert);
            assert_in_range(r[2].expert, 2, 7);
        }
}

/* An expert with the score NaN is chosen after all others, at every index, and with sigmoids it
   changes no other weight. */
static void nan_is_the_least(void **state)
{
    (void)state;
    static const float scores[] = {-INFINITY, 1, 3, 2}, bias[] = {0, 0, -9, 0};
    struct tft_model m = chooser(4, 2);
    m.expert_sigmoid = true;
    for (uint32_t at = 0; at < 4; at++)
        for (int biased = 0; biased < 2; biased++) {
            struct tft_route got[2], want[2];
            float score[4];
            memcpy(score, scores, sizeof score);
            score[0] = scores[at];
            score[at] = -INFINITY;
            choose(&m, biased ? bias : NULL, score, want);
            score[at] = NAN;
            choose(&m, biased ? bias : NULL, score, got);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(got[i].expert, want[i].expert);
                assert_true(got[i].expert != at);
                assert_true(got[i].weight == want[i].weight);
            }
        }
}

/* ---- groups */

static void pairs_by_expert(void **state)
{
    (void)state;
    struct tft_model m = chooser(4, 2);
    struct tft_route of_token[] = {{9, 9}, {9, 9}, {0, 1}, {3, 2}, {1, 3}, {3, 4}, {0, 5}, {1, 6}};
    uint32_t first[5], token[8];
    float weight[8];
    struct tft_routes r = {
        .of_token = of_token, .first = first, .token = token, .weight = weight};
    tft_routes_group(&r, &m, 1, 4);
    static const uint32_t want_first[] = {0, 2, 4, 4, 6}, want_token[] = {1, 3, 2, 3, 1, 2};
    static const float want_weight[] = {1, 5, 3, 6, 2, 4};
    assert_memory_equal(first, want_first, sizeof want_first);
    assert_memory_equal(token, want_token, sizeof want_token);
    assert_memory_equal(weight, want_weight, sizeof want_weight);
}

/* ---- whole models */

/* Returns the hash that all ways to feed the model have. `turn` chooses the ISA level. */
static uint64_t same_bits(const char *path, const char *kv, int turn)
{
    uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, kv);
    assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, kv), want);
    assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, kv), want);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        if (!in_turn(isa, turn, tft_kernels_isas()))
            continue;
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, kv), want);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    return want;
}

static void the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_EXPERTS; i++) {
        const char *path = written(&expert_toys[i]);
        same_bits(path, "f16", i);
        if (in_turn(0, i, 3)) /* the last one has a state too */
            same_bits(path, "kivi:window=32,group=16", i + 2);
    }
}

/* A toy with widths that fit blocks of 32 codes, in codes. */
static struct toy coded(int i, enum tft_dtype type)
{
    struct toy t = expert_toys[i];
    t.type = type;
    t.n_embd = 64;
    t.n_head = 4;
    t.n_head_kv = i == 1 ? 4 : 2;
    t.head_dim = t.n_rot = 16;
    t.n_ff = 96;
    static struct toy_number n[8];
    memset(n, 0, sizeof n);
    for (int k = 0; t.numbers && t.numbers[k].key; k++) {
        n[k] = t.numbers[k];
        if (strstr(n[k].key, "feed_forward_length"))
            n[k].x = 32;
    }
    if (t.numbers)
        t.numbers = n;
    return t;
}

/* Toys with experts of widths that fit as they are. */
static const int in_codes[] = {1, 2, 3, 5};
enum { N_CODES = sizeof in_codes / sizeof *in_codes };

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

/* A packed file has the same logits, and takes no memory for its matrices. */
static void codes(void **state)
{
    (void)state;
    for (int i = 0; i < N_CODES; i++)
        for (int four = 0; four < 2; four++) {
            struct toy t = coded(in_codes[i], four ? TFT_Q4_0 : TFT_Q8_0);
            const char *path = written(&t), *to = in_folder("p.gguf");
            double off = from_floats(path);
            if (!(off > 1e-6 && off < 0.1))
                fail_msg("%s: off by %g", t.arch, off);
            uint64_t want = same_bits(path, "f16", 2 * i + four);
            packs(path, to);
            assert_int_equal(fed_until(TWO_SPANS, to, 2, 97, 100, "f16"), want);
            struct tft_model *a = opened(path), *b = opened(to);
            assert_true(b->memory_size < a->memory_size / 4);
            assert_int_equal(a->n_params, b->n_params);
            assert_int_equal(a->weight_bytes, b->weight_bytes);
            tft_model_close(a);
            tft_model_close(b);
        }
}

/* ---- W8A8 */

/* Toys with whole panels in their experts. Rows from DENSE on have a layer without experts, with
   wider or narrower hidden activations; rows from SHARED on have shared experts, the last one in
   its last layer alone. */
static const int convertible[] = {0, 1, 2, 3, 6, 6, 2, 4, 4};
enum { N_CONVERTIBLE = sizeof convertible / sizeof *convertible, DENSE = 4, SHARED = 6 };

static struct toy panelled(int i)
{
    static const struct toy_number numbers[N_CONVERTIBLE][8] = {
        {{"expert_count", TOY_U32, 6}, {"expert_used_count", TOY_U32, 3}},
        {{"expert_count", TOY_U32, 19}, {"expert_used_count", TOY_U32, 4}},
        {{"embedding_scale", TOY_F32, 3}, {"residual_scale", TOY_F32, 0.4},
         {"expert_count", TOY_U32, 5}, {"expert_used_count", TOY_U32, 2}},
        {{"expert_count", TOY_U32, 4}, {"expert_used_count", TOY_U32, 2}},
        {{"shortconv.l_cache", TOY_U32, 3}, {"expert_count", TOY_U32, 5},
         {"expert_used_count", TOY_U32, 2}, {"expert_feed_forward_length", TOY_U32, 48},
         {"leading_dense_block_count", TOY_U32, 1}, {"expert_gating_func", TOY_U32, 2}},
        {{"shortconv.l_cache", TOY_U32, 3}, {"expert_count", TOY_U32, 5},
         {"expert_used_count", TOY_U32, 2}, {"expert_feed_forward_length", TOY_U32, 64},
         {"leading_dense_block_count", TOY_U32, 1}, {"expert_gating_func", TOY_U32, 2}},
        {{"embedding_scale", TOY_F32, 3}, {"residual_scale", TOY_F32, 0.4},
         {"expert_count", TOY_U32, 5}, {"expert_used_count", TOY_U32, 2},
         {"expert_shared_feed_forward_length", TOY_U32, 40}},
        {{"expert_count", TOY_U32, 6}, {"expert_used_count", TOY_U32, 2},
         {"expert_feed_forward_length", TOY_U32, 32},
         {"expert_shared_feed_forward_length", TOY_U32, 88}},
        {{"expert_count", TOY_U32, 6}, {"expert_used_count", TOY_U32, 2},
         {"expert_feed_forward_length", TOY_U32, 48},
         {"expert_shared_feed_forward_length", TOY_U32, 24}}};
    struct toy t = expert_toys[convertible[i]];
    t.n_embd = 48;
    t.n_ff = i == 1 || i == 5 ? 32 : 64;
    t.numbers = numbers[i];
    t.shared_last = i == N_CONVERTIBLE - 1;
    return t;
}

static void near(const struct toy *t, const struct quantize_opts *o, double most, const char *what)
{
    double d = float_distance(t, quantized(t, o), 40);
    if (!(d > 0 && d < most))
        fail_msg("%s, %s: off by %.3f of the logits of floats", t->arch, what, d);
}

static void near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 3];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_CONVERTIBLE; i++) {
        struct toy t = panelled(i);
        struct quantize_opts o = usual(&t);
        near(&t, &o, 0.15, "as usual");
        o.range = by_token;
        near(&t, &o, 0.15, "dynamic");
        o.range = fixed;
        o.rotate = QUANTIZE_ROTATE_NONE;
        near(&t, &o, 0.15, "not rotated");
        o.bits = bits;
        o.group = 32;
        o.rounding = QUANTIZE_GPTQ;
        if (in_turn(0, i, 2))
            near(&t, &o, 0.6, "gptq");
        o.rounding = QUANTIZE_AWQ;
        if (in_turn(1, i, 2))
            near(&t, &o, 0.6, "awq");
    }
}

static void w8a8_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 3];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_CONVERTIBLE; i++)
        for (int kind = 0; kind < 3; kind++) {
            struct toy t = panelled(i);
            struct quantize_opts o = usual(&t);
            o.range = kind == 1 ? by_token : fixed;
            o.bits = kind == 2 ? bits : NULL;
            o.group = 32;
            if (kind == 0 || in_turn(kind, i, 2))
                same_bits(quantized(&t, &o), "f16", i + kind);
        }
}

/* The second moments of hidden activations. In a layer without experts, they are sums over tokens;
   in a layer with experts, sums over all pairs of a token and one of its experts. Their width is
   that of the layer's hidden activations. Only the first are multiplied by the residual stream. */
static void moments_of_each_width(void **state)
{
    (void)state;
    enum { SPAN = 3, USED = 2 };
    for (int i = DENSE; i < SHARED; i++) {
        struct toy t = panelled(i);
        struct tft_model *m = opened(written(&t));
        struct moments s;
        const bool wanted[TFT_INPUT_KINDS] = {[TFT_IN_DOWN] = true};
        assert_true(moments_open(&s, m, SPAN, true, wanted, 2));
        for (uint32_t l = 3; l-- > 0;) { /* layer 0 has fewer rows than there were before it */
            size_t n = l ? m->n_ff_expert : m->n_ff, rows = l ? SPAN * USED : SPAN;
            float x[SPAN * USED][64] = {{0}};
            float stream[SPAN][64];
            moments_begin(&s, &m->layer[l], 1u << TFT_IN_DOWN);
            assert_int_equal(moments_has_stream(&s, TFT_IN_DOWN), l == 0);
            assert_false(moments_has_stream(&s, TFT_IN_O));
            for (size_t r = 0; r < rows; r++) {
                for (size_t k = 0; k < n; k++)
                    x[r][k] = (float)((r * 31 + k * 7 + l) % 13) - 6;
                moments_put(&s, TFT_IN_DOWN, r, x[r]);
            }
            for (size_t r = 0; r < SPAN; r++)
                for (size_t k = 0; k < m->n_embd; k++)
                    stream[r][k] = (float)((r * 17 + k * 5) % 11);
            if (l == 0) {
                moments_put_exact_stream(&s, TFT_IN_DOWN, stream[0], 64);
                moments_put_stream(&s, TFT_IN_DOWN, x[0], 64);
            }
            moments_add(&s);
            for (size_t k = 0; l == 0 && k < m->n_embd; k++)
                for (size_t j = 0; j < n; j++) {
                    float sum = 0;
                    for (size_t r = 0; r < SPAN; r++)
                        sum += (stream[r][k] - x[r][k]) * x[r][j];
                    assert_true(s.stream[TFT_IN_DOWN][k * n + j] == sum);
                }
            for (size_t k = 0; k < n; k++)
                for (size_t j = 0; j <= k; j++) {
                    float sum = 0;
                    for (size_t r = 0; r < rows; r++)
                        sum += x[r][k] * x[r][j];
                    assert_true(s.h[TFT_IN_DOWN][k * n + j] == sum);
                }
        }
        moments_close(&s);
        tft_model_close(m);
    }
}

/* Hidden activations of experts have the range of all pairs of a token and an expert; the shared
   expert's have the range of all tokens. */
static void ranges_of_shared_experts(void **state)
{
    (void)state;
    for (int i = SHARED; i < N_CONVERTIBLE; i++)
        for (int rotated = 0; rotated < 2; rotated++) {
            struct toy t = panelled(i);
            struct quantize_opts o = usual(&t);
            o.rotate = rotated ? QUANTIZE_ROTATE_O_DOWN : QUANTIZE_ROTATE_NONE;
            struct tft_model *q = opened(quantized(&t, &o)), *f = opened(written(&t));
            const struct tft_layer *b = &q->layer[1];
            struct input_ranges seen = {.n_layer = 2, .block = rotated ? b->down.in->hadamard : 1};
            assert_true(!rotated || seen.block > 1);
            assert_int_equal(b->experts.down.in->hadamard, rotated ? seen.block : 0);
            see_text(f, 3, &seen);
            for (uint32_t l = 0; l < 2; l++)
                for (uint32_t which = 0; which <= TFT_IN_SHARED; which++) {
                    bool none = which == TFT_IN_SHARED && t.shared_last && l == 0;
                    size_t times = none ? 0 : which == TFT_IN_DOWN ? f->n_expert_used : 1;
                    assert_int_equal(seen.rows[tft_input_index(q, l, which)], times * TEXT);
                    has_range(q, &seen, l, which);
                }
            assert_ptr_equal(b->down.in, &b->in[TFT_IN_SHARED]);
            assert_ptr_equal(b->experts.down.in, &b->in[TFT_IN_DOWN]);
            assert_true(b->down.in->affine.scale != b->experts.down.in->affine.scale);
            tft_model_close(q);
            tft_model_close(f);
        }
}

/* Tensors that stay in floats are the float model's. */
static void the_shared_gate_stays_in_floats(void **state)
{
    (void)state;
    struct toy t = panelled(SHARED + 1);
    struct quantize_opts o = usual(&t);
    struct tft_model *q = opened(quantized(&t, &o)), *f = opened(written(&t));
    for (uint32_t l = 0; l < 2; l++) {
        const struct tft_mat *a = &q->layer[l].experts.shared_gate,
                             *b = &f->layer[l].experts.shared_gate;
        assert_int_equal(a->rows, 1);
        assert_memory_equal(a->data, b->data, t.n_embd * sizeof(float));
    }
    tft_model_close(q);
    tft_model_close(f);
}

/* The matrices of expert e equal the matrices of a model of this expert alone, with any router. */
static void each_expert_has_its_own_rows(void **state)
{
    (void)state;
    struct toy t = panelled(0);
    struct quantize_opts o = usual(&t);
    o.rotate = QUANTIZE_ROTATE_NONE;
    struct tft_model *q = opened(quantized(&t, &o)), *f = opened(written(&t));
    for (uint32_t e = 0; e < 6; e++) {
        const struct tft_experts *x = &q->layer[1].experts, *y = &f->layer[1].experts;
        struct tft_mat got[] = {tft_mat_expert(&x->gate.w, e), tft_mat_expert(&x->down.w, e)},
                       want[] = {tft_mat_expert(&y->gate.w, e), tft_mat_expert(&y->down.w, e)};
        for (int i = 0; i < 2; i++)
            for (uint32_t row = 0; row < got[i].rows; row++) {
                float a[64], b[64];
                tft_mat_row(q, &got[i], row, a);
                tft_mat_row(f, &want[i], row, b);
                for (uint32_t k = 0; k < got[i].cols; k++)
                    assert_true(fabsf(a[k] - b[k]) <= 0.51f * got[i].scale[row]);
            }
    }
    tft_model_close(q);
    tft_model_close(f);
}

static void refuses(const struct toy *t, const struct quantize_opts *o, const char *why)
{
    struct tft_error err;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), o, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void quantize_refuses(void **state)
{
    (void)state;
    struct toy t = panelled(0), odd = t;
    struct quantize_opts o = usual(&t);
    o.smooth = 0.5f;
    refuses(&t, &o, "its norms are inputs of its experts' router");
    o = usual(&t);
    o.rotate = QUANTIZE_ROTATE_ALL;
    refuses(&t, &o, "its norms are inputs of its experts' router");
    odd.n_embd = 40;
    o = usual(&odd);
    refuses(&odd, &o, "experts of 64 and 40 rows, not multiples of 16");
}

static void tuning_refuses(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&expert_toys[3]));
    struct tft_error err;
    assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tuning does not support mixtures of experts"));
    tft_model_close(m);
}

/* ---- files with changes */

struct bytes {
    unsigned char *p;
    size_t n;
};

static struct bytes read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    struct bytes b = {.n = (size_t)ftell(f)};
    rewind(f);
    b.p = malloc(b.n);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    fclose(f);
    return b;
}

/* Where the data of a tensor is in the file. */
static size_t place_of(const char *path, const char *name, size_t *n)
{
    struct tft_model *m = opened(path);
    const struct tft_tensor *t = tft_source_tensor(&m->source, name);
    assert_non_null(t);
    size_t at = (size_t)(t->data - m->source.data);
    *n = (size_t)t->bytes;
    tft_model_close(m);
    return at;
}

/* Sets numbers [from, to) of a tensor of f32. */
static void fill(const char *path, const char *name, size_t from, size_t to, float x)
{
    size_t n, at = place_of(path, name, &n);
    struct bytes b = read_all(path);
    assert_true(to * sizeof x <= n);
    for (size_t i = from; i < to; i++)
        memcpy(b.p + at + i * sizeof x, &x, sizeof x);
    assert_true(write_file(path, b.p, b.n));
    free(b.p);
}

/* A model that does not compute numbers says so, at once and in parts. */
static void computes_no_numbers(const char *path)
{
    struct tft_model *m = opened(path);
    for (uint32_t n = 98; n < 300; n += 97) {
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 3});
        int32_t tokens[300];
        toy_tokens(3, m->n_vocab, tokens, n);
        assert_int_equal(tft_prefill(s, tokens, n), TFT_ERR_NUMBERS);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* Experts that are never chosen are not read: their weights are NaN. */
static void only_chosen_experts_are_read(void **state)
{
    (void)state;
    const struct toy *t = &expert_toys[6];
    const char *path = written(t);
    char name[64];
    for (int l = 1; l < 3; l++) {
        snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", l);
        fill(path, name, 3, 4, -1000);
    }
    uint64_t want = fed(path, 2, TOKENS, 512, "f32");
    static const char *const mats[] = {"gate", "up", "down"};
    for (int l = 1; l < 3; l++)
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", l, mats[i]);
            size_t one = (size_t)t->n_embd * 40;
            fill(path, name, 3 * one, 4 * one, NAN);
        }
    assert_int_equal(fed(path, 2, TOKENS, 512, "f32"), want);
    assert_int_equal(fed(path, 1, 1, 512, "f32"), want);
    for (int l = 1; l < 3; l++) {
        snprintf(name, sizeof name, "blk.%d.exp_probs_b.bias", l);
        fill(path, name, 3, 4, 0);
    }
    computes_no_numbers(path);
}

/* Bytes of a mapped file that this process has in memory; 0 where the system does not say. */
static double resident(const char *path)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[4096];
    double kib, sum = 0;
    bool is_path = false;
    while (f && fgets(line, sizeof line, f)) {
        if (strcspn(line, "-") < strcspn(line, " ")) /* "from-to access ... path" */
            is_path = strstr(line, path);
        else if (is_path && sscanf(line, "Rss: %lf", &kib) == 1)
            sum += kib * 1024;
    }
    if (f)
        fclose(f);
    return sum;
}

/* One token brings in two of 64 experts of a packed file. The system maps some pages around each
   that is asked for, so an eighth of the file is allowed. */
static void pages_of_other_experts_stay_out(void **state)
{
    (void)state;
    static const struct toy_number numbers[] = {{"expert_count", TOY_U32, 64},
                                                {"expert_used_count", TOY_U32, 2},
                                                {"expert_feed_forward_length", TOY_U32, 512},
                                                {0}};
    struct toy t = coded(0, TFT_Q8_0);
    const char *to = in_folder("large.gguf");
    t.n_embd = 256;
    t.n_layer = 1;
    t.numbers = numbers;
    packs(written(&t), to);
    struct tft_model *m = opened(to);
    struct tft_session_opts so = {.size = sizeof so, .capacity = 8};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, m, &so, NULL), TFT_OK);
    double before = resident(to), experts = 3.0 * 64 * 512 * 256;
    assert_int_equal(tft_decode(s, 1), TFT_OK);
    double read = resident(to) - before;
    if (before == 0) /* it was opened, so pages of its description are there */
        print_message("the system does not count pages\n");
    else if (!(read > experts / 64 && read < experts / 8))
        fail_msg("%.0f of %.0f bytes were read, %.0f before", read, experts, before);
    tft_session_close(s);
    tft_model_close(m);
}

static void router_without_numbers(void **state)
{
    (void)state;
    const char *path = written(&expert_toys[0]);
    fill(path, "blk.0.ffn_gate_inp.weight", 40, 120, NAN);
    fill(path, "blk.1.ffn_gate_inp.weight", 0, 240, INFINITY);
    computes_no_numbers(path);
}

/* The bytes that a token reads, by the description and by the file. */
static void description(void **state)
{
    (void)state;
    struct tft_model_info info[2];
    static const struct toy_number numbers[2][4] = {
        {{"expert_count", TOY_U32, 6}, {"expert_used_count", TOY_U32, 2}},
        {{"expert_count", TOY_U32, 6}, {"expert_used_count", TOY_U32, 3}}};
    for (int i = 0; i < 2; i++) {
        struct toy t = expert_toys[0];
        t.numbers = numbers[i];
        struct tft_model *m = opened(written(&t));
        info[i] = (struct tft_model_info){.size = sizeof info[i]};
        tft_model_describe(m, &info[i]);
        tft_model_close(m);
    }
    uint64_t one = 2 * 3 * 40 * 72; /* layers, matrices, numbers of an expert */
    assert_int_equal(info[0].n_params, info[1].n_params);
    assert_int_equal(info[1].weight_bytes - info[0].weight_bytes, one * sizeof(float));
    assert_int_equal(info[1].matmul_macs - info[0].matmul_macs, one);
    assert_int_equal(info[0].n_expert, 6);
    assert_int_equal(info[0].n_expert_used, 2);
}

/* Sets element i of an array of numbers of `size` bytes each. */
static void set_element(const char *path, const char *key, size_t size, size_t i, const void *x)
{
    struct bytes b = read_all(path);
    size_t n = strlen(key), at = 0;
    while (memcmp(b.p + at, key, n) != 0 || b.p[at + n] != 9)
        at++;
    memcpy(b.p + at + n + 4 + 4 + 8 + i * size, x, size); /* after types and the count */
    assert_true(write_file(path, b.p, b.n));
    free(b.p);
}

static void does_not_open(const char *path, const char *why)
{
    struct tft_model *m;
    struct tft_error err;
    assert_true(tft_model_open(&m, path, NULL, &err) != TFT_OK);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void damaged_inputs_of_shared_experts(void **state)
{
    (void)state;
    struct toy t = panelled(SHARED);
    struct quantize_opts o = usual(&t);
    const char *ranges = "tuffet.input.range";
    uint8_t of_a_pass = 3, none = 9;
    set_element(quantized(&t, &o), "tuffet.input.scale", 4, 10, &(float){0});
    does_not_open(in_folder("q.gguf"), "element 10 of tuffet.input.scale is out of range");
    set_element(quantized(&t, &o), ranges, 1, 9, &none);
    does_not_open(in_folder("q.gguf"), "element 9 of tuffet.input.range is out of range");
    set_element(quantized(&t, &o), ranges, 1, 9, &of_a_pass);
    does_not_open(in_folder("q.gguf"), "ranges of all tokens of a pass are not supported");
}

/* Sets the u32 value "ARCH.key". */
static void set(const char *path, const char *key, uint32_t x)
{
    struct bytes b = read_all(path);
    size_t n = strlen(key), at = 0;
    while (memcmp(b.p + at, key, n) != 0 || b.p[at + n] != 4)
        at++;
    memcpy(b.p + at + n + 4, &x, sizeof x);
    assert_true(write_file(path, b.p, b.n));
    free(b.p);
}

static void files_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        int toy;
        const char *key;
        uint32_t x;
        const char *why;
    } bad[] = {
        {0, "qwen3moe.expert_count", 0, "expert_count is not an integer of a possible size"},
        {0, "qwen3moe.expert_count", 5, "ffn_gate_inp.weight is 6 x 40 and should be 5 x 40"},
        {0, "qwen3moe.expert_count", 7, "ffn_gate_inp.weight is 6 x 40 and should be 7 x 40"},
        {0, "qwen3moe.expert_count", 4000000000, "expert_count is not an integer of a possible"},
        {0, "qwen3moe.expert_used_count", 7, "expert_used_count is not an integer of a possible"},
        {0, "qwen3moe.expert_used_count", 0, "expert_used_count is not an integer of a possible"},
        {0, "qwen3moe.expert_feed_forward_length", 25, "6 x 24 x 40 and should be 6 x 25 x 40"},
        {0, "qwen3moe.expert_feed_forward_length", 0, "is not an integer of a possible size"},
        {0, "qwen3moe.expert_feed_forward_length", 2147483648, "is not an integer of a possible"},
        {2, "granitemoe.expert_shared_feed_forward_length", 40, "64 x 40 and should be 40 x 40"},
        {2, "granitemoe.expert_count", 4, "is 5 x 40 and should be 4 x 40"},
        {3, "llama.expert_count", 0, "the tensor blk.0.ffn_gate.weight is missing"},
        {6, "lfm2moe.expert_gating_func", 3, "tuffet knows 1 (softmax) and 2 (sigmoid)"},
        {6, "lfm2moe.leading_dense_block_count", 3, "leading_dense_block_count is not an integer"},
        {6, "lfm2moe.leading_dense_block_count", 2, "the tensor blk.1.ffn_gate.weight is missing"},
        {6, "lfm2moe.leading_dense_block_count", 0, "the tensor blk.0.ffn_gate_inp.weight"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = written(&expert_toys[bad[i].toy]);
        struct tft_model *m;
        struct tft_error err;
        set(path, bad[i].key, bad[i].x);
        assert_true(tft_model_open(&m, path, NULL, &err) != TFT_OK);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("%s = %u: \"%s\" is not \"%s\"", bad[i].key, bad[i].x, err.msg, bad[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),
        cmocka_unit_test(bias_is_for_the_choice_alone),
        cmocka_unit_test(equal_scores_take_the_first),
        cmocka_unit_test(nan_is_the_least),
        cmocka_unit_test(tiny_weights),
        cmocka_unit_test(what_is_no_number_chooses_some_experts),
        cmocka_unit_test(pairs_by_expert),
        cmocka_unit_test(the_same_bits_however_fed),
        cmocka_unit_test(codes),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(moments_of_each_width),
        cmocka_unit_test(w8a8_has_the_same_bits_however_fed),
        cmocka_unit_test(each_expert_has_its_own_rows),
        cmocka_unit_test(ranges_of_shared_experts),
        cmocka_unit_test(the_shared_gate_stays_in_floats),
        cmocka_unit_test(damaged_inputs_of_shared_experts),
        cmocka_unit_test(quantize_refuses),
        cmocka_unit_test(tuning_refuses),
        cmocka_unit_test(only_chosen_experts_are_read),
        cmocka_unit_test(pages_of_other_experts_stay_out),
        cmocka_unit_test(router_without_numbers),
        cmocka_unit_test(description),
        cmocka_unit_test(files_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
