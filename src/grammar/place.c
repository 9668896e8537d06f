#include "place.h"

/* The most configurations to visit for one mask or one token: about a second of work. */
enum { WORK = 1 << 25 };

/* ---- stacks */

static uint32_t stack_hash(uint32_t back, uint32_t below)
{
    uint32_t h = (back * 2654435761u) ^ (below * 2246822519u);
    return (h ^ h >> 15) & (TFT_PLACE_TABLE - 1);
}

static uint32_t push(struct tft_grammar_state *s, uint32_t back, uint32_t below)
{
    uint32_t h = stack_hash(back, below);
    struct tft_stack *p = s->stack.p;
    for (uint32_t i = s->table[h]; i; i = p[i].chain)
        if (p[i].back == back && p[i].below == below)
            return i;
    p = tft_vec_add(&s->stack, s->g->a, sizeof *p, 1);
    if (!p) {
        s->status = TFT_ERR_NOMEM;
        return TFT_PLACE_END;
    }
    *p = (struct tft_stack){back, below, s->table[h]};
    return s->table[h] = s->stack.n - 1;
}

/* The newest stack of a chain is the chain's first, so a drop of the newest keeps chains valid. */
void tft_place_drop(struct tft_grammar_state *s, uint32_t n)
{
    struct tft_stack *p = s->stack.p;
    while (s->stack.n > n) {
        struct tft_stack last = p[--s->stack.n];
        s->table[stack_hash(last.back, last.below)] = last.chain;
    }
}

/* ---- sets */

uint32_t tft_place_begin(struct tft_grammar_state *s)
{
    if (!++s->n_sets) {
        memset(s->seen, 0, sizeof s->seen);
        s->n_sets = 1;
    }
    return s->set.n;
}

void tft_place_work(struct tft_grammar_state *s)
{
    if (++s->work > WORK)
        s->status = TFT_ERR_UNSUPPORTED;
}

void tft_place_add(struct tft_grammar_state *s, uint32_t from, uint32_t state, uint32_t stack)
{
    uint32_t i = (state * 2654435761u ^ stack * 2246822519u) >> 12 & (TFT_PLACE_SEEN - 1);
    if (s->status)
        return;
    for (; s->seen[i].set == s->n_sets; i = (i + 1) & (TFT_PLACE_SEEN - 1))
        if (s->seen[i].c.state == state && s->seen[i].c.stack == stack)
            return;
    if (s->set.n - from >= TFT_PLACE_MOST || ++s->work > WORK) {
        s->status = TFT_ERR_UNSUPPORTED;
        return;
    }
    struct tft_config *c = tft_vec_add(&s->set, s->g->a, sizeof *c, 1);
    if (c)
        *c = (s->seen[i] = (struct tft_place_seen){{state, stack}, s->n_sets}).c;
    else
        s->status = TFT_ERR_NOMEM;
}

/* A tail call needs no place to return to: the calling rule ends after it. */
void tft_place_close(struct tft_grammar_state *s, uint32_t from)
{
    const struct tft_grammar *g = s->g;
    const struct tft_auto_call *call = g->call.p;
    s->reached_open = false;
    for (uint32_t i = from; i < s->set.n; i++) {
        struct tft_config c = tft_configs(&s->set)[i];
        const struct tft_auto_state *state = tft_auto_state(g, c.state);
        if (state->accepts && c.stack == TFT_PLACE_OPEN)
            s->reached_open = true;
        else if (state->accepts && c.stack != TFT_PLACE_END) {
            struct tft_stack top = tft_stack_top(s, c.stack);
            tft_place_add(s, from, top.back, top.below);
        }
        for (uint32_t k = state->call; k < state[1].call; k++) {
            uint32_t back = tft_auto_to(g, c.state, call[k].to);
            const struct tft_auto_state *to = tft_auto_state(g, back);
            bool tail = to->accepts && !to->reads && to->call == to[1].call &&
                        to->token == to[1].token;
            tft_place_add(s, from, call[k].rule, tail ? c.stack : push(s, back, c.stack));
        }
    }
}

bool tft_place_step(struct tft_grammar_state *s, uint32_t from, uint32_t end, unsigned byte)
{
    uint32_t start = tft_place_begin(s);
    for (uint32_t i = from; i < end; i++) {
        struct tft_config c = tft_configs(&s->set)[i];
        uint32_t to = tft_auto_next(s->g, c.state, byte);
        if (to)
            tft_place_add(s, start, to, c.stack);
    }
    tft_place_close(s, start);
    return s->set.n > start;
}

/* A stack has a higher number than the stack below it, so one pass renumbers all stacks. */
bool tft_place_compact(struct tft_grammar_state *s)
{
    struct tft_stack *p = s->stack.p;
    uint32_t n = s->stack.n, kept = TFT_PLACE_OPEN + 1, *to;
    s->renamed.n = 0;
    to = tft_vec_add(&s->renamed, s->g->a, sizeof *to, n);
    if (!to)
        return false;
    to[TFT_PLACE_OPEN] = TFT_PLACE_OPEN;
    for (uint32_t i = 0; i < s->now.n; i++)
        to[tft_configs(&s->now)[i].stack] = 1;
    for (uint32_t i = n; i-- > TFT_PLACE_OPEN + 1;)
        if (to[i])
            to[p[i].below] = 1;
    memset(s->table, 0, sizeof s->table);
    to[TFT_PLACE_END] = TFT_PLACE_END;
    for (uint32_t i = TFT_PLACE_OPEN + 1; i < n; i++)
        if (to[i]) {
            uint32_t below = to[p[i].below], h = stack_hash(p[i].back, below);
            p[kept] = (struct tft_stack){p[i].back, below, s->table[h]};
            s->table[h] = to[i] = kept++;
        }
    s->stack.n = kept;
    for (uint32_t i = 0; i < s->now.n; i++)
        tft_configs(&s->now)[i].stack = to[tft_configs(&s->now)[i].stack];
    return true;
}
