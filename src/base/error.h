/* Errors are values: the innermost function that knows what is wrong says so once, everyone above
   passes the status on. */
#ifndef TFT_ERROR_H
#define TFT_ERROR_H

#include "tuffet.h"

#if defined __GNUC__
#define TFT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TFT_PRINTF(fmt, args)
#endif

/* Fills err (if not NULL) and returns code. The message is one line that starts with the name of
   the file, if there is one: "model.gguf: byte 24: key 3 is longer than the file". Control
   characters in it are replaced, overlong text is cut. */
enum tft_status tft_fail(struct tft_error *err, enum tft_status code, const char *fmt, ...)
    TFT_PRINTF(3, 4);

/* The same where reading stopped at a byte of a file: "NAME: byte OFFSET: ...". */
enum tft_status tft_fail_at(struct tft_error *err, enum tft_status code, const char *name,
                            uint64_t offset, const char *fmt, ...) TFT_PRINTF(5, 6);

/* An operating system call on `name` failed with errno `os`: "NAME: what: No such file or
   directory". */
enum tft_status tft_fail_os(struct tft_error *err, int os, const char *name, const char *what);

#endif
