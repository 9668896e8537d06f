#include "session.h"

#include <string.h>

#include "backend/device.h"
#include "base/error.h"

enum { DEFAULT_BATCH = 512 };

/* -------------------------------------------------------------------------------------- opening */

/* A cache that is quantized wants heads of whole quads, and channels whose importance is known if
   they are to have bits of their own. */
static enum tft_status check_kv(const struct tft_kv_policy *kv, const struct tft_model *m,
                                struct tft_error *err)
{
    if (!kv->coded)
        return TFT_OK;
    if (m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_SPAN)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: heads of %u, which no quantized cache is for", m->source.name,
                        m->head_dim);
    if (kv->k.axis == TFT_KV_MIXED && !m->key_importance)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: mixed keys are for files in which tuffet quantize has noted the "
                        "importance of channels",
                        m->source.name);
    if ((kv->reorder || kv->clip == TFT_KV_CALIBRATED) &&
        !tft_kv_calibrated_for(&m->kv_policy, kv, m->n_layer))
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: is not calibrated for such a KV cache: tuffet quantize --kv does that "
                        "for the one it names, "
                        "here %s",
                        m->source.name, m->kv ? m->kv : "none");
    return TFT_OK;
}

/* The first tokens stay, for attention to rest on: StreamingLLM, section 3.2. */
enum { SINKS = 4, SLIDE_PART = 8 };

static uint32_t sinks_of(const struct tft_kv_policy *kv)
{
    return kv->coded ? kv->sinks : SINKS;
}

/* Tokens that a full session forgets, in whole panels or blocks: 0 if that cannot be. */
static uint32_t slide_of(const struct tft_kv_policy *kv, uint32_t capacity)
{
    uint32_t unit = kv->coded ? tft_kv_block(kv) : TFT_KEY_PANEL,
             n = capacity / SLIDE_PART / unit * unit;
    uint32_t stay = kv->coded ? tft_retain_slots(kv) : SINKS;
    n = n ? n : unit;
    return capacity > stay && capacity - stay > n ? n : 0;
}

static enum tft_status resolve(struct tft_session_opts *o, struct tft_kv_policy *kv,
                               const struct tft_model *m, const struct tft_session_opts *given,
                               struct tft_error *err)
{
    *o = (struct tft_session_opts){0};
    if (given)
        memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
    if (!m->arch)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: opened for its vocabulary only, so there is nothing to run",
                        m->source.name);
    uint32_t most = m->n_ctx - m->n_prefix;
    if (o->capacity > most)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a capacity of %u is beyond the model's context of %u", m->source.name,
                        o->capacity, most);
    if (o->n_threads < 0 || o->n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", o->n_threads,
                        TFT_PORT_THREADS);

    enum tft_status status = tft_kv_parse(kv, o->kv ? o->kv : m->kv, err);
    if (!o->keep)
        kv->keep = 0;
    if (status == TFT_OK)
        status = check_kv(kv, m, err);
    if (status != TFT_OK)
        return status;

    if (!o->capacity)
        o->capacity = most;
    if (o->slide && m->pos_embed.data)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: has learned positions, and cannot go on beyond them", m->source.name);
    if (o->slide && !slide_of(kv, o->capacity))
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a capacity of %u is too small for such a cache to slide",
                        m->source.name, o->capacity);

    if (!o->n_batch)
        o->n_batch = DEFAULT_BATCH;
    if (o->n_batch > o->capacity)
        o->n_batch = o->capacity;
    if (!o->n_logits)
        o->n_logits = 1;
    if (o->n_logits > o->n_batch)
        o->n_logits = o->n_batch;
    if (!o->n_threads)
        o->n_threads = tft_port_cpus();
    if (!tft_port_threaded())
        o->n_threads = 1;
    return TFT_OK;
}

/* One for each token of a pass, and for each thread: tft_norm. */
static uint32_t byte_rows(const struct tft_session *s)
{
    return s->n_batch > (uint32_t)s->n_threads ? s->n_batch : (uint32_t)s->n_threads;
}

/* Rows of activations. A model whose linear layers all take bytes of a static range has no floats
   of what they take. */
static void layout_rows(struct tft_session *s, struct tft_arena *a)
{
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m};
    for (enum tft_buf b = 0; b < TFT_N_BUF; b++) {
        bool feeds = b == TFT_H || b == TFT_A || b == TFT_G;
        size_t rows = b == TFT_LOGITS ? s->n_logits : s->n_batch;
        if (m->device && (b == TFT_LOGITS || !(m->n_host || b == TFT_X)))
            continue; /* the device's */
        if (m->floats || !(feeds || b == TFT_U))
            s->buf[b] = tft_arena_take(a, rows, tft_pass_stride(&shape, b) * sizeof(float));
        if (m->bytes && feeds) {
            s->bytes[b] = tft_arena_take(a, byte_rows(s), tft_pass_byte_stride(&shape, b));
            s->affine[b] = m->floats ? tft_arena_take(a, rows, sizeof *s->affine[b]) : NULL;
        }
    }
    if (!m->bytes)
        return;

    s->range_part = tft_arena_take(a, (size_t)s->n_threads, sizeof *s->range_part);
    struct tft_hidden_scratch *hidden = tft_arena_take(a, (size_t)s->n_threads, sizeof *hidden);
    for (int i = 0; i < s->n_threads; i++) {
        struct tft_hidden_scratch w;
        w.gate = tft_arena_take(a, TFT_HIDDEN_TOKENS, TFT_HIDDEN_ROWS * sizeof(float));
        w.up = tft_arena_take(a, TFT_HIDDEN_TOKENS, TFT_HIDDEN_ROWS * sizeof(float));
        if (hidden)
            hidden[i] = w;
    }
    s->hidden = hidden;
}

/* Counts, or places, everything a session needs: the session itself comes first. */
static struct tft_session *layout(struct tft_arena *a, const struct tft_model *m,
                                  const struct tft_session_opts *o, const struct tft_kv_policy *kv)
{
    struct tft_session discarded, *place = tft_arena_take(a, 1, sizeof *place),
                                  *s = place ? place : &discarded;
    *s = (struct tft_session){.m = m,
                              .capacity = o->capacity,
                              .n_batch = o->n_batch,
                              .n_logits = o->n_logits,
                              .n_threads = o->n_threads};
    s->slide = o->slide ? slide_of(kv, o->capacity) : 0;
    s->keep = o->keep;
    s->keep_user = o->keep_user;

    s->tokens = tft_arena_take(a, s->capacity, sizeof *s->tokens);
    tft_kv_layout(&s->kv, a, m, s->capacity, kv);
    if (kv->coded)
        tft_coded_layout(&s->kv, a, m, s->capacity, s->n_threads);
    s->names = kv->keep ? tft_arena_take(a, s->capacity, sizeof *s->names) : NULL;
    s->kv.at.names = s->names;

    layout_rows(s, a);
    s->rope_cos = tft_arena_take(a, s->n_batch, m->n_rot * sizeof(float));
    s->rope_sin = tft_arena_take(a, s->n_batch, m->n_rot * sizeof(float));

    struct tft_attend_scratch *scratch = tft_arena_take(a, (size_t)s->n_threads, sizeof *scratch);
    for (int i = 0; i < s->n_threads; i++) {
        struct tft_attend_scratch w;
        w.q = tft_arena_take(a, TFT_TILE, m->head_dim * sizeof(float));
        w.o = tft_arena_take(a, TFT_TILE, m->head_dim * sizeof(float));
        w.part = tft_arena_take(a, TFT_TILE, m->head_dim * sizeof(float));
        w.scores = tft_arena_take(a, TFT_TILE, TFT_SPAN * sizeof(float));
        if (scratch)
            scratch[i] = w;
    }
    s->scratch = scratch;

    size_t parts = (size_t)m->n_head *
                   (tft_spans(s->kv.capacity) + tft_spans(s->kv.n_blocks * s->kv.block));
    s->part_o = tft_arena_take(a, parts, m->head_dim * sizeof(float));
    s->part_max = tft_arena_take(a, parts, sizeof(float));
    s->part_sum = tft_arena_take(a, parts, sizeof(float));
    s->candidates = tft_arena_take(a, m->n_vocab, sizeof *s->candidates);
    return place;
}

/* What rows of bytes have past their end meets weights of zero, but should be numbers of ours all
   the same. */
static void clear_padding(struct tft_session *s)
{
    struct tft_pass shape = {.m = s->m, .s = s};
    for (enum tft_buf b = 0; b < TFT_N_BUF; b++)
        for (uint32_t t = 0; s->bytes[b] && t < byte_rows(s); t++) {
            uint32_t width = tft_pass_width(&shape, b);
            memset(tft_pass_bytes(&shape, b, t) + width, 0, tft_panel_cols(width) - width);
        }
}

/* The model's keys and values take their places before all others; nothing ever overwrites them. */
static void put_prefix(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    uint32_t dim = m->head_dim;
    float *k = s->scratch[0].q, *v = s->scratch[0].o;
    for (uint32_t l = 0; l < m->n_host; l++)
        for (uint32_t pos = 0; pos < m->n_prefix; pos++)
            for (uint32_t h = 0; h < m->n_head_kv; h++) {
                size_t at = (((size_t)l * m->n_prefix + pos) * m->n_head_kv + h) * dim;
                m->kern.widen[TFT_NUM_F16](k, m->prefix_k + at, dim);
                m->kern.widen[TFT_NUM_F16](v, m->prefix_v + at, dim);
                tft_kv_put(&s->kv, &m->kern, l, h, pos, k, v);
            }
}

size_t tft_session_bytes(const struct tft_model *m, const struct tft_session_opts *opts)
{
    struct tft_session_opts o;
    struct tft_kv_policy kv;
    if (resolve(&o, &kv, m, opts, NULL) != TFT_OK)
        return 0;
    struct tft_arena count = {0};
    layout(&count, m, &o, &kv);
    return count.failed ? 0 : count.used;
}

size_t tft_kv_bytes(const struct tft_model *m, const char *kv)
{
    struct tft_session_opts o = {.size = sizeof o, .kv = kv}, resolved;
    struct tft_kv_policy policy;
    return resolve(&resolved, &policy, m, &o, NULL) == TFT_OK ? tft_kv_token_bytes(m, &policy) : 0;
}

enum tft_status tft_session_open(struct tft_session **out, const struct tft_model *m,
                                 const struct tft_session_opts *opts, struct tft_error *err)
{
    *out = NULL;
    struct tft_session_opts o;
    struct tft_kv_policy kv;
    enum tft_status status = resolve(&o, &kv, m, opts, err);
    if (status != TFT_OK)
        return status;

    struct tft_arena a = {0};
    layout(&a, m, &o, &kv);
    void *memory = a.failed ? NULL : tft_alloc(o.allocator, a.used);
    if (!memory)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: no memory for a session of %u tokens (%zu MB)",
                        m->source.name, o.capacity, a.used >> 20);
    size_t bytes = a.used;
    a = (struct tft_arena){.base = memory};
    struct tft_session *s = layout(&a, m, &o, &kv);
    s->size = bytes;
    if (o.allocator) {
        s->allocator_copy = *o.allocator;
        s->allocator = &s->allocator_copy;
    }
    clear_padding(s);
    put_prefix(s);
    if (kv.coded)
        tft_coded_open(&s->kv, m);
    if (m->device)
        status = m->device->session_open(&s->on, m->on, s, err);
    if (status != TFT_OK) {
        tft_free(o.allocator, memory, bytes);
        return status;
    }
    *out = s;
    return TFT_OK;
}

void tft_session_close(struct tft_session *s)
{
    if (!s)
        return;
    if (s->m->device)
        s->m->device->session_close(s->on);
    struct tft_allocator copy = s->allocator_copy;
    tft_free(s->allocator ? &copy : NULL, s, s->size);
}

/* -------------------------------------------------------------------------------------- running */

/* What every thread of the team does. */
static void forward(void *arg, int tid, int n_threads)
{
    struct tft_pass p = *(const struct tft_pass *)arg;
    p.tid = tid;
    p.n_threads = n_threads;
    tft_forward(&p);
}

/* A pass: what the CPU has of it, then what a device has. */
static enum tft_status run(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    if (m->n_host)
        tft_port_team(p->s->n_threads, forward, p);
    if (!m->device)
        return TFT_OK;
    struct tft_pass rest = *p;
    rest.on = m->device;
    rest.n_threads = 1;
    return m->device->run(&rest, m->n_host);
}

static bool valid(const struct tft_session *s, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->m->n_vocab)
            return false;
    return n > 0;
}

/* The logits that follow the prefix, from what its last token left. */
static void run_after_prefix(void *arg, int tid, int n_threads)
{
    struct tft_pass p = *(const struct tft_pass *)arg;
    p.tid = tid;
    p.n_threads = n_threads;
    tft_head(&p);
}

static enum tft_status after_prefix(struct tft_session *s)
{
    if (s->pos || !s->m->prefix_x)
        return TFT_ERR_ARG;
    memcpy(s->buf[TFT_X], s->m->prefix_x, s->m->n_embd * sizeof(float));
    struct tft_pass p = {.on = s->m->device, .m = s->m, .s = s, .n_threads = 1, .n = 1, .keep = 1};
    if (p.on) {
        enum tft_status status = p.on->run(&p, s->m->n_layer);
        if (status != TFT_OK)
            return status;
    } else {
        tft_port_team(s->n_threads, run_after_prefix, &p);
    }
    s->n_valid = 1;
    return TFT_OK;
}

/* Computes tokens from .. from + n - 1 of s->tokens, and keeps the logits of the last `keep`. */
static enum tft_status feed(struct tft_session *s, uint32_t from, uint32_t n, uint32_t keep)
{
    while (n) {
        uint32_t step = s->n_batch;
        if (n <= step)
            step = n;
        else if (
            n - step <
            keep) /* the logits that are kept are those of one pass: leave enough for the last */
            step = n - keep;
        n -= step;
        struct tft_pass p = {.m = s->m,
                             .s = s,
                             .tokens = s->tokens + from,
                             .n = step,
                             .keep = n ? 0 : keep,
                             .pos = s->m->n_prefix + s->dropped + from};
        enum tft_status status = run(&p);
        if (status != TFT_OK) {
            s->n_valid = 0;
            return status;
        }
        from += step;
        s->n_valid = step < keep ? step : keep;
        if (s->kv.policy.coded)
            tft_retain_advance(&s->kv.policy, &s->kv.at, from - step, from, &s->kv.whole);
        s->pos = s->computed = from;
    }
    return TFT_OK;
}

/* The oldest n tokens behind the first ones, but for those that the filter has named, are no longer
   in the list. */
static void forget_oldest(struct tft_session *s, uint32_t first, uint32_t n)
{
    uint32_t gone = 0;
    for (uint32_t i = first; i < s->pos; i++) {
        if (gone < n && !(s->names && s->names[i])) {
            gone++;
            continue;
        }
        s->tokens[i - gone] = s->tokens[i];
        if (s->names)
            s->names[i - gone] = s->names[i];
    }
}

static enum tft_status slide(struct tft_session *s)
{
    const struct tft_model *m = s->m;
    uint32_t first = sinks_of(&s->kv.policy), n = s->slide;
    enum tft_status status = m->device
                                 ? m->device->drop(s, m->n_prefix + first, n, m->n_prefix + s->pos)
                                 : TFT_OK;
    if (status != TFT_OK)
        return status;
    forget_oldest(s, first, n);
    for (uint32_t l = 0; l < m->n_host; l++)
        for (uint32_t h = 0; h < m->n_head_kv; h++)
            if (s->kv.policy.coded)
                tft_coded_drop(&s->kv, l, h, n / s->kv.block);
            else
                tft_kv_drop(&s->kv, l, h, m->n_prefix + first, n, m->n_prefix + s->pos);
    s->dropped += n;
    s->pos -= n;
    s->computed = s->pos;
    if (s->kv.policy.coded) {
        s->kv.at.blocks -= n / s->kv.block;
        s->kv.whole = s->pos;
    }
    return TFT_OK;
}

/* Those that come as tokens from .. from + n - 1: SKVQ, section 3.2. What it says goes by position
   and token alone, so that it does not matter how they are fed. */
static void ask_filter(struct tft_session *s, uint32_t from, uint32_t n)
{
    const struct tft_kv_policy *kv = &s->kv.policy;
    for (uint32_t i = from; s->names && i < from + n; i++) {
        s->names[i] = i >= kv->sinks && s->n_named < kv->keep &&
                      s->keep(s->keep_user, (uint64_t)s->dropped + i, s->tokens[i]);
        s->n_named += s->names[i];
    }
}

enum tft_status tft_prefill(struct tft_session *s, const int32_t *tokens, size_t n)
{
    if (!n)
        return after_prefix(s);
    if (!valid(s, tokens, n))
        return TFT_ERR_ARG;
    if (n > s->capacity - s->pos && !s->slide)
        return TFT_ERR_FULL;

    enum tft_status status = s->computed < s->pos ? feed(s, s->computed, s->pos - s->computed, 0)
                                                  : TFT_OK;
    while (n && status == TFT_OK) {
        if (s->pos == s->capacity)
            status = slide(s);
        if (status != TFT_OK)
            break;
        uint32_t held = s->pos, step = n < s->capacity - held ? (uint32_t)n : s->capacity - held;
        memmove(s->tokens + held, tokens, step * sizeof *tokens); /* they may be ours: tft_sync */
        ask_filter(s, held, step);
        status = feed(s, held, step, s->n_logits);
        tokens += step;
        n -= step;
    }
    return status;
}

enum tft_status tft_decode(struct tft_session *s, int32_t token)
{
    return tft_prefill(s, &token, 1);
}

/* Nothing of the cache is of use. */
static void forget(struct tft_session *s)
{
    s->kv.at = (struct tft_retained){.names = s->names};
    s->kv.whole = s->dropped = s->computed = 0;
}

enum tft_status tft_rewind(struct tft_session *s, size_t pos)
{
    if (pos > s->pos)
        return TFT_ERR_ARG;
    for (uint32_t i = (uint32_t)pos; s->names && i < s->pos; i++)
        s->n_named -= s->names[i];
    s->pos = (uint32_t)pos;
    s->n_valid = 0;
    if (pos < s->computed) {
        if ((s->kv.whole && pos <= s->kv.whole) || (s->dropped && pos <= sinks_of(&s->kv.policy)))
            forget(s);
        else if (s->kv.policy.coded)
            tft_retain_remove(&s->kv.at, s->computed - s->pos);
        s->computed = s->computed < s->pos ? s->computed : s->pos;
    }
    return TFT_OK;
}

enum tft_status tft_sync(struct tft_session *s, const int32_t *tokens, size_t n)
{
    if (!valid(s, tokens, n))
        return TFT_ERR_ARG;
    if (n > s->capacity && !s->slide)
        return TFT_ERR_FULL;
    size_t same = 0;
    while (!s->dropped && same < s->pos && same < n - 1 && s->tokens[same] == tokens[same])
        same++;
    tft_rewind(s, same);
    return tft_prefill(s, tokens + same, n - same);
}

/* -------------------------------------------------------------------------------------- looking */

size_t tft_pos(const struct tft_session *s)
{
    return s->pos;
}

size_t tft_capacity(const struct tft_session *s)
{
    return s->capacity;
}

const int32_t *tft_tokens(const struct tft_session *s)
{
    return s->tokens;
}

const float *tft_logits(const struct tft_session *s, size_t back)
{
    if (back >= s->n_valid)
        return NULL;
    return s->buf[TFT_LOGITS] + (s->n_valid - 1 - back) * (size_t)s->m->n_vocab;
}
