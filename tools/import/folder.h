/* A folder of Hugging Face: config.json, generation_config.json, and the weights:
   model.safetensors, or the shards that model.safetensors.index.json names. */
#ifndef IMPORT_FOLDER_H
#define IMPORT_FOLDER_H

#include "safetensors.h"

struct import_folder {
    const char *path;
    json_t *config;     /* an object */
    json_t *generation; /* of generation_config.json, or NULL */
    struct safetensors *shard; /* [n_shard] */
    size_t n_shard;
    size_t n_tensor;              /* in all shards */
    struct import_matrix *matrix; /* [n_matrix] of codes and scales */
    size_t n_matrix;

    /* private: all tensors, sorted by name */
    struct by_name {
        struct safetensor *tensor;
        const struct safetensors *shard; /* NULL for a quantized matrix */
    } *by_name;
};

/* `path` outlives f. import_folder_close must follow, also on failure. */
enum tft_status import_folder_open(struct import_folder *f, const char *path,
                                   struct tft_error *err);

/* Adds a further file, below the folder: its one tensor, called `tensor` there, gets the name
   `name`, which outlives f. */
enum tft_status import_folder_add(struct import_folder *f, const char *file, const char *tensor,
                                  const char *name, struct tft_error *err);

/* Adds bytes[n] as a further file, which outlive f; name: for messages. */
enum tft_status import_folder_add_made(struct import_folder *f, const char *name,
                                       const unsigned char *bytes, size_t n, struct tft_error *err);

/* f may be all zero. */
void import_folder_close(struct import_folder *f);

/* The tensor of a name, and its numbers, which are NULL for a quantized matrix; NULL if no such
   tensor. */
struct safetensor *import_folder_find(const struct import_folder *f, const char *name,
                                      const unsigned char **data);

/* Releases the memory of a tensor's pages: its data will not be read again. */
void import_folder_forget(const struct import_folder *f, const char *name);

/* For quantized.c: the place of a tensor, or NULL; and sorting after a change of the list. */
const struct by_name *import_folder_entry(const struct import_folder *f, const char *name);
void import_folder_sort(struct import_folder *f);

/* A tensor that was not used, and that `known` does not know; NULL if there is none. */
const struct safetensor *import_folder_unused(const struct import_folder *f,
                                              bool (*known)(const void *user, const char *name),
                                              const void *user);

#endif
