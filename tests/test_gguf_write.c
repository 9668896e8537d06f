#define _POSIX_C_SOURCE 200809L /* mkdtemp, symlink */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "folder.h"
#include "gguf.h"
#include "paths.h"

static struct tft_str str(const char *s)
{
    return (struct tft_str){s, strlen(s)};
}

static struct tft_gguf_writer *create(const char *path)
{
    struct tft_gguf_writer *w;
    struct tft_error err;
    if (tft_gguf_create(&w, path, &err))
        fail_msg("%s", err.msg);
    return w;
}

static void closes_well(struct tft_gguf_writer *w)
{
    struct tft_error err;
    if (tft_gguf_close(w, true, &err))
        fail_msg("%s", err.msg);
}

static void opens_well(struct tft_source *s, const char *path)
{
    struct tft_error err;
    if (tft_source_open(s, path, NULL, NULL, &err))
        fail_msg("%s", err.msg);
}

/* Fails with this, and leaves nothing. */
static void closes_with(struct tft_gguf_writer *w, enum tft_status status, const char *what)
{
    struct tft_error err = {0};
    assert_int_equal(tft_gguf_close(w, true, &err), status);
    assert_int_equal(err.code, status);
    if (!strstr(err.msg, what))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, what);
    assert_ptr_equal(strstr(err.msg, folder), err.msg);
    assert_int_equal(files_in_folder(false), 0);
}

static int clear(void **state)
{
    (void)state;
    files_in_folder(true);
    return 0;
}

static const int64_t numbers[] = {-1, INT64_MIN, 0x0123456789abcdef};
static const uint64_t ne_a[] = {64, 3}, ne_b[] = {5}, ne_c[] = {32, 1, 1, 2};

static void write_values(struct tft_gguf_writer *w)
{
    const struct tft_str strs[] = {str("one"), str(""), {"t\0o", 3}};
    tft_gguf_put_u32(w, "a.u32", 4000000000u);
    tft_gguf_put_f32(w, "a.f32", -0.1f);
    tft_gguf_put_bool(w, "a.true", true);
    tft_gguf_put_bool(w, "a.false", false);
    tft_gguf_put_str(w, "a.str", str("gr\xc3\xbc\xc3\x9f"));
    tft_gguf_put_strs(w, "a.strs", strs, 3);
    tft_gguf_put_array(w, "a.i64", TFT_VALUE_I64, numbers, 3);
    tft_gguf_put_array(w, "a.u16", TFT_VALUE_U16, (const uint16_t[]){1, 0xfffe}, 2);
    tft_gguf_put_array(w, "a.u8", TFT_VALUE_U8, "\1\2\3", 3);
    tft_gguf_put_array(w, "a.f32s", TFT_VALUE_F32, (const float[]){1.5f, -2}, 2);
    tft_gguf_put_array(w, "a.none", TFT_VALUE_I32, NULL, 0);
}

static void write_tensors(struct tft_gguf_writer *w)
{
    unsigned char data[204];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);
    tft_gguf_put_tensor(w, str("a"), TFT_Q8_0, 2, ne_a);
    tft_gguf_put_tensor(w, str("b"), TFT_F16, 1, ne_b);
    tft_gguf_put_tensor(w, str("c"), TFT_I8, 4, ne_c);
    for (size_t i = 0; i < 204; i += 51)
        tft_gguf_put_data(w, data + i, 51);
    tft_gguf_put_data(w, data, 0);
    tft_gguf_put_data(w, data, 10);
    tft_gguf_put_data(w, data, 64);
}

static void check_values(const struct tft_source *s)
{
    uint64_t u;
    int64_t i;
    double d;
    struct tft_str t;
    assert_int_equal(s->n_value, 11);
    assert_true(tft_value_uint(tft_source_value(s, "a.u32"), 0, &u) && u == 4000000000u);
    assert_true(tft_value_real(tft_source_value(s, "a.f32"), 0, &d) && d == -0.1f);
    assert_true(tft_value_uint(tft_source_value(s, "a.true"), 0, &u) && u == 1);
    assert_true(tft_value_uint(tft_source_value(s, "a.false"), 0, &u) && u == 0);
    assert_true(tft_value_str(tft_source_value(s, "a.str"), &t) && tft_str_is(t, "gr\xc3\xbc\xc3\x9f"));
    for (size_t k = 0; k < 3; k++)
        assert_true(tft_value_int(tft_source_value(s, "a.i64"), k, &i) && i == numbers[k]);
    assert_true(tft_value_uint(tft_source_value(s, "a.u16"), 1, &u) && u == 0xfffe);
    assert_true(tft_value_uint(tft_source_value(s, "a.u8"), 2, &u) && u == 3);
    assert_true(tft_value_real(tft_source_value(s, "a.f32s"), 1, &d) && d == -2);
    assert_int_equal(tft_source_value(s, "a.none")->n, 0);

    const struct tft_value *v = tft_source_value(s, "a.strs");
    assert_int_equal(v->n, 3);
    const unsigned char *at = v->data;
    assert_true(tft_str_is(tft_value_next_str(&at), "one"));
    assert_true(tft_str_is(tft_value_next_str(&at), ""));
    t = tft_value_next_str(&at);
    assert_int_equal(t.n, 3);
    assert_memory_equal(t.p, "t\0o", 3);
}

static void check_tensors(const struct tft_source *s)
{
    static const size_t bytes[] = {204, 10, 64};
    assert_int_equal(s->n_tensor, 3);
    for (size_t k = 0; k < 3; k++) {
        const struct tft_tensor *t = &s->tensor[k];
        assert_int_equal(t->bytes, bytes[k]);
        assert_int_equal((size_t)(t->data - s->data) % s->alignment, 0);
        for (size_t i = 0; i < t->bytes; i++)
            assert_int_equal(t->data[i], (unsigned char)(i * 7));
    }
    assert_int_equal(tft_source_tensor(s, "a")->type, TFT_Q8_0);
    assert_int_equal(tft_source_tensor(s, "b")->ne[0], 5);
    assert_int_equal(tft_source_tensor(s, "c")->n_dims, 4);
    assert_int_equal(tft_source_tensor(s, "c")->ne[3], 2);
    assert_int_equal(s->size % s->alignment, 0);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    write_values(w);
    write_tensors(w);
    closes_well(w);
    assert_int_equal(files_in_folder(false), 1);

    struct tft_source s;
    opens_well(&s, path);
    assert_int_equal(s.version, 3);
    assert_int_equal(s.alignment, 32);
    check_values(&s);
    check_tensors(&s);
    tft_source_close(&s);
}

static void alignment_is_obeyed(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    for (uint32_t align = 8; align <= 65536; align *= 8) {
        struct tft_gguf_writer *w = create(path);
        tft_gguf_put_u32(w, "general.alignment", align);
        write_tensors(w);
        closes_well(w);
        struct tft_source s;
        opens_well(&s, path);
        assert_int_equal(s.alignment, align);
        check_tensors(&s);
        tft_source_close(&s);
    }
}

static void nothing_in_it(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    closes_well(create(path));
    struct tft_source s;
    opens_well(&s, path);
    assert_int_equal(s.n_value + s.n_tensor, 0);
    tft_source_close(&s);
}

static void more_tensors_than_expected(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    char name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        tft_gguf_put_tensor(w, str(name), TFT_I8, 1, &(uint64_t){(uint64_t)(i % 70 + 1)});
    }
    for (int i = 0; i < 1000; i++)
        for (int k = 0; k <= i % 70; k++)
            tft_gguf_put_data(w, &(unsigned char){(unsigned char)i}, 1);
    closes_well(w);
    struct tft_source s;
    opens_well(&s, path);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(s.tensor[i].bytes, i % 70 + 1);
        assert_int_equal(s.tensor[i].data[i % 70], (unsigned char)i);
    }
    tft_source_close(&s);
}

/* Copies a file value by value, tensor by tensor. */
static void copy(const struct tft_source *s, const char *path)
{
    struct tft_gguf_writer *w = create(path);
    for (size_t i = 0; i < s->n_value; i++)
        tft_gguf_put_value(w, &s->value[i]);
    for (size_t i = 0; i < s->n_tensor; i++)
        tft_gguf_put_tensor(w, s->tensor[i].name, s->tensor[i].type, s->tensor[i].n_dims, s->tensor[i].ne);
    for (size_t i = 0; i < s->n_tensor; i++)
        tft_gguf_put_data(w, s->tensor[i].data, s->tensor[i].bytes);
    closes_well(w);
}

static void same_bytes(const struct tft_source *a, const struct tft_source *b)
{
    assert_int_equal(a->size, b->size);
    assert_true(memcmp(a->data, b->data, a->size) == 0);
}

static void a_copy_is_the_same(void **state)
{
    (void)state;
    const char *one = in_folder("one"), *two = in_folder("two");
    struct tft_gguf_writer *w = create(one);
    write_values(w);
    tft_gguf_put_u32(w, "general.alignment", 1024);
    write_tensors(w);
    closes_well(w);
    struct tft_source s, t;
    opens_well(&s, one);
    copy(&s, two);
    opens_well(&t, two);
    same_bytes(&s, &t);
    tft_source_close(&s);
    tft_source_close(&t);
}

static void a_copy_of_a_real_file(void **state)
{
    (void)state;
    const char *real = shared_path("tokenizers/ggml-vocab-llama-spm.gguf"), *path = in_folder("m");
    if (!real)
        skip();
    struct tft_source s, t;
    opens_well(&s, real);
    copy(&s, path);
    opens_well(&t, path);
    assert_int_equal(s.n_value, t.n_value);
    for (size_t i = 0; i < s.n_value; i++) {
        const struct tft_value *a = &s.value[i], *b = &t.value[i];
        assert_true(a->key.n == b->key.n && memcmp(a->key.p, b->key.p, a->key.n) == 0);
        assert_true(a->type == b->type && a->is_array == b->is_array && a->n == b->n && a->offset == b->offset);
    }
    const struct tft_value *last = &s.value[s.n_value - 1];
    assert_true(memcmp(s.data + 24, t.data + 24, (size_t)(last->data - s.data) - 24) == 0);
    tft_source_close(&s);
    tft_source_close(&t);
}

static void the_old_file_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    assert_true(write_file(path, "old", 3));
    struct tft_gguf_writer *w = create(path), *other = create(path);
    write_values(w);
    assert_int_equal(files_in_folder(false), 3);
    assert_int_equal(tft_gguf_close(other, false, NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 2);

    struct tft_map map;
    assert_int_equal(tft_port_map(&map, path), 0);
    assert_int_equal(map.size, 3);
    tft_port_unmap(&map);
    closes_well(w);
    assert_int_equal(files_in_folder(false), 1);
    struct tft_source s;
    opens_well(&s, path);
    check_values(&s);
    tft_source_close(&s);
}

static void thrown_away(void **state)
{
    (void)state;
    struct tft_gguf_writer *w = create(in_folder("m"));
    write_values(w);
    write_tensors(w);
    assert_int_equal(tft_gguf_close(w, false, NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 0);
    assert_int_equal(tft_gguf_close(NULL, true, NULL), TFT_OK);
}

static void wrong_use(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    const struct tft_str a = str("a");
    const uint64_t four = 4, zero = 0, huge = (uint64_t)1 << 61;
    unsigned char data[16] = {0};

    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    tft_gguf_put_u32(w, "late", 1);
    tft_gguf_put_tensor(w, str("b"), TFT_F32, 0, &four); /* the first error is the one that is reported */
    closes_with(w, TFT_ERR_ARG, "value \"late\" comes after a tensor");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    tft_gguf_put_data(w, data, 16);
    tft_gguf_put_tensor(w, str("b"), TFT_F32, 1, &four);
    closes_with(w, TFT_ERR_ARG, "tensor \"b\" comes after data");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    tft_gguf_put_data(w, data, 15);
    closes_with(w, TFT_ERR_ARG, "tensor 0 of 1 has 15 of its 16 bytes");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    closes_with(w, TFT_ERR_ARG, "tensor 0 of 1 has 0 of its 16 bytes");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_I8, 1, &four);
    tft_gguf_put_tensor(w, str("b"), TFT_I8, 1, &four);
    tft_gguf_put_data(w, data, 5);
    closes_with(w, TFT_ERR_ARG, "more data than tensor 0 of 2 has");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_I8, 1, &four);
    tft_gguf_put_data(w, data, 4);
    tft_gguf_put_data(w, data, 1);
    closes_with(w, TFT_ERR_ARG, "more data than tensor 1 of 1 has");

    static const struct {
        enum tft_dtype type;
        uint32_t n_dims;
        uint64_t ne[5];
    } bad[] = {
        {TFT_F32, 0, {1}}, {TFT_F32, 5, {1, 1, 1, 1, 1}}, {TFT_Q8_0, 1, {33}}, {(enum tft_dtype)4, 1, {32}},
        {TFT_F32, 1, {0}}, {TFT_F32, 2, {4, 0}}, {TFT_F32, 2, {(uint64_t)1 << 40, (uint64_t)1 << 40}},
        {TFT_F32, 1, {(uint64_t)1 << 61}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w = create(path);
        tft_gguf_put_tensor(w, a, bad[i].type, bad[i].n_dims, bad[i].ne);
        closes_with(w, TFT_ERR_ARG, "tensor \"a\" has an impossible shape or type");
    }
    w = create(path); /* offsets that would wrap */
    for (int i = 0; i < 5; i++)
        tft_gguf_put_tensor(w, a, TFT_I8, 1, &huge);
    closes_with(w, TFT_ERR_ARG, "impossible shape");

    w = create(path);
    tft_gguf_put_array(w, "k", TFT_VALUE_STRING, &zero, 1);
    closes_with(w, TFT_ERR_ARG, "\"k\" is no array of numbers");
    w = create(path);
    tft_gguf_put_u32(w, "general.alignment", 0);
    closes_with(w, TFT_ERR_ARG, "an alignment of 0");
}

static void what_could_not_be_read_is_not_written(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_u32(w, "k", 1);
    tft_gguf_put_u32(w, "k", 1);
    closes_with(w, TFT_ERR_ARG, "key \"k\" is there twice");
    w = create(path);
    tft_gguf_put_u32(w, "", 1);
    closes_with(w, TFT_ERR_ARG, "value 0 has an empty name");
    w = create(path);
    tft_gguf_put_array(w, "k", TFT_VALUE_BOOL, "\2", 1);
    closes_with(w, TFT_ERR_ARG, "bool of value 2");
    w = create(path);
    tft_gguf_put_tensor(w, str("0123456789012345678901234567890123456789012345678901234567890123"), TFT_I8, 1, &(uint64_t){1});
    tft_gguf_put_data(w, "", 1);
    closes_with(w, TFT_ERR_ARG, "at most 63");
}

static void what_the_system_refuses(void **state)
{
    (void)state;
    struct tft_gguf_writer *w;
    struct tft_error err;
    assert_int_equal(tft_gguf_create(&w, "/nowhere/m.gguf", &err), TFT_ERR_IO);
    assert_int_equal(err.os, ENOENT);
    assert_null(w);
    assert_int_equal(tft_gguf_create(&w, folder, &err), TFT_ERR_IO);
    assert_int_equal(err.os, EISDIR);
    assert_int_equal(tft_gguf_create(&w, "/dev/null", &err), TFT_ERR_IO);
    assert_int_equal(files_in_folder(false), 0);
}

/* A limit on the size of files stands in for the disk that is full: stdio sees both as a write that fails. Space that comes
   back later does not mend what was lost. */
static void the_disk_is_full(void **state)
{
    (void)state;
    enum { SIZE = 200000, WHOLE = 64 + SIZE };
    static const size_t limits[] = {0, 23, 64, 4096, 100000, SIZE - 1, WHOLE - 1};
    static const unsigned char data[SIZE];
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int later = 0; later < 2; later++) {
            struct tft_gguf_writer *w = create(in_folder("m"));
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limits[i], old.rlim_max}), 0);
            tft_gguf_put_tensor(w, str("a"), TFT_I8, 1, &(uint64_t){SIZE});
            for (size_t at = 0; at < SIZE; at += 1000) {
                if (later && at == SIZE - 1000 && limits[i] < SIZE - 10000)
                    setrlimit(RLIMIT_FSIZE, &old);
                tft_gguf_put_data(w, data + at, 1000);
            }
            struct tft_error err;
            enum tft_status status = tft_gguf_close(w, true, &err);
            setrlimit(RLIMIT_FSIZE, &old);
            assert_int_equal(status, TFT_ERR_IO);
            assert_int_equal(err.os, EFBIG);
            assert_non_null(strstr(err.msg, "/m: cannot be written: "));
            assert_int_equal(files_in_folder(false), 0);
        }
    signal(SIGXFSZ, handler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read, clear),
        cmocka_unit_test_teardown(alignment_is_obeyed, clear),
        cmocka_unit_test_teardown(nothing_in_it, clear),
        cmocka_unit_test_teardown(more_tensors_than_expected, clear),
        cmocka_unit_test_teardown(a_copy_is_the_same, clear),
        cmocka_unit_test_teardown(a_copy_of_a_real_file, clear),
        cmocka_unit_test_teardown(the_old_file_stays_until_the_new_one_is_whole, clear),
        cmocka_unit_test_teardown(thrown_away, clear),
        cmocka_unit_test_teardown(wrong_use, clear),
        cmocka_unit_test_teardown(what_could_not_be_read_is_not_written, clear),
        cmocka_unit_test_teardown(what_the_system_refuses, clear),
        cmocka_unit_test_teardown(the_disk_is_full, clear),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
