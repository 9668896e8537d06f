/*
 * The optimizer: Muon for the matrices of the layers, AdamW for the embedding and the norms.
 *
 * Muon (Jordan et al. 2024) makes the momentum of a matrix orthogonal by five steps of a
 * Newton-Schulz iteration; that is the update. It is scaled by 0.2 sqrt(max(rows, columns)), as in
 * Liu et al. 2025 (Moonlight, section 2.2), so that one learning rate and one weight decay serve
 * both optimizers. AdamW: Loshchilov and Hutter 2019.
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

/* Makes one step along -grad; grad is overwritten. */
void optim_step(struct optim *o, float *flat, float *grad, float rate);

#endif
