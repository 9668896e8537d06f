#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "blob.h"
#include "folder.h"
#include "file/file.h"
#include "memory.h"
#include "paths.h"

/* ---- a small valid file, and the positions of its parts */

enum place {
    VERSION, N_TENSOR, N_VALUE,
    KEY_ARCH,             /* general.architecture = "llama": the key's length */
    TYPE_ARCH, ARCH,      /* its type; the string's length */
    KEY_ALIGN,            /* general.alignment = 32 */
    TYPE_ALIGN, ALIGN,
    KEY_FLAG, FLAG,       /* k.aa = true */
    KEY_STRS, STRS,       /* k.ab = ["x", "yz"]: its element type, count, strings */
    NUMS,                 /* k.ac = u16 [1, 2, 3]: element type, count, numbers */
    T0, T0_DIMS, T0_NE, T0_TYPE, T0_OFFSET, /* t0: Q8_0 [64, 2], 136 bytes, padded to 160 */
    T1, T1_DIMS, T1_NE, T1_TYPE, T1_OFFSET, /* t1: F32 [4] */
    DATA, PLACES
};

enum { SECOND_STR = 4 + 8 + 8 + 1 }; /* from STRS to the length of "yz" */

static size_t at[PLACES];

static struct blob valid_file(void)
{
    struct blob b = {0};
    at[VERSION] = 4;
    at[N_TENSOR] = 8;
    at[N_VALUE] = 16;
    blob_header(&b, 2, 5);

    at[KEY_ARCH] = b.n;
    at[TYPE_ARCH] = b.n + 8 + 20;
    blob_key(&b, "general.architecture", TFT_VALUE_STRING);
    at[ARCH] = b.n;
    blob_str(&b, "llama");

    at[KEY_ALIGN] = b.n;
    at[TYPE_ALIGN] = b.n + 8 + 17;
    blob_key(&b, "general.alignment", TFT_VALUE_U32);
    at[ALIGN] = b.n;
    blob_u32(&b, 32);

    at[KEY_FLAG] = b.n;
    blob_key(&b, "k.aa", TFT_VALUE_BOOL);
    at[FLAG] = b.n;
    blob_bytes(&b, "\1", 1);

    at[KEY_STRS] = b.n;
    blob_array(&b, "k.ab", TFT_VALUE_STRING, 2);
    at[STRS] = b.n - 12;
    blob_str(&b, "x");
    blob_str(&b, "yz");

    blob_array(&b, "k.ac", TFT_VALUE_U16, 3);
    at[NUMS] = b.n - 12;
    blob_bytes(&b, "\1\0\2\0\3\0", 6);

    at[T0] = b.n;
    blob_str(&b, "t0");
    at[T0_DIMS] = b.n;
    blob_u32(&b, 2);
    at[T0_NE] = b.n;
    blob_u64(&b, 64);
    blob_u64(&b, 2);
    at[T0_TYPE] = b.n;
    blob_u32(&b, TFT_Q8_0);
    at[T0_OFFSET] = b.n;
    blob_u64(&b, 0);

    at[T1] = b.n;
    blob_str(&b, "t1");
    at[T1_DIMS] = b.n;
    blob_u32(&b, 1);
    at[T1_NE] = b.n;
    blob_u64(&b, 4);
    at[T1_TYPE] = b.n;
    blob_u32(&b, TFT_F32);
    at[T1_OFFSET] = b.n;
    blob_u64(&b, 160);

    blob_pad(&b, 32);
    at[DATA] = b.n;
    for (int i = 0; i < 160; i++)
        b.p[b.n++] = (unsigned char)i;
    for (int i = 0; i < 4; i++)
        blob_f32(&b, (float)i);
    return b;
}

static size_t peak; /* most memory in use during the last open_bytes() */

/* Opens exactly these bytes, and checks the properties of every file: the memory, the form of an
   error. */
static enum tft_status open_bytes(struct tft_source *s, const void *p, size_t n,
                                  struct tft_error *err)
{
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    unsigned char *copy = exact_copy(p, n);
    *err = (struct tft_error){0};
    enum tft_status status = tft_source_open_mem(s, "m.gguf", copy, n, &a, err);
    peak = m.peak;
    assert_true(peak <= 4 * n + 1024);
    assert_int_equal(err->code, status);
    if (status) {
        assert_int_equal(m.in_use, 0);
        char where[64];
        snprintf(where, sizeof where, "m.gguf: byte %llu: ", (unsigned long long)err->offset);
        assert_memory_equal(err->msg, where, strlen(where));
        assert_true(err->offset <= n);
    } else {
        tft_source_close(s);
        assert_int_equal(m.in_use, 0);
    }
    tft_port_free(copy);
    return status;
}

static void refused(const struct blob *b, enum tft_status status, size_t offset, const char *what)
{
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(open_bytes(&s, b->p, b->n, &err), status);
    if (!strstr(err.msg, what))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, what);
    if (err.offset != offset)
        fail_msg("\"%s\": the byte should be %zu", err.msg, offset);
}

static void accepted(const struct blob *b)
{
    struct tft_source s;
    struct tft_error err;
    if (open_bytes(&s, b->p, b->n, &err))
        fail_msg("%s", err.msg);
}

/* ---- valid files */

static void reads_everything(void **state)
{
    (void)state;
    struct blob b = valid_file();
    for (uint32_t version = 2; version <= 3; version++) {
        tft_store_u32(b.p + at[VERSION], version);
        unsigned char *copy = exact_copy(b.p, b.n);
        struct tft_source s;
        assert_int_equal(tft_source_open_mem(&s, "m.gguf", copy, b.n, NULL, NULL), TFT_OK);
        assert_int_equal(s.version, version);
        assert_int_equal(s.alignment, 32);
        assert_int_equal(s.n_value, 5);
        assert_int_equal(s.n_tensor, 2);

        struct tft_str str;
        const struct tft_value *v = tft_source_value(&s, "general.architecture");
        assert_true(tft_value_str(v, &str) && tft_str_is(str, "llama"));
        assert_ptr_equal(v, &s.value[0]);
        assert_int_equal(v->offset, at[KEY_ARCH]);
        v = tft_source_value(&s, "k.ac");
        uint64_t u;
        assert_true(v->is_array && v->n == 3 && tft_value_uint(v, 2, &u) && u == 3);
        v = tft_source_value(&s, "k.ab");
        const unsigned char *p = v->data;
        assert_true(tft_str_is(tft_value_next_str(&p), "x") &&
                    tft_str_is(tft_value_next_str(&p), "yz"));
        assert_null(tft_source_value(&s, "k.a"));
        assert_null(tft_source_value(&s, "k.ad"));
        assert_null(tft_source_value(&s, ""));

        const struct tft_tensor *t = tft_source_tensor(&s, "t0");
        assert_int_equal(t->type, TFT_Q8_0);
        assert_int_equal(t->n_dims, 2);
        assert_true(t->ne[0] == 64 && t->ne[1] == 2 && t->ne[2] == 1 && t->ne[3] == 1);
        assert_int_equal(t->bytes, 136);
        assert_ptr_equal(t->data, copy + at[DATA]);
        t = tft_source_tensor(&s, "t1");
        assert_int_equal(t->bytes, 16);
        assert_ptr_equal(t->data, copy + at[DATA] + 160);
        assert_int_equal(t->offset, at[T1]);
        assert_null(tft_source_tensor(&s, "t2"));
        tft_source_close(&s);
        tft_port_free(copy);
    }
}

static void empty_file(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_header(&b, 0, 0);
    accepted(&b);
}

static void names_at_their_limits(void **state)
{
    (void)state;
    char longest[64];
    memset(longest, 'n', 63);
    longest[63] = 0;
    struct blob b = {0};
    blob_header(&b, 1, 1);
    blob_key(&b,
             "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
             TFT_VALUE_U8);
    blob_bytes(&b, "", 1);
    blob_str(&b, longest);
    blob_u32(&b, 4);
    for (int i = 0; i < 4; i++)
        blob_u64(&b, 1);
    blob_u32(&b, TFT_I8);
    blob_u64(&b, 0);
    blob_pad(&b, 32);
    blob_bytes(&b, "", 1);
    accepted(&b);
}

static void bytes_after_the_data_are_ignored(void **state)
{
    (void)state;
    struct blob b = valid_file();
    for (int i = 0; i < 40; i++) {
        accepted(&b);
        b.p[b.n++] = 0xff;
    }
}

static void many_names_in_any_order_are_found(void **state)
{
    (void)state;
    enum { N = 150 };
    for (unsigned step = 1; step <= 101; step += 20) {
        struct blob b = {0};
        blob_header(&b, 0, N);
        for (unsigned i = 0; i < N; i++) {
            char key[16];
            /* 151 is prime: each number occurs once */
            snprintf(key, sizeof key, "k%u", (i * step + step) % 151);
            blob_key(&b, key, TFT_VALUE_U8);
            b.p[b.n++] = (unsigned char)i;
        }
        unsigned char *copy = exact_copy(b.p, b.n);
        struct tft_source s;
        assert_int_equal(tft_source_open_mem(&s, "m.gguf", copy, b.n, NULL, NULL), TFT_OK);
        for (unsigned i = 0; i < N; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%u", (i * step + step) % 151);
            assert_ptr_equal(tft_source_value(&s, key), &s.value[i]);
        }
        assert_null(tft_source_value(&s, "k0"));
        tft_source_close(&s);
        tft_port_free(copy);
    }
}

/* ---- damaged files: the valid one with one number changed */

static const struct damage {
    enum place place;
    int delta;     /* offset from that part */
    unsigned size; /* bytes of the number */
    uint64_t number;
    enum tft_status status;
    enum place where; /* the position in the message, in the same form */
    int where_delta;
    const char *what;
} damages[] = {
#define FORMAT TFT_ERR_FORMAT
#define UNSUPPORTED TFT_ERR_UNSUPPORTED
    {VERSION, -4, 4, 0x46554746, FORMAT, VERSION, -4, "neither a GGUF file"},
    {VERSION, 0, 4, 0, UNSUPPORTED, VERSION, 0, "version 0"},
    {VERSION, 0, 4, 1, UNSUPPORTED, VERSION, 0, "version 1"},
    {VERSION, 0, 4, 4, UNSUPPORTED, VERSION, 0, "version 4"},
    {VERSION, 0, 4, UINT32_MAX, UNSUPPORTED, VERSION, 0, "version 4294967295"},
    {VERSION, 0, 4, 0x03000000, UNSUPPORTED, VERSION, 0, "big-endian"},
    {VERSION, 0, 4, 0x02000000, UNSUPPORTED, VERSION, 0, "big-endian"},

    {N_TENSOR, 0, 8, (uint64_t)1 << 63, FORMAT, N_TENSOR, 0,
     "9223372036854775808 tensors do not fit"},
    {N_TENSOR, 0, 8, UINT64_MAX, FORMAT, N_TENSOR, 0, "tensors do not fit"},
    {N_TENSOR, 0, 8, 60, FORMAT, N_TENSOR, 0, "60 tensors do not fit"},
    {N_VALUE, 0, 8, (uint64_t)1 << 63, FORMAT, N_VALUE, 0, "values do not fit"},
    {N_VALUE, 0, 8, UINT64_MAX, FORMAT, N_VALUE, 0, "values do not fit"},
    {N_VALUE, 0, 8, 60, FORMAT, N_VALUE, 0, "60 values do not fit"},
    {N_VALUE, 0, 8, 6, FORMAT, T0_NE, 2, "the name of tensor 0"}, /* t0 is read as a value */
    {N_TENSOR, 0, 8, 3, FORMAT, T1_OFFSET, 8, "tensor 2 has an empty name"},

    {KEY_ARCH, 0, 8, 0, FORMAT, KEY_ARCH, 0, "value 0 has an empty name"},
    {KEY_ARCH, 0, 8, UINT64_MAX, FORMAT, KEY_ARCH, 0, "18446744073709551615 bytes"},
    {KEY_ARCH, 0, 8, 65536, FORMAT, KEY_ARCH, 0, "at most 65535"},
    {KEY_ARCH, 0, 8, 65535, FORMAT, KEY_ARCH, 8, "the file ends inside value 0"},
    {KEY_ARCH, 8, 1, 0, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 8, 1, 0xff, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 8, 1, 0x80, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 27, 2, 0x80c3, FORMAT, KEY_ARCH, 8,
     "not UTF-8 text"}, /* a character cut by the end */
    {KEY_ARCH, 8, 2, 0x61c3, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 8, 2, 0xbfc1, FORMAT, KEY_ARCH, 8, "not UTF-8 text"}, /* overlong */
    {KEY_ARCH, 8, 4, 0x61bf9fe0, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 8, 4, 0xbfbf8ff0, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},
    {KEY_ARCH, 8, 4, 0x6180a0ed, FORMAT, KEY_ARCH, 8, "not UTF-8 text"},         /* a surrogate */
    {KEY_ARCH, 8, 4, 0x80808ff4 + 0x100, FORMAT, KEY_ARCH, 8, "not UTF-8 text"}, /* U+110000 */
    {KEY_STRS, 8 + 3, 1, 'a', FORMAT, KEY_STRS, 0, "the key \"k.aa\" occurs twice"},

    {TYPE_ARCH, 0, 4, 13, FORMAT, TYPE_ARCH, 0, "\"general.architecture\" has the unknown type 13"},
    {TYPE_ARCH, 0, 4, UINT32_MAX, FORMAT, TYPE_ARCH, 0, "unknown type 4294967295"},
    {ARCH, 0, 8, (uint64_t)1 << 30, FORMAT, ARCH, 8,
     "the file ends inside \"general.architecture\", 1 x string"},
    {ARCH, 0, 8, UINT64_MAX, FORMAT, ARCH, 8, "the file ends inside"},
    {STRS, 0, 4, TFT_VALUE_ARRAY, UNSUPPORTED, STRS, 0, "\"k.ab\" is an array of arrays"},
    {STRS, 0, 4, 13, FORMAT, STRS, 0, "unknown type 13"},
    {STRS, SECOND_STR, 8, (uint64_t)1 << 30, FORMAT, STRS, SECOND_STR + 8, "\"k.ab\", 2 x string"},
    {STRS, SECOND_STR, 8, UINT64_MAX, FORMAT, STRS, SECOND_STR + 8, "\"k.ab\", 2 x string"},
    {NUMS, 4, 8, (uint64_t)1 << 30, FORMAT, NUMS, 12, "\"k.ac\", 1073741824 x u16"},
    {NUMS, 4, 8, (uint64_t)1 << 63, FORMAT, NUMS, 12, "x u16"}, /* times 2 is 0 */
    {NUMS, 4, 8, ((uint64_t)1 << 63) + 3, FORMAT, NUMS, 12, "x u16"},
    {NUMS, 4, 8, UINT64_MAX, FORMAT, NUMS, 12, "x u16"},
    {NUMS, 0, 4, TFT_VALUE_BOOL, FORMAT, NUMS, 14, "\"k.ac\" is a bool, but its value is 2"},
    {FLAG, 0, 1, 2, FORMAT, FLAG, 0, "\"k.aa\" is a bool, but its value is 2"},
    {FLAG, 0, 1, 255, FORMAT, FLAG, 0, "its value is 255"},

    {ALIGN, 0, 4, 0, FORMAT, KEY_ALIGN, 0, "general.alignment is 0"},
    {ALIGN, 0, 4, 3, FORMAT, KEY_ALIGN, 0, "general.alignment is 3"},
    {ALIGN, 0, 4, 4, FORMAT, KEY_ALIGN, 0, "general.alignment is 4"},
    {ALIGN, 0, 4, 24, FORMAT, KEY_ALIGN, 0, "general.alignment is 24"},
    {ALIGN, 0, 4, 1 << 17, FORMAT, KEY_ALIGN, 0, "general.alignment is 131072"},
    {ALIGN, 0, 4, 1 << 30, FORMAT, KEY_ALIGN, 0, "general.alignment is 1073741824"},
    {ALIGN, 0, 4, 1u << 31, FORMAT, KEY_ALIGN, 0, "general.alignment is 2147483648"},
    {ALIGN, 0, 4, 64, FORMAT, T1_OFFSET, 0, "\"t1\" is at offset 160 instead of 192, where"},
    {ALIGN, 0, 4, 65536, FORMAT, T1_OFFSET, 0, "instead of 65536, where"},
    {TYPE_ALIGN, 0, 4, TFT_VALUE_F32, FORMAT, KEY_ALIGN, 0, "general.alignment is not a u32"},
    {TYPE_ALIGN, 0, 4, TFT_VALUE_I32, FORMAT, KEY_ALIGN, 0, "general.alignment is not a u32"},

    {T0, 0, 8, 0, FORMAT, T0, 0, "tensor 0 has an empty name"},
    {T0, 0, 8, 64, FORMAT, T0, 0, "at most 63"},
    {T0, 0, 8, UINT64_MAX, FORMAT, T0, 0, "at most 63"},
    {T0, 8, 1, 0, FORMAT, T0, 8, "the name of tensor 0 is not UTF-8 text"},
    {T0, 8, 1, 0xf8, FORMAT, T0, 8, "not UTF-8 text"},
    {T1, 9, 1, '0', FORMAT, T1, 0, "the tensor \"t0\" occurs twice"},

    {T0_DIMS, 0, 4, 0, FORMAT, T0_DIMS, 0, "\"t0\" has 0 dimensions"},
    {T0_DIMS, 0, 4, 5, FORMAT, T0_DIMS, 0, "\"t0\" has 5 dimensions"},
    {T0_DIMS, 0, 4, 1000000, FORMAT, T0_DIMS, 0, "1000000 dimensions"},
    {T0_DIMS, 0, 4, UINT32_MAX, FORMAT, T0_DIMS, 0, "dimensions"},

    {T0_NE, 0, 8, 0, FORMAT, T0_NE, 0, "dimension 0 of tensor \"t0\" is 0"},
    {T0_NE, 8, 8, 0, FORMAT, T0_NE, 8, "dimension 1 of tensor \"t0\" is 0"},
    {T0_NE, 0, 8, UINT64_MAX, FORMAT, T0_NE, 0, "2^63 numbers or more"},
    {T0_NE, 0, 8, (uint64_t)1 << 63, FORMAT, T0_NE, 0, "2^63 numbers"},
    {T0_NE, 0, 8, 0x7fffffffffffffc0, FORMAT, T0_NE, 8, "2^63 numbers"},
    {T0_NE, 8, 8, 0x7fffffffffffffc0, FORMAT, T0_NE, 8, "2^63 numbers"},
    {T0_NE, 8, 8, ((uint64_t)1 << 58) + 1, FORMAT, T0_NE, 8,
     "2^63 numbers"}, /* times 64 wraps to 64 */
    {T0_NE, 8, 8, ((uint64_t)1 << 42) + 1, FORMAT, T0_TYPE, 0, "\"t0\" is larger than the file"},
    {T0_NE, 0, 8, 1 << 20, FORMAT, T0_TYPE, 0, "\"t0\" is larger than the file"},
    {T1_NE, 0, 8, (uint64_t)1 << 62, FORMAT, T1_TYPE, 0,
     "\"t1\" is larger than the file"}, /* bytes wrap to 0 */
    {T0_NE, 0, 8, 33, FORMAT, T0_TYPE, 0, "rows of 33 numbers, not a multiple of 32 as Q8_0 needs"},
    {T0_NE, 0, 8, 16, FORMAT, T0_TYPE, 0, "rows of 16 numbers"}, /* 2 x 16 would make a block */
    {T0_TYPE, 0, 4, TFT_Q4_K, FORMAT, T0_TYPE, 0, "not a multiple of 256 as Q4_K needs"},

    {T0_TYPE, 0, 4, UINT32_MAX, UNSUPPORTED, T0_TYPE, 0, "\"t0\" is of type unknown (-1)"},
    {T0_TYPE, 0, 4, 4, UNSUPPORTED, T0_TYPE, 0, "type unknown (4)"},
    {T0_TYPE, 0, 4, 5, UNSUPPORTED, T0_TYPE, 0, "type unknown (5)"},
    {T0_TYPE, 0, 4, 9, UNSUPPORTED, T0_TYPE, 0, "type Q8_1 (9)"},
    {T0_TYPE, 0, 4, 28, UNSUPPORTED, T0_TYPE, 0, "type F64 (28)"},
    {T0_TYPE, 0, 4, 31, UNSUPPORTED, T0_TYPE, 0, "type unknown (31)"},
    {T0_TYPE, 0, 4, 33, UNSUPPORTED, T0_TYPE, 0, "type unknown (33)"},
    {T0_TYPE, 0, 4, 36, UNSUPPORTED, T0_TYPE, 0, "type unknown (36)"},
    {T0_TYPE, 0, 4, 38, UNSUPPORTED, T0_TYPE, 0, "type unknown (38)"},
    {T0_TYPE, 0, 4, 43, UNSUPPORTED, T0_TYPE, 0, "type unknown (43)"},

    {T1_OFFSET, 0, 8, 161, FORMAT, T1_OFFSET, 0, "\"t1\" is at offset 161 instead of 160, where"},
    {T1_OFFSET, 0, 8, 0, FORMAT, T1_OFFSET, 0, "\"t1\" is at offset 0"}, /* overlaps t0 */
    {T1_OFFSET, 0, 8, 128, FORMAT, T1_OFFSET, 0, "at offset 128"},       /* overlaps its end */
    {T0_OFFSET, 0, 8, 160, FORMAT, T0_OFFSET, 0, "\"t0\" is at offset 160 instead of 0, where"},
    {T1_OFFSET, 0, 8, 192, FORMAT, T1_OFFSET, 0, "at offset 192"}, /* past the end of the file */
    /* + 16 wraps */
    {T1_OFFSET, 0, 8, UINT64_MAX - 31, FORMAT, T1_OFFSET, 0, "at offset 18446744073709551584"},
    {T1_NE, 0, 8, 5, FORMAT, T1, 0, "the data of tensor \"t1\" ends at byte"},
    {T1_NE, 0, 8, 100, FORMAT, T1_OFFSET, 0, "\"t1\" ends outside the file"},
#undef FORMAT
#undef UNSUPPORTED
};

static struct blob damaged_file(const struct damage *d)
{
    struct blob b = valid_file();
    for (unsigned k = 0; k < d->size; k++)
        b.p[at[d->place] + (size_t)d->delta + k] = (unsigned char)(d->number >> 8 * k);
    return b;
}

static void damaged_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        const struct damage *d = &damages[i];
        struct blob b = damaged_file(d);
        refused(&b, d->status, at[d->where] + (size_t)d->where_delta, d->what);
    }
}

static void damage_of_two_places(void **state)
{
    (void)state;
    struct blob b = valid_file(); /* the padding of t0 goes past the end, and t1 starts there */
    tft_store_u32(b.p + at[ALIGN], 4096);
    tft_store_u64(b.p + at[T1_OFFSET], 4096);
    refused(&b, TFT_ERR_FORMAT, at[T1_OFFSET], "\"t1\" ends outside the file");

    b = (struct blob){0};
    blob_header(&b, 0, 1);
    blob_array(&b, "general.alignment", TFT_VALUE_U32, 1);
    blob_u32(&b, 32);
    refused(&b, TFT_ERR_FORMAT, 24, "general.alignment is not a u32");

    b = (struct blob){0};
    blob_header(&b, 0, 4);
    for (int i = 0; i < 4; i++) {
        blob_key(&b, i % 2 ? "b" : "a", TFT_VALUE_U8);
        b.p[b.n++] = 0;
    }
    /* the first duplicate in the order of the file, not the last */
    refused(&b, TFT_ERR_FORMAT, 24 + 2 * 14, "the key \"a\" occurs twice");
}

static void every_truncation(void **state)
{
    (void)state;
    struct blob b = valid_file();
    for (size_t n = 0; n < b.n; n++) {
        struct tft_source s;
        struct tft_error err;
        assert_int_equal(open_bytes(&s, b.p, n, &err), TFT_ERR_FORMAT);
        assert_true(strstr(err.msg, "the file") || strstr(err.msg, "neither a GGUF") ||
                    strstr(err.msg, "do not fit"));
    }
}

/* An endless array of strings, and counts that the smallest values and tensors would allow: no
   memory is taken. */
static void memory_is_not_taken_on_trust(void **state)
{
    (void)state;
    struct blob b = {0};
    blob_header(&b, 0, 1);
    blob_array(&b, "k", TFT_VALUE_STRING, UINT64_MAX);
    size_t strings = b.n;
    while (b.n < 4000)
        blob_u64(&b, 0);
    refused(&b, TFT_ERR_FORMAT, b.n, "the file ends inside \"k\"");
    assert_int_equal(peak, 0);

    tft_store_u64(b.p + 8, (4000 - 24) / 33);
    tft_store_u64(b.p + 16, (4000 - 24) / 14);
    tft_store_u64(b.p + strings - 8, 0);
    refused(&b, TFT_ERR_FORMAT, strings, "value 1 has an empty name");
    assert_int_equal(peak, 0);
}

static void every_flipped_bit(void **state)
{
    (void)state;
    struct blob b = valid_file();
    for (size_t i = 0; i < at[DATA] * 8; i++) {
        struct tft_source s;
        struct tft_error err;
        b.p[i / 8] ^= (unsigned char)(1 << i % 8);
        open_bytes(&s, b.p, b.n, &err);
        b.p[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    accepted(&b);
}

static void no_memory(void **state)
{
    (void)state;
    struct blob b = valid_file();
    unsigned char *copy = exact_copy(b.p, b.n);
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_source s;
    assert_int_equal(tft_source_open_mem(&s, "m.gguf", copy, b.n, &a, NULL), TFT_OK);
    tft_source_close(&s);
    unsigned calls = m.calls;
    assert_true(calls > 0);
    for (unsigned i = 1; i <= calls; i++) {
        struct tft_error err;
        m = (struct memory){.fail_at = i};
        assert_int_equal(tft_source_open_mem(&s, "m.gguf", copy, b.n, &a, &err), TFT_ERR_NOMEM);
        assert_int_equal(err.code, TFT_ERR_NOMEM);
        assert_non_null(strstr(err.msg, "m.gguf: out of memory"));
        assert_int_equal(m.in_use, 0);
        tft_source_close(&s);
    }
    tft_port_free(copy);
}

/* ---- real files */

static void vocabularies(void **state)
{
    (void)state;
    static const char *const name[] = {"gpt-2", "gpt-neox", "llama-spm",
                                       "mpt",   "phi-3",    "starcoder"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char file[64];
        snprintf(file, sizeof file, "tokenizers/ggml-vocab-%s.gguf", name[i]);
        const char *path = shared_path(file);
        if (!path)
            skip_because("shared/%s: not found", file);
        struct memory m = {0};
        struct tft_allocator a = memory_allocator(&m);
        struct tft_source s;
        struct tft_error err;
        if (tft_source_open(&s, path, NULL, &a, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(s.n_tensor, 0);
        assert_true(m.peak < 8192);
        const struct tft_value *v = tft_source_value(&s, "tokenizer.ggml.tokens");
        assert_true(v->is_array && v->type == TFT_VALUE_STRING && v->n > 30000);
        tft_source_close(&s);
        assert_int_equal(m.in_use, 0);
    }
}

static void tinyllama(void **state)
{
    (void)state;
    const char *path = model_path("tinyllama-1.1b-chat.iq2_xxs.gguf");
    if (!path)
        skip_because("tinyllama-1.1b-chat.iq2_xxs.gguf: not found");
    struct tft_source s;
    struct tft_error err;
    if (tft_source_open(&s, path, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(s.n_tensor, 201); /* 22 layers of 9, embeddings, last norm, head */
    uint64_t layers, numbers = 0;
    assert_true(tft_value_uint(tft_source_value(&s, "llama.block_count"), 0, &layers) &&
                layers == 22);
    for (size_t i = 0; i < s.n_tensor; i++)
        numbers += s.tensor[i].ne[0] * s.tensor[i].ne[1];
    assert_int_equal(numbers, 1100048384);
    const struct tft_tensor *t = tft_source_tensor(&s, "blk.21.ffn_down.weight");
    assert_true(t->ne[0] == 5632 && t->ne[1] == 2048);
    t = &s.tensor[s.n_tensor - 1];
    assert_ptr_equal(t->data + t->bytes, s.data + s.size);
    tft_source_close(&s);
}

/* "--write FOLDER" writes the valid file and the damaged ones, as seeds for fuzzing. */
static int write_files(const char *to)
{
    for (size_t i = 0; i <= sizeof damages / sizeof *damages; i++) {
        char path[1024];
        struct blob b = i ? damaged_file(&damages[i - 1]) : valid_file();
        snprintf(path, sizeof path, "%s/%zu", to, i);
        if (!write_file(path, b.p, b.n))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_files(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_everything),
        cmocka_unit_test(empty_file),
        cmocka_unit_test(names_at_their_limits),
        cmocka_unit_test(bytes_after_the_data_are_ignored),
        cmocka_unit_test(many_names_in_any_order_are_found),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(damage_of_two_places),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(memory_is_not_taken_on_trust),
        cmocka_unit_test(every_flipped_bit),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(vocabularies),
        cmocka_unit_test(tinyllama),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
