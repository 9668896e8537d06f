/* Turns the syntax of a rule into a nondeterministic automaton: Thompson 1968. */
#ifndef TFT_NFA_H
#define TFT_NFA_H

#include "syntax.h"

enum tft_nfa_kind { TFT_NFA_EMPTY, TFT_NFA_BYTES, TFT_NFA_CALL, TFT_NFA_TOKEN };

struct tft_nfa_edge {
    enum tft_nfa_kind kind;
    uint32_t lo, hi; /* bytes lo .. hi; the rule; the token, and whether all others */
    uint32_t to, next; /* next: edge of the same state; 0: none */
};

enum { TFT_NFA_STATES = 1 << 18, TFT_NFA_STEPS = 1 << 22 };

struct tft_nfa {
    struct tft_syntax *x;
    struct tft_vec edge;  /* tft_nfa_edge; 0 is unused */
    struct tft_vec state; /* uint32_t: the state's first edge */
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
