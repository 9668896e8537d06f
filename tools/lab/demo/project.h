/*
 * The teacher's prediction as a target for a student with a smaller vocabulary. Every token of the
 * teacher is spelled with pieces of the student, and its probability goes to the first piece of the
 * spelling, so none of the teacher's probability is lost. Inside a spelling the target is the next
 * piece.
 */
#ifndef DEMO_PROJECT_H
#define DEMO_PROJECT_H

#include "llama.h"
#include "spm.h"

struct projection {
    int n_student;
    int *first;         /* [teacher tokens + 1]: index in pieces where a spelling begins */
    uint16_t *pieces;   /* the spellings of all tokens */
    float *mass;        /* [n_student], work space */
};

void projection_open(struct projection *p, const struct spm *teacher, const struct spm *student);

/* Fills t, except t->token, from the probability[i] of the teacher's token[i], i < n. */
void projection_target(struct projection *p, const float *probability, const int *token, int n,
                       struct target *t);

/* A target in which one token has probability 1. */
struct target sure_target(uint16_t token);

#endif
