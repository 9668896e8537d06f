/* Rows of named prefixes: they are the keys and values that the float model computes after the
   file's prefix, in the basis of the file's values. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "more_toys.h"
#include "simd/half.h"
#include "tools/quantize/write/rewrite_model.h"
#include "w8a8.h"

enum { LONG = 530, SHORT = 4, REST = 40, MOST = 2 * LONG * 96 }; /* LONG: more than one pass */
static int32_t named_text[LONG + SHORT + REST];
static float factor[5 * 96];
static int32_t order[5 * 96];
static struct quantize_values values = {factor, order};

static struct quantize_opts with_values(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.values = &values;
    toy_tokens(23, t->n_vocab, named_text, LONG + SHORT + REST);
    return o;
}

static void texts(struct named_prefix p[2])
{
    p[0] = (struct named_prefix){.name = "long", .system = "be", .tokens = named_text, .n = LONG};
    p[1] = (struct named_prefix){.name = "s", .tokens = named_text + LONG, .n = SHORT};
}

/* Fills p for the file q.gguf, opened, and its model of floats, m.gguf. */
static void computed(const struct tft_model *made, const struct quantize_opts *o,
                     struct named_prefix p[2])
{
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    texts(p);
    assert_int_equal(tft_model_open_unexpanded(&m, in_folder("m.gguf"), NULL, &err), TFT_OK);
    if (named_rows(m, made, o, p, 2, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    tft_model_close(m);
}

/* A session of the model of floats that begins with n_prefix stored rows and has computed the
   tokens. */
static struct tft_session *floats(struct tft_model *m, const uint16_t *k, const uint16_t *v,
                                  uint32_t n_prefix, const int32_t *tokens, uint32_t n)
{
    m->prefix_k = k;
    m->prefix_v = v;
    m->n_prefix = n_prefix;
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = "f16"});
    m->n_prefix = 0;
    if (n > 1)
        assert_int_equal(tft_prefill(s, tokens, n - 1), TFT_OK);
    assert_int_equal(tft_decode(s, tokens[n - 1]), TFT_OK);
    return s;
}

static const uint16_t *key(const struct tft_session *s, uint32_t l, uint32_t h, uint32_t pos)
{
    static uint16_t k[64];
    const uint16_t *panel = tft_kv_keys(&s->kv, l, h, pos - pos % TFT_KEY_PANEL);
    for (uint32_t d = 0; d < s->m->head_dim; d++)
        k[d] = panel[d * TFT_KEY_PANEL + pos % TFT_KEY_PANEL];
    return k;
}

static void same_rows(const struct tft_session *s, uint32_t first, const struct named_prefix *p)
{
    const struct tft_model *m = s->m;
    size_t at = 0, bytes = m->head_dim * sizeof(uint16_t);
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        for (uint32_t i = 0; i < p->n; i++)
            for (uint32_t h = 0; h < m->n_head_kv; h++, at += m->head_dim) {
                assert_memory_equal(p->k + at, key(s, l, h, first + i), bytes);
                assert_memory_equal(p->v + at, tft_kv_values(&s->kv, l, h, first + i), bytes);
            }
    assert_memory_equal(p->x, s->work->buf[TFT_X], m->n_embd * sizeof *p->x);
    if (m->state_size)
        assert_memory_equal(p->state, s->states.now, m->state_size * sizeof *p->state);
}

/* Without rotation, a value of the file is one of the model of floats. The second time, the file's
   prefix is another than its tokens give, as a tuned one is. */
static void rows_of_the_model_of_floats(void **state)
{
    (void)state;
    static uint16_t other[2][MOST];
    for (int i = 0; i < 2 * N_TOYS; i++) {
        struct quantize_opts o = with_values(&toys[i / 2]);
        struct named_prefix p[2];
        o.rotate = QUANTIZE_ROTATE_NONE;
        o.n_prefix = i == 4 ? 0 : 3;
        struct tft_model *made = opened(quantized(&toys[i / 2], &o)),
                         *m = opened_as_floats(in_folder("m.gguf"));
        for (int j = 0; j < MOST; j++) {
            other[0][j] = tft_f32_to_f16((float)(j % 17) / 16);
            other[1][j] = tft_f32_to_f16((float)(j % 13) / 16);
        }
        if (i % 2) {
            made->prefix_k = other[0];
            made->prefix_v = other[1];
        }
        computed(made, &o, p);
        for (int j = 0; j < 2; j++) {
            struct tft_session *s = floats(m, made->prefix_k, made->prefix_v, o.n_prefix,
                                           p[j].tokens, p[j].n);
            same_rows(s, o.n_prefix, &p[j]);
            tft_session_close(s);
        }
        named_rows_free(p, 2);
        tft_model_close(made);
        tft_model_close(m);
    }
}

/* Layers with a state: it goes on from the state after the file's prefix, also from one pass to the
   next. A file with named prefixes has their states. */
static void states_of_the_model_of_floats(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct toy *t = &state_toys[i / 2 * 2]; /* lfm2, qwen35 */
        struct quantize_opts o = with_values(t);
        struct named_prefix p[2];
        struct tft_error err;
        o.rotate = QUANTIZE_ROTATE_NONE;
        o.n_prefix = i % 2 ? 3 : 0;
        struct tft_model *made = opened(quantized(t, &o)),
                         *m = opened_as_floats(in_folder("m.gguf"));
        computed(made, &o, p);
        for (int j = 0; j < 2; j++) {
            m->prefix_state = made->prefix_state;
            struct tft_session *s = floats(m, made->prefix_k, made->prefix_v, o.n_prefix,
                                           p[j].tokens, p[j].n);
            same_rows(s, o.n_prefix, &p[j]);
            tft_session_close(s);
        }
        if (rewrite_model(made, in_folder("named.gguf"),
                          &(struct rewrite){.named = p, .n_named = 2}, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        struct tft_model *with = opened(in_folder("named.gguf"));
        struct tft_session *s = session(with, (struct tft_session_opts){.prefix = "long"});
        size_t bytes = with->state_size * sizeof(float);
        assert_memory_equal(s->states.now, p[0].state, bytes);
        assert_int_equal(tft_prefill(s, named_text, 5), TFT_OK);
        assert_int_equal(tft_rewind(s, 0), TFT_OK);
        assert_memory_equal(s->states.now, p[0].state, bytes);
        tft_session_close(s);
        named_rows_free(p, 2);
        tft_model_close(with);
        tft_model_close(made);
        tft_model_close(m);
    }
}

/* The value of the file for one of the model of floats: rotated in blocks of a head, divided, and
   in order. v, to: [G, E] */
static void in_the_file(const struct tft_model *m, const struct quantize_opts *o, uint32_t l,
                        const double *v, double *to)
{
    uint32_t dim = m->head_dim, width = m->n_head_kv * dim, block = quantize_head_block(m, o);
    double rotated[96];
    for (uint32_t i = 0; i < width; i++) {
        double sum = block ? 0 : v[i];
        for (uint32_t j = 0; j < block; j++)
            sum += v[i / block * block + j] *
                   (__builtin_parity(i % block & j) ? -1 : 1) / sqrt(block);
        rotated[i] = sum / (double)factor[l * width + i];
    }
    for (uint32_t i = 0; i < width; i++)
        to[i] = rotated[i / dim * dim + (uint32_t)order[l * width + i]];
}

static void near_rows(const struct tft_model *made, const struct quantize_opts *o,
                      const struct tft_session *s, uint32_t first, uint32_t n, const uint16_t *v)
{
    uint32_t dim = made->head_dim, width = made->n_head_kv * dim;
    for (uint32_t l = 0; l < made->n_layer; l++)
        for (uint32_t t = 0; t < n; t++) {
            double plain[96], want[96], most = 0;
            for (uint32_t i = 0; i < width; i++)
                plain[i] = (double)tft_f16_to_f32(
                    ((uint16_t *)tft_kv_values(&s->kv, l, i / dim, first + t))[i % dim]);
            in_the_file(made, o, l, plain, want);
            for (uint32_t i = 0; i < width; i++)
                most = fmax(most, fabs(want[i]));
            for (uint32_t i = 0; i < width; i++)
                assert_float_equal(tft_f16_to_f32(v[((size_t)l * n + t) * width + i]), want[i],
                                   4e-3 * most);
        }
}

/* Rows of the file's own prefix and of named ones went through the same; after them the model is
   near the float model. */
static void check_basis(const struct toy *t, const struct quantize_opts *o, double most)
{
    struct named_prefix p[2];
    struct tft_model *made = opened(quantized(t, o)), *m = opened_as_floats(in_folder("m.gguf"));
    struct tft_error err;
    int32_t tokens[3 + LONG + REST];
    computed(made, o, p);
    if (rewrite_model(made, in_folder("named.gguf"),
                      &(struct rewrite){.named = p, .n_named = 2}, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    struct tft_model *with = opened(in_folder("named.gguf"));
    for (int j = 0; j < 2; j++) {
        memcpy(tokens, prefix, sizeof prefix);
        memcpy(tokens + 3, p[j].tokens, p[j].n * sizeof *tokens);
        struct tft_session *s = floats(m, NULL, NULL, 0, tokens, 3 + p[j].n), *q;
        near_rows(made, o, s, 0, 3, made->prefix_v);
        near_rows(made, o, s, 3, p[j].n, p[j].v);
        q = session(with, (struct tft_session_opts){.n_threads = 1, .prefix = p[j].name,
                                                    .kv = "f16"});
        assert_int_equal(tft_prefill(q, NULL, 0), TFT_OK);
        double at_once = distance(q, s);
        assert_int_equal(tft_prefill(q, named_text + LONG + SHORT, REST), TFT_OK);
        assert_int_equal(tft_prefill(s, named_text + LONG + SHORT, REST), TFT_OK);
        double later = distance(q, s);
        if (!(at_once < most && later < most))
            fail_msg("%s: %g and %g from the model of floats", t->arch, at_once, later);
        tft_session_close(s);
        tft_session_close(q);
    }
    named_rows_free(p, 2);
    tft_model_close(with);
    tft_model_close(made);
    tft_model_close(m);
}

static void in_the_basis_of_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = with_values(&toys[i]);
        check_basis(&toys[i], &o, 0.1);
        o.rotate = rotatable(&toys[i]) ? QUANTIZE_ROTATE_ALL : o.rotate;
        check_basis(&toys[i], &o, 0.1);
    }
    /* values that are divided, and that are in another order */
    uint8_t bits[2 * LAYER_MATS];
    memset(bits, 4, sizeof bits);
    struct quantize_opts o = with_values(&toys[2]);
    o.bits = bits;
    o.group = 32;
    o.rounding = QUANTIZE_AWQ;
    o.rotate = QUANTIZE_ROTATE_O;
    check_basis(&toys[2], &o, 0.5);
    bool divided = false, moved = false;
    for (int i = 0; i < 2 * 96; i++)
        divided |= factor[i] != 1;
    o = with_values(&toys[2]);
    o.kv = "skvq:group=16";
    check_basis(&toys[2], &o, 0.1);
    for (int i = 0; i < 2 * 96; i++)
        moved |= order[i] != i % 32;
    assert_true(divided && moved);
}

/* ---- files */

static uint64_t hash_of(const struct tft_model *m, const char *name, int threads, uint32_t chunk)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.kv = "f16", .n_threads = threads, .prefix = name});
    uint64_t h = 0xcbf29ce484222325;
    feed(s, named_text + LONG + SHORT, REST, chunk);
    h = hash_logits(h, s);
    assert_int_equal(tft_rewind(s, 0), TFT_OK);
    assert_int_equal(tft_prefill(s, NULL, 0), TFT_OK);
    h = hash_logits(h, s);
    tft_session_close(s);
    return h;
}

static void the_same_bits_however_fed(void **state)
{
    (void)state;
    struct quantize_opts o = with_values(&toys[0]);
    struct named_prefix p[2];
    struct tft_model *made = opened(quantized(&toys[0], &o));
    computed(made, &o, p);
    assert_int_equal(rewrite_model(made, in_folder("named.gguf"),
                                   &(struct rewrite){.named = p, .n_named = 2}, NULL), TFT_OK);
    uint64_t want[2] = {0}, own = hash_of(made, NULL, 1, REST);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        struct tft_model *m = opened(in_folder("named.gguf"));
        for (int j = 0; j < 2; j++) {
            uint64_t h = hash_of(m, p[j].name, 1, REST);
            assert_true(h != own && h != want[!j]);
            want[j] = isa ? want[j] : h;
            assert_int_equal(h, want[j]);
            assert_int_equal(hash_of(m, p[j].name, 3, 7), h);
            assert_int_equal(hash_of(m, p[j].name, 2, 1), h);
        }
        assert_int_equal(hash_of(m, NULL, 2, 9), own);
        tft_model_close(m);
    }
    tft_cpu_limit(NULL);
    named_rows_free(p, 2);
    tft_model_close(made);
}

/* Other changes of a file keep named prefixes; another prefix of its own would make them wrong. A
   file of codes says for each tensor whether it has some. */
static void rewriting(void **state)
{
    (void)state;
    uint8_t bits[2 * LAYER_MATS];
    memset(bits, 4, sizeof bits);
    struct quantize_opts o = with_values(&toys[2]);
    struct named_prefix p[2];
    struct tft_error err;
    char to[64], again[64];
    snprintf(to, sizeof to, "%s", in_folder("named.gguf"));
    snprintf(again, sizeof again, "%s", in_folder("again.gguf"));
    o.bits = bits;
    o.group = 32;
    struct tft_model *made = opened(quantized(&toys[2], &o));
    computed(made, &o, p);
    for (int type = 0; type < 3; type++) {
        static const enum tft_dtype types[] = {TFT_F32, TFT_Q8_0, TFT_Q4_1};
        struct rewrite r = {.named = p, .n_named = 2, .type = types[type]};
        if (rewrite_model(made, to, &r, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        struct tft_model *m = opened(to);
        size_t numbers = (size_t)m->n_layer * LONG * m->n_head_kv * m->head_dim;
        double most = 0, largest = 0;
        for (size_t i = 0; i < numbers; i++) {
            double x = (double)tft_f16_to_f32(p[0].v[i]);
            most = fmax(most, fabs((double)tft_f16_to_f32(m->named[0].v[i]) - x));
            largest = fmax(largest, fabs(x));
        }
        assert_true(type ? most > 0 && most < largest / 14 : most == 0); /* of 15 steps */
        uint64_t h = hash_of(m, "long", 1, REST);
        assert_int_equal(rewrite_model(m, again, &(struct rewrite){.kv = "f16"}, NULL), TFT_OK);
        struct tft_model *copy = opened(again);
        assert_int_equal(hash_of(copy, "long", 1, REST), h);
        assert_string_equal(copy->named[0].system, "be");
        tft_model_close(copy);
        assert_int_equal(rewrite_model(m, again,
                                       &(struct rewrite){.k = m->prefix_k, .v = m->prefix_v}, &err),
                         TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, "named.gguf: has named prefixes, computed after"));
        tft_model_close(m);
    }
    p[1].v[7] = 0x7c00;
    assert_int_equal(rewrite_model(made, to, &(struct rewrite){.named = p, .n_named = 2}, &err),
                     TFT_ERR_FORMAT);
    named_rows_free(p, 2);
    tft_model_close(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_model_of_floats),
        cmocka_unit_test(states_of_the_model_of_floats),
        cmocka_unit_test(in_the_basis_of_the_file),
        cmocka_unit_test(the_same_bits_however_fed),
        cmocka_unit_test(rewriting),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
