/* The promises of tft_model_open and its sisters: memory, progress, options, data in memory or in
   an open file. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <fcntl.h>
#include <unistd.h>

#include "edited_toys.h"
#include "memory.h"
#include "run/session.h"

/* A session that has computed three tokens. */
static struct tft_session *begun(const struct tft_model *m)
{
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_OK);
    assert_int_equal(tft_prefill(s, (const int32_t[]){1, 2, 3}, 3), TFT_OK);
    return s;
}

/* ---- memory */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct toy with_vocab = toys[Q8];
    with_vocab.n_vocab = TOY_VOCAB;
    with_vocab.vocab = "gpt2";
    with_vocab.chat_template = "{{ nothing }}";
    with_vocab.tool_template = "{{ tools }}";
    const char *path = written(&with_vocab);
    for (int only_vocab = 0; only_vocab < 2; only_vocab++) {
        unsigned fail_at = 1;
        for (;; fail_at++) {
            struct memory mem = {.fail_at = fail_at};
            struct tft_allocator a = memory_allocator(&mem);
            struct tft_model_opts o = {
                .size = sizeof o, .allocator = &a, .vocab_only = only_vocab, .n_threads = 1};
            struct tft_model *m;
            struct tft_error err = {0};
            enum tft_status status = tft_model_open(&m, path, &o, &err);
            if (status == TFT_OK) {
                assert_true(mem.calls < fail_at);
                tft_model_close(m);
                assert_int_equal(mem.in_use, 0);
                break;
            }
            assert_int_equal(status, TFT_ERR_NOMEM);
            assert_int_equal(err.code, TFT_ERR_NOMEM);
            assert_memory_equal(err.msg, path, strlen(path));
            assert_null(m);
            assert_int_equal(mem.in_use, 0);
        }
        assert_true(fail_at > 3);
    }
}

/* The template named tool_use is one of its own; without it, the chat template is for tools too. */
static void templates_for_tools(void **state)
{
    (void)state;
    struct toy toy = toys[Q8];
    const char *const rows[][3] = {
        {NULL, NULL, NULL}, {"a", NULL, "a"}, {"a", "b", "b"}, {NULL, "b", "b"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        toy.chat_template = rows[i][0];
        toy.tool_template = rows[i][1];
        struct tft_model *m = opened(written(&toy));
        const char *plain = tft_model_chat_template(m), *tools = tft_model_tool_template(m);
        assert_string_equal(plain ? plain : "none", rows[i][0] ? rows[i][0] : "none");
        assert_string_equal(tools ? tools : "none", rows[i][2] ? rows[i][2] : "none");
        tft_model_close(m);
    }
}

static void in_memory(void **state)
{
    (void)state;
    struct tft_map file;
    struct tft_model *m, *n;
    struct tft_error err;
    const char *path = written(&toys[Q8]);
    assert_int_equal(tft_port_map(&file, path), 0);
    char *block = tft_port_alloc((file.size + 127) / 64 * 64, 64);
    for (size_t off = 1; off < 32; off++) {
        memcpy(block + off, file.data, file.size);
        assert_int_equal(tft_model_open_mem(&m, block + off, file.size, NULL, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, "memory: the data is not aligned to 32 bytes");
        assert_null(m);
    }
    memcpy(block + 32, file.data, file.size);
    assert_int_equal(tft_model_open_mem(&m, block + 32, file.size - 1, NULL, &err), TFT_ERR_FORMAT);
    assert_memory_equal(err.msg, "memory: ", 8);
    assert_int_equal(tft_model_open_mem(&m, block + 32, 0, NULL, &err), TFT_ERR_FORMAT);

    n = opened(path);
    assert_int_equal(tft_model_open_mem(&m, block + 32, file.size, NULL, NULL), TFT_OK);
    struct tft_session *s = begun(m), *t = begun(n);
    assert_memory_equal(tft_logits(s, 0), tft_logits(t, 0), toys[Q8].n_vocab * sizeof(float));
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
    tft_model_close(n);
    tft_port_free(block);
    tft_port_unmap(&file);
}

/* A file within another, at an offset that is no multiple of a page. */
static void in_an_open_file(void **state)
{
    (void)state;
    struct tft_map file;
    struct tft_model *m, *n;
    struct tft_error err;
    const char *path = written(&toys[Q8]), *package = in_folder("package");
    enum { AT = 5 * 4096 + 96, BEHIND = 50 };
    static const char filler[AT];
    assert_int_equal(tft_port_map(&file, path), 0);
    FILE *f = fopen(package, "wb");
    assert_non_null(f);
    assert_true(fwrite(filler, 1, AT, f) == AT && fwrite(file.data, 1, file.size, f) == file.size &&
                fwrite(filler, 1, BEHIND, f) == BEHIND && fclose(f) == 0);

    int fd = open(package, O_RDONLY), whole = open(path, O_RDONLY);
    assert_true(fd >= 0 && whole >= 0);
    n = opened(path);
    struct tft_session *t = begun(n);
    for (int i = 0; i < 2; i++) {
        enum tft_status status = i ? tft_model_open_fd(&m, whole, 0, 0, NULL, NULL)
                                   : tft_model_open_fd(&m, fd, AT, file.size, NULL, NULL);
        assert_int_equal(status, TFT_OK);
        close(i ? whole : fd);
        struct tft_session *s = begun(m);
        assert_memory_equal(tft_logits(s, 0), tft_logits(t, 0), toys[Q8].n_vocab * sizeof(float));
        tft_session_close(s);
        tft_model_close(m);
    }
    tft_session_close(t);
    tft_model_close(n);

    fd = open(package, O_RDONLY);
    char line[100], descriptor[40];
    snprintf(descriptor, sizeof descriptor, "descriptor %d", fd);
    for (uint64_t off = 1; off < 32; off++) {
        snprintf(line, sizeof line, "%s: the offset %d is not a multiple of 32", descriptor,
                 (int)(AT + off));
        assert_int_equal(tft_model_open_fd(&m, fd, AT + off, 0, NULL, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, line);
    }
    uint64_t end = (uint64_t)AT + file.size + BEHIND;
    static const struct {
        bool from_end;
        uint64_t offset, size;
    } outside[] = {{true, 64, 0}, {false, 0, UINT64_MAX}, {false, UINT64_MAX - 31, 0},
                   {false, UINT64_MAX - 31, 64}, {false, 32, UINT64_MAX - 31}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        uint64_t at = outside[i].offset + (outside[i].from_end ? end / 32 * 32 : 0);
        assert_int_equal(tft_model_open_fd(&m, fd, at, outside[i].size, NULL, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, ": the file ends before "));
        assert_null(m);
    }
    /* the bytes before and after it are not the model's */
    assert_int_equal(tft_model_open_fd(&m, fd, AT, file.size - 1, NULL, &err), TFT_ERR_FORMAT);
    assert_memory_equal(err.msg, descriptor, strlen(descriptor));
    assert_int_equal(tft_model_open_fd(&m, fd, AT - 32, 0, NULL, &err), TFT_ERR_FORMAT);
    close(fd);
    assert_int_equal(tft_model_open_fd(&m, fd, 0, 0, NULL, &err), TFT_ERR_IO);
    int here = open(".", O_RDONLY);
    assert_int_equal(tft_model_open_fd(&m, here, 0, 0, NULL, &err), TFT_ERR_IO);
    close(here);
    tft_port_unmap(&file);
}

/* ---- the other promises of tft_model_open */

struct progress {
    double last;
    int calls;
    bool fell, outside;
};

static void watch(void *user, double done)
{
    struct progress *p = user;
    p->fell = p->fell || done < p->last;
    p->outside = p->outside || !(done >= 0 && done <= 1);
    p->last = done;
    p->calls++;
}

static void progress_goes_from_0_to_1(void **state)
{
    (void)state;
    const char *path = written(&toys[Q8]);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int weights = TFT_WEIGHTS_STORED; weights <= TFT_WEIGHTS_BF16; weights++) {
            struct progress p = {0};
            struct tft_model_opts o = {.size = sizeof o,
                                       .weights = (enum tft_weights)weights,
                                       .n_threads = threads,
                                       .progress = watch,
                                       .progress_user = &p};
            struct tft_model *m;
            assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
            assert_true(p.calls > 1 && !p.fell && !p.outside);
            assert_true(p.last == 1.0);
            tft_model_close(m);
        }
}

static void options_out_of_range(void **state)
{
    (void)state;
    const char *path = written(&toys[LLAMA]);
    struct tft_model *m;
    struct tft_model_opts o = {.size = sizeof o, .n_threads = -1};
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o.n_threads = 1025;
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o = (struct tft_model_opts){.size = sizeof o, .weights = TFT_WEIGHTS_I8};
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o = (struct tft_model_opts){.size = offsetof(struct tft_model_opts, weights),
                                .weights = TFT_WEIGHTS_I8};
    /* a caller with an older header has no field `weights` */
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
    tft_model_close(m);
    assert_int_equal(tft_model_open(&m, in_folder("nothing"), NULL, NULL), TFT_ERR_IO);
    assert_int_equal(tft_model_open(&m, folder, NULL, NULL), TFT_ERR_IO);
    assert_null(m);
    tft_model_close(NULL);
}

static void a_vocabulary_alone(void **state)
{
    (void)state;
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    struct tft_model_opts o = {.size = sizeof o, .vocab_only = true};
    struct edit bert = {.name = "general.architecture", .what = STR, .text = "bert"};
    const char *path = edited(written(&toys[LLAMA]), &bert);
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    assert_int_equal(info.n_vocab, TOY_VOCAB);
    assert_int_equal(info.n_layer, 0);
    assert_string_equal(info.arch, "bert");
    assert_true(info.encoder);
    assert_int_equal(tft_session_open(&s, m, NULL, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "vocab_only"));
    tft_model_close(m);

    path = written(&toys[QWEN2]);
    assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "there is no tokenizer in it"));
}

/* What embeddings need, and what tells models apart. */
static void a_model_for_embeddings(void **state)
{
    (void)state;
    const enum tft_pooling pooling[] = {TFT_POOLING_NONE, TFT_POOLING_MEAN, TFT_POOLING_CLS,
                                        TFT_POOLING_LAST, TFT_POOLING_RANK, TFT_POOLING_OTHER};
    enum { N = sizeof pooling / sizeof *pooling };
    struct toy_number numbers[N][2] = {{{0}}}; /* written() tells toys apart by their pointers */
    char identity[N][TFT_IDENTITY];
    for (uint32_t i = 0; i < N; i++) {
        struct toy t = toys[LLAMA];
        struct tft_model_info info = {.size = sizeof info};
        numbers[i][0] = (struct toy_number){"pooling_type", TOY_U32, i};
        t.numbers = numbers[i];
        t.adds_eos = i == 3;
        for (int twice = 0; twice < 2; twice++) {
            struct tft_model *m = opened(written(&t));
            char again[TFT_IDENTITY];
            tft_model_describe(m, &info);
            assert_int_equal(info.pooling, pooling[i]);
            assert_int_equal(info.add_eos, i == 3);
            assert_int_equal(info.n_device, 0);
            tft_model_identity(m, twice ? again : identity[i]);
            if (twice)
                assert_string_equal(again, identity[i]);
            tft_model_close(m);
        }
        assert_int_equal(strlen(identity[i]), TFT_IDENTITY - 1);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(identity[i], identity[j]);
    }
}

/* The model keeps a copy of its path for messages: the caller may free or change its own. */
static void the_path_is_the_callers(void **state)
{
    (void)state;
    char path[300];
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    snprintf(path, sizeof path, "%s", written(&toys[LLAMA]));
    assert_int_equal(tft_model_open(&m, path, NULL, NULL), TFT_OK);
    memset(path, '?', sizeof path - 1);
    struct tft_session_opts o = {.size = sizeof o, .capacity = 1u << 30};
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_ptr_equal(strstr(err.msg, in_folder("")), err.msg);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(templates_for_tools),
        cmocka_unit_test(in_memory),
        cmocka_unit_test(in_an_open_file),
        cmocka_unit_test(progress_goes_from_0_to_1),
        cmocka_unit_test(options_out_of_range),
        cmocka_unit_test(a_vocabulary_alone),
        cmocka_unit_test(a_model_for_embeddings),
        cmocka_unit_test(the_path_is_the_callers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
