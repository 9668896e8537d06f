/* Qwen3-Reranker: members `dimensions` and `values` of its row in archs.c. Both do nothing for
   other models of Qwen3. */
#ifndef IMPORT_RERANKER_H
#define IMPORT_RERANKER_H

#include "work.h"

void import_reranker_dimensions(struct import *im);
void import_reranker_values(struct import *im);

#endif
