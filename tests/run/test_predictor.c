/* Sessions whose model has a block that predicts a further token: the block's logits are those of
   llama.cpp, all results are the bits of the model without the block, and its draft tokens are
   used. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/splitmix64.h"
#include "paths.h"
#include "run/feed.h"
#include "w8a8.h"

enum { CAPACITY = 160, DRAFTS = 5, STEPS = 120 };

/* Two layers with a state, two with attention, and the block. */
static const struct toy_number numbers[] = {
    {"ssm.group_count", TOY_U32, 3},      {"ssm.time_step_rank", TOY_U32, 3},
    {"ssm.state_size", TOY_U32, 32},      {"ssm.inner_size", TOY_U32, 96},
    {"ssm.conv_kernel", TOY_U32, 2},      {"full_attention_interval", TOY_U32, 2},
    {"nextn_predict_layers", TOY_U32, 1}, {0}};
static const struct toy mtp = {.arch = "qwen35",
                               .n_vocab = 33,
                               .n_ctx = 400,
                               .n_embd = 52,
                               .n_layer = 5,
                               .n_head = 3,
                               .n_head_kv = 1,
                               .head_dim = 32,
                               .n_ff = 64,
                               .n_rot = 32,
                               .type = TFT_F16,
                               .numbers = numbers};

static struct tft_model *predicting(const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .predictor = true};
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    m->weight_bytes = 1 << 30; /* draft tokens and copies of states cost little */
    return m;
}

/* ---- the block's logits */

enum { PEER_TOKENS = 96, PEER_LAST = 8, PEER_VOCAB = 283 };

/* The block's logits after token `at` of the text, if the model has computed those before. */
static const float *predicted(struct tft_session *s, const int32_t *ids, uint32_t at)
{
    assert_int_equal(tft_sync(s, ids, at), TFT_OK);
    s->tokens[at] = ids[at];
    s->draft.costs = 0;
    assert_int_equal(tft_feed_predict(s, 1), 1);
    return s->out.logits;
}

static void the_logits_of_the_peer(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen35-mtp", "qwen35moe-mtp"};
    static float want[PEER_LAST][PEER_VOCAB];
    int32_t ids[PEER_TOKENS];
    for (int i = 0; i < PEER_TOKENS; i++)
        ids[i] = (i * i * 7 + i * 31 + 11) % PEER_VOCAB;
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "models/random/%s.mtp.f32", names[i]);
        FILE *f = shared_path(name) ? fopen(shared_path(name), "rb") : NULL;
        if (!f)
            skip_because("shared/%s: not found", name);
        assert_int_equal(fread(want, sizeof *want, PEER_LAST, f), PEER_LAST);
        fclose(f);
        snprintf(name, sizeof name, "models/random/%s.gguf", names[i]);
        struct tft_model *m = predicting(shared_path(name));
        struct tft_session *s =
            session(m, (struct tft_session_opts){.lookup = 1, .kv = "f32", .n_threads = 1 + i});
        double off = 0, size = 0;
        for (uint32_t k = 0; k < PEER_LAST; k++) {
            const float *got = predicted(s, ids, PEER_TOKENS - PEER_LAST + k);
            for (int j = 0; j < PEER_VOCAB; j++) {
                off += pow((double)got[j] - (double)want[k][j], 2);
                size += pow((double)want[k][j], 2);
            }
        }
        if (!(off / size < 1e-9))
            fail_msg("%s: NMSE %g", names[i], off / size);
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* ---- the same bits */

/* A session with the block and one of the same file without. */
struct pair {
    struct tft_session *s, *plain;
    struct tft_batch *batch;
    uint64_t seed;
};

static uint32_t chance(struct pair *t, uint32_t n)
{
    return (uint32_t)(tft_splitmix64(&t->seed) % n);
}

static void same(const struct pair *t)
{
    const float *x = tft_logits(t->s, 0), *y = tft_logits(t->plain, 0);
    assert_int_equal(tft_pos(t->s), tft_pos(t->plain));
    assert_int_equal(!x, !y);
    if (x)
        assert_memory_equal(x, y, mtp.n_vocab * sizeof *x);
}

/* The draft token, if there is one; or one that no block has proposed. */
static int32_t next(struct pair *t)
{
    if (t->s->lookup.ahead && chance(t, 3))
        return t->s->tokens[t->s->pos];
    return (int32_t)chance(t, mtp.n_vocab);
}

static void both(struct pair *t, const int32_t *tokens, size_t n)
{
    struct tft_step one = {.session = t->s, .tokens = tokens, .n = n};
    enum tft_status want = tft_prefill(t->plain, tokens, n);
    assert_int_equal(chance(t, 2) ? tft_step(t->batch, &one, 1) : tft_prefill(t->s, tokens, n),
                     want);
    same(t);
}

static void step(struct pair *t)
{
    int32_t tokens[40];
    size_t n = tft_pos(t->plain), more = 1 + chance(t, 30);
    switch (chance(t, 8)) {
    case 0:
        for (size_t i = 0; i < more; i++)
            tokens[i] = (int32_t)chance(t, mtp.n_vocab);
        both(t, tokens, more);
        break;
    case 1:
        n -= n / 4;
        assert_int_equal(tft_rewind(t->s, n), TFT_OK);
        assert_int_equal(tft_rewind(t->plain, n), TFT_OK);
        same(t);
        break;
    default:
        for (int i = 0; i < 10; i++) {
            int32_t id = next(t);
            both(t, &id, 1);
        }
    }
}

/* The last one needs the importance of channels, which quantize measures. */
enum { CACHES = 6 };
static const char *const kv[CACHES] = {"f16",
                                       "f32",
                                       "i8",
                                       "kivi:window=32,group=16",
                                       "kivi:kr=fill:32,vr=window:16,group=16",
                                       "tuffet:window=32,group=32"};

static void without(const char *path, int caches)
{
    struct tft_model *m = predicting(path), *plain = opened(path);
    assert_int_equal(m->n_kv_layer, plain->n_kv_layer + 1);
    assert_int_equal(m->state_size, plain->state_size + mtp.n_embd);
    for (int i = 0; i < 2 * caches; i++) {
        struct tft_session_opts o = {.kv = kv[i % caches],
                                     .n_threads = 1 + i % 3,
                                     .n_batch = i % 2 ? 16 : 64,
                                     .capacity = CAPACITY,
                                     .slide = i < 5};
        struct tft_batch_opts bo = {.size = sizeof bo, .n_threads = o.n_threads};
        struct pair t = {.seed = (uint64_t)i, .plain = session(plain, o)};
        o.lookup = DRAFTS;
        t.s = session(m, o);
        assert_int_equal(tft_batch_open(&t.batch, m, &bo, NULL), TFT_OK);
        uint64_t proposed = 0;
        for (int k = 0; k < STEPS; k++) {
            step(&t);
            proposed += t.s->draft.proposed && t.s->lookup.ahead;
        }
        assert_true(proposed > 5 && tft_guessed(t.s) > 20);
        tft_session_close(t.s);
        tft_session_close(t.plain);
        tft_batch_close(t.batch);
    }
    tft_model_close(plain);
    tft_model_close(m);
}

static void the_bits_of_the_model_without(void **state)
{
    (void)state;
    without(written(&mtp), CACHES - 1);
}

/* tuffet quantize copies the block. */
static void the_same_in_w8a8(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&mtp);
    o.n_prefix = 0;
    without(quantized(&mtp, &o), CACHES);
    o.n_prefix = 3;
    struct tft_model_opts mo = {.size = sizeof mo, .predictor = true};
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, quantized(&mtp, &o), &mo, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "has no part in the file's prefix"));
    tft_model_close(opened(in_folder("q.gguf")));
}

/* Sessions that share passes: each proposes the same as alone. */
static void beside_another(void **state)
{
    (void)state;
    struct tft_model *m = predicting(written(&mtp));
    struct tft_session_opts o = {.lookup = DRAFTS, .n_threads = 2, .capacity = CAPACITY};
    struct tft_session *s[2] = {session(m, o), session(m, o)}, *alone = session(m, o);
    struct tft_batch *batch;
    int32_t ids[60];
    toy_tokens(3, mtp.n_vocab, ids, 60);
    assert_int_equal(tft_batch_open(&batch, m, NULL, NULL), TFT_OK);
    struct tft_step steps[] = {{.session = s[0], .tokens = ids, .n = 20},
                               {.session = s[1], .tokens = ids + 20, .n = 39}};
    assert_int_equal(tft_step(batch, steps, 2), TFT_OK);
    assert_int_equal(tft_prefill(alone, ids + 20, 39), TFT_OK);
    for (int i = 0; i < 2; i++) {
        struct tft_session *x = i ? alone : s[1];
        x->tokens[39] = ids[59];
        x->draft.costs = 0;
        assert_int_equal(tft_feed_predict(x, DRAFTS), DRAFTS);
    }
    assert_memory_equal(s[1]->tokens + 40, alone->tokens + 40, DRAFTS * sizeof(int32_t));
    assert_memory_equal(s[1]->predicted, alone->predicted,
                        (1 + DRAFTS) * mtp.n_embd * sizeof(float));
    for (int i = 0; i < 2; i++)
        tft_session_close(s[i]);
    tft_session_close(alone);
    tft_batch_close(batch);
    tft_model_close(m);
}

/* ---- refused */

static void refuses(const struct toy *t, const char *why)
{
    struct tft_model_opts o = {.size = sizeof o, .predictor = true};
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, written(t), &o, &err), TFT_ERR_ARG);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void files_without_it(void **state)
{
    (void)state;
    static const char why[] = "there is no block that predicts further tokens in it";
    struct toy_number fewer[sizeof numbers / sizeof *numbers] = {{0}};
    struct toy t = mtp;
    memcpy(fewer, numbers, sizeof numbers - 2 * sizeof *numbers); /* without nextn_predict_layers */
    t.numbers = fewer;
    refuses(&t, why);
    t.arch = "llama";
    t.numbers = NULL;
    refuses(&t, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logits_of_the_peer), cmocka_unit_test(the_bits_of_the_model_without),
        cmocka_unit_test(the_same_in_w8a8),       cmocka_unit_test(beside_another),
        cmocka_unit_test(files_without_it),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
