/* The tensors of a model file, as text and as JSON, on standard output. */
#ifndef INSPECT_TENSORS_H
#define INSPECT_TENSORS_H

#include "file/file.h"

/* A line for each tensor. */
void tensors_print(const struct tft_source *s);

/* [{"name":...},...] */
void tensors_print_json(const struct tft_source *s);

/* The tensors of each type, by enum tft_dtype. */
enum { TENSOR_TYPES = 64 }; /* more than there are types */
struct tensor_total {
    size_t tensors;
    uint64_t bytes;
};
void tensors_by_type(const struct tft_source *s, struct tensor_total total[TENSOR_TYPES]);

#endif
