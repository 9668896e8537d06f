/* Models in several files. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <errno.h>

#include "file/file.h"
#include "folder.h"
#include "memory.h"

static struct tft_error err;

static const char *part_path(unsigned i)
{
    char name[40];
    snprintf(name, sizeof name, "m-%05u-of-00003.gguf", i);
    return in_folder(name);
}

/* A part with one tensor of four numbers from `first` on; no name: with none. */
static void write_part(const char *path, uint32_t no, const char *tensor, float first,
                       uint32_t n_tensor)
{
    struct tft_gguf_writer *w;
    const float data[4] = {first, first + 1, first + 2, first + 3};
    assert_int_equal(tft_gguf_create(&w, path, NULL), TFT_OK);
    if (!no)
        tft_gguf_put_str(w, "general.architecture", (struct tft_str){"toy", 3});
    tft_gguf_put_u32(w, "split.no", no);
    tft_gguf_put_u32(w, "split.count", 3);
    tft_gguf_put_u32(w, "split.tensors.count", n_tensor);
    if (tensor) {
        tft_gguf_put_tensor(w, (struct tft_str){tensor, strlen(tensor)}, TFT_F32, 1,
                            (const uint64_t[]){4});
        tft_gguf_put_data(w, data, sizeof data);
    }
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
}

/* The first part has values alone, as gguf-split can write it. */
static void write_parts(void)
{
    write_part(part_path(1), 0, NULL, 0, 2);
    write_part(part_path(2), 1, "a", 10, 2);
    write_part(part_path(3), 2, "b", 20, 2);
}

static void fails(const char *path, enum tft_status want, const char *why)
{
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_source s;
    assert_int_equal(tft_source_open(&s, path, NULL, &a, &err), want);
    assert_int_equal(m.in_use, 0);
    if (!strstr(err.msg, why))
        fail_msg("%s (expected: %s)", err.msg, why);
}

static float number_of(const struct tft_source *s, const char *tensor)
{
    const struct tft_tensor *t = tft_source_tensor(s, tensor);
    assert_non_null(t);
    assert_int_equal(t->ne[0], 4);
    return ((const float *)(const void *)t->data)[0];
}

static void any_part_opens_all(void **state)
{
    (void)state;
    write_parts();
    for (unsigned i = 1; i <= 3; i++) {
        struct memory m = {0};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_source s;
        if (tft_source_open(&s, part_path(i), NULL, &a, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(s.name, part_path(1));
        assert_int_equal(s.n_tensor, 2);
        assert_true(number_of(&s, "a") == 10 && number_of(&s, "b") == 20);
        assert_non_null(tft_source_value(&s, "general.architecture"));
        assert_null(tft_source_value(&s, "split.count"));
        const struct tft_tensor *t = tft_source_tensor(&s, "b");
        assert_int_equal(tft_source_offset(&s, t->data) % s.alignment, 0);
        assert_true(tft_source_offset(&s, t->data) < 1024);
        assert_string_equal(tft_source_file(&s, t->data), part_path(3));
        assert_string_equal(tft_source_file(&s, tft_source_tensor(&s, "a")->data), part_path(2));
        assert_string_equal(tft_source_file(&s, s.data), part_path(1));
        assert_int_equal(tft_source_described(&s), s.size);
        assert_true(tft_source_bytes(&s) > s.size + 2 * 16);
        tft_source_forget(&s, t->data, t->bytes);
        tft_source_close(&s);
        assert_int_equal(m.in_use, 0);
    }
}

static void messages_name_the_part(void **state)
{
    (void)state;
    write_parts();
    remove(part_path(2));
    fails(part_path(3), TFT_ERR_IO, "part 2 of 3 of the model: ");
    fails(part_path(1), TFT_ERR_IO, "m-00002-of-00003.gguf: cannot be read");
    assert_int_equal(err.os, ENOENT);
    write_part(part_path(2), 0, "a", 0, 2);
    fails(part_path(1), TFT_ERR_FORMAT, "m-00002-of-00003.gguf: this is not part 2 of 3");
    assert_true(write_file(part_path(2), "text", 4));
    fails(part_path(1), TFT_ERR_FORMAT, "m-00002-of-00003.gguf: byte 0: this is not a GGUF file");
    write_part(part_path(2), 1, "b", 0, 2);
    fails(part_path(1), TFT_ERR_FORMAT, "m-00003-of-00003.gguf: byte ");
    assert_non_null(strstr(err.msg, "the tensor \"b\" occurs twice"));
    write_part(part_path(2), 1, NULL, 0, 2);
    fails(part_path(1), TFT_ERR_FORMAT, "its 3 parts have 1 tensors, not 2");
}

static void names_and_places(void **state)
{
    (void)state;
    write_part(in_folder("m.gguf"), 1, "a", 0, 2);
    fails(in_folder("m.gguf"), TFT_ERR_FORMAT,
          "this is part 2 of 3 of a model, but its name does not end in -00002-of-00003.gguf");
    write_part(part_path(1), 1, "a", 0, 2);
    fails(part_path(1), TFT_ERR_FORMAT, "does not end in -00002-of-00003.gguf");
    write_part(part_path(1), 7, "a", 0, 2);
    fails(part_path(1), TFT_ERR_FORMAT, "it cannot be part 8 of 3 of a model");
    write_parts();
    struct tft_map map;
    struct tft_source s;
    assert_int_equal(tft_port_map(&map, part_path(2)), 0);
    assert_int_equal(tft_source_open_mem(&s, "memory", map.data, map.size, NULL, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "memory: this is part 2 of 3 of a model, which opens by"));
    tft_port_unmap(&map);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    write_parts();
    enum tft_status status = TFT_ERR_NOMEM;
    for (unsigned fail_at = 1; status; fail_at++) {
        struct memory m = {.fail_at = fail_at};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_source s;
        status = tft_source_open(&s, part_path(2), NULL, &a, &err);
        assert_true(status == TFT_OK || status == TFT_ERR_NOMEM);
        if (!status)
            tft_source_close(&s);
        assert_int_equal(m.in_use, 0);
        assert_true(fail_at < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_opens_all),
        cmocka_unit_test(messages_name_the_part),
        cmocka_unit_test(names_and_places),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
