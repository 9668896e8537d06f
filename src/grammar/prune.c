#include "prune.h"

#include <string.h>

struct work {
    struct tft_prune *p;
    struct tft_grammar *g;
    struct tft_auto_state *state;
    struct tft_auto_call *call;
    struct tft_auto_token *token;
    bool *live;      /* [states] an end can be reached */
    bool *rule_live; /* [rules] */
    bool *empty;     /* [states] an end can be reached without a byte */
    bool *nullable;  /* [rules] the rule matches the empty text */
    uint32_t *seen;  /* [states] the last rule's search that saw the state */
    uint8_t *visit;  /* [rules] 1: its search is under way, 2: done */
    struct frame {
        uint32_t rule, state; /* the search's position: a state that may come first in the rule */
        uint32_t call;        /* the state's next call */
    } * frame;                /* [rules + 1] */
    uint32_t *queue;          /* [states] waiting */
    uint32_t *first;  /* [states + rules] the beginning or end of each one's part of a list */
    uint32_t *before; /* the sources of edges, sorted by target */
};

/* ---- ends that can be reached */

enum {
    OF_CALL = 1 << 30
}; /* flag of an edge's source; the source's number is below
                               TFT_AUTOMATON_STATES */

/* Counts an edge from one state to another, or, if w->before exists, stores the edge there. All
   times of a counted state are one: one of them reaches an end if all do. */
static void into(struct work *w, uint32_t target, uint32_t from)
{
    uint32_t to = tft_auto_index(target);
    if (to && w->before)
        w->before[w->first[to]++] = from;
    else if (to)
        w->first[to]++;
}

static void list_edges(struct work *w, bool read)
{
    const struct tft_grammar *g = w->g;
    for (uint32_t s = 1; s < g->n_state; s++) {
        const uint32_t *next = g->next + w->state[s].row;
        into(w, w->state[s].edge, s);
        for (uint32_t k = 0; read && k < w->state[s].n; k++)
            if (!k || next[k] != next[k - 1])
                into(w, next[k], s);
        for (uint32_t i = w->state[s].token; read && i < w->state[s + 1].token; i++)
            into(w, w->token[i].to, s);
        for (uint32_t i = w->state[s].call; i < w->state[s + 1].call; i++) {
            into(w, w->call[i].to, s | OF_CALL);
            into(w, w->p->start[w->call[i].rule], s | OF_CALL);
        }
    }
}

/* Whether some call of s can be completed: the called rule can end, and after the call the rule of
   s can end. */
static bool calls_reach(const struct work *w, const bool *reach, uint32_t s)
{
    for (uint32_t i = w->state[s].call; i < w->state[s + 1].call; i++)
        if (reach[w->p->start[w->call[i].rule]] && reach[tft_auto_index(w->call[i].to)])
            return true;
    return false;
}

/* Sets reach[states], initially false, for the states that reach the end of the rule: through
   bytes, tokens and calls if `read`, else through calls alone. Sets rule_reach[rules] in the same
   way. Goes backwards from the ends, over each edge once. False: out of memory. */
static bool find_reach(struct work *w, bool read, bool *reach, bool *rule_reach)
{
    uint32_t n_state = w->g->n_state, n_edge = 0, n = 0;
    memset(w->first, 0, n_state * sizeof *w->first);
    w->before = NULL;
    list_edges(w, read);
    for (uint32_t s = 0; s < n_state; s++) {
        uint32_t count = w->first[s];
        w->first[s] = n_edge;
        n_edge += count;
    }
    uint32_t *before = w->before = tft_alloc(w->p->a, n_edge * sizeof *before);
    if (!before)
        return false;
    list_edges(w, read); /* now the sources of edges to s are before[first[s - 1] .. first[s]) */
    for (uint32_t s = 1; s < n_state; s++)
        if (w->state[s].accepts)
            reach[w->queue[n++] = s] = true;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = w->first[w->queue[i] - 1]; e < w->first[w->queue[i]]; e++) {
            uint32_t s = before[e] & (OF_CALL - 1);
            if (!reach[s] && (!(before[e] & OF_CALL) || calls_reach(w, reach, s)))
                reach[w->queue[n++] = s] = true;
        }
    for (uint32_t r = 1; r < w->p->n_rule; r++)
        rule_reach[r] = reach[w->p->start[r]];
    tft_free(w->p->a, before, n_edge * sizeof *before);
    return true;
}

static void remove_dead(struct work *w)
{
    struct tft_grammar *g = w->g;
    uint32_t calls = 0, tokens = 0;
    for (uint32_t s = 0, c = 0, t = 0; s < g->n_state; s++) {
        w->state[s].call = calls;
        w->state[s].token = tokens;
        for (; c < w->state[s + 1].call; c++)
            if (w->live[s] && w->rule_live[w->call[c].rule] &&
                w->live[tft_auto_index(w->call[c].to)])
                w->call[calls++] = w->call[c];
        for (; t < w->state[s + 1].token; t++)
            if (w->live[s] && w->live[tft_auto_index(w->token[t].to)])
                w->token[tokens++] = w->token[t];
        w->state[s].reads = false;
        uint32_t *next = g->next + w->state[s].row;
        for (uint32_t k = 0; k < w->state[s].n; k++) {
            next[k] = w->live[tft_auto_index(next[k])] ? next[k] : 0;
            w->state[s].reads = w->state[s].reads || next[k];
        }
    }
    w->state[g->n_state].call = g->call.n = calls;
    w->state[g->n_state].token = g->token.n = tokens;
}

/* ---- rules that begin with themselves */

static void wait(struct work *w, uint32_t target, uint32_t tick, uint32_t *states)
{
    uint32_t s = tft_auto_index(target);
    if (!s || w->seen[s] == tick)
        return;
    w->seen[s] = tick;
    w->queue[(*states)++] = s;
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
            if (w->nullable[w->call[c].rule]) {
                wait(w, w->call[c].to, tick, &states);
                wait(w, w->state[tft_auto_index(w->call[c].to)].edge, tick, &states);
            }
        }
    }
    return n;
}

/* Searches the rules that rules begin with, depth-first. Returns a rule that begins with itself, or
   0. lead: [room] the rules that each rule begins with; a frame's state and call are a range of
   `lead`. */
static uint32_t left_recursive(struct work *w, uint32_t *lead, uint32_t room)
{
    uint32_t n = 0, used = 0, *first = w->first; /* [rules + 1] */
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

/* ---- the function */

static enum tft_status prune(struct work *w, uint32_t *rule, const char **wrong)
{
    uint32_t room = 2 * w->g->call.n + 1, *lead;
    if (!find_reach(w, true, w->live, w->rule_live))
        return TFT_ERR_NOMEM;
    if (!w->live[w->g->root]) {
        *wrong = "the root matches no text";
        return TFT_ERR_UNSUPPORTED;
    }
    remove_dead(w);
    if (!find_reach(w, false, w->empty, w->nullable))
        return TFT_ERR_NOMEM;
    lead = tft_alloc(w->p->a, room * sizeof *lead);
    if (!lead)
        return TFT_ERR_NOMEM;
    *rule = left_recursive(w, lead, room);
    tft_free(w->p->a, lead, room * sizeof *lead);
    if (*rule) {
        *wrong = "a rule must not begin with itself (left recursion): ";
        return TFT_ERR_UNSUPPORTED;
    }
    return TFT_OK;
}

enum tft_status tft_prune(struct tft_prune *p, uint32_t *rule, const char **wrong)
{
    uint32_t states = p->g->n_state, rules = p->n_rule + 1, most = states + rules;
    struct tft_arena a = {0};
    struct work w;
    char *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        w = (struct work){p,
                          p->g,
                          p->g->state.p,
                          p->g->call.p,
                          p->g->token.p,
                          tft_arena_take(&a, states, sizeof(bool)),
                          tft_arena_take(&a, rules, sizeof(bool)),
                          tft_arena_take(&a, states, sizeof(bool)),
                          tft_arena_take(&a, rules, sizeof(bool)),
                          tft_arena_take(&a, states, sizeof(uint32_t)),
                          tft_arena_take(&a, rules, 1),
                          tft_arena_take(&a, rules, sizeof(struct frame)),
                          tft_arena_take(&a, states, sizeof(uint32_t)),
                          tft_arena_take(&a, most, sizeof(uint32_t)),
                          NULL};
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
