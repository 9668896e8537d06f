/* Turns the syntax of a rule into a nondeterministic automaton: Thompson 1968. */
#ifndef TFT_NFA_H
#define TFT_NFA_H

#include "automaton.h"
#include "syntax.h"

/* AGAIN: an empty edge from the end of a counted part to its beginning. */
enum tft_nfa_kind { TFT_NFA_EMPTY, TFT_NFA_AGAIN, TFT_NFA_BYTES, TFT_NFA_CALL, TFT_NFA_TOKEN };

struct tft_nfa_edge {
    enum tft_nfa_kind kind;
    uint32_t lo, hi;   /* bytes lo .. hi; the rule; the token, and whether all others */
    uint32_t to, next; /* next: edge of the same state; 0: none */
};

enum {
    TFT_NFA_STATES = (1 << TFT_COUNT_SHIFT) - 1,
    TFT_NFA_STEPS = 1 << 22,
    TFT_NFA_COUNTED = 32, /* repetitions of fewer times are copies */
    TFT_NFA_MARGIN = 8,   /* the last times of a counted part, which the automaton has as states */
    TFT_NFA_TIMES = 1 << (32 - TFT_COUNT_SHIFT), /* of a counted part; more are several parts */
};

struct tft_nfa_state {
    uint32_t edge;    /* the first; 0: none */
    uint32_t counted; /* the counted part that it belongs to; 0: none */
};

/* A part of an expression that comes `times` times in sequence. Its states stand for all times: the
   state p at time k has the number p + (k << TFT_COUNT_SHIFT). */
struct tft_nfa_counted {
    uint32_t times, begin, after; /* after: the state after the last time */
    enum tft_nfa_best {
        TFT_NFA_ALL,
        TFT_NFA_FIRST, /* the part may be left before each time: an earlier time allows all that a
                          later one does */
        TFT_NFA_LAST,  /* the part may come again without end: a later time allows more */
    } best;
    bool copied; /* compile.c treats each time as states of its own */
};

struct tft_nfa {
    struct tft_syntax *x;
    struct tft_vec edge;  /* tft_nfa_edge; 0 is unused */
    struct tft_vec state; /* tft_nfa_state */
    struct tft_vec part;  /* tft_nfa_counted; 0 is unused */
    uint32_t inside;      /* the counted part of new states; 0: none */
    uint8_t *inlined;     /* [rules] whether a rule is inlined where it is named: 1 yes, 2 no, 0
                             unknown */
    bool too_deep;        /* the search stopped before a rule's end */
    uint32_t counted;     /* counted repetitions around the current part */
    uint32_t copies;      /* rules copied in counted repetitions */
    uint32_t steps;       /* visited parts of the syntax */
};

bool tft_nfa_begin(struct tft_nfa *n, struct tft_syntax *x);
void tft_nfa_free(struct tft_nfa *n);

/* Adds a rule: *start and *end are its states. False after an error; x has the error. */
bool tft_nfa_rule(struct tft_nfa *n, uint32_t rule, uint32_t *start, uint32_t *end);

#endif
