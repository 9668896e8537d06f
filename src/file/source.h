/*
 * A source: the named values and named tensors of a model file in any container. gguf_read.c and
 * llama2c.c fill in sources; other code does not know the container. A source is validated: names
 * are unique, values and tensors are inside the file, sizes do not wrap. The users of values check
 * their meaning.
 */
#ifndef TFT_SOURCE_H
#define TFT_SOURCE_H

#include "dtype.h"
#include "port/port.h"
#include "tuffet.h"
#include "value.h"

struct tft_tensor {
    struct tft_str name;
    uint64_t offset;           /* of the description in the file, for messages */
    enum tft_dtype type;       /* known to tft_dtype_info */
    uint32_t n_dims;           /* 1..4 */
    uint64_t ne[4]; /* numbers in each dimension, ne[0] in a row: at least 1, and 1 beyond
                                  n_dims; the product fits an int64_t */
    const unsigned char *data; /* rows of ne[0] numbers in blocks of the type; aligned to 4 bytes or
                                  more */
    uint64_t bytes;
};

struct tft_source {
    const char *name; /* for messages: the path, or "memory" */
    uint32_t version; /* GGUF version; 0 for llama2.c */
    uint32_t alignment;
    const unsigned char *data; /* the whole file; of a split model, the first part */
    size_t size;
    const unsigned char *tokenizer; /* the whole file of a llama2.c tokenizer, or NULL */
    size_t tokenizer_size;
    struct tft_value *value; /* [n_value], in the order of the file */
    size_t n_value;
    struct tft_tensor *tensor; /* [n_tensor], in the order of the file */
    size_t n_tensor;

    /* private to this folder */
    uint32_t *value_by_key, *tensor_by_name; /* indices, sorted by name */
    struct tft_map map[2];                   /* mapped files: the model, a llama2.c tokenizer */
    struct tft_map *more;                    /* [n_more] the later parts of a split model */
    size_t n_more;
    const char *more_name; /* their paths, each in more_room bytes */
    size_t more_room;
    const struct tft_allocator *allocator;
    void *owned; /* one allocation for the arrays above */
    size_t owned_size;
};

/* Unmaps the files and frees memory. s may be all zero or half opened. */
void tft_source_close(struct tft_source *s);

/* The position of p in the file that it points into, the model's or one of its parts. */
uint64_t tft_source_offset(const struct tft_source *s, const unsigned char *p);

/* The path of that file, for messages. */
const char *tft_source_file(const struct tft_source *s, const unsigned char *p);

/* Bytes of all files of the model. */
uint64_t tft_source_bytes(const struct tft_source *s);

/* Bytes of the first file before the data of its tensors: values and descriptions. */
size_t tft_source_described(const struct tft_source *s);

/* CRC-32 of the tensors' data in the (first) file: from the first tensor to the end of the file,
   including padding. Reads the whole file. */
uint32_t tft_source_checksum(const struct tft_source *s);

/* Frees the memory of the `n` bytes at `from`, if the file is mapped. Call this after reading bytes
   that will hardly be read again. */
void tft_source_forget(const struct tft_source *s, const unsigned char *from, uint64_t n);

/* Whether p, which points into the model, is in a mapped file. */
bool tft_source_maps(const struct tft_source *s, const unsigned char *p);

/* tft_port_prefetch and tft_port_evict, if the file is mapped. */
void tft_source_prefetch(const struct tft_source *s, const unsigned char *from, uint64_t n);
void tft_source_evict(const struct tft_source *s, const unsigned char *from, uint64_t n);

/* Finds by name; NULL: absent. */
const struct tft_value *tft_source_value(const struct tft_source *s, const char *key);
const struct tft_tensor *tft_source_tensor(const struct tft_source *s, const char *name);

/* ---- for the readers of a container */

/* Allocates the arrays of values and tensors and `extra` more bytes, and returns the extra bytes.
   NULL, with a message: out of memory. Call this function once. */
void *tft_source_reserve(struct tft_source *s, size_t n_value, size_t n_tensor, size_t extra,
                         struct tft_error *err);

/* Sorts the names for look-ups. Call this after filling in all values and tensors. TFT_ERR_FORMAT
   if a name occurs twice. */
enum tft_status tft_source_index(struct tft_source *s, struct tft_error *err);

#endif
