#include "test.h"

#include "file/cursor.h"

static const unsigned char data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};

static void reads_little_endian(void **state)
{
    (void)state;
    struct tft_cursor c = {.data = data, .size = sizeof data};
    assert_int_equal(tft_cursor_u8(&c), 1);
    assert_int_equal(tft_cursor_u32(&c), 0x05040302);
    assert_int_equal(tft_cursor_u64(&c), 0x0d0c0b0a09080706);
    assert_int_equal(c.pos, sizeof data);
    assert_ptr_equal(tft_cursor_bytes(&c, 0), data + sizeof data);
    assert_false(c.past_end);
}

static void past_the_end_every_read_fails(void **state)
{
    (void)state;
    struct tft_cursor c = {.data = data, .size = 7, .pos = 4};
    assert_int_equal(tft_cursor_u32(&c), 0);
    assert_true(c.past_end);
    assert_int_equal(c.pos, 4);
    assert_int_equal(tft_cursor_u8(&c), 0);
    assert_null(tft_cursor_bytes(&c, 0));
    assert_int_equal(tft_cursor_u64(&c), 0);
    assert_int_equal(c.pos, 4);
}

static void lengths_do_not_wrap(void **state)
{
    (void)state;
    const uint64_t n[] = {8, UINT64_MAX, UINT64_MAX - 6, (uint64_t)1 << 63, (uint64_t)1 << 32};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        struct tft_cursor c = {.data = data, .size = 13, .pos = 6};
        assert_null(tft_cursor_bytes(&c, n[i]));
        assert_true(c.past_end);
    }
    struct tft_cursor c = {.data = data, .size = 13, .pos = 6};
    assert_ptr_equal(tft_cursor_bytes(&c, 7), data + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_little_endian),
        cmocka_unit_test(past_the_end_every_read_fails),
        cmocka_unit_test(lengths_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
