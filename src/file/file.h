/*
 * The folder file/ reads model files (GGUF, llama2.c) into named values and named tensors, and
 * writes GGUF. Other folders include this header, or codebooks.h, and no other of it.
 */
#ifndef TFT_FILE_H
#define TFT_FILE_H

#include "gguf_write.h"
#include "source.h"

/* Opens a model file; its first bytes tell whether it is GGUF or llama2.c. `tokenizer`: the path of
   a llama2.c tokenizer, or NULL; GGUF needs none. The memory taken is at most a few times the size
   of the file's header: a count in the file is checked against the file's size before it costs
   memory. */
enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err);

/* Opens a GGUF file in memory, see tft_model_open_mem. `name` is for messages. */
enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err);

#endif
