/*
 * Sessions with the cache fisher: the same bits however tokens are fed and on every ISA level;
 * attention on codes against a session of floats that holds the decoded numbers, keys turned by
 * their positions; saved, copied, rewound and slid.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <string.h>

#include "fed.h"
#include "fisher_records.h"
#include "simd/half.h"

enum { LAYERS = 2, G = 2, E = 20, N = 300, ROWS = TFT_FISHER_ROWS };

#define TOY(name, rot)                                                                             \
    .arch = name, .n_vocab = 31, .n_ctx = 640, .n_embd = 24, .n_layer = LAYERS, .n_head = 6,       \
    .n_head_kv = G, .head_dim = E, .n_ff = 32, .n_rot = rot, .type = TFT_F32

/* RoPE on neighbours and on halves, of a part of the channels, with an amplitude. */
static const struct toy toys[] = {
    {TOY("llama", E)}, {TOY("qwen2", E), .yarn = 8}, {TOY("stablelm", 8)}, {TOY("llama", E)}};
enum { TOYS = sizeof toys / sizeof *toys, HAS_STILL = TOYS - 1 }; /* layer 1 of the last has none */
static const struct toy *const toy = &toys[0];

static float tables[TFT_KV_SIDES][LAYERS * G * ROWS * E];
static int32_t text[N];

/* A number of a slot of an f32 cache. */
static float *number(const struct tft_session *s, enum tft_kv_which which, uint32_t layer,
                     uint32_t head, uint32_t slot, uint32_t d)
{
    if (which == TFT_KV_V)
        return (float *)tft_kv_values(&s->kv, layer, head, slot) + d;
    return (float *)tft_kv_keys(&s->kv, layer, head, slot - slot % 16) + d * 16 + slot % 16;
}

/* Turns a key by the angles of `positions`, without RoPE's amplitude. */
static void turn(const struct tft_model *m, uint32_t layer, double positions, double *x)
{
    for (uint32_t i = 0; i < m->n_rot / 2 && !m->layer[layer].no_rope; i++) {
        uint32_t a = m->rope_halves ? i : 2 * i, b = m->rope_halves ? i + m->n_rot / 2 : 2 * i + 1;
        double c = cos(positions * m->rope_freq[i]), s = sin(positions * m->rope_freq[i]),
               first = x[a];
        x[a] = first * c - x[b] * s;
        x[b] = x[b] * c + first * s;
    }
}

/* x: [E] a value of an f32 cache, or a key before RoPE, of the token in a slot; there is no
   prefix, so the slot is the position. */
static void look(const struct tft_session *s, enum tft_kv_which which, uint32_t layer,
                 uint32_t head, uint32_t slot, double *x)
{
    for (uint32_t d = 0; d < E; d++)
        x[d] = (double)*number(s, which, layer, head, slot, d);
    if (which == TFT_KV_K)
        turn(s->m, layer, -(double)slot, x);
}

/* Of a Gaussian, by bits: Max 1960, table II. */
static const double error[] = {1, 0.3634, 0.1188, 0.03744, 0.01154},
                    gauss[] = {0, 1.596, 0.9957, 0.5860, 0.3352};

/* Means and spreads of the toy's own keys and values; costs that differ by channel and head. */
static void set_table(const struct tft_session *s, uint32_t i)
{
    enum tft_kv_which which = i % 2 ? TFT_KV_V : TFT_KV_K;
    uint32_t l = i / 2 / G, h = i / 2 % G;
    float *table = tables[which] + (l * G + h) * ROWS * E;
    double x[E], sum[E] = {0}, squares[E] = {0};
    for (uint32_t t = 0; t < N; t++) {
        look(s, which, l, h, t, x);
        for (uint32_t d = 0; d < E; d++) {
            sum[d] += x[d] / N;
            squares[d] += x[d] * x[d] / N;
        }
    }
    for (uint32_t d = 0; d < E; d++) {
        double var = squares[d] - sum[d] * sum[d];
        table[TFT_FISHER_MEAN * E + d] = (float)sum[d];
        table[TFT_FISHER_GAIN * E + d] = (float)(1 / (var * E));
        for (int bits = 0; bits <= TFT_FISHER_BITS; bits++)
            table[(TFT_FISHER_LOSS + bits) * E + d] =
                (float)(error[bits] * var * (1 + d * 7 % 11) * (1 + i));
        for (int bits = 1; bits <= TFT_FISHER_BITS; bits++)
            table[(TFT_FISHER_STEP + bits - 1) * E + d] = (float)(sqrt(var) * gauss[bits]);
    }
}

static struct tft_model *model_of(int number)
{
    struct tft_model *m = opened(written(&toys[number]));
    m->layer[1].no_rope = number == HAS_STILL;
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32", .n_threads = 1});
    toy_tokens(3, m->n_vocab, text, N);
    assert_int_equal(tft_prefill(s, text, N), TFT_OK);
    for (uint32_t i = 0; i < TFT_KV_SIDES * LAYERS * G; i++)
        set_table(s, i);
    for (int i = 0; i < TFT_KV_SIDES; i++)
        m->kv_fisher[i] = tables[i];
    tft_session_close(s);
    return m;
}

static struct tft_model *model(void) { return model_of(0); }

static uint64_t hash_of(const struct tft_model *m, const char *kv, int threads, uint32_t chunk,
                        uint32_t batch)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = threads, .n_batch = batch, .kv = kv});
    uint64_t h = 1;
    for (uint32_t stop = 60; tft_pos(s) < N; stop += 80) {
        feed(s, text + tft_pos(s), stop - tft_pos(s), chunk);
        h = hash_logits(h, s);
    }
    tft_session_close(s);
    return h;
}

static const char *const caches[] = {"fisher:window=20", "fisher:bits=3,retain=fill:40,sinks=0",
                                     "fisher:bits=0.5,retain=window:5,keep=0",
                                     "fisher:bits=4,window=1",
                                     "fisher:window=20,slots=f16",
                                     "fisher:window=250,keep=0"};
enum { N_CACHES = sizeof caches / sizeof *caches };

static void same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_CACHES; i++) {
        struct tft_model *m = model_of(i % TOYS);
        uint64_t want = hash_of(m, caches[i], 1, N, 512);
        assert_int_equal(hash_of(m, caches[i], 1, 1, 512), want);
        assert_int_equal(hash_of(m, caches[i], 1, 7, 5), want);
        assert_int_equal(hash_of(m, caches[i], 3, N, 45), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            struct tft_model *other = model_of(i % TOYS);
            assert_int_equal(hash_of(other, caches[i], 2, N, 512), want);
            tft_model_close(other);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        tft_model_close(m);
    }
}

/* The tokens of blocks, and of slots: the sinks, the tokens that the filter named, and the newest.
   Tokens leave for blocks in order. */
static void find_tokens(const struct tft_session *s, uint32_t n, uint32_t *coded, uint32_t *slots)
{
    const struct tft_retained *at = &s->kv.at[TFT_KV_K];
    uint32_t sinks = s->kv.policy.sinks, n_coded = 0, n_named = 0, n_new = 0,
             of_blocks = at->blocks * TFT_FISHER_BLOCK;
    for (uint32_t t = 0; t < n; t++)
        if (t < sinks)
            slots[t] = t;
        else if (at->is_named && at->is_named[t] && n_named < at->named)
            slots[sinks + n_named++] = t;
        else if (n_coded < of_blocks)
            coded[n_coded++] = t;
        else
            slots[sinks + at->named + n_new++] = t;
    assert_int_equal(n_coded, of_blocks);
}

/* Puts the keys, or values, of n tokens of a head of s into the slots of an f32 session: blocks
   decoded, keys turned by their positions, exact tokens, and slots. */
static void put_head(const struct tft_session *s, const struct tft_session *f32,
                     enum tft_kv_which which, uint32_t l, uint32_t h, uint32_t n)
{
    const struct tft_kv *kv = &s->kv;
    const struct tft_fisher_head *head = &kv->layer[l].fisher[which][h];
    uint32_t coded[N], slots[N], blocks = kv->at[which].blocks * TFT_FISHER_BLOCK;
    find_tokens(s, n, coded, slots);
    for (uint32_t t = 0; t < blocks; t++) {
        uint32_t b = t / TFT_FISHER_BLOCK;
        struct tft_fisher_block block = tft_fisher_block(kv, head, b);
        double x[E];
        for (uint32_t p = head->pad; p < head->end; p++)
            x[head->channel[p - head->pad]] =
                fisher_decoded(head, which, block, t % TFT_FISHER_BLOCK, p);
        if (which == TFT_KV_K)
            turn(s->m, l, coded[t], x);
        for (uint32_t d = 0; d < E; d++)
            *number(f32, which, l, h, coded[t], d) = (float)x[d];
    }
    const struct tft_fisher_exact *exact = tft_fisher_exact(kv, &kv->layer[l].fisher[TFT_KV_K][h]);
    for (uint32_t i = 0; i < exact->n; i++)
        for (uint32_t d = 0; d < E; d++)
            *number(f32, which, l, h, coded[exact->place[i]], d) =
                tft_f16_to_f32(tft_fisher_exact_row(exact, which, i, E)[d]);
    for (uint32_t slot = 0; slot + blocks < n; slot++) {
        float x[E];
        tft_kv_read(kv, l, h, which, slot, x);
        for (uint32_t d = 0; d < E; d++)
            *number(f32, which, l, h, slots[slot], d) = x[d];
    }
}

static void put_decoded(const struct tft_session *s, const struct tft_session *f32, uint32_t n)
{
    for (uint32_t i = 0; i < TFT_KV_SIDES * LAYERS * G; i++)
        put_head(s, f32, i % 2 ? TFT_KV_V : TFT_KV_K, i / 2 / G, i / 2 % G, n);
}

/* tft_session_opts.keep: some tokens in a row, and some alone. */
static bool names(void *user, uint64_t position, int32_t token)
{
    (void)user, (void)token;
    return position % 50 == 9 || position % 90 / 3 == 20;
}

/* A token's attention on codes differs from that on the decoded numbers only as weights are rounded
   to 7 bits. On exact numbers it differs more. */
static void reads_the_codes(const struct tft_model *m, const char *kv, bool named)
{
    struct tft_session *s = session(m, (struct tft_session_opts){
                                           .kv = kv, .n_threads = 1, .keep = named ? names : NULL});
    struct tft_session *f32 = session(m, (struct tft_session_opts){.kv = "f32"}),
                       *exact = session(m, (struct tft_session_opts){.kv = "f32"});
    assert_int_equal(tft_prefill(s, text, N - 1), TFT_OK);
    assert_int_equal(tft_prefill(f32, text, N - 1), TFT_OK);
    assert_int_equal(tft_prefill(exact, text, N - 1), TFT_OK);
    assert_true(s->kv.at[TFT_KV_K].blocks >= 6 && !named == !s->kv.at[TFT_KV_K].named);
    put_decoded(s, f32, N - 1);
    assert_int_equal(tft_decode(s, text[N - 1]), TFT_OK);
    assert_int_equal(tft_decode(f32, text[N - 1]), TFT_OK);
    assert_int_equal(tft_decode(exact, text[N - 1]), TFT_OK);
    double d = distance(s, f32), lost = distance(s, exact);
    if (!(d < 0.05 && d < lost / 10))
        fail_msg("%s: %g from the decoded numbers, %g from the exact ones", kv, d, lost);
    tft_session_close(s);
    tft_session_close(f32);
    tft_session_close(exact);
}

/* The exact tokens of layer 0 are the first ones in blocks with a small value. */
static void check_exact(const struct tft_session *s, const struct tft_session *f32, uint32_t h)
{
    const struct tft_kv *kv = &s->kv;
    const struct tft_fisher_exact *e = tft_fisher_exact(kv, &kv->layer[0].fisher[TFT_KV_K][h]);
    const float *table = tables[TFT_KV_V] + (size_t)h * ROWS * E;
    uint32_t n = 0, coded[N], slots[N], blocks = kv->at[TFT_KV_K].blocks * TFT_FISHER_BLOCK;
    double usual = 0;
    find_tokens(s, N, coded, slots);
    for (uint32_t d = 0; d < E; d++) {
        double deviation = (double)table[(TFT_FISHER_STEP + 3) * E + d] / 0.3352;
        usual += pow((double)table[TFT_FISHER_MEAN * E + d], 2) + deviation * deviation;
    }
    for (uint32_t c = 0; c < blocks && n < TFT_FISHER_EXACT; c++) {
        double square = 0;
        for (uint32_t d = 0; d < E; d++)
            square += pow((double)*number(f32, TFT_KV_V, 0, h, coded[c], d), 2);
        if (fabs(square / (usual / 5) - 1) < 0.01)
            continue; /* f16 may decide either way */
        if (square > usual / 5) {
            assert_true(n >= e->n || e->place[n] != c);
            continue;
        }
        while (n < e->n && e->place[n] < c) /* that f16 decided */
            n++;
        if (n == TFT_FISHER_EXACT)
            break;
        assert_true(n < e->n && e->place[n] == c);
        for (uint32_t d = 0; d < 2 * E; d++) /* of the key, then of the value */
            assert_true(e->number[n * 2 * E + d] ==
                        tft_f32_to_f16(*number(f32, d < E ? TFT_KV_K : TFT_KV_V, 0, h, coded[c],
                                               d % E)));
        n++;
    }
    assert_true(e->n > 0 && n <= e->n);
}

static void tokens_of_small_values_are_exact(void **state)
{
    (void)state;
    struct tft_model *m = model();
    for (uint32_t i = 0; i < LAYERS * G; i++) /* now many values are small */
        for (uint32_t d = 0; d < E; d++)
            tables[TFT_KV_V][(i * ROWS + TFT_FISHER_STEP + 3) * E + d] *= 2;
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "fisher:window=20,slots=f16",
                                                                 .n_threads = 1,
                                                                 .keep = names}),
                       *f32 = session(m, (struct tft_session_opts){.kv = "f32"});
    assert_int_equal(tft_prefill(s, text, N), TFT_OK);
    assert_int_equal(tft_prefill(f32, text, N), TFT_OK);
    for (uint32_t h = 0; h < G; h++)
        check_exact(s, f32, h);
    tft_session_close(s);
    tft_session_close(f32);
    reads_the_codes(m, "fisher:window=20,keep=0", false);
    reads_the_codes(m, "fisher:bits=1,window=20,keep=18", true);
    tft_model_close(m);
}

static void attention_reads_the_codes(void **state)
{
    (void)state;
    for (int i = 0; i < TOYS; i++) {
        struct tft_model *m = model_of(i);
        reads_the_codes(m, "fisher:window=20,keep=0", false);
        reads_the_codes(m, "fisher:window=20,keep=0,slots=f16", false);
        reads_the_codes(m, "fisher:bits=3,window=33,sinks=0,keep=0", false);
        reads_the_codes(m, "fisher:bits=2,window=20,keep=18", true);
        reads_the_codes(m, "fisher:bits=2,retain=fill:30,keep=5", true);
        tft_model_close(m);
    }
}

/* The squared error of the numbers of layer 0 in s, which no quantized attention has touched, each
   weighted as model() weights its loss, as a share of that of 0 bits. */
static double weighted_error(const struct tft_session *s, const struct tft_session *f32,
                             const struct tft_session *decoded)
{
    double lost = 0, all = 0;
    for (uint32_t i = 0; i < TFT_KV_SIDES * G; i++) {
        enum tft_kv_which which = i % 2 ? TFT_KV_V : TFT_KV_K;
        const float *table = tables[which] + (size_t)i / 2 * ROWS * E;
        uint32_t sinks = s->kv.policy.sinks, n = s->kv.at[which].blocks * TFT_FISHER_BLOCK;
        for (uint32_t t = sinks; t < sinks + n; t++) {
            double want[E], is[E];
            look(f32, which, 0, i / 2, t, want);
            look(decoded, which, 0, i / 2, t, is);
            for (uint32_t d = 0; d < E; d++) {
                double weight = (1 + d * 7 % 11) * (1 + i);
                double spread = want[d] - (double)table[TFT_FISHER_MEAN * E + d];
                lost += weight * (is[d] - want[d]) * (is[d] - want[d]);
                all += weight * spread * spread;
            }
        }
    }
    return lost / all;
}

static void more_bits_lose_less(void **state)
{
    static const char *const kv[] = {"fisher:bits=1,window=8", "fisher:bits=1.75,window=8",
                                     "fisher:bits=2.5,window=8", "fisher:bits=4,window=8"};
    (void)state;
    struct tft_model *m = model();
    struct tft_session *f32 = session(m, (struct tft_session_opts){.kv = "f32", .n_threads = 1}),
                       *decoded = session(m, (struct tft_session_opts){.kv = "f32"});
    assert_int_equal(tft_prefill(f32, text, N), TFT_OK);
    assert_int_equal(tft_prefill(decoded, text, N), TFT_OK);
    double last = 1;
    size_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = kv[i]});
        assert_int_equal(tft_prefill(s, text, N), TFT_OK);
        put_decoded(s, decoded, N);
        double share = weighted_error(s, f32, decoded);
        if (!(share < 0.7 * last))
            fail_msg("%s: %g, after %g", kv[i], share, last);
        last = share;
        tft_session_close(s);
        size_t token = tft_kv_bytes(m, kv[i], NULL);
        assert_true(token > bytes);
        bytes = token;
    }
    assert_true(last < 0.05);
    /* 1.5 bits a number, in whole bytes a block */
    assert_true(tft_kv_bytes(m, "fisher", NULL) <= (size_t)(LAYERS * G * 2 * E * 1.5 / 8 + 1));
    tft_session_close(decoded);
    tft_session_close(f32);
    tft_model_close(m);
}

static void go_on_alike(struct tft_session *a, struct tft_session *b)
{
    for (uint32_t i = 0; i < 90; i++) {
        assert_int_equal(tft_decode(a, text[i]), TFT_OK);
        assert_int_equal(tft_decode(b, text[i]), TFT_OK);
    }
    assert_int_equal(hash_logits(1, a), hash_logits(1, b));
}

static void saved_copied_rewound(void **state)
{
    (void)state;
    struct tft_model *m = model();
    struct tft_session_opts o = {.kv = "fisher:window=20", .n_threads = 1, .capacity = 500},
                            more = {.kv = "fisher:window=20", .n_threads = 2, .capacity = 620};
    o.keep = more.keep = names;
    struct tft_session *s = session(m, o), *loaded = session(m, more), *copy = session(m, more),
                       *fresh = session(m, o);
    assert_int_equal(tft_prefill(s, text, 200), TFT_OK);
    size_t n = tft_session_save_bytes(s, NULL);
    void *p = malloc(n);
    assert_non_null(p);
    assert_int_equal(tft_session_save_mem(s, NULL, p, n, NULL), TFT_OK);
    assert_int_equal(tft_session_load_mem(loaded, NULL, p, n, NULL), TFT_OK);
    assert_int_equal(tft_session_copy(copy, s, NULL), TFT_OK);
    assert_int_equal(tft_prefill(fresh, text, 200), TFT_OK);
    go_on_alike(s, loaded);
    go_on_alike(copy, fresh);
    assert_int_equal(hash_logits(1, s), hash_logits(1, copy));
    assert_int_equal(tft_rewind(s, 100), TFT_OK); /* to before a quantization */
    assert_int_equal(tft_rewind(fresh, 0), TFT_OK);
    assert_int_equal(tft_prefill(fresh, text, 100), TFT_OK);
    go_on_alike(s, fresh);
    tft_session_close(s);
    tft_session_close(loaded);
    tft_session_close(copy);
    tft_session_close(fresh);
    tft_model_close(m);
    free(p);
}

/* The position by whose angles attention turns the key of token c of the blocks. */
static uint32_t turned_by(const struct tft_kv *kv, uint32_t c)
{
    uint32_t end, i = tft_turns_of(&kv->turns, c / TFT_FISHER_BLOCK, &end),
             place = c % TFT_FISHER_BLOCK;
    while (i + 1 < end && kv->turns.stretch[i + 1].from <= place)
        i++;
    return kv->turns.stretch[i].base + place;
}

/* After slides, a session of n tokens holds the sinks, the tokens that were named, and the newest
   of all others: of these the oldest are in blocks. */
static void keys_keep_their_positions(const struct tft_session *s, uint32_t n)
{
    const struct tft_kv *kv = &s->kv;
    uint32_t other[2 * N], n_other = 0, n_named = 0, sinks = kv->policy.sinks;
    for (uint32_t p = sinks; p < n; p++)
        if (names(NULL, p, 0) && n_named < kv->policy.keep)
            n_named++;
        else
            other[n_other++] = p;
    uint32_t gone = n - kv->held, blocks = kv->at[TFT_KV_K].blocks;
    assert_true(gone > 0 && gone == kv->dropped && blocks > 1);
    for (uint32_t c = 0; c < blocks * TFT_FISHER_BLOCK; c++)
        assert_int_equal(turned_by(kv, c), other[gone + c]);
}

static uint64_t slid(const struct tft_model *m, const char *kv, int threads, uint32_t chunk)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){
                       .kv = kv, .capacity = 160, .n_threads = threads, .slide = true,
                       .keep = names});
    for (int i = 0; i < 2; i++)
        feed(s, text, N, chunk);
    keys_keep_their_positions(s, 2 * N);
    uint64_t h = hash_logits(1, s);
    tft_session_close(s);
    return h;
}

static void slides(void **state)
{
    static const char *const kv[] = {"fisher:window=20,keep=0", "fisher:window=11,keep=9"};
    (void)state;
    struct tft_model *m = model();
    for (int i = 0; i < 2; i++) {
        uint64_t want = slid(m, kv[i], 1, N);
        assert_int_equal(slid(m, kv[i], 1, 1), want);
        assert_int_equal(slid(m, kv[i], 3, 70), want);
    }
    tft_model_close(m);
}

/* keep=N without a filter: at most N special tokens stay in slots. */
static void special_tokens_stay(void **state)
{
    (void)state;
    struct toy talker = *toy;
    talker.n_vocab = TOY_VOCAB;
    talker.vocab = "gpt2";
    struct tft_model *m = opened(written(&talker));
    for (int i = 0; i < TFT_KV_SIDES; i++)
        m->kv_fisher[i] = tables[i];
    int32_t special = 0, plain = 0;
    size_t len;
    while (special < TOY_VOCAB && tft_token_text(m, special, false, &len) && len)
        special++;
    while (!(tft_token_text(m, plain, false, &len) && len))
        plain++;
    assert_in_range(special, 0, TOY_VOCAB - 1);
    for (uint32_t keep = 0; keep <= 12; keep += 4) {
        char kv[64];
        snprintf(kv, sizeof kv, "%s,keep=%u",
                 keep == 12 ? "kivi:retain=window:20,group=16" : "fisher:window=20", keep);
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = kv, .n_threads = 1});
        for (int i = 0; i < 150; i++)
            assert_int_equal(tft_decode(s, i % 30 == 7 ? special : plain), TFT_OK);
        assert_true(s->kv.at[TFT_KV_K].blocks >= 2);
        /* at 7, 37, 67, 97, 127; the last one is in the window, or waits for blocks of 32 */
        uint32_t named = s->kv.at[TFT_KV_K].named;
        if (keep < 12)
            assert_int_equal(named, keep < 4 ? keep : 4);
        else
            assert_in_range(named, 4, 5);
        tft_session_close(s);
    }
    tft_model_close(m);
}

static void refused_without_tables(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(toy));
    struct tft_error err;
    assert_int_equal(tft_kv_bytes(m, "fisher", &err), 0);
    assert_non_null(strstr(err.msg, "not calibrated for the KV cache fisher"));
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(attention_reads_the_codes),
        cmocka_unit_test(tokens_of_small_values_are_exact),
        cmocka_unit_test(more_bits_lose_less),
        cmocka_unit_test(saved_copied_rewound),
        cmocka_unit_test(slides),
        cmocka_unit_test(special_tokens_stay),
        cmocka_unit_test(refused_without_tables),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
