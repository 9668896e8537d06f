#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <errno.h>

#include "base/new_file.h"
#include "blob.h"
#include "folder.h"
#include "memory.h"

static void gguf_by_its_magic(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct blob b = {0};
    blob_header(&b, 0, 1);
    blob_key(&b, "k", TFT_VALUE_U8);
    b.p[b.n++] = 7;
    assert_true(write_file(path, b.p, b.n));

    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_source s;
    assert_int_equal(tft_source_open(&s, path, NULL, &a, NULL), TFT_OK);
    assert_int_equal(s.version, 3);
    assert_int_equal(s.size, b.n);
    assert_string_equal(s.name, path);
    assert_non_null(tft_source_value(&s, "k"));
    tft_source_close(&s);
    assert_int_equal(m.in_use, 0);
    assert_null(tft_source_value(&s, "k"));
    tft_source_close(&s);
}

static void not_a_model_file(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } file[] = {
        {"", 0, "byte 0: the file is empty"},
        {"GGU", 3, "byte 0: neither a GGUF file nor"},
        {"GGUF", 4, "byte 4: the file ends"},
        {"just some text, long enough to be a header", 42, "byte 0: neither a GGUF file nor"},
    };
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        assert_true(write_file(path, file[i].bytes, file[i].n));
        struct tft_source s;
        struct tft_error err;
        assert_int_equal(tft_source_open(&s, path, NULL, NULL, &err), TFT_ERR_FORMAT);
        assert_non_null(strstr(err.msg, file[i].what));
        assert_ptr_equal(strstr(err.msg, path), err.msg);
        tft_source_close(&s);
    }
}

static void what_the_system_refuses(void **state)
{
    (void)state;
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(tft_source_open(&s, "/nowhere/m.gguf", NULL, NULL, &err), TFT_ERR_IO);
    assert_int_equal(err.os, ENOENT);
    assert_string_equal(err.msg, "/nowhere/m.gguf: cannot be read: No such file or directory");
    assert_int_equal(tft_source_open(&s, folder, NULL, NULL, &err), TFT_ERR_IO);
    assert_int_equal(err.os, EISDIR);
}

/* As of argv[1] without arguments, or of getenv. */
static void a_path_that_is_missing(void **state)
{
    (void)state;
    struct tft_source s;
    struct tft_model *m;
    struct tft_new_file *f;
    struct tft_error err;
    assert_int_equal(tft_source_open(&s, NULL, NULL, NULL, &err), TFT_ERR_ARG);
    assert_int_equal(tft_model_open(&m, NULL, NULL, &err), TFT_ERR_ARG);
    assert_null(m);
    assert_string_equal(err.msg, "no path: the name of the file is NULL");
    assert_int_equal(tft_new_file_create(&f, NULL, &err), TFT_ERR_ARG);
}

static void memory_must_be_aligned(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_header(&b, 0, 0);
    unsigned char *copy = exact_copy(b.p, b.n + 8);
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(tft_source_open_mem(&s, "memory", copy + 8, b.n, NULL, &err), TFT_ERR_ARG);
    assert_string_equal(err.msg, "memory: the data is not aligned to 32 bytes");
    assert_int_equal(tft_source_open_mem(&s, "memory", NULL, 0, NULL, &err), TFT_ERR_FORMAT);
    assert_string_equal(err.msg, "memory: byte 0: the file is empty");
    tft_port_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_by_its_magic),
        cmocka_unit_test(not_a_model_file),
        cmocka_unit_test(what_the_system_refuses),
        cmocka_unit_test(a_path_that_is_missing),
        cmocka_unit_test(memory_must_be_aligned),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
