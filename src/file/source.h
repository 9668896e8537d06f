/*
 * What a model is read from: named values and named tensors, whatever the container. gguf_read.c
 * and llama2c.c fill it in, and nothing past this line knows which of them did. Everything in it
 * has been validated: names are unique, values and tensors lie inside the file, sizes do not wrap.
 * What the values mean is for the reader of the model to check.
 */
#ifndef TFT_SOURCE_H
#define TFT_SOURCE_H

#include "dtype.h"
#include "port/port.h"
#include "tuffet.h"
#include "value.h"

struct tft_tensor {
    struct tft_str name;
    uint64_t offset;           /* of its description in the file, for messages */
    enum tft_dtype type;       /* one that tft_dtype_info knows */
    uint32_t n_dims;           /* 1..4 */
    uint64_t ne[4];            /* ne[0] is the row length; at least 1 each; unused ones are 1; their
                                  product fits */
    const unsigned char *data; /* rows of ne[0] numbers in blocks of the type; aligned to 4 bytes at
                                  least */
    uint64_t bytes;
};

struct tft_source {
    const char *name; /* for messages: the path, or "memory" */
    uint32_t version; /* GGUF version; 0 for llama2.c */
    uint32_t alignment;
    const unsigned char *data; /* the whole file */
    size_t size;
    struct tft_value *value; /* in the order of the file */
    size_t n_value;
    struct tft_tensor *tensor; /* in the order of the file */
    size_t n_tensor;

    /* private to source.c and the readers */
    uint32_t *value_by_key, *tensor_by_name; /* permutations, sorted */
    struct tft_map map[2];                   /* what to unmap */
    const struct tft_allocator *allocator;
    void *owned;
    size_t owned_size;
};

/* All zero, or half opened, is fine. */
void tft_source_close(struct tft_source *s);

/* CRC-32 of the data of the tensors as the file has it: from the first tensor's to the end of the
   file, padding and all. A pass over the whole file. */
uint32_t tft_source_checksum(const struct tft_source *s);

/* By name; NULL if there is none. */
const struct tft_value *tft_source_value(const struct tft_source *s, const char *key);
const struct tft_tensor *tft_source_tensor(const struct tft_source *s, const char *name);

/* ---- for the readers of a container */

/* Makes room for the values, the tensors and `extra` more bytes, which are returned; NULL if there
   is no memory. Once. */
void *tft_source_reserve(struct tft_source *s, size_t n_value, size_t n_tensor, size_t extra,
                         struct tft_error *err);

/* When all is filled in: makes it findable, and refuses what is there twice. */
enum tft_status tft_source_index(struct tft_source *s, struct tft_error *err);

#endif
