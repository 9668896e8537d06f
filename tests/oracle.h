/*
 * An independent forward pass in double precision, written from the papers and not from models/:
 * token by token, the plainest loops, nothing shared with the library but the reader of files.
 */
#ifndef TFT_TEST_ORACLE_H
#define TFT_TEST_ORACLE_H

#include "file/file.h"

struct oracle;

/* NULL if the file is not understood. The source must stay open. */
struct oracle *oracle_open(const struct tft_source *s, uint32_t capacity);
void oracle_close(struct oracle *o);

/* Appends a token; the logits [n_vocab] that follow it, valid until the next call. */
const double *oracle_step(struct oracle *o, int32_t token);
uint32_t oracle_vocab(const struct oracle *o);

#endif
