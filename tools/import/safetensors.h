/*
 * Safetensors: 8 bytes of length, a header of JSON, and then the data of the tensors
 * (https://huggingface.co/docs/safetensors). The header gives each tensor a dtype, a shape, and its
 * part of the data. The parts cover all of the data without gaps or overlaps.
 */
#ifndef IMPORT_SAFETENSORS_H
#define IMPORT_SAFETENSORS_H

#include "file/file.h"
#include "json.h"

enum { SAFETENSORS_DIMS = 8, SAFETENSORS_MOST_HEADER = 100000000 };

struct safetensor {
    const char *name, *dtype; /* in the header, and valid as long as the header */
    bool floats;              /* the dtype is F32, F16 or BF16, which is `type` */
    enum tft_dtype type;
    uint32_t n_dims;               /* at most SAFETENSORS_DIMS; 0: one number */
    uint64_t ne[SAFETENSORS_DIMS]; /* numbers in each dimension, ne[0] in a row, as in GGUF: the
                                      shape from its end; 1 beyond n_dims */
    uint64_t offset, bytes;        /* its part of the data */
    bool used;                     /* for the code that imports it */
    const struct import_matrix *matrix; /* the quantized matrix that this tensor stands for; NULL:
                                           the data has the numbers */
};

struct safetensors {
    const char *name; /* for messages: the path */
    const unsigned char *data; /* [size] the data of all tensors: offset 0 */
    uint64_t size;
    struct safetensor *tensor; /* [n], in the order of their data */
    size_t n;

    /* private */
    struct tft_map map;
    json_t *header;
    char *path;
};

/* Reads the header of bytes[size], which outlive s. Errors begin with `name`. safetensors_close
   must follow, also on failure. */
enum tft_status safetensors_parse(struct safetensors *s, const char *name,
                                  const unsigned char *bytes, size_t size, struct tft_error *err);

/* Maps a file and reads its header. safetensors_close must follow, also on failure. */
enum tft_status safetensors_open(struct safetensors *s, const char *path, struct tft_error *err);

/* s may be all zero. */
void safetensors_close(struct safetensors *s);

#endif
