/*
 * Writes GGUF v3 (ggml docs/gguf.md) as a stream: values, then descriptions of the tensors, then
 * the tensors' data in the same order.
 *
 * A writer keeps the first error, ignores later calls, and tft_gguf_close reports the error. The
 * file gets its name only after tft_gguf_close has read it back: nobody sees half a file, or a
 * file that tft_gguf_read refuses. The value general.alignment sets the alignment of the data; the
 * default is 32.
 */
#ifndef TFT_GGUF_WRITE_H
#define TFT_GGUF_WRITE_H

#include "source.h"

struct tft_gguf_writer;

/* The key of the checksum in files that tuffet makes. */
#define TFT_CHECKSUM_KEY "tuffet.checksum"

/* Starts a file that replaces `path` once it is complete. A process killed earlier leaves nothing,
   or PATH.tmpN: on systems without unnamed files, and at two moments (see tft_port_temp). */
enum tft_status tft_gguf_create(struct tft_gguf_writer **out, const char *path,
                                struct tft_error *err);

void tft_gguf_put_u32(struct tft_gguf_writer *w, const char *key, uint32_t v);
void tft_gguf_put_f32(struct tft_gguf_writer *w, const char *key, float v);
void tft_gguf_put_bool(struct tft_gguf_writer *w, const char *key, bool v);
void tft_gguf_put_str(struct tft_gguf_writer *w, const char *key, struct tft_str v);
void tft_gguf_put_strs(struct tft_gguf_writer *w, const char *key, const struct tft_str *v,
                       size_t n);

/* A u32 that tft_gguf_close sets to the CRC-32 of all bytes after the tensors' descriptions, the
   reader's tft_source_checksum. At most once. */
void tft_gguf_put_checksum(struct tft_gguf_writer *w, const char *key);

/* An array v[n] of `type`, in the machine's byte order. */
void tft_gguf_put_array(struct tft_gguf_writer *w, const char *key, enum tft_value_type type,
                        const void *v, size_t n);

/* An array of n zeros. Returns the position for tft_gguf_fill_array, which may be called at any
   time before closing. */
uint64_t tft_gguf_put_array_later(struct tft_gguf_writer *w, const char *key,
                                  enum tft_value_type type, size_t n);
void tft_gguf_fill_array(struct tft_gguf_writer *w, uint64_t pos, enum tft_value_type type,
                         const void *v, size_t n);

/* A value of another file, unchanged. */
void tft_gguf_put_value(struct tft_gguf_writer *w, const struct tft_value *v);

/* Describes the next tensor. The tensor's offset follows from the earlier tensors. */
void tft_gguf_put_tensor(struct tft_gguf_writer *w, struct tft_str name, enum tft_dtype type,
                         uint32_t n_dims, const uint64_t *ne);

/* Appends data in the file's layout to the first incomplete tensor. A tensor may come in any number
   of pieces; padding is added at its end. */
void tft_gguf_put_data(struct tft_gguf_writer *w, const void *data, size_t bytes);

/* Whether an error has occurred, so the caller need not compute more data. w is not NULL. */
bool tft_gguf_failed(const struct tft_gguf_writer *w);

/* Ends the file and frees w. *file has no name yet: it can be read as (*file)->temp.name, and is
   for tft_new_file_end. After an error *file is NULL, and no new file remains. */
struct tft_new_file;
enum tft_status tft_gguf_complete(struct tft_gguf_writer *w, struct tft_new_file **file,
                                  struct tft_error *err);

/* Ends the file and frees w, which may be NULL. If `keep` is false, or after an error, no new file
   remains, and an old file at `path` is unchanged. */
enum tft_status tft_gguf_close(struct tft_gguf_writer *w, bool keep, struct tft_error *err);

#endif
