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

/* bytes of a file: not NUL-terminated, without NUL inside where it is a name or a key */
struct tft_str {
    const char *p;
    size_t n;
};

/* For "%.*s" in a message. */
#define TFT_STR_ARG(s) (int)((s).n < 64 ? (s).n : 64), (s).p

enum tft_value_type { /* GGUF's numbers */
                      TFT_VALUE_U8,
                      TFT_VALUE_I8,
                      TFT_VALUE_U16,
                      TFT_VALUE_I16,
                      TFT_VALUE_U32,
                      TFT_VALUE_I32,
                      TFT_VALUE_F32,
                      TFT_VALUE_BOOL,
                      TFT_VALUE_STRING,
                      TFT_VALUE_ARRAY,
                      TFT_VALUE_U64,
                      TFT_VALUE_I64,
                      TFT_VALUE_F64,
};

struct tft_value {
    struct tft_str key;
    uint64_t offset;           /* of the key in the file, for messages */
    enum tft_value_type type;  /* of the value, or of each element of an array; never ARRAY */
    bool is_array;
    uint64_t n;                /* elements; 1 for a scalar */
    const unsigned char *data; /* as GGUF has it: little-endian, unaligned; strings as u64 length
                                  and bytes */
};

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

/* Opens a GGUF or a llama2.c file by its first bytes. `tokenizer` is the path of a llama2.c
   tokenizer, or NULL; GGUF needs none. Memory taken is at most a few times the size of the file's
   header, and never taken on the word of a number in the file alone. */
enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err);

/* A GGUF file in memory; see tft_model_open_mem. `name` for messages. */
enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err);

/* All zero, or half opened, is fine. */
void tft_source_close(struct tft_source *s);

/* CRC-32 of the data of the tensors as the file has it: from the first tensor's to the end of the
   file, padding and all. A pass over the whole file. */
uint32_t tft_source_checksum(const struct tft_source *s);

/* By name; NULL if there is none. */
const struct tft_value *tft_source_value(const struct tft_source *s, const char *key);
const struct tft_tensor *tft_source_tensor(const struct tft_source *s, const char *name);

/* Element i of a value as a number; false if the type is another, the number does not fit the
   result, or i >= n. An integer or bool serves as uint, int and real; a float only as real. */
bool tft_value_uint(const struct tft_value *v, uint64_t i, uint64_t *out);
bool tft_value_int(const struct tft_value *v, uint64_t i, int64_t *out);
bool tft_value_real(const struct tft_value *v, uint64_t i, double *out);

/* A scalar string; false if it is something else. */
bool tft_value_str(const struct tft_value *v, struct tft_str *out);

/* Walks an array of strings: start with *at = v->data and call v->n times. */
struct tft_str tft_value_next_str(const unsigned char **at);

/* "u32", "string", ...: how GGUF names a value type. */
const char *tft_value_type_name(enum tft_value_type type);

/* Bytes of one number of a type; 0 for strings and arrays. */
size_t tft_value_type_bytes(enum tft_value_type type);

bool tft_str_is(struct tft_str s, const char *text);

/* ---- for the readers of a container */

/* Makes room for the values, the tensors and `extra` more bytes, which are returned; NULL if there
   is no memory. Once. */
void *tft_source_reserve(struct tft_source *s, size_t n_value, size_t n_tensor, size_t extra,
                         struct tft_error *err);

/* When all is filled in: makes it findable, and refuses what is there twice. */
enum tft_status tft_source_index(struct tft_source *s, struct tft_error *err);

#endif
