/* Sessions that forget their oldest tokens when they are full. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <string.h>

#include "fed.h"
#include "more_toys.h"

static const struct toy one_layer = {.arch = "llama",
                                     .n_vocab = 47,
                                     .n_ctx = 640,
                                     .n_embd = 28,
                                     .n_layer = 1,
                                     .n_head = 2,
                                     .n_head_kv = 1,
                                     .head_dim = 8,
                                     .n_ff = 50,
                                     .n_rot = 8,
                                     .type = TFT_F32};
static const struct toy two_layers = {.arch = "qwen3",
                                      .n_vocab = 32,
                                      .n_ctx = 640,
                                      .n_embd = 32,
                                      .n_layer = 2,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .head_dim = 16,
                                      .n_ff = 48,
                                      .n_rot = 16,
                                      .type = TFT_F16};
static const struct toy learned = {.arch = "gpt2",
                                   .n_vocab = 32,
                                   .n_ctx = 640,
                                   .n_embd = 20,
                                   .n_layer = 1,
                                   .n_head = 2,
                                   .n_head_kv = 2,
                                   .head_dim = 10,
                                   .n_ff = 40,
                                   .type = TFT_F32,
                                   .tied = true};

enum { CAPACITY = 128, FED = 250 };
static int32_t tokens[FED];

static const char *const caches[] = {"f16",
                                     "f32",
                                     "i8",
                                     "kivi:window=32,group=16",
                                     "skvq:reorder=none,clip=zero,group=64,window=16,sinks=3",
                                     "logquant:window=11,group=16",
                                     "kivi:kr=fill:32,vr=window:11,group=16,sinks=2",
                                     "kivi:kr=window:14,vr=fill:24,group=16,keep=4",
                                     "kivi:window=32,group=16,sinks=2,keep=4,prefill=70"};
enum { N_CACHES = sizeof caches / sizeof *caches };

/* A filter: which tokens stay where they are one of `keep`. */
static bool wanted(void *user, uint64_t position, int32_t token)
{
    (void)user, (void)token;
    return position % 45 == 20;
}

static struct tft_session *sliding(const struct tft_model *m, const char *kv, int threads,
                                   uint32_t batch)
{
    toy_tokens(4, m->n_vocab, tokens, FED);
    return session(m, (struct tft_session_opts){.capacity = CAPACITY,
                                                .n_batch = batch,
                                                .n_threads = threads,
                                                .kv = kv,
                                                .slide = true,
                                                .keep = wanted});
}

static uint64_t hash_of(const struct tft_model *m, const char *kv, int threads, uint32_t chunk,
                        uint32_t batch)
{
    struct tft_session *s = sliding(m, kv, threads, batch);
    uint64_t h = 0;
    for (uint32_t at = 0, n; at < FED; at += n) {
        n = FED - at < chunk ? FED - at : chunk;
        n = at < 200 && at + n > 200 ? 200 - at : n; /* all of them stop here */
        assert_int_equal(tft_prefill(s, tokens + at, n), TFT_OK);
        if (at + n == 200 || at + n == FED)
            h = hash_logits(h, s);
    }
    tft_session_close(s);
    return h;
}

static void same_bits_however_fed(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&two_layers));
    for (int i = 0; i < N_CACHES; i++) {
        uint64_t want = hash_of(m, caches[i], 1, FED, 512);
        assert_int_equal(hash_of(m, caches[i], 1, 1, 512), want);
        assert_int_equal(hash_of(m, caches[i], 3, 70, 512), want);
        assert_int_equal(hash_of(m, caches[i], 2, FED, 33), want);
    }
    tft_model_close(m);
}

/* Windows of layers are counted in the tokens that the session holds. */
static void with_windows_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MORE; i++) {
        struct tft_model *m = opened(written(&more_toys[i]));
        bool windows = m->parts & TFT_BIT(TFT_PART_WINDOW);
        for (int f = 0; windows && f < 3; f++) {
            uint64_t want = hash_of(m, caches[f], 1, FED, 512);
            assert_int_equal(hash_of(m, caches[f], 1, 1, 512), want);
            assert_int_equal(hash_of(m, caches[f], 3, 70, 512), want);
            assert_int_equal(hash_of(m, caches[f], 2, FED, 33), want);
        }
        tft_model_close(m);
    }
}

/* In the first layer a key and a value depend on token and position alone. */
static void the_first_and_the_newest_stay(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&one_layer));
    struct tft_session *all = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1}),
                       *s = sliding(m, "f16", 1, 50);
    assert_int_equal(tft_prefill(all, tokens, FED), TFT_OK);
    assert_int_equal(tft_prefill(s, tokens, FED), TFT_OK);
    uint32_t n = (uint32_t)tft_pos(s), gone = FED - n;
    assert_true(n <= CAPACITY && n > CAPACITY - CAPACITY / 8 && gone % 16 == 0);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t was = i < 4 ? i : i + gone;
        const uint16_t *k = tft_kv_keys(&s->kv, 0, 0, i - i % 16),
                       *k_was = tft_kv_keys(&all->kv, 0, 0, was - was % 16);
        assert_int_equal(tft_tokens(s)[i], tokens[was]);
        assert_memory_equal(tft_kv_values(&s->kv, 0, 0, i), tft_kv_values(&all->kv, 0, 0, was),
                            8 * sizeof(uint16_t));
        for (int d = 0; d < 8; d++)
            assert_int_equal(k[d * 16 + i % 16], k_was[d * 16 + was % 16]);
    }
    tft_session_close(s);
    tft_session_close(all);
    tft_model_close(m);
}

/* StreamingLLM (Xiao et al. 2023), section 3.2: without the first four tokens attention loses its
   sinks. So a session that slides keeps these as they are, if the model has no prefix and the cache
   names no sinks. */
static void four_tokens_stay_with_any_cache(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        bool slide;
        uint32_t n_prefix, sinks;
    } all[] = {
        {"kivi:window=32,group=16", true, 0, 4},
        {"logquant:window=11,group=16", true, 0, 4},
        {"asymkv:window=32,group=16", true, 0, 4},
        {"rtn", true, 0, 4},
        {"kivi:window=32,group=16", false, 0, 0},
        {"kivi:window=32,group=16", true, 1, 0},
        {"kivi:window=32,group=16,sinks=0", true, 0, 0},
        {"kivi:window=32,group=16,sinks=2", true, 0, 2},
        {"f16", true, 1, 4},
    };
    static uint16_t prefix[2][8];
    struct tft_model *m = opened(written(&one_layer));
    struct tft_session *f16 = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    toy_tokens(4, m->n_vocab, tokens, FED);
    assert_int_equal(tft_prefill(f16, tokens, FED), TFT_OK);
    m->prefix_k = prefix[0];
    m->prefix_v = prefix[1];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        m->n_prefix = all[i].n_prefix;
        struct tft_session *s = session(
            m, (struct tft_session_opts){
                   .capacity = CAPACITY, .n_threads = 1, .kv = all[i].kv, .slide = all[i].slide});
        assert_int_equal(tft_prefill(s, tokens, all[i].slide ? FED : CAPACITY), TFT_OK);
        if (s->kv.policy.sinks != all[i].sinks)
            fail_msg("%s, %u: %u sinks", all[i].kv, all[i].n_prefix, s->kv.policy.sinks);
        assert_memory_equal(tft_tokens(s), tokens, all[i].sinks * sizeof *tokens);
        for (uint32_t j = 0; j < all[i].sinks; j++)
            assert_memory_equal(tft_kv_values(&s->kv, 0, 0, all[i].n_prefix + j),
                                tft_kv_values(&f16->kv, 0, 0, j), 8 * sizeof(uint16_t));
        assert_int_equal(s->kv.dropped > 0, all[i].slide);
        tft_session_close(s);
    }
    m->n_prefix = 0;
    tft_session_close(f16);
    tft_model_close(m);
}

/* So do the tokens that a filter has named, unchanged and before all later ones. */
static void what_a_filter_names_stays(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&one_layer));
    struct tft_session *all = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1}),
                       *s = sliding(m, caches[N_CACHES - 1], 1, 50);
    assert_int_equal(tft_prefill(all, tokens, FED), TFT_OK);
    assert_int_equal(tft_prefill(s, tokens, FED), TFT_OK);
    uint32_t n = (uint32_t)tft_pos(s), gone = FED - n;
    static const uint32_t named[] = {20, 65, 110, 155};
    assert_int_equal(s->kv.at[TFT_KV_K].named, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_memory_equal(tft_kv_values(&s->kv, 0, 0, 2 + i),
                            tft_kv_values(&all->kv, 0, 0, named[i]), 8 * sizeof(uint16_t));
        if (named[i] < gone) /* its neighbours are not there */
            assert_int_equal(tft_tokens(s)[2 + i], tokens[named[i]]);
    }
    assert_true(gone > named[1] + 4);
    assert_memory_equal(tft_tokens(s), tokens, 2 * sizeof *tokens);
    assert_memory_equal(tft_tokens(s) + n - 60, tokens + FED - 60, 60 * sizeof *tokens);
    tft_session_close(s);
    tft_session_close(all);
    tft_model_close(m);
}

/* With one layer and no sinks only the remaining tokens count, and RoPE sees distances only: a new
   session of these tokens says nearly the same. Blocks of f16, so that there is nothing but f16's
   rounding between them. */
static void what_is_left_counts(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&one_layer));
    const char *kv = "k=16@channel,v=16@channel,group=16,retain=window:20,sinks=0";
    struct tft_session *s = sliding(m, kv, 1, 512),
                       *fresh = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    assert_int_equal(tft_prefill(s, tokens, FED), TFT_OK);
    size_t n = tft_pos(s);
    assert_int_equal(tft_prefill(fresh, tokens + FED - n, n), TFT_OK);
    for (uint32_t i = 0; i < m->n_vocab; i++)
        assert_float_equal(tft_logits(s, 0)[i], tft_logits(fresh, 0)[i], 2e-2);
    tft_rewind(fresh, 0);
    /* and others another thing */
    assert_int_equal(tft_prefill(fresh, tokens + FED - n - 40, n + 40), TFT_OK);
    double most = 0;
    for (uint32_t i = 0; i < m->n_vocab; i++)
        most = fmax(most, fabs((double)tft_logits(s, 0)[i] - (double)tft_logits(fresh, 0)[i]));
    assert_true(most > 4e-2);
    tft_session_close(fresh);
    tft_session_close(s);
    tft_model_close(m);
}

static void back_and_on_again(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&two_layers));
    for (int i = 0; i < N_CACHES; i++) {
        struct tft_session *s = sliding(m, caches[i], 1, 512),
                           *fresh = sliding(m, caches[i], 1, 512);
        assert_int_equal(tft_prefill(s, tokens, 200), TFT_OK);
        uint64_t here = hash_logits(0, s);
        size_t pos = tft_pos(s);
        /* none of these makes it slide or quantize */
        assert_int_equal(tft_prefill(s, tokens, 2), TFT_OK);
        assert_int_equal(tft_pos(s), pos + 2);
        assert_int_equal(tft_rewind(s, pos - 1), TFT_OK);
        assert_int_equal(tft_prefill(s, tokens + 199, 1), TFT_OK);
        if (hash_logits(0, s) != here)
            fail_msg("%s, %zu tokens of %u", caches[i], pos, s->kv.dropped);

        /* its tokens differ from a session that never slid */
        assert_int_equal(tft_sync(s, tokens, 90), TFT_OK);
        assert_int_equal(tft_prefill(fresh, tokens, 90), TFT_OK);
        assert_int_equal(tft_pos(s), 90);
        assert_int_equal(hash_logits(0, s), hash_logits(0, fresh));
        assert_int_equal(tft_sync(s, tokens, FED), TFT_OK);
        assert_int_equal(tft_rewind(fresh, 0), TFT_OK);
        assert_int_equal(tft_prefill(fresh, tokens, FED), TFT_OK);
        assert_int_equal(hash_logits(0, s), hash_logits(0, fresh));
        tft_session_close(fresh);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* Once a session that slid has to compute its tokens again, it is one that was fed these tokens:
   the filter names by their new positions. */
static void what_is_computed_again_is_named_again(void **state)
{
    (void)state;
    const char *kv = caches[N_CACHES - 1];
    struct tft_model *m = opened(written(&two_layers));
    struct tft_session *s = sliding(m, kv, 1, 512), *fresh = sliding(m, kv, 1, 512);
    assert_int_equal(tft_prefill(s, tokens, FED), TFT_OK);
    assert_int_equal(tft_rewind(s, tft_pos(s) - 60), TFT_OK);
    assert_int_equal(s->kv.held, 0);
    assert_int_equal(tft_decode(s, tokens[0]), TFT_OK);
    assert_int_equal(tft_prefill(fresh, tft_tokens(s), tft_pos(s)), TFT_OK);
    assert_int_equal(s->filter.n, fresh->filter.n);
    assert_int_equal(hash_logits(0, s), hash_logits(0, fresh));
    tft_session_close(fresh);
    tft_session_close(s);
    tft_model_close(m);
}

/* Places of a cache: slots, then blocks of 16 tokens in f16. row: gets the key, or the value. */
static void row_at(const struct tft_kv *kv, int side, uint32_t place, uint16_t row[8])
{
    const struct tft_retained *at = &kv->at[side];
    uint32_t slots = at->sinks + at->named + at->waiting + at->kept,
             b = place < slots ? 0 : (place - slots) / 16,
             i = (place < slots ? place : place - slots) % 16;
    const uint16_t *key = place < slots ? tft_kv_keys(kv, 0, 0, place - i)
                                        : tft_kv_f16_keys(kv, 0, 0, b),
                   *value = place < slots ? tft_kv_values(kv, 0, 0, place)
                                          : tft_kv_f16_values(kv, 0, 0, b) + (size_t)i * 8;
    for (int d = 0; d < 8; d++)
        row[d] = side == TFT_KV_K ? key[d * 16 + i] : value[d];
}

/* The tokens of a cache's keys, by comparison with a cache of all positions. Returns how many. */
static uint32_t positions_held(const struct tft_session *s, const struct tft_session *all,
                               bool held[FED])
{
    const struct tft_retained *at = &s->kv.at[TFT_KV_K];
    uint32_t n = at->sinks + at->named + at->waiting + at->kept + at->blocks * 16;
    uint16_t key[8], value[8], other[8];
    memset(held, 0, FED * sizeof *held);
    for (uint32_t place = 0; place < n; place++) {
        uint32_t found = 0;
        row_at(&s->kv, TFT_KV_K, place, key);
        row_at(&s->kv, TFT_KV_V, place, value);
        for (uint32_t i = 0; i < FED; i++) {
            row_at(&all->kv, TFT_KV_K, i, other);
            if (memcmp(key, other, sizeof key) != 0)
                continue;
            row_at(&all->kv, TFT_KV_V, i, other);
            assert_memory_equal(value, other, sizeof value);
            assert_false(held[i]);
            held[i] = true;
            found++;
        }
        assert_int_equal(found, 1);
    }
    return n;
}

/* The session lists the tokens that its cache has, and computes these again. */
static void what_is_held_is_listed(void **state)
{
    (void)state;
    static const char *const kv[] = {"bits=16,retain=log2:11,group=16,sinks=0",
                                     "bits=16,retain=log2:4,group=16,sinks=3",
                                     "bits=16,retain=fill:30,group=16,sinks=1",
                                     "bits=16,retain=window:20,group=16,sinks=4"};
    struct tft_model *m = opened(written(&one_layer));
    struct tft_session *all = session(m, (struct tft_session_opts){.kv = "f16", .n_threads = 1});
    for (size_t c = 0; c < sizeof kv / sizeof *kv; c++) {
        struct tft_session *s = sliding(m, kv[c], 1, 50), *fresh = sliding(m, kv[c], 1, 512);
        int32_t want[CAPACITY];
        uint32_t n = 0;
        bool held[FED];
        assert_int_equal(tft_sync(all, tokens, FED), TFT_OK);
        assert_int_equal(tft_prefill(s, tokens, FED), TFT_OK);
        assert_true(s->kv.dropped >= 5 * 16);
        assert_int_equal(positions_held(s, all, held), tft_pos(s));
        for (uint32_t i = 0; i < FED; i++)
            if (held[i])
                want[n++] = tokens[i];
        for (uint32_t i = 0; i < n; i++)
            if (tft_tokens(s)[i] != want[i])
                fail_msg("%s: token %u of %u is %d, the cache has %d", kv[c], i, n,
                         (int)tft_tokens(s)[i], (int)want[i]);
        assert_int_equal(tft_rewind(s, n - 60), TFT_OK);
        assert_int_equal(s->kv.held, 0);
        assert_int_equal(tft_prefill(s, tokens, 1), TFT_OK);
        want[n - 60] = tokens[0];
        assert_int_equal(tft_prefill(fresh, want, n - 59), TFT_OK);
        assert_int_equal(hash_logits(0, s), hash_logits(0, fresh));
        tft_session_close(fresh);
        tft_session_close(s);
    }
    tft_session_close(all);
    tft_model_close(m);
}

/* Split retention with keys and values of 16 bits equals a cache of f16: so are the logits, but for
   the order of sums, if every value still meets its own key's probability. */
static void apart_is_the_same_text(void **state)
{
    (void)state;
    static const char *const kv[] = {
        "bits=16,kr=fill:24,vr=window:11,group=16,sinks=4",
        "bits=16,kr=window:2,vr=fill:40,group=16,sinks=4",
    };
    struct tft_model *m = opened(written(&two_layers));
    for (int i = 0; i < 2; i++) {
        struct tft_session *f16 = sliding(m, "f16", 1, 512), *s = sliding(m, kv[i], 2, 512);
        for (uint32_t at = 0; at < FED; at++) {
            assert_int_equal(tft_decode(f16, tokens[at]), TFT_OK);
            assert_int_equal(tft_decode(s, tokens[at]), TFT_OK);
            assert_int_equal(tft_pos(s), tft_pos(f16));
            for (uint32_t j = 0; j < m->n_vocab; j++)
                assert_float_equal(tft_logits(s, 0)[j], tft_logits(f16, 0)[j], 1e-4);
        }
        assert_true(s->kv.dropped > 100);
        tft_session_close(f16);
        tft_session_close(s);
    }
    tft_model_close(m);
}

static void some_cannot(void **state)
{
    (void)state;
    struct tft_error err;
    struct tft_session *s;
    struct tft_session_opts o = {.size = sizeof o, .slide = true, .n_threads = 1};
    struct tft_model *m = opened(written(&learned));
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_UNSUPPORTED);
    tft_model_close(m);
    m = opened(written(&two_layers));
    o.capacity = 20;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    o.capacity = 21;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_OK);
    tft_session_close(s);
    o.capacity = CAPACITY;
    o.kv = "kivi"; /* which may have all of these in f16 */
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    o.kv = "kivi:kr=log2:5,vr=window:8,group=16"; /* their first blocks have other tokens */
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "cannot slide"));
    o.slide = false;
    o.kv = NULL;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_OK);
    toy_tokens(4, m->n_vocab, tokens, FED);
    assert_int_equal(tft_prefill(s, tokens, CAPACITY + 1), TFT_ERR_FULL);
    tft_session_close(s);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(with_windows_too),
        cmocka_unit_test(the_first_and_the_newest_stay),
        cmocka_unit_test(four_tokens_stay_with_any_cache),
        cmocka_unit_test(what_is_left_counts),
        cmocka_unit_test(what_a_filter_names_stays),
        cmocka_unit_test(what_is_held_is_listed),
        cmocka_unit_test(back_and_on_again),
        cmocka_unit_test(apart_is_the_same_text),
        cmocka_unit_test(some_cannot),
        cmocka_unit_test(what_is_computed_again_is_named_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
