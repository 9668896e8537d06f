/* Sessions that propose their next tokens: all that can be seen of them is the same, bit for bit,
   as of sessions that do not, whatever is done to them. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/splitmix64.h"
#include "caches.h"
#include "expert_toys.h"
#include "fed.h"
#include "half_toys.h"
#include "layer_toys.h"
#include "memory.h"
#include "more_toys.h"
#include "rwkv_toys.h"
#include "run/lookup.h"
#include "w8a8.h"

enum { MOST = 14, CONTEXT = 300 };

/* ------------------------------------------------------------------------------ draft tokens */

/* Shows all tokens, one by one; returns the number of draft tokens that follow, in draft[MOST]. */
static uint32_t drafts_after(struct tft_lookup *k, const int32_t *tokens, uint32_t n,
                              int32_t *draft)
{
    int32_t all[200];
    memcpy(all, tokens, n * sizeof *tokens);
    for (uint32_t i = 1; i <= n; i++)
        tft_lookup_see(k, all, i);
    uint32_t made = tft_lookup_propose(k, all, n, MOST);
    memcpy(draft, all + n, made * sizeof *draft);
    return made;
}

/* With costs of 0 all draft tokens are made. */
static void follow_the_longest_text(void **state)
{
    (void)state;
    static const struct {
        int32_t tokens[16];
        uint32_t n, made;
        int32_t draft[MOST];
    } cases[] = {
        {{1}, 1, 0, {0}},
        {{1, 2, 3}, 3, 0, {0}},
        /* 1 2, which 3 follows, is a longer match than the newer 2 that 4 follows */
        {{1, 2, 3, 9, 2, 4, 1, 2}, 8, MOST, {3, 9, 2, 4, 1, 2, 3, 9, 2, 4, 1, 2, 3, 9}},
        /* of equal texts the newest */
        {{1, 5, 1, 6, 1}, 5, MOST, {6, 1, 6, 1, 6, 1, 6, 1, 6, 1, 6, 1, 6, 1}},
        {{7, 7}, 2, MOST, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}},
        /* a text may begin where the session begins */
        {{1, 2, 8, 1, 2}, 5, MOST, {8, 1, 2, 8, 1, 2, 8, 1, 2, 8, 1, 2, 8, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_lookup k;
        int32_t draft[MOST];
        tft_lookup_open(&k, MOST, 0);
        assert_int_equal(drafts_after(&k, cases[i].tokens, cases[i].n, draft), cases[i].made);
        assert_memory_equal(draft, cases[i].draft, cases[i].made * sizeof *draft);
        tft_lookup_forget(&k);
        assert_int_equal(tft_lookup_propose(&k, draft, 1, MOST), 0);
    }
}

/* Text that repeats brings many draft tokens, text with rejected ones none; then repeats are
   detected again, although nothing was drafted meanwhile. */
static void are_as_many_as_hold(void **state)
{
    (void)state;
    enum { PART = 120 };
    int32_t tokens[3 * PART + MOST];
    struct tft_lookup k;
    uint32_t made[3];
    tft_lookup_open(&k, MOST, 65536 / 8);
    for (int32_t i = 0; i < 3 * PART; i++)
        tokens[i] = i < PART         ? i % 5 + 1               /* 1 2 3 4 5 1 2 3 4 5 ... */
                    : i < 2 * PART   ? (i % 2 ? 9 : 1000 + i)  /* 9, and after it never the same */
                                     : (i % 2 ? 9 : 8);
    for (uint32_t i = 1; i <= 3 * PART; i++) {
        tft_lookup_see(&k, tokens, i);
        if (i % PART == 0)
            made[i / PART - 1] = tft_lookup_propose(&k, tokens, i, MOST);
        if (i == 2 * PART)
            assert_int_equal(k.length, 1); /* there would have been a draft token */
    }
    assert_int_equal(made[0], MOST);
    assert_int_equal(made[1], 0);
    assert_int_equal(made[2], MOST);
}

/* Each draft token lengthens the match for the next one. Here draft tokens are accepted after a
   match of one token, and rejected after a longer match. */
static void are_judged_by_the_growing_match(void **state)
{
    (void)state;
    int32_t tokens[4 + MOST] = {1, 2, 3, 1};
    struct tft_lookup k;
    tft_lookup_open(&k, MOST, 65536 / 2);
    tft_lookup_see(&k, tokens, 4);
    k.rate[0] = 65536;
    k.rate[1] = 65536 / 3;
    assert_int_equal(tft_lookup_propose(&k, tokens, 4, MOST), 1);
    assert_int_equal(tokens[4], 2);
    k.rate[1] = 65536;
    k.rate[2] = 65536 / 3;
    assert_int_equal(tft_lookup_propose(&k, tokens, 4, MOST), 2);
    assert_int_equal(tokens[5], 3);
}

/* ------------------------------------------------------------------- sessions with draft tokens */

/* A session that proposes tokens, and one that does not. The same is done to both. */
struct twins {
    struct tft_session *s, *plain;
    struct tft_batch *batch;
    int32_t source; /* index of the token that next() will repeat */
    uint64_t seed;
    int asked[2]; /* calls of the filter of s, and of plain */
};

static uint32_t chance(struct twins *t, uint32_t n)
{
    return (uint32_t)(tft_splitmix64(&t->seed) % n);
}

static bool every_fifth(void *user, uint64_t position, int32_t token)
{
    ++*(int *)user;
    return (position * 31 + (uint64_t)token) % 5 == 0;
}

static struct twins twins(const struct tft_model *m, struct tft_session_opts o)
{
    struct twins t = {.seed = 5};
    struct tft_batch_opts bo = {.size = sizeof bo, .n_threads = o.n_threads};
    struct tft_session *draft = o.draft;
    o.draft = NULL;
    t.plain = session(m, o);
    o.lookup = o.lookup ? o.lookup : MOST;
    o.draft = draft;
    t.s = session(m, o);
    assert_int_equal(tft_batch_open(&t.batch, m, &bo, NULL), TFT_OK);
    return t;
}

static void close_twins(struct twins *t)
{
    tft_session_close(t->s);
    tft_session_close(t->plain);
    tft_batch_close(t->batch);
}

/* Both save the same bytes. It does not hold for rings: they also save how long ago tokens were
   dropped. */
static void same_saved(const struct twins *t)
{
    size_t n = tft_session_save_bytes(t->plain, NULL);
    unsigned char *a = malloc(n), *b = malloc(n);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(tft_session_save_bytes(t->s, NULL), n);
    assert_int_equal(tft_session_save_mem(t->s, NULL, a, n, NULL), TFT_OK);
    assert_int_equal(tft_session_save_mem(t->plain, NULL, b, n, NULL), TFT_OK);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static void same(const struct twins *t, const char *what)
{
    size_t bytes = t->s->m->n_vocab * sizeof(float), n = tft_pos(t->plain);
    assert_int_equal(tft_pos(t->s), n);
    assert_memory_equal(tft_tokens(t->s), tft_tokens(t->plain), n * sizeof(int32_t));
    assert_int_equal(tft_session_error(t->s)->code, tft_session_error(t->plain)->code);
    for (size_t back = 0; back < 3; back++) {
        const float *x = tft_logits(t->s, back), *y = tft_logits(t->plain, back);
        assert_int_equal(!x, !y);
        if (x && memcmp(x, y, bytes) != 0)
            fail_msg("%s: other logits after %zu tokens", what, n - back);
    }
    assert_int_equal(t->asked[0], t->asked[1]);
    assert_int_equal(t->s->filter.n, t->plain->filter.n);
    assert_true(t->s->lookup.ahead <= tft_capacity(t->s) - n);
    assert_int_equal(tft_guessed(t->plain), 0);
}

/* The next token of a text that repeats the session's, with changes now and then. */
static int32_t next(struct twins *t)
{
    size_t n = tft_pos(t->plain);
    if (!n || chance(t, 25) == 0) {
        t->source = n ? (int32_t)chance(t, (uint32_t)n) : 0;
        return (int32_t)chance(t, t->s->m->n_vocab);
    }
    t->source = t->source < (int32_t)n ? t->source : 0;
    return tft_tokens(t->plain)[t->source++];
}

static void both_decode(struct twins *t, int32_t token)
{
    bool step = chance(t, 4) == 0;
    struct tft_step one = {.session = t->s, .tokens = &token, .n = 1};
    enum tft_status want = tft_decode(t->plain, token);
    assert_int_equal(step ? tft_step(t->batch, &one, 1) : tft_decode(t->s, token), want);
}

static void both_prefill(struct twins *t)
{
    int32_t tokens[40];
    size_t n = 1 + chance(t, 40);
    for (size_t i = 0; i < n; i++)
        tokens[i] = next(t);
    enum tft_status want = tft_prefill(t->plain, tokens, n);
    assert_int_equal(tft_prefill(t->s, tokens, n), want);
}

static void both_sync(struct twins *t)
{
    int32_t tokens[CONTEXT];
    size_t n = tft_pos(t->plain);
    memcpy(tokens, tft_tokens(t->plain), n * sizeof *tokens);
    n = n > 6 ? n - chance(t, 6) : n;
    if (n)
        tokens[n - 1] = next(t);
    enum tft_status want = tft_sync(t->plain, tokens, n);
    assert_int_equal(tft_sync(t->s, tokens, n), want);
}

/* Loads the saved state into the same session, or into another one, and goes on. */
static void both_save(struct twins *t)
{
    struct tft_session *s[] = {t->s, t->plain};
    size_t n = tft_session_save_bytes(t->plain, NULL);
    unsigned char *p = malloc(n);
    assert_non_null(p);
    assert_int_equal(tft_session_save_mem(s[chance(t, 2)], NULL, p, n, NULL), TFT_OK);
    if (chance(t, 2))
        both_decode(t, next(t));
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_session_load_mem(s[i], NULL, p, n, NULL), TFT_OK);
    if (chance(t, 2))
        assert_int_equal(tft_session_copy(t->s, t->plain, NULL), TFT_OK);
    else
        assert_int_equal(tft_session_copy(t->plain, t->s, NULL), TFT_OK);
    free(p);
}

static void both_cancel(struct twins *t)
{
    int32_t token = next(t);
    if (tft_pos(t->plain) == tft_capacity(t->plain))
        return;
    tft_cancel(t->s);
    tft_cancel(t->plain);
    both_decode(t, token);
    assert_int_equal(tft_session_error(t->plain)->code, TFT_ERR_CANCELLED);
    same(t, "cancelled");
}

static void step(struct twins *t, const char *what)
{
    size_t n = tft_pos(t->plain);
    switch (chance(t, 20)) {
    case 0: both_prefill(t); break;
    case 1: both_sync(t); break;
    case 2: both_save(t); break;
    case 3: both_cancel(t); break;
    case 4:
        tft_prompt_end(t->s);
        tft_prompt_end(t->plain);
        break;
    case 5:
        n -= chance(t, 3) ? n / 5 : n / 2;
        assert_int_equal(tft_rewind(t->s, n), TFT_OK);
        assert_int_equal(tft_rewind(t->plain, n), TFT_OK);
        break;
    case 6:
        assert_int_equal(tft_decode(t->s, -1), TFT_ERR_ARG);
        assert_int_equal(tft_decode(t->plain, -1), TFT_ERR_ARG);
        break;
    default:
        for (uint32_t i = 0, all = 1 + chance(t, 12); i < all; i++) {
            both_decode(t, next(t));
            same(t, what);
        }
    }
    same(t, what);
}

/* Takes twins through random steps. Returns how many tokens were guessed. */
static uint64_t walk(const struct tft_model *m, struct tft_session_opts o, int steps)
{
    struct twins t;
    char what[200];
    snprintf(what, sizeof what, "%s with %s", m->arch->name, o.kv);
    o.keep_user = &t.asked[1];
    t = twins(m, o);
    if (o.keep)
        t.s->filter.user = &t.asked[0];
    for (int i = 0; i < steps; i++) {
        step(&t, what);
        if (i % 8 == 0 && !t.s->kv.ring)
            same_saved(&t);
        if (tft_pos(t.plain) == tft_capacity(t.plain) && !o.slide) {
            tft_rewind(t.s, 20);
            tft_rewind(t.plain, 20);
        }
    }
    uint64_t guessed = tft_guessed(t.s);
    close_twins(&t);
    return guessed;
}

static void every_architecture(void **state)
{
    (void)state;
    static const struct {
        const struct toy *toys;
        size_t n;
    } lists[] = {{more_toys, N_MORE},
                 {layer_toys, sizeof layer_toys / sizeof *layer_toys},
                 {half_toys, N_HALF},
                 {rwkv_toys, N_RWKV},
                 {expert_toys, sizeof expert_toys / sizeof *expert_toys}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l].n; i++) {
            struct tft_model *m = opened(written(&lists[l].toys[i]));
            struct tft_session_opts o = {.kv = i % 3 ? "f16" : "f32",
                                         .n_threads = i % 8 == 1 ? 2 : 1,
                                         .n_logits = 1 + i % 3,
                                         .n_batch = 4 + 30 * (i % 2),
                                         .capacity = CONTEXT};
            if (m->state_size)
                m->weight_bytes = 1 << 30; /* else there may be no room for copies of the states */
            uint64_t guessed = walk(m, o, 12);
            if (!m->n_expert)
                assert_true(guessed > 10);
            tft_model_close(m);
        }
}

/* Layers with a state, with full passes of draft tokens, all caches that are float or codes, and
   sessions that slide. What the twins save includes the states. */
static void with_states(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:window=32,group=16",
                                     "kivi:kr=fill:32,vr=window:16,group=16"};
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = opened(written(&state_toys[i]));
        m->weight_bytes = 1 << 30;
        for (int c = 0; c < 4; c++) {
            struct tft_session_opts o = {.kv = kv[c],
                                         .n_threads = 1 + (i + c) % 2 * 2,
                                         .checkpoints = 1 + (uint32_t)c,
                                         .capacity = 140,
                                         .slide = c % 2 == 0};
            assert_true(walk(m, o, 25) > 15);
        }
        tft_model_close(m);
    }
}

/* The addition to a cache's name that keeps a prompt in f16; i8 has no knobs. */
static const char *prompt_knob(const char *kv)
{
    if (strcmp(kv, "i8") == 0)
        return "";
    return strpbrk(kv, ":=") ? ",prefill=prompt" : ":prefill=prompt";
}

static void every_cache(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    float importance[2 * 2 * 20];
    for (uint32_t i = 0; i < 2 * 2 * 20; i++)
        importance[i] = (float)(1 + i * 37 % 101);
    m->key_importance = importance;
    for (size_t i = 0; i < N_CACHES; i++) {
        char kv[160];
        for (int variant = 0; variant < 3 && !caches[i].file; variant++) {
            snprintf(kv, sizeof kv, "%s%s", caches[i].kv,
                     variant == 1 ? prompt_knob(caches[i].kv) : "");
            struct tft_session_opts o = {.kv = kv, .n_threads = 1, .capacity = 160 + 90 * variant};
            assert_true(walk(m, o, 25) > 15);
        }
    }
    m->key_importance = NULL;
    tft_model_close(m);
}

/* Bytes with static ranges and with a range for each token. */
static void every_range(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    for (int kind = 0; kind < 2; kind++) {
        struct quantize_opts q = usual(t);
        if (kind == 1)
            q.range = by_token;
        struct tft_model *m = opened(quantized(t, &q));
        struct tft_session_opts o = {.kv = "f16", .n_threads = 1, .capacity = 200};
        assert_true(walk(m, o, 12) > 10);
        tft_model_close(m);
    }
}

/* The filter is asked for tokens that have come, not for draft tokens. */
static void with_a_filter(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    static const char *const kv[] = {"kivi:window=32,group=16,keep=6",
                                     "kivi:kr=window:14,vr=fill:24,group=16,keep=60,sinks=2"};
    for (int i = 0; i < 4; i++) {
        struct tft_session_opts o = {
            .kv = kv[i / 2], .n_threads = 1, .capacity = 150, .keep = every_fifth, .slide = i % 2};
        assert_true(walk(m, o, 150) > 20);
    }
    tft_model_close(m);
}

static void in_sessions_that_slide(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "kivi:window=32,group=16",
                                     "skvq:reorder=none,clip=zero,group=64,window=16,sinks=3"};
    const struct toy *models[] = {&small, &more_toys[16]}; /* gemma2 has windows */
    for (size_t k = 0; k < 2; k++) {
        struct tft_model *m = opened(written(models[k]));
        for (size_t i = 0; i < 3; i++) {
            struct tft_session_opts o = {
                .kv = kv[i], .n_threads = 1, .capacity = 120, .slide = true};
            assert_true(walk(m, o, 40) > 20);
        }
        tft_model_close(m);
    }
}

/* ----------------------------------------------------------------- draft tokens that are undone */

/* Feeds 1 2 3 4 5 1 2 ... until there are n tokens, of the draft tokens of a pass some have come,
   and 3 or more may still come. */
static void get_ahead(struct twins *t, size_t n)
{
    for (int32_t i = 0;
         tft_pos(t->plain) < n || t->s->lookup.ahead < 3 || !t->s->out.first_valid; i++)
        both_decode(t, i % 5 + 1);
    same(t, "ahead");
}

/* The next token is the drafted one, but the pass has not computed it as a draft token. */
static void draft_comes_later(struct twins *t, const char *what)
{
    both_decode(t, t->s->tokens[t->s->pos]);
    same(t, what);
    both_decode(t, t->s->tokens[t->s->pos]);
    same(t, what);
}

/* The prompt ends, and is quantized before the next token. */
static void the_prompt_ends(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct tft_session_opts o = {.kv = "kivi:window=32,group=16,prefill=prompt", .n_threads = 1};
    struct twins t = twins(m, o);
    get_ahead(&t, 100);
    tft_prompt_end(t.s);
    tft_prompt_end(t.plain);
    draft_comes_later(&t, "prompt_end");
    assert_int_equal(t.s->kv.at[0].blocks, 6);
    close_twins(&t);
    tft_model_close(m);
}

/* The session gets other tokens; after these the same draft token has other logits. */
static void gets_other_tokens(const struct toy *toy)
{
    struct tft_model *m = opened(written(toy));
    m->weight_bytes = 1 << 30;
    int32_t words[200];
    toy_tokens(1, m->n_vocab, words, 200);
    for (int how = 0; how < 4; how++) {
        struct twins t = twins(m, (struct tft_session_opts){.n_threads = 1});
        get_ahead(&t, 60);
        size_t n = tft_pos(t.plain);
        struct tft_session *other = session(m, (struct tft_session_opts){.n_threads = 1});
        feed(other, words, n, n);
        size_t size = tft_session_save_bytes(other, NULL);
        unsigned char *p = malloc(size);
        assert_non_null(p);
        assert_int_equal(tft_session_save_mem(other, NULL, p, size, NULL), TFT_OK);
        struct tft_session *both[] = {t.s, t.plain};
        for (int i = 0; i < 2; i++)
            if (how == 0)
                assert_int_equal(tft_session_load_mem(both[i], NULL, p, size, NULL), TFT_OK);
            else if (how == 1)
                assert_int_equal(tft_session_copy(both[i], other, NULL), TFT_OK);
            else if (how == 2)
                assert_int_equal(tft_sync(both[i], words, n), TFT_OK);
            else
                assert_int_equal(tft_prefill(both[i], words, 2), TFT_OK);
        same(&t, "other tokens");
        draft_comes_later(&t, "other tokens");
        free(p);
        tft_session_close(other);
        close_twins(&t);
    }
    tft_model_close(m);
}

static void other_tokens(void **state)
{
    (void)state;
    gets_other_tokens(&small);
    for (int i = 0; i < N_STATE; i++)
        gets_other_tokens(&state_toys[i]);
}

/* -------------------------------------------------------------------------------- saved passes */

/* Text that repeats itself: all draft tokens are accepted, and a pass has as many as asked for. */
static void passes_are_saved(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    for (uint32_t most = 1; most <= MOST; most++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.lookup = most, .capacity = 200, .n_threads = 1});
        for (int32_t i = 0; i < 100; i++)
            assert_int_equal(tft_decode(s, i % 5), TFT_OK);
        uint64_t before = tft_guessed(s);
        for (int32_t i = 100; i < 200; i++) {
            assert_int_equal(tft_decode(s, i % 5), TFT_OK);
            assert_true(s->lookup.ahead < 200 - (uint32_t)i);
        }
        uint64_t held = tft_guessed(s) - before;
        assert_in_range(held, 100 * most / (most + 1) - most, 100 * most / (most + 1) + most);
        assert_int_equal(tft_decode(s, 0), TFT_ERR_FULL);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* Sampling chooses the same tokens in both, and uses as many random numbers. */
static void samples_the_same(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    m->weight_bytes = 1 << 30; /* draft tokens cost little: more are made */
    for (int i = 0; i < 4; i++) {
        struct twins t = twins(m, (struct tft_session_opts){.n_threads = 1});
        struct tft_sampler a = {.temperature = (float)i * 0.1f, .seed = 7, .repeat_penalty = 1.1f};
        struct tft_sampler b = a;
        both_decode(&t, 1);
        for (int k = 0; k < 150; k++) {
            int32_t id = tft_sample(&a, t.s);
            assert_int_equal(id, tft_sample(&b, t.plain));
            assert_true(a.seed == b.seed);
            both_decode(&t, id);
        }
        assert_true(i > 1 || tft_guessed(t.s) > 0);
        close_twins(&t);
    }
    tft_model_close(m);
}

/* A session that is alone in a call of tft_step proposes tokens. In a pass that it shares it makes
   none; but a token that was guessed before needs no pass there either. */
static void beside_others(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct twins t = twins(m, (struct tft_session_opts){.n_threads = 1}),
                 u = twins(m, (struct tft_session_opts){.n_threads = 1});
    u.seed = 99;
    for (int i = 0; i < 200; i++) {
        int32_t a = next(&t), b = next(&u);
        struct tft_step steps[] = {{.session = t.s, .tokens = &a, .n = 1},
                                   {.session = u.s, .tokens = &b, .n = 1}};
        uint32_t ahead = t.s->lookup.ahead;
        bool holds = ahead && t.s->tokens[t.s->pos] == a, together = i % 20 >= 10;
        uint64_t guessed = tft_guessed(t.s);
        assert_int_equal(tft_step(t.batch, steps, together ? 2 : 1), TFT_OK);
        if (!together)
            assert_int_equal(tft_step(t.batch, steps + 1, 1), TFT_OK);
        assert_int_equal(tft_guessed(t.s), guessed + holds);
        if (together)
            assert_int_equal(t.s->lookup.ahead, holds ? ahead - 1 : 0);
        tft_decode(t.plain, a);
        tft_decode(u.plain, b);
        same(&t, "beside others");
        same(&u, "beside others");
    }
    assert_true(tft_guessed(t.s) > 20 && tft_guessed(u.s) > 20);
    close_twins(&t);
    close_twins(&u);
    tft_model_close(m);
}

/* --------------------------------------------------------------------------------- draft models */

/* A model that differs from `small` only in its weights, from the seed. */
static struct tft_model *another(uint64_t seed)
{
    struct toy t = small;
    t.seed = seed;
    return opened(written(&t));
}

/* Feeds the model's most likely token n times. */
static void follow_likeliest(struct twins *t, int n)
{
    struct tft_sampler likeliest = {0};
    both_decode(t, 1);
    for (int i = 1; i < n; i++)
        both_decode(t, tft_sample(&likeliest, t->plain));
}

/* The model itself proposes right, as often as there is a draft token; tokens that it would not
   choose are as they were. */
static void is_its_own_draft(const struct toy *toy)
{
    struct tft_model *m = opened(written(toy));
    m->weight_bytes = 1 << 30; /* draft tokens cost little in a pass */
    struct tft_model *d = opened(written(toy));
    for (uint32_t most = 1; most <= 5; most += 2) {
        int threads = most == 1 ? 2 : 1;
        struct tft_session *draft =
            session(d, (struct tft_session_opts){.capacity = 200, .n_threads = threads});
        struct twins t = twins(
            m, (struct tft_session_opts){
                   .capacity = 200, .lookup = most, .draft = draft, .n_threads = threads});
        follow_likeliest(&t, 60);
        uint64_t before = tft_guessed(t.s);
        struct tft_sampler likeliest = {0};
        for (int i = 0; i < 60; i++) {
            both_decode(&t, tft_sample(&likeliest, t.plain));
            if (d->state_size && t.s->draft.proposed && t.s->lookup.ahead) /* a near checkpoint */
                assert_true(tft_states_before(&draft->states, CONTEXT) + most >= tft_pos(t.s));
        }
        assert_in_range(tft_guessed(t.s) - before, 60 * most / (most + 1) - most,
                        60 * most / (most + 1) + most);
        for (int i = 0; i < 30; i++)
            both_decode(&t, i * 7 % 30);
        close_twins(&t);
        tft_session_close(draft);
    }
    tft_model_close(d);
    tft_model_close(m);
}

static void the_model_as_its_own_draft(void **state)
{
    (void)state;
    is_its_own_draft(&small);
    is_its_own_draft(&state_toys[0]);
    is_its_own_draft(&state_toys[2]);
    is_its_own_draft(&state_toys[4]);
}

/* Guesses of another model, which seldom hold; drafts with less room, and sessions that slide. */
static void another_model_as_draft(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:window=32,group=16"};
    struct tft_model *m = opened(written(&small)), *d = another(77);
    m->weight_bytes = 1 << 30;
    for (int i = 0; i < 6; i++) {
        struct tft_session *draft =
            session(d, (struct tft_session_opts){.capacity = i % 2 ? 40 : 160, .n_threads = 1});
        walk(m,
             (struct tft_session_opts){.kv = kv[i % 3],
                                       .n_threads = 1,
                                       .capacity = 160,
                                       .slide = i < 3,
                                       .draft = draft},
             25);
        tft_session_close(draft);
    }
    tft_model_close(d);
    tft_model_close(m);
}

/* If no draft token is accepted, the draft model is asked for one of 16 tokens; tokens found in the
   text are still drafted. */
static void a_draft_that_is_wrong(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small)), *d = opened(written(&small));
    m->weight_bytes = 1 << 30;
    struct tft_session *draft =
        session(d, (struct tft_session_opts){.capacity = 500, .n_threads = 1});
    struct twins t =
        twins(m, (struct tft_session_opts){
                     .capacity = 500, .lookup = 3, .draft = draft, .n_threads = 1});
    struct tft_sampler likeliest = {0};
    int tried = 0;
    for (int i = 0; i < 240; i++) {
        int32_t not_it = tft_logits(t.plain, 0) ? tft_sample(&likeliest, t.plain) : 1;
        /* no text comes twice, so that there is nothing to look up */
        both_decode(&t, (not_it + 1 + i % 5 * 3 + i / 9) % (int32_t)small.n_vocab);
        tried += i >= 80 && t.s->draft.proposed && t.s->lookup.ahead;
    }
    assert_in_range(tried, 5, 160 / 16 + 1);
    uint64_t before = tft_guessed(t.s);
    for (int i = 0; i < 100; i++)
        both_decode(&t, i % 5);
    assert_in_range(tft_guessed(t.s) - before, 50, 75);
    close_twins(&t);
    tft_session_close(draft);
    tft_model_close(d);
    tft_model_close(m);
}

static void drafts_that_are_refused(void **state)
{
    (void)state;
    static const char other[] = "the draft model has another vocabulary than";
    struct toy more = small, llama = small, gpt2 = small;
    more.n_vocab++;
    llama.n_vocab = gpt2.n_vocab = TOY_VOCAB;
    llama.vocab = "llama";
    gpt2.vocab = "gpt2";
    const struct {
        const struct toy *m, *draft;
        uint32_t lookup;
        const char *line; /* NULL: it is not refused */
    } cases[] = {{&small, &more, 1, other},
                 {&small, &llama, 1, other},
                 {&llama, &gpt2, 1, other},
                 {&llama, &llama, 0, "a draft makes guesses: set lookup, too"},
                 {&llama, &llama, 1, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_model *m = opened(written(cases[i].m)), *d = opened(written(cases[i].draft));
        struct tft_session *s = NULL, *draft = session(d, (struct tft_session_opts){0});
        struct tft_session_opts o = {
            .size = sizeof o, .lookup = cases[i].lookup, .draft = draft};
        struct tft_error err = {0};
        enum tft_status want = cases[i].line ? TFT_ERR_ARG : TFT_OK;
        assert_int_equal(tft_session_open(&s, m, &o, &err), want);
        assert_int_equal(!tft_session_bytes(m, &o, NULL), want != TFT_OK);
        if (cases[i].line)
            assert_non_null(strstr(err.msg, cases[i].line));
        tft_session_close(s);
        tft_session_close(draft);
        tft_model_close(d);
        tft_model_close(m);
    }
}

/* -------------------------------------------------------------------------------------- options */

static void options(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct tft_session_opts o = {.size = sizeof o, .lookup = MOST + 1};
    struct tft_session *s;
    struct tft_error err;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "at most 14"));
    o.lookup = 0;
    size_t without = tft_session_bytes(m, &o, NULL);
    o.lookup = MOST;
    size_t more = tft_session_bytes(m, &o, NULL) - without,
           rows = MOST * small.n_vocab * sizeof(float);
    assert_in_range(more, rows - 64, rows + 64);
    o.n_logits = MOST; /* the row of one draft token more */
    more = tft_session_bytes(m, &o, NULL);
    o.lookup = 0;
    more -= tft_session_bytes(m, &o, NULL);
    assert_in_range(more, small.n_vocab * sizeof(float) - 64, small.n_vocab * sizeof(float) + 64);
    o.lookup = MOST;
    o.n_logits = MOST + 5;
    assert_int_equal(tft_session_bytes(m, &o, NULL),
                     (o.lookup = 0, tft_session_bytes(m, &o, NULL)));
    const struct tft_session_opts none[] = {{.lookup = 9, .n_batch = 1},
                                            {.lookup = 9, .capacity = 1},
                                            {.lookup = 9, .n_hidden = 1},
                                            {.lookup = 9, .no_logits = true, .n_hidden = 1}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        s = session(m, none[i]);
        for (int32_t k = 0; k < 60 && (uint32_t)k < tft_capacity(s); k++)
            assert_int_equal(tft_decode(s, k % 3), TFT_OK);
        assert_int_equal(tft_guessed(s), 0);
        tft_session_close(s);
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_the_longest_text), cmocka_unit_test(are_as_many_as_hold),
        cmocka_unit_test(are_judged_by_the_growing_match),
        cmocka_unit_test(every_architecture),      cmocka_unit_test(with_states),
        cmocka_unit_test(every_cache),
        cmocka_unit_test(every_range),             cmocka_unit_test(with_a_filter),
        cmocka_unit_test(in_sessions_that_slide),  cmocka_unit_test(the_prompt_ends),
        cmocka_unit_test(other_tokens),            cmocka_unit_test(passes_are_saved),
        cmocka_unit_test(samples_the_same),        cmocka_unit_test(beside_others),
        cmocka_unit_test(the_model_as_its_own_draft),
        cmocka_unit_test(another_model_as_draft),  cmocka_unit_test(a_draft_that_is_wrong),
        cmocka_unit_test(drafts_that_are_refused),
        cmocka_unit_test(options),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
