/*
 * The input is a model, of floats or W8A8, that is opened and run for a few tokens. The numbers may
 * be nonsense, but nothing may be read or written out of bounds, and no more memory taken than the
 * size of the file justifies.
 */
#include "fuzz.h"

#include "blob.h"
#include "simd/kernels.h"
#include "run/session.h"

enum { CAPACITY = 40, MOST_MACS = 1 << 20, MOST_SESSION = 1 << 24 };

/* Expanding weights takes at most 256 floats for 84 bytes of the file, layers take at most a block
   per tensor, and the tokenizer takes a few numbers per token. */
static void check_memory(const struct memory *m, size_t size)
{
    MUST(m->peak <= 64 * size + (1 << 20));
}

/* The tokens were computed, also if the results have NaN or infinity. */
static bool computed(enum tft_status status)
{
    return status == TFT_OK || status == TFT_ERR_NUMBERS;
}

static void feed(struct tft_session *s, uint32_t n_vocab)
{
    int32_t tokens[CAPACITY];
    size_t n = tft_capacity(s);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(i * 7 % n_vocab);
    enum tft_status empty = tft_prefill(s, NULL, 0);
    MUST(computed(empty) || empty == TFT_ERR_ARG);
    if (empty == TFT_OK)
        touch(tft_logits(s, 0), n_vocab * sizeof(float));
    MUST(computed(tft_prefill(s, tokens, (n + 1) / 2)));
    MUST(tft_prefill(s, NULL, 0) == TFT_ERR_ARG);
    MUST(tft_decode(s, (int32_t)n_vocab) == TFT_ERR_ARG);
    for (size_t i = tft_pos(s); i < n; i++)
        MUST(computed(tft_decode(s, tokens[i])));
    MUST(tft_decode(s, 0) == TFT_ERR_FULL);
    enum tft_status last = tft_sync(s, tokens, 1);
    MUST(computed(last) && !tft_logits(s, 0) == (last != TFT_OK));
    if (last == TFT_OK)
        touch(tft_logits(s, 0), n_vocab * sizeof(float));
    struct tft_sampler z = {.temperature = 1, .top_p = 0.9f, .seed = 1};
    MUST(tft_sample(&z, s) < (int32_t)n_vocab);
}

/* NULL: the cache that the file names */
static const char *const caches[] = {
    "f16",
    "f32",
    NULL,
    "kivi:window=2,group=16",
    "k=1.5@token,v=8@channel,group=16,retain=log2:2,sinks=1,scales=f8,clip=zero",
    "tuffet:window=0,group=16,k=2x1/16,v=16x1/1.5",
    "partial-logquant:window=2,group=16",
    "kivi:kr=window:3,vr=log2:2,group=16",
    "i8",
};

/* The room for a session after the last of the named prefixes, which o gets. */
static uint32_t choose_prefix(const struct tft_model *m, uint32_t room, struct tft_session_opts *o)
{
    struct tft_prefix_info prefix = {.size = sizeof prefix};
    for (size_t i = 0; tft_prefix_describe(m, i, &prefix) == TFT_OK; i++) {
        size_t held = tft_prefix_held(m, prefix.name, prefix.tokens, prefix.n_tokens);
        MUST(held <= prefix.n_tokens);
        touch(prefix.tokens, prefix.n_tokens * sizeof *prefix.tokens);
        tft_prefix_best(m, prefix.tokens, prefix.n_tokens);
    }
    o->prefix = prefix.name;
    return room - prefix.n_tokens;
}

static void run(const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    struct tft_session_opts o = {.size = sizeof o, .n_batch = 5, .n_logits = 2, .n_threads = 1};
    struct tft_session *s;
    struct tft_error err;
    tft_model_describe(m, &info);
    uint32_t room = choose_prefix(m, info.n_ctx, &o);
    o.capacity = room < CAPACITY ? room : CAPACITY;
    o.kv = caches[info.n_ctx % (sizeof caches / sizeof *caches)];
    size_t bytes = tft_session_bytes(m, &o, NULL);
    if (!bytes) { /* perhaps this cache does not support the heads */
        o.kv = "f16";
        bytes = tft_session_bytes(m, &o, NULL);
    }
    if (info.matmul_macs > MOST_MACS || bytes > MOST_SESSION || !bytes)
        return;
    MUST(tft_session_open(&s, m, &o, &err) == TFT_OK);
    feed(s, info.n_vocab);
    tft_session_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory memory = {0};
    struct tft_allocator a = memory_allocator(&memory);
    struct tft_model_opts o = {.size = sizeof o, .allocator = &a, .n_threads = 1};
    struct tft_model *m;
    struct tft_error err = {0};
    unsigned char *copy = exact_copy(data, size);
    MUST(tft_cpu_limit(tft_kernels_name((int)(size % (size_t)tft_kernels_isas()))) == TFT_OK);
    enum tft_status status = tft_model_open_mem(&m, copy, size, &o, &err);
    check_memory(&memory, size);
    if (status == TFT_OK)
        run(m);
    else
        MUST(!m && err.code == status && strncmp(err.msg, "memory: ", 8) == 0 &&
             !strchr(err.msg, '\n'));
    tft_model_close(m);
    MUST(memory.in_use == 0);
    tft_port_free(copy);
    return 0;
}
