/*
 * Errors are values: the innermost function that knows what is wrong fills in the message, and its
 * callers return the status.
 *
 * The folder base/ is what every other folder of src/ builds on: errors, memory, little-endian
 * bytes, UTF-8, CRC-32, sorting, and the public functions about the CPU. It includes only port/,
 * simd/ and the public header.
 */
#ifndef TFT_ERROR_H
#define TFT_ERROR_H

#include "tuffet.h"

#if defined __GNUC__
#define TFT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TFT_PRINTF(fmt, args)
#endif

/* Fills err, if it is not NULL, and returns code. The message is one line. If it is about a file,
   it starts with the file's name, says where and what is wrong, and what to do if the user can do
   something: "model.gguf: byte 24: key 3 is longer than the file". Control characters are replaced
   by '?', and a message that is too long is cut. */
enum tft_status tft_fail(struct tft_error *err, enum tft_status code, const char *fmt, ...)
    TFT_PRINTF(3, 4);

/* The same for byte `offset` of the file `name`, where reading stopped: "NAME: byte OFFSET:
   ...". */
enum tft_status tft_fail_at(struct tft_error *err, enum tft_status code, const char *name,
                            uint64_t offset, const char *fmt, ...) TFT_PRINTF(5, 6);

/* A system call on the file `name` failed with errno `os`. `what` says what cannot be done: "NAME:
   cannot be read: No such file or directory". Returns TFT_ERR_IO. */
enum tft_status tft_fail_os(struct tft_error *err, int os, const char *name, const char *what);

#endif
