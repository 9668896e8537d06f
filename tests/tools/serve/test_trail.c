/* Which saved session saves most of a prompt: tools/serve/trail.c. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "caches.h"
#include "fed.h"
#include "more_toys.h"
#include "tools/serve/trail.h"

static const int32_t words[100] = {7, 7, 7};

static size_t common(const struct trail *t, size_t same, size_t n)
{
    int32_t ids[120] = {7, 7, 7};
    if (same < 120)
        ids[same] = 99;
    return trail_common(t, &(struct trail_prompt){.ids = ids, .n = n});
}

/* Tokens are of use up to the first that differs, but for the last of the prompt. */
static void tokens(void **state)
{
    (void)state;
    const struct trail t = {.tokens = words, .n_tokens = 100};
    assert_int_equal(common(&t, 0, 50), 0);
    assert_int_equal(common(&t, 30, 50), 30);
    assert_int_equal(common(&t, 120, 50), 49);
    assert_int_equal(common(&t, 120, 100), 99);
    assert_int_equal(common(&t, 120, 120), 100);
    assert_int_equal(common(&t, 120, 0), 0);
}

/* A quantized cache goes back to some of its tokens alone. */
static void least(void **state)
{
    (void)state;
    const struct trail t = {.tokens = words, .n_tokens = 100, .least = 40};
    assert_int_equal(common(&t, 39, 120), 0);
    assert_int_equal(common(&t, 40, 120), 40);
    assert_int_equal(common(&t, 120, 120), 100);
}

/* States go back to checkpoints; at the end of its tokens, a session needs none. */
static void marks(void **state)
{
    (void)state;
    static const uint32_t at[] = {16, 64};
    const struct trail t = {
        .tokens = words, .n_tokens = 100, .marks = at, .n_marks = 2, .marked = true};
    assert_int_equal(common(&t, 15, 120), 0);
    assert_int_equal(common(&t, 16, 120), 16);
    assert_int_equal(common(&t, 63, 120), 16);
    assert_int_equal(common(&t, 99, 120), 64);
    assert_int_equal(common(&t, 120, 120), 100);
    assert_int_equal(common(&t, 120, 100), 64);
}

/* A session stands for another one if it has all but TRAIL_WORTH of its tokens. */
static void covers(void **state)
{
    (void)state;
    const struct trail t = {.tokens = words, .n_tokens = 100};
    struct trail shorter = t;
    shorter.n_tokens = 100 - TRAIL_WORTH;
    assert_true(trail_covers(&t, &shorter));
    assert_true(trail_covers(&shorter, &t));
    shorter.n_tokens--;
    assert_false(trail_covers(&shorter, &t));
}

/* With other adapters, the same tokens are another session. */
static void adapters(void **state)
{
    (void)state;
    const struct trail t = {.tokens = words, .n_tokens = 100, .adapted = 5};
    struct trail none = t;
    none.adapted = 0;
    assert_int_equal(trail_common(&t, &(struct trail_prompt){words, 100, 5}), 99);
    assert_int_equal(trail_common(&t, &(struct trail_prompt){words, 100, 6}), 0);
    assert_int_equal(trail_common(&t, &(struct trail_prompt){words, 100, 0}), 0);
    assert_true(trail_covers(&t, &t));
    assert_false(trail_covers(&t, &none));
    none.n_tokens = TRAIL_WORTH;
    assert_false(trail_covers(&t, &none));
}

enum { FED = 300 };

/* A session of prompts that end at 100, 157 and 300 tokens, which are ids[FED]. */
static struct tft_session *open_fed(const struct tft_model *m, const char *kv, int32_t *ids)
{
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = kv});
    toy_tokens(7, m->n_vocab, ids, FED);
    assert_int_equal(trail_least(s), 1);
    assert_int_equal(tft_prefill(s, ids, 100), TFT_OK);
    assert_int_equal(tft_prefill(s, ids + 100, 57), TFT_OK);
    assert_int_equal(tft_prefill(s, ids + 157, FED - 157), TFT_OK);
    return s;
}

static void marks_of_a_session(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&state_toys[0]));
    int32_t ids[FED];
    uint32_t at[2];
    struct tft_session *s = open_fed(m, "f16", ids);
    assert_int_equal(trail_marks(s, NULL), 2);
    assert_int_equal(trail_marks(s, at), 2);
    assert_int_equal(at[0], 100);
    assert_int_equal(at[1], 157);
    assert_int_equal(trail_least(s), 100);
    assert_int_equal(trail_common_now(s, ids, FED), 157);
    assert_int_equal(trail_common_now(s, ids, 157), 100);
    assert_int_equal(trail_common_now(s, ids, 100), 0);
    assert_int_equal(trail_common_now(s, ids, 0), 0);
    tft_session_close(s);
    tft_model_close(m);
}

/* In a quantized cache, fewer tokens than this are lost. */
static void least_of_a_session(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    int32_t ids[FED];
    struct tft_session *s = open_fed(m, "kivi:window=32,group=16", ids);
    uint32_t n = trail_least(s);
    assert_in_range(n, FED - 64, FED);
    assert_int_equal(trail_common_now(s, ids, n + 1), n);
    assert_int_equal(trail_common_now(s, ids, n), 0);
    tft_session_close(s);
    s = open_fed(m, "f16", ids);
    assert_int_equal(trail_least(s), 1);
    assert_int_equal(trail_common_now(s, ids, FED), FED - 1);
    tft_session_close(s);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(least),
        cmocka_unit_test(marks),
        cmocka_unit_test(covers),
        cmocka_unit_test(adapters),
        cmocka_unit_test(marks_of_a_session),
        cmocka_unit_test(least_of_a_session),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
