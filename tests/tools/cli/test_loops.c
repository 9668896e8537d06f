/* The detector of loops against its rule, restated by brute force. */
#include "test.h"

#include "toy.h"
#include "tools/cli/loops.h"

enum { MOST = 1400 };

/* Whether the newest `length` of ids[n] are one span many times over. */
static bool is_filled(const int32_t *ids, size_t n, size_t span, size_t length)
{
    if (length > n)
        return false;
    for (size_t i = n - length + span; i < n; i++)
        if (ids[i] != ids[i - span])
            return false;
    return true;
}

/* Whether a span of fewer than 8 tokens fills the newest `length` tokens. */
static bool is_short(const int32_t *ids, size_t n, size_t length)
{
    for (size_t span = 1; span < 8; span++)
        if (is_filled(ids, n, span, length))
            return true;
    return false;
}

static bool ends_in_loop(const int32_t *ids, size_t n)
{
    if (is_short(ids, n, 128))
        return true;
    for (size_t span = 8; span <= 256; span++)
        if (is_filled(ids, n, span, 4 * span) && !is_short(ids, n, 4 * span))
            return true;
    return false;
}

static int found;

static void check(const int32_t *ids, size_t n)
{
    struct loops l = {0};
    for (size_t i = 0; i < n; i++) {
        bool want = ends_in_loop(ids, i + 1);
        if (loops_take(&l, ids[i]) != want)
            fail_msg("token %zu of %zu: %d", i, n, !want);
        found += want;
    }
}

/* Random texts, then a span of random length, many times over, then another text. */
static void random_texts_over_small_alphabets(void **state)
{
    (void)state;
    int32_t ids[MOST];
    for (uint32_t alphabet = 1; alphabet <= 4; alphabet++)
        for (uint32_t i = 0; i < 200; i++) {
            uint64_t seed = alphabet * 1000 + i;
            int32_t r[3];
            toy_tokens(seed, 40, r, 3);
            size_t before = (size_t)r[0], span = 1 + (size_t)r[1] % (i % 4 ? 12 : 40),
                   n = before + span * (2 + (size_t)r[2] % 6) + 20;
            toy_tokens(seed, alphabet, ids, MOST);
            for (size_t k = before + span; k + 20 < n; k++)
                ids[k] = ids[k - span];
            check(ids, n);
        }
    assert_true(found > 1000);
}

/* The first token at which a span of this length, repeated, is found. */
static size_t found_after(size_t span)
{
    struct loops l = {0};
    size_t n = 1;
    while (n < 4 * MOST && !loops_take(&l, (int32_t)((n - 1) % span)))
        n++;
    return n;
}

static void spans_of_all_lengths(void **state)
{
    (void)state;
    for (size_t span = 1; span <= 256; span++)
        assert_int_equal(found_after(span), span < 8 ? 128 : 4 * span);
    assert_int_equal(found_after(257), 4 * MOST);
}

/* A text that goes on after three times is none. */
static void three_times_are_no_loop(void **state)
{
    (void)state;
    struct loops l = {0};
    for (int32_t i = 0; i < 2000; i++)
        assert_false(loops_take(&l, i % 160 < 159 ? i % 40 : i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_over_small_alphabets),
        cmocka_unit_test(spans_of_all_lengths),
        cmocka_unit_test(three_times_are_no_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
