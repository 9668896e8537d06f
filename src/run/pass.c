#include "pass.h"

#include "base/rope.h"
#include "session.h"

#include <string.h>

#define BIT(buf) (1u << (buf))

bool tft_pass_goes_on(const struct tft_pass *p, uint32_t layer)
{
    struct tft_call *call = p->call ? p->call : &p->s->call;
    if (tft_port_lower(&call->cancelled))
        return false;
    double done = (double)call->done + (double)p->n * layer / p->m->n_layer;
    return !call->progress || p->n < TFT_LONG_PASS ||
           call->progress(call->user, done / (double)call->tokens);
}

/* ------------------------------------------------------------------------------------- barriers */

void tft_pass_touch(struct tft_pass *p, unsigned reads, unsigned writes)
{
    if ((reads & p->written) | (writes & (p->written | p->read))) {
        tft_port_barrier();
        p->read = p->written = p->by_head = 0;
    }
    p->read |= reads;
    p->written |= writes;
}

void tft_pass_touch_heads(struct tft_pass *p, unsigned reads, unsigned writes, unsigned buf)
{
    bool by_head = p->n - p->first < (uint32_t)p->n_threads; /* see tft_pass_part */
    unsigned own = by_head ? p->by_head & buf : 0;
    p->written &= ~own;
    tft_pass_touch(p, reads, writes);
    p->written |= own;
    p->by_head |= writes & buf;
}

/* --------------------------------------------------------------------------------------- shares */

void tft_pass_share(const struct tft_pass *p, size_t n, size_t *begin, size_t *end)
{
    *begin = n * (size_t)p->tid / (size_t)p->n_threads;
    *end = n * (size_t)(p->tid + 1) / (size_t)p->n_threads;
}

void tft_pass_share_tokens(const struct tft_pass *p, uint32_t *begin, uint32_t *end)
{
    size_t from, to;
    tft_pass_share(p, p->n - p->first, &from, &to);
    *begin = p->first + (uint32_t)from;
    *end = p->first + (uint32_t)to;
}

struct tft_part tft_pass_part(const struct tft_pass *p, size_t width, size_t unit)
{
    size_t from, to;
    struct tft_part r = {p->first, p->n, 0, width};
    if (p->n - p->first >= (uint32_t)p->n_threads) {
        tft_pass_share_tokens(p, &r.begin, &r.end);
        return r;
    }
    tft_pass_share(p, (width + unit - 1) / unit, &from, &to);
    r.from = from * unit < width ? from * unit : width;
    r.to = to * unit < width ? to * unit : width;
    return r;
}

/* ----------------------------------------------------------------------------------------- rows */

float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    if (buf == TFT_LOGITS)
        return p->logits + (size_t)(t - p->first) * tft_pass_stride(p, buf);
    return p->work->buf[buf] + (size_t)(p->row + t) * tft_pass_stride(p, buf);
}

uint8_t *tft_pass_bytes(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    return p->work->bytes[buf] + (size_t)(p->row + t) * tft_pass_byte_stride(p, buf);
}

uint32_t tft_pass_position(const struct tft_pass *p, uint32_t t)
{
    const struct tft_seq *seq = tft_pass_seq(p, t);
    return seq ? seq->pos + t - seq->at : p->pos + t;
}

/* The frequencies of the session that token t belongs to. */
static const double *frequencies(const struct tft_pass *p, uint32_t t)
{
    const struct tft_seq *seq = tft_pass_seq(p, t);
    const struct tft_session *s = seq ? seq->s : p->s;
    return s ? s->rope_freq : p->m->rope_freq;
}

void tft_pass_positions(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    size_t begin, end;
    if (!m->n_rot)
        return;
    tft_pass_touch(p, 0, BIT(TFT_ROPE));
    tft_pass_share(p, p->n, &begin, &end);
    const struct tft_work *work = p->work;
    for (size_t t = begin; t < end && m->rope_freq_window; t++) {
        size_t at = (size_t)work->n_batch * m->n_rot + t * m->n_rot_window;
        tft_rope_angles(work->rope_cos + at, work->rope_sin + at, m->rope_freq_window,
                        m->n_rot_window, m->rope_halves, tft_pass_position(p, (uint32_t)t));
    }
    for (size_t t = begin; t < end; t++) {
        float *cos = work->rope_cos + t * m->n_rot, *sin = work->rope_sin + t * m->n_rot;
        tft_rope_angles(cos, sin, frequencies(p, (uint32_t)t), m->n_rot, m->rope_halves,
                        tft_pass_position(p, (uint32_t)t));
        if (m->rope_amplitude == 1)
            continue;
        m->kern.scale(cos, m->rope_amplitude, m->n_rot);
        m->kern.scale(sin, m->rope_amplitude, m->n_rot);
    }
}

/* ------------------------------------------------------------------------------------ sequences */

const struct tft_seq *tft_pass_seq(const struct tft_pass *p, uint32_t t)
{
    const struct tft_seq *seq = p->seq;
    while (seq && t >= seq->at + seq->n)
        seq++;
    return seq;
}

/* The pass of one sequence, which has touched nothing yet. */
static struct tft_pass pass_of(const struct tft_pass *p, const struct tft_seq *seq)
{
    struct tft_pass own = *p;
    own.s = seq->s;
    own.plan = seq->plan;
    own.row = seq->at;
    own.seq = NULL;
    own.n_seq = 0;
    own.tokens = p->tokens + seq->at;
    own.n = seq->n;
    own.pos = seq->pos;
    own.read = own.written = own.by_head = 0;
    return own;
}

void tft_pass_by_seq(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b)
{
    unsigned read = 0, written = 0;
    if (!p->seq) {
        op(p, b);
        return;
    }
    tft_port_barrier();
    for (uint32_t i = 0; i < p->n_seq; i++) {
        struct tft_pass own = pass_of(p, &p->seq[i]);
        op(&own, b);
        read |= own.read;
        written |= own.written;
    }
    p->read = read;
    p->written = written;
    p->by_head = 0;
}

/* Begins draft token own->draft with this thread's share of n numbers of the states after the token
   before. */
static void copy_state(struct tft_pass *own, size_t from, size_t n)
{
    const struct tft_states *s = &own->s->states;
    size_t begin, end;
    tft_pass_touch(own, 0, BIT(TFT_STATES));
    tft_pass_share(own, n, &begin, &end);
    memcpy(tft_states_at(s, own->draft) + from + begin,
           tft_states_at(s, own->draft - 1) + from + begin, (end - begin) * sizeof(float));
}

void tft_pass_by_state(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b)
{
    tft_pass_by_state_part(p, op, b, 0, b->state_size);
}

void tft_pass_by_state_part(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b,
                            size_t from, size_t n)
{
    if (!p->n_draft) {
        tft_pass_by_seq(p, op, b);
        return;
    }
    struct tft_pass own = *p;
    own.n -= p->n_draft;
    own.n_draft = own.read = own.written = own.by_head = 0;
    tft_port_barrier();
    op(&own, b);
    while (own.draft < p->n_draft) {
        own.row += own.n;
        own.tokens += own.n;
        own.pos += own.n;
        own.n = 1;
        own.draft++;
        copy_state(&own, b->state + from, n);
        op(&own, b);
    }
    p->read = own.read;
    p->written = own.written;
    p->by_head = 0;
}

void tft_pass_gather(struct tft_pass *p)
{
    uint32_t to = p->n;
    tft_pass_touch(p, 0, BIT(TFT_X));
    for (uint32_t i = p->n_seq; i-- > 0;) {
        const struct tft_seq *seq = &p->seq[i];
        to -= seq->n_logits;
        for (uint32_t k = seq->n_logits; k-- > 0 && p->tid == 0;) {
            uint32_t from = seq->at + seq->n - seq->n_logits + k;
            if (from != to + k)
                memcpy(tft_pass_row(p, TFT_X, to + k), tft_pass_row(p, TFT_X, from),
                       tft_pass_width(p, TFT_X) * sizeof(float));
        }
    }
    p->first = to;
}

void tft_keep_last(struct tft_pass *p)
{
    if (p->seq || (tft_model_predicts(p->m) && !p->before))
        return;
    uint32_t wanted = p->n_logits > p->n_hidden ? p->n_logits : p->n_hidden;
    p->first = p->n > wanted ? p->n - wanted : 0;
}

void tft_pass_tap(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from)
{
    uint32_t begin, end;
    tft_pass_touch(p, BIT(from), 0);
    tft_pass_share_tokens(p, &begin, &end);
    if (p->work->tap.see && begin < end && p->tapped != l->in)
        p->work->tap.see(p->work->tap.user, p->tid, l->in, begin, end - begin,
                         tft_pass_row(p, from, begin), tft_pass_stride(p, from));
    p->tapped = l->in;
}

void tft_pass_tap_rows(struct tft_pass *p, const struct tft_input *in, enum tft_buf from, size_t n)
{
    size_t begin, end;
    tft_pass_touch(p, BIT(from), 0);
    tft_pass_share(p, n, &begin, &end);
    if (p->work->tap.see && begin < end)
        p->work->tap.see(p->work->tap.user, p->tid, in, begin, end - begin,
                   tft_pass_row(p, from, (uint32_t)begin), tft_pass_stride(p, from));
}
