#include "test.h"

#include "base/alloc.h"
#include "port/port.h"

static size_t in_use;

static void *count_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    in_use += size;
    assert_int_equal(size % align, 0);
    return tft_port_alloc(size, align);
}

static void count_free(void *user, void *ptr, size_t size)
{
    (void)user;
    in_use -= size;
    tft_port_free(ptr);
}

static void callers_allocator_gets_its_bytes_back(void **state)
{
    (void)state;
    const struct tft_allocator a = {count_alloc, count_free, NULL};
    for (size_t n = 0; n < 200; n++) {
        void *p = tft_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % TFT_ALIGN, 0);
        assert_true(in_use >= n);
        tft_free(&a, p, n);
        assert_int_equal(in_use, 0);
    }
    tft_free(&a, NULL, 5);
    assert_int_equal(in_use, 0);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    assert_null(tft_alloc(NULL, SIZE_MAX));
    assert_null(tft_alloc(NULL, SIZE_MAX - TFT_ALIGN + 1));

    struct tft_arena a = {0};
    tft_arena_take(&a, SIZE_MAX / 2, 3);
    assert_true(a.failed);
    a = (struct tft_arena){0};
    tft_arena_take(&a, SIZE_MAX - 1, 1);
    assert_true(a.failed);
    a = (struct tft_arena){.used = SIZE_MAX - 63};
    tft_arena_take(&a, 64, 1);
    assert_true(a.failed);
}

static void arena_counts_what_it_places(void **state)
{
    (void)state;
    struct tft_arena count = {0};
    assert_null(tft_arena_take(&count, 3, 5));
    assert_null(tft_arena_take(&count, 0, 8));
    assert_null(tft_arena_take(&count, 65, 1));

    struct tft_arena place = {.base = tft_alloc(NULL, count.used)};
    char *p = tft_arena_take(&place, 3, 5);
    assert_ptr_equal(p, place.base);
    assert_ptr_equal(tft_arena_take(&place, 0, 8), p + 64);
    assert_ptr_equal(tft_arena_take(&place, 65, 1), p + 64);
    assert_int_equal(place.used, count.used);
    assert_int_equal(place.used, 64 + 128);
    assert_false(place.failed);
    tft_free(NULL, place.base, count.used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_allocator_gets_its_bytes_back),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(arena_counts_what_it_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
