#include "runs.h"

/* Bytes that lead every state to the same next state are alike, so one byte of each such set is
   enough. Below 0x80, bytes of different kinds are not alike. */
struct some_bytes {
    uint8_t byte[0x80], kind[0x80]; /* [n_ascii] below 0x80 */
    unsigned n_ascii;
    uint8_t wide[TFT_UTF8_STATES][128]; /* [n_wide] bytes allowed in a state of UTF-8, */
    int8_t utf8[TFT_UTF8_STATES][128];  /* and the next state of UTF-8 */
    unsigned n_wide[TFT_UTF8_STATES];
};

static void find_bytes(const struct tft_grammar *g, struct some_bytes *b)
{
    b->n_ascii = 0;
    memset(b->n_wide, 0, sizeof b->n_wide);
    for (unsigned byte = 0; byte < 0x80; byte++) {
        unsigned i = 0;
        while (i < b->n_ascii &&
               (g->class[b->byte[i]] != g->class[byte] || b->kind[i] != g->lexicon->kind[byte]))
            i++;
        b->byte[i] = (uint8_t)byte;
        b->kind[i] = g->lexicon->kind[byte];
        b->n_ascii += i == b->n_ascii;
    }
    for (int state = 0; state < TFT_UTF8_STATES; state++)
        for (unsigned byte = 0x80; byte < 256; byte++) {
            unsigned i = 0, n = b->n_wide[state];
            int utf8 = tft_utf8_step(state, byte);
            while (i < n &&
                   (g->class[b->wide[state][i]] != g->class[byte] || b->utf8[state][i] != utf8))
                i++;
            if (utf8 < 0)
                continue;
            b->wide[state][i] = (uint8_t)byte;
            b->utf8[state][i] = (int8_t)utf8;
            b->n_wide[state] += i == n;
        }
}

/* The state that every character beyond ASCII leads to from s; 0: no such state. */
static uint32_t after_wide(const struct tft_grammar *g, const struct some_bytes *b, uint32_t s)
{
    struct {
        uint32_t state;
        int utf8;
    } todo[64] = {{s, 0}};
    uint32_t n = 1, all = 0;
    for (uint32_t i = 0; i < n; i++) {
        int at = todo[i].utf8;
        for (unsigned k = 0; k < b->n_wide[at]; k++) {
            int utf8 = b->utf8[at][k];
            uint32_t to = tft_auto_next(g, todo[i].state, b->wide[at][k]), same = 0;
            if (!to || (!utf8 && all && to != all))
                return 0;
            if (!utf8)
                all = to;
            while (utf8 && same < n && (todo[same].state != to || todo[same].utf8 != utf8))
                same++;
            if (utf8 && same == n) {
                if (n == sizeof todo / sizeof *todo)
                    return 0;
                todo[n].state = to;
                todo[n++].utf8 = utf8;
            }
        }
    }
    return all;
}

/* Facts about a state for the search of runs. */
struct step {
    uint32_t to;   /* the state after a kind of the run */
    uint32_t live; /* the kinds with a character that may come */
};

/* Finds the state that most kinds of characters lead to from s, preferring s itself, perhaps
   a time on. *kinds: these kinds. */
static struct step first_step(const struct tft_grammar *g, const struct some_bytes *b, uint32_t s,
                              uint32_t *kinds)
{
    struct step step = {0};
    uint32_t to[TFT_KINDS];
    unsigned most = 0;
    memset(to, 0xff, sizeof to);
    for (unsigned i = 0; i < b->n_ascii; i++) {
        uint32_t *t = &to[b->kind[i]], next = tft_auto_next(g, s, b->byte[i]);
        *t = *t == UINT32_MAX || *t == next ? next : 0;
        step.live |= next ? 1u << b->kind[i] : 0;
    }
    for (unsigned i = 0; i < b->n_wide[0]; i++)
        step.live |= tft_auto_next(g, s, b->wide[0][i]) ? 1u << TFT_KIND_WIDE : 0;
    to[TFT_KIND_WIDE] = after_wide(g, b, s);
    *kinds = 0;
    for (unsigned k = 0; k < TFT_KINDS; k++) {
        uint32_t mask = 0;
        unsigned n = 0;
        for (unsigned i = k; i < TFT_KINDS && to[k]; i++)
            if (to[i] == to[k]) {
                mask |= 1u << i;
                n += tft_auto_index(to[k]) == s ? TFT_KINDS + 1u : 1;
            }
        if (n > most) {
            most = n;
            step.to = to[k];
            *kinds = mask;
        }
    }
    return step;
}

/* Whether the text may continue from the state by calls or returns. */
static bool branches(const struct tft_auto_state *a)
{
    return (a->accepts && !a->top) || a->call < a[1].call;
}

static void see(struct tft_auto_state *state, uint32_t *todo, uint32_t *n, uint32_t target)
{
    uint32_t to = tft_auto_index(target);
    if (to && !state[to].top) {
        state[to].top = true;
        todo[(*n)++] = to;
    }
}

/* Marks the states of the root rule, if no rule calls it. todo: [n_state] */
static void find_top(const struct tft_grammar *g, struct tft_auto_state *state, uint32_t *todo)
{
    const struct tft_auto_call *call = g->call.p;
    const struct tft_auto_token *token = g->token.p;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->call.n; i++)
        if (call[i].rule == g->root)
            return;
    see(state, todo, &n, g->root);
    while (n) {
        const struct tft_auto_state *a = &state[todo[--n]];
        see(state, todo, &n, a->edge);
        const uint32_t *next = g->next + a->row;
        for (uint32_t k = 0; k < a->n; k++)
            see(state, todo, &n, next[k]);
        for (uint32_t i = a->token; i < a[1].token; i++)
            see(state, todo, &n, token[i].to);
        for (uint32_t i = a->call; i < a[1].call; i++)
            see(state, todo, &n, call[i].to);
    }
}

/* Follows the run of state s from state to state. The runs of the states after s are known. A
   counted state has a run of one character, which is the same at all times. */
static void follow(const struct tft_grammar *g, struct tft_auto_state *state,
                   const struct step *step, uint32_t s)
{
    struct tft_auto_state *a = &state[s];
    uint32_t at = s;
    unsigned run = 0, most = a->limit ? 1 : TFT_AUTOMATON_RUN;
    a->exits = 0;
    a->loops = a->limit && a->kinds && step[s].to == s + (1u << TFT_COUNT_SHIFT);
    while (a->kinds && run < most && !(a->kinds & ~tft_auto_state(g, at)->kinds)) {
        uint32_t t = tft_auto_index(at);
        bool is_known = t > s && (!state[t].limit || tft_auto_index(state[t].edge) > s);
        if (is_known && state[t].kinds == a->kinds) {
            struct tft_auto_state known = tft_auto_at(g, at);
            run += known.run;
            a->exits |= known.exits;
            a->after = known.after;
            break;
        }
        uint32_t to = tft_auto_to(g, at, step[t].to);
        a->exits |= branches(&state[t]) ? (uint32_t)TFT_AUTOMATON_ANY : step[t].live & ~a->kinds;
        run = to == at ? TFT_AUTOMATON_RUN : run + 1;
        at = to;
        t = tft_auto_index(to);
        a->after = branches(&state[t]) ? (uint32_t)TFT_AUTOMATON_ANY : step[t].live;
    }
    a->run = (uint8_t)(run < TFT_AUTOMATON_RUN ? run : TFT_AUTOMATON_RUN);
}

/* A run that loops goes on to the limit, and from there like the run of the state at the limit. */
struct tft_auto_state tft_auto_at(const struct tft_grammar *g, uint32_t state)
{
    struct tft_auto_state a = *tft_auto_state(g, state);
    if (!a.loops)
        return a;
    const struct tft_auto_state *edge = tft_auto_state(g, a.edge);
    uint32_t run = a.limit - (state >> TFT_COUNT_SHIFT);
    if (edge->kinds == a.kinds) {
        run += edge->run;
        a.exits |= edge->exits;
        a.after = edge->after;
    } else
        a.after = (uint32_t)TFT_AUTOMATON_ANY;
    a.run = (uint8_t)(run < TFT_AUTOMATON_RUN ? run : TFT_AUTOMATON_RUN);
    return a;
}

bool tft_runs_find(struct tft_grammar *g, const struct tft_allocator *a)
{
    struct tft_auto_state *state = g->state.p;
    struct step *step = tft_alloc(a, g->n_state * sizeof *step);
    uint32_t *todo = tft_alloc(a, g->n_state * sizeof *todo);
    struct some_bytes b;
    if (!step || !todo) {
        tft_free(a, step, g->n_state * sizeof *step);
        tft_free(a, todo, g->n_state * sizeof *todo);
        return false;
    }
    find_top(g, state, todo);
    tft_free(a, todo, g->n_state * sizeof *todo);
    find_bytes(g, &b);
    step[0] = (struct step){0};
    for (uint32_t s = 1; s < g->n_state; s++)
        step[s] = state[s].reads ? first_step(g, &b, s, &state[s].kinds) : (struct step){0};
    for (uint32_t s = g->n_state; s-- > 1;)
        follow(g, state, step, s);
    tft_free(a, step, g->n_state * sizeof *step);
    return true;
}
