/*
 * A compiled grammar: for each rule a deterministic automaton over bytes, with states that may also
 * call other rules. A place in the grammar is a state and a stack of states to return to.
 */
#ifndef TFT_AUTOMATON_H
#define TFT_AUTOMATON_H

#include "lexicon.h"
#include "vec.h"

enum {
    TFT_AUTOMATON_STATES = 1 << 16,
    TFT_AUTOMATON_RUN = 254, /* the largest `run`: at least that many characters */
    TFT_AUTOMATON_ANY = -1,  /* all kinds, also TFT_KIND_NONE */
};

struct tft_auto_state {
    uint32_t call, token; /* the first index; the next state's first index is the end */
    bool accepts;         /* the rule may end here */
    bool reads;           /* some byte has a next state */
    bool top;             /* of a root rule that no rule calls: the text ends with the rule */
    uint8_t run;          /* any N characters of `kinds` may come next, for N up to `run` */
    uint32_t kinds;       /* TFT_KIND_..., a bit each */
    uint32_t exits;       /* other kinds with a character that may come within the run */
    uint32_t after;       /* kinds with a character that may come after the whole run */
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
    uint32_t n_state;
    uint32_t *next;                     /* [n_state, n_class] */
    struct tft_vec state, call, token;  /* states: n_state + 1 */
};

static inline const struct tft_auto_state *tft_auto_state(const struct tft_grammar *g, uint32_t i)
{
    return (const struct tft_auto_state *)g->state.p + i;
}

static inline uint32_t tft_auto_next(const struct tft_grammar *g, uint32_t state, unsigned byte)
{
    return g->next[(size_t)state * g->n_class + g->class[byte]];
}

#endif
