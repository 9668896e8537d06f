/* A file of NumPy with rows of floats. */
#ifndef EMBED_NPY_H
#define EMBED_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the beginning of a file of float32 [rows, width]; its numbers follow, row by row. Both
   return false, with errno, if the file cannot be written. */
bool npy_begin(FILE *f, size_t rows, uint32_t width);
bool npy_floats(FILE *f, const float *v, size_t n);

#endif
