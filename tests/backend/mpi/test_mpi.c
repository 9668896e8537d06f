/*
 * Several processes give the logits of one, bit for bit: for every architecture and kind of cache
 * that MPI computes, and however the tokens are fed. mpi.py starts this program in 1, 2, 3 and 4
 * processes. Process 0 tests; it tells the others which models to open. Where the environment
 * variable TUFFET_THOROUGH is not set, models and caches take turns at the numbers of processes.
 */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <float.h>
#include <math.h>
#include <mpi.h>

#include "caches.h"
#include "kv/fisher.h"
#include "more_toys.h"
#include "tools/quantize/write/rewrite_model.h"
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
        if (!in_turn(i, processes, 2))
            continue;
        struct toy t = with_heads(&toys[i]);
        struct quantize_opts o = usual(&t);
        o.rotate = rotatable(&t) && i % 2 == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        compare(quantized(&t, &o), 1 + i % 2, i == 1 ? "f32" : "f16");
    }
}

/* Of all inputs, and of two of three. */
static void ranges_by_token(void **state)
{
    (void)state;
    enum tft_range some[MOST_INPUTS];
    for (int i = 0; i < MOST_INPUTS; i++)
        some[i] = i % 3 ? TFT_RANGE_TOKEN : TFT_RANGE_STATIC;
    for (int i = 0; i < N_TOYS; i++) {
        if (!in_turn(i, processes, 2))
            continue;
        struct toy t = with_heads(&toys[i]);
        struct quantize_opts o = usual(&t);
        o.range = i % 2 ? by_token : some;
        o.n_prefix = i % 2 ? 0 : o.n_prefix;
        compare(quantized(&t, &o), 1 + i % 2, i % 2 ? "i8" : "f16");
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
        if (!in_turn(i, processes + 1, 2)) /* the architectures that usual_architectures leaves
                                              out */
            continue;
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

/* A prompt of several chunks; single tokens across quantizations; rewinds to after the last
   quantization, and to before it. */
static void caches_of_all_kinds(void **state)
{
    (void)state;
    struct toy t = with_heads(&small);
    int32_t tokens[420];
    toy_tokens(3, t.n_vocab, tokens, 420);
    for (int i = 0; i < N_CACHES; i++) {
        if (!in_turn(i, processes, 3))
            continue;
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

/* The answers of a program's filter reach all processes: by short and long passes, after a rewind,
   and after tokens are dropped. */
static bool is_seven(void *user, uint64_t position, int32_t token)
{
    (void)user;
    (void)position;
    return token == 7;
}

static void tokens_that_a_filter_keeps(void **state)
{
    (void)state;
    static const char *const kv[] = {"kivi:window=24,group=16,keep=9",
                                     "tuffet:window=20,group=32,keep=40",
                                     "k=2@token,v=2@token,group=16,retain=window:9,sinks=3,keep=5"};
    struct toy t = with_heads(&small);
    struct quantize_opts o = usual(&t);
    const char *path = quantized(&t, &o);
    int32_t tokens[260];
    toy_tokens(3, t.n_vocab, tokens, 260);
    for (size_t i = 0; i < 2 * sizeof kv / sizeof *kv; i++) {
        bool slides = i % 2;
        struct pair p = pair(path, (struct tft_session_opts){.n_threads = 1,
                                                             .capacity = slides ? 190 : 260,
                                                             .slide = slides,
                                                             .n_logits = 2,
                                                             .kv = kv[i / 2],
                                                             .keep = is_seven});
        feed_both(&p, tokens, 60, 2);
        for (size_t k = 60; k < 100; k++)
            feed_both(&p, tokens + k, 1, 1);
        rewind_both(&p, 97);
        for (size_t k = 100; k < 260; k += 20)
            feed_both(&p, tokens + k, 20, 2);
        assert_true(p.s[0]->filter.n);
        assert_int_equal(p.s[0]->filter.n, p.s[1]->filter.n);
        close_pair(&p);
    }
}

/* The end of the prompt decides which tokens are quantized. */
static void the_prompt_ends(void **state)
{
    (void)state;
    struct toy t = with_heads(&small);
    struct quantize_opts o = usual(&t);
    int32_t tokens[150];
    struct pair p = pair(quantized(&t, &o),
                         (struct tft_session_opts){
                             .n_threads = 1, .kv = "kivi:window=24,group=16,prefill=prompt"});
    toy_tokens(3, t.n_vocab, tokens, 150);
    feed_both(&p, tokens, 90, 1);
    for (int i = 0; i < 2; i++)
        tft_prompt_end(p.s[i]);
    for (size_t i = 90; i < 150; i++)
        feed_both(&p, tokens + i, 1, 1);
    close_pair(&p);
}

/* The file with tables for the cache fisher, whose costs differ by head. */
static const char *with_fisher_tables(const char *path)
{
    struct tft_model *m = opened(path);
    struct tft_error err;
    const char *to = in_folder("fisher.gguf");
    uint32_t rows = m->n_kv_layer * m->n_head_kv * TFT_FISHER_ROWS, e = m->head_dim, random = 1;
    float *table = calloc((size_t)rows * e, sizeof *table);
    assert_non_null(table);
    for (uint32_t i = 0; i < rows * e; i++) {
        static const float usual[TFT_FISHER_ROWS] = {0,      0.05f, 1.6f,    1,      0.59f,  0.34f,
                                                     1,      0.36f, 0.12f,   0.037f, 0.012f};
        uint32_t row = i / e % TFT_FISHER_ROWS, head = i / e / TFT_FISHER_ROWS;
        random = random * 1664525 + 1013904223;
        float cost = exp2f((float)(i % e * 7 % 11 + head));
        if (row == TFT_FISHER_MEAN)
            table[i] = (float)(random >> 8) / 0x1p25f;
        else
            table[i] = usual[row] * (row < TFT_FISHER_LOSS ? 1 : cost);
    }
    struct rewrite r = {.fisher = {table, table}};
    if (rewrite_model(m, to, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    free(table);
    tft_model_close(m);
    return to;
}

/* One price of a bit for the heads of all processes: a head each, two, and not as many for all. */
static void bits_by_the_cost_of_errors(void **state)
{
    (void)state;
    uint32_t n = (uint32_t)processes, heads[] = {n, 2 * n, n + 1};
    int32_t tokens[420];
    for (int i = 0; i < 3; i++)
        for (int slides = 0; slides < 2; slides++) {
            struct toy t = small;
            t.n_head_kv = heads[i];
            t.n_head = heads[i] * (1 + (uint32_t)i);
            struct quantize_opts o = usual(&t);
            struct pair p = pair(with_fisher_tables(quantized(&t, &o)),
                                 (struct tft_session_opts){.n_threads = 1 + i % 2,
                                                           .n_batch = 150,
                                                           .n_logits = 2,
                                                           .capacity = slides ? 200 : 0,
                                                           .slide = slides,
                                                           .kv = "fisher:window=20,keep=9",
                                                           .keep = is_seven});
            toy_tokens(3, t.n_vocab, tokens, 420);
            feed_both(&p, tokens, 90, 2);
            for (size_t k = 90; k < 130; k++)
                feed_both(&p, tokens + k, 1, 1);
            for (size_t k = 130; k < 330; k += 40)
                feed_both(&p, tokens + k, 40, 2);
            assert_true(p.s[0]->kv.at[TFT_KV_K].blocks > 2 && p.s[0]->filter.n);
            rewind_both(&p, 60);
            feed_both(&p, tokens + 9, 1, 1);
            close_pair(&p);
        }
}

static void sessions_that_slide(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "i8", "kivi:window=30", "kivi:window=30,slots=i8",
                                     "rtn:sinks=3",
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

/* Prefixes with a name: text after the file's own prefix. */
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

/* ------------------------------------------------------------------------------------- samplers */

/* Bytes that process 0 has received by MPI_Recv. Only logits come that way. */
static size_t received;

int MPI_Recv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    int size;
    PMPI_Type_size(type, &size);
    received += (size_t)count * (size_t)size;
    return PMPI_Recv(to, count, type, from, tag, comm, status);
}

/* Generates n tokens in both sessions, with the same settings. Returns how many bytes of logits a
   token took on average. The first token does not count. */
static size_t generate_both(struct pair *p, struct tft_sampler z, int n)
{
    struct tft_sampler own[2] = {z, z};
    size_t first = 0;
    received = 0;
    for (int i = 0; i < n; i++) {
        int32_t id[2];
        for (int k = 0; k < 2; k++)
            id[k] = tft_sample(&own[k], p->s[k]);
        assert_int_equal(id[0], id[1]);
        assert_true(id[0] >= 0 && own[0].seed == own[1].seed);
        for (int k = 0; k < 2; k++)
            assert_int_equal(tft_prefill(p->s[k], id, 1), TFT_OK);
        first = i ? first : received;
    }
    return (received - first) / (size_t)(n - 1);
}

/* With 4 processes each has 576 words, so it may send up to 144 logits. */
static struct toy with_many_words(void)
{
    struct toy t = with_heads(&toys[0]);
    t.n_vocab = 2304;
    return t;
}

/* The toy's logits are much alike; low temperatures make them unlike. At 0.4 the most likely 64
   have part of the probability, so the others count for top_p. */
static void samplers_get_the_likeliest_logits(void **state)
{
    (void)state;
    static const struct {
        struct tft_sampler z;
        bool few; /* few logits are sent */
    } each[] = {
        {{.temperature = 0}, true},
        {{.temperature = 0, .repeat_penalty = 1.5f, .repeat_last = 50}, true},
        {{.temperature = 0, .repeat_penalty = 0.7f}, false},
        {{.temperature = 1, .top_k = 5, .seed = 1}, true},
        {{.temperature = 1, .top_k = 30, .top_p = 0.8f, .repeat_penalty = 2, .repeat_last = 30},
         true},
        {{.temperature = 0.1f, .top_k = 30, .top_p = 0.8f, .min_p = 0.3f}, true},
        {{.temperature = 0.1f, .top_p = 0.7f, .seed = 3}, true},
        {{.temperature = 0.4f, .top_p = 0.1f, .seed = 3}, true},
        {{.temperature = 0.1f, .top_p = 0.95f, .min_p = 0.05f, .seed = 4}, true},
        {{.temperature = 0.1f, .top_p = 0.7f, .repeat_penalty = 1.1f}, false},
        {{.temperature = 0.1f, .min_p = 0.2f, .seed = 5}, true},
        {{.temperature = 0.1f, .min_p = 0.2f, .repeat_penalty = 1.1f, .repeat_last = 20}, true},
        {{.temperature = 1, .top_p = 0.5f, .seed = 6}, false},
        {{.temperature = 1, .min_p = 0.01f, .seed = 7}, false},
        {{.temperature = 1, .seed = 8}, false},
    };
    struct toy t = with_many_words();
    struct quantize_opts o = usual(&t);
    int32_t tokens[20];
    toy_tokens(3, t.n_vocab, tokens, 20);
    struct pair p = pair(quantized(&t, &o), (struct tft_session_opts){.n_threads = 1});
    for (int i = 0; i < (int)(sizeof each / sizeof *each); i++) {
        if (!in_turn(i, processes, 2))
            continue;
        rewind_both(&p, 0);
        feed_both(&p, tokens, 20, 0);
        size_t all = 4 * (size_t)t.n_vocab * (size_t)(processes - 1) / (size_t)processes,
               sent = generate_both(&p, each[i].z, 40);
        if (processes > 1 && each[i].few != (sent < all / 2))
            fail_msg("sampler %d: %zu bytes a token were sent, all logits are %zu", i, sent, all);
        same_logits(&p, 1);
    }
    close_pair(&p);
}

/* top_p is the probability of the most likely token, as closely as a float has it. So whether a
   second token is kept depends on the last bits of the sum of all weights. */
static void a_sum_at_the_threshold(void **state)
{
    (void)state;
    const float temperature = 0.4f, inverse = 1 / temperature;
    struct toy t = with_many_words();
    struct quantize_opts o = usual(&t);
    struct pair p = pair(quantized(&t, &o), (struct tft_session_opts){.n_threads = 1});
    int32_t id[2] = {1, 1};
    for (uint64_t i = 0; i < (thorough() ? 300u : 100u); i++) {
        struct tft_choice first;
        for (int k = 0; k < 2; k++)
            assert_int_equal(tft_decode(p.s[k], id[k]), TFT_OK);
        const float *x = tft_logits(p.s[0], 0);
        assert_int_equal(tft_likeliest(p.s[0], NULL, &first, 1), 1);
        double sum = p.m[0]->kern.sum_exp(x, t.n_vocab, x[first.id], inverse);
        for (int k = 0; k < 2; k++) {
            struct tft_sampler z = {
                .temperature = temperature, .top_p = (float)(1 / sum), .seed = i};
            id[k] = tft_sample(&z, p.s[k]);
        }
        assert_int_equal(id[0], id[1]);
    }
    close_pair(&p);
}

enum { SHOWN = 60, LAST = 100 }; /* tokens; words at the end of the vocabulary */

/* Finds a word w and a token t such that the logit of w after t is negative, and |logit| is larger
   than after each token before t and larger than room * scale of w. Returns t. */
static size_t find_peak(float x[SHOWN][LAST], const float *scale, float room, size_t *word)
{
    for (*word = 0; *word < LAST; ++*word) {
        float most = 0;
        for (size_t at = 0; at < SHOWN; at++) {
            float size = fabsf(x[at][*word]);
            if (at > 2 && x[at][*word] < 0 && size > 1.1f * most && size > room * scale[*word])
                return at;
            most = size > most ? size : most;
        }
    }
    fail_msg("no logit of the toy serves");
    return 0;
}

/* Scales a row of the head in the file, so that its logit overflows after token t and not before.
   The last process has this row. Returns t. */
static size_t overflow(const char *path, const int32_t *tokens)
{
    static float x[SHOWN][LAST];
    struct tft_model *m = opened(path);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    const struct tft_tensor *scales = tft_source_tensor(&m->source, "output.scale");
    assert_non_null(scales);
    size_t from = m->n_vocab - LAST, word;
    float scale[LAST];
    memcpy(scale, scales->data + from * sizeof *scale, sizeof scale);
    for (size_t i = 0; i < SHOWN; i++) {
        assert_int_equal(tft_decode(s, tokens[i]), TFT_OK);
        memcpy(x[i], tft_logits(s, 0) + from, sizeof *x);
    }
    size_t at = find_peak(x, scale, 1.2f, &word);
    scale[word] = scale[word] / (0.95f * fabsf(x[at][word])) * FLT_MAX;
    assert_true(isfinite(scale[word]));
    long place = (long)(scales->data - m->source.data) + (long)(from * sizeof *scale);
    tft_session_close(s);
    tft_model_close(m);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, place, SEEK_SET), 0);
    assert_int_equal(fwrite(scale, sizeof scale, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    return at;
}

/* A logit of -infinity makes the pass fail, although the process that has it would not send it. */
static void a_logit_overflows(void **state)
{
    (void)state;
    struct toy t = with_many_words();
    struct quantize_opts o = usual(&t);
    int32_t tokens[SHOWN];
    toy_tokens(3, t.n_vocab, tokens, SHOWN);
    const char *path = quantized(&t, &o);
    size_t bad = overflow(path, tokens);
    struct pair p = pair(path, (struct tft_session_opts){.n_threads = 1});
    for (size_t i = 0; i < bad; i++) {
        struct tft_sampler greedy = {0};
        for (int k = 0; k < 2; k++)
            assert_int_equal(tft_decode(p.s[k], tokens[i]), TFT_OK);
        assert_int_equal(tft_sample(&greedy, p.s[0]), tft_sample(&greedy, p.s[1]));
    }
    assert_int_equal(p.s[1]->out.partial, processes > 1);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(tft_decode(p.s[k], tokens[bad]), TFT_ERR_NUMBERS);
        assert_null(tft_logits(p.s[k], 0));
    }
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

/* MPI computes some of the other architectures, in as many processes as they have KV heads, and
   names the missing part of each of the rest. */
static void other_architectures(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *missing;
    } rest[] = {
        {"lfm2", "mpi does not compute layers with a short convolution (architecture lfm2)"},
        {"qwen35", "mpi does not compute layers with a delta net (architecture qwen35)"},
        {"falcon-h1", "mpi does not compute layers with Mamba-2 (architecture falcon-h1)"},
        {"granitehybrid", "mpi does not compute layers with Mamba-2 (architecture granitehybrid)"},
        {"bitnet", "mpi does not compute norms within attention and feed-forward"},
        {"olmo2", "mpi does not compute a norm over all heads of queries and keys"},
    };
    for (int i = 0; i < N_MORE; i++) {
        const struct toy *t = &more_toys[i];
        if (!thorough() && t->n_head_kv != (uint32_t)processes)
            continue;
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
        cmocka_unit_test(usual_architectures), cmocka_unit_test(ranges_by_token),
        cmocka_unit_test(weights_of_low_bits),
        cmocka_unit_test(wide_rows),           cmocka_unit_test(caches_of_all_kinds),
        cmocka_unit_test(tokens_that_a_filter_keeps),
        cmocka_unit_test(the_prompt_ends),
        cmocka_unit_test(bits_by_the_cost_of_errors),
        cmocka_unit_test(sessions_that_slide),
        cmocka_unit_test(several_sessions),    cmocka_unit_test(named_prefixes),
        cmocka_unit_test(other_architectures), cmocka_unit_test(what_is_refused),
        cmocka_unit_test(samplers_get_the_likeliest_logits),
        cmocka_unit_test(a_sum_at_the_threshold),
        cmocka_unit_test(a_logit_overflows),
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
