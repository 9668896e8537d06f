#include "test.h"

#include <math.h>
#include <string.h>

#include "file/value.h"

static struct tft_value value(enum tft_value_type type, const void *data, uint64_t n)
{
    return (struct tft_value){.type = type, .is_array = n != 1, .n = n, .data = data};
}

static void integers_of_every_type(void **state)
{
    (void)state;
    static const unsigned char all_ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    static const struct {
        enum tft_value_type type;
        bool is_signed;
        uint64_t max;
    } kind[] = {
        {TFT_VALUE_U8, false, UINT8_MAX},
        {TFT_VALUE_U16, false, UINT16_MAX},
        {TFT_VALUE_U32, false, UINT32_MAX},
        {TFT_VALUE_U64, false, UINT64_MAX},
        {TFT_VALUE_I8, true, 0},
        {TFT_VALUE_I16, true, 0},
        {TFT_VALUE_I32, true, 0},
        {TFT_VALUE_I64, true, 0},
    };
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        struct tft_value v = value(kind[i].type, all_ones, 1);
        uint64_t u = 7;
        int64_t s = 7;
        double d = 7;
        assert_int_equal(tft_value_uint(&v, 0, &u), !kind[i].is_signed);
        assert_true(u == (kind[i].is_signed ? 7 : kind[i].max));
        assert_int_equal(tft_value_int(&v, 0, &s), kind[i].max <= INT64_MAX);
        assert_true(s == (kind[i].is_signed          ? -1
                          : kind[i].max <= INT64_MAX ? (int64_t)kind[i].max
                                                     : 7));
        assert_true(tft_value_real(&v, 0, &d));
        assert_true(d == (kind[i].is_signed ? -1 : (double)kind[i].max));
        assert_false(tft_value_uint(&v, 1, &u));
        assert_false(tft_value_int(&v, 1, &s));
        assert_false(tft_value_real(&v, 1, &d));
    }
}

static void elements_of_an_array(void **state)
{
    (void)state;
    static const unsigned char data[] = {0, 1, 0xfe, 0xff, 0, 0x80, 0xff};
    struct tft_value v = value(TFT_VALUE_I16, data + 1, 3); /* not aligned */
    static const int64_t want[] = {-511, 255, -128};
    for (size_t i = 0; i < 3; i++) {
        int64_t got;
        uint64_t u;
        assert_true(tft_value_int(&v, i, &got));
        assert_int_equal(got, want[i]);
        assert_int_equal(tft_value_uint(&v, i, &u), want[i] >= 0);
    }
}

static void floats_are_read_as_reals_only(void **state)
{
    (void)state;
    const unsigned char f32[] = {0, 0, 0xc0, 0x3f, 0, 0, 0x80, 0xff},
                        f64[] = {0, 0, 0, 0, 0, 0, 4, 0xc0};
    struct tft_value a = value(TFT_VALUE_F32, f32, 2), b = value(TFT_VALUE_F64, f64, 1);
    uint64_t u;
    int64_t s;
    double d;
    assert_true(tft_value_real(&a, 0, &d) && d == 1.5);
    assert_true(tft_value_real(&a, 1, &d) && isinf(d) && d < 0);
    assert_true(tft_value_real(&b, 0, &d) && d == -2.5);
    assert_false(tft_value_real(&a, 2, &d));
    assert_false(tft_value_uint(&a, 0, &u));
    assert_false(tft_value_int(&b, 0, &s));
}

static void bools_are_read_as_numbers(void **state)
{
    (void)state;
    struct tft_value v = value(TFT_VALUE_BOOL, "\0\1", 2);
    uint64_t u;
    double d;
    assert_true(tft_value_uint(&v, 0, &u) && u == 0);
    assert_true(tft_value_uint(&v, 1, &u) && u == 1);
    assert_true(tft_value_real(&v, 1, &d) && d == 1);
}

static void strings(void **state)
{
    (void)state;
    static const char data[] = "\3\0\0\0\0\0\0\0a\0c\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0z";
    struct tft_value one = value(TFT_VALUE_STRING, data, 1),
                     many = value(TFT_VALUE_STRING, data, 3);
    struct tft_str s;
    assert_true(tft_value_str(&one, &s));
    assert_int_equal(s.n, 3);
    assert_memory_equal(s.p, "a\0c", 3);
    assert_false(tft_value_str(&many, &s));
    uint64_t u;
    assert_false(tft_value_uint(&one, 0, &u));

    const unsigned char *at = many.data;
    assert_int_equal(tft_value_next_str(&at).n, 3);
    assert_int_equal(tft_value_next_str(&at).n, 0);
    assert_true(tft_str_is(tft_value_next_str(&at), "z"));
    assert_ptr_equal(at, data + sizeof data - 1);

    assert_false(tft_str_is((struct tft_str){"ab", 2}, "a"));
    assert_false(tft_str_is((struct tft_str){"ab", 1}, "ab"));
    assert_true(tft_str_is((struct tft_str){"ab", 2}, "ab"));
}

static void type_names(void **state)
{
    (void)state;
    assert_string_equal(tft_value_type_name(TFT_VALUE_U8), "u8");
    assert_string_equal(tft_value_type_name(TFT_VALUE_ARRAY), "array");
    assert_string_equal(tft_value_type_name(TFT_VALUE_F64), "f64");
    assert_string_equal(tft_value_type_name((enum tft_value_type)13), "unknown");
    assert_int_equal(tft_value_type_bytes(TFT_VALUE_I16), 2);
    assert_int_equal(tft_value_type_bytes(TFT_VALUE_STRING), 0);
    assert_int_equal(tft_value_type_bytes((enum tft_value_type)13), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_of_every_type),
        cmocka_unit_test(elements_of_an_array),
        cmocka_unit_test(floats_are_read_as_reals_only),
        cmocka_unit_test(bools_are_read_as_numbers),
        cmocka_unit_test(strings),
        cmocka_unit_test(type_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
