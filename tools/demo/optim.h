/*
 * The optimizer: Muon for the matrices of the layers, AdamW for the embedding and the norms.
 *
 * Muon (Jordan et al. 2024): the update of a matrix is its momentum made orthogonal, by five steps
 * of a Newton-Schulz iteration; scaled as Liu et al. 2025 (Moonlight, section 2.2) do, 0.2
 * sqrt(max(rows, columns)), so that one learning rate and one weight decay serve both kinds. AdamW:
 * Loshchilov and Hutter 2019.
 */
#ifndef DEMO_OPTIM_H
#define DEMO_OPTIM_H

#include "llama.h"

struct optim {
    struct shape s;
    size_t n;     /* parameters */
    float *m, *v; /* [n]: momentum; AdamW's second moment, unused in matrices */
    long step;
};

void optim_open(struct optim *o, const struct shape *s);

/* One step along -grad. grad is overwritten. */
void optim_step(struct optim *o, float *flat, float *grad, float rate);

#endif
