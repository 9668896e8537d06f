#include "retain.h"

#include <string.h>

/* Kept tokens when a quantization is due. */
static uint32_t most_kept(const struct tft_kv_policy *p, enum tft_kv_which which)
{
    const struct tft_kv_side *s = tft_kv_side(p, which);
    switch (s->retain) {
    case TFT_KV_LOG2: return 3 * s->window;
    case TFT_KV_WINDOW: return s->window + tft_kv_block(p);
    case TFT_KV_FILL: return s->window;
    default: return UINT32_MAX;
    }
}

uint32_t tft_retain_stay(const struct tft_kv_policy *p, enum tft_kv_which which)
{
    if (!tft_kv_quantizes(p))
        return UINT32_MAX;
    return p->sinks + p->keep + tft_kv_block(p) - 1 + most_kept(p, which);
}

uint32_t tft_retain_slots(const struct tft_kv_policy *p, enum tft_kv_which which)
{
    uint32_t stay = tft_retain_stay(p, which);
    return stay > p->prefill ? stay : p->prefill;
}

uint32_t tft_retain_quantizations(const struct tft_kv_policy *p, enum tft_kv_which which,
                                  uint32_t n)
{
    const struct tft_kv_side *s = tft_kv_side(p, which);
    if (!tft_kv_quantizes(p))
        return 0;
    /* At least this many tokens come between two quantizations. But the first may be due at once,
       and one more may come sooner after a prompt that stayed in full precision. */
    uint32_t between = s->retain == TFT_KV_WINDOW ? tft_kv_block(p) : s->window;
    return n / (between ? between : 1) + 2;
}

uint32_t tft_retain_room(const struct tft_kv_policy *p, enum tft_kv_which which,
                         const struct tft_retained *r)
{
    if (!tft_kv_quantizes(p))
        return UINT32_MAX;
    bool quantized_none = !r->named && !r->waiting && !r->blocks;
    uint32_t most = p->sinks + most_kept(p, which);
    return (quantized_none && p->prefill > most ? p->prefill : most) - r->sinks - r->kept;
}

bool tft_retain_holds(const struct tft_kv_policy *p, enum tft_kv_which which,
                      const struct tft_retained *r, uint32_t held)
{
    uint32_t block = tft_kv_block(p), sinks = p->sinks < held ? p->sinks : held;
    uint64_t all = (uint64_t)r->sinks + r->named + r->waiting + r->kept +
                   (uint64_t)r->blocks * block;
    bool quantized_none = !r->named && !r->waiting && !r->blocks;
    if (all != held || r->sinks != sinks)
        return false;
    if (!tft_kv_quantizes(p))
        return quantized_none;
    uint32_t most = p->sinks + most_kept(p, which);
    if (quantized_none && p->prefill > most)
        most = p->prefill;
    return r->waiting < block && r->named <= p->keep && r->sinks + r->kept <= most;
}

void tft_retain_add(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t n)
{
    uint32_t sinks = p->sinks - r->sinks < n ? p->sinks - r->sinks : n;
    r->sinks += sinks;
    r->kept += n - sinks;
}

void tft_retain_remove(struct tft_retained *r, uint32_t n)
{
    uint32_t kept = n < r->kept ? n : r->kept;
    r->kept -= kept;
    r->sinks -= n - kept;
}

/* Whether kept token i leaves. LogQuant, algorithm 1: every other token of the two older windows
   leaves, so each quantization halves their density. */
static bool leaves(const struct tft_kv_policy *p, enum tft_kv_which which, uint32_t i)
{
    const struct tft_kv_side *s = tft_kv_side(p, which);
    switch (s->retain) {
    case TFT_KV_LOG2: return i < 2 * s->window && i % 2;
    case TFT_KV_WINDOW: return i < tft_kv_block(p);
    default: return true;
    }
}

/* A list of slots; if `slot` is NULL, only their number. */
struct list {
    uint32_t *slot, n;
};

static void push(struct list *l, uint32_t slot)
{
    if (l->slot)
        l->slot[l->n] = slot;
    l->n++;
}

/* One quantization: a kept token stays kept, waits, or stays as a named token. is_named[first] is
   the filter's answer for the first kept token; with a filter, kept tokens are consecutive. */
static void quantize_once(const struct tft_kv_policy *p, enum tft_kv_which which,
                       const bool *is_named, uint32_t first, struct list *kept,
                       struct list *waiting, struct list *named)
{
    uint32_t n = kept->n;
    kept->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = kept->slot ? kept->slot[i] : 0;
        bool stays_named = is_named && is_named[first + i];
        push(!leaves(p, which, i) ? kept : stays_named ? named : waiting, slot);
    }
}

uint32_t tft_retain_quantize(const struct tft_kv_policy *p, enum tft_kv_which which,
                          struct tft_retained *r, uint32_t *order, uint32_t *other)
{
    uint32_t n = r->waiting + r->kept, block = tft_kv_block(p), most = most_kept(p, which);
    uint32_t before_kept = r->sinks + r->named + r->waiting + r->blocks * block;
    struct list waiting = {order, 0}, kept = {other, 0}, named = {order ? other + n : NULL, 0};
    for (uint32_t i = 0; i < r->waiting; i++)
        push(&waiting, i);
    /* A prompt that stayed in full precision may leave more than `most` kept tokens: quantize the
       tokens as if they came one by one. */
    for (uint32_t i = 0; i < r->kept; i++) {
        push(&kept, r->waiting + i);
        if (kept.n == most)
            quantize_once(p, which, r->is_named, before_kept + i + 1 - most, &kept, &waiting,
                          &named);
    }
    uint32_t leave = waiting.n / block * block, left = waiting.n - leave;
    if (order) { /* leaving, named, still waiting, kept */
        memmove(order + leave + named.n, order + leave, left * sizeof *order);
        memcpy(order + leave, named.slot, named.n * sizeof *order);
        memcpy(order + waiting.n + named.n, kept.slot, kept.n * sizeof *order);
    }
    r->named += named.n;
    r->waiting = left;
    r->kept = kept.n;
    r->blocks += leave / block;
    return leave;
}
