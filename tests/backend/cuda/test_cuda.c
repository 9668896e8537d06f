/*
 * The CUDA backend gives the CPU's logits, bit for bit: for every architecture and kind of cache,
 * however the tokens are fed, and with any number of layers on the device. LD_LIBRARY_PATH decides
 * which plug-in is tested: that of a CPU that plays a GPU (tests/backend/cuda), or the real one.
 *
 * The player takes seconds for a thousand tokens. So each architecture, range and cache is tested
 * once, and their products where the environment variable TUFFET_THOROUGH is set.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setenv */
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "caches.h"
#include "more_toys.h"
#include "run/backend.h"
#include "w8a8.h"

#include "prefixes.h"

#include "low_copies.h"

static struct tft_model *opened_on(const char *path, const char *device, uint32_t layers)
{
    struct tft_model *m;
    struct tft_error err;
    struct tft_model_opts o = {.size = sizeof o, .device = device, .gpu_layers = layers};
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* Asserts that both sessions have the same logits for the newest n tokens. */
static void same_logits(const struct tft_session *want, const struct tft_session *got, size_t n)
{
    assert_int_equal(tft_pos(want), tft_pos(got));
    for (size_t back = 0; back < n; back++) {
        const float *a = tft_logits(want, back), *b = tft_logits(got, back);
        assert_true(!a == !b);
        if (a)
            assert_memory_equal(a, b, want->m->n_vocab * sizeof *a);
    }
}

/* A model file opened on the CPU, [0], and on the device, [1]. */
struct pair {
    struct tft_model *m[2];
    struct tft_session *s[2];
};

static struct pair pair(const char *path, uint32_t layers, struct tft_session_opts o)
{
    struct pair p;
    for (int i = 0; i < 2; i++) {
        p.m[i] = opened_on(path, i ? "cuda" : "cpu", layers);
        p.s[i] = session(p.m[i], o);
    }
    return p;
}

static void close_pair(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        tft_session_close(p->s[i]);
        tft_model_close(p->m[i]);
    }
}

static void feed_both(struct pair *p, const int32_t *tokens, size_t n, size_t logits)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_prefill(p->s[i], tokens, n), TFT_OK);
    same_logits(p->s[0], p->s[1], logits);
}

/* Feeds n chunks, and a token after a rewind. */
static void compare_chunks(const char *path, uint32_t layers, const char *kv, uint32_t batch,
                           const uint32_t *chunk, size_t n, uint32_t back)
{
    int32_t tokens[TOKENS];
    struct pair p =
        pair(path, layers,
             (struct tft_session_opts){.n_threads = 1, .n_batch = batch, .n_logits = 3, .kv = kv});
    toy_tokens(3, p.m[0]->n_vocab, tokens, TOKENS);
    for (size_t i = 0, at = 0; i < n; at += chunk[i++])
        feed_both(&p, tokens + at, chunk[i], 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_rewind(p.s[i], back), TFT_OK);
    feed_both(&p, tokens + 7, 1, 1);
    close_pair(&p);
}

/* Chunks that cross the ends of tiles, batches and spans. The single tokens start where a graph for
   more spans is due. */
static void compare_long(const char *path, uint32_t layers, const char *kv)
{
    static const uint32_t chunks[] = {1, 2, 14, 235, 1, 1, 1, 1, 1, 3, 70};
    compare_chunks(path, layers, kv, 150, chunks, sizeof chunks / sizeof *chunks, 100);
}

/* Chunks that cross the ends of tiles and batches, for tests that do not depend on spans. */
static void compare(const char *path, uint32_t layers, const char *kv)
{
    static const uint32_t chunks[] = {1, 2, 14, 50, 1, 1, 3};
    if (thorough())
        compare_long(path, layers, kv);
    else
        compare_chunks(path, layers, kv, 36, chunks, sizeof chunks / sizeof *chunks, 40);
}

/* Of toys: its keys have a bias, which is subtracted before they become bytes. */
enum { BIASED = 1 };

static void every_architecture(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        o.rotate = rotatable(&toys[i]) && i % 2 == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        const char *path = quantized(&toys[i], &o);
        if (i < 2) /* both kinds of floats */
            compare_long(path, 0, i ? "f32" : "f16");
        else
            compare(path, 0, "f16");
        if (i == BIASED)
            compare_long(path, 0, "i8");
        else
            compare(path, 0, "i8");
    }
}

static void dynamic_ranges(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i += 3) {
        struct quantize_opts o = usual(&toys[i]);
        o.range = by_token;
        compare(quantized(&toys[i], &o), 0, "f16");
    }
}

static void some_of_the_layers(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i += 3) {
        struct quantize_opts o = usual(&toys[i]);
        if (i)
            compare(quantized(&toys[i], &o), 1, "f16");
        else
            compare_long(quantized(&toys[i], &o), 1, "i8");
    }
}

static void weights_of_low_bits(void **state)
{
    (void)state;
    char i8[64], low[64];
    snprintf(i8, sizeof i8, "%s", in_folder("i8.gguf"));
    snprintf(low, sizeof low, "%s", in_folder("low.gguf"));
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        write_copies(quantized(&toys[i], &o), i8, low, 3 * i);
        compare(low, i % 2, "f16");
    }
}

/* Rows that a thread block reads in more than one piece, and heads of more channels than a thread
   block has threads. */
static void wide_rows_and_heads(void **state)
{
    (void)state;
    static const struct toy wide[] = {
        {.arch = "llama",
         .n_vocab = 31,
         .n_ctx = 128,
         .n_embd = 2064,
         .n_layer = 1,
         .n_head = 2,
         .n_head_kv = 1,
         .head_dim = 260,
         .n_ff = 40,
         .n_rot = 12,
         .type = TFT_F32},
        {.arch = "gpt2",
         .n_vocab = 31,
         .n_ctx = 128,
         .n_embd = 2080,
         .n_layer = 1,
         .n_head = 8,
         .n_head_kv = 8,
         .head_dim = 260,
         .n_ff = 64,
         .type = TFT_F16,
         .tied = true},
    };
    for (int i = 0; i < 2; i++) {
        int32_t tokens[18];
        struct quantize_opts o = usual(&wide[i]);
        o.rotate = QUANTIZE_ROTATE_NONE;
        struct pair p = pair(quantized(&wide[i], &o), 0,
                             (struct tft_session_opts){.n_threads = 1, .n_logits = 2});
        toy_tokens(3, wide[i].n_vocab, tokens, 18);
        feed_both(&p, tokens, 17, 2);
        feed_both(&p, tokens + 17, 1, 1);
        close_pair(&p);
    }
}

/* Feeds single tokens until keys and values have been quantized, and one more; at most up to `to`.
   Returns where it ended. */
static size_t feed_across_quantizations(struct pair *p, const int32_t *tokens, size_t from,
                                        size_t to)
{
    const struct tft_retained *at = p->s[0]->kv.at;
    uint32_t keys = at[TFT_KV_K].blocks, values = at[TFT_KV_V].blocks;
    for (int more = 2; from < to && (thorough() || more); from++) {
        feed_both(p, tokens + from, 1, 1);
        more -= at[TFT_KV_K].blocks > keys && at[TFT_KV_V].blocks > values;
    }
    return from;
}

/* A prompt of several chunks; single tokens across quantizations; more tokens, up to `end`; a
   rewind to after the last quantization, and one to before it. If `end` is 414, the last tokens
   attend to more than one span of codes. */
static void compare_caches(const char *path, uint32_t layers, const char *kv, size_t end)
{
    int32_t tokens[420];
    struct pair p =
        pair(path, layers,
             (struct tft_session_opts){.n_threads = 1, .n_batch = 150, .n_logits = 2, .kv = kv});
    toy_tokens(3, p.m[0]->n_vocab, tokens, 420);
    feed_both(&p, tokens, 126, 2);
    size_t at = feed_across_quantizations(&p, tokens, 126, 161);
    feed_both(&p, tokens + at, end - at, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_rewind(p.s[i], end - 1), TFT_OK);
    feed_both(&p, tokens, 2, 2);
    feed_both(&p, tokens + 5, 1, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_rewind(p.s[i], 60), TFT_OK);
    feed_both(&p, tokens + 9, 1, 1);
    close_pair(&p);
}

static void quantized_caches(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_BLOCK_CACHES; i++) {
        struct quantize_opts o = usual(&small);
        o.kv = caches[i].file;
        const char *path = quantized(&small, &o);
        uint32_t often = i % 3 ? 1 : 0;
        for (uint32_t layers = 0; layers < 2; layers++)
            if (thorough() || layers == often)
                compare_caches(path, layers, caches[i].kv, thorough() || i % 4 == 0 ? 414 : 222);
    }
}

/* Slots of bytes beside blocks, which have the bias of the keys. */
static void keys_with_a_bias(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[BIASED]);
    const char *path = quantized(&toys[BIASED], &o),
               *kv = "k=8@channel,v=8@token,group=16,retain=window:40,sinks=3,slots=i8";
    for (uint32_t layers = 0; layers < 2; layers++) {
        struct pair p = pair(path, layers, (struct tft_session_opts){.n_threads = 1});
        for (int i = 0; i < 2; i++)
            assert_non_null(p.s[i]->kv.key_offset);
        close_pair(&p);
        compare_caches(path, layers, kv, 222);
    }
}

/* A filter that keeps some tokens in their slots. */
static bool is_kept(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return position % 3 == 1 && token % 2;
}

static void tokens_that_a_filter_keeps(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&small);
    const char *kv = "kivi:window=24,keep=7,clip=zero";
    struct pair p = pair(quantized(&small, &o), 0,
                         (struct tft_session_opts){.n_threads = 1, .kv = kv, .keep = is_kept});
    int32_t tokens[150];
    toy_tokens(3, small.n_vocab, tokens, 150);
    for (size_t i = 0; i < 150; i += 10)
        feed_both(&p, tokens + i, 10, 1);
    close_pair(&p);
}

/* Logits that follow the prefix alone, and a prefix of more rows than a batch. */
static void prefixes(void **state)
{
    (void)state;
    static const int32_t none[1];
    struct quantize_opts o = usual(&toys[0]);
    int32_t many[40];
    toy_tokens(5, toys[0].n_vocab, many, 40);
    o.prefix = many;
    o.n_prefix = 40;
    const char *path = quantized(&toys[0], &o);
    for (uint32_t layers = 0; layers < 2; layers++) {
        struct pair p = pair(
            path, layers,
            (struct tft_session_opts){.n_threads = 2, .n_batch = 17, .kv = layers ? "f16" : "i8"});
        feed_both(&p, none, 0, 1);
        feed_both(&p, many, 30, 1);
        close_pair(&p);
    }

    /* text after it, which a batch reaches into */
    const struct prefix_text named[] = {{.name = "text", .tokens = many + 3, .n = 25},
                                        {.name = "other", .tokens = many, .n = 2}};
    char to[64];
    snprintf(to, sizeof to, "%s", in_folder("named.gguf"));
    o.n_prefix = 3;
    write_prefixes(quantized(&toys[0], &o), to, named, 2, -1);
    for (uint32_t layers = 0; layers < 2; layers++) {
        struct pair p = pair(
            to, layers,
            (struct tft_session_opts){
                .n_threads = 2, .n_batch = 17, .capacity = 160, .prefix = "text", .slide = true});
        feed_both(&p, none, 0, 1);
        for (int turn = 0; turn < 8; turn++) /* slides */
            feed_both(&p, many, 30, 1);
        for (int i = 0; i < 2; i++)
            assert_int_equal(tft_rewind(p.s[i], 0), TFT_OK);
        feed_both(&p, many + 5, 9, 1);
        close_pair(&p);
    }
}

static void a_session_that_slides(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16",
                                     "f32",
                                     "kivi:window=30",
                                     "rtn:sinks=3",
                                     "kivi:kr=fill:24,vr=window:9,group=16,keep=9",
                                     "i8",
                                     "kivi:window=30,slots=i8"};
    struct quantize_opts o = usual(&small);
    const char *path = quantized(&small, &o);
    for (uint32_t i = 0; i < sizeof kv / sizeof *kv; i++) {
        int32_t tokens[200];
        struct pair p = pair(
            path, i % 2,
            (struct tft_session_opts){
                .n_threads = 1, .capacity = 130, .slide = true, .kv = kv[i], .keep = is_kept});
        toy_tokens(3, p.m[0]->n_vocab, tokens, 200);
        for (size_t at = 0; at < 200; at += 20)
            feed_both(&p, tokens + at, 20, 1);
        feed_both(&p, tokens, 1, 1);
        close_pair(&p);
    }
}

/* Asserts that the model or its session does not open, with this status and an error that contains
   `line`. */
static void refuse(const char *path, const char *device, uint32_t batch, enum tft_status status,
                   const char *line)
{
    struct tft_model *m;
    struct tft_session *s = NULL;
    struct tft_error err = {0};
    struct tft_model_opts o = {.size = sizeof o, .device = device};
    struct tft_session_opts so = {.size = sizeof so, .n_batch = batch};
    enum tft_status got = tft_model_open(&m, path, &o, &err);
    if (got == TFT_OK)
        got = tft_session_open(&s, m, &so, &err);
    assert_null(s);
    tft_model_close(m);
    assert_int_equal(got, status);
    if (!strstr(err.msg, line))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, line);
}

/* Of the other architectures it computes some, and names the missing part of each of the rest. */
static void more_architectures(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *missing;
    } rest[] = {
        {"lfm2", "(architecture lfm2)"},
        {"qwen35", "cuda does not compute layers with a delta net (architecture qwen35)"},
        {"falcon-h1", "cuda does not compute layers with Mamba-2 (architecture falcon-h1)"},
        {"granitehybrid", "cuda does not compute scaled embeddings"},
        {"bitnet", "cuda does not compute norms within attention and feed-forward"},
        {"gemma", "cuda does not compute GEGLU (architecture gemma)"},
        {"granite", "cuda does not compute scaled embeddings (architecture granite)"},
        {"minicpm", "cuda does not compute scaled embeddings (architecture minicpm)"},
        {"olmo2", "cuda does not compute blocks without norms before them (architecture olmo2)"},
        {"exaone4", "cuda does not compute blocks without norms before them"},
        {"phi3", "cuda does not compute RoPE with an amplitude (architecture phi3)"},
        {"gemma2", "cuda does not compute GEGLU"},
        {"gemma3", "cuda does not compute GEGLU"},
        {"mistral3", "cuda does not compute RoPE with an amplitude (architecture mistral3)"},
        {"stablelm", "cuda does not compute a LayerNorm of each head of queries and keys"},
    };
    for (int i = 0; i < N_MORE; i++) {
        const char *missing = NULL;
        struct quantize_opts o = usual(&more_toys[i]);
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
            if (strcmp(rest[k].arch, more_toys[i].arch) == 0 &&
                (more_toys[i].large || strcmp(rest[k].arch, "stablelm") != 0)) /* only large */
                missing = rest[k].missing;
        o.n_prefix = missing ? 0 : o.n_prefix;
        const char *path = quantized(&more_toys[i], &o);
        if (missing)
            refuse(path, "cuda", 0, TFT_ERR_UNSUPPORTED, missing);
        else
            compare(path, 0, "i8");
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    char line[200];
    refuse(path, "cuda:900", 0, TFT_ERR_DEVICE, "cuda:900: no such GPU: this machine has ");
    refuse(path, "cuda:", 0, TFT_ERR_ARG, "\"cuda:\" is no device");
    refuse(path, "../x", 0, TFT_ERR_ARG, "\"../x\" is no device");
    refuse(path, "nope", 0, TFT_ERR_DEVICE, "nope: libtuffet-nope.so: ");
    snprintf(line, sizeof line,
             "tuffet-otherbuild: the plug-in is of version %s (build 0), "
             "the library of version %s (build ",
             tft_version(), tft_version());
    refuse(path, "otherbuild", 0, TFT_ERR_DEVICE, line);
    struct toy long_one = toys[0];
    long_one.n_ctx = 70000;
    refuse(quantized(&long_one, &o), "cuda", 65536, TFT_ERR_UNSUPPORTED,
           "cuda: passes of up to 65536 tokens are not supported: use at most 65535");
    refuse(in_folder("m.gguf"), "cuda", 0, TFT_ERR_UNSUPPORTED, "has weights of f32");
}

/* With some of the layers on the device too. */
static void hidden_vectors_are_refused(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    for (uint32_t layers = 0; layers < 2; layers++)
        for (int logits = 0; logits < 2; logits++) {
            struct tft_session_opts so = {
                .size = sizeof so, .n_hidden = !logits, .no_logits = logits};
            struct tft_model *m = opened_on(path, "cuda", layers);
            struct tft_session *s;
            struct tft_error err;
            assert_int_equal(tft_session_open(&s, m, &so, &err), TFT_ERR_UNSUPPORTED);
            assert_null(s);
            assert_non_null(strstr(err.msg, "q.gguf: hidden vectors are not computed on a device"));
            assert_int_equal(tft_session_bytes(m, &so, NULL), 0);
            tft_model_close(m);
        }
}

/* The CPU's. Fisher is refused. */
static void what_cache_is_the_default(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    for (uint32_t layers = 0; layers < 2; layers++) {
        struct tft_session_opts so = {.size = sizeof so, .kv = "fisher"};
        struct tft_model_info info = {.size = sizeof info};
        struct tft_model *m = opened_on(path, "cuda", layers);
        struct tft_session *s;
        struct tft_error err;
        tft_model_describe(m, &info);
        assert_string_equal(info.kv, "i8");
        assert_true(tft_kv_bytes(m, "i8", NULL) > 0);
        assert_int_equal(tft_kv_bytes(m, NULL, NULL), tft_kv_bytes(m, "i8", NULL));
        assert_int_equal(tft_session_open(&s, m, &so, &err), TFT_ERR_UNSUPPORTED);
        assert_null(s);
        assert_non_null(strstr(err.msg, "q.gguf: cuda does not have the KV cache fisher yet"));
        assert_int_equal(tft_kv_bytes(m, "fisher", NULL), 0);
        tft_model_close(m);
    }
}

/* Whether the GPU is played by a CPU, which obeys PLAYER_GPUS. */
static bool is_played(const char *path)
{
    struct tft_model *m;
    struct tft_model_opts o = {.size = sizeof o, .device = "cuda"};
    setenv("PLAYER_GPUS", "0", 1);
    enum tft_status status = tft_model_open(&m, path, &o, NULL);
    unsetenv("PLAYER_GPUS");
    tft_model_close(m);
    return status != TFT_OK;
}

static void with_setting(const char *path, const char *name, const char *value,
                         enum tft_status status, const char *line)
{
    setenv(name, value, 1);
    refuse(path, "cuda", 0, status, line);
    unsetenv(name);
}

/* A machine without a GPU, with an old one, with one of little memory. */
static void what_a_gpu_lacks(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    if (!is_played(path))
        skip_because("a GPU lacks and fails at nothing on demand");
    with_setting(path, "PLAYER_GPUS", "0", TFT_ERR_DEVICE,
                 "cuda: looking for a GPU: no CUDA-capable device is detected");
    with_setting(path, "PLAYER_CAPABILITY", "61", TFT_ERR_DEVICE,
                 "cuda:0: the GPU has compute capability 6.1: 7.5 or newer is needed");
    with_setting(path, "PLAYER_BYTES", "20000", TFT_ERR_NOMEM,
                 "cuda: not enough GPU memory for weights: ");
    with_setting(path, "PLAYER_BYTES", "100000", TFT_ERR_NOMEM,
                 "cuda: not enough GPU memory for a session: ");
}

/* Once the GPU has failed, in a pass with or without a graph, every further call fails. */
static void what_a_gpu_that_fails_leaves(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    static const int32_t tokens[3] = {1, 2, 3};
    if (!is_played(path))
        skip_because("a GPU lacks and fails at nothing on demand");
    for (size_t n = 1; n <= 3; n += 2) {
        struct tft_model *m = opened_on(path, "cuda", 0);
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
        assert_int_equal(tft_prefill(s, tokens, 2), TFT_OK);
        assert_non_null(tft_logits(s, 0));
        setenv("PLAYER_FAILS", "1", 1);
        assert_int_equal(tft_prefill(s, tokens, n), TFT_ERR_DEVICE);
        unsetenv("PLAYER_FAILS");
        assert_string_equal(tft_session_error(s)->msg, "cuda: computing tokens: failed");
        assert_int_equal(tft_pos(s), 2);
        assert_null(tft_logits(s, 0));
        assert_int_equal(tft_decode(s, 1), TFT_ERR_DEVICE);
        assert_int_equal(tft_session_error(s)->code, TFT_ERR_DEVICE);
        tft_session_close(s);
        tft_model_close(m);
    }
    with_setting(path, "PLAYER_FAILS", "1", TFT_ERR_DEVICE, "cuda: copying the session's prefix: ");
}

/* A function of the plug-in's CUDA runtime; NULL if the plug-in does not export it. */
static void *runtime_function(const char *name)
{
    void *plugin = dlopen("libtuffet-cuda.so", RTLD_NOW | RTLD_NOLOAD);
    void *found = plugin ? dlsym(plugin, name) : NULL;
    if (plugin)
        dlclose(plugin);
    return found;
}

static int current_gpu(void)
{
    int (*get)(int *);
    int index = -1;
    void *found = runtime_function("cudaGetDevice");
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    assert_int_equal(get(&index), 0);
    return index;
}

/* The program may use CUDA itself: its current GPU stays the same. */
static void what_the_callers_gpu_is(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    int32_t tokens[60];
    if (!is_played(path))
        skip_because("a GPU lacks and fails at nothing on demand");
    toy_tokens(3, toys[0].n_vocab, tokens, 60);
    setenv("PLAYER_GPUS", "2", 1);
    struct tft_model *m = opened_on(path, "cuda:1", 0);
    assert_int_equal(current_gpu(), 0);
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .capacity = 64, .slide = true});
    assert_int_equal(current_gpu(), 0);
    assert_int_equal(tft_prefill(s, tokens, 60), TFT_OK);
    for (int i = 0; i < 10; i++) /* it slides */
        assert_int_equal(tft_decode(s, 1), TFT_OK);
    assert_int_equal(current_gpu(), 0);
    struct tft_model *keeps_the_plug_in = opened_on(path, "cuda", 0);
    tft_session_close(s);
    tft_model_close(m);
    assert_int_equal(current_gpu(), 0);
    tft_model_close(keeps_the_plug_in);
    unsetenv("PLAYER_GPUS");
}

/* Limits that the driver does not tell are unknown, and no error of the next pass. */
static void what_the_driver_does_not_tell(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    const char *path = quantized(&toys[0], &o);
    double read, int8, fma;
    if (!is_played(path))
        skip_because("a GPU lacks and fails at nothing on demand");
    struct tft_model *m = opened_on(path, "cuda", 0);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    setenv("PLAYER_CLOCKS", "0", 1);
    m->stage[0].backend->limits(m->stage[0].device, &read, &int8, &fma);
    unsetenv("PLAYER_CLOCKS");
    assert_true(int8 != int8 && fma != fma);
    assert_int_equal(tft_decode(s, 1), TFT_OK);
    tft_session_close(s);
    tft_model_close(m);
}

/* Whether the real plug-in is tested on a machine without a GPU. */
static bool is_without_gpu(void)
{
    struct tft_model *m;
    struct tft_error err = {0};
    struct quantize_opts o = usual(&toys[0]);
    struct tft_model_opts mo = {.size = sizeof mo, .device = "cuda"};
    enum tft_status status = tft_model_open(&m, quantized(&toys[0], &o), &mo, &err);
    tft_model_close(m);
    if (status == TFT_OK || !strstr(err.msg, "looking for a GPU"))
        return false;
    print_message("skipped: %s\n", err.msg);
    return true;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture),
        cmocka_unit_test(more_architectures),
        cmocka_unit_test(dynamic_ranges),
        cmocka_unit_test(some_of_the_layers),
        cmocka_unit_test(weights_of_low_bits),
        cmocka_unit_test(wide_rows_and_heads),
        cmocka_unit_test(quantized_caches),
        cmocka_unit_test(keys_with_a_bias),
        cmocka_unit_test(tokens_that_a_filter_keeps),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(a_session_that_slides),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(hidden_vectors_are_refused),
        cmocka_unit_test(what_cache_is_the_default),
        cmocka_unit_test(what_a_gpu_lacks),
        cmocka_unit_test(what_a_gpu_that_fails_leaves),
        cmocka_unit_test(what_the_callers_gpu_is),
        cmocka_unit_test(what_the_driver_does_not_tell),
    };
    if (make_folder(NULL) != 0)
        return 1;
    if (is_without_gpu()) {
        remove_folder(NULL);
        return 77; /* meson: skipped */
    }
    struct quantize_opts o = usual(&toys[0]);
    if (getenv("TUFFET_TEST_GPU") && is_played(quantized(&toys[0], &o))) {
        print_error("the plug-in that was found is that of the player, not of a GPU\n");
        remove_folder(NULL);
        return 1;
    }
    if (argc > 1) /* a pattern: only the tests with names that match */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
