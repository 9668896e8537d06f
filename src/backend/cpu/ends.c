/*
 * Counts bytes at the ends of static ranges, for sessions that ask for it (tft_session_ends). The
 * bytes of an input are counted where a product reads them: they are complete there, whichever
 * operation made them, and this file is the same on every ISA level.
 *
 * Each thread counts its part, into numbers of its own in the session. Sums of integers have no
 * order, so the counts are the same with any number of threads.
 */
#include "cpu.h"

/* x is 0 or 255. */
static inline unsigned at_end(uint8_t x) { return (uint8_t)(x + 1) < 2; }

enum { BLOCK = 128 }; /* a block's count fits in a byte, so the loop works on bytes alone */
_Static_assert(BLOCK <= UINT8_MAX, "the count of a block is a byte");

static uint64_t count(const uint8_t *x, size_t n)
{
    uint64_t sum = 0;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        uint8_t part = 0;
        for (size_t k = 0; k < BLOCK; k++)
            part = (uint8_t)(part + at_end(x[i + k]));
        sum += part;
    }
    for (; i < n; i++)
        sum += at_end(x[i]);
    return sum;
}

bool tft_cpu_counts_ends(const struct tft_pass *p)
{
    bool counts = p->s && p->s->ends;
    for (uint32_t i = 0; i < p->n_seq; i++)
        counts |= p->seq[i].s && p->seq[i].s->ends;
    return counts;
}

/* The session that token t belongs to. After tft_pass_gather only rows that need logits are left.
   If all rows are left, both orders are the same. */
static const struct tft_session *session_of(const struct tft_pass *p, uint32_t t)
{
    if (!p->seq)
        return p->s;
    if (!p->first)
        return tft_pass_seq(p, t)->s;
    const struct tft_seq *seq = p->seq;
    for (uint32_t end = p->first + seq->n_logits; t >= end; end += seq->n_logits)
        seq++;
    return seq->s;
}

static void add(const struct tft_pass *p, uint32_t t, const uint8_t *x, size_t n)
{
    const struct tft_session *s = session_of(p, t);
    if (!s->ends)
        return;
    struct tft_ends *ends = &s->ends[p->tid].n;
    ends->numbers += n;
    ends->at_ends += count(x, n);
}

void tft_cpu_count_ends(struct tft_pass *p, const struct tft_input *in, enum tft_buf from)
{
    if (!p->counts_ends || in->range != TFT_RANGE_STATIC || p->counted == in)
        return;
    p->counted = in;
    bool own = tft_cpu_own_row(p, from, in);
    struct tft_part part = tft_pass_part(p, in->width, TFT_LINE);
    for (uint32_t t = part.begin; t < part.end; t++)
        add(p, t, tft_pass_bytes(p, from, own ? (uint32_t)p->tid : t) + part.from,
            part.to - part.from);
}

void tft_cpu_count_pair_ends(const struct tft_pass *p, const struct tft_input *in,
                             enum tft_buf from)
{
    const uint32_t *token = p->work->routes.token;
    size_t begin, end;
    if (!p->counts_ends || in->range != TFT_RANGE_STATIC)
        return;
    tft_pass_share(p, (size_t)(p->n - p->first) * p->m->n_expert_used, &begin, &end);
    for (size_t i = begin; i < end; i++)
        add(p, token[i], tft_pass_bytes(p, from, (uint32_t)i), in->width);
}
