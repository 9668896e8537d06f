/* Removes models that tuffet has pulled. */
#ifndef PULL_REMOVAL_H
#define PULL_REMOVAL_H

#include <stdint.h>

#include "name.h"

struct removal {
    size_t files;   /* of models */
    uint64_t bytes; /* that the disk has more */
};

/* Removes what the record of the cache names: all of a repository, or what QUANT chooses. Contents
   that other links lead to stay, and so does what other programs have written. Returns CLI_OK or
   CLI_FAILED. */
int removal_make(const struct pull_name *n, struct removal *r);

#endif
