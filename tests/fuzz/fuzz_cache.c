/*
 * The input is the text of a KV cache, after two bytes that choose a session. A text is refused
 * with one line, or it is a policy: written out knob by knob it is the same policy, and a session
 * takes the memory that was announced, and runs.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "kv/policy.h"

enum { VOCAB = 32, CONTEXT = 100, MOST_SESSION = 1 << 24, LAYERS = 2, TEXT = 8192 };

static const struct tft_model *the_model(void)
{
    static struct tft_model *m;
    static const struct toy toy = {.arch = "llama", .n_vocab = VOCAB, .n_ctx = CONTEXT,
                                   .n_embd = 16, .n_layer = LAYERS, .n_head = 2, .n_head_kv = 1,
                                   .head_dim = 16, .n_ff = 16, .n_rot = 16, .type = TFT_F32};
    if (!m)
        m = fuzz_toy(&toy);
    return m;
}

/* ---- a policy as text */

struct text {
    char p[TEXT];
    size_t n;
};

static void add_runs(struct text *t, const char *knob, const struct tft_kv_side *s)
{
    static const char *const axes[] = {"channel", "token", "mixed", "fisher"};
    t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, ",%s=", knob);
    for (const struct tft_kv_run *r = s->run;; r++) {
        /* a run of no layers may have bits that its axis does not allow */
        double bits = r->layers ? (double)r->bits : 2;
        t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, "%.6f", bits);
        if (r->layers == TFT_KV_REST)
            break;
        t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, "x%u/", r->layers);
    }
    t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, "@%s", axes[s->axis]);
}

static void write_policy(struct text *t, const struct tft_kv_policy *p)
{
    static const char *const clips[] = {"none", "centre", "zero", "calibrated"};
    static const char *const kinds[] = {"fill", "window", "log2"};
    *t = (struct text){.n = 0};
    t->n = (size_t)snprintf(
        t->p, TEXT, "group=%u,scales=%s,clip=%s,reorder=%s,keep=%u,kr=%s:%u,vr=%s:%u", p->group,
        p->f8 ? "f8" : "f16", clips[p->clip], p->reorder ? "calibrated" : "none", p->keep,
        kinds[p->k.retain], p->k.window, kinds[p->v.retain], p->v.window);
    if (p->prefill == TFT_KV_PROMPT)
        t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, ",prefill=prompt");
    else
        t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, ",prefill=%u", p->prefill);
    if (p->names_sinks)
        t->n += (size_t)snprintf(t->p + t->n, TEXT - t->n, ",sinks=%u", p->sinks);
    add_runs(t, "k", &p->k);
    add_runs(t, "v", &p->v);
}

static void same_side(const struct tft_kv_side *a, const struct tft_kv_side *b)
{
    MUST(a->axis == b->axis && a->retain == b->retain && a->window == b->window);
    for (const struct tft_kv_run *x = a->run, *y = b->run;; x++, y++) {
        MUST(x->layers == y->layers && (!x->layers || x->bits == y->bits));
        if (x->layers == TFT_KV_REST)
            return;
    }
}

static void check_round_trip(const struct tft_kv_policy *p)
{
    static struct text t;
    struct tft_kv_policy q;
    write_policy(&t, p);
    if (t.n >= TFT_KV_TEXT)
        return;
    MUST(tft_kv_parse(&q, t.p, NULL) == TFT_OK);
    MUST(p->num == q.num && p->sinks == q.sinks && p->names_sinks == q.names_sinks &&
         p->prefill == q.prefill && p->keep == q.keep && p->group == q.group && p->f8 == q.f8 &&
         p->clip == q.clip && p->reorder == q.reorder);
    same_side(&p->k, &q.k);
    same_side(&p->v, &q.v);
    MUST(tft_kv_block(p) == tft_kv_block(&q));
    MUST(tft_kv_calibrated_for(p, &q, LAYERS));
}

/* The bounds of tuffet.h for each knob. */
static void check_policy(const struct tft_kv_policy *p)
{
    uint32_t block = tft_kv_block(p);
    MUST(block >= 16 && block <= 256 && block % 16 == 0);
    MUST(p->group >= 16 && p->group <= 256 && !(p->group & (p->group - 1)));
    MUST(p->k.window <= 32768 && p->v.window <= 32768 && p->sinks <= 32768 && p->keep <= 32768);
    MUST(p->prefill <= 1048576 || p->prefill == TFT_KV_PROMPT);
    MUST(p->v.axis != TFT_KV_MIXED);
    for (enum tft_kv_which i = TFT_KV_K; i < TFT_KV_SIDES; i++)
        for (uint32_t l = 0; l < LAYERS; l++) {
            float bits = tft_kv_bits(tft_kv_side(p, i), l);
            bool fisher = tft_kv_is_fisher(p) && bits >= 0.25f;
            MUST(((fisher || bits >= 1) && bits <= 4) || bits == 8 || bits == 16);
            MUST(tft_kv_held(tft_kv_side(p, i), l) <= TFT_KV_BITS_F16);
        }
    if (tft_kv_quantizes(p))
        check_round_trip(p);
}

/* ---- a session */

static bool name_some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position + (uint64_t)token) % 3 == 0;
}

static void run(struct tft_session *s, struct bytes *b)
{
    int32_t tokens[CONTEXT] = {0};
    size_t n = tft_capacity(s), first = 1 + choose(b, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(i * 7 % VOCAB);
    MUST(tft_prefill(s, tokens, first) == TFT_OK);
    tft_prompt_end(s);
    while (tft_pos(s) < n)
        MUST(tft_decode(s, tokens[tft_pos(s)]) == TFT_OK);
    touch(tft_logits(s, 0), VOCAB * sizeof(float));
}

static void check_session(const char *kv, bool valid, struct bytes b)
{
    struct memory memory = {0};
    struct tft_allocator a = memory_allocator(&memory);
    uint32_t how = choose(&b, 256);
    struct tft_session_opts o = {.size = sizeof o, .allocator = &a, .kv = kv, .n_threads = 1,
                                 .n_batch = 1 + how / 4 % 16, .slide = how % 2,
                                 .keep = how / 2 % 2 ? name_some : NULL,
                                 .capacity = 1 + choose(&b, CONTEXT)};
    struct tft_error err = {0}, open = {0};
    struct tft_session *s;
    size_t bytes = tft_session_bytes(the_model(), &o, &err);
    MUST(!bytes || valid);
    if (bytes > MOST_SESSION)
        return;
    enum tft_status status = tft_session_open(&s, the_model(), &o, &open);
    MUST(!bytes == (status != TFT_OK));
    if (status == TFT_OK) {
        MUST(tft_kv_bytes(the_model(), kv, NULL) > 0);
        MUST(memory.in_use == bytes && memory.calls == 1);
        run(s, &b);
        MUST(memory.peak == bytes && memory.calls == 1);
    } else {
        fuzz_check_line(&open, status);
        MUST(err.code == status && strcmp(err.msg, open.msg) == 0 && !s);
    }
    tft_session_close(s);
    MUST(memory.in_use == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 3 };
    struct tft_kv_policy p;
    struct tft_error err = {0};
    if (size < HEAD)
        return 0;
    char *kv = malloc(size - HEAD + 1);
    MUST(kv);
    memcpy(kv, data + HEAD, size - HEAD);
    kv[size - HEAD] = 0;
    enum tft_status status = tft_kv_parse(&p, kv, &err);
    if (status == TFT_OK) {
        check_policy(&p);
    } else {
        fuzz_check_line(&err, status);
        MUST(status == TFT_ERR_ARG && tft_kv_bytes(the_model(), kv, NULL) == 0);
    }
    check_session(kv, status == TFT_OK, (struct bytes){data, data + HEAD});
    free(kv);
    return 0;
}
