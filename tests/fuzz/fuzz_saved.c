/*
 * The input is some bytes that choose the session, then changes to the saved session. The checksum
 * is made right again. The file is refused with one line, and another session stays as it was; or
 * the session is loaded, copied and runs, whatever it then computes.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "more_toys.h"
#include "base/bytes.h"
#include "base/crc32.h"
#include "run/saved.h"

enum { MODELS = 4, TOKENS = 200, CAPACITY = 160 };

static int32_t tokens[TOKENS];

/* Plain attention, a layer with a window, layers with a state, learned positions. */
static const struct tft_model *model(uint32_t i)
{
    static struct tft_model *m[MODELS];
    static const struct toy own[] = {
        {.arch = "llama", .n_vocab = 32, .n_ctx = 300, .n_embd = 16, .n_layer = 2, .n_head = 2,
         .n_head_kv = 1, .head_dim = 16, .n_ff = 16, .n_rot = 16, .type = TFT_F32},
        {.arch = "gpt2", .n_vocab = 32, .n_ctx = 300, .n_embd = 16, .n_layer = 1, .n_head = 1,
         .n_head_kv = 1, .head_dim = 16, .n_ff = 16, .type = TFT_F32, .tied = true}};
    static const struct toy_number window[] = {{"attention.sliding_window", TOY_U32, 20}, {0}};
    struct toy gemma = own[0];
    gemma.arch = "gemma2";
    gemma.tied = true;
    gemma.numbers = window;
    const struct toy *toys[MODELS] = {&own[0], &gemma, state_toys, &own[1]};
    if (!m[i])
        m[i] = fuzz_toy(toys[i]);
    return m[i];
}

static const char *const caches[] = {
    "f16",
    "kivi:window=16,group=16",
    "logquant:window=5,group=16",
    "kivi:kr=window:14,vr=log2:8,group=16",
    "k=1.5@token,v=3@token,group=16,retain=window:5,keep=4,scales=f8,sinks=2",
    "kivi:window=16,group=16,prefill=prompt",
};
enum { N_CACHES = sizeof caches / sizeof *caches };

static bool some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position + (uint64_t)token) % 7 == 0;
}

static bool computed(enum tft_status status)
{
    return status == TFT_OK || status == TFT_ERR_NUMBERS;
}

static unsigned char *saved(const struct tft_session *s, size_t *n)
{
    *n = tft_session_save_bytes(s, NULL);
    unsigned char *p = malloc(*n);
    MUST(p && tft_session_save_mem(s, NULL, p, *n, NULL) == TFT_OK);
    return p;
}

/* A copy is the same session, also of one that was loaded from a lie. */
static void copy(const struct tft_session *s, const struct tft_model *m,
                 const struct tft_session_opts *o)
{
    struct tft_session *t;
    size_t n, same;
    MUST(tft_session_open(&t, m, o, NULL) == TFT_OK);
    MUST(tft_session_copy(t, s, NULL) == TFT_OK);
    unsigned char *p = saved(s, &n), *q = saved(t, &same);
    MUST(n == same && memcmp(p, q, n) == 0);
    free(p);
    free(q);
    tft_session_close(t);
}

/* Tokens, a rewind and tokens again, as far as there is room. */
static void run(struct tft_session *s, struct bytes *b)
{
    for (int i = 0; i < 3; i++) {
        uint32_t n = 1 + choose(b, 60), pos = (uint32_t)tft_pos(s);
        if (s->slide || pos + n <= s->capacity)
            MUST(computed(tft_prefill(s, tokens + choose(b, 100), n)));
        if (choose(b, 2))
            MUST(tft_rewind(s, choose(b, (uint32_t)tft_pos(s) + 1)) == TFT_OK);
        if (choose(b, 4) == 0)
            tft_prompt_end(s);
    }
}

/* Half of the changes are to the numbers and arrays at the start. */
static void change(unsigned char *p, size_t n, struct bytes *b)
{
    for (uint32_t changes = choose(b, 6); changes; changes--) {
        size_t head = n < 512 ? n : 512, all = n < 65536 ? n : 65536,
               at = choose(b, 2) ? choose(b, (uint32_t)head) : choose(b, (uint32_t)all);
        p[at] = (unsigned char)choose(b, 256);
    }
    tft_store_u32(p + n - TFT_SAVED_CHECKSUM, tft_crc32(0, p, n - TFT_SAVED_CHECKSUM));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, data + size};
    struct tft_error err = {0};
    struct tft_session *s, *t;
    size_t n, before, after;
    const struct tft_model *m = model(choose(&b, MODELS));
    toy_tokens(1, 31, tokens, TOKENS);
    uint32_t how = choose(&b, 64);
    struct tft_session_opts o = {.size = sizeof o, .kv = caches[how / 4 % N_CACHES], .keep = some,
                                 .n_threads = 1, .capacity = CAPACITY, .slide = how % 2};
    if (tft_session_open(&s, m, &o, &err) != TFT_OK) { /* it cannot slide */
        o.slide = false;
        if (tft_session_open(&s, m, &o, &err) != TFT_OK)
            return 0;
    }
    o.n_batch = how / 2 % 2 ? 24 : 0;
    MUST(tft_session_open(&t, m, &o, &err) == TFT_OK);
    run(s, &b);
    run(t, &b);
    unsigned char *p = saved(s, &n), *old = saved(t, &before), *now = NULL;
    change(p, n, &b);
    enum tft_status status = tft_session_load_mem(t, NULL, p, n, &err);
    if (status == TFT_OK) {
        MUST(tft_pos(t) <= tft_capacity(t));
        copy(t, m, &o);
        run(t, &b);
    } else {
        fuzz_check_line(&err, status);
        now = saved(t, &after);
        MUST(before == after && memcmp(old, now, after) == 0);
    }
    free(p);
    free(old);
    free(now);
    tft_session_close(s);
    tft_session_close(t);
    return 0;
}
