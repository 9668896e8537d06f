/* The responses that the server keeps: tools/serve/kept.c. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kept.h"

static char *text(size_t n)
{
    char *p = malloc(n + 1);
    assert_non_null(p);
    memset(p, 'x', n);
    p[n] = 0;
    return p;
}

static void put(struct kept *k, const char *id, size_t n) { kept_put(k, id, text(n), text(1)); }

static void by_name(void **state)
{
    (void)state;
    static struct kept k;
    put(&k, "a", 3);
    put(&k, "b", 5);
    assert_int_equal(strlen(kept_find(&k, "a")->reply), 3);
    assert_int_equal(strlen(kept_find(&k, "b")->reply), 5);
    assert_null(kept_find(&k, "c"));
    assert_true(kept_drop(&k, "a"));
    assert_false(kept_drop(&k, "a"));
    assert_null(kept_find(&k, "a"));
    assert_int_equal(k.bytes, 6);
    kept_free(&k);
    assert_int_equal(k.bytes, 0);
    assert_null(kept_find(&k, "b"));
}

/* The least recently used goes first. */
static void number(void **state)
{
    (void)state;
    static struct kept k;
    char id[8];
    for (int i = 0; i < KEPT_MOST; i++) {
        snprintf(id, sizeof id, "%d", i);
        put(&k, id, 1);
    }
    assert_non_null(kept_find(&k, "0"));
    put(&k, "a", 1);
    put(&k, "b", 1);
    assert_int_equal(k.n, KEPT_MOST);
    assert_null(kept_find(&k, "1"));
    assert_null(kept_find(&k, "2"));
    assert_non_null(kept_find(&k, "0"));
    assert_non_null(kept_find(&k, "3"));
    kept_free(&k);
}

static void bytes(void **state)
{
    (void)state;
    static struct kept k;
    put(&k, "a", KEPT_BYTES / 2);
    put(&k, "b", KEPT_BYTES / 4);
    assert_non_null(kept_find(&k, "a"));
    put(&k, "c", KEPT_BYTES / 2);
    assert_null(kept_find(&k, "b"));
    assert_null(kept_find(&k, "a")); /* both halves and their second texts are too much */
    assert_non_null(kept_find(&k, "c"));
    put(&k, "d", KEPT_BYTES); /* never fits, and takes no place */
    assert_null(kept_find(&k, "d"));
    assert_non_null(kept_find(&k, "c"));
    put(&k, "e", KEPT_BYTES - 1);
    assert_non_null(kept_find(&k, "e"));
    assert_int_equal(k.n, 1);
    assert_int_equal(k.bytes, KEPT_BYTES);
    kept_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_name), cmocka_unit_test(number),
                                       cmocka_unit_test(bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
