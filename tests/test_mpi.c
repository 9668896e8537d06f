/*
 * Several processes give the logits of one, bit for bit: for every architecture and kind of cache
 * that MPI computes, and however the tokens are fed. mpi.py starts this program in 1, 2, 3 and 4
 * processes. Process 0 tests; it tells the others which models to open.
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <mpi.h>

#include "caches.h"
#include "more_toys.h"
#include "w8a8.h"

#include "low_copies.h"
#include "prefixes.h"

enum { PATH_ROOM = 64 };

static int processes;

static void tell(const char *path)
{
    char told[PATH_ROOM] = "";
    snprintf(told, sizeof told, "%s", path);
    MPI_Bcast(told, sizeof told, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static enum tft_status open_by_mpi(struct tft_model **m, const char *path, struct tft_error *err)
{
    struct tft_model_opts o = {.size = sizeof o, .device = "mpi"};
    return tft_model_open(m, path, &o, err);
}

/* The other processes open the models that process 0 names, and compute for it. A model that is
   refused is refused in all of them. */
static int follow(void)
{
    char path[PATH_ROOM];
    for (;;) {
        struct tft_model *m;
        struct tft_error err = {0};
        MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (!*path)
            return 0;
        enum tft_status status = open_by_mpi(&m, path, &err);
        if (m || (status != TFT_ERR_CANCELLED && status != TFT_ERR_UNSUPPORTED)) {
            fprintf(stderr, "%s: status %d: %s\n", path, status, err.msg);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/* A model file opened by one process, [0], and by all, [1]. */
struct pair {
    struct tft_model *m[2];
    struct tft_session *s[2];
};

static struct pair pair(const char *path, struct tft_session_opts o)
{
    struct pair p = {.m = {opened(path)}};
    struct tft_error err;
    tell(path);
    if (open_by_mpi(&p.m[1], path, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    for (int i = 0; i < 2; i++)
        p.s[i] = session(p.m[i], o);
    return p;
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        tft_session_close(p->s[i]);
        tft_model_close(p->m[i]);
    }
}

/* Asserts the same logits for the newest n tokens. */
static void same_logits(const struct pair *p, size_t n)
{
    for (size_t back = 0; back < n; back++) {
        const float *a = tft_logits(p->s[0], back), *b = tft_logits(p->s[1], back);
        assert_true(!a == !b);
        if (a)
            assert_memory_equal(a, b, p->m[0]->n_vocab * sizeof *a);
    }
}

static void feed_both(struct pair *p, const int32_t *tokens, size_t n, size_t logits)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_prefill(p->s[i], tokens, n), TFT_OK);
    same_logits(p, logits);
}

static void rewind_both(struct pair *p, size_t pos)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_rewind(p->s[i], pos), TFT_OK);
}

/* Chunks that cross the ends of tiles, batches and spans; long passes, and single tokens. */
static void compare(const char *path, int threads, const char *kv)
{
    static const uint32_t chunks[] = {1, 2, 14, 235, 1, 1, 3, 70};
    int32_t tokens[TOKENS];
    struct pair p = pair(path, (struct tft_session_opts){
                                   .n_threads = threads, .n_batch = 150, .n_logits = 3, .kv = kv});
    toy_tokens(3, p.m[0]->n_vocab, tokens, TOKENS);
    size_t at = 0;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; at += chunks[i++])
        feed_both(&p, tokens + at, chunks[i], 3);
    rewind_both(&p, 100);
    feed_both(&p, tokens + 7, 1, 1);
    rewind_both(&p, 0);
    feed_both(&p, tokens + 9, 20, 3);
    close_pair(&p);
}

/* Has fewer KV heads than there are processes. */
static bool has_few_heads(const struct toy *t) { return (int)t->n_head_kv < processes; }

/* The toy with a KV head for each process. */
static struct toy with_heads(const struct toy *t)
{
    struct toy more = *t;
    if (has_few_heads(t)) {
        more.n_head_kv = (uint32_t)processes;
        more.n_head = more.n_head_kv * (t->n_head / t->n_head_kv);
    }
    return more;
}

static void usual_architectures(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct toy t = with_heads(&toys[i]);
        struct quantize_opts o = usual(&t);
        o.rotate = rotatable(&t) && i % 2 == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        compare(quantized(&t, &o), 1 + i % 2, i == 1 ? "f32" : "f16");
    }
}

/* Cuts columns within a group of codes, and at its ends. */
static void weights_of_low_bits(void **state)
{
    (void)state;
    char i8[64], low[64];
    snprintf(i8, sizeof i8, "%s", in_folder("i8.gguf"));
    snprintf(low, sizeof low, "%s", in_folder("low.gguf"));
    for (int i = 0; i < N_TOYS; i++) {
        struct toy t = with_heads(&toys[i]);
        t.n_ff = t.n_ff < 100 ? 4 * t.n_ff : t.n_ff;
        struct quantize_opts o = usual(&t);
        write_copies(quantized(&t, &o), i8, low, 3 * i);
        compare(low, 1, "f16");
    }
}

/* More columns than a piece has, of both matrices that processes share the columns of. */
static void wide_rows(void **state)
{
    (void)state;
    static const struct toy wide = {.arch = "llama",
                                    .n_vocab = 80,
                                    .n_ctx = 128,
                                    .n_embd = 48,
                                    .n_layer = 1,
                                    .n_head = 8,
                                    .n_head_kv = 4,
                                    .head_dim = 308,
                                    .n_ff = 2112,
                                    .n_rot = 12,
                                    .type = TFT_F32};
    int32_t tokens[20];
    struct quantize_opts o = usual(&wide);
    o.rotate = QUANTIZE_ROTATE_NONE;
    struct pair p = pair(quantized(&wide, &o),
                         (struct tft_session_opts){.n_threads = 2, .n_logits = 2});
    toy_tokens(3, wide.n_vocab, tokens, 20);
    feed_both(&p, tokens, 17, 2);
    feed_both(&p, tokens + 17, 1, 1);
    feed_both(&p, tokens + 18, 2, 2);
    close_pair(&p);
}

/* A prompt of several chunks; single tokens across evictions; rewinds to after the last eviction,
   and to before it. */
static void caches_of_all_kinds(void **state)
{
    (void)state;
    struct toy t = with_heads(&small);
    int32_t tokens[420];
    toy_tokens(3, t.n_vocab, tokens, 420);
    for (size_t i = 0; i < N_CACHES; i++) {
        struct quantize_opts o = usual(&t);
        o.kv = caches[i].file;
        struct pair p = pair(quantized(&t, &o), (struct tft_session_opts){.n_threads = 1,
                                                                          .n_batch = 150,
                                                                          .n_logits = 2,
                                                                          .kv = caches[i].kv});
        feed_both(&p, tokens, 90, 2);
        for (size_t k = 90; k < 130; k++)
            feed_both(&p, tokens + k, 1, 1);
        feed_both(&p, tokens + 130, 200, 2);
        rewind_both(&p, 329);
        feed_both(&p, tokens, 2, 2);
        rewind_both(&p, 60);
        feed_both(&p, tokens + 9, 1, 1);
        close_pair(&p);
    }
}

/* What is evicted depends on where the prompt has ended. */
static void the_prompt_ends(void **state)
{
    (void)state;
    struct toy t = with_heads(&small);
    struct quantize_opts o = usual(&t);
    int32_t tokens[150];
    struct pair p = pair(quantized(&t, &o),
                         (struct tft_session_opts){
                             .n_threads = 1, .kv = "kivi:residual=24,group=16,prefill=prompt"});
    toy_tokens(3, t.n_vocab, tokens, 150);
    feed_both(&p, tokens, 90, 1);
    for (int i = 0; i < 2; i++)
        tft_prompt_end(p.s[i]);
    for (size_t i = 90; i < 150; i++)
        feed_both(&p, tokens + i, 1, 1);
    close_pair(&p);
}

static void sessions_that_slide(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:residual=30", "rtn:sinks=3",
                                     "kivi:kr=fill:24,vr=window:9,group=16"};
    struct toy t = with_heads(&small);
    struct quantize_opts o = usual(&t);
    const char *path = quantized(&t, &o);
    int32_t tokens[200];
    toy_tokens(3, t.n_vocab, tokens, 200);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++) {
        struct pair p = pair(path, (struct tft_session_opts){.n_threads = 1,
                                                             .capacity = 130,
                                                             .slide = true,
                                                             .kv = kv[i]});
        for (size_t at = 0; at < 200; at += 20)
            feed_both(&p, tokens + at, 20, 1);
        feed_both(&p, tokens, 1, 1);
        close_pair(&p);
    }
}

/* Logits that follow the prefix alone, and sessions that come and go beside each other. */
static void several_sessions(void **state)
{
    (void)state;
    static const int32_t none[1];
    struct toy t = with_heads(&toys[0]);
    struct quantize_opts o = usual(&t);
    struct pair p = pair(quantized(&t, &o), (struct tft_session_opts){.n_threads = 1});
    struct pair other = p;
    int32_t tokens[60];
    toy_tokens(5, t.n_vocab, tokens, 60);
    feed_both(&p, none, 0, 1);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 2; i++)
            other.s[i] = session(p.m[i], (struct tft_session_opts){.n_threads = 1});
        feed_both(&other, tokens + turn, 30, 1);
        feed_both(&p, tokens, 7, 1);
        feed_both(&other, tokens, 1, 1);
        for (int i = 0; i < 2; i++)
            tft_session_close(other.s[i]);
    }
    feed_both(&p, tokens, 3, 1);
    close_pair(&p);
}

/* Prefixes with a name: text behind the file's own prefix. */
static void named_prefixes(void **state)
{
    (void)state;
    static const int32_t none[1];
    int32_t many[40];
    struct toy t = with_heads(&toys[0]);
    struct quantize_opts o = usual(&t);
    toy_tokens(5, t.n_vocab, many, 40);
    o.prefix = many;
    o.n_prefix = 3;
    const struct prefix_text named[] = {{.name = "other", .tokens = many, .n = 2},
                                        {.name = "text", .tokens = many + 3, .n = 25}};
    char to[64];
    snprintf(to, sizeof to, "%s", in_folder("named.gguf"));
    write_prefixes(quantized(&t, &o), to, named, 2, -1);
    struct pair p =
        pair(to, (struct tft_session_opts){.n_threads = 1, .n_batch = 17, .prefix = "text"});
    feed_both(&p, none, 0, 1);
    feed_both(&p, many, 30, 1);
    close_pair(&p);
}

/* Whether RoPE depends on the length of the session, which rules out a prefix. */
static bool by_context(const struct toy *t)
{
    return strcmp(t->arch, "phi3") == 0 || strcmp(t->arch, "minicpm") == 0;
}

/* Asserts that the model is refused with a line. */
static void refuse(const char *path, const char *line)
{
    struct tft_model *m;
    struct tft_error err = {0};
    tell(path);
    assert_int_equal(open_by_mpi(&m, path, &err), TFT_ERR_UNSUPPORTED);
    assert_null(m);
    if (!strstr(err.msg, line))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, line);
}

/* Of the other architectures, those that MPI computes; it names what it does not compute of the
   rest. */
static void other_architectures(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *missing;
    } rest[] = {
        {"lfm2", "mpi does not compute layers with a short convolution (architecture lfm2)"},
        {"qwen35", "mpi does not compute layers with a delta net (architecture qwen35)"},
        {"bitnet", "mpi does not compute norms within attention and feed-forward"},
        {"olmo2", "mpi does not compute a norm over all heads of queries and keys"},
    };
    for (int i = 0; i < N_MORE; i++) {
        const struct toy *t = &more_toys[i];
        struct quantize_opts o = usual(t);
        const char *missing = has_few_heads(t) ? " KV heads: start at most one for each" : NULL;
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
            if (strcmp(rest[k].arch, t->arch) == 0)
                missing = rest[k].missing;
        o.n_prefix = missing || by_context(t) ? 0 : o.n_prefix;
        const char *path = quantized(t, &o);
        if (missing)
            refuse(path, missing);
        else
            compare(path, 1, "f16");
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[1]);
    char line[80];
    refuse(written(&toys[0]), "has weights of f32; mpi computes W8A8 files");
    snprintf(line, sizeof line, "q.gguf: %d processes, but 1 KV heads", processes);
    if (has_few_heads(&toys[1]))
        refuse(quantized(&toys[1], &o), line);
    struct toy t = with_heads(&toys[0]);
    o = usual(&t);
    o.range = by_token;
    refuse(quantized(&t, &o), "q.gguf: mpi needs static ranges");
    o = usual(&t);

    /* one model at a time; the other processes cannot be told of a second one */
    struct pair p = pair(quantized(&t, &o), (struct tft_session_opts){.n_threads = 1});
    struct tft_model *m;
    struct tft_error err = {0};
    assert_int_equal(open_by_mpi(&m, in_folder("q.gguf"), &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "q.gguf: mpi computes one model at a time"));
    close_pair(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_architectures), cmocka_unit_test(weights_of_low_bits),
        cmocka_unit_test(wide_rows),           cmocka_unit_test(caches_of_all_kinds),
        cmocka_unit_test(the_prompt_ends),     cmocka_unit_test(sessions_that_slide),
        cmocka_unit_test(several_sessions),    cmocka_unit_test(named_prefixes),
        cmocka_unit_test(other_architectures), cmocka_unit_test(what_is_refused),
    };
    int threads, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (rank) {
        follow();
    } else if (cmocka_run_group_tests(tests, make_folder, remove_folder) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    } else {
        tell("");
    }
    MPI_Finalize();
    return 0;
}
