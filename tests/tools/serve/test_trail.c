/* Which saved session saves most of a prompt: tools/serve/trail.c. */
#include "test.h"

#include "tools/serve/trail.h"

static const int32_t words[100] = {7, 7, 7};

static size_t common(const struct trail *t, size_t same, size_t n)
{
    int32_t ids[120] = {7, 7, 7};
    if (same < 120)
        ids[same] = 99;
    return trail_common(t, ids, n);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens), cmocka_unit_test(least),
                                       cmocka_unit_test(marks), cmocka_unit_test(covers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
