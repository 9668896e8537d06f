/*
 * A teacher's prediction as a target for a student with a smaller vocabulary. Every token of the
 * teacher is spelled with the student's pieces; what the teacher gives to a token belongs to the
 * first piece of its spelling. So nothing that the teacher says is masked away. Inside a spelling
 * the target is the piece that follows.
 */
#ifndef DEMO_PROJECT_H
#define DEMO_PROJECT_H

#include "llama.h"
#include "spm.h"

struct projection {
    int n_student;
    int *first;         /* [teacher tokens + 1] into pieces */
    uint16_t *pieces;   /* of the student */
    float *mass;        /* [n_student], work space */
};

void projection_open(struct projection *p, const struct spm *teacher, const struct spm *student);

/* probability[i] is that of the teacher's token[i]. Fills t but for t->token. */
void projection_target(struct projection *p, const float *probability, const int *token, int n,
                       struct target *t);

/* A target that is sure of one token. */
struct target sure_target(uint16_t token);

#endif
