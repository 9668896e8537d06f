/* Quantized caches where layers differ, as in gemma4: windows, sizes and numbers of heads by layer,
   and layers that read the cache of an earlier layer. The bits do not depend on how tokens are fed,
   rewound, dropped, saved or batched, and codes of many bits are near floats. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "fed.h"
#include "fisher_records.h"
#include "layer_toys.h"

enum { N = 500, N_TOYS = N_LAYER_TOYS + 1, MOST_LAYERS = 3, MOST_WIDTH = 1024, GROUP = 16 };

/* The heads of Gemma 4: 512 channels in layers without a window, 256 in the others. The last two
   layers share. */
static const bool wide_windows[] = {true, false, true, false};
static const struct toy_number wide_numbers[] = {
    {"attention.sliding_window", TOY_U32, 30},    {"attention.key_length_swa", TOY_U32, 256},
    {"attention.value_length_swa", TOY_U32, 256}, {"rope.dimension_count_swa", TOY_U32, 256},
    {"attention.shared_kv_layers", TOY_U32, 2},   {0}};
static const struct toy wide = {.arch = "gemma4",
                                .n_vocab = 37,
                                .n_ctx = 1200,
                                .n_embd = 32,
                                .n_layer = 4,
                                .n_head = 2,
                                .n_head_kv = 1,
                                .head_dim = 512,
                                .n_ff = 48,
                                .n_rot = 512,
                                .type = TFT_F32,
                                .tied = true,
                                .windows = wide_windows,
                                .numbers = wide_numbers};

static const struct toy *toy_of(int i) { return i < N_LAYER_TOYS ? &layer_toys[i] : &wide; }

static const char *const caches[] = {
    "kivi",
    "tuffet:k=2.25@mixed,group=32",
    "logquant:window=21,group=32",
    "asymkv:lk=1,window=32",
    "skvq:group=16",
    "k=16,v=8@channel,retain=log2:2,scales=f8",
    "kivi:window=24,prefill=300",
    "kivi:kr=fill:40,vr=window:20",
    "k=8@token,v=3,kr=log2:11,vr=fill:24,group=16,sinks=3",
    "k=8@channel,v=8@token,retain=window:0,clip=centre",
    "i8",
    "kivi:window=30,slots=i8",
    "fisher:window=20",
    "fisher:bits=3,window=33,sinks=0,keep=0,slots=f16",
};
enum { N_CACHES = sizeof caches / sizeof *caches };

static float importance[MOST_LAYERS * MOST_WIDTH], clip[2][MOST_LAYERS * MOST_WIDTH / GROUP];
static int32_t key_order[MOST_LAYERS * MOST_WIDTH], text[2 * N];

/* Puts the order of a head's channels of `dim`: backwards, from head to head with another start. */
static void put_order(int32_t *order, uint32_t dim, uint32_t head)
{
    for (uint32_t d = 0; d < dim; d++)
        order[d] = (int32_t)((2 * dim - 1 - d - head) % dim);
}

static struct tft_session_opts with(const char *kv, int threads)
{
    return (struct tft_session_opts){.kv = kv, .n_batch = 200, .n_threads = threads};
}

static float tables[TFT_KV_SIDES][MOST_LAYERS * MOST_WIDTH * TFT_FISHER_ROWS];

/* The mean square of a channel of n keys, or values, of an f32 session. */
static float mean_square(const struct tft_kv *kv, enum tft_kv_which which, uint32_t l, uint32_t h,
                         uint32_t d, uint32_t n)
{
    float sum = 0;
    for (uint32_t t = 0; t < n; t++) {
        const float *v = tft_kv_values(kv, l, h, t), *k = tft_kv_keys(kv, l, h, t / 16 * 16);
        float x = which == TFT_KV_V ? v[d] : k[d * 16 + t % 16];
        sum += x * x;
    }
    return sum / (float)n;
}

/* Tables of the cache fisher, of layers without a window. Costs differ by channel and head. */
static void put_tables(struct tft_model *m)
{
    /* of a Gaussian, by bits: Max 1960, table II */
    static const float error[] = {1, 0.3634f, 0.1188f, 0.03744f, 0.01154f},
                       gauss[] = {0, 1.596f, 0.9957f, 0.5860f, 0.3352f};
    struct tft_kv_heads own = tft_model_coded_heads(m);
    struct tft_session *s = session(m, with("f32", 1));
    assert_int_equal(tft_prefill(s, text, 200), TFT_OK);
    assert_true((size_t)m->n_kv_layer * own.n * own.dim <= MOST_LAYERS * MOST_WIDTH);
    for (uint32_t i = 0; i < m->n_kv_layer * own.n * TFT_KV_SIDES; i++) {
        enum tft_kv_which which = i % 2 ? TFT_KV_V : TFT_KV_K;
        uint32_t l = i / 2 / own.n, h = i / 2 % own.n;
        float *table = tables[which] + (size_t)i / 2 * TFT_FISHER_ROWS * own.dim;
        for (uint32_t d = 0; !m->kv_window[l] && d < own.dim; d++) {
            float var = mean_square(&s->kv, which, l, h, d, 200);
            table[TFT_FISHER_GAIN * own.dim + d] = 1 / (var * (float)own.dim);
            for (int bits = 0; bits <= TFT_FISHER_BITS; bits++)
                table[(TFT_FISHER_LOSS + bits) * own.dim + d] =
                    error[bits] * var * (float)((1 + d * 7 % 11) * (1 + i));
            for (int bits = 1; bits <= TFT_FISHER_BITS; bits++)
                table[(TFT_FISHER_STEP + bits - 1) * own.dim + d] = sqrtf(var) * gauss[bits];
        }
    }
    for (int i = 0; i < TFT_KV_SIDES; i++)
        m->kv_fisher[i] = tables[i];
    tft_session_close(s);
}

/* A model calibrated for skvq, with numbers that are made up, and for fisher. */
static struct tft_model *model(int toy)
{
    struct tft_model *m = opened(written(toy_of(toy)));
    size_t number = 0, group = 0;
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        for (uint32_t h = 0; h < m->kv_heads[l].n; h++) {
            uint32_t dim = m->kv_heads[l].dim, groups = (dim + GROUP - 1) / GROUP;
            assert_true(number + dim <= MOST_LAYERS * MOST_WIDTH);
            put_order(key_order + number, dim, h);
            for (uint32_t d = 0; d < dim; d++)
                importance[number + d] = (float)(1 + (l * 7 + h * 3 + d) * 37 % 101);
            for (uint32_t g = 0; g < groups; g++)
                clip[g % 2][group + g] = clip[1 - g % 2][group + g] = 0.9f - 0.02f * (float)(g % 8);
            number += dim;
            group += groups;
        }
    m->key_importance = importance;
    m->key_order = key_order;
    m->kv_clip[0] = clip[0];
    m->kv_clip[1] = clip[1];
    m->kv_text = "skvq:group=16";
    assert_int_equal(tft_kv_parse(&m->kv_policy, m->kv_text, NULL), TFT_OK);
    toy_tokens(17, m->n_vocab, text, 2 * N);
    put_tables(m);
    return m;
}

/* ---- bits */

static void same_bits_however_fed(void **state)
{
    (void)state;
    static const size_t step[] = {1, 131};
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        struct tft_session *f16 = session(m, with("f16", 2));
        feed(f16, text, N, N);
        for (int c = 0; c < N_CACHES; c++) {
            struct tft_session_opts o = with(caches[c], 1);
            o.n_batch = 512;
            struct tft_session *whole = session(m, o);
            feed(whole, text, N, N);
            assert_true(
                memcmp(tft_logits(whole, 0), tft_logits(f16, 0), m->n_vocab * sizeof(float)) != 0);
            for (int i = 0; i < 2; i++) {
                if (!in_turn(i, c + t, 2))
                    continue;
                struct tft_session *s = session(m, with(caches[c], 1 + i));
                feed(s, text, N, step[i]);
                same_last_logits(s, whole);
                tft_session_close(s);
            }
            tft_session_close(whole);
        }
        tft_session_close(f16);
        tft_model_close(m);
    }
}

static void same_bits_on_every_isa(void **state)
{
    (void)state;
    int best = tft_kernels_isas() - 1;
    for (int t = 0; t < N_TOYS; t++)
        for (int c = 0; c < N_CACHES; c++) {
            uint64_t want = 0;
            for (int isa = best; isa >= 0; isa--) {
                if (isa < best && !in_turn(isa, c + t, best))
                    continue;
                assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
                struct tft_model *m = model(t);
                struct tft_session *s = session(m, with(caches[c], 3));
                feed(s, text, 330, 180);
                uint64_t h = hash_logits(1, s);
                assert_true(isa == best || h == want);
                want = h;
                tft_session_close(s);
                tft_model_close(m);
            }
        }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

/* Outputs of tokens that see other blocks than the last token does: layers that share keys and
   values compute these in passes of their own. */
static void outputs_of_many_tokens(void **state)
{
    (void)state;
    enum { BACK = 190 };
    static float logits[BACK * 37], hidden[BACK * 64];
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        for (int c = 0; c < N_CACHES; c++) {
            struct tft_session_opts o = with(caches[c], 2);
            o.n_hidden = o.n_logits = 1;
            struct tft_session *one = session(m, o);
            feed(one, text, N - BACK, N);
            for (int i = 0; i < BACK; i++) {
                assert_int_equal(tft_decode(one, text[N - BACK + i]), TFT_OK);
                memcpy(logits + i * (int)m->n_vocab, tft_logits(one, 0),
                       m->n_vocab * sizeof *logits);
                memcpy(hidden + i * (int)m->n_embd, tft_hidden(one, 0), m->n_embd * sizeof *hidden);
            }
            o.n_hidden = BACK - 50 * (c % 2);
            o.n_logits = BACK - 50 * (1 - c % 2);
            struct tft_session *all = session(m, o);
            feed(all, text, N, N);
            same_last_logits(all, one);
            for (uint32_t i = 0; i < o.n_logits; i++)
                assert_memory_equal(tft_logits(all, i), logits + (BACK - 1 - i) * m->n_vocab,
                                    m->n_vocab * sizeof *logits);
            for (uint32_t i = 0; i < o.n_hidden; i++)
                assert_memory_equal(tft_hidden(all, i), hidden + (BACK - 1 - i) * m->n_embd,
                                    m->n_embd * sizeof *hidden);
            assert_null(tft_logits(all, o.n_logits));
            assert_null(tft_hidden(all, o.n_hidden));
            tft_session_close(all);
            tft_session_close(one);
        }
        tft_model_close(m);
    }
}

/* ---- numbers */

/* Blocks of f16 are the slots' numbers: only the order of sums differs. Codes of 8 bits, and slots
   of bytes, are near; 2 bits are farther. */
static void many_bits_are_near_floats(void **state)
{
    (void)state;
    static const char f16[] = "k=16@channel,v=16@channel,group=16,retain=fill:16",
                      eight[] = "k=8@channel,v=8@token,group=16,retain=fill:16",
                      two[] = "k=2@channel,v=2@token,group=16,retain=fill:16";
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        struct tft_session *floats = session(m, with("f16", 2));
        double off[4];
        feed(floats, text, N, N);
        for (int i = 0; i < 4; i++) {
            struct tft_session *s = session(m, with(i == 0   ? f16
                                                    : i == 1 ? eight
                                                    : i == 2 ? "i8"
                                                             : two,
                                                    2));
            feed(s, text, N, N);
            off[i] = distance(s, floats);
            tft_session_close(s);
        }
        double most = t < N_LAYER_TOYS ? 0.1 : 0.4; /* scores of 512 channels are large */
        if (!(off[0] < 1e-4 && off[1] > 0 && off[1] < most && off[2] > 0 && off[2] < most &&
              off[3] > off[1] && off[3] > off[2]))
            fail_msg("toy %d: off by %g, %g, %g and %g", t, off[0], off[1], off[2], off[3]);
        tft_session_close(floats);
        tft_model_close(m);
    }
}

/* x: [E] a key as codes have it, becomes that of a position. */
static void turn(const struct tft_model *m, uint32_t position, double *x)
{
    for (uint32_t i = 0; i < m->n_rot / 2; i++) {
        uint32_t a = m->rope_halves ? i : 2 * i, b = m->rope_halves ? i + m->n_rot / 2 : 2 * i + 1;
        double c = cos(position * m->rope_freq[i]), s = sin(position * m->rope_freq[i]), y = x[a];
        x[a] = y * c - x[b] * s;
        x[b] = x[b] * c + y * s;
    }
}

/* x: [E] the key, or value, of token t, as attention reads it. */
static void seen(const struct tft_session *s, enum tft_kv_which which, uint32_t l, uint32_t h,
                 uint32_t t, double *x)
{
    const struct tft_kv *kv = &s->kv;
    uint32_t coded = kv->at[which].blocks * TFT_FISHER_BLOCK, first = kv->policy.sinks;
    bool ring = tft_kv_has_ring(kv, l);
    float slot[MOST_WIDTH];
    if (ring || t < first || t >= first + coded) {
        tft_kv_read(kv, l, h, which, ring || t < first ? t : t - coded, slot);
        for (uint32_t d = 0; d < tft_kv_heads(kv, l).dim; d++)
            x[d] = (double)slot[d];
        return;
    }
    const struct tft_fisher_head *head = &kv->layer[l].fisher[which][h];
    struct tft_fisher_block block = tft_fisher_block(kv, head, (t - first) / TFT_FISHER_BLOCK);
    for (uint32_t p = head->pad; p < head->end; p++)
        x[head->channel[p - head->pad]] =
            fisher_decoded(head, which, block, (t - first) % TFT_FISHER_BLOCK, p);
    if (which == TFT_KV_K)
        turn(s->m, t, x);
}

/* Puts the keys and values of the first n tokens of s into an f32 session. */
static void put_seen(const struct tft_session *s, const struct tft_session *f32, uint32_t n)
{
    double x[MOST_WIDTH];
    for (uint32_t l = 0; l < s->m->n_kv_layer; l++)
        for (uint32_t i = 0; i < tft_kv_heads(&s->kv, l).n * TFT_KV_SIDES; i++)
            for (uint32_t t = 0; t < n; t++) {
                seen(s, i % 2, l, i / 2, t, x);
                float *k = tft_kv_keys(&f32->kv, l, i / 2, t / 16 * 16),
                      *v = tft_kv_values(&f32->kv, l, i / 2, t);
                for (uint32_t d = 0; d < tft_kv_heads(&s->kv, l).dim; d++)
                    *(i % 2 ? &v[d] : &k[d * 16 + t % 16]) = (float)x[d];
            }
}

/* A token's attention on codes is near that on the decoded numbers. */
static void attention_reads_the_codes_of_fisher(void **state)
{
    (void)state;
    enum { HELD = 100 };
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        struct tft_session *s = session(m, with("fisher:window=10,keep=0,slots=f16", 1)),
                           *f32 = session(m, with("f32", 1)), *exact = session(m, with("f32", 1));
        struct tft_session *const all[] = {s, f32, exact};
        for (int i = 0; i < 3; i++)
            feed(all[i], text, HELD, HELD);
        assert_int_equal(s->kv.at[TFT_KV_K].blocks, 2);
        put_seen(s, f32, HELD);
        for (int i = 0; i < 3; i++)
            assert_int_equal(tft_decode(all[i], text[HELD]), TFT_OK);
        double off = distance(s, f32), lost = distance(s, exact);
        if (!(off < 0.02 && off < lost / 4))
            fail_msg("toy %d: %g from the decoded numbers, %g from the exact ones", t, off, lost);
        for (int i = 0; i < 3; i++)
            tft_session_close(all[i]);
        tft_model_close(m);
    }
}

/* tft_kv_bytes counts the layers without a window that have keys and values. */
static void bytes(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&layer_toys[1])); /* one layer of 2 heads of 24 */
    /* a block of 32 tokens: 2 bits a code, values in panels of 16 channels; scale and mid of each
       channel and of each token, values in one group */
    size_t k = 32 * 24 / 4 + 2 * 24 * 2, v = 32 * 32 / 4 + 2 * 32 * 2;
    assert_int_equal(tft_kv_bytes(m, "kivi", NULL), (2 * (k + v) + 31) / 32);
    assert_int_equal(tft_kv_bytes(m, "f16", NULL), 2 * 24 * 2 * 2);
    tft_model_close(m);
}

/* ---- there and back */

static void rewinds_and_slides(void **state)
{
    (void)state;
    static const uint32_t back[] = {1, 40, 300};
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        for (int c = 0; c < N_CACHES; c++) {
            uint32_t to = N - back[(c + t) % 3];
            struct tft_session *s = session(m, with(caches[c], 2)),
                               *fresh = session(m, with(caches[c], 1));
            assert_int_equal(tft_sync(s, text, N), TFT_OK);
            assert_int_equal(tft_rewind(s, to), TFT_OK);
            feed(s, text + 5, 70, 3);
            feed(fresh, text, to, N);
            feed(fresh, text + 5, 70, 70);
            same_last_logits(s, fresh);
            tft_session_close(s);
            tft_session_close(fresh);
            struct tft_session_opts o = with(caches[c], 2);
            o.capacity = 400;
            o.slide = true;
            if (strstr(caches[c], "kr=log2")) /* such a cache cannot slide */
                continue;
            s = session(m, o);
            fresh = session(m, o);
            feed(s, text, 2 * N, 50);
            feed(fresh, text, 2 * N, 2 * N);
            assert_true(s->kv.dropped > 0);
            same_last_logits(s, fresh);
            tft_session_close(s);
            tft_session_close(fresh);
        }
        tft_model_close(m);
    }
}

static void saved_and_copied(void **state)
{
    (void)state;
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        for (int c = 0; c < N_CACHES; c++) {
            struct tft_session *s = session(m, with(caches[c], 2)),
                               *loaded = session(m, with(caches[c], 1)),
                               *copy = session(m, with(caches[c], 2));
            struct tft_error err;
            feed(s, text, 333, 200);
            feed(copy, text + 9, 40, 40); /* which the copy replaces */
            size_t size = tft_session_save_bytes(s, NULL);
            void *data = malloc(size);
            assert_non_null(data);
            assert_int_equal(tft_session_save_mem(s, NULL, data, size, &err), TFT_OK);
            assert_int_equal(tft_session_load_mem(loaded, NULL, data, size, &err), TFT_OK);
            assert_int_equal(tft_session_copy(copy, s, &err), TFT_OK);
            free(data);
            feed(s, text + 333, 120, 120);
            feed(loaded, text + 333, 120, 7);
            feed(copy, text + 333, 120, 50);
            same_last_logits(loaded, s);
            same_last_logits(copy, s);
            tft_session_close(s);
            tft_session_close(loaded);
            tft_session_close(copy);
        }
        tft_model_close(m);
    }
}

/* ---- several sessions in a pass */

/* Chunks of 30 tokens quantize at other tokens in each session; single tokens share a pass. */
static void sessions_share_passes(void **state)
{
    (void)state;
    enum { SESSIONS = 3 };
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = model(t);
        for (int c = 0; c < N_CACHES; c++) {
            struct tft_batch_opts bo = {.size = sizeof bo, .n_sessions = SESSIONS, .n_threads = 2};
            struct tft_batch *b;
            struct tft_error err;
            struct tft_session *s[SESSIONS], *alone = session(m, with(caches[c], 1));
            assert_int_equal(tft_batch_open(&b, m, &bo, &err), TFT_OK);
            for (int i = 0; i < SESSIONS; i++) {
                struct tft_session_opts o = with(caches[(c + i) % N_CACHES], 2);
                o.batch = b;
                s[i] = session(m, o);
                feed(s[i], text, (size_t)(i * 11 + 1), 100);
            }
            for (size_t at = 1; at < 301; at += 30) {
                struct tft_step step[SESSIONS];
                size_t n = at == 151 ? 1 : 30;
                for (size_t i = 0; i < SESSIONS; i++)
                    step[i] =
                        (struct tft_step){.session = s[i], .tokens = text + tft_pos(s[i]), .n = n};
                assert_int_equal(tft_step(b, step, SESSIONS), TFT_OK);
            }
            feed(alone, text, tft_pos(s[0]), N);
            same_last_logits(s[0], alone);
            for (int i = 0; i < SESSIONS; i++)
                tft_session_close(s[i]);
            tft_session_close(alone);
            tft_batch_close(b);
        }
        tft_model_close(m);
    }
}

/* ---- refusals */

/* Heads whose channels are no whole quads, of layers without a window alone. */
static void odd_heads(void **state)
{
    (void)state;
    struct tft_session_opts o = {.size = sizeof o, .kv = "kivi"};
    struct tft_error err;
    struct tft_session *s;
    struct toy t = layer_toys[0];
    t.head_dim = t.n_rot = 22;
    struct tft_model *m = opened(written(&t));
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "heads of 22 channels: a quantized KV cache takes multiples of "
                                    "4 up to 512"));
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_reads_the_codes_of_fisher),
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_every_isa),
        cmocka_unit_test(outputs_of_many_tokens),
        cmocka_unit_test(many_bits_are_near_floats),
        cmocka_unit_test(bytes),
        cmocka_unit_test(rewinds_and_slides),
        cmocka_unit_test(saved_and_copied),
        cmocka_unit_test(sessions_share_passes),
        cmocka_unit_test(odd_heads),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
