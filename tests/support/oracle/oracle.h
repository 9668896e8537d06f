/*
 * An independent forward pass in double precision, written from the papers, not from models/: token
 * by token, with plain loops. It shares only the file reader with the library.
 */
#ifndef TFT_TEST_ORACLE_H
#define TFT_TEST_ORACLE_H

#include "file/file.h"

struct oracle;

/* NULL if the file names no architecture. The source must outlive the oracle. capacity: the most
   tokens that it can hold */
struct oracle *oracle_open(const struct tft_source *s, uint32_t capacity);
void oracle_close(struct oracle *o);

/* Appends a token. Returns the logits [n_vocab] that follow it, valid until the next call. */
const double *oracle_step(struct oracle *o, int32_t token);
/* The source of the last step's logits: the output of the last norm, [width]. */
const double *oracle_hidden(const struct oracle *o);
uint32_t oracle_vocab(const struct oracle *o);

#endif
