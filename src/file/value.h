/* Named values of a model file, and the strings in them. */
#ifndef TFT_VALUE_H
#define TFT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
