/* Layers that differ, as in gemma4: results have the same bits however tokens are fed, in floats
   and in codes; a session's memory and computation; and refusals. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "layer_toys.h"
#include "model/open.h"
#include "models/registry.h"
#include "tools/inspect/activations.h"
#include "tools/pack/pack.h"
#include "simd/half.h"
#include "tools/quantize/check.h"
#include "tools/quantize/named_rows.h"
#include "tools/quantize/search/sequences.h"
#include "tools/quantize/tune/tune.h"
#include "tools/quantize/write/rewrite_model.h"
#include "ranges.h"

/* ---- bits */

/* The contract: the same on every CPU. */
static const uint64_t contracts[N_LAYER_TOYS] = {0x25ffbaaa9e154ea1, 0xb4dd4c53ebb9a2fb,
                                                 0x2ad9cd0931bac0bb};

static void same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYER_TOYS; i++) {
        const char *path = written(&layer_toys[i]);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            uint64_t got = fed(path, 1 + isa % 2 * 2, 257, 512, "f16");
            if (got != contracts[i])
                fail_msg("toy %d on %s: 0x%016llx", i, tft_cpu_name(), (unsigned long long)got);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed(path, 5, 1, 512, "f16"), contracts[i]);
        assert_int_equal(fed(path, 2, TOKENS, 33, "f16"), contracts[i]);
        assert_int_equal(fed(path, 1, TOKENS, 512, "f32"), fed(path, 3, 1, 512, "f32"));
    }
}

/* Some tokens are taken back in place, more of them by computing all again. A session slides. */
static void rewinds_and_slides(void **state)
{
    (void)state;
    enum { N = 1000 };
    int32_t tokens[2 * N];
    toy_tokens(4, layer_toys[0].n_vocab, tokens, 2 * N);
    struct tft_model *m = opened(written(&layer_toys[0]));
    struct tft_session_opts o = {.n_batch = 64, .n_threads = 2};
    struct tft_session *s = session(m, o), *fresh;
    static const uint32_t back[] = {1, 60, 256, 700};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tft_sync(s, tokens, N), TFT_OK);
        assert_int_equal(tft_rewind(s, N - back[i]), TFT_OK);
        assert_int_equal(tft_prefill(s, tokens + 7, 30), TFT_OK);
        fresh = session(m, o);
        assert_int_equal(tft_prefill(fresh, tokens, N - back[i]), TFT_OK);
        assert_int_equal(tft_prefill(fresh, tokens + 7, 30), TFT_OK);
        assert_int_equal(hash_logits(1, s), hash_logits(1, fresh));
        tft_session_close(fresh);
    }
    tft_session_close(s);
    o.capacity = 800;
    o.slide = true;
    s = session(m, o);
    fresh = session(m, o);
    feed(s, tokens, 2 * N, 50);
    assert_int_equal(tft_prefill(fresh, tokens, 2 * N), TFT_OK);
    assert_true(s->kv.dropped > 0);
    assert_int_equal(hash_logits(1, s), hash_logits(1, fresh));
    tft_session_close(s);
    tft_session_close(fresh);
    tft_model_close(m);
}

/* All matrices of codes are packed: their widths are whole blocks, and differ between layers. */
static struct toy packable(const struct toy *t, enum tft_dtype type)
{
    static const uint32_t ffs[] = {64, 64, 64, 128, 128, 96};
    static const struct toy_number small[] = {{"attention.sliding_window", TOY_U32, 30},
                                              {"attention.key_length_swa", TOY_U32, 8},
                                              {"attention.shared_kv_layers", TOY_U32, 3},
                                              {"embedding_length_per_layer_input", TOY_U32, 32},
                                              {0}};
    static const struct toy_number mixed[] = {{"attention.sliding_window", TOY_U32, 30},
                                              {"attention.key_length_swa", TOY_U32, 8},
                                              {"expert_count", TOY_U32, 5},
                                              {"expert_used_count", TOY_U32, 2},
                                              {"expert_feed_forward_length", TOY_U32, 32},
                                              {0}};
    struct toy packed = *t;
    packed.type = type;
    packed.n_embd = 64;
    packed.head_dim = packed.n_rot = 16;
    packed.n_ff = 128;
    if (t->ffs) {
        packed.ffs = ffs;
        packed.numbers = small;
    }
    if (toy_has_experts(t))
        packed.numbers = mixed;
    return packed;
}

static void codes(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYER_TOYS; i++)
        for (int four = 0; four < 2; four++) {
            struct toy t = packable(&layer_toys[i], four ? TFT_Q4_0 : TFT_Q8_0);
            const char *path = written(&t);
            double off = from_floats(path);
            if (!(off > 1e-6 && off < 0.1))
                fail_msg("toy %d: off by %g", i, off);
            uint64_t want = fed(path, 1, TOKENS, 512, "f16");
            assert_int_equal(fed(path, 3, 97, 100, "f16"), want);
            assert_int_equal(fed(path, 4, 1, 512, "f16"), want);
        }
}

/* tuffet pack leaves the bits as they are, and the layers' embeddings in their place. */
static void packed_file(const struct toy *toy)
{
    struct toy t = packable(toy, TFT_Q8_0);
    struct tft_model *m;
    struct tft_error err;
    struct pack_opts o = {.n_threads = 1};
    struct pack_result r;
    const char *path = written(&t), *to = in_folder("packed.gguf");
    uint64_t want = fed(path, 2, TOKENS, 512, "f16");
    assert_int_equal(tft_model_open_unexpanded(&m, path, NULL, &err), TFT_OK);
    assert_int_equal(pack(m, to, &o, &r, &err), TFT_OK);
    tft_model_close(m);
    assert_int_equal(fed(to, 2, TOKENS, 512, "f16"), want);
    m = opened(to);
    if (m->layer_embed.n) {
        assert_ptr_equal(m->layer_embed.embed.format, &tft_format_stored);
        assert_non_null(m->layer_embed.w.w.format->packing);
    } else {
        assert_non_null(m->layer[0].experts.down.w.format->packing);
    }
    tft_model_close(m);
}

static void packed_files(void **state)
{
    (void)state;
    packed_file(&layer_toys[0]);
    packed_file(&layer_toys[2]);
}

/* ---- activations */

struct largest {
    float of[6 * TFT_LAYER_INPUTS + 1]; /* each input */
};

static void see_largest(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                        const float *rows, size_t stride)
{
    struct largest *l = user;
    (void)tid;
    (void)first;
    for (size_t i = 0; in->index != TFT_NO_INDEX && i < n; i++)
        for (uint32_t k = 0; k < in->width; k++)
            l->of[in->index] = fmaxf(l->of[in->index], fabsf(rows[i * stride + k]));
}

/* What tuffet inspect shows are the inputs of a session's matrices, also those before per-layer
   embeddings, and of layers that share keys. Weights of attention are shares of 1. */
static void activations_of_layers(void **state)
{
    (void)state;
    enum { N = 120 };
    int32_t tokens[N];
    for (int i = 0; i < 2; i++) {
        struct tft_model *m = opened_as_floats(written(&layer_toys[i]));
        struct activations a;
        struct activations_opts o = {.text = tokens, .n_text = N, .window = N, .n_threads = 2};
        struct largest seen = {{0}};
        struct tft_error err;
        bool stopped;
        toy_tokens(31, m->n_vocab, tokens, N);
        if (activations_run(&a, m, &o, &stopped, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        struct tft_session *s = session(
            m, (struct tft_session_opts){.kv = "f16", .n_threads = 1, .n_batch = N, .n_logits = N});
        s->work->tap = (struct tft_tap){see_largest, &seen};
        assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
        for (uint32_t k = 0; k < tft_model_inputs(m); k++)
            if (!(a.linear[k].largest == seen.of[k] && seen.of[k] > 0))
                fail_msg("toy %d, input %u: %g and %g", i, k, (double)a.linear[k].largest,
                         (double)seen.of[k]);
        for (uint32_t k = 0; k < m->n_layer * m->n_head; k++)
            assert_true(a.sink[k] >= 0 && a.sink[k] <= 1 && a.cost[k].queries > 0);
        activations_close(&a);
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* ---- a session's memory and computation */

/* Layers that share a cache take no memory for it: three layers of six have keys and values, of two
   sizes. */
static void bytes(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&layer_toys[0]));
    struct tft_model_info info = {.size = sizeof info};
    uint32_t width = 2 * (12 + 20 + 12); /* two KV heads in each */
    tft_model_describe(m, &info);
    assert_int_equal(info.kv_width, 2 * width);
    assert_int_equal(tft_kv_bytes(m, "f32", NULL), 2 * 2 * 20 * sizeof(float)); /* no windows */
    struct tft_session_opts o = {.size = sizeof o, .kv = "f16", .capacity = 1184, .n_batch = 16};
    struct tft_session *s = session(m, o);
    const struct tft_kv_ring *ring = s->kv.ring;
    assert_int_equal(s->kv.n_layer, 3);
    /* a window of 30, 256 tokens that may be taken back, a span and a panel, in whole spans */
    assert_int_equal(ring[0].slots[TFT_KV_K], 768);
    assert_int_equal(ring[1].slots[TFT_KV_V], 1184);
    size_t window = 2 * 12 * 768 * sizeof(uint16_t), all = 2 * 20 * 1184 * sizeof(uint16_t);
    assert_int_equal(ring[1].at[TFT_KV_K], window);
    assert_int_equal(ring[2].at[TFT_KV_V], window + all);
    tft_session_close(s);

    size_t least = tft_session_bytes(m, &o, NULL);
    o.capacity = 1168; /* a panel less: in one layer, and in the cache of each token */
    size_t row = 2 * 20 * 2 * sizeof(uint16_t), less = least - tft_session_bytes(m, &o, NULL);
    assert_in_range(less, 16 * (row + sizeof(int32_t)) - 192, 16 * (row + sizeof(int32_t)) + 192);
    tft_model_close(m);
}

/* A session's size is known without opening the model. */
static void planned_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < N_LAYER_TOYS; i++) {
        const char *path = written(&layer_toys[i]);
        struct tft_model *m = opened(path), plan = {0};
        struct tft_kv_heads heads[200];
        uint32_t windows[200];
        struct tft_session_opts o = {.size = sizeof o, .capacity = 1000, .n_threads = 2};
        assert_int_equal(tft_source_open(&plan.source, path, NULL, NULL, NULL), TFT_OK);
        assert_true(plan.source.n_tensor <= 200);
        const struct tft_plan_room room = {.windows = windows, .heads = heads};
        assert_int_equal(tft_open_plan(&plan, tft_archs, TFT_WEIGHTS_STORED, &room, NULL), TFT_OK);
        assert_int_equal(tft_session_bytes(&plan, &o, NULL), tft_session_bytes(m, &o, NULL));
        tft_source_close(&plan.source);
        tft_model_close(m);
    }
}

struct seen {
    size_t rows[6 * TFT_LAYER_INPUTS + 1]; /* of each input */
};

static void see(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                const float *rows, size_t stride)
{
    struct seen *seen = user;
    (void)tid;
    (void)first;
    (void)rows;
    (void)stride;
    if (in->index != TFT_NO_INDEX)
        seen->rows[in->index] += n;
}

/* Layers that share a cache write nothing to it. All tokens of a prompt go through the other
   layers; only tokens that need logits go through all layers. */
static void prompts_end_with_the_cache(void **state)
{
    (void)state;
    int32_t tokens[50];
    struct seen seen = {{0}};
    struct tft_model *m = opened(written(&layer_toys[0]));
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .n_logits = 2});
    toy_tokens(9, m->n_vocab, tokens, 50);
    s->work->tap = (struct tft_tap){see, &seen};
    assert_int_equal(tft_prefill(s, tokens, 50), TFT_OK);
    for (uint32_t l = 0; l < 6; l++) {
        assert_int_equal(seen.rows[l * TFT_LAYER_INPUTS + TFT_IN_ATTN], l < 3 ? 50 : 2);
        assert_int_equal(seen.rows[l * TFT_LAYER_INPUTS + TFT_IN_DOWN], l < 2 ? 50 : 2);
    }
    tft_session_close(s);
    tft_model_close(m);
}

/* ---- W8A8 */

/* Like 31B, with feed-forward of three widths. */
static struct toy large(void)
{
    static const uint32_t ffs[] = {40, 64, 56};
    struct toy t = layer_toys[1];
    t.ffs = ffs;
    return t;
}

/* Like E2B; its matrices in the types of a file of floats, or in codes of Q8_0. */
static struct toy small(void) { return layer_toys[0]; }

static struct toy small_of_codes(void) { return packable(&layer_toys[0], TFT_Q8_0); }

/* Like 26B-A4B. Experts have whole panels. */
static struct toy mixed(void) { return packable(&layer_toys[2], TFT_F32); }

typedef struct toy make_toy(void);
static make_toy *const converted[] = {large, small, mixed, small_of_codes};
enum { N_CONVERTED = sizeof converted / sizeof *converted, MOST_LAYERS = 6 };

static struct quantize_opts without_prefix(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.prefix = NULL;
    o.n_prefix = 0;
    return o;
}

static void near(const struct toy *t, const struct quantize_opts *o, double most, const char *what)
{
    double d = float_distance(t, quantized(t, o), 200);
    if (!(d > 0 && d < most))
        fail_msg("%s: off by %.3f of the logits of floats", what, d);
}

/* Scores are not divided, so errors of queries and keys weigh much: these keep 8 bits with AWQ,
   which rounds to nearest. */
static void is_near_the_floats(struct toy t, bool awq)
{
    static uint8_t bits[LAYER_MATS * MOST_LAYERS];
    struct quantize_opts o = without_prefix(&t);
    memset(bits, 4, sizeof bits);
    near(&t, &o, 0.15, "as usual");
    o.range = by_token;
    near(&t, &o, 0.15, "dynamic");
    o.range = fixed;
    o.smooth = 0.5f;
    if (!toy_has_experts(&t))
        near(&t, &o, 0.3, "smoothed");
    o.smooth = 0;
    o.rotate = QUANTIZE_ROTATE_NONE;
    near(&t, &o, 0.15, "not rotated");
    o.bits = bits;
    o.group = 32;
    o.rounding = QUANTIZE_GPTQ;
    near(&t, &o, 0.6, "gptq");
    for (int l = 0; l < MOST_LAYERS; l++)
        bits[l * LAYER_MATS + MAT_Q] = bits[l * LAYER_MATS + MAT_K] = 8;
    o.rounding = QUANTIZE_AWQ;
    if (awq)
        near(&t, &o, 0.6, "awq");
}

static void w8a8_is_near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_CONVERTED; i++) /* the last one is the second one in codes */
        is_near_the_floats(converted[i](), i < N_CONVERTED - 1 || thorough());
}

/* As the C reference, fed token by token. */
static void has_the_same_bits(int of)
{
    static uint8_t bits[LAYER_MATS * MOST_LAYERS];
    struct toy t = converted[of]();
    for (int i = 0; i < LAYER_MATS * MOST_LAYERS; i++)
        bits[i] = (uint8_t)(2 + i % 3);
    for (int kind = 0; kind < 3; kind++) {
        struct quantize_opts o = without_prefix(&t);
        o.range = kind == 1 ? by_token : fixed;
        o.bits = kind == 2 ? bits : NULL;
        o.group = 32;
        const char *path = quantized(&t, &o);
        assert_int_equal(tft_cpu_limit("c"), TFT_OK);
        uint64_t want = fed(path, 1, 1, 512, "f16");
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            if (!in_turn(isa, 3 * of + kind, tft_kernels_isas()))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            uint64_t got = fed(path, 1 + isa % 2 * 2, 257, 512, "f16");
            if (got != want)
                fail_msg("toy %d, kind %d on %s: 0x%016llx", of, kind, tft_cpu_name(),
                         (unsigned long long)got);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed(path, 5, 1, 512, "f16"), want);
        assert_int_equal(fed(path, 2, TOKENS, 33, "f16"), want);
    }
}

static void w8a8_has_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_CONVERTED; i++)
        has_the_same_bits(i);
}

/* Inputs of each layer's own width, also in layers that use the keys of others. */
static void has_ranges(struct toy t, enum quantize_rotate rotate)
{
    struct quantize_opts o = without_prefix(&t);
    o.rotate = rotate;
    struct tft_model *q = opened(quantized(&t, &o)), *f = opened(written(&t));
    uint32_t block = q->layer[0].down.in->hadamard;
    struct input_ranges seen = {.n_layer = t.n_layer, .block = block ? block : 1};
    assert_true(block == (rotate ? 4 : 0));
    see_text(f, 0, &seen);
    for (uint32_t l = 0; l < t.n_layer; l++)
        for (uint32_t which = 0; which < TFT_INPUT_KINDS && tft_model_has_input(q, which);
             which++) {
            bool pairs = toy_has_experts(&t) && which == TFT_IN_DOWN; /* two experts a token */
            assert_int_equal(seen.rows[tft_input_index(q, l, which)], (pairs ? 2 : 1) * TEXT);
            assert_int_equal(q->layer[l].in[which].width, f->layer[l].in[which].width);
            has_range(q, &seen, l, which);
        }
    assert_non_null(q->key_importance);
    tft_model_close(q);
    tft_model_close(f);
}

static void w8a8_ranges(void **state)
{
    (void)state;
    for (int rotated = 0; rotated < 2; rotated++)
        for (int i = 0; i < 3; i++)
            has_ranges(converted[i](), rotated ? QUANTIZE_ROTATE_O_DOWN : QUANTIZE_ROTATE_NONE);
}

/* Values may turn before their norm, which has no gain; also those that other layers read. */
static void values_turn(void **state)
{
    (void)state;
    struct toy t = small();
    struct quantize_opts o = without_prefix(&t);
    o.rotate = QUANTIZE_ROTATE_O;
    near(&t, &o, 0.15, "attention's output is rotated");
    struct tft_model *q = opened(in_folder("q.gguf"));
    assert_int_equal(q->layer[0].down.in->hadamard, 0);
    const struct tft_value *block = tft_source_value(&q->source, TFT_KEY_ROTATE_VALUES);
    uint64_t n = 0;
    assert_true(block && tft_value_uint(block, 0, &n));
    assert_int_equal(n, 4); /* it divides heads of 12 and of 20 */
    tft_model_close(q);
}

/* A file's values for layers that differ: widths of their own, values that are keys, layers without
   keys, and per-layer embeddings in the types that they had. */
static void w8a8_tensors(void **state)
{
    (void)state;
    struct toy t = large();
    struct quantize_opts o = without_prefix(&t);
    struct tft_model *q = opened(quantized(&t, &o));
    assert_int_equal(q->layer[0].o.w.cols, 4 * 8);
    assert_int_equal(q->layer[1].o.w.cols, 4 * 24);
    assert_true(!q->layer[1].v.w.rows && q->layer[1].kv.dim == 24);
    tft_model_close(q);
    t = mixed();
    o = without_prefix(&t);
    q = opened(quantized(&t, &o));
    const struct tft_layer *b = &q->layer[0];
    assert_ptr_equal(b->up.in, &b->in[TFT_IN_BESIDE]);
    assert_ptr_equal(b->gate.in, &b->in[TFT_IN_BESIDE]);
    assert_ptr_equal(b->down.in, &b->in[TFT_IN_SHARED]);
    assert_ptr_equal(b->experts.up.in, &b->in[TFT_IN_FFN]);
    assert_ptr_equal(b->experts.down.in, &b->in[TFT_IN_DOWN]);
    assert_true(b->down.w.format->takes_bytes && b->experts.down.w.format->takes_bytes);
    assert_true(b->experts.router_norm.w && !b->experts.factor);
    tft_model_close(q);
    for (int of_codes = 0; of_codes < 2; of_codes++) {
        t = of_codes ? small_of_codes() : small();
        o = without_prefix(&t);
        q = opened(quantized(&t, &o));
        assert_int_equal(q->n_shared, 3);
        assert_true(!q->layer[4].k.w.rows && q->layer[4].kv_layer == 1);
        assert_true(q->layer[4].q.w.format->takes_bytes);
        const struct tft_mat *all[] = {&q->layer_embed.w.w, &q->layer[0].embed_gate.w,
                                       &q->layer[5].embed_out.w};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(all[i]->tensor->type, t.type);
            assert_true((all[i]->format->packing != NULL) == of_codes);
        }
        assert_int_equal(q->layer_embed.embed.tensor->type, t.type);
        tft_model_close(q);
    }
}

/* The check runs the model of floats layer by layer, a session all layers: the same predictions. */
static void losses_of_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_CONVERTED; i++) {
        struct toy t = converted[i]();
        struct quantize_opts o = without_prefix(&t);
        struct check_text held[CHECK_GROUPS] = {
            [CHECK_TEXT] = {.ids = o.text, .n_windows = TEXT / WINDOW, .window = WINDOW}};
        struct check_how how = {.n_threads = 2};
        struct check_loss loss[CHECK_GROUPS];
        struct check c;
        const char *path = written(&t);
        struct tft_model *m;
        struct tft_error err;
        bool stopped;
        assert_int_equal(tft_model_open_unexpanded(&m, path, NULL, &err), TFT_OK);
        assert_int_equal(check_open(&c, m, held, &how, &stopped, &err), TFT_OK);
        assert_int_equal(check_file(&c, path, &how, loss, &stopped, &err), TFT_OK);
        const struct check_loss *l = &loss[CHECK_TEXT];
        bool codes = t.type == TFT_Q8_0; /* sessions round the factors of codes */
        assert_int_equal(loss[CHECK_CONVERSATION].tokens, 0);
        assert_int_equal(l->tokens, TEXT / WINDOW * (WINDOW - 1));
        if (!(fabs(l->floats - l->file) < (codes ? 0.02 : 1e-5) * l->file))
            fail_msg("toy %d: %.7f and %.7f", i, l->floats, l->file);
        if (!(fabs(l->divergence) < (codes ? 0.02 : 1e-6) && l->same > (codes ? 0.8 : 0.98)))
            fail_msg("toy %d: divergence %.7f, the same token %.3f", i, l->divergence, l->same);
        check_close(&c);
        tft_model_close(m);
    }
}

static void no_file(const struct quantize_opts *o, const char *why)
{
    struct toy t = large();
    struct tft_error err;
    assert_int_equal(convert(written(&t), in_folder("no.gguf"), o, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void w8a8_refuses(void **state)
{
    (void)state;
    struct toy t = large();
    struct quantize_opts o = without_prefix(&t);
    o.rotate = QUANTIZE_ROTATE_O;
    no_file(&o, "cannot rotate attention's output in gemma4, whose layers have keys for values");
    o.rotate = QUANTIZE_ROTATE_ALL;
    no_file(&o, "its norms are after attention and feed-forward");
    o = without_prefix(&t);
    o.kv = "skvq:group=16";
    no_file(&o, "the channels of its values cannot be reordered, since its attention has a norm");
}

/* A Hadamard block must divide the hidden activations of every layer, not of the widest alone. */
static void a_block_that_does_not_fit(void **state)
{
    (void)state;
    static const char key[] = "tuffet.hadamard";
    struct toy t = large();
    struct quantize_opts o = without_prefix(&t);
    const char *path = quantized(&t, &o);
    struct tft_model *m;
    struct tft_error err;
    char bytes[1 << 14];
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f), at = 0, len = sizeof key - 1;
    while (at + len < n && memcmp(bytes + at, key, len) != 0)
        at++;
    assert_true(at + len < n && bytes[at + len + 4] == 4); /* after the type of the value */
    assert_int_equal(fseek(f, (long)(at + len + 4), SEEK_SET), 0);
    assert_int_equal(fputc(16, f), 16);
    fclose(f);
    assert_int_equal(tft_model_open(&m, path, NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "is not a power of two up to 256 that divides 40"));
}

/* ---- a prefix */

/* to: [G, E] = the key, or the value, of a position in a cache of f16. */
static void read_slot(const struct tft_session *s, uint32_t l, uint32_t pos,
                      enum tft_kv_which which, float *to)
{
    struct tft_kv_heads heads = tft_model_kv_heads(s->m, l);
    uint32_t column = pos % TFT_KEY_PANEL;
    for (uint32_t h = 0; h < heads.n; h++) {
        const uint16_t *k = tft_kv_keys(&s->kv, l, h, pos - column),
                       *v = tft_kv_values(&s->kv, l, h, pos);
        for (uint32_t d = 0; d < heads.dim; d++)
            *to++ = tft_f16_to_f32(which == TFT_KV_K ? k[d * TFT_KEY_PANEL + column] : v[d]);
    }
}

/* rows: of n positions from `first` on, as a file has them. */
static void near_rows(const struct tft_session *s, uint32_t first, uint32_t n,
                      enum tft_kv_which which, const uint16_t *rows)
{
    float want[4 * 64];
    for (uint32_t l = 0; l < s->m->n_kv_layer; l++)
        for (uint32_t i = 0; i < n; i++) {
            size_t width = tft_model_kv_width(s->m, l);
            assert_true(width <= sizeof want / sizeof *want);
            read_slot(s, l, first + i, which, want);
            for (size_t d = 0; d < width; d++, rows++)
                if (!(fabsf(tft_f16_to_f32(*rows) - want[d]) < 0.01f))
                    fail_msg("layer %u, position %u: %g is not %g", l, first + i,
                             (double)tft_f16_to_f32(*rows), (double)want[d]);
        }
}

/* The rows of a file are those that the model of floats computes, layer by layer; layers that share
   them have none. After them the file's logits are near the floats'. */
static void prefixes(void **state)
{
    (void)state;
    for (int i = 0; i < N_CONVERTED; i++) {
        struct toy t = converted[i]();
        t.seed = i ? t.seed : 3; /* seed 0 has scores that differ little: 0.25 after a prefix */
        struct quantize_opts o = usual(&t);
        o.rotate = QUANTIZE_ROTATE_NONE;
        const char *path = quantized(&t, &o);
        struct tft_model *q = opened(path), *m = opened_as_floats(in_folder("m.gguf"));
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
        assert_int_equal(tft_prefill(s, prefix, 3), TFT_OK);
        assert_int_equal(q->n_prefix, 3);
        near_rows(s, 0, 3, TFT_KV_K, q->prefix_k);
        near_rows(s, 0, 3, TFT_KV_V, q->prefix_v);
        tft_session_close(s);
        tft_model_close(q);
        tft_model_close(m);
        near(&t, &o, 0.15, "after a prefix");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        near(&t, &o, 0.2, "after a prefix, rotated");
    }
}

static void bits_after_a_prefix(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:window=32", "i8",
                                         "kivi:kr=fill:40,vr=window:20"};
    for (int i = 0; i < 3; i++) {
        struct toy t = converted[i]();
        struct quantize_opts o = usual(&t);
        const char *path = quantized(&t, &o);
        for (int c = 0; c < 4; c++) {
            uint64_t want = fed(path, 1, TOKENS, 512, caches[c]);
            assert_int_equal(fed(path, 3, 97, 100, caches[c]), want);
            assert_int_equal(fed(path, 2, 1, 512, caches[c]), want);
        }
    }
}

/* Rows of 32 and of 64 numbers. */
static struct toy whole_blocks(void)
{
    static const struct toy_number numbers[] = {{"attention.sliding_window", TOY_U32, 30},
                                                {"attention.key_length_swa", TOY_U32, 32},
                                                {"attention.shared_kv_layers", TOY_U32, 3},
                                                {"embedding_length_per_layer_input", TOY_U32, 20},
                                                {0}};
    struct toy t = layer_toys[0];
    t.head_dim = t.n_rot = 16;
    t.numbers = numbers;
    return t;
}

/* The largest difference of n numbers of two prefixes, over the largest number. */
static double rows_off(const uint16_t *rows, const uint16_t *of, size_t n)
{
    double most = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        double is = tft_f16_to_f32(rows[i]), was = tft_f16_to_f32(of[i]);
        most = fmax(most, fabs(was));
        off = fmax(off, fabs(is - was));
    }
    return off / most;
}

static void prefixes_in_few_bits(void **state)
{
    (void)state;
    enum { NUMBERS = 3 * (64 + 32 + 64) };
    static const enum tft_dtype types[] = {TFT_F16, TFT_Q8_0, TFT_Q4_1};
    static const double most[] = {0, 0.5 / 127 + 0.001, 1.0 / 15 + 0.001}; /* half a step */
    struct toy t = whole_blocks();
    struct quantize_opts o = usual(&t);
    struct tft_error err;
    struct tft_model *f16 = opened(quantized(&t, &o));
    for (int i = 0; i < 3; i++) {
        o.prefix_type = types[i];
        struct tft_model *m = opened(quantized(&t, &o));
        const struct tft_tensor *k = tft_source_tensor(&m->source, TFT_KEY_PREFIX_K);
        assert_int_equal(k->type, types[i]);
        assert_int_equal(k->ne[0], NUMBERS);
        double off = fmax(rows_off(m->prefix_k, f16->prefix_k, NUMBERS),
                          rows_off(m->prefix_v, f16->prefix_v, NUMBERS));
        if (!(off <= most[i]) || (i && off == 0))
            fail_msg("a prefix of %s: off by %g", tft_dtype_name(types[i]), off);
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
        feed(s, text, 40, 40);
        tft_session_close(s);
        tft_model_close(m);
    }
    tft_model_close(f16);
    t = small();
    o = usual(&t);
    o.prefix_type = TFT_Q8_0;
    assert_int_equal(convert(written(&t), in_folder("no.gguf"), &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "not a multiple of 32"));
}

/* Two texts, the first one longer than a pass: rows that layers share are of the right text. */
static void named_prefixes(void **state)
{
    (void)state;
    enum { LONG = 530, SHORT = 20, REST = 40 };
    static int32_t ids[3 + LONG + SHORT + REST];
    for (int i = 0; i < 3; i++) {
        struct toy t = converted[i]();
        struct quantize_opts o = usual(&t);
        struct quantize_values values;
        struct tft_error err;
        struct tft_model *m;
        bool stopped;
        t.seed = i ? t.seed : 3; /* as in prefixes() */
        o.rotate = i == 1 ? QUANTIZE_ROTATE_NONE : o.rotate; /* the others' values do not turn */
        toy_tokens(29, t.n_vocab, ids, 3 + LONG + SHORT + REST);
        struct named_prefix p[2] = {{.name = "long", .tokens = ids + 3, .n = LONG},
                                    {.name = "s", .tokens = ids + 3 + LONG, .n = SHORT}};
        assert_int_equal(tft_model_open_unexpanded(&m, written(&t), NULL, &err), TFT_OK);
        assert_true(quantize_values_open(&values, m));
        tft_model_close(m);
        o.values = &values;
        struct tft_model *made = opened(quantized(&t, &o));
        assert_int_equal(tft_model_open_unexpanded(&m, in_folder("m.gguf"), NULL, &err), TFT_OK);
        if (named_rows(m, made, &o, p, 2, &stopped, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        struct rewrite change = {.named = p, .n_named = 2};
        assert_int_equal(rewrite_model(made, in_folder("named.gguf"), &change, &err), TFT_OK);
        struct tft_model *with = opened(in_folder("named.gguf"));
        for (int j = 0; j < 2; j++) {
            struct tft_session_opts so = {.n_threads = 2, .kv = "f16"};
            struct tft_session *floats = session(m, so), *q;
            so.prefix = p[j].name;
            q = session(with, so);
            feed(floats, prefix, 3, 3);
            feed(floats, p[j].tokens, p[j].n, 200);
            if (j) { /* rings have lost the first tokens of a long text */
                near_rows(floats, 3, p[j].n, TFT_KV_K, p[j].k);
                near_rows(floats, 3, p[j].n, TFT_KV_V, p[j].v);
            }
            assert_int_equal(tft_prefill(q, NULL, 0), TFT_OK);
            double at_once = distance(q, floats);
            feed(floats, ids + 3 + LONG + SHORT, REST, 7);
            feed(q, ids + 3 + LONG + SHORT, REST, REST);
            double later = distance(q, floats);
            if (!(at_once < 0.02 && later < (toy_has_experts(&t) ? 0.3 : 0.15)))
                fail_msg("toy %d, %s: off by %g and %g", i, p[j].name, at_once, later);
            tft_session_close(floats);
            tft_session_close(q);
        }
        named_rows_free(p, 2);
        quantize_values_close(&values);
        tft_model_close(with);
        tft_model_close(made);
        tft_model_close(m);
    }
}

/* ---- many short texts */

/* Runs n texts after the prefix, as many at a time as `batch` tokens have room for. x: [n, D] gets
   the residual stream of their last tokens, after all layers. */
static void run_texts(const char *path, const int32_t *tokens, uint32_t n, uint32_t len,
                      uint32_t batch, float *x)
{
    struct layers_capacity capacity = {.batch = batch, .rows = n * len};
    struct sequences q;
    struct tft_error err;
    struct tft_model *m;
    assert_int_equal(tft_model_open_unexpanded(&m, path, NULL, &err), TFT_OK);
    assert_int_equal(sequences_open(&q, m, 3, 2, &capacity, &err), TFT_OK);
    q.n = n;
    q.len = len;
    memcpy(q.tokens, tokens, n * len * sizeof *tokens);
    sequences_run(&q, prefix, 3, (struct sequences_depth){.layers = m->n_layer});
    assert_int_equal(sequences_status(&q, &err), TFT_OK);
    for (uint32_t i = 0; i < n; i++)
        memcpy(x + i * m->n_embd, q.y.text + ((size_t)i * len + len - 1) * q.y.stride,
               m->n_embd * sizeof *x);
    sequences_close(&q);
    tft_model_close(m);
}

/* A layer that shares keys finds those of its own text, also where a cache serves one text after
   the other; and the per-layer embeddings of its own tokens. A session has the same stream. */
static void texts_after_a_prefix(void **state)
{
    (void)state;
    enum { N = 5, LEN = 40, MOST = N * 64 };
    static float x[2][MOST];
    int32_t tokens[N * LEN];
    for (int i = 0; i < 3; i++) {
        struct toy t = converted[i]();
        const char *path = written(&t);
        toy_tokens(37, t.n_vocab, tokens, N * LEN);
        run_texts(path, tokens, N, LEN, 2 * LEN, x[0]);
        run_texts(path, tokens, N, LEN, N * LEN, x[1]);
        assert_memory_equal(x[0], x[1], N * t.n_embd * sizeof(float));
        struct tft_model *m = opened(path);
        for (int k = 0; k < N; k++) {
            struct tft_session *s =
                session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
            feed(s, prefix, 3, 3);
            feed(s, tokens + k * LEN, LEN - 1, LEN);
            assert_int_equal(tft_decode(s, tokens[k * LEN + LEN - 1]), TFT_OK);
            double d = distance_of(x[0] + (size_t)k * t.n_embd, s->work->buf[TFT_X], t.n_embd);
            if (!(d < 1e-3))
                fail_msg("toy %d, text %d: off by %g", i, k, d);
            tft_session_close(s);
        }
        tft_model_close(m);
    }
}

/* ---- calibrated caches */

/* The file has what its cache needs, for layers of several sizes, and the cache is near f16. */
static void calibrated_caches(void **state)
{
    (void)state;
    static const char *const caches[] = {"kivi:bits=8,group=16,window=20",
                                         "tuffet:k=4@mixed,v=8,group=16,window=20",
                                         "skvq:bits=8,reorder=none,group=16,window=20"};
    static const double most[] = {0.1, 0.7, 0.4}; /* 4 bits, and scales of 8 bits, are coarse */
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++) {
            struct toy t = converted[i]();
            struct quantize_opts o = usual(&t);
            o.kv = caches[c];
            struct tft_model *m = opened(quantized(&t, &o));
            struct tft_session *own = session(m, (struct tft_session_opts){.n_threads = 2}),
                               *f16 = session(m, (struct tft_session_opts){.kv = "f16"});
            feed(own, text, 200, 60);
            feed(f16, text, 200, 200);
            assert_true(own->kv.at[TFT_KV_K].blocks > 0);
            assert_true(m->key_importance && !m->kv_clip[0] == (c < 2));
            double d = distance(own, f16);
            if (!(d > 0 && d < most[c]))
                fail_msg("toy %d, %s: off by %g", i, caches[c], d);
            tft_session_close(own);
            tft_session_close(f16);
            tft_model_close(m);
        }
}

/* ---- refusals */

static void refuses_to_open(const struct toy *t, enum tft_status status, const char *why)
{
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, written(t), NULL, &err), status);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void hostile_layers(void **state)
{
    (void)state;
    static const uint32_t other[] = {2, 2, 2, 1, 2, 2}, three[] = {4, 2, 3, 2, 2, 2},
                          none[] = {2, 2, 2, 2, 0, 2};
    static const bool later[] = {true, true, true, true, false, true};
    struct toy t = layer_toys[0];
    t.kv_heads = other;
    refuses_to_open(&t, TFT_ERR_FORMAT,
                    "layer 3 uses keys and values of layer 2, which has other KV heads");
    t.kv_heads = three;
    refuses_to_open(&t, TFT_ERR_UNSUPPORTED, "layer 2 has 3 KV heads for 4 heads");
    t.kv_heads = none;
    refuses_to_open(&t, TFT_ERR_UNSUPPORTED, "layer 4 has 0 KV heads for 4 heads");
    t = layer_toys[0];
    t.windows = later; /* layer 4 has no window, and no layer before it has none */
    refuses_to_open(&t, TFT_ERR_FORMAT,
                    "layer 4 uses keys and values of an earlier layer, but no earlier layer "
                    "without a window has its own");
}

static void tools_refuse(void **state)
{
    (void)state;
    static const int32_t tokens[200] = {0};
    struct activations a;
    struct activations_opts ao = {.text = tokens, .n_text = 200, .window = 100, .n_threads = 1};
    struct tft_error err;
    bool stopped;
    for (int i = 0; i < N_LAYER_TOYS; i++) {
        struct tft_model *m = opened(written(&layer_toys[i]));
        bool experts = toy_has_experts(&layer_toys[i]);
        assert_int_equal(tune_check(m, &err), experts ? TFT_ERR_UNSUPPORTED : TFT_OK);
        if (experts) {
            assert_non_null(strstr(err.msg, "tuning does not support mixtures of experts"));
            assert_int_equal(activations_run(&a, m, &ao, &stopped, &err), TFT_ERR_UNSUPPORTED);
            assert_non_null(strstr(err.msg, "of a mixture of experts cannot be shown"));
        }
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(rewinds_and_slides),
        cmocka_unit_test(codes),
        cmocka_unit_test(packed_files),
        cmocka_unit_test(bytes),
        cmocka_unit_test(planned_bytes),
        cmocka_unit_test(activations_of_layers),
        cmocka_unit_test(prompts_end_with_the_cache),
        cmocka_unit_test(w8a8_is_near_the_floats),
        cmocka_unit_test(w8a8_has_the_same_bits),
        cmocka_unit_test(w8a8_ranges),
        cmocka_unit_test(values_turn),
        cmocka_unit_test(w8a8_tensors),
        cmocka_unit_test(losses_of_floats),
        cmocka_unit_test(w8a8_refuses),
        cmocka_unit_test(a_block_that_does_not_fit),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(bits_after_a_prefix),
        cmocka_unit_test(prefixes_in_few_bits),
        cmocka_unit_test(named_prefixes),
        cmocka_unit_test(texts_after_a_prefix),
        cmocka_unit_test(calibrated_caches),
        cmocka_unit_test(hostile_layers),
        cmocka_unit_test(tools_refuse),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
