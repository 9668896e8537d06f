/*
 * The input is a KV cache and a walk: the text of a cache up to a NUL or the end of a line, then
 * bytes that choose a session and what is done to it: prefill, decode, rewind, sync. A cache may be
 * refused, with one line. After every step the logits are those of a fresh session, bit for bit,
 * that is fed the same tokens in other parts. A session that has slid holds no tokens that say how
 * it came there: it is compared with a twin, which was fed all along in other parts.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "fuzz.h"

#include <stdio.h>
#include <unistd.h>

#include "../toy.h"
#include "run/session.h"
#include "tuffet.h"

enum { VOCAB = 40, CONTEXT = 300, STEPS = 40, PART = 120 };

static const struct toy toy = {.arch = "llama",
                               .n_vocab = VOCAB,
                               .n_ctx = CONTEXT,
                               .n_embd = 16,
                               .n_layer = 2,
                               .n_head = 2,
                               .n_head_kv = 1,
                               .head_dim = 16,
                               .n_ff = 32,
                               .n_rot = 16,
                               .type = TFT_F32};

static const struct tft_model *the_model(void)
{
    static struct tft_model *m;
    char folder[] = "/tmp/tuffet-walk-XXXXXX", path[64];
    if (m)
        return m;
    MUST(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    MUST(toy_write(&toy, path));
    MUST(tft_model_open(&m, path, NULL, NULL) == TFT_OK);
    remove(path);
    rmdir(folder);
    return m;
}

struct bytes {
    const uint8_t *at, *end;
};

/* 0 .. n - 1; 0 behind the end */
static uint32_t choose(struct bytes *b, uint32_t n)
{
    uint32_t hi = b->at < b->end ? *b->at++ : 0, lo = n > 256 && b->at < b->end ? *b->at++ : 0;
    return (hi + 256 * lo) % n;
}

static bool name_some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position * 2654435761u ^ (uint32_t)token * 40503u) % 5 == 0;
}

struct walk {
    struct bytes b;
    struct tft_session_opts o;
    struct tft_session *s, *twin; /* twin: NULL, or fed all that s was fed */
    bool slid;
};

static struct tft_session *open_as(const struct walk *w, uint32_t n_batch)
{
    struct tft_session_opts o = w->o;
    struct tft_session *s;
    o.n_batch = n_batch;
    MUST(tft_session_open(&s, the_model(), &o, NULL) == TFT_OK);
    return s;
}

static void feed_in_parts(struct tft_session *s, const int32_t *tokens, size_t n, size_t part)
{
    for (size_t i = 0; i < n; i += part)
        MUST(tft_prefill(s, tokens + i, n - i < part ? n - i : part) == TFT_OK);
}

static void same_logits(const struct tft_session *a, const struct tft_session *b)
{
    const float *x = tft_logits(a, 0), *y = tft_logits(b, 0);
    MUST(x && y && memcmp(x, y, VOCAB * sizeof *x) == 0);
}

static void compare(struct walk *w)
{
    size_t n = tft_pos(w->s), part = 1 + choose(&w->b, 70);
    if (!n || !tft_logits(w->s, 0))
        return;
    if (w->twin) {
        MUST(tft_pos(w->twin) == n);
        MUST(memcmp(tft_tokens(w->twin), tft_tokens(w->s), n * sizeof(int32_t)) == 0);
        same_logits(w->s, w->twin);
    }
    if (w->slid)
        return;
    struct tft_session *fresh = open_as(w, 1 + (uint32_t)part / 2);
    feed_in_parts(fresh, tft_tokens(w->s), n, part);
    same_logits(w->s, fresh);
    tft_session_close(fresh);
}

static void drop_twin(struct walk *w)
{
    tft_session_close(w->twin);
    w->twin = NULL;
}

static void prefill(struct walk *w, const int32_t *tokens, size_t n)
{
    size_t room = tft_capacity(w->s) - tft_pos(w->s);
    if (n > room && !w->o.slide) {
        MUST(tft_prefill(w->s, tokens, n) == TFT_ERR_FULL);
        return;
    }
    w->slid = w->slid || n > room;
    MUST(tft_prefill(w->s, tokens, n) == TFT_OK);
    if (w->twin)
        feed_in_parts(w->twin, tokens, n, 1 + choose(&w->b, 40));
}

static void step(struct walk *w)
{
    int32_t tokens[CONTEXT];
    size_t pos = tft_pos(w->s), n = 1 + choose(&w->b, PART);
    uint32_t what = choose(&w->b, 8);
    for (size_t i = 0; i < CONTEXT; i++)
        tokens[i] = (int32_t)((i * 7 + n) % VOCAB);
    if (what < 5) {
        prefill(w, tokens, what < 3 ? n : 1);
    } else if (what == 5) {
        size_t to = choose(&w->b, (uint32_t)pos + 1);
        drop_twin(w);
        MUST(tft_rewind(w->s, to) == TFT_OK && tft_pos(w->s) == to && !tft_logits(w->s, 0));
    } else {
        size_t same = choose(&w->b, (uint32_t)pos + 1);
        n = n < tft_capacity(w->s) ? n : tft_capacity(w->s);
        drop_twin(w);
        memcpy(tokens, tft_tokens(w->s), (same < n ? same : n) * sizeof *tokens);
        MUST(tft_sync(w->s, tokens, n) == TFT_OK && tft_pos(w->s) == n);
        w->slid = false;
    }
    compare(w);
}

static void walk(struct walk *w)
{
    struct tft_error err = {0};
    uint32_t n_batch = 1 + choose(&w->b, 90);
    w->o.capacity = 1 + choose(&w->b, CONTEXT);
    w->o.slide = choose(&w->b, 2);
    w->o.keep = choose(&w->b, 2) ? name_some : NULL;
    w->o.n_batch = n_batch;
    enum tft_status status = tft_session_open(&w->s, the_model(), &w->o, &err);
    if (status != TFT_OK) {
        MUST(err.code == status && *err.msg && !strchr(err.msg, '\n'));
        return;
    }
    w->twin = open_as(w, 1 + n_batch / 3);
    for (int i = 0; i < STEPS && w->b.at < w->b.end; i++)
        step(w);
    drop_twin(w);
    tft_session_close(w->s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    while (n < size && data[n] && data[n] != '\n')
        n++;
    char *kv = malloc(n + 1);
    MUST(kv);
    memcpy(kv, data, n);
    kv[n] = 0;
    struct walk w = {.b = {data + n + (n < size), data + size},
                     .o = {.size = sizeof w.o, .kv = kv, .n_threads = 1}};
    walk(&w);
    free(kv);
    return 0;
}
