/* JSON files of a folder of Hugging Face, by jansson. */
#ifndef IMPORT_JSON_H
#define IMPORT_JSON_H

#include <jansson.h>

#include <stdarg.h>

#include "base/error.h"

/* Reports an error about a file or a folder, as tft_fail does. The message begins with the path. If
   it is too long, its beginning is cut off, since the end says more. */
enum tft_status import_error(struct tft_error *err, enum tft_status code, const char *fmt, ...)
    TFT_PRINTF(3, 4);
enum tft_status import_error_args(struct tft_error *err, enum tft_status code, const char *fmt,
                                  va_list args);

/* Reads text[size]. Every number is a real, since tokenizer_config.json has integers beyond 64
   bits. Nesting is limited to 2048 levels (JSON_PARSER_MAX_DEPTH). `flags`: further flags of
   jansson. Errors begin with `name`. The caller calls json_decref. */
enum tft_status import_json_parse(json_t **out, const char *name, const void *text, size_t size,
                                  size_t flags, struct tft_error *err);

/* Reads a file. The outermost value must be an object. *out is NULL after a failure, and if the
   file does not exist, which is not a failure if `optional`. Python's Infinity becomes 1e308 and
   NaN null. In a file where a member's name has a NUL, each NUL of a string is IMPORT_JSON_NUL:
   three characters that no text has. */
#define IMPORT_JSON_NUL "\xef\xb7\x90\xef\xb7\x91\xef\xb7\x90"
enum tft_status import_json_read(json_t **out, const char *path, bool optional,
                                 struct tft_error *err);

/* The same for a list in a file that may be absent. */
enum tft_status import_json_read_list(json_t **out, const char *path, struct tft_error *err);

/* "FOLDER/NAME", which the caller frees; NULL: out of memory. */
char *import_path(const char *folder, const char *name);

/* *out = v, a whole number of at most `most`; false for any other value. v may be NULL. */
bool import_json_whole(const json_t *v, uint64_t most, uint64_t *out);

#endif
