/*
 * The input is a KV cache and a walk: the text of a cache up to a NUL or the end of a line, then
 * bytes that choose a model, a session and its steps: prefill, decode, the end of the prompt,
 * rewind, sync, calls that are cancelled and continued, and calls that must be refused. A cache may
 * be refused, with one line. After every step the logits equal, bit for bit, the logits of a fresh
 * session that is fed the same tokens in other parts. A session that has slid holds no tokens that
 * say how it came there: it is compared with a twin, to which the same was done all along in other
 * parts.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "run/session.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/write/rewrite_model.h"

enum { VOCAB = 40, CONTEXT = 300, STEPS = 40, PART = 120, NAMED = 5, CALIBRATION = 120 };

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

static const char *const prefixes[] = {NULL, "named"};

/* Adds the prefix `named` to the W8A8 file of m, the model of floats. */
static void name_prefix(struct tft_model *m, const char *path, const struct quantize_opts *o)
{
    int32_t tokens[NAMED];
    struct tft_model *made = fuzz_open(path);
    struct named_prefix p = {.name = prefixes[1], .tokens = tokens, .n = NAMED};
    bool stopped;
    toy_tokens(5, VOCAB, tokens, NAMED);
    MUST(named_rows(m, made, o, &p, 1, &stopped, NULL) == TFT_OK);
    MUST(rewrite_model(made, path, &(struct rewrite){.named = &p, .n_named = 1}, NULL) == TFT_OK);
    named_rows_free(&p, 1);
    tft_model_close(made);
}

/* The toy in W8A8, with all that a cache may want of a file: calibration for SKVQ, the importance
   of channels, a prefix and a named one. */
static struct tft_model *quantized(void)
{
    static const int32_t prefix[] = {1, 7};
    enum tft_range range[2 * TFT_LAYER_INPUTS + 1] = {TFT_RANGE_STATIC};
    struct quantize_input result[2 * TFT_LAYER_INPUTS + 1];
    int32_t text[CALIBRATION], order[2 * 16];
    float factor[2 * 16];
    struct quantize_values values = {factor, order};
    struct quantize_opts o = {.text = text, .n_text = CALIBRATION, .window = CALIBRATION / 2,
                              .rotate = QUANTIZE_ROTATE_O_DOWN, .prefix = prefix, .n_prefix = 2,
                              .range = range, .kv = "skvq:group=16,window=16", .values = &values,
                              .n_threads = 1};
    struct tft_model *m;
    bool stopped;
    for (int i = 0; i <= 2 * TFT_LAYER_INPUTS; i++)
        range[i] = TFT_RANGE_STATIC;
    toy_tokens(3, VOCAB, text, CALIBRATION);
    MUST(toy_write(&toy, fuzz_path(FUZZ_A)));
    MUST(tft_model_open_unexpanded(&m, fuzz_path(FUZZ_A), NULL, NULL) == TFT_OK);
    MUST(quantize(m, fuzz_path(FUZZ_B), &o, result, &stopped, NULL) == TFT_OK);
    name_prefix(m, fuzz_path(FUZZ_B), &o);
    tft_model_close(m);
    return fuzz_open(fuzz_path(FUZZ_B));
}

/* 0: of floats; 1: W8A8 */
static const struct tft_model *model(uint32_t which)
{
    static struct tft_model *m[2];
    if (!m[which])
        m[which] = which ? quantized() : fuzz_toy(&toy);
    return m[which];
}

static bool name_some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position * 2654435761u ^ (uint32_t)token * 40503u) % 5 == 0;
}

/* user: calls of this function until one cancels; below 0: none does. */
static bool go_on(void *user, double done)
{
    int *left = user;
    MUST(done >= 0 && done < 1);
    return *left < 0 || (*left)-- > 0;
}

struct walk {
    struct bytes b;
    const struct tft_model *m;
    struct tft_session_opts o;
    struct tft_session *s, *twin; /* twin: had the same steps as s */
    size_t prompt;                /* tokens of the prompt, where tft_prompt_end was called; or 0 */
    bool slid;
    int until_cancel; /* go_on's */
};

static struct tft_session *open_as(const struct walk *w, uint32_t n_batch)
{
    struct tft_session_opts o = w->o;
    struct tft_session *s;
    o.n_batch = n_batch < o.n_logits ? o.n_logits : n_batch;
    MUST(tft_session_open(&s, w->m, &o, NULL) == TFT_OK);
    return s;
}

static void feed_in_parts(struct tft_session *s, const int32_t *tokens, size_t n, size_t part)
{
    for (size_t i = 0; i < n; i += part)
        MUST(tft_prefill(s, tokens + i, n - i < part ? n - i : part) == TFT_OK);
}

/* The tokens that both sessions have kept. */
static void same_logits(const struct walk *w, const struct tft_session *a,
                        const struct tft_session *b)
{
    MUST(tft_logits(a, 0) && tft_logits(b, 0));
    for (size_t back = 0; back < w->o.n_logits; back++) {
        const float *x = tft_logits(a, back), *y = tft_logits(b, back);
        MUST(!x || !y || memcmp(x, y, VOCAB * sizeof *x) == 0);
    }
}

static void compare(struct walk *w)
{
    const int32_t *tokens = tft_tokens(w->s);
    size_t n = tft_pos(w->s), part = 1 + choose(&w->b, 70);
    MUST(tft_pos(w->twin) == n);
    MUST(!n || memcmp(tft_tokens(w->twin), tokens, n * sizeof *tokens) == 0);
    MUST(!tft_logits(w->twin, 0) == !tft_logits(w->s, 0));
    if (!tft_logits(w->s, 0))
        return;
    same_logits(w, w->s, w->twin);
    if (w->slid)
        return;
    struct tft_session *fresh = open_as(w, 1 + (uint32_t)part / 2);
    feed_in_parts(fresh, tokens, w->prompt, part);
    tft_prompt_end(fresh);
    if (w->prompt < n)
        feed_in_parts(fresh, tokens + w->prompt, n - w->prompt, part);
    if (!n)
        MUST(tft_prefill(fresh, NULL, 0) == TFT_OK);
    same_logits(w, w->s, fresh);
    tft_session_close(fresh);
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
    feed_in_parts(w->twin, tokens, n, 1 + choose(&w->b, 40));
}

/* Tokens that the session was fed, with the tokens that slides have dropped. */
static size_t fed_to(const struct walk *w)
{
    return w->s->kv.dropped + tft_pos(w->s);
}

/* A prefill that is cancelled under way, and then continued. */
static void cancel(struct walk *w, const int32_t *tokens, size_t n)
{
    size_t room = tft_capacity(w->s) - tft_pos(w->s), begin = fed_to(w);
    if (n > room && !w->o.slide)
        return;
    w->until_cancel = (int)choose(&w->b, 8);
    enum tft_status status = tft_prefill(w->s, tokens, n);
    size_t fed = fed_to(w) - begin;
    MUST(status == TFT_OK ? fed == n : status == TFT_ERR_CANCELLED && fed < n);
    MUST((status == TFT_OK) == !!tft_logits(w->s, 0));
    w->until_cancel = -1;
    if (fed < n)
        MUST(tft_prefill(w->s, tokens + fed, n - fed) == TFT_OK);
    w->slid = w->slid || n > room;
    feed_in_parts(w->twin, tokens, n, 1 + choose(&w->b, 40));
}

/* A session that is empty again has no past. One that was rewound to a part of its prompt may get
   more of it. */
static void forget(struct walk *w, size_t pos)
{
    w->slid = w->slid && pos;
    w->prompt = pos < w->prompt ? 0 : w->prompt;
}

static void rewind_some(struct walk *w)
{
    size_t pos = tft_pos(w->s), to = choose(&w->b, (uint32_t)pos + 1);
    MUST(tft_rewind(w->s, pos + 1) == TFT_ERR_ARG && tft_pos(w->s) == pos);
    MUST(tft_rewind(w->s, to) == TFT_OK && tft_pos(w->s) == to && !tft_logits(w->s, 0));
    MUST(tft_rewind(w->twin, to) == TFT_OK);
    forget(w, to);
}

/* The tokens begin as the session does, as far as the input wants. */
static void sync(struct walk *w, int32_t *tokens, size_t n)
{
    size_t pos = tft_pos(w->s), same = choose(&w->b, (uint32_t)pos + 1), common = 0;
    n = n < tft_capacity(w->s) ? n : tft_capacity(w->s);
    if (same)
        memcpy(tokens, tft_tokens(w->s), (same < n ? same : n) * sizeof *tokens);
    while (!w->slid && common < pos && common < n - 1 && tokens[common] == tft_tokens(w->s)[common])
        common++;
    MUST(tft_sync(w->s, tokens, n) == TFT_OK && tft_pos(w->s) == n);
    MUST(tft_sync(w->twin, tokens, n) == TFT_OK);
    forget(w, common);
}

/* Calls that must be refused, and change nothing; and the logits that follow the prefix. */
static void refused(struct walk *w)
{
    int32_t tokens[2] = {0, VOCAB};
    size_t pos = tft_pos(w->s);
    enum tft_status empty = tft_prefill(w->s, NULL, 0);
    MUST(empty == tft_prefill(w->twin, NULL, 0));
    MUST(empty == (w->m->n_prefix && !pos ? TFT_OK : TFT_ERR_ARG));
    MUST(tft_prefill(w->s, tokens, 2) == TFT_ERR_ARG && tft_pos(w->s) == pos);
    MUST(tft_decode(w->s, -1) == TFT_ERR_ARG && tft_pos(w->s) == pos);
    MUST(tft_sync(w->s, tokens, 2) == TFT_ERR_ARG && tft_pos(w->s) == pos);
    fuzz_check_line(tft_session_error(w->s), TFT_ERR_ARG);
}

static void step(struct walk *w)
{
    int32_t tokens[CONTEXT];
    size_t n = 1 + choose(&w->b, PART);
    uint32_t what = choose(&w->b, 11);
    for (size_t i = 0; i < CONTEXT; i++)
        tokens[i] = (int32_t)((i * 7 + n) % VOCAB);
    if (what < 5) {
        prefill(w, tokens, what < 3 ? n : 1);
    } else if (what == 5) {
        rewind_some(w);
    } else if (what < 8) {
        sync(w, tokens, n);
    } else if (what == 8) {
        tft_prompt_end(w->s);
        tft_prompt_end(w->twin);
        w->prompt = w->prompt ? w->prompt : tft_pos(w->s);
    } else if (what == 9) {
        refused(w);
    } else {
        cancel(w, tokens, n);
    }
    compare(w);
}

static void walk(struct walk *w)
{
    struct tft_error err = {0};
    uint32_t n_batch = 1 + choose(&w->b, 90), how = choose(&w->b, 128);
    w->o.capacity = 1 + choose(&w->b, CONTEXT);
    w->o.slide = how % 2;
    w->o.keep = how / 2 % 2 ? name_some : NULL;
    w->o.progress = go_on;
    w->o.progress_user = &w->until_cancel;
    w->until_cancel = -1;
    w->m = model(how / 4 % 2);
    w->o.prefix = prefixes[how / 4 % 2 && how / 8 % 2];
    w->o.n_logits = 1 + how / 16 % 3;
    w->o.n_batch = n_batch < w->o.n_logits ? w->o.n_logits : n_batch;
    enum tft_status status = tft_session_open(&w->s, w->m, &w->o, &err);
    if (status != TFT_OK) {
        fuzz_check_line(&err, status);
        return;
    }
    w->twin = open_as(w, 1 + n_batch / 3);
    for (int i = 0; i < STEPS && w->b.at < w->b.end; i++)
        step(w);
    tft_session_close(w->twin);
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
