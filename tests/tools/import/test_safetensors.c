/* Safetensors and folders of them, made here byte by byte. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "blob.h"
#include "folder.h"
#include "tools/import/folder.h"

static struct tft_error err;

/* A file: a header, and n bytes of data, 0 1 2 ... */
static struct blob file_of(const char *header, size_t n)
{
    struct blob b = {0};
    blob_str(&b, header);
    for (size_t i = 0; i < n; i++)
        blob_bytes(&b, &(unsigned char){(unsigned char)i}, 1);
    return b;
}

static enum tft_status parse(struct safetensors *s, const char *header, size_t n)
{
    static struct blob b;
    b = file_of(header, n);
    return safetensors_parse(s, "m.safetensors", b.p, b.n, &err);
}

static void takes_tensors(void **state)
{
    (void)state;
    struct safetensors s;
    /* the order of the header is not that of the data */
    assert_int_equal(parse(&s,
                           "{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                           "\"m\":{\"dtype\":\"BOOL\",\"shape\":[1,1,1,1,1],\"data_offsets\":[20,"
                           "21]},"
                           "\"e\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[8,8]},"
                           "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[21,25]},"
                           "\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}  ",
                           25),
                     TFT_OK);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.size, 25);
    assert_string_equal(s.tensor[0].name, "a");
    assert_string_equal(s.tensor[1].name, "e");
    const struct safetensor *b = &s.tensor[2];
    assert_string_equal(b->name, "b");
    assert_true(b->floats && b->type == TFT_BF16 && b->n_dims == 2);
    assert_int_equal(b->ne[0], 3);
    assert_int_equal(b->ne[1], 2);
    assert_int_equal(b->ne[2], 1);
    assert_int_equal(s.data[b->offset], 8);
    assert_int_equal(b->bytes, 12);
    assert_false(s.tensor[3].floats);
    assert_int_equal(s.tensor[4].n_dims, 0);
    safetensors_close(&s);
}

#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void refuses_damage(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n;
        const char *message; /* after the file's name */
    } cases[] = {
        {"{", 0, "line 1, column 1: "},
        {"", 0, "line 1, column 0: "},
        {"[]", 0, "the header is not a JSON object"},
        {"{\"a\":1}", 0, "tensor \"a\": it is not a JSON object"},
        {"{\"a\":{}}", 0, "tensor \"a\": it has no dtype"},
        {"{" TENSOR("a", "Q7", "[1]", "[0,4]") "}", 4, "tensor \"a\": dtype Q7 is not supported"},
        {"{" TENSOR("a", "F32", "1", "[0,4]") "}", 4, "tensor \"a\": it has no shape"},
        {"{" TENSOR("a", "F32", "[1.5]", "[0,4]") "}", 4,
         "tensor \"a\": its shape is not made of whole numbers"},
        {"{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", 4,
         "tensor \"a\": its shape is not made of whole numbers"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
         "tensor \"a\": its shape has more than 8 dimensions"},
        {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4,
         "tensor \"a\": its shape is too large"},
        {"{" TENSOR("a", "F32", "[1]", "[0]") "}", 4,
         "tensor \"a\": its data_offsets are not two whole numbers"},
        {"{" TENSOR("a", "F32", "[1]", "[0,8]") "}", 4,
         "tensor \"a\": its data_offsets lie outside the file"},
        {"{" TENSOR("a", "F32", "[1]", "[4,0]") "}", 4,
         "tensor \"a\": its data_offsets lie outside the file"},
        {"{" TENSOR("a", "F32", "[1]", "[0,18446744073709551616]") "}", 4,
         "tensor \"a\": its data_offsets are not two whole numbers"},
        {"{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4,
         "tensor \"a\": its data_offsets do not fit its shape and dtype"},
        {"{" TENSOR("a", "F32", "[1]", "[4,8]") "}", 8,
         "tensor \"a\": there is a hole in the data before it"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[8,12]") "}", 12,
         "tensor \"b\": there is a hole in the data before it"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[1]", "[4,8]") "}", 8,
         "tensor \"b\": its data overlaps that of another tensor"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[0,4]") "}", 4,
         "tensor \"b\": its data overlaps that of another tensor"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 7, "the last 3 bytes belong to no tensor"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8,
         "line 1, column "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors s;
        assert_int_not_equal(parse(&s, cases[i].header, cases[i].n), TFT_OK);
        if (strncmp(err.msg, "m.safetensors: ", 15) ||
            strncmp(err.msg + 15, cases[i].message, strlen(cases[i].message)))
            fail_msg("case %zu: %s", i, err.msg);
        safetensors_close(&s);
    }
}

static void refuses_headers(void **state)
{
    (void)state;
    struct safetensors s;
    struct blob b = {0};
    assert_int_equal(safetensors_parse(&s, "m", b.p, 7, &err), TFT_ERR_FORMAT);
    assert_string_equal(err.msg, "m: a file of 7 bytes is not safetensors");
    blob_u64(&b, 3);
    assert_int_equal(safetensors_parse(&s, "m", b.p, 10, &err), TFT_ERR_FORMAT);
    assert_string_equal(err.msg, "m: the header of 3 bytes is longer than the file");
    b.n = 0;
    blob_u64(&b, 100000001);
    assert_int_equal(safetensors_parse(&s, "m", b.p, 1000, &err), TFT_ERR_FORMAT);
    assert_string_equal(err.msg, "m: its header would have 100000001 bytes, more than 100 MB: this "
                                 "is not safetensors");
}

static void refuses_depth(void **state)
{
    (void)state;
    struct safetensors s;
    static char deep[3000];
    memset(deep, '[', sizeof deep - 1);
    assert_int_equal(parse(&s, deep, 0), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "maximum parsing depth"));
    safetensors_close(&s);
}

/* -------------------------------------------------------------------------------------- folders */

static void put(const char *name, const char *text)
{
    assert_true(write_file(in_folder(name), text, strlen(text)));
}

static void put_tensors(const char *name, const char *header, size_t n)
{
    struct blob b = file_of(header, n);
    assert_true(write_file(in_folder(name), b.p, b.n));
}

static enum tft_status open_folder(struct import_folder *f)
{
    return import_folder_open(f, folder, &err);
}

/* Opening fails, with a line that ends with `message` and begins with the path of `file`, which is
   then removed. */
static void refuses(const char *file, const char *message)
{
    struct import_folder f;
    assert_int_not_equal(open_folder(&f), TFT_OK);
    size_t n = strlen(err.msg), m = strlen(message);
    const char *path = *file ? in_folder(file) : folder;
    if (strncmp(err.msg, path, strlen(path)) || n < m || strcmp(err.msg + n - m, message))
        fail_msg("%s", err.msg);
    import_folder_close(&f);
}

static const char a[] = "{" TENSOR("a", "F32", "[1]", "[0,4]") "}",
                  b[] = "{" TENSOR("b", "F16", "[2]", "[0,4]") "}";

static void opens_shards(void **state)
{
    (void)state;
    struct import_folder f;
    const unsigned char *data;
    put("config.json", "{\"x\":1}");
    put("model.safetensors.index.json",
        "{\"weight_map\":{\"b\":\"two.safetensors\",\"a\":\"one.safetensors\"}}");
    put_tensors("one.safetensors", a, 4);
    put_tensors("two.safetensors", b, 4);
    assert_int_equal(open_folder(&f), TFT_OK);
    assert_int_equal(f.n_shard, 2);
    assert_null(f.generation);
    assert_null(import_folder_find(&f, "c", &data));
    struct safetensor *t = import_folder_find(&f, "b", &data);
    assert_int_equal(t->type, TFT_F16);
    assert_int_equal(data[3], 3);
    t->used = true;
    import_folder_forget(&f, "b");
    assert_int_equal(data[3], 3);
    import_folder_close(&f);

    put_tensors("model.safetensors", a, 4); /* goes before the index */
    put("generation_config.json", "{\"eos_token_id\":2}");
    assert_int_equal(open_folder(&f), TFT_OK);
    assert_int_equal(f.n_shard, 1);
    assert_non_null(f.generation);
    import_folder_close(&f);
    files_in_folder(true);
}

static void refuses_folders(void **state)
{
    (void)state;
    static const char index[] = "model.safetensors.index.json";
    refuses("config.json", "cannot be read: No such file or directory");
    put("config.json", "{\"a\":");
    refuses("config.json", "line 1, column 5: unexpected token near end of file");
    put("config.json", "[1]");
    refuses("config.json", "this is not a JSON object");
    put("config.json", "{}");
    refuses("", "neither model.safetensors nor model.safetensors.index.json is there");
    put(index, "{}");
    refuses(index, "it has no weight_map");
    put(index, "{\"weight_map\":{\"a\":1}}");
    refuses(index, "the file of tensor \"a\" is not a file of this folder");
    put(index, "{\"weight_map\":{\"a\":\"../one.safetensors\"}}");
    refuses(index, "the file of tensor \"a\" is not a file of this folder");
    put(index, "{\"weight_map\":{\"a\":\"/one.safetensors\"}}");
    refuses(index, "the file of tensor \"a\" is not a file of this folder");
    put(index, "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    refuses("one.safetensors", "cannot be read: No such file or directory");
    put_tensors("one.safetensors", a, 4);
    refuses("two.safetensors", "cannot be read: No such file or directory");
    put_tensors("two.safetensors", a, 4);
    refuses("", "one.safetensors too");
    put_tensors("two.safetensors", "{" TENSOR("c", "F16", "[2]", "[0,4]") "}", 4);
    refuses(index, "tensor \"b\" is not in two.safetensors");
    put(index, "{\"weight_map\":{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}}");
    put_tensors("two.safetensors", b, 4);
    refuses(index, "tensor \"b\" is not in one.safetensors");
    put(index, "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
    put_tensors("one.safetensors",
                "{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("d", "F32", "[1]", "[4,8]") "}",
                8);
    refuses(index, "one.safetensors is not in the list");
    put("generation_config.json", "{");
    refuses("generation_config.json", "end of file");
    files_in_folder(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_tensors),   cmocka_unit_test(refuses_damage),
        cmocka_unit_test(refuses_headers), cmocka_unit_test(refuses_depth),
        cmocka_unit_test(opens_shards),    cmocka_unit_test(refuses_folders),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
