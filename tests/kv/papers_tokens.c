#include "papers.h"

/* The rule of a side, and its window. */
static enum rule rule_of(const struct paper *p, int side)
{
    return p->apart && side == VALUES ? p->v_rule : p->rule;
}

static uint32_t window_of(const struct paper *p, int side)
{
    return p->apart && side == VALUES ? p->v_window : p->window;
}

/* The most tokens that are kept in f16, besides the sinks. */
static uint32_t limit(const struct paper *p, int side)
{
    uint32_t window = window_of(p, side);
    switch (rule_of(p, side)) {
    case KIVI: return window;         /* LogQuant 3.4: "the length fluctuates between 0 and R" */
    case LOGQUANT: return 3 * window; /* "retain up to 3W tokens at original precision" */
    default:
        return window + p->block; /* SKVQ, algorithm 1: W, plus tokens that have left W and wait
                                     until they fill a block */
    }
}

/* Whether the i-th oldest of `limit` kept tokens is quantized. */
static bool leaves(const struct paper *p, int side, uint32_t i)
{
    switch (rule_of(p, side)) {
    case KIVI: return true;
    case LOGQUANT:
        /* "the first two windows ... at regular intervals, effectively halving the density" */
        return i < 2 * window_of(p, side) && i % 2 == 1;
    default: return i < p->block;
    }
}

bool paper_filter(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return position % 11 == 3 || token == 5;
}

int32_t paper_tokens[MAX_POSITIONS];

/* SKVQ, algorithm 1: a token that has left the window and passes a filter is not quantized. tuffet
   limits their number: the first p->keep tokens of a sequence that pass are kept. */
static bool passes(const struct paper *p, uint32_t position)
{
    uint32_t before = 0;
    for (uint32_t i = p->n_prefix + p->sinks; i < position; i++)
        before += paper_filter(NULL, i - p->n_prefix, paper_tokens[i - p->n_prefix]);
    return before < p->keep &&
           paper_filter(NULL, position - p->n_prefix, paper_tokens[position - p->n_prefix]);
}

/* A quantization, due before the token of position `now`. */
static void quantize(const struct paper *p, int side, struct paper_cache *c, uint32_t now)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->kept; i++)
        if (leaves(p, side, i) && passes(p, c->keep[i]))
            c->name[c->named++] = c->keep[i];
        else if (leaves(p, side, i))
            c->wait[c->waiting++] = c->keep[i];
        else
            c->keep[kept++] = c->keep[i];
    c->kept = kept;
    for (; c->waiting >= p->block; c->blocks++) {
        for (uint32_t i = 0; i < p->block; i++) {
            c->block[c->blocks][i] = c->wait[i];
            c->since[c->wait[i]] = now;
        }
        c->waiting -= p->block;
        memmove(c->wait, c->wait + p->block, c->waiting * sizeof *c->wait);
    }
}

/* Adds a token of which nothing is delayed. */
static void append_now(const struct paper *p, int side, struct paper_cache *c, uint32_t position)
{
    c->since[position] = NEVER;
    if (position < p->n_prefix)
        return; /* IntactKV: never quantized */
    if (c->kept == limit(p, side))
        quantize(p, side, c, position);
    if (c->sinks < p->sinks)
        c->sink[c->sinks++] = position; /* SKVQ 3.2: "the first few tokens are reserved to high
                                           precision" */
    else
        c->keep[c->kept++] = position;
}

/* SKVQ 3.2: "we first compute attention with full precision KV cache, then quantize the KV cache".
   When the first token after the prompt comes, all that would have been quantized by then is
   quantized. */
void paper_append(const struct paper *p, int side, struct paper_cache *c, uint32_t position)
{
    static struct paper_cache thens[2];
    struct paper_cache *then = &thens[side];
    uint32_t n = position - p->n_prefix;
    if (position < p->n_prefix || n > p->prefill || !p->prefill) {
        append_now(p, side, c, position);
        return;
    }
    if (!n)
        *then = *c;
    append_now(p, side, then, position);
    if (n < p->prefill) {
        if (c->sinks < p->sinks)
            c->sink[c->sinks++] = position;
        else
            c->keep[c->kept++] = position;
        c->since[position] = NEVER;
        return;
    }
    *c = *then;
    for (uint32_t i = 0; i < position; i++)
        c->since[i] = c->since[i] == NEVER ? NEVER : position;
}
