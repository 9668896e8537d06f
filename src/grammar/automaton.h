/*
 * A compiled grammar: for each rule a deterministic automaton over bytes, whose states may also
 * call other rules. A place in the grammar is a state and a stack of the states to return to.
 */
#ifndef TFT_AUTOMATON_H
#define TFT_AUTOMATON_H

#include "lexicon.h"
#include "vec.h"

enum {
    TFT_AUTOMATON_STATES = 1 << 16,
    TFT_AUTOMATON_RUN = 254, /* the largest `run`: that many characters or more */
    TFT_AUTOMATON_ANY = -1,  /* all kinds, also TFT_KIND_NONE */
};

struct tft_auto_state {
    uint32_t call, token; /* its first one; they end where those of the next state begin */
    bool accepts;         /* the rule may end here */
    bool reads;           /* some byte has a next state */
    bool top;             /* of the root rule, which no rule calls: the text ends with it */
    uint8_t run;          /* any N characters of these kinds may come next, for N up to `run` */
    uint32_t kinds;       /* TFT_KIND_..., a bit each */
    uint32_t exits;       /* other kinds, of which some character may come instead within the run */
    uint32_t after;       /* the kinds of which some character may come behind the whole run */
};

struct tft_auto_call {
    uint32_t rule; /* while compiling: the rule; then its first state */
    uint32_t to;   /* where its end leads */
};

struct tft_auto_token {
    int32_t id;
    uint32_t to;
    bool any_other; /* all tokens but this one */
};

/* State 0 is none. */
struct tft_grammar {
    const struct tft_lexicon *lexicon;
    const struct tft_allocator *a;
    uint8_t class[256]; /* bytes that no state tells apart are of one class */
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
