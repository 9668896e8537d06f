/* Sessions with a quantized cache: the same bits on every ISA level, with any number of threads,
   however the tokens were fed, and after going back; their memory; and refusals. test_kv_papers.c
   compares the numbers with the papers. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"
#include "memory.h"
#include "random.h"

/* Heads of whole panels and not. Small, as they run under emulation too. */
static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 31,
     .n_ctx = 640,
     .n_embd = 16,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 8,
     .n_ff = 16,
     .n_rot = 8,
     .type = TFT_F16},
    {.arch = "qwen2",
     .n_vocab = 31,
     .n_ctx = 640,
     .n_embd = 16,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_ff = 16,
     .n_rot = 20,
     .type = TFT_BF16},
};

/* Tokens enough for a few events; of two policies for a second span of codes. Windows of 21 and 33
   leave tokens waiting for their block. The hash of the logits is part of the contract: every CPU,
   compiler, operating system and build of tuffet gives it. */
static const struct policy {
    const char *kv;
    int toy;
    uint32_t n;
    uint64_t contract;
} policies[] = {
    {"rtn", 0, 330, 0x8b78e003e9d12ad5},
    {"kivi:window=64", 0, 330, 0x2e589bf784ace85b},
    {"kivi:window=48,bits=4", 1, 110, 0xbb337428ea370d6e},
    {"logquant:window=21,group=32", 0, 150, 0x737f71c7eb452ac3},
    {"logquant:window=32,group=16", 1, 140, 0x29e0e07c764a0fb5},
    {"asymkv:lk=1,window=32", 1, 80, 0x75f805762e0356be},
    {"skvq:reorder=none,clip=zero,window=33,v=1.5,group=16", 0, 140, 0x5ae7d0f94f1b1be3},
    {"tuffet:sinks=0,keep=0,k=2.25@mixed,window=20,group=32", 1, 90, 0x90e431a04ee5efd0},
    {"tuffet:sinks=0,keep=0,k=1.5@mixed,window=20,group=32", 1, 290, 0xe6cf58647f15c9c3},
    {"k=1@token,v=3@channel,group=16,retain=fill:32,sinks=3", 1, 80, 0x836827196399b0e1},
    {"k=8@channel,v=16,retain=window:0,clip=centre", 0, 80, 0xe35dcae677600331},
    {"k=16,v=8@channel,retain=log2:2,scales=f8", 0, 80, 0xe31ad541c261ab47},
    {"tuffet:sinks=0,keep=0,k=3x1/1.5@mixed,v=16x1/1.5,window=20,group=32",
     1, 90, 0x1887b08891836c93},
    {"tuffet:sinks=0,keep=0,k=16x1/1.25@mixed,v=2x1/1,window=20,group=16,scales=f8",
     0, 80, 0xc8f4fad6b7da8e05},
    {"skvq:k=3,window=17,group=16", 1, 110, 0xaf5a7fba6c9f244a},
    {"skvq:clip=zero,window=33,group=16,prefill=100", 1, 120, 0x5b92dc4372e73490},
    {"kivi:window=24,prefill=70", 0, 110, 0x1c3115371d0167db},
    {"kivi:kr=fill:64,vr=window:48", 0, 330, 0xbb70a97165988fb8},
    {"logquant:kr=log2:21,vr=window:21,group=32,sinks=3", 1, 150, 0x25957e6cbe657fa7},
    {"tuffet:sinks=0,keep=0,k=2.25@mixed,group=32,kr=window:9,vr=log2:11",
     1, 290, 0xe83d784048232716},
    {"k=16,v=8@channel,scales=f8,kr=log2:5,vr=fill:24,prefill=70", 0, 110, 0xb02697d823e57f88},
};
enum { N_POLICIES = sizeof policies / sizeof *policies, MOST = 330 };

/* The cost of an error in a key's channel, for "mixed": made up, but not the same for any two. */
static float importance[2 * 2 * 20]; /* as long as the largest toy's */

/* And the calibrations that a file may have: orders of the keys' channels, no two heads' alike, and
   parts of the groups' ranges. */
static int32_t key_order[2 * 2 * 20];
static float clip[2][2 * 2 * 2];

static void calibrate(struct tft_model *m)
{
    uint32_t dim = m->head_dim, heads = m->n_layer * m->n_head_kv;
    for (uint32_t i = 0; i < heads * dim; i++) /* multiples of 7 or 3, modulo 8 or 20 */
        key_order[i] = (int32_t)((i % dim * (i / dim % 2 ? 7 : 3) + i / dim) % dim);
    for (uint32_t i = 0; i < heads * 2; i++) {
        clip[0][i] = 1 - 0.07f * (float)i;
        clip[1][i] = 0.6f + 0.05f * (float)i;
    }
    m->kv_text = "skvq:k=3,group=16";
    assert_int_equal(tft_kv_parse(&m->kv_policy, m->kv_text, NULL), TFT_OK);
    m->key_order = key_order;
    m->kv_clip[0] = clip[0];
    m->kv_clip[1] = clip[1];
}

static struct tft_model *model(int toy)
{
    struct tft_model *m = opened(written(&toys[toy]));
    calibrate(m);
    for (uint32_t i = 0; i < m->n_layer * m->n_head_kv * m->head_dim; i++)
        importance[i] = (float)(1 + i * 37 % 101);
    m->key_importance = importance;
    return m;
}

/* The logits at a few places, fed `chunk` tokens at a time in passes of at most `batch`. */
static void assert_contract(const struct policy *p, int threads, uint32_t chunk, uint32_t batch)
{
    struct tft_model *m = model(p->toy);
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = threads, .n_batch = batch, .kv = p->kv});
    int32_t tokens[MOST];
    uint64_t h = 0xcbf29ce484222325;
    toy_tokens(3, m->n_vocab, tokens, p->n);
    for (uint32_t stop = 5; tft_pos(s) < p->n; stop = stop * 5 < p->n ? stop * 5 : p->n) {
        feed(s, tokens + tft_pos(s), stop - tft_pos(s), chunk);
        h = hash_logits(h, s);
    }
    if (h != p->contract)
        fail_msg("%s on %s, %d threads, %u at a time in passes of %u: 0x%016llx", p->kv,
                 tft_cpu_name(), threads, chunk, batch, (unsigned long long)h);
    tft_session_close(s);
    tft_model_close(m);
}

static void same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_POLICIES; i++) {
        assert_contract(&policies[i], 1, 1, 512);
        assert_contract(&policies[i], 1, 7, 5);
        assert_contract(&policies[i], 3, MOST, 45);
    }
}

static void same_bits_on_every_isa_and_machine(void **state)
{
    (void)state;
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        for (int i = 0; i < N_POLICIES; i++)
            assert_contract(&policies[i], 1, MOST, 512);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

/* ---- there and back */

enum { LONG = 120, MORE = 8 };

static uint64_t fresh(const struct tft_model *m, const char *kv, const int32_t *tokens, uint32_t n)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .capacity = n, .kv = kv});
    assert_int_equal(tft_prefill(s, tokens, n), TFT_OK);
    uint64_t h = hash_logits(1, s);
    tft_session_close(s);
    return h;
}

/* Where tokens were given up: so many had come. */
static uint32_t events(const struct tft_model *m, const char *kv, const int32_t *tokens,
                       uint32_t at[LONG])
{
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = kv});
    uint32_t n = 0;
    for (uint32_t i = 0; i < LONG; i++) {
        assert_int_equal(tft_decode(s, tokens[i]), TFT_OK);
        if (s->kv.frozen && (!n || s->kv.frozen != at[n - 1]))
            at[n++] = i;
    }
    tft_session_close(s);
    return n;
}

/* a[0 .. pos), then MORE of b. */
static void back_and_on(struct tft_session *s, const char *kv, const int32_t *a, const int32_t *b,
                        uint32_t pos, bool sync)
{
    int32_t both[LONG + MORE];
    memcpy(both, a, pos * sizeof *a);
    memcpy(both + pos, b, MORE * sizeof *b);
    assert_int_equal(tft_sync(s, a, LONG), TFT_OK);
    if (sync) {
        assert_int_equal(tft_sync(s, both, pos + MORE), TFT_OK);
    } else {
        assert_int_equal(tft_rewind(s, pos), TFT_OK);
        assert_int_equal(tft_pos(s), pos);
        assert_null(tft_logits(s, 0));
        assert_int_equal(tft_prefill(s, b, MORE), TFT_OK);
    }
    assert_int_equal(tft_pos(s), pos + MORE);
    assert_memory_equal(tft_tokens(s), both, (pos + MORE) * sizeof *both);
    if (hash_logits(1, s) != fresh(s->m, kv, both, pos + MORE))
        fail_msg("%s: other logits after going back to %u", kv, pos);
}

static void back_beyond_what_was_quantized(void **state)
{
    (void)state;
    for (int i = 0; i < N_POLICIES; i++) {
        const char *kv = policies[i].kv;
        struct tft_model *m = model(policies[i].toy);
        int32_t a[LONG], b[MORE];
        uint32_t event[LONG];
        toy_tokens(1, m->n_vocab, a, LONG);
        toy_tokens(2, m->n_vocab, b, MORE);
        uint32_t n = events(m, kv, a, event);
        assert_true(n > 0);
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = 64, .kv = kv});
        for (uint32_t pos = event[n - 1] - 1; pos <= event[n - 1] + 1; pos++)
            back_and_on(s, kv, a, b, pos, pos % 2);
        back_and_on(s, kv, a, b, 0, i % 2);
        tft_session_close(s);
        tft_model_close(m);
    }
}

static void back_twice_before_anything_is_computed(void **state)
{
    (void)state;
    struct tft_model *m = model(0);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = "rtn"});
    int32_t a[LONG];
    toy_tokens(1, m->n_vocab, a, LONG);
    assert_int_equal(tft_prefill(s, a, LONG), TFT_OK);
    assert_int_equal(tft_rewind(s, 110), TFT_OK);
    assert_int_equal(tft_rewind(s, 100), TFT_OK);
    assert_int_equal(tft_rewind(s, 101), TFT_ERR_ARG);
    assert_int_equal(tft_prefill(s, a + 100, 3), TFT_OK);
    assert_int_equal(hash_logits(1, s), fresh(m, "rtn", a, 103));

    /* nothing was given up since 96: later tokens are just forgotten */
    assert_int_equal(tft_rewind(s, 98), TFT_OK);
    assert_int_equal(s->kv.held, 98);
    assert_int_equal(tft_rewind(s, 96), TFT_OK); /* while these were in slots, all of them */
    assert_int_equal(tft_prefill(s, a + 96, 1), TFT_OK);
    assert_int_equal(hash_logits(1, s), fresh(m, "rtn", a, 97));
    tft_session_close(s);
    tft_model_close(m);
}

/* Until tokens are given up, and with a capacity below any window, a cache is one of f16. */
static void what_is_not_quantized_is_f16(void **state)
{
    (void)state;
    for (int i = 0; i < N_POLICIES; i++) {
        struct tft_model *m = model(policies[i].toy);
        int32_t a[LONG];
        uint32_t event[LONG], n;
        toy_tokens(1, m->n_vocab, a, LONG);
        assert_true(events(m, policies[i].kv, a, event) > 0);
        n = event[0];
        assert_int_equal(fresh(m, policies[i].kv, a, n), fresh(m, "f16", a, n));
        assert_int_not_equal(fresh(m, policies[i].kv, a, n + 1), fresh(m, "f16", a, n + 1));
        assert_int_equal(fresh(m, policies[i].kv, a, 3), fresh(m, "f16", a, 3));
        tft_model_close(m);
    }
}

static void several_logits(void **state)
{
    (void)state;
    struct tft_model *m = model(0);
    int32_t a[LONG];
    toy_tokens(1, m->n_vocab, a, LONG);
    struct tft_session *s =
        session(m, (struct tft_session_opts){
                       .n_threads = 3, .n_batch = 70, .n_logits = 70, .kv = "kivi:window=32"});
    /* the last pass is of 70 tokens, two events among them */
    assert_int_equal(tft_prefill(s, a, LONG), TFT_OK);
    struct tft_session *one =
        session(m, (struct tft_session_opts){.n_threads = 1, .kv = "kivi:window=32"});
    for (uint32_t i = 0; i < LONG; i++) {
        assert_int_equal(tft_decode(one, a[i]), TFT_OK);
        if (i >= LONG - 70)
            assert_memory_equal(tft_logits(s, LONG - 1 - i), tft_logits(one, 0),
                                m->n_vocab * sizeof(float));
    }
    tft_session_close(one);
    tft_session_close(s);
    tft_model_close(m);
}

/* A prompt with an end that the program tells is like a prompt of known length. */
static void the_end_of_a_prompt(void **state)
{
    (void)state;
    static const struct {
        const char *kv, *length_known;
    } all[] = {
        {"skvq:clip=zero,window=33,group=16,prefill=prompt",
         "skvq:clip=zero,window=33,group=16,prefill=90"},
        {"logquant:window=11,group=16,prefill=prompt", "logquant:window=11,group=16,prefill=90"},
        {"kivi:window=100,prefill=prompt", "kivi:window=100"}, /* longer than the prompt */
    };
    enum { PROMPT = 90 };
    struct tft_model *m = model(1);
    int32_t a[LONG], b[LONG];
    toy_tokens(1, m->n_vocab, a, LONG);
    toy_tokens(2, m->n_vocab, b, LONG);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_session *s = session(
            m, (struct tft_session_opts){.n_threads = 1, .n_batch = 64, .kv = all[i].kv});
        uint64_t f16 = fresh(m, "f16", a, LONG), want = fresh(m, all[i].length_known, a, LONG);
        tft_prompt_end(s); /* there is no prompt yet */
        assert_int_equal(tft_prefill(s, a, LONG), TFT_OK);
        assert_int_equal(hash_logits(1, s), f16);
        for (int again = 0; again < 3; again++) { /* the last time it goes on from its end */
            assert_int_equal(tft_rewind(s, again < 2 ? PROMPT - 5 : PROMPT), TFT_OK);
            for (int j = PROMPT - 5; again < 2 && j < PROMPT; j++)
                assert_int_equal(tft_decode(s, a[j]), TFT_OK);
            tft_prompt_end(s);
            assert_int_equal(tft_prefill(s, a + PROMPT, LONG - PROMPT - 9), TFT_OK);
            tft_prompt_end(s); /* it has ended */
            assert_int_equal(tft_prefill(s, a + LONG - 9, 9), TFT_OK);
            if (hash_logits(1, s) != want)
                fail_msg("%s, %d: not as %s", all[i].kv, again, all[i].length_known);
        }
        /* another prompt, which has not ended */
        assert_int_equal(tft_sync(s, b, LONG), TFT_OK);
        assert_int_equal(hash_logits(1, s), fresh(m, "f16", b, LONG));
        tft_session_close(s);
    }
    struct tft_session_opts o = {
        .size = sizeof o, .kv = "kivi:prefill=prompt", .slide = true, .capacity = 600};
    struct tft_session *s;
    struct tft_error err;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "prefill=prompt cannot slide"));
    tft_model_close(m);
}

/* ---- a filter */

static struct asked {
    uint32_t n;
    uint64_t position[LONG];
    int32_t token[LONG];
} asked;

static bool wanted(void *user, uint64_t position, int32_t token)
{
    struct asked *to = user;
    assert_true(to->n < LONG);
    to->position[to->n] = position;
    to->token[to->n++] = token;
    return position % 9 == 4 || token == 7;
}

static bool nothing(void *user, uint64_t position, int32_t token)
{
    (void)user, (void)position, (void)token;
    return false;
}

static const struct {
    const char *kv;
    uint32_t sinks, keep;
} filtered[] = {
    {"skvq:clip=none,k=1,window=17,group=16,keep=6", 5, 6},
    {"kivi:window=24,bits=1,prefill=60,keep=3", 0, 3},
    {"rtn:bits=1,keep=100", 0, 100},
};

static struct tft_session *with_filter(const struct tft_model *m, const char *kv, int threads,
                                       uint32_t batch)
{
    asked.n = 0;
    return session(
        m,
        (struct tft_session_opts){
            .n_threads = threads, .n_batch = batch, .kv = kv, .keep = wanted, .keep_user = &asked});
}

/* With a filter that names nothing. */
static uint64_t unfiltered(const struct tft_model *m, const char *kv, const int32_t *a)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .kv = kv, .keep = nothing});
    assert_int_equal(tft_prefill(s, a, LONG), TFT_OK);
    uint64_t h = hash_logits(1, s);
    tft_session_close(s);
    return h;
}

static uint64_t fed_filtered(const struct tft_model *m, const char *kv, const int32_t *a,
                             int threads, uint32_t chunk, uint32_t batch)
{
    struct tft_session *s = with_filter(m, kv, threads, batch);
    feed(s, a, LONG, chunk);
    uint64_t h = hash_logits(1, s);
    tft_session_close(s);
    return h;
}

/* It is asked of each token in turn, until it has named as many as may be. */
static void a_filter_is_asked_once(void **state)
{
    (void)state;
    struct tft_model *m = model(1);
    int32_t a[LONG];
    toy_tokens(1, m->n_vocab, a, LONG);
    for (size_t i = 0; i < sizeof filtered / sizeof *filtered; i++) {
        const char *kv = filtered[i].kv;
        uint64_t want = fed_filtered(m, kv, a, 1, LONG, 512);
        uint32_t n = filtered[i].sinks, named = 0;
        for (; n < LONG && named < filtered[i].keep; n++) {
            assert_int_equal(asked.position[n - filtered[i].sinks], n);
            assert_int_equal(asked.token[n - filtered[i].sinks], a[n]);
            named += n % 9 == 4 || a[n] == 7;
        }
        assert_int_equal(asked.n, n - filtered[i].sinks);
        assert_int_not_equal(want, unfiltered(m, kv, a));
        assert_int_equal(fed_filtered(m, kv, a, 1, 1, 512), want);
        assert_int_equal(asked.n, n - filtered[i].sinks);
        assert_int_equal(fed_filtered(m, kv, a, 3, 31, 7), want);
        assert_int_equal(fed_filtered(m, kv, a, 2, LONG, 45), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            struct tft_model *on = model(1);
            assert_int_equal(fed_filtered(on, kv, a, 1, LONG, 512), want);
            tft_model_close(on);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
    tft_model_close(m);
}

static void a_filter_and_back(void **state)
{
    (void)state;
    struct tft_model *m = model(1);
    int32_t a[LONG], b[LONG];
    toy_tokens(1, m->n_vocab, a, LONG);
    toy_tokens(2, m->n_vocab, b, LONG);
    for (size_t i = 0; i < sizeof filtered / sizeof *filtered; i++) {
        const char *kv = filtered[i].kv;
        struct tft_session *s = with_filter(m, kv, 1, 512);
        static const uint32_t back[] = {110, 80, 50, 20, 3, 0};
        for (size_t j = 0; j < sizeof back / sizeof *back; j++) {
            asked.n = 0;
            assert_int_equal(tft_sync(s, a, LONG), TFT_OK);
            asked.n = 0;
            assert_int_equal(tft_rewind(s, back[j]), TFT_OK);
            assert_int_equal(tft_prefill(s, b + back[j], LONG - back[j]), TFT_OK);
            /* its answers for the others are remembered */
            assert_true(!asked.n || asked.position[0] >= back[j]);
            uint64_t got = hash_logits(1, s);
            int32_t both[LONG];
            memcpy(both, a, back[j] * sizeof *a);
            memcpy(both + back[j], b + back[j], (LONG - back[j]) * sizeof *b);
            if (fed_filtered(m, kv, both, 1, LONG, 512) != got)
                fail_msg("%s: other logits after going back to %u", kv, back[j]);
        }
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* ---- memory */

static void memory_is_known_before(void **state)
{
    (void)state;
    static const uint32_t capacities[] = {1, 50, 640};
    for (int i = 0; i < N_POLICIES; i++) {
        struct tft_model *m = model(policies[i].toy);
        int32_t tokens[641] = {0};
        for (int c = 0; c < 3; c++) {
            struct memory mem = {0};
            struct tft_allocator a = memory_allocator(&mem);
            struct tft_session_opts o = {.size = sizeof o,
                                         .allocator = &a,
                                         .capacity = capacities[c],
                                         .n_threads = 1 + c,
                                         .kv = policies[i].kv};
            struct tft_session *s = session(m, o);
            assert_int_equal(mem.in_use, tft_session_bytes(m, &o, NULL));
            assert_int_equal(tft_prefill(s, tokens, capacities[c] < 60 ? capacities[c] : 60),
                             TFT_OK);
            assert_int_equal(tft_prefill(s, tokens, 641), TFT_ERR_FULL);
            assert_int_equal(mem.calls, 1);
            tft_session_close(s);
            assert_int_equal(mem.in_use, 0);
            mem.fail_at = 2;
            assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_NOMEM);
        }
        tft_model_close(m);
    }
}

/* Room in f16 for a whole prompt, and for the tokens that a filter may name. */
static void memory_of_what_stays(void **state)
{
    (void)state;
    struct tft_model *m = model(0);
    size_t slot = (size_t)2 * 2 * m->n_layer * m->n_head_kv * m->head_dim;
    struct tft_session_opts o = {
        .size = sizeof o, .n_threads = 1, .n_batch = 16, .kv = "kivi:window=64"};
    size_t plain = tft_session_bytes(m, &o, NULL), whole, named;
    o.kv = "kivi:window=64,prefill=480";
    whole = tft_session_bytes(m, &o, NULL);
    assert_in_range(whole - plain, (480 - 96) * slot,
                    (480 - 96) * (slot + 3 * sizeof(uint32_t)) +
                        1024); /* 64 and the tokens that wait for their block */
    o.kv = "kivi:window=64,prefill=90";
    assert_int_equal(tft_session_bytes(m, &o, NULL), plain);
    o.kv = "kivi:window=64,keep=32";
    o.keep = wanted;
    named = tft_session_bytes(m, &o, NULL);
    assert_in_range(named - plain, 32 * slot,
                    32 * (slot + 3 * sizeof(uint32_t) + m->head_dim * sizeof(uint16_t)) + 640 +
                        1024);

    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    o.allocator = &a;
    o.keep_user = &asked;
    asked.n = 0;
    struct tft_session *s = session(m, o);
    int32_t tokens[LONG];
    toy_tokens(1, m->n_vocab, tokens, LONG);
    assert_int_equal(mem.in_use, named);
    assert_int_equal(tft_prefill(s, tokens, LONG), TFT_OK);
    assert_int_equal(mem.calls, 1);
    tft_session_close(s);
    tft_model_close(m);
}

/* A token that has been quantized, in bytes: two layers of two heads of 16. */
static void bytes_of_a_token(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        double bytes; /* of a head: codes of keys, their scales and middles; the same of values */
    } all[] = {
        {NULL, 24 + 20.25}, /* i8: 16 numbers and a scale; the key's sum, 16 sums of 256 values */
        {"i8", 24 + 20.25},
        {"f16", 32 + 32},
        {"f32", 64 + 64},
        {"rtn", 4 + 4 + 4 + 4},  /* 2 bits; f16 twice for 16 channels, which are less than
                                             a group */
        {"kivi", 4 + 2 + 4 + 4}, /* 16 channels have f16 twice for 32 tokens */
        {"kivi:slots=i8", 4 + 2 + 4 + 4},
        {"kivi:bits=4", 8 + 2 + 8 + 4},
        {"kivi:bits=16", 32 + 32},
        {"kivi:bits=1,group=128", 2 + .5 + 2 + 4},
        {"kivi:k=3,v=8@channel", 6 + 2 + 16 + 2},
        {"asymkv:lk=1", 3 + 2 + 2 + 4}, /* one layer has 2 bits, the other one */
        {"asymkv:lk=2,lv=1", 4 + 2 + 3 + 4},
        {"skvq:reorder=none,clip=zero",
         4 + 2.25 + 4 + 2.25}, /* E4M3, and two exponents with 6 bytes of padding for 32 tokens */
        /* five quads of tokens in 64 bytes, three of 2 bits */
        {"kivi:v=1.5,group=32", 4 + 2 + (64 + 3 * 16) / 32. + 4},
        {"tuffet:sinks=0,keep=0,k=2.25@mixed", 4.5 + 1 + 4 + 4},
        {"tuffet:sinks=0,keep=0,k=1@mixed", 2 + 1 + 4 + 4},
        {"kivi:k=4x1/1,v=3x1/2", (8 + 2) / 2. + (2 + 2) / 2. + (6 + 4) / 2. + (4 + 4) / 2.},
        {"tuffet:sinks=0,keep=0,k=2.5x1/1.25,v=16x1/1.5,group=32",
         (5 + 2 + 2.5 + 2) / 2 + (32 + (64 + 3 * 16) / 32. + 4) / 2},
        {"tuffet:sinks=0,keep=0,k=16x1/1.25,scales=f8,group=32", (32 + 2.5 + 1.25) / 2 + 4 + 2.25},
    };
    struct toy t = toys[1];
    t.head_dim = t.n_rot = 16;
    struct tft_model *m = opened(written(&t));
    m->key_importance = importance;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t got = tft_kv_bytes(m, all[i].kv, NULL), want = (size_t)(4 * all[i].bytes + .999);
        if (got != want)
            fail_msg("%s: %zu bytes, not %zu", all[i].kv ? all[i].kv : "NULL", got, want);
    }
    assert_int_equal(tft_kv_bytes(m, "kivi:bits=9", NULL), 0);
    m->key_importance = NULL;
    assert_int_equal(tft_kv_bytes(m, "tuffet", NULL), 0);

    /* and a longer session takes as much more, beside the other memory that grows with tokens */
    struct tft_session_opts o = {.size = sizeof o,
                                 .capacity = 320,
                                 .n_batch = 16,
                                 .n_threads = 1,
                                 .kv = "kivi:bits=1,window=32"};
    size_t less = tft_session_bytes(m, &o, NULL);
    o.capacity = 640;
    size_t more = tft_session_bytes(m, &o, NULL), own = sizeof(int32_t) * 320,
           parts = 4 * (16 + 2) * sizeof(float);
    assert_in_range(more - less, 320 * tft_kv_bytes(m, o.kv, NULL) + own,
                    320 * tft_kv_bytes(m, o.kv, NULL) + own + 2 * parts + 512);
    tft_model_close(m);
}

/* ---- refusals */

static void refused(const struct tft_model *m, const char *kv, enum tft_status want,
                    const char *line)
{
    struct tft_session_opts o = {.size = sizeof o, .kv = kv};
    struct tft_session *s;
    struct tft_error err = {0};
    if (tft_session_open(&s, m, &o, &err) != want || !strstr(err.msg, line))
        fail_msg("%s: %d, %s", kv, (int)err.code, err.msg);
    assert_null(s);
    struct tft_error session = {0}, token = {0};
    assert_int_equal(tft_session_bytes(m, &o, &session), 0);
    assert_string_equal(session.msg, err.msg);
    assert_int_equal(session.code, want);
    assert_int_equal(tft_kv_bytes(m, kv, &token), 0);
    assert_string_equal(token.msg, err.msg);
}

static void refused_by_name(void **state)
{
    (void)state;
    static const struct toy odd = {.arch = "gpt2",
                                   .n_vocab = 32,
                                   .n_ctx = 64,
                                   .n_embd = 20,
                                   .n_layer = 1,
                                   .n_head = 2,
                                   .n_head_kv = 2,
                                   .head_dim = 10,
                                   .n_ff = 40,
                                   .type = TFT_F32,
                                   .tied = true},
                            wide = {.arch = "llama",
                                    .n_vocab = 32,
                                    .n_ctx = 64,
                                    .n_embd = 20,
                                    .n_layer = 1,
                                    .n_head = 1,
                                    .n_head_kv = 1,
                                    .head_dim = 516,
                                    .n_ff = 40,
                                    .n_rot = 20,
                                    .type = TFT_F32,
                                    .tied = true};
    struct tft_model *m = opened(written(&odd));
    refused(m, "kivi", TFT_ERR_UNSUPPORTED,
            "m.gguf: heads of 10 channels: a quantized KV cache takes multiples of 4 up to 512");
    tft_session_close(session(m, (struct tft_session_opts){.kv = "f16"}));
    tft_model_close(m);
    m = opened(written(&wide));
    refused(m, "rtn", TFT_ERR_UNSUPPORTED,
            "m.gguf: heads of 516 channels: a quantized KV cache takes multiples of 4 up to 512");
    tft_model_close(m);

    m = opened(written(&toys[0]));
    assert_null(m->key_importance);
    refused(m, "tuffet", TFT_ERR_ARG,
            "m.gguf: this KV cache has mixed keys, and the file lacks the importance of its "
            "channels: make it with tuffet quantize");
    refused(m, "kivi:k=3@mixed", TFT_ERR_ARG, "mixed keys");
    refused(m, "kivi:colour=2", TFT_ERR_ARG, "\"colour\"");
    assert_int_equal(tft_kv_bytes(m, "kivi:keep=9", NULL), tft_kv_bytes(m, "kivi", NULL));
    struct tft_session_opts o = {.kv = "tuffet:sinks=0,keep=0,k=2@channel"};
    tft_session_close(session(m, o));
    refused(m, "skvq", TFT_ERR_ARG,
            "m.gguf: not calibrated for this KV cache, but for none: make the file with tuffet "
            "quantize --kv");
    calibrate(m);
    refused(m, "skvq", TFT_ERR_ARG, "but for skvq:k=3,group=16");
    refused(m, "skvq:group=16", TFT_ERR_ARG, "not calibrated");
    refused(m, "skvq:k=3,group=16,reorder=none", TFT_ERR_ARG, "not calibrated");
    tft_session_close(session(m, (struct tft_session_opts){0}));
    tft_session_close(session(m, (struct tft_session_opts){.kv = "skvq:group=16,clip=none"}));
    tft_model_close(m);
}

/* The squared error of groups of 32 numbers of a Gaussian as codes of `levels`, with the lists of
   clips from entry `first` on. */
static double fit_error(int levels, size_t first, size_t n_clip)
{
    static const float clips[TFT_FIT_LISTS][TFT_KV_N_CLIPS] = {TFT_KV_CLIPS};
    enum { N = 32 };
    struct tft_kernels k;
    float x[N * 16], half[16], scale[16], mid[16];
    uint8_t code[N * 16];
    double sum = 0;
    tft_kernels_fill(&k, 0);
    for (int i = 0; i < 16; i++)
        half[i] = (float)(levels - 1) / 2;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < N * 16; i++)
            x[i] = random_normal();
        k.fit(&(struct tft_fit_groups){code, 16, scale, mid, x, 16, N, half},
              &(struct tft_fit){.clip = {clips[0] + first, clips[1] + first, clips[2] + first},
                                .n_clip = n_clip});
        for (int i = 0; i < N * 16; i++) {
            float e = x[i] - (((float)code[i] - half[0]) * scale[i % 16] + mid[i % 16]);
            sum += (double)(e * e);
        }
    }
    return sum;
}

/* With few levels most of the range is clipped, so the lists reach that far. */
static void few_levels_are_clipped_far(void **state)
{
    (void)state;
    static const double part[] = {0.19, 0.51, 0.65}; /* of the error of the whole range */
    for (int levels = 2; levels <= 4; levels++) {
        double whole = fit_error(levels, 0, 1), best = fit_error(levels, 0, TFT_KV_N_CLIPS),
               last = fit_error(levels, TFT_KV_N_CLIPS - 1, 1);
        if (!(best < part[levels - 2] * whole))
            fail_msg("%d levels: %.3f of the error of the whole range", levels, best / whole);
        assert_true(last > best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_every_isa_and_machine),
        cmocka_unit_test(back_beyond_what_was_quantized),
        cmocka_unit_test(back_twice_before_anything_is_computed),
        cmocka_unit_test(what_is_not_quantized_is_f16),
        cmocka_unit_test(several_logits),
        cmocka_unit_test(the_end_of_a_prompt),
        cmocka_unit_test(a_filter_is_asked_once),
        cmocka_unit_test(a_filter_and_back),
        cmocka_unit_test(memory_is_known_before),
        cmocka_unit_test(memory_of_what_stays),
        cmocka_unit_test(bytes_of_a_token),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(few_levels_are_clipped_far),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
