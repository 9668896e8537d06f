/* The named values of a model file: metadata and the vocabulary. */
#ifndef TFT_VALUE_H
#define TFT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a file, without NUL at the end. A name or a key contains no NUL. */
struct tft_str {
    const char *p;
    size_t n;
};

/* The arguments of "%.*s" in a message: at most 64 bytes. */
#define TFT_STR_ARG(s) (int)((s).n < 64 ? (s).n : 64), (s).p

/* By the numbers of GGUF. */
enum tft_value_type {
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
    uint64_t offset;          /* of the key in the file, for messages */
    enum tft_value_type type; /* of the value, or of each element of an array; never ARRAY */
    bool is_array;
    bool ignored; /* set by a reader: it counts as absent, and copies of the file do without it */
    uint64_t n;                /* number of elements; 1 for a scalar */
    const unsigned char *data; /* as in GGUF: little-endian, unaligned; a string is a u64 length and
                                  bytes */
};

/* The kinds of tokens of a vocabulary, by the numbers of tokenizer.ggml.token_type. */
enum tft_token_kind {
    TFT_TOKEN_NORMAL = 1,
    TFT_TOKEN_UNKNOWN, /* for text that no token matches; has a name, but no text */
    TFT_TOKEN_CONTROL, /* has a name, but no text; made from its name if TFT_PARSE_SPECIAL */
    TFT_TOKEN_USER,    /* text that always becomes this token, in any context */
    TFT_TOKEN_UNUSED,  /* has a name; never produced */
    TFT_TOKEN_BYTE,    /* "<0xHH>": one byte, for text that no other token matches */
};

/* *out = element i of a value. False if i >= n, if the value is not a number, or if the number does
   not fit *out. Integers and bools can be read as uint, int and real, floats as real only. */
bool tft_value_uint(const struct tft_value *v, uint64_t i, uint64_t *out);
bool tft_value_int(const struct tft_value *v, uint64_t i, int64_t *out);
bool tft_value_real(const struct tft_value *v, uint64_t i, double *out);

/* *out = the string; false if the value is not a single string. */
bool tft_value_str(const struct tft_value *v, struct tft_str *out);

/* The next string of an array: start with *p = v->data and call it v->n times. */
struct tft_str tft_value_next_str(const unsigned char **p);

/* "u32", "string", ...: the name of a value type; "unknown" for other numbers. */
const char *tft_value_type_name(enum tft_value_type type);

/* The size of one number of a type; 0 for strings and arrays. */
size_t tft_value_type_bytes(enum tft_value_type type);

/* Whether s equals the NUL-terminated text. */
bool tft_str_is(struct tft_str s, const char *text);

#endif
