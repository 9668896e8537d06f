/* Saved sessions: a loaded session goes on with the same bits, with every kind of cache, window and
   state; a bad file is refused, and changes nothing. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/bytes.h"
#include "base/crc32.h"
#include "base/splitmix64.h"
#include "caches.h"
#include "fed.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "prefixes.h"
#include "run/saved.h"

enum { CHECKSUM = 4, TEXT = 640 };

static int32_t text[TEXT];
static float importance[2 * 2 * 20], clip[2][2 * 2 * 2];
static int32_t key_order[2 * 2 * 20];

/* The model of caches.h, with all that its caches may need. */
static struct tft_model *small_model(const char *calibrated_for)
{
    struct tft_model *m = opened(written(&small));
    for (uint32_t i = 0; i < 2 * 2 * 20; i++) {
        importance[i] = (float)(1 + i * 37 % 101);
        key_order[i] = (int32_t)((i % 20 * (i / 20 % 2 ? 7 : 3) + i / 20) % 20);
    }
    for (uint32_t i = 0; i < 2 * 2 * 2; i++)
        clip[0][i] = clip[1][i] = 1 - 0.05f * (float)i;
    m->key_importance = importance;
    if (calibrated_for) {
        m->kv_text = calibrated_for;
        assert_int_equal(tft_kv_parse(&m->kv_policy, calibrated_for, NULL), TFT_OK);
        m->key_order = key_order;
        m->kv_clip[0] = clip[0];
        m->kv_clip[1] = clip[1];
    }
    toy_tokens(5, m->n_vocab, text, TEXT);
    return m;
}

static unsigned char *saved(const struct tft_session *s, size_t *n)
{
    *n = tft_session_save_bytes(s, NULL);
    unsigned char *p = malloc(*n);
    assert_non_null(p);
    assert_int_equal(tft_session_save_mem(s, NULL, p, *n, NULL), TFT_OK);
    return p;
}

static void must_load(struct tft_session *s, const void *p, size_t n)
{
    struct tft_error err;
    if (tft_session_load_mem(s, NULL, p, n, &err) != TFT_OK)
        fail_msg("%s", err.msg);
}

static void same_session(const struct tft_session *a, const struct tft_session *b)
{
    assert_int_equal(tft_pos(a), tft_pos(b));
    assert_int_equal(a->kv.held, b->kv.held);
    assert_int_equal(a->filter.n, b->filter.n);
    assert_memory_equal(tft_tokens(a), tft_tokens(b), tft_pos(a) * sizeof(int32_t));
    assert_int_equal(!tft_logits(a, 0), !tft_logits(b, 0));
    if (tft_logits(a, 0))
        same_last_logits(a, b);
}

/* Some steps of a session. Its tokens are the tokens of `text`, as far as it has not slid. */
static void step(struct tft_session *s, uint64_t *seed)
{
    uint64_t r = tft_splitmix64(seed);
    uint32_t pos = (uint32_t)tft_pos(s), n = 1 + (uint32_t)(r >> 8) % 40;
    if (r % 8 == 0)
        assert_int_equal(tft_rewind(s, pos - (pos < 50 ? pos / 2 : r / 8 % 50)), TFT_OK);
    else if (r % 8 == 1)
        tft_prompt_end(s);
    else if (s->slide || pos + n <= s->capacity)
        feed(s, text + pos % (TEXT - 40), n, n);
}

/* One session goes through some steps, another through the same and is copied, or saved and loaded,
   after each into one with options `other` and back. */
static void carried_by(bool copies, const struct tft_model *m, struct tft_session_opts o,
                       struct tft_session_opts other, int steps)
{
    struct tft_session *want = session(m, o), *got[2] = {session(m, o), session(m, other)};
    uint64_t seed[2] = {7, 7};
    for (int i = 0; i < steps; i++) {
        step(want, &seed[0]);
        step(got[i % 2], &seed[1]);
        same_session(want, got[i % 2]);
        size_t n, again;
        unsigned char *p = saved(got[i % 2], &n), *q;
        if (copies)
            assert_int_equal(tft_session_copy(got[1 - i % 2], got[i % 2], NULL), TFT_OK);
        else
            must_load(got[1 - i % 2], p, n);
        same_session(want, got[1 - i % 2]);
        q = saved(got[1 - i % 2], &again);
        if (!m->kv_window && !m->state_size) { /* these depend on room for windows and states */
            assert_int_equal(n, again);
            assert_memory_equal(p, q, n);
        }
        free(p);
        free(q);
    }
    tft_session_close(want);
    tft_session_close(got[0]);
    tft_session_close(got[1]);
}

static void carried(const struct tft_model *m, struct tft_session_opts o,
                    struct tft_session_opts other, int steps)
{
    carried_by(false, m, o, other, steps);
    carried_by(true, m, o, other, steps);
}

static void every_cache(void **state)
{
    (void)state;
    for (int c = -2; c < N_CACHES; c++) {
        struct tft_model *m = small_model(c < 0 ? NULL : caches[c].file);
        const char *kv = c == -2 ? "f16" : c == -1 ? "f32" : caches[c].kv;
        struct tft_session_opts o = {.kv = kv, .n_threads = 1, .capacity = 500, .n_batch = 64},
                                other = {.kv = kv, .n_threads = 2, .capacity = 620, .n_logits = 3};
        carried(m, o, other, 10);
        tft_model_close(m);
    }
}

static void a_prompt_that_stays_open(void **state)
{
    (void)state;
    struct tft_model *m = small_model(NULL);
    struct tft_session_opts o = {.kv = "kivi:window=24,group=16,prefill=prompt", .n_threads = 1};
    carried(m, o, o, 12);
    tft_model_close(m);
}

static bool some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position + (uint64_t)token) % 9 == 0;
}

static void sliding_and_named(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:window=32,group=16",
                                     "logquant:window=11,group=16",
                                     "kivi:kr=window:14,vr=fill:24,group=16,keep=4",
                                     "kivi:window=32,group=16,sinks=2,keep=4,prefill=70"};
    struct tft_model *m = small_model(NULL);
    for (size_t c = 0; c < sizeof kv / sizeof *kv; c++) {
        struct tft_session_opts o = {.kv = kv[c], .n_threads = 1, .capacity = 128, .slide = true,
                                     .keep = some};
        carried(m, o, o, 16);
    }
    tft_model_close(m);
}

/* Rings of another size: passes are shorter in the other session, and it has a smaller capacity. */
static void windows_and_states(void **state)
{
    (void)state;
    struct tft_session_opts o = {.n_threads = 1, .capacity = 640},
                            other = {.n_threads = 1, .capacity = 620, .n_batch = 24,
                                     .checkpoints = 2};
    for (int i = 0; i < N_MORE; i++) {
        if (!more_toys[i].numbers && i < N_MORE - N_STATE)
            continue;
        struct tft_model *m = opened(written(&more_toys[i]));
        toy_tokens(5, m->n_vocab, text, TEXT);
        carried(m, o, other, 9);
        tft_model_close(m);
    }
    for (int i = 0; i < N_LAYER_TOYS; i++) {
        struct tft_model *m = opened(written(&layer_toys[i]));
        toy_tokens(5, m->n_vocab, text, TEXT);
        carried(m, o, other, 9);
        tft_model_close(m);
    }
}

/* Long enough for rings to lose tokens, in both directions between rings of two sizes. */
static void full_windows(bool copies)
{
    struct toy long_toy = layer_toys[1];
    long_toy.n_ctx = 1600;
    struct tft_model *m = opened(written(&long_toy));
    struct tft_session_opts o = {.n_threads = 1, .n_batch = 256}, other = {.n_threads = 1,
                                                                           .n_batch = 600};
    struct tft_session *s[2] = {session(m, o), session(m, other)}, *fresh = session(m, o);
    assert_int_not_equal(s[0]->kv.ring[0].slots[0], s[1]->kv.ring[0].slots[0]);
    toy_tokens(5, m->n_vocab, text, TEXT);
    size_t n, ends[] = {600, 1150, 1500}, at = 0;
    for (int i = 0; i < 3; i++) {
        for (; at < ends[i]; at += 50) {
            feed(s[i % 2], text + at % 600, 50, 50);
            feed(fresh, text + at % 600, 50, 50);
        }
        unsigned char *p = saved(s[i % 2], &n);
        tft_session_close(s[1 - i % 2]); /* nothing of the text is in it yet */
        s[1 - i % 2] = session(m, i % 2 ? o : other);
        const struct tft_kv *kv = &s[1 - i % 2]->kv;
        memset(kv->v, 0x3c, kv->ring[0].heads.n * kv->ring[0].heads.dim * kv->ring[0].slots[1] * 2);
        if (copies)
            assert_int_equal(tft_session_copy(s[1 - i % 2], s[i % 2], NULL), TFT_OK);
        else
            must_load(s[1 - i % 2], p, n);
        same_session(fresh, s[1 - i % 2]);
        free(p);
        /* also to tokens that the first ring lost, and for which the second has slots */
        for (size_t back = 50; back <= 700 && back < at; back += 650) {
            assert_int_equal(tft_rewind(s[1 - i % 2], at - back), TFT_OK);
            for (size_t t = at - back; t < at; t += 50)
                feed(s[1 - i % 2], text + t % 600, 50, 50);
            same_last_logits(fresh, s[1 - i % 2]);
        }
    }
    tft_session_close(fresh);
    tft_session_close(s[0]);
    tft_session_close(s[1]);
    tft_model_close(m);
}

static void windows_that_are_full(void **state)
{
    (void)state;
    full_windows(false);
    full_windows(true);
}

static void prefixes(void **state)
{
    (void)state;
    static const int32_t own[] = {3, 9, 4}, named[] = {5, 6, 7, 8, 2};
    const struct prefix_text p[] = {{.tokens = own, .n = 3}, {.name = "a", .tokens = named, .n = 5},
                                    {.name = "b", .tokens = named, .n = 4}};
    const char *from = written(&small), *to = in_folder("p.gguf");
    write_prefixes(from, to, p, 3, -1);
    struct tft_model *m = opened(to);
    toy_tokens(5, m->n_vocab, text, TEXT);
    for (int i = 0; i < 2; i++) {
        struct tft_session_opts o = {.n_threads = 1, .prefix = i ? "a" : NULL,
                                     .kv = "kivi:window=32,group=16"};
        carried(m, o, o, 8);
        struct tft_session *s = session(m, o), *t;
        struct tft_error err;
        size_t n;
        o.prefix = "b";
        t = session(m, o);
        feed(s, text, 20, 20);
        unsigned char *q = saved(s, &n);
        assert_int_equal(tft_session_load_mem(t, NULL, q, n, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, "another prefix"));
        free(q);
        tft_session_close(s);
        tft_session_close(t);
    }
    tft_model_close(m);
}

/* Every byte that is changed, and every length that is cut off, is noticed; the session stays. */
static void damage_is_refused(void **state)
{
    (void)state;
    struct tft_model *m = small_model(NULL);
    struct tft_session_opts o = {.kv = "logquant:window=3,group=16", .n_threads = 1,
                                 .capacity = 64};
    struct tft_session *s = session(m, o), *t = session(m, o);
    struct tft_error err;
    size_t n, m2;
    feed(s, text, 40, 40);
    feed(t, text + 50, 30, 30);
    unsigned char *p = saved(s, &n), *before = saved(t, &m2);
    for (size_t i = 0; i < n; i++) {
        p[i] ^= (unsigned char)(1u << i % 8);
        enum tft_status status = tft_session_load_mem(t, NULL, p, n, &err);
        assert_true(status == TFT_ERR_FORMAT || (status == TFT_ERR_UNSUPPORTED && i / 4 == 2));
        p[i] ^= (unsigned char)(1u << i % 8);
    }
    for (size_t i = 0; i < n; i += 1 + i / 50)
        assert_int_equal(tft_session_load_mem(t, NULL, p, i, &err), TFT_ERR_FORMAT);
    unsigned char *after = saved(t, &n);
    assert_int_equal(n, m2);
    assert_memory_equal(before, after, n);
    free(p);
    free(before);
    free(after);
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
}

/* Sets a number and makes the checksum right again. */
static void forge(unsigned char *p, size_t n, size_t at, uint32_t x)
{
    tft_store_u32(p + at, x);
    tft_store_u32(p + n - CHECKSUM, tft_crc32(0, p, n - CHECKSUM));
}

/* Numbers that no session has, although the checksum is right. */
static void lies_are_refused(void **state)
{
    (void)state;
#define AT(field) offsetof(struct tft_saved, field)
    static const struct {
        size_t at;
        uint32_t x;
        const char *why;
    } lies[] = {
        {AT(version), 3, "version 3"},
        {AT(bytes), 12, "cut off"},
        {AT(model), 1, "another model"},
        {AT(cache), 1, "another KV cache"},
        {AT(prefix), 1, "another prefix"},
        {AT(flags), 1, "RoPE"},
        {AT(pos), 65, "room for 64"},
        {AT(pos), 39, "tokens are missing"},
        {AT(has_logits), 2, "tokens are missing"},
        {AT(n_checkpoint), 1, "no state"},
        {AT(kv.prefill), 9, "does not end"},
        {AT(kv.held), 41, "tokens are missing"},
        {AT(kv.frozen), 41, "quantization"},
        {AT(kv.frozen), 0, "quantization"},
        {AT(kv.frozen), 1, "quantization"},
        {AT(kv.side[0].kept), 41, "places"},
        {AT(kv.side[0].blocks), 9, "places"},
        {AT(kv.side[1].named), 1, "places"},
        {sizeof(struct tft_saved), 31, "vocabulary"},
        {sizeof(struct tft_saved) + 160, 41, "no place"}, /* a slot's owner */
    };
    struct tft_model *m = small_model(NULL);
    struct tft_session_opts o = {.kv = "logquant:window=3,group=16", .n_threads = 1,
                                 .capacity = 64};
    struct tft_session *s = session(m, o), *t = session(m, o);
    feed(s, text, 40, 40);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct tft_error err = {0};
        size_t n;
        unsigned char *p = saved(s, &n);
        forge(p, n, lies[i].at, lies[i].x);
        assert_int_not_equal(tft_session_load_mem(t, NULL, p, n, &err), TFT_OK);
        if (!strstr(err.msg, lies[i].why))
            fail_msg("%zu: %s", i, err.msg);
        assert_int_equal(tft_pos(t), 0);
        free(p);
    }
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
}

/* The same about tokens that a filter has named. */
static void lies_about_names(void **state)
{
    (void)state;
    struct tft_model *m = small_model(NULL);
    struct tft_session *s = session(m, (struct tft_session_opts){
        .kv = "kivi:window=16,group=16,keep=4", .keep = some});
    struct tft_error err = {0};
    size_t n, at = sizeof(struct tft_saved) + 60 * sizeof(int32_t);
    feed(s, text, 60, 60);
    unsigned char *p = saved(s, &n);
    while (!p[at]) /* the first that was named */
        at++;
    forge(p, n, at, 0);
    assert_int_equal(tft_session_load_mem(s, NULL, p, n, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "named are missing"));
    p[at] = 2;
    forge(p, n, at + 1, 0);
    assert_int_equal(tft_session_load_mem(s, NULL, p, n, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "cannot have named"));
    free(p);
    tft_session_close(s);
    tft_model_close(m);
}

/* Rings that lack a token that the next one sees, or a part of a panel, or rings that layers do not
   have. */
static void lies_about_rings(void **state)
{
    (void)state;
    static const uint32_t lies[][3] = {{512, 0, 0}, {0, 0, 272}, {8, 0, 0}, {0, 16, 0}};
    struct tft_model *m = opened(written(&layer_toys[1])); /* layer 1 has no window */
    struct tft_session *s = session(m, (struct tft_session_opts){0});
    unsigned char first[3 * 4] = {0};
    feed(s, text, 400, 400);
    struct tft_kv_image i = {.state = tft_kv_save(&s->kv), .first = first};
    assert_null(tft_kv_wrong_image(&s->kv, &i));
    for (size_t k = 0; k < sizeof lies / sizeof *lies; k++) {
        for (size_t l = 0; l < 3; l++)
            tft_store_u32(first + 4 * l, lies[k][l]);
        assert_non_null(tft_kv_wrong_image(&s->kv, &i));
    }
    tft_session_close(s);
    tft_model_close(m);
}

static void other_sessions_are_refused(void **state)
{
    (void)state;
    struct toy other = small;
    other.seed = 5;
    struct tft_model *m[3] = {opened(written(&small))};
    assert_true(toy_write(&other, in_folder("n.gguf")));
    m[1] = opened(in_folder("n.gguf"));
    m[2] = opened(written(&small));
    struct tft_session *s = session(m[0], (struct tft_session_opts){.capacity = 40}),
                       *t[4] = {session(m[1], (struct tft_session_opts){0}),
                                session(m[0], (struct tft_session_opts){.kv = "f32"}),
                                session(m[0], (struct tft_session_opts){.capacity = 29}),
                                session(m[2], (struct tft_session_opts){.slide = true})};
    static const enum tft_status want[] = {TFT_ERR_ARG, TFT_ERR_ARG, TFT_ERR_FULL, TFT_OK};
    size_t n;
    toy_tokens(5, small.n_vocab, text, TEXT);
    feed(s, text, 30, 30);
    unsigned char *p = saved(s, &n);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tft_session_load_mem(t[i], NULL, p, n, NULL), want[i]);
        tft_session_close(t[i]);
    }
    assert_int_equal(tft_session_save_mem(s, NULL, p, n - 1, NULL), TFT_ERR_FULL);
    free(p);
    tft_session_close(s);
    for (int i = 0; i < 3; i++)
        tft_model_close(m[i]);
}

/* Sessions of f16, the default before i8 was it, are refused by name; i8 is not f16 either. */
static void sessions_of_f16_are_named(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", NULL},
                             *const why[] = {"memory: was saved with the KV cache f16, and the "
                                             "session has another",
                                             "memory: was saved with another KV cache than the "
                                             "session has"};
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, small.n_vocab, text, TEXT);
    for (int i = 0; i < 2; i++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = kv[i]}),
                           *same = session(m, (struct tft_session_opts){.kv = kv[i]}),
                           *other = session(m, (struct tft_session_opts){.kv = kv[!i]});
        struct tft_error err;
        size_t n;
        feed(s, text, 30, 30);
        unsigned char *p = saved(s, &n);
        assert_int_equal(tft_session_load_mem(other, NULL, p, n, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, why[i]);
        assert_int_equal(tft_session_load_mem(same, NULL, p, n, &err), TFT_OK);
        same_last_logits(same, s);
        free(p);
        tft_session_close(s);
        tft_session_close(same);
        tft_session_close(other);
    }
    tft_model_close(m);
}

/* The same file in other forms: its codes, and floats. */
static void weights_of_another_form(void **state)
{
    (void)state;
    struct toy coded = small;
    coded.n_embd = coded.n_ff = 32;
    coded.head_dim = 16;
    coded.n_rot = 16;
    coded.type = TFT_Q8_0;
    const char *path = written(&coded);
    struct tft_model *m[2] = {opened(path), opened_as_floats(path)};
    struct tft_session *s[2];
    struct tft_error err;
    size_t n;
    for (int i = 0; i < 2; i++)
        s[i] = session(m[i], (struct tft_session_opts){.capacity = 40});
    unsigned char *p = saved(s[0], &n);
    assert_int_equal(tft_session_load_mem(s[1], NULL, p, n, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "another model"));
    assert_int_equal(tft_session_load_mem(s[0], NULL, p, n, &err), TFT_OK); /* an empty session */
    free(p);
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
}

static void files_and_samplers(void **state)
{
    (void)state;
    files_in_folder(true);
    struct tft_model *m = opened(written(&small));
    struct tft_session *s = session(m, (struct tft_session_opts){0}),
                       *t = session(m, (struct tft_session_opts){0});
    struct tft_sampler z = {.temperature = 0.7f, .top_k = 9, .top_p = 0.9f, .min_p = 0.01f,
                            .repeat_penalty = 1.1f, .repeat_last = 20, .mirostat_mu = 3.5f,
                            .seed = 12345},
                       y = {0};
    struct tft_error err;
    const char *path = in_folder("a.session");
    toy_tokens(5, small.n_vocab, text, TEXT);
    feed(s, text, 30, 30);
    for (int i = 0; i < 2; i++) { /* the second time there is a file */
        tft_sample(&z, s);
        assert_int_equal(tft_session_save(s, &z, path, &err), TFT_OK);
        assert_int_equal(tft_session_load(t, &y, path, &err), TFT_OK);
        assert_memory_equal(&z, &y, sizeof z);
        same_session(s, t);
        int32_t id = tft_sample(&z, s);
        assert_int_equal(tft_sample(&y, t), id);
        assert_int_equal(tft_decode(s, id), TFT_OK);
    }
    assert_int_equal(files_in_folder(false), 2);
    assert_int_equal(tft_session_save(s, NULL, folder, &err), TFT_ERR_IO);
    assert_int_equal(tft_session_save(s, NULL, in_folder("none/b"), &err), TFT_ERR_IO);
    assert_int_equal(tft_session_load(t, NULL, NULL, &err), TFT_ERR_ARG);
    assert_int_equal(tft_session_save(t, NULL, NULL, &err), TFT_ERR_ARG);
    assert_int_equal(tft_session_load(t, NULL, in_folder("none"), &err), TFT_ERR_IO);
    assert_int_equal(tft_session_load(t, NULL, in_folder("m.gguf"), &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "not a saved session"));
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
}

struct parts {
    unsigned char *p;
    size_t n, most;
    bool full;
};

/* Takes parts until the next one does not fit. */
static bool take_part(void *user, const void *p, size_t n)
{
    struct parts *all = user;
    assert_false(all->full); /* no call after a false */
    all->full = n > all->most - all->n;
    if (!all->full) {
        memcpy(all->p + all->n, p, n);
        all->n += n;
    }
    return !all->full;
}

/* A function gets the same bytes as an array, and may stop the saving. */
static void in_parts(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct tft_session *s = session(m, (struct tft_session_opts){0});
    struct tft_error err;
    size_t n;
    toy_tokens(5, small.n_vocab, text, TEXT);
    feed(s, text, 30, 30);
    unsigned char *whole = saved(s, &n), *copy = malloc(n);
    assert_non_null(copy);
    struct parts all = {.p = copy, .most = n};
    assert_int_equal(tft_session_save_to(s, NULL, take_part, &all, &err), TFT_OK);
    assert_int_equal(all.n, n);
    assert_memory_equal(copy, whole, n);
    for (size_t most = 0; most < n; most += n / 7) {
        struct parts some = {.p = copy, .most = most};
        assert_int_equal(tft_session_save_to(s, NULL, take_part, &some, &err), TFT_ERR_CANCELLED);
        assert_int_equal(err.code, TFT_ERR_CANCELLED);
        assert_memory_equal(copy, whole, some.n);
    }
    free(whole);
    free(copy);
    tft_session_close(s);
    tft_model_close(m);
}

static struct tft_grammar_state *begun(struct tft_grammar **g, const struct tft_lexicon *lx,
                                       const char *rules)
{
    struct tft_grammar_state *s;
    assert_int_equal(tft_grammar_open(g, lx, TFT_GBNF, rules, strlen(rules), NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&s, *g, NULL), TFT_OK);
    return s;
}

/* In the middle of brackets within brackets: both samplers write the same rest of the text. */
static void grammars(void **state)
{
    (void)state;
    struct toy t = small;
    t.n_vocab = TOY_VOCAB;
    t.vocab = "llama";
    struct tft_model *m = opened(written(&t));
    struct tft_lexicon *lx;
    struct tft_grammar *g[3];
    assert_int_equal(tft_lexicon_open(&lx, m, NULL), TFT_OK);
    static const char *const brackets = "root ::= \"[\" (root | [a-f])* \"]\"";
    struct tft_grammar_state *gs[3] = {begun(&g[0], lx, brackets), begun(&g[1], lx, brackets),
                                       begun(&g[2], lx, "root ::= [a-f]*")};
    struct tft_session *s[2] = {session(m, (struct tft_session_opts){0}),
                                session(m, (struct tft_session_opts){0})};
    struct tft_sampler z[2] = {{.temperature = 2, .seed = 3, .grammar = gs[0]},
                               {.grammar = gs[1]}};
    struct tft_error err;
    assert_int_equal(tft_decode(s[0], 5), TFT_OK);
    for (int i = 0; i < 40; i++) {
        int32_t id = tft_sample(&z[0], s[0]);
        assert_true(id >= 0 && !tft_token_ends(m, id));
        assert_int_equal(tft_decode(s[0], id), TFT_OK);
        size_t n = tft_session_save_bytes(s[0], &z[0]);
        unsigned char *p = malloc(n);
        assert_int_equal(tft_session_save_mem(s[0], &z[0], p, n, &err), TFT_OK);
        z[1].grammar = i % 2 ? gs[2] : NULL;
        assert_int_equal(tft_session_load_mem(s[1], &z[1], p, n, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, i % 2 ? "another grammar" : "needs one"));
        z[1].grammar = gs[1];
        if (tft_grammar_is_done(gs[0]))
            i = 40;
        assert_int_equal(tft_session_load_mem(s[1], &z[1], p, n, &err), TFT_OK);
        for (int32_t k = 0; k < TOY_VOCAB; k++)
            assert_int_equal(tft_grammar_allows(gs[0], k), tft_grammar_allows(gs[1], k));
        assert_int_equal(z[0].seed, z[1].seed);
        size_t at = n - CHECKSUM - tft_load_u32(p + AT(grammar_bytes));
        for (size_t k = 4; k < 24; k += 4) { /* two sizes, a configuration, and the rest */
            uint32_t was = tft_load_u32(p + at + k);
            forge(p, n, at + k, 70000);
            assert_int_equal(tft_session_load_mem(s[1], &z[1], p, n, &err), TFT_ERR_FORMAT);
            forge(p, n, at + k, was);
        }
        assert_int_equal(tft_grammar_can_end(gs[0]), tft_grammar_can_end(gs[1]));
        free(p);
    }
    for (int i = 0; i < 3; i++) {
        tft_grammar_end(gs[i]);
        tft_grammar_close(g[i]);
    }
    tft_lexicon_close(lx);
    tft_session_close(s[0]);
    tft_session_close(s[1]);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache),
        cmocka_unit_test(a_prompt_that_stays_open),
        cmocka_unit_test(sliding_and_named),
        cmocka_unit_test(windows_and_states),
        cmocka_unit_test(windows_that_are_full),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(lies_about_names),
        cmocka_unit_test(lies_about_rings),
        cmocka_unit_test(other_sessions_are_refused),
        cmocka_unit_test(sessions_of_f16_are_named),
        cmocka_unit_test(weights_of_another_form),
        cmocka_unit_test(files_and_samplers),
        cmocka_unit_test(in_parts),
        cmocka_unit_test(grammars),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
