#include "runs.h"

/* The state that every character beyond ASCII leads to from s; 0: there is no such state. */
static uint32_t after_wide(const struct tft_grammar *g, uint32_t s)
{
    struct {
        uint32_t state;
        int utf8;
    } todo[64] = {{s, 0}};
    uint32_t n = 1, all = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = 0;
        int last_utf8 = -1;
        for (unsigned byte = 0x80; byte < 256; byte++) {
            int utf8 = tft_utf8_step(todo[i].utf8, byte);
            if (utf8 < 0)
                continue;
            uint32_t to = tft_auto_next(g, todo[i].state, byte);
            if (!to || (!utf8 && all && to != all))
                return 0;
            if (!utf8)
                all = to;
            else if (to != last || utf8 != last_utf8) {
                if (n == sizeof todo / sizeof *todo)
                    return 0;
                todo[n].state = last = to;
                todo[n++].utf8 = last_utf8 = utf8;
            }
        }
    }
    return all;
}

/* The state that most kinds of characters lead to from s, preferring s itself. *kinds: the kinds
   that lead there. */
static uint32_t main_successor(const struct tft_grammar *g, uint32_t s, uint32_t *kinds)
{
    uint32_t to[TFT_KINDS], best = 0;
    unsigned most = 0;
    memset(to, 0xff, sizeof to);
    for (unsigned byte = 0; byte < 0x80; byte++) {
        uint32_t *t = &to[g->lexicon->kind[byte]], next = tft_auto_next(g, s, byte);
        *t = *t == UINT32_MAX || *t == next ? next : 0;
    }
    to[TFT_KIND_WIDE] = after_wide(g, s);
    *kinds = 0;
    for (unsigned k = 0; k < TFT_KINDS; k++) {
        uint32_t mask = 0;
        unsigned n = 0;
        for (unsigned i = k; i < TFT_KINDS && to[k]; i++)
            if (to[i] == to[k]) {
                mask |= 1u << i;
                n += to[k] == s ? TFT_KINDS + 1u : 1;
            }
        if (n > most) {
            most = n;
            best = to[k];
            *kinds = mask;
        }
    }
    return best;
}

bool tft_runs_find(struct tft_grammar *g, const struct tft_allocator *a)
{
    struct tft_auto_state *state = g->state.p;
    uint32_t *to = tft_alloc(a, g->n_state * sizeof *to);
    if (!to)
        return false;
    to[0] = 0;
    for (uint32_t s = 1; s < g->n_state; s++)
        to[s] = state[s].reads ? main_successor(g, s, &state[s].kinds) : 0;
    for (uint32_t s = g->n_state; s-- > 1;) {
        unsigned run = state[s].kinds != 0;
        uint32_t t = to[s];
        for (; run && run < TFT_AUTOMATON_RUN && !(state[s].kinds & ~state[t].kinds); t = to[t]) {
            run = t == to[t] ? TFT_AUTOMATON_RUN : run + 1;
            if (t > s && state[t].kinds == state[s].kinds) { /* the run of t is known */
                run = run - 1u + state[t].run;
                break;
            }
        }
        state[s].run = (uint8_t)(run < TFT_AUTOMATON_RUN ? run : TFT_AUTOMATON_RUN);
    }
    tft_free(a, to, g->n_state * sizeof *to);
    return true;
}
