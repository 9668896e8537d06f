#define _GNU_SOURCE /* mkdtemp, O_TMPFILE */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "folder.h"
#include "file/file.h"
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

/* Closing fails with this message, and no file remains. */
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

/* Files in the folder for each open writer: none where a file can exist without a name. */
static int named;

static int make_folder_and_see(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    named = 1;
#if defined O_TMPFILE && !defined TFT_TEST_NAMED
    int fd = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (fd >= 0) {
        close(fd);
        named = 0;
    }
#endif
    return 0;
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
    assert_true(tft_value_str(tft_source_value(s, "a.str"), &t) &&
                tft_str_is(t, "gr\xc3\xbc\xc3\x9f"));
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

static void empty_file(void **state)
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
        tft_gguf_put_tensor(w, s->tensor[i].name, s->tensor[i].type, s->tensor[i].n_dims,
                            s->tensor[i].ne);
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
        skip_because("shared/tokenizers/ggml-vocab-llama-spm.gguf: not found");
    struct tft_source s, t;
    opens_well(&s, real);
    copy(&s, path);
    opens_well(&t, path);
    assert_int_equal(s.n_value, t.n_value);
    for (size_t i = 0; i < s.n_value; i++) {
        const struct tft_value *a = &s.value[i], *b = &t.value[i];
        assert_true(a->key.n == b->key.n && memcmp(a->key.p, b->key.p, a->key.n) == 0);
        assert_true(a->type == b->type && a->is_array == b->is_array && a->n == b->n &&
                    a->offset == b->offset);
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
    assert_int_equal(files_in_folder(false), 1 + 2 * named);
    assert_int_equal(tft_gguf_close(other, false, NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 1 + named);

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

static void discarded(void **state)
{
    (void)state;
    struct tft_gguf_writer *w = create(in_folder("m"));
    write_values(w);
    write_tensors(w);
    assert_int_equal(tft_gguf_close(w, false, NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 0);
    assert_int_equal(tft_gguf_close(NULL, true, NULL), TFT_OK);
}

/* A complete file without a name can be read, until it gets the name or is discarded. */
static void completed(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        const char *path = in_folder("m");
        struct tft_gguf_writer *w = create(path);
        struct tft_new_file *f;
        struct tft_source s;
        write_values(w);
        write_tensors(w);
        assert_int_equal(tft_gguf_complete(w, &f, NULL), TFT_OK);
        assert_int_equal(files_in_folder(false), named);
        opens_well(&s, f->temp.name);
        assert_true(s.n_tensor > 0 && s.n_value > 0);
        tft_source_close(&s);
        assert_int_equal(tft_new_file_end(f, keep, NULL), TFT_OK);
        assert_int_equal(files_in_folder(false), keep);
    }
    struct tft_source kept;
    opens_well(&kept, in_folder("m"));
    tft_source_close(&kept);
}

static void writes_a_file(const char *path)
{
    struct tft_gguf_writer *w = create(path);
    write_values(w);
    closes_well(w);
}

static void a_private_file_stays_private(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct stat now;
    assert_true(write_file(path, "old", 3));
    assert_int_equal(chmod(path, 0600), 0);
    writes_a_file(path);
    assert_int_equal(stat(path, &now), 0);
    assert_int_equal(now.st_mode & 0777, 0600);
    assert_true(now.st_size > 3);
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    struct stat now;
    char link[200];
    snprintf(link, sizeof link, "%s", in_folder("link"));
    const char *path = in_folder("m");
    assert_true(write_file(path, "old", 3));
    assert_int_equal(symlink("m", link), 0);
    writes_a_file(link);
    assert_int_equal(lstat(link, &now), 0);
    assert_true(S_ISLNK(now.st_mode));
    assert_int_equal(stat(in_folder("m"), &now), 0);
    assert_true(now.st_size > 3);
    assert_int_equal(files_in_folder(false), 2);
}

static int syncs_left = INT_MAX;

/* Takes the place of the system's. */
int fsync(int fd)
{
    (void)fd;
    if (syncs_left-- > 0)
        return 0;
    errno = EIO;
    return -1;
}

/* Of the two syncs, of the file and of the folder, the second one comes when the file is there. */
static void what_a_failed_sync_leaves(void **state)
{
    (void)state;
    static const char *const words[] = {"cannot be replaced", "is written, but its folder"};
    for (int i = 0; i < 2; i++) {
        struct tft_gguf_writer *w = create(in_folder("m"));
        struct tft_error err = {0};
        write_values(w);
        syncs_left = i;
        assert_int_equal(tft_gguf_close(w, true, &err), TFT_ERR_IO);
        syncs_left = INT_MAX;
        assert_non_null(strstr(err.msg, words[i]));
        assert_int_equal(files_in_folder(false), i);
    }
}

/* Writes in a process of its own, which is killed when the file has grown to `after` bytes,
   wherever it is then. */
static void is_killed(const char *path, size_t after)
{
    static const unsigned char data[1 << 20];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct tft_gguf_writer *w;
        if (tft_gguf_create(&w, path, NULL) != TFT_OK)
            _exit(1);
        write_values(w);
        tft_gguf_put_tensor(w, str("a"), TFT_I8, 1, &(uint64_t){sizeof data});
        tft_gguf_put_data(w, data, after);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The old file is unchanged; a draft with a name is not a model. */
static void killed_while_writing(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    for (size_t after = 1; after <= 1 << 20; after *= 1024) {
        is_killed(path, after);
        assert_int_equal(files_in_folder(false), named);
        assert_int_equal(access(path, F_OK), -1);
        files_in_folder(true);
    }
    assert_true(write_file(path, "old", 3));
    is_killed(path, 1 << 20);
    assert_int_equal(files_in_folder(false), 1 + named);
    struct tft_map map;
    assert_int_equal(tft_port_map(&map, path), 0);
    assert_true(map.size == 3 && memcmp(map.data, "old", 3) == 0);
    tft_port_unmap(&map);
    if (named) {
        struct tft_source s;
        assert_int_equal(tft_source_open(&s, in_folder("m.tmp0"), NULL, NULL, NULL),
                         TFT_ERR_FORMAT);
    }

    struct tft_gguf_writer *w = create(path); /* and it does not block the next writer */
    write_values(w);
    closes_well(w);
    struct tft_source s;
    opens_well(&s, path);
    check_values(&s);
    tft_source_close(&s);
}

/* Existing files PATH.tmpN are left alone, while the file is written and when it gets its name. */
static void drafts_of_others_are_left_alone(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    assert_true(write_file(in_folder("m.tmp0"), "theirs", 6) &&
                write_file(in_folder("m.tmp1"), "theirs", 6));
    struct tft_gguf_writer *w = create(path);
    write_values(w);
    closes_well(w);
    assert_int_equal(files_in_folder(false), 3);
    for (int i = 0; i < 2; i++) {
        struct tft_map map;
        assert_int_equal(tft_port_map(&map, in_folder(i ? "m.tmp1" : "m.tmp0")), 0);
        assert_int_equal(map.size, 6);
        tft_port_unmap(&map);
    }
}

/* A path without a folder is in the current folder; permissions follow the umask. */
static void path_without_a_folder(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    mode_t old = umask(027);
    struct tft_gguf_writer *w = create("m");
    write_values(w);
    closes_well(w);
    umask(old);
    assert_int_equal(chdir(before), 0);
    struct stat st;
    assert_int_equal(stat(in_folder("m"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

/* ---- checksums */

/* The definition: the CRC of every byte from the first tensor on. */
static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < 8 * n; i++)
        crc = crc >> 1 ^ ((crc ^ (uint32_t)(p[i / 8] >> i % 8)) & 1 ? 0xedb88320 : 0);
    return ~crc;
}

static void checksum_is_of_the_data(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_source s;
    /* padding before, between and after the tensors */
    for (uint32_t align = 8; align <= 4096; align *= 8) {
        struct tft_gguf_writer *w = create(path);
        tft_gguf_put_u32(w, "general.alignment", align);
        tft_gguf_put_checksum(w, "t.checksum");
        write_values(w);
        write_tensors(w);
        closes_well(w);
        opens_well(&s, path);
        uint64_t sum;
        size_t start = (size_t)(s.tensor[0].data - s.data);
        assert_true(tft_value_uint(tft_source_value(&s, "t.checksum"), 0, &sum));
        assert_int_equal(tft_source_value(&s, "t.checksum")->type, TFT_VALUE_U32);
        assert_int_equal(sum, crc_of(s.data + start, s.size - start));
        assert_int_equal(sum, tft_source_checksum(&s));
        assert_int_equal(s.n_value, 13);
        check_tensors(&s);
        tft_source_close(&s);
    }
}

/* Numbers that are filled in piece by piece while data is written are not part of the checksum. */
static void arrays_filled_in_later(void **state)
{
    (void)state;
    static const float real[3] = {1.5f, -2, 3e-20f};
    static const uint8_t small[2] = {7, 255};
    const char *path = in_folder("m");
    struct tft_source s;
    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_checksum(w, "t.checksum");
    uint64_t at_real = tft_gguf_put_array_later(w, "t.real", TFT_VALUE_F32, 3);
    uint64_t at_small = tft_gguf_put_array_later(w, "t.small", TFT_VALUE_U8, 2);
    write_values(w);
    tft_gguf_fill_array(w, at_small, TFT_VALUE_U8, small, 2);
    write_tensors(w);
    tft_gguf_fill_array(w, at_real + 4, TFT_VALUE_F32, real + 1, 2);
    tft_gguf_fill_array(w, at_real, TFT_VALUE_F32, real, 1);
    closes_well(w);
    opens_well(&s, path);
    for (uint64_t i = 0; i < 3; i++) {
        double x;
        assert_true(tft_value_real(tft_source_value(&s, "t.real"), i, &x));
        assert_true((float)x == real[i]);
    }
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t n;
        assert_true(tft_value_uint(tft_source_value(&s, "t.small"), i, &n));
        assert_int_equal(n, small[i]);
    }
    uint64_t sum;
    assert_true(tft_value_uint(tft_source_value(&s, "t.checksum"), 0, &sum));
    assert_int_equal(sum, tft_source_checksum(&s));
    check_tensors(&s);
    tft_source_close(&s);
}

static void checksum_of_nothing(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_checksum(w, "k");
    closes_well(w);
    struct tft_source s;
    opens_well(&s, path);
    uint64_t sum;
    assert_true(tft_value_uint(tft_source_value(&s, "k"), 0, &sum) && sum == 0);
    assert_int_equal(tft_source_checksum(&s), 0);
    tft_source_close(&s);

    w = create(path);
    tft_gguf_put_checksum(w, "k");
    tft_gguf_put_checksum(w, "l");
    files_in_folder(true);
    closes_with(w, TFT_ERR_ARG, "a second checksum, \"l\"");
}

static void checksum_sees_any_bit(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    write_tensors(w);
    closes_well(w);
    struct tft_source s, t;
    opens_well(&s, path);
    _Alignas(32) unsigned char bytes[1024];
    size_t start = (size_t)(s.tensor[0].data - s.data), size = s.size;
    assert_true(size <= sizeof bytes);
    memcpy(bytes, s.data, size);
    uint32_t right = tft_source_checksum(&s);
    tft_source_close(&s);
    for (size_t bit = 0; bit < 8 * (size - start); bit++) {
        bytes[start + bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(tft_source_open_mem(&t, "memory", bytes, size, NULL, NULL), TFT_OK);
        assert_int_not_equal(tft_source_checksum(&t), right);
        tft_source_close(&t);
        bytes[start + bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

/* The parts of a quantized weight (panels, scales, row sums), and numbers that stay floats. */
static void what_a_quantized_file_needs(void **state)
{
    (void)state;
    static const int8_t panels[256] = {-127, 0, 127, -1, 1};
    static const float scale[16] = {0.5f, 1e-38f, 3e38f};
    static const int32_t sums[16] = {INT32_MIN, -1, 0, INT32_MAX};
    static const uint16_t halves[8] = {0x3c00, 0x8000, 0x7bff};
    static const struct {
        const char *name;
        enum tft_dtype type;
        uint32_t n_dims;
        uint64_t ne[3];
        const void *data;
        size_t bytes;
    } all[] = {
        {"w", TFT_I8, 3, {64, 4, 1}, panels, sizeof panels},
        {"w.scale", TFT_F32, 1, {16}, scale, sizeof scale},
        {"w.rowsum", TFT_I32, 1, {16}, sums, sizeof sums},
        {"prefix", TFT_F16, 2, {4, 2}, halves, sizeof halves},
    };
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_array(w, "t.zero", TFT_VALUE_U8, "\0\377", 2);
    tft_gguf_put_array(w, "t.scale", TFT_VALUE_F32, scale, 3);
    tft_gguf_put_array(w, "t.prefix", TFT_VALUE_I32, sums, 4);
    for (size_t i = 0; i < 4; i++)
        tft_gguf_put_tensor(w, str(all[i].name), all[i].type, all[i].n_dims, all[i].ne);
    for (size_t i = 0; i < 4; i++)
        tft_gguf_put_data(w, all[i].data, all[i].bytes);
    closes_well(w);

    struct tft_source s;
    opens_well(&s, path);
    for (size_t i = 0; i < 4; i++) {
        const struct tft_tensor *t = tft_source_tensor(&s, all[i].name);
        assert_true(t && t->type == all[i].type && t->n_dims == all[i].n_dims &&
                    t->bytes == all[i].bytes);
        assert_memory_equal(t->ne, all[i].ne, t->n_dims * sizeof *t->ne);
        assert_memory_equal(t->data, all[i].data,
                            all[i].bytes); /* little-endian, like the machine */
    }
    int64_t n;
    uint64_t u;
    double x;
    for (size_t i = 0; i < 4; i++)
        assert_true(tft_value_int(tft_source_value(&s, "t.prefix"), i, &n) && n == sums[i]);
    for (size_t i = 0; i < 3; i++)
        assert_true(tft_value_real(tft_source_value(&s, "t.scale"), i, &x) && x == scale[i]);
    assert_true(tft_value_uint(tft_source_value(&s, "t.zero"), 1, &u) && u == 255);
    tft_source_close(&s);
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
    /* the first error is the one that is reported */
    tft_gguf_put_tensor(w, str("b"), TFT_F32, 0, &four);
    closes_with(w, TFT_ERR_ARG, "value \"late\" comes after a tensor");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    tft_gguf_put_data(w, data, 16);
    tft_gguf_put_tensor(w, str("b"), TFT_F32, 1, &four);
    closes_with(w, TFT_ERR_ARG, "tensor \"b\" comes after data");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    tft_gguf_put_data(w, data, 15);
    closes_with(w, TFT_ERR_ARG, "tensor 0 of 1 received 15 of its 16 bytes");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_F32, 1, &four);
    closes_with(w, TFT_ERR_ARG, "tensor 0 of 1 received 0 of its 16 bytes");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_I8, 1, &four);
    tft_gguf_put_tensor(w, str("b"), TFT_I8, 1, &four);
    tft_gguf_put_data(w, data, 5);
    closes_with(w, TFT_ERR_ARG, "more data than the size of tensor 0 of 2");

    w = create(path);
    tft_gguf_put_tensor(w, a, TFT_I8, 1, &four);
    tft_gguf_put_data(w, data, 4);
    tft_gguf_put_data(w, data, 1);
    closes_with(w, TFT_ERR_ARG, "more data than the size of tensor 1 of 1");

    static const struct {
        enum tft_dtype type;
        uint32_t n_dims;
        uint64_t ne[5];
    } bad[] = {
        {TFT_F32, 0, {1}},
        {TFT_F32, 5, {1, 1, 1, 1, 1}},
        {TFT_Q8_0, 1, {33}},
        {(enum tft_dtype)4, 1, {32}},
        {TFT_F32, 1, {0}},
        {TFT_F32, 2, {4, 0}},
        {TFT_F32, 2, {(uint64_t)1 << 40, (uint64_t)1 << 40}},
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
    closes_with(w, TFT_ERR_ARG, "\"k\" is not an array of numbers");
    w = create(path);
    tft_gguf_put_u32(w, "general.alignment", 0);
    closes_with(w, TFT_ERR_ARG, "general.alignment is 0, not a power of two");
}

static void what_could_not_be_read_is_not_written(void **state)
{
    (void)state;
    const char *path = in_folder("m");
    struct tft_gguf_writer *w = create(path);
    tft_gguf_put_u32(w, "k", 1);
    tft_gguf_put_u32(w, "k", 1);
    closes_with(w, TFT_ERR_ARG, "key \"k\" occurs twice");
    w = create(path);
    tft_gguf_put_u32(w, "", 1);
    closes_with(w, TFT_ERR_ARG, "value 0 has an empty name");
    w = create(path);
    tft_gguf_put_array(w, "k", TFT_VALUE_BOOL, "\2", 1);
    closes_with(w, TFT_ERR_ARG, "is a bool, but its value is 2");
    w = create(path);
    tft_gguf_put_tensor(w, str("0123456789012345678901234567890123456789012345678901234567890123"),
                        TFT_I8, 1, &(uint64_t){1});
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

/* A limit on the size of files stands in for a full disk: for stdio both are a write that fails.
   Space that becomes free later does not repair the file. */
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
        cmocka_unit_test_teardown(empty_file, clear),
        cmocka_unit_test_teardown(more_tensors_than_expected, clear),
        cmocka_unit_test_teardown(a_copy_is_the_same, clear),
        cmocka_unit_test_teardown(a_copy_of_a_real_file, clear),
        cmocka_unit_test_teardown(the_old_file_stays_until_the_new_one_is_whole, clear),
        cmocka_unit_test_teardown(discarded, clear),
        cmocka_unit_test_teardown(completed, clear),
        cmocka_unit_test_teardown(a_private_file_stays_private, clear),
        cmocka_unit_test_teardown(a_link_stays_a_link, clear),
        cmocka_unit_test_teardown(what_a_failed_sync_leaves, clear),
        cmocka_unit_test_teardown(killed_while_writing, clear),
        cmocka_unit_test_teardown(drafts_of_others_are_left_alone, clear),
        cmocka_unit_test_teardown(path_without_a_folder, clear),
        cmocka_unit_test_teardown(checksum_is_of_the_data, clear),
        cmocka_unit_test_teardown(arrays_filled_in_later, clear),
        cmocka_unit_test_teardown(checksum_of_nothing, clear),
        cmocka_unit_test_teardown(checksum_sees_any_bit, clear),
        cmocka_unit_test_teardown(what_a_quantized_file_needs, clear),
        cmocka_unit_test_teardown(wrong_use, clear),
        cmocka_unit_test_teardown(what_could_not_be_read_is_not_written, clear),
        cmocka_unit_test_teardown(what_the_system_refuses, clear),
        cmocka_unit_test_teardown(the_disk_is_full, clear),
    };
    return cmocka_run_group_tests(tests, make_folder_and_see, remove_folder);
}
