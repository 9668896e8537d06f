/*
 * A place in a grammar: a set of configurations. A configuration is a state of the automaton and a
 * stack of states to return to. Stacks share their lower parts.
 */
#ifndef TFT_PLACE_H
#define TFT_PLACE_H

#include "automaton.h"

enum {
    TFT_PLACE_END = 0,                   /* the stack of the root rule, which has no caller */
    TFT_PLACE_OPEN = 1,                  /* the stack of a rule with an unknown caller */
    TFT_PLACE_MOST = 1 << 12,            /* the most configurations of a set */
    TFT_PLACE_SEEN = 2 * TFT_PLACE_MOST, /* entries of the hash table of a set */
    TFT_PLACE_TABLE = 1 << 12,           /* entries of the hash table of stacks */
    TFT_PLACE_CLASSES = 8,               /* classes of characters with cached tokens */
    TFT_PLACE_LEFT = 255,                /* in tft_grammar_state.inside */
    TFT_PLACE_NEAR = 64,                 /* masks of counted states near their limit */
};

struct tft_config {
    uint32_t state, stack;
};

struct tft_stack {
    uint32_t back, below, chain; /* back: the state to return to; below: the rest of the stack;
                                    chain: the next stack of the same hash, 0: none */
};

struct tft_place_seen { /* the configuration is in the current set if `set` is n_sets */
    struct tft_config c;
    uint32_t set;
};

struct tft_kept {   /* the mask of a state in a rule with an unknown caller */
    uint32_t *bits; /* [n_word] the mask; then [n_open] the nodes where the rule may end */
    uint32_t n_open, state;
    size_t size;
};

struct tft_class { /* the tokens with characters of these kinds only */
    uint32_t kinds;
    bool spaced;    /* the tokens begin with a space, then such characters */
    uint32_t *bits; /* [n_word]; NULL: the entry is unused */
};

struct tft_grammar_state {
    const struct tft_grammar *g;
    struct tft_vec now, set; /* struct tft_config. now: the place; set: a stack of sets, for walks
                                through the trie */
    struct tft_vec stack;    /* struct tft_stack; numbers 0 and 1 are END and OPEN */
    struct tft_vec open;     /* nodes of the trie that reached OPEN */
    struct tft_vec renamed;  /* for tft_place_compact: the new numbers of stacks */
    uint32_t table[TFT_PLACE_TABLE]; /* stacks by hash */
    struct tft_kept *kept;           /* [tft_kept_count] */
    size_t kept_bytes;
    uint32_t *mask;                       /* [n_word] */
    struct tft_place_seen seen[TFT_PLACE_SEEN]; /* a hash table */
    uint32_t n_sets, work;                /* n_sets: sets begun so far; work: configurations visited
                                             for the current mask or token */
    enum tft_status status;               /* sticky: after an error no token is allowed */
    uint32_t *path; /* [longest token + 1] the state at each depth on the way to a node of the
                           trie */
    struct tft_class class[TFT_PLACE_CLASSES];
    uint32_t next_class; /* the entry that the next new class replaces */
    /* In a walk through the trie (mask.c): the state of the run with its tokens of at most
       TFT_WITHIN_CHARS characters already in the mask */
    struct tft_auto_state run;
    uint8_t *inside; /* [longest token + 1] at each depth on the way to a node, the number of
                        characters, all of the run; TFT_PLACE_LEFT: another character came */
    bool has_mask, reached_open;
};

static inline struct tft_config *tft_configs(const struct tft_vec *v) { return v->p; }

static inline struct tft_stack tft_stack_top(const struct tft_grammar_state *s, uint32_t stack)
{
    return ((const struct tft_stack *)s->stack.p)[stack];
}

/* The cached masks: one for each index of a state, and some for counted states near their limit. */
static inline size_t tft_kept_count(const struct tft_grammar *g)
{
    return (size_t)g->n_state + TFT_PLACE_NEAR;
}

/* Whether the token ends generation. */
static inline bool tft_ends(const struct tft_grammar_state *s, int32_t id)
{
    return s->g->lexicon->ends[id / 32] >> id % 32 & 1;
}

/* Drops the stacks from number n on. */
void tft_place_drop(struct tft_grammar_state *s, uint32_t n);

/* Renumbers the stacks of s->now, and drops the others. False: out of memory. */
bool tft_place_compact(struct tft_grammar_state *s);

/* Begins a set at the end of s->set. Returns its first index. */
uint32_t tft_place_begin(struct tft_grammar_state *s);

/* Adds a configuration to the newest set, which begins at `from`. A set of more than TFT_PLACE_MOST
   is an error: to omit a configuration would forbid text that the grammar allows. */
void tft_place_add(struct tft_grammar_state *s, uint32_t from, uint32_t state, uint32_t stack);

/* Counts a visited configuration; sets TFT_ERR_UNSUPPORTED after too many. */
void tft_place_work(struct tft_grammar_state *s);

/* Adds the targets of calls and returns to the set that begins at `from`. */
void tft_place_close(struct tft_grammar_state *s, uint32_t from);

/* Makes the set after `byte` from the set [from, end), at the end of s->set. Returns whether the
   new set has a configuration. */
bool tft_place_step(struct tft_grammar_state *s, uint32_t from, uint32_t end, unsigned byte);

#endif
