#include "json.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "tools/json/read.h"

enum tft_status import_error_args(struct tft_error *err, enum tft_status code, const char *fmt,
                                  va_list args)
{
    enum { SHOWN = 118 }; /* of the path or a text of the folder, at each end, if it is long */
    char text[4096 + 512]; /* a path, and the message about it */
    vsnprintf(text, sizeof text, fmt, args);
    size_t n = strlen(text);
    if (n <= 2 * SHOWN)
        return tft_fail(err, code, "%s", text);
    return tft_fail(err, code, "%.*s...%s", (int)SHOWN, text, text + n - SHOWN);
}

enum tft_status import_error(struct tft_error *err, enum tft_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    import_error_args(err, code, fmt, args);
    va_end(args);
    return code;
}

enum tft_status import_json_parse(json_t **out, const char *name, const void *text, size_t size,
                                  size_t flags, struct tft_error *err)
{
    json_error_t e;
    *out = read_json(text, size, JSON_DECODE_INT_AS_REAL | flags, &e);
    if (*out)
        return TFT_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", name);
    return import_error(err, TFT_ERR_FORMAT, "%s: line %d, column %d: %s", name, e.line, e.column,
                    e.text);
}

/* ---- texts of Python */

static bool begins(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - p) >= n && memcmp(p, word, n) == 0;
}

/* Python's json writes Infinity and NaN, and names of members with "\\u0000"; jansson takes none of
   them. Copies text[size] to `to`, with a number near the largest double, null and IMPORT_JSON_NUL
   in their places. Returns the length of the copy, at most 3 size. */
static size_t repair(const char *text, size_t size, char *to)
{
    const char *end = text + size;
    char *at = to;
    bool inside = false; /* a string */
    for (size_t n; text < end; text += n) {
        const char *with = NULL;
        n = 1;
        if (inside && begins(text, end, "\\u0000"))
            n = 6, with = IMPORT_JSON_NUL;
        else if (inside && *text == '\\' && text + 1 < end)
            n = 2;
        else if (*text == '"')
            inside = !inside;
        else if (!inside && begins(text, end, "Infinity"))
            n = 8, with = "1e308";
        else if (!inside && begins(text, end, "NaN"))
            n = 3, with = "null";
        size_t m = with ? strlen(with) : n;
        memcpy(at, with ? with : text, m);
        at += m;
    }
    return (size_t)(at - to);
}

/* Reads what jansson takes, or else the repaired copy. */
static enum tft_status parse_file(json_t **out, const char *path, const char *text, size_t size,
                                  struct tft_error *err)
{
    enum tft_status status = import_json_parse(out, path, text, size, JSON_ALLOW_NUL, err);
    char *copy = status == TFT_ERR_FORMAT && size < SIZE_MAX / 3 ? malloc(3 * size + 1) : NULL;
    if (!copy)
        return status;
    size_t n = repair(text, size, copy);
    if (n != size || memcmp(copy, text, n) != 0)
        status = import_json_parse(out, path, copy, n, JSON_ALLOW_NUL, err);
    free(copy);
    return status;
}

static enum tft_status read_file(json_t **out, const char *path, bool optional, json_type type,
                                 struct tft_error *err)
{
    struct tft_map map;
    *out = NULL;
    int os = tft_port_map(&map, path);
    if (os == ENOENT && optional)
        return TFT_OK;
    if (os)
        return tft_fail_os(err, os, path, "cannot be read");
    enum tft_status status =
        parse_file(out, path, map.data ? (const char *)map.data : "", map.size, err);
    tft_port_unmap(&map);
    if (status == TFT_OK && json_typeof(*out) != type) {
        json_decref(*out);
        *out = NULL;
        status = import_error(err, TFT_ERR_FORMAT, "%s: this is not a JSON %s", path,
                              type == JSON_OBJECT ? "object" : "array");
    }
    return status;
}

enum tft_status import_json_read(json_t **out, const char *path, bool optional,
                                 struct tft_error *err)
{
    return read_file(out, path, optional, JSON_OBJECT, err);
}

enum tft_status import_json_read_list(json_t **out, const char *path, struct tft_error *err)
{
    return read_file(out, path, true, JSON_ARRAY, err);
}

char *import_path(const char *folder, const char *name)
{
    size_t n = strlen(folder), slash = n && folder[n - 1] != '/';
    char *path = malloc(n + slash + strlen(name) + 1);
    if (!path)
        return NULL;
    memcpy(path, folder, n);
    memcpy(path + n, "/", slash);
    strcpy(path + n + slash, name);
    return path;
}

bool import_json_whole(const json_t *v, uint64_t most, uint64_t *out)
{
    double x = json_is_real(v) ? json_real_value(v) : -1;
    if (!(x >= 0 && x <= 0x1p53) || x > (double)most || x != (double)(uint64_t)x)
        return false;
    *out = (uint64_t)x;
    return true;
}
