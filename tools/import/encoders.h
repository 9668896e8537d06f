/* Encoders: members `dimensions` and `values` of their rows in archs.c. */
#ifndef IMPORT_ENCODERS_H
#define IMPORT_ENCODERS_H

#include "work.h"

/* ---- dimensions */

void import_bert_dimensions(struct import *im);
void import_roberta_dimensions(struct import *im); /* the first positions have no token */
void import_nomic_bert_dimensions(struct import *im);
void import_jina_bert_dimensions(struct import *im);
void import_encoder_dimensions(struct import *im); /* of the others */

/* ---- values */

void import_encoder_values(struct import *im);
void import_jina_bert_values(struct import *im);
void import_modern_bert_values(struct import *im);
void import_gemma_embedding_values(struct import *im);

/* Whether config.json says that attention sees later tokens. */
bool import_is_bidirectional(const struct import *im);

#endif
