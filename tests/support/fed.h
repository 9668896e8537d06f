/* Toy models in files, and a hash of the logits of a session, which must not depend on how tokens
   are fed. Include it after test.h and after the #define that folder.h wants. */
#ifndef TFT_TEST_FED_H
#define TFT_TEST_FED_H

#include <math.h>

#include "folder.h"
#include "simd/kernels.h"
#include "run/session.h"
#include "toy.h"
#include "tuffet.h"

/* TOKENS reach the third span of attention; more take long under emulation. TWO_SPANS reach the
   second one, for tests that do not depend on spans. */
enum { TOKENS = 530, TWO_SPANS = 300 };

/* The path of a file with the toy model. The next call overwrites it. */
static inline const char *written(const struct toy *t)
{
    const char *path = in_folder("m.gguf");
    assert_true(toy_write(t, path));
    return path;
}

static inline struct tft_model *opened(const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, NULL, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* A model with its quantized tensors expanded to floats. */
static inline struct tft_model *opened_as_floats(const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .weights = TFT_WEIGHTS_F32};
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

static inline struct tft_session *session(const struct tft_model *m, struct tft_session_opts o)
{
    struct tft_session *s;
    struct tft_error err;
    o.size = sizeof o;
    if (tft_session_open(&s, m, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return s;
}

/* |a - b| / |b| for vectors of n numbers. */
static inline double distance_of(const float *a, const float *b, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double want = (double)b[i], error = (double)a[i] - want;
        off += error * error;
        size += want * want;
    }
    return sqrt(off / size);
}

/* That of the logits that follow the newest token. */
static inline double distance(const struct tft_session *a, const struct tft_session *b)
{
    assert_non_null(tft_logits(a, 0));
    assert_non_null(tft_logits(b, 0));
    return distance_of(tft_logits(a, 0), tft_logits(b, 0), a->m->n_vocab);
}

/* The distance of the logits with a file's codes from the logits with the same weights as
   floats. */
static inline double from_floats(const char *path)
{
    struct tft_model *m[2] = {opened(path), opened_as_floats(path)};
    struct tft_session *s[2];
    int32_t tokens[60];
    toy_tokens(9, m[0]->n_vocab, tokens, 60);
    assert_true(m[0]->group_inputs && !m[1]->group_inputs);
    for (int i = 0; i < 2; i++) {
        s[i] = session(m[i], (struct tft_session_opts){.kv = "f32", .n_threads = 1});
        assert_int_equal(tft_prefill(s[i], tokens, 60), TFT_OK);
    }
    double d = distance(s[0], s[1]);
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
    return d;
}

/* FNV-1a of h and the bits of the logits that follow the newest token. */
static inline uint64_t hash_logits(uint64_t h, const struct tft_session *s)
{
    const unsigned char *p = (const unsigned char *)tft_logits(s, 0);
    assert_non_null(p);
    for (size_t i = 0; i < s->m->n_vocab * sizeof(float); i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return h;
}

/* Whether this ISA level is one of combination `turn`: in turn the even and the odd ones. */
static inline bool on_half(int isa, int turn)
{
    return in_turn(isa, turn, tft_kernels_isas() > 1 ? 2 : 1);
}

/* Feeds tokens[n], `step` at a time. */
static inline void feed(struct tft_session *s, const int32_t *tokens, size_t n, size_t step)
{
    for (size_t at = 0; at < n; at += step)
        assert_int_equal(tft_prefill(s, tokens + at, n - at < step ? n - at : step), TFT_OK);
}

/* Fails unless both have as many tokens, and the same logits after the newest one. */
static inline void same_last_logits(const struct tft_session *a, const struct tft_session *b)
{
    assert_int_equal(tft_pos(a), tft_pos(b));
    assert_memory_equal(tft_logits(a, 0), tft_logits(b, 0), a->m->n_vocab * sizeof(float));
}

/* The hash of the logits after stops[i] tokens, for all i up to the stop at `end`. Tokens are fed
   `chunk` at a time, fewer if a stop comes first. If that is 1, the first tokens and SINGLES before
   each stop come alone, where panels, blocks and spans end. The others come BETWEEN at a time,
   because passes take long where threads outnumber CPUs. */
static inline uint64_t fed_until(uint32_t end, const char *path, int threads, uint32_t chunk,
                                 uint32_t batch, const char *kv)
{
    static const uint32_t stops[] = {1, 17, 255, 256, 257, 300, 513, TOKENS};
    enum { SINGLES = 8, BETWEEN = 67 };
    struct tft_model *m = opened(path);
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = threads, .n_batch = batch, .kv = kv});
    int32_t tokens[TOKENS];
    toy_tokens(3, m->n_vocab, tokens, TOKENS);
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof stops / sizeof *stops && stops[i] <= end; i++) {
        size_t at = tft_pos(s), n = stops[i] - at;
        if (chunk == 1 && n > 2 * SINGLES && !thorough())
            feed(s, tokens + at, n - SINGLES, BETWEEN);
        at = tft_pos(s);
        feed(s, tokens + at, stops[i] - at, chunk);
        h = hash_logits(h, s);
    }
    tft_session_close(s);
    tft_model_close(m);
    return h;
}

static inline uint64_t fed(const char *path, int threads, uint32_t chunk, uint32_t batch,
                           const char *kv)
{
    return fed_until(TOKENS, path, threads, chunk, batch, kv);
}

#endif
