/*
 * The folder file/ reads model files (GGUF, llama2.c) into named values and named tensors, and
 * writes GGUF. Other folders include only this header and codebooks.h of file/.
 */
#ifndef TFT_FILE_H
#define TFT_FILE_H

#include "base/new_file.h"
#include "gguf_write.h"
#include "source.h"

/* The place of a file. All zero: no file. */
enum tft_where { TFT_NOWHERE, TFT_AT_PATH, TFT_IN_MEMORY, TFT_IN_OPEN_FILE };
struct tft_place {
    enum tft_where where;
    const char *name; /* the path; or a name for messages */
    const void *data; /* IN_MEMORY: `size` bytes, aligned to 32 */
    int fd;           /* IN_OPEN_FILE: `size` bytes from `offset`, a multiple of 32; size 0: the
                         whole rest */
    uint64_t offset, size;
};

/* Opens a model file, GGUF or llama2.c by its first bytes. A file that is a part of a split model
   opens with the other parts, which are beside it. tokenizer: of a llama2.c model, or
   nowhere; GGUF has its own. The memory taken is at most a few times the size of the file's header:
   a count in the file is checked against the file's size before it costs memory. */
enum tft_status tft_source_open_at(struct tft_source *s, const struct tft_place *model,
                                   const struct tft_place *tokenizer,
                                   const struct tft_allocator *a, struct tft_error *err);

/* As tft_source_open_at, for paths (tokenizer may be NULL), and for a GGUF file in memory. */
enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err);
enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err);

#endif
