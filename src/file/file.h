/*
 * Model files: reads GGUF and llama2.c into named values and named tensors, and writes GGUF.
 * This is the header of the folder for all others.
 */
#ifndef TFT_FILE_H
#define TFT_FILE_H

#include "gguf_write.h"
#include "source.h"

/* Opens a GGUF or a llama2.c file by its first bytes. `tokenizer` is the path of a llama2.c
   tokenizer, or NULL; GGUF needs none. Memory taken is at most a few times the size of the file's
   header, and never taken on the word of a number in the file alone. */
enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err);

/* A GGUF file in memory; see tft_model_open_mem. `name` for messages. */
enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err);

#endif
