/*
 * Errors are values: the innermost function that knows the error writes the message, and its
 * callers return the status.
 *
 * Every other folder of src/ builds on base/: errors, memory, new files, little-endian bytes,
 * UTF-8, CRC-32, sorting, and the public functions about the CPU. base/ includes only port/, simd/
 * and the public header.
 */
#ifndef TFT_ERROR_H
#define TFT_ERROR_H

#include "tuffet.h"

#if defined __GNUC__
#define TFT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TFT_PRINTF(fmt, args)
#endif

/* Fills *err, unless err is NULL, and returns code. The message is one line. A message about a file
   has the file's name, the place, the error, and a remedy if the user has one: "model.gguf: byte
   24: key 3 is longer than the file". A fmt that begins with "%s: " or "%s/" begins with a file's
   name, of which at most the last 100 bytes are shown. '?' replaces control characters, and a
   message that is too long is cut. */
enum tft_status tft_fail(struct tft_error *err, enum tft_status code, const char *fmt, ...)
    TFT_PRINTF(3, 4);

/* As tft_fail, for reading that stopped at byte `offset` of the file `name`: "NAME: byte OFFSET:
   ...". */
enum tft_status tft_fail_at(struct tft_error *err, enum tft_status code, const char *name,
                            uint64_t offset, const char *fmt, ...) TFT_PRINTF(5, 6);

/* As tft_fail, for a system call on the file `name` that failed with errno `os`: "NAME: cannot be
   read: No such file or directory", where `what` is "cannot be read". Returns TFT_ERR_IO. */
enum tft_status tft_fail_os(struct tft_error *err, int os, const char *name, const char *what);

#endif
