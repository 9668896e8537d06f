/* The keys and values of a model file, as text and as JSON, on standard output. */
#ifndef INSPECT_VALUES_H
#define INSPECT_VALUES_H

#include "file/file.h"

/* A line for each value: its type, its key, and the first elements. */
void values_print(const struct tft_source *s);

/* {KEY:VALUE,...}, with all elements of arrays. */
void values_print_json(const struct tft_source *s);

/* The first `most` elements of an array, or the only one of a scalar, separated by commas. */
void values_print_elements(const struct tft_value *v, uint64_t most, bool json);

#endif
