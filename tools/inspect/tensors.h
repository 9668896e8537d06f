/* The tensors of a model file, as text and as JSON, on standard output. */
#ifndef INSPECT_TENSORS_H
#define INSPECT_TENSORS_H

#include "file/file.h"

/* The loss in nats a token that the search for bits expects of the codes of tensor i; 0: none, or
   the file does not tell. */
double tensors_nats(const struct tft_source *s, size_t i);

/* A line for each tensor. */
void tensors_print(const struct tft_source *s);

/* [{"name":...},...] */
void tensors_print_json(const struct tft_source *s);

enum {
    TENSOR_TYPES = 64, /* more than the number of types, and than a file has */
    TENSOR_TYPE = 16   /* room for the name of one */
};

/* The tensors of a type: one of ggml, or codes for weights of 4, 3 or 2 bits, "int4 g64". */
struct tensor_total {
    char type[TENSOR_TYPE];
    uint32_t order; /* of ggml's number, then of the codes */
    size_t tensors;
    uint64_t bytes;
};

/* Returns the number of types. */
size_t tensors_by_type(const struct tft_source *s, struct tensor_total total[TENSOR_TYPES]);

/* The bytes of all tensors of the architecture, without the tensors of the prefix and the cache. */
uint64_t tensors_bytes(const struct tft_source *s);

#endif
