/* The architectures of more_toys.h through the whole chain: caches, codes of GGUF files, W8A8
   files, and the refusals of each; and parts of their formulas that are easy to get wrong. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "caches.h"
#include "model/open.h"
#include "models/registry.h"
#include "half_toys.h"
#include "more_toys.h"
#include "tools/quantize/tune/tune.h"
#include "w8a8.h"

static bool is(const struct toy *t, const char *arch)
{
    return strcmp(t->arch, arch) == 0;
}

static const struct toy *toy_of(const char *arch)
{
    for (int i = 0; i < N_MORE; i++)
        if (is(&more_toys[i], arch))
            return &more_toys[i];
    fail_msg("no toy of %s", arch);
    return NULL;
}

/* RoPE depends on the length of the session. */
static bool by_context(const struct toy *t)
{
    return is(t, "phi3") || is(t, "minicpm");
}

static struct quantize_opts usual_for(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.n_prefix = by_context(t) ? 0 : o.n_prefix;
    return o;
}

/* Gates multiply numbers with each other, and so their errors. */
static bool has_gates(const struct toy *t)
{
    return is(t, "lfm2") || is(t, "qwen35") || is(t, "granitehybrid") ||
           is(t, "falcon-h1") || is(t, "mamba2") || is(t, "nemotron_h") ||
           is(t, "nemotron_h_moe");
}

/* ---- caches */

static void every_cache_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++) {
        const char *path = written(&more_toys[i]);
        for (int c = 0; c < N_CACHES; c++)
            if (!caches[c].file && !strstr(caches[c].kv, "mixed") && in_turn(c, i, 5)) {
                uint64_t want = fed(path, 2, TOKENS, 512, caches[c].kv);
                if (fed(path, 1, 97, 60, caches[c].kv) != want)
                    fail_msg("%s with --kv %s: other logits", more_toys[i].arch, caches[c].kv);
            }
    }
}

/* ---- codes of GGUF files */

static void codes(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++)
        for (int four = 0; four < 2; four++) {
            if (!in_turn(four, i, 2))
                continue;
            struct toy t = more_toys[i];
            t.n_embd = 64;
            if (!is(&t, "qwen35")) { /* its states are as wide as its heads */
                t.n_head = 4;
                t.n_head_kv = t.kv_heads ? t.n_head_kv : 2;
                t.head_dim = 16;
            }
            t.n_rot = t.n_rot == more_toys[i].head_dim ? t.head_dim : t.n_rot;
            t.n_ff = 96;
            t.type = four ? TFT_Q4_0 : TFT_Q8_0;
            const char *path = written(&t);
            double off = from_floats(path);
            if (!(off > 1e-6 && off < (has_gates(&t) ? 0.1 : 0.05)))
                fail_msg("%s: off by %g", t.arch, off);
            uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
            assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
        }
}

/* bitnet's weights: codes of three levels, and a factor beside them or none. */
static void ternary(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_TQ1_0, TFT_TQ2_0};
    for (int i = 0; i < 4; i++) {
        struct toy t = *toy_of("bitnet");
        t.n_embd = 256;
        t.n_head = 16;
        t.head_dim = 16;
        t.n_rot = 16;
        t.n_ff = 512;
        t.type = types[i / 2];
        t.weight_factors = i % 2;
        const char *path = written(&t);
        double off = from_floats(path);
        if (!(off > 1e-6 && off < 0.05))
            fail_msg("type %d: off by %g", (int)t.type, off);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 1, 512, "f16"), want);
    }
}

/* ---- W8A8 */

static void near(const struct toy *t, const struct quantize_opts *o, const char *what)
{
    double d = float_distance(t, quantized(t, o), 40);
    if (!(d > 0 && d < (has_gates(t) ? 0.35 : 0.15)))
        fail_msg("%s, %s: off by %.3f of the logits of floats", t->arch, what, d);
}

static void near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++) {
        const struct toy *t = &more_toys[i];
        struct quantize_opts o = usual_for(t);
        near(t, &o, "as usual");
        o.range = by_token;
        if (in_turn(0, i, 2))
            near(t, &o, "dynamic");
        o.range = fixed;
        o.rotate = QUANTIZE_ROTATE_NONE;
        if (in_turn(1, i, 2))
            near(t, &o, "not rotated");
        o.rotate = QUANTIZE_ROTATE_ALL;
        if (rotatable(t))
            near(t, &o, "all rotated");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.smooth = 0.5f;
        if (toy_has_pre_norm(t))
            near(t, &o, "smoothed"); /* where two halves share a norm, it becomes two */
    }
}

static void refuses(const struct toy *t, const struct quantize_opts *o, const char *why)
{
    struct tft_error err;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), o, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

/* Toys in turn have GPTQ in even layers and AWQ in odd layers; toys with a state have both in all
   layers. */
static void few_bits_near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 8];
    for (int i = 0; i < N_MORE; i++) {
        const struct toy *t = &more_toys[i];
        bool all = i >= N_MORE - N_STATE;
        for (int k = 0; k < LAYER_MATS * 8; k++)
            bits[k] = all || in_turn(k / LAYER_MATS, i, 2) ? 4 : 8;
        for (int awq = 0; awq < 2; awq++) {
            if (!all && !in_turn(awq, i, 2))
                continue;
            struct quantize_opts o = usual_for(t);
            o.bits = bits;
            o.group = 32;
            o.rounding = awq ? QUANTIZE_AWQ : QUANTIZE_GPTQ;
            double d = float_distance(t, quantized(t, &o), 40);
            if (!(d < (has_gates(t) ? 0.9 : 0.6)))
                fail_msg("%s, %s: off by %.3f of the logits of floats", t->arch,
                         awq ? "awq" : "gptq", d);
        }
    }
}

/* Factors of AWQ do not pass bitnet's norms within: with one factor before the matrix of few bits,
   rows equal rounding without factors. */
static void awq_leaves_rows_before_a_norm(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 2];
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            bits[l * LAYER_MATS + i] = i == MAT_O || i == MAT_DOWN ? 4 : 8;
    const struct toy *t = toy_of("bitnet");
    struct quantize_opts o = usual_for(t);
    o.rotate = QUANTIZE_ROTATE_NONE;
    o.bits = bits;
    o.group = 32;
    o.rounding = QUANTIZE_NEAREST;
    struct tft_model *b = opened(quantized(t, &o));
    o.rounding = QUANTIZE_AWQ;
    struct tft_model *a = opened(quantized(t, &o));
    assert_int_equal(a->n_layer, 2);
    for (uint32_t l = 0; l < 2; l++) {
        const struct tft_layer *is = &a->layer[l], *was = &b->layer[l];
        assert_true(is->in[TFT_IN_O].norm && is->in[TFT_IN_DOWN].norm);
        assert_memory_equal(is->v.w.scale, was->v.w.scale, is->v.w.rows * sizeof *is->v.w.scale);
        assert_memory_equal(is->up.w.scale, was->up.w.scale,
                            is->up.w.rows * sizeof *is->up.w.scale);
    }
    tft_model_close(a);
    tft_model_close(b);
}

/* The usual options of a toy of half_toys.h. Without attention there is no prefix. */
static struct quantize_opts usual_half(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.n_prefix = is(t, "mamba2") ? 0 : o.n_prefix;
    return o;
}

static void half_blocks_near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 5];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_HALF; i++) {
        const struct toy *t = &half_toys[i];
        struct quantize_opts o = usual_half(t);
        near(t, &o, "as usual");
        o.range = by_token;
        near(t, &o, "dynamic");
        o.range = fixed;
        if (!toy_has_experts(t)) {
            o.smooth = 0.5f;
            near(t, &o, "smoothed");
            o.smooth = 0;
            o.rotate = QUANTIZE_ROTATE_ALL;
            near(t, &o, "all rotated");
            o.rotate = QUANTIZE_ROTATE_O_DOWN;
        }
        o.bits = bits;
        o.group = 32;
        for (int awq = 0; awq < 2; awq++) {
            o.rounding = awq ? QUANTIZE_AWQ : QUANTIZE_GPTQ;
            double d = float_distance(t, quantized(t, &o), 40);
            if (!(d > 0 && d < 0.9))
                fail_msg("%s, %s: off by %.3f of the logits of floats", t->arch,
                         awq ? "awq" : "gptq", d);
        }
    }
}

static void mamba_with_experts(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&hybrid_toy);
    near(&hybrid_toy, &o, "as usual");
    const char *path = quantized(&hybrid_toy, &o);
    uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
    assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
    assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
}

static void half_blocks_have_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_HALF; i++) {
        struct quantize_opts o = usual_half(&half_toys[i]);
        o.range = in_turn(0, i, 2) ? by_token : fixed;
        const char *path = quantized(&half_toys[i], &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        assert_int_equal(tft_cpu_limit("c"), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
}

static void experts_of_a_width_of_their_own(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_F32, TFT_Q8_0, TFT_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct toy t = latent_toy;
        t.type = types[i];
        t.ffs = half_experts;
        const char *path = written(&t);
        double off = i ? from_floats(path) : 0;
        if (i && !(off > 1e-6 && off < 0.3))
            fail_msg("type %d: off by %g", (int)t.type, off);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
    }
}

/* The experts' input and the shared expert's have ranges of their own; the matrices around the
   experts stay as they are. */
static void w8a8_experts_of_a_width_of_their_own(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 5];
    memset(bits, 4, sizeof bits);
    struct toy t = latent_toy;
    for (int i = 0; i < 2; i++) {
        t.type = i ? TFT_Q8_0 : TFT_F32;
        t.ffs = i ? half_experts : half_widths;
        struct quantize_opts o = usual(&t);
        near(&t, &o, "as usual");
        const char *path = quantized(&t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        assert_int_equal(tft_cpu_limit("c"), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        o.range = by_token;
        near(&t, &o, "dynamic");
        o.range = fixed;
        o.bits = bits;
        o.group = 32;
        for (int awq = 0; awq < 2; awq++) {
            o.rounding = awq ? QUANTIZE_AWQ : QUANTIZE_GPTQ;
            double d = float_distance(&t, quantized(&t, &o), 40);
            if (!(d > 0 && d < 0.9))
                fail_msg("%s: off by %.3f of the logits of floats", awq ? "awq" : "gptq", d);
        }
    }
    struct quantize_opts o = usual(&t);
    struct tft_model *m = opened(quantized(&t, &o));
    bool some = false;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        if (!tft_layer_has_latent_experts(b))
            continue;
        some = true;
        assert_ptr_equal(b->up.in, &b->in[TFT_IN_BESIDE]);
        assert_ptr_equal(b->experts.up.in, &b->in[TFT_IN_FFN]);
        assert_int_equal(b->in[TFT_IN_FFN].width, 32);
        assert_true(b->experts.up.w.format->takes_bytes);
        assert_int_equal(b->experts.latent_up.w.tensor->type, TFT_Q8_0);
    }
    assert_true(some);
    tft_model_close(m);
}

static void rounds_of_layers(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_F32, TFT_Q8_0, TFT_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct toy t = round_toys[i % N_ROUND];
        t.type = types[i];
        const char *path = written(&t);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
    }
    struct tft_model *m = opened(written(&round_toys[0]));
    assert_int_equal(m->n_layer, 6);
    assert_int_equal(m->n_kv_layer, 6);
    assert_ptr_equal(m->layer[5].q.w.data, m->layer[1].q.w.data);
    assert_int_equal(m->layer[5].kv_layer, 5);
    tft_model_close(m);
}

/* A file has the weights once, and ranges of the inputs of each round. */
static void w8a8_rounds(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 6];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_ROUND; i++) {
        const struct toy *t = &round_toys[i];
        struct quantize_opts o = usual(t);
        o.bits = bits;
        o.group = 32;
        for (int gptq = 0; gptq < 2; gptq++) {
            o.rounding = gptq ? QUANTIZE_GPTQ : QUANTIZE_NEAREST;
            double d = float_distance(t, quantized(t, &o), 40);
            if (!(d > 0 && d < 0.6))
                fail_msg("%s: off by %.3f of the logits of floats", gptq ? "gptq" : "nearest", d);
        }
        o = usual(t);
        near(t, &o, "as usual");
        o.rotate = QUANTIZE_ROTATE_NONE;
        near(t, &o, "not rotated");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.range = by_token;
        near(t, &o, "dynamic");
        o.range = fixed;
        const char *path = quantized(t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        assert_int_equal(tft_cpu_limit("c"), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);

        struct tft_model *m = opened(path);
        assert_ptr_equal(m->layer[3].down.w.data, m->layer[1].down.w.data);
        assert_true(m->layer[3].in[TFT_IN_DOWN].affine.scale !=
                    m->layer[1].in[TFT_IN_DOWN].affine.scale);
        tft_model_close(m);
    }
}

static void rounds_refuse(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 6];
    memset(bits, 4, sizeof bits);
    const struct toy *t = &round_toys[0];
    struct quantize_opts o = usual(t);
    o.smooth = 0.5f;
    refuses(t, &o, "cannot smooth nanbeige: its layers run several times");
    o = usual(t);
    o.rotate = QUANTIZE_ROTATE_ALL;
    refuses(t, &o, "its norms are the same in all rounds of its layers");
    o = usual(t);
    o.bits = bits;
    o.group = 32;
    o.rounding = QUANTIZE_AWQ;
    refuses(t, &o, "AWQ does not support nanbeige: its layers run several times");
    struct tft_error err;
    o.rounding = QUANTIZE_GPTQ;
    bits[LAYER_MATS * 5 - 1] = 8;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "layers 0 and 4 have the same weights, but other bits"));
    o = usual(t);
    o.kv = "skvq";
    refuses(t, &o, "the rounds of its layers have the same weights");
}

static void w8a8_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++) {
        struct quantize_opts o = usual_for(&more_toys[i]);
        o.rotate = rotatable(&more_toys[i]) ? QUANTIZE_ROTATE_ALL : o.rotate;
        const char *path = quantized(&more_toys[i], &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            if (!in_turn(isa, i, tft_kernels_isas()))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
}

/* A prefix has the float model's state after it, and a session begins with this state. */
static void prefixes_with_a_state(void **state)
{
    (void)state;
    for (int i = 0; i < N_STATE; i++) {
        struct quantize_opts o = usual(&state_toys[i]);
        struct tft_model *m = opened(quantized(&state_toys[i], &o)),
                         *floats = opened(written(&state_toys[i]));
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f16"}),
                           *f = session(floats, (struct tft_session_opts){.kv = "f16"});
        assert_int_equal(tft_prefill(f, prefix, 3), TFT_OK);
        assert_memory_equal(s->states.now, m->prefix_state, m->state_size * sizeof(float));
        double off = distance_of(m->prefix_state, f->states.now, m->state_size);
        assert_true(off * off < 1e-5); /* the cache is f16 */
        assert_int_equal(tft_prefill(s, text, 20), TFT_OK);
        uint64_t want = hash_logits(0, s);
        assert_int_equal(tft_rewind(s, 0), TFT_OK);
        assert_int_equal(tft_prefill(s, text, 20), TFT_OK);
        assert_int_equal(hash_logits(0, s), want);
        tft_session_close(s);
        tft_session_close(f);
        tft_model_close(m);
        tft_model_close(floats);
    }
}

/* ---- refusals */

static void quantize_refuses(void **state)
{
    (void)state;
    static const char *const post[] = {"olmo2", "exaone4"}, *const contexts[] = {"phi3", "minicpm"};
    for (int i = 0; i < N_STATE; i += 2) {
        struct quantize_opts o = usual(&state_toys[i]);
        o.rotate = QUANTIZE_ROTATE_O;
        refuses(&state_toys[i], &o, "cannot rotate attention's output in");
    }
    struct quantize_opts alone = usual(&half_toys[0]);
    refuses(&half_toys[0], &alone, "no prefix for mamba2, which has no attention");
    alone = usual_half(&half_toys[0]);
    alone.kv = "kivi";
    refuses(&half_toys[0], &alone, "mamba2 has no attention, and so no KV cache to quantize");
    struct quantize_opts reorder = usual(toy_of("qwen35"));
    reorder.kv = "skvq";
    refuses(toy_of("qwen35"), &reorder, "cannot be reordered, since its attention has a gate");
    struct quantize_opts norms = usual(toy_of("bitnet"));
    norms.kv = "skvq";
    refuses(toy_of("bitnet"), &norms, "reordered, since its attention has a norm within");
    norms = usual(toy_of("bitnet"));
    norms.rotate = QUANTIZE_ROTATE_O;
    refuses(toy_of("bitnet"), &norms, "bitnet, whose layers have a norm after attention");
    for (int i = 0; i < 2; i++) {
        struct quantize_opts o = usual(toy_of(post[i]));
        o.rotate = QUANTIZE_ROTATE_ALL;
        refuses(toy_of(post[i]), &o, "its norms are after attention and feed-forward");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.smooth = 0.5f;
        refuses(toy_of(post[i]), &o, "it has no norms before attention and feed-forward");
        o = usual(toy_of(contexts[i]));
        refuses(toy_of(contexts[i]), &o, "its RoPE depends on the length of the session");
    }
}

/* Tuning goes back through the formula. A prefix of keys that are rotated once is impossible where
   RoPE depends on the session. test_tune.c has all other pieces. */
static void tuning_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *why;
    } refused[] = {
        {"minicpm", "tuning does not support RoPE that depends on the length of the session"},
        {"phi3", "tuning does not support RoPE that depends on the length of the session"},
        {"lfm2", "tuning does not support layers with a short convolution"},
        {"qwen35", "tuning does not support layers with a delta net"},
        {"granitehybrid", "tuning does not support layers with Mamba-2"},
        {"falcon-h1", "tuning does not support layers with Mamba-2"},
        {"bitnet", "tuning does not support norms within attention and feed-forward"},
    };
    static const char *const known[] = {
        "ernie4_5", "exaone4",       "falcon",   "gemma", "gemma2",  "gemma3",   "gptneox",
        "granite",  "hunyuan-dense", "mistral3", "olmo2", "smollm3", "stablelm", "starcoder2"};
    struct tft_error err;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct tft_model *m = opened(written(toy_of(refused[i].arch)));
        assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, refused[i].why));
        tft_model_close(m);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct tft_model *m = opened(written(toy_of(known[i])));
        assert_int_equal(tune_check(m, &err), TFT_OK);
        tft_model_close(m);
    }
}

/* ---- parts that are easy to get wrong */

/* Hash of the logits after 100 tokens. */
static uint64_t logits_of(const struct toy *t, uint32_t capacity)
{
    struct tft_model *m = opened(written(t));
    struct tft_session *s =
        session(m, (struct tft_session_opts){.kv = "f16", .capacity = capacity});
    int32_t tokens[100];
    toy_tokens(5, t->n_vocab, tokens, 100);
    assert_int_equal(tft_prefill(s, tokens, 100), TFT_OK);
    uint64_t h = hash_logits(1, s);
    tft_session_close(s);
    tft_model_close(m);
    return h;
}

/* The divisors of RoPE for long sessions are used if the session can have more tokens than the
   model was first trained on, also if it has fewer. */
static void rope_depends_on_the_sessions_length(void **state)
{
    (void)state;
    static const char *const archs[] = {"phi3", "minicpm"};
    for (int i = 0; i < 2; i++) {
        struct toy t = *toy_of(archs[i]), longer = t;
        t.numbers = (const struct toy_number[]){
            {"rope.scaling.original_context_length", TOY_U32, 200}, {0}};
        longer.numbers = (const struct toy_number[]){
            {"rope.scaling.original_context_length", TOY_U32, 20}, {0}};
        uint64_t is_short = logits_of(&t, 200), is_long = logits_of(&t, 201);
        assert_int_equal(logits_of(&t, 100), is_short);
        assert_int_equal(logits_of(&t, 0), is_long);
        assert_int_not_equal(is_short, is_long);
        assert_int_equal(logits_of(&longer, 100), is_long);
    }
}

/* A file without minicpm's factors has the paper's; logits are divided by D / 256. */
static void factors_that_minicpm_files_lack(void **state)
{
    (void)state;
    struct toy t = *toy_of("minicpm"), lacks = t;
    t.numbers = (const struct toy_number[]){{"embedding_scale", TOY_F32, 12},
                                            {"residual_scale", TOY_F32, 1.4 / sqrt(2)},
                                            {"logit_scale", TOY_F32, 48.0 / 256},
                                            {0}};
    lacks.numbers = (const struct toy_number[]){{0}};
    assert_int_equal(t.n_layer, 2);
    assert_int_equal(t.n_embd, 48);
    assert_int_equal(logits_of(&lacks, 0), logits_of(&t, 0));
}

/* granite's factors: 0 is as if the file lacked them. */
static void factors_of_zero_are_not_applied(void **state)
{
    (void)state;
    struct toy zero = *toy_of("granite"), none = zero, llama = zero;
    zero.numbers = (const struct toy_number[]){{"embedding_scale", TOY_F32, 0},
                                               {"residual_scale", TOY_F32, 0},
                                               {"logit_scale", TOY_F32, 0},
                                               {"attention.scale", TOY_F32, 0},
                                               {0}};
    none.numbers = (const struct toy_number[]){{0}};
    llama.arch = "llama";
    assert_int_equal(logits_of(&zero, 0), logits_of(&none, 0));
    assert_int_equal(logits_of(&zero, 0), logits_of(&llama, 0));
    assert_int_not_equal(logits_of(toy_of("granite"), 0), logits_of(&llama, 0));
}

/* A token sees itself and window - 1 tokens before it. With one layer, which has a window of 5, the
   logits depend on the last five tokens, and on no other. */
static void a_window_is_so_many_tokens(void **state)
{
    (void)state;
    struct toy t = *toy_of("gemma2");
    int32_t tokens[300], other[300];
    t.n_layer = 1;
    t.numbers = (const struct toy_number[]){{"attention.sliding_window", TOY_U32, 5}, {0}};
    struct tft_model *m = opened(written(&t));
    toy_tokens(5, t.n_vocab, tokens, 300);
    for (uint32_t n = 4; n < 300; n += 59) {
        float want[40];
        for (uint32_t back = 0; back < 7 && back < n; back++) {
            struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32"});
            memcpy(other, tokens, sizeof other);
            other[n - 1 - back] = (tokens[n - 1 - back] + (back != 0)) % (int32_t)t.n_vocab;
            assert_int_equal(tft_prefill(s, other, n), TFT_OK);
            const float *got = tft_logits(s, 0);
            if (back == 0)
                memcpy(want, got, t.n_vocab * sizeof *want);
            else
                assert_int_equal(memcmp(want, got, t.n_vocab * sizeof *want) != 0, back < 5);
            tft_session_close(s);
        }
    }
    tft_model_close(m);
}

/* Phi-3-mini-4k names a window of 2047 tokens, Phi-3.5 one of more tokens than its context, and
   files of Phi-4 a window of 0. */
static void phi3s_window(void **state)
{
    (void)state;
    static const struct {
        uint32_t size;
        bool applied;
    } windows[] = {{0, false}, {30, true}, {99, true}, {100, false}, {639, false}, {640, false}};
    struct toy t = *toy_of("phi3"), window = t;
    t.numbers =
        (const struct toy_number[]){{"rope.scaling.original_context_length", TOY_U32, 20}, {0}};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        window.numbers =
            (const struct toy_number[]){{"rope.scaling.original_context_length", TOY_U32, 20},
                                        {"attention.sliding_window", TOY_U32, windows[i].size},
                                        {0}};
        assert_int_equal(logits_of(&window, 0) != logits_of(&t, 0), windows[i].applied);
        struct tft_model *m = opened(written(&window));
        assert_int_equal(m->layer[0].window, windows[i].size < t.n_ctx ? windows[i].size : 0);
        tft_model_close(m);
    }
}

/* Any architecture may have the rows of q, k and v in one tensor. */
static void fused_qkv(void **state)
{
    (void)state;
    static const char *const archs[] = {"gemma", "olmo2", "smollm3"};
    for (int i = 0; i < 3; i++) {
        struct toy t = *toy_of(archs[i]);
        t.type = TFT_F32;
        uint64_t want = logits_of(&t, 0);
        t.fused_qkv = true;
        assert_int_equal(logits_of(&t, 0), want);
    }
}

static void refuses_to_open(const struct toy *t, const char *why)
{
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, written(t), NULL, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

/* A file may have the KV heads of each layer. */
static void kv_heads_by_layer(void **state)
{
    (void)state;
    static const uint32_t equal[] = {2, 2}, other[] = {2, 1}, lacks[] = {2, 0}, none[] = {0, 0};
    struct toy t = *toy_of("granite");
    uint64_t want = logits_of(&t, 0);
    t.kv_heads = equal;
    assert_int_equal(logits_of(&t, 0), want);
    t.kv_heads = other;
    refuses_to_open(&t, "layers with 2 and with 1 KV heads in one model are not supported");
    t.kv_heads = lacks;
    refuses_to_open(&t, "layer 1 has no attention, as all of granite have");
    t.kv_heads = none;
    refuses_to_open(&t, "no layer has attention");
}

/* Sessions are sized by the parts of a model before it is opened. */
static void plans_have_the_parts_of_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++) {
        const char *path = written(&more_toys[i]);
        struct tft_model *m = opened(path), plan = {0};
        assert_int_equal(tft_source_open(&plan.source, path, NULL, NULL, NULL), TFT_OK);
        assert_int_equal(tft_open_plan(&plan, tft_archs, TFT_WEIGHTS_STORED, NULL, NULL), TFT_OK);
        if (plan.parts != m->parts)
            fail_msg("%s: pieces %#llx, and %#llx planned", more_toys[i].arch,
                     (unsigned long long)m->parts, (unsigned long long)plan.parts);
        tft_source_close(&plan.source);
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache_has_the_same_bits_however_fed),
        cmocka_unit_test(codes),
        cmocka_unit_test(ternary),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(few_bits_near_the_floats),
        cmocka_unit_test(awq_leaves_rows_before_a_norm),
        cmocka_unit_test(half_blocks_near_the_floats),
        cmocka_unit_test(mamba_with_experts),
        cmocka_unit_test(experts_of_a_width_of_their_own),
        cmocka_unit_test(w8a8_experts_of_a_width_of_their_own),
        cmocka_unit_test(rounds_of_layers),
        cmocka_unit_test(w8a8_rounds),
        cmocka_unit_test(rounds_refuse),
        cmocka_unit_test(half_blocks_have_the_same_bits_however_fed),
        cmocka_unit_test(w8a8_has_the_same_bits_however_fed),
        cmocka_unit_test(prefixes_with_a_state),
        cmocka_unit_test(quantize_refuses),
        cmocka_unit_test(tuning_refuses),
        cmocka_unit_test(rope_depends_on_the_sessions_length),
        cmocka_unit_test(factors_that_minicpm_files_lack),
        cmocka_unit_test(factors_of_zero_are_not_applied),
        cmocka_unit_test(a_window_is_so_many_tokens),
        cmocka_unit_test(phi3s_window),
        cmocka_unit_test(fused_qkv),
        cmocka_unit_test(kv_heads_by_layer),
        cmocka_unit_test(plans_have_the_parts_of_models),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
