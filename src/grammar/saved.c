#include "saved.h"

#include "base/bytes.h"
#include "base/crc32.h"
#include "place.h"

enum { HEAD = 12, FIRST = TFT_PLACE_OPEN + 1 }; /* FIRST: the first saved stack */

/* A CRC-32 of the automaton, field by field: structs may have padding. */
static uint32_t automaton(const struct tft_grammar *g)
{
    const struct tft_auto_token *t = g->token.p;
    uint32_t sizes[] = {g->n_class, g->root, g->n_state, g->n_next},
             crc = tft_crc32(0, sizes, sizeof sizes);
    crc = tft_crc32(crc, g->class, sizeof g->class);
    crc = tft_crc32(crc, g->next, g->n_next * sizeof *g->next);
    crc = tft_crc32(crc, g->call.p, g->call.n * sizeof(struct tft_auto_call));
    for (uint32_t i = 0; i < g->n_state; i++) {
        const struct tft_auto_state *a = tft_auto_state(g, i);
        uint32_t state[] = {a->call, a->token, a->accepts, a->limit,
                            a->edge, a->row,   a->n,       a->sparse};
        crc = tft_crc32(crc, state, sizeof state);
    }
    for (uint32_t i = 0; i < g->token.n; i++) {
        uint32_t token[] = {(uint32_t)t[i].id, t[i].to, t[i].any_other};
        crc = tft_crc32(crc, token, sizeof token);
    }
    return crc;
}

bool tft_grammar_failed(const struct tft_grammar_state *s) { return s->status; }

void tft_grammar_save(const struct tft_grammar_state *s, struct tft_walk *w)
{
    uint32_t head[] = {automaton(s->g), s->now.n, s->stack.n - FIRST};
    w->part(w, head, sizeof head);
    w->part(w, s->now.p, s->now.n * sizeof(struct tft_config));
    for (uint32_t i = FIRST; i < s->stack.n; i++) {
        struct tft_stack top = tft_stack_top(s, i);
        uint32_t stack[] = {top.back, top.below};
        w->part(w, stack, sizeof stack);
    }
}

static bool is_state(const struct tft_grammar *g, uint32_t i)
{
    uint32_t index = tft_auto_index(i),
             limit = index < g->n_state ? tft_auto_state(g, i)->limit : 0;
    return index && index < g->n_state && i >> TFT_COUNT_SHIFT < (limit ? limit : 1);
}

/* Whether the configurations p[n_now] and the stacks after them refer only to valid states and
   stacks. A stack comes after the stack below it, so every walk through stacks ends. */
static bool is_place(const struct tft_grammar *g, const unsigned char *p, uint32_t n_now,
                     uint32_t n_stack)
{
    for (uint32_t i = 0; i < n_now; i++, p += 8)
        if (!is_state(g, tft_load_u32(p)) || tft_load_u32(p + 4) >= FIRST + n_stack)
            return false;
    for (uint32_t i = 0; i < n_stack; i++, p += 8)
        if (!is_state(g, tft_load_u32(p)) || tft_load_u32(p + 4) >= FIRST + i)
            return false;
    return true;
}

enum tft_status tft_grammar_load(struct tft_grammar_state *s, const unsigned char *p, size_t n)
{
    const struct tft_allocator *a = s->g->a;
    if (n < HEAD)
        return TFT_ERR_FORMAT;
    uint32_t n_now = tft_load_u32(p + 4), n_stack = tft_load_u32(p + 8);
    if (tft_load_u32(p) != automaton(s->g))
        return TFT_ERR_ARG;
    if (!n_now || n_now > TFT_PLACE_MOST || n - HEAD != 8 * ((uint64_t)n_now + n_stack) ||
        !is_place(s->g, p + HEAD, n_now, n_stack))
        return TFT_ERR_FORMAT;

    struct tft_vec now = {0}, stack = {0};
    struct tft_config *c = tft_vec_add(&now, a, sizeof *c, n_now);
    struct tft_stack *t = tft_vec_add(&stack, a, sizeof *t, FIRST + n_stack);
    s->renamed.n = 0; /* tft_place_compact then finds room, and cannot fail */
    if (!c || !t || !tft_vec_add(&s->renamed, a, sizeof(uint32_t), FIRST + n_stack)) {
        tft_vec_free(&now, a, sizeof *c);
        tft_vec_free(&stack, a, sizeof *t);
        return TFT_ERR_NOMEM;
    }
    memcpy(c, p + HEAD, n_now * sizeof *c);
    p += HEAD + n_now * sizeof *c;
    for (uint32_t i = FIRST; i < FIRST + n_stack; i++, p += 8)
        t[i] = (struct tft_stack){.back = tft_load_u32(p), .below = tft_load_u32(p + 4)};
    tft_vec_free(&s->now, a, sizeof *c);
    tft_vec_free(&s->stack, a, sizeof *t);
    s->now = now;
    s->stack = stack;
    s->status = TFT_OK;
    s->has_mask = false;
    tft_place_compact(s);
    return TFT_OK;
}
