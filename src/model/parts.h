/*
 * The parts of formulas that not every backend or tool knows, enum tft_formula_part of model.h:
 * parts.c has a row for each. m->parts is the mask of the parts that a model has. A backend or a
 * tool has the mask of the parts that it knows, and refuses a model with other parts.
 */
#ifndef TFT_PARTS_H
#define TFT_PARTS_H

#include "model/model.h"

/* The parts of a model with loaded values, as far as block b shows them. A model has the parts of
   all its blocks. They are known from sizes and values: while memory is counted, pointers to
   numbers are NULL. */
uint64_t tft_parts_of(const struct tft_model *m, const struct tft_layer *b);

/* The name of a part of the model's formula that is not in the mask `known`; NULL: all are. */
const char *tft_parts_unknown(const struct tft_model *m, uint64_t known);

#endif
