/*
 * A compiled grammar: for each rule a deterministic automaton over bytes, with states that may also
 * call other rules. A place in the grammar is a state and a stack of states to return to.
 *
 * A repetition of many times is counted: a state of a counted part stands for all times. The number
 * of a state at time k is its index and k << TFT_COUNT_SHIFT. Edges of a counted state lead to a
 * time relative to its own; at its `limit` the state of index `edge` takes its place.
 */
#ifndef TFT_AUTOMATON_H
#define TFT_AUTOMATON_H

#include "lexicon.h"
#include "vec.h"

enum {
    TFT_COUNT_SHIFT = 18,
    TFT_AUTOMATON_STATES = 1 << 17,
    TFT_AUTOMATON_WORDS = 1 << 23, /* of all rows */
    TFT_AUTOMATON_SPARSE = 4,      /* the most ranges of bytes of a sparse row */
    TFT_AUTOMATON_RUN = 254,       /* the largest `run`: at least that many characters */
    TFT_AUTOMATON_ANY = -1,        /* all kinds, also TFT_KIND_NONE */
};

struct tft_auto_state {
    uint32_t call, token; /* the first index; the next state's first index is the end */
    uint32_t row;         /* the first of the next states in tft_grammar.next */
    uint16_t n;           /* how many there are: one for each class, or for each range */
    uint8_t run;          /* any N characters of `kinds` may come next, for N up to `run` */
    bool accepts : 1;     /* the rule may end here */
    bool reads : 1;       /* some byte has a next state */
    bool top : 1;         /* of a root rule that no rule calls: the text ends with the rule */
    bool sparse : 1;      /* the row is for ranges of bytes: n words lo | hi << 8 follow it */
    bool loops : 1;       /* of a counted state: a character of the run leads to the same state, a
                             time on */
    uint32_t kinds;       /* TFT_KIND_..., a bit each */
    uint32_t exits;       /* other kinds with a character that may come within the run */
    uint32_t after;       /* kinds with a character that may come after the whole run */
    uint32_t limit, edge; /* limit: not 0 for a counted state, which has the times 0 .. limit - 1 */
};

struct tft_auto_call {
    uint32_t rule; /* while compiling: the rule; later the rule's first state */
    uint32_t to;   /* the state after the rule's end */
};

struct tft_auto_token {
    int32_t id;
    uint32_t to;
    bool any_other; /* all tokens but this one */
};

/* State 0 is unused. */
struct tft_grammar {
    const struct tft_lexicon *lexicon;
    const struct tft_allocator *a;
    uint8_t class[256]; /* bytes that all states treat alike share a class */
    uint32_t n_class, root;
    uint32_t n_state, n_next;
    uint32_t *next;                    /* [n_next] the rows of all states */
    struct tft_vec state, call, token; /* states: n_state + 1 */
};

static inline uint32_t tft_auto_index(uint32_t state)
{
    return state & ((1u << TFT_COUNT_SHIFT) - 1);
}

static inline const struct tft_auto_state *tft_auto_state(const struct tft_grammar *g,
                                                          uint32_t state)
{
    return (const struct tft_auto_state *)g->state.p + tft_auto_index(state);
}

/* The state that the edge `to` of a state leads to. */
static inline uint32_t tft_auto_to(const struct tft_grammar *g, uint32_t state, uint32_t to)
{
    uint32_t limit = tft_auto_state(g, to)->limit;
    if (!limit)
        return to;
    to += state & ~((1u << TFT_COUNT_SHIFT) - 1);
    return to >> TFT_COUNT_SHIFT < limit ? to : tft_auto_state(g, to)->edge;
}

static inline uint32_t tft_auto_next(const struct tft_grammar *g, uint32_t state, unsigned byte)
{
    const struct tft_auto_state *a = tft_auto_state(g, state);
    const uint32_t *row = g->next + a->row, *bounds = row + a->n;
    if (!a->sparse)
        return tft_auto_to(g, state, row[g->class[byte]]);
    for (uint32_t i = 0; i < a->n; i++)
        if (byte >= (bounds[i] & 0xff) && byte <= bounds[i] >> 8)
            return tft_auto_to(g, state, row[i]);
    return 0;
}

/* The state with `run`, `exits` and `after` for its time. */
struct tft_auto_state tft_auto_at(const struct tft_grammar *g, uint32_t state);

#endif
