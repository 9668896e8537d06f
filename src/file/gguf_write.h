#ifndef TFT_GGUF_WRITE_H
#define TFT_GGUF_WRITE_H

#include "source.h"

/*
 * Writes GGUF v3 as a stream: values, then tensor descriptions, then the tensors' data in the same
 * order. The first error sticks and is reported by tft_gguf_close, which also gives the file its
 * name, so that a reader never sees half a file, nor one that tft_gguf_read would refuse. A value
 * general.alignment is obeyed; without one it is 32.
 */
struct tft_gguf_writer;

#define TFT_CHECKSUM_KEY "tuffet.checksum"

/* Starts a file that will replace `path` when it is whole. A process that is killed before leaves
   nothing, or where the system has no files without a name (tft_port_draft), PATH.tmpN. */
enum tft_status tft_gguf_create(struct tft_gguf_writer **out, const char *path,
                                struct tft_error *err);

void tft_gguf_put_u32(struct tft_gguf_writer *w, const char *key, uint32_t v);
void tft_gguf_put_f32(struct tft_gguf_writer *w, const char *key, float v);
void tft_gguf_put_bool(struct tft_gguf_writer *w, const char *key, bool v);
void tft_gguf_put_str(struct tft_gguf_writer *w, const char *key, struct tft_str v);
void tft_gguf_put_strs(struct tft_gguf_writer *w, const char *key, const struct tft_str *v,
                       size_t n);
/* A u32, TFT_CHECKSUM_KEY in files that tuffet makes, that will be the CRC-32 of all that follows
   the descriptions of the tensors: tft_source_checksum of the reader. Once. */
void tft_gguf_put_checksum(struct tft_gguf_writer *w, const char *key);
/* type: a number type; v: n of them in the machine's order */
void tft_gguf_put_array(struct tft_gguf_writer *w, const char *key, enum tft_value_type type,
                        const void *v, size_t n);
/* The same with zeros, to be filled in at the place that is returned, at any time before the file
   is closed. */
uint64_t tft_gguf_put_array_later(struct tft_gguf_writer *w, const char *key,
                                  enum tft_value_type type, size_t n);
void tft_gguf_fill_array(struct tft_gguf_writer *w, uint64_t place, enum tft_value_type type,
                         const void *v, size_t n);
/* A value of another file, unchanged. */
void tft_gguf_put_value(struct tft_gguf_writer *w, const struct tft_value *v);

/* Describes the next tensor. Its offset follows from those before it. */
void tft_gguf_put_tensor(struct tft_gguf_writer *w, struct tft_str name, enum tft_dtype type,
                         uint32_t n_dims, const uint64_t *ne);

/* Appends data, as the file has it, of the tensor that is next to be written, in as many pieces as
   you like; padding is added when it is whole. */
void tft_gguf_put_data(struct tft_gguf_writer *w, const void *data, size_t bytes);

/* Ends the file. With `keep` false, or after an error, nothing remains on disk. Frees w (NULL is
   fine). */
enum tft_status tft_gguf_close(struct tft_gguf_writer *w, bool keep, struct tft_error *err);

#endif
