#include "prune.h"

#include <string.h>

struct work {
    struct tft_prune *p;
    struct tft_grammar *g;
    struct tft_auto_state *state;
    struct tft_auto_call *call;
    struct tft_auto_token *token;
    bool *live;         /* [states] an end can be reached */
    bool *rule_live;    /* [rules] */
    bool *nullable;     /* [rules] the rule matches the empty text */
    uint32_t *seen;     /* [states] the rule whose search has seen it last */
    uint8_t *visit;     /* [rules] 1: its search is under way, 2: it is done */
    struct frame {
        uint32_t rule, state; /* where the search stands: a state that may come first in the rule */
        uint32_t call;        /* the next one of it */
    } *frame;                 /* [rules + 1] */
    uint32_t *queue, *queue_rule; /* [states] waiting; and the rule each belongs to */
};

/* ---- ends that can be reached */

static bool goes_on(const struct work *w, uint32_t s)
{
    const struct tft_grammar *g = w->g;
    const uint32_t *next = g->next + (size_t)s * g->n_class;
    for (uint32_t k = 0; k < g->n_class; k++)
        if (w->live[next[k]])
            return true;
    for (uint32_t i = w->state[s].token; i < w->state[s + 1].token; i++)
        if (w->live[w->token[i].to])
            return true;
    for (uint32_t i = w->state[s].call; i < w->state[s + 1].call; i++)
        if (w->rule_live[w->call[i].rule] && w->live[w->call[i].to])
            return true;
    return false;
}

/* States are numbered from the starts on, so going backwards takes few rounds. */
static void find_live(struct work *w)
{
    uint32_t n = w->g->n_state;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t s = n; s-- > 1;)
            if (!w->live[s] && (w->state[s].accepts || goes_on(w, s)))
                more = w->live[s] = true;
        for (uint32_t r = 1; r < w->p->n_rule; r++)
            if (!w->rule_live[r] && w->live[w->p->start[r]])
                more = w->rule_live[r] = true;
    }
}

static void remove_dead(struct work *w)
{
    struct tft_grammar *g = w->g;
    size_t n = (size_t)g->n_state * g->n_class;
    uint32_t calls = 0, tokens = 0;
    for (size_t i = 0; i < n; i++)
        if (!w->live[g->next[i]])
            g->next[i] = 0;
    for (uint32_t s = 0, c = 0, t = 0; s < g->n_state; s++) {
        w->state[s].call = calls;
        w->state[s].token = tokens;
        for (; c < w->state[s + 1].call; c++)
            if (w->live[s] && w->rule_live[w->call[c].rule] && w->live[w->call[c].to])
                w->call[calls++] = w->call[c];
        for (; t < w->state[s + 1].token; t++)
            if (w->live[s] && w->live[w->token[t].to])
                w->token[tokens++] = w->token[t];
        w->state[s].reads = false;
        for (uint32_t k = 0; k < g->n_class; k++)
            if (g->next[(size_t)s * g->n_class + k])
                w->state[s].reads = true;
    }
    w->state[g->n_state].call = g->call.n = calls;
    w->state[g->n_state].token = g->token.n = tokens;
}

/* ---- rules that begin with themselves */

/* Whether the rule that starts at s may end without a byte, through calls of nullable rules. */
static bool is_nullable(struct work *w, uint32_t s, uint32_t tick)
{
    uint32_t n = 0;
    w->queue[n++] = s;
    w->seen[s] = tick;
    for (uint32_t i = 0; i < n; i++) {
        s = w->queue[i];
        if (w->state[s].accepts)
            return true;
        for (uint32_t c = w->state[s].call; c < w->state[s + 1].call; c++)
            if (w->nullable[w->call[c].rule] && w->seen[w->call[c].to] != tick) {
                w->seen[w->call[c].to] = tick;
                w->queue[n++] = w->call[c].to;
            }
    }
    return false;
}

static void find_nullable(struct work *w)
{
    uint32_t tick = 0;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t r = w->p->n_rule; r-- > 1;)
            if (w->rule_live[r] && !w->nullable[r] && is_nullable(w, w->p->start[r], ++tick))
                more = w->nullable[r] = true;
    }
}

/* Appends the rules that may come first in rule r to out[] from n on; returns the new n. */
static uint32_t leading(struct work *w, uint32_t r, uint32_t tick, uint32_t *out, uint32_t n,
                        uint32_t room)
{
    uint32_t states = 0;
    w->queue[states++] = w->p->start[r];
    w->seen[w->p->start[r]] = tick;
    for (uint32_t i = 0; i < states; i++) {
        uint32_t s = w->queue[i];
        for (uint32_t c = w->state[s].call; c < w->state[s + 1].call; c++) {
            if (n < room)
                out[n++] = w->call[c].rule;
            if (w->nullable[w->call[c].rule] && w->seen[w->call[c].to] != tick) {
                w->seen[w->call[c].to] = tick;
                w->queue[states++] = w->call[c].to;
            }
        }
    }
    return n;
}

/* Depth-first through what rules begin with. Returns a rule that begins with itself, or 0. lead:
   [room] the rules that each rule begins with; the frames' state and call are a range of it. */
static uint32_t left_recursive(struct work *w, uint32_t *lead, uint32_t room)
{
    uint32_t n = 0, used = 0, *first = w->queue_rule; /* [rules + 1] */
    memset(w->seen, 0, w->g->n_state * sizeof *w->seen);
    for (uint32_t r = 0; r < w->p->n_rule; r++) {
        first[r] = used;
        if (r && w->rule_live[r])
            used = leading(w, r, r, lead, used, room);
    }
    first[w->p->n_rule] = used;
    for (uint32_t root = 1; root < w->p->n_rule; root++) {
        if (!w->rule_live[root] || w->visit[root])
            continue;
        w->frame[n++] = (struct frame){.rule = root, .call = first[root]};
        w->visit[root] = 1;
        while (n) {
            struct frame *f = &w->frame[n - 1];
            if (f->call == first[f->rule + 1]) {
                w->visit[f->rule] = 2;
                n--;
                continue;
            }
            uint32_t to = lead[f->call++];
            if (w->visit[to] == 1)
                return to;
            if (!w->visit[to]) {
                w->visit[to] = 1;
                w->frame[n++] = (struct frame){.rule = to, .call = first[to]};
            }
        }
    }
    return 0;
}

/* ---- plain characters */

/* The least `plain` of the states that all plain characters lead to; -1 if some has none. */
static int after_plain(const struct tft_grammar *g, uint32_t s)
{
    struct {
        uint32_t state;
        int utf8;
    } todo[64] = {{s, 0}};
    uint32_t n = 1;
    int least = TFT_AUTOMATON_ENDLESS;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = 0;
        int last_utf8 = -1;
        for (unsigned byte = 0; byte < 256; byte++) {
            int utf8 = tft_plain_step(todo[i].utf8, byte);
            if (utf8 < 0)
                continue;
            uint32_t to = tft_auto_next(g, todo[i].state, byte);
            if (!to)
                return -1;
            if (!utf8)
                least = tft_auto_state(g, to)->plain < least ? tft_auto_state(g, to)->plain : least;
            else if (to != last || utf8 != last_utf8) {
                if (n == sizeof todo / sizeof *todo)
                    return -1;
                todo[n].state = last = to;
                todo[n++].utf8 = last_utf8 = utf8;
            }
        }
    }
    return least;
}

/* From the largest numbers down, until nothing changes: the greatest fixed point. Of n states in a
   row each round settles at least the last one that is not settled, or lowers the numbers of all:
   they are below 255. */
static void measure(struct work *w)
{
    for (uint32_t s = 1; s < w->g->n_state; s++)
        w->state[s].plain = TFT_AUTOMATON_ENDLESS;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t s = w->g->n_state; s-- > 1;) {
            if (!w->state[s].plain)
                continue;
            int after = after_plain(w->g, s);
            uint8_t plain = (uint8_t)(after == TFT_AUTOMATON_ENDLESS ? after : after + 1);
            if (plain < w->state[s].plain) {
                w->state[s].plain = plain;
                more = true;
            }
        }
    }
}

/* ---- all of it */

static enum tft_status prune(struct work *w, uint32_t *rule, const char **wrong)
{
    uint32_t room = 2 * w->g->call.n + 1, *lead;
    find_live(w);
    if (!w->live[w->g->root]) {
        *wrong = "the root matches no text";
        return TFT_ERR_UNSUPPORTED;
    }
    remove_dead(w);
    find_nullable(w);
    lead = tft_alloc(w->p->a, room * sizeof *lead);
    if (!lead)
        return TFT_ERR_NOMEM;
    *rule = left_recursive(w, lead, room);
    tft_free(w->p->a, lead, room * sizeof *lead);
    if (*rule) {
        *wrong = "a rule must not begin with itself (left recursion): ";
        return TFT_ERR_UNSUPPORTED;
    }
    measure(w);
    return TFT_OK;
}

enum tft_status tft_prune(struct tft_prune *p, uint32_t *rule, const char **wrong)
{
    uint32_t states = p->g->n_state, rules = p->n_rule + 1, most = states + rules;
    struct tft_arena a = {0};
    struct work w;
    char *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        w = (struct work){p, p->g, p->g->state.p, p->g->call.p, p->g->token.p,
                          tft_arena_take(&a, states, sizeof(bool)),
                          tft_arena_take(&a, rules, sizeof(bool)),
                          tft_arena_take(&a, rules, sizeof(bool)),
                          tft_arena_take(&a, states, sizeof(uint32_t)),
                          tft_arena_take(&a, rules, 1),
                          tft_arena_take(&a, rules, sizeof(struct frame)),
                          tft_arena_take(&a, states, sizeof(uint32_t)),
                          tft_arena_take(&a, most, sizeof(uint32_t))};
        if (pass || a.failed)
            break;
        memory = tft_alloc(p->a, a.used);
        if (!memory)
            break;
        memset(memory, 0, a.used);
        a = (struct tft_arena){.base = memory};
    }
    *wrong = "out of memory";
    enum tft_status status = memory ? prune(&w, rule, wrong) : TFT_ERR_NOMEM;
    tft_free(p->a, memory, a.used);
    return status;
}
