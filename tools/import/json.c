#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"

enum tft_status import_error_args(struct tft_error *err, enum tft_status code, const char *fmt,
                                  va_list args)
{
    enum { MOST_SHOWN = 240 };
    char text[4096 + 512]; /* a path, and the message about it */
    vsnprintf(text, sizeof text, fmt, args);
    size_t n = strlen(text), cut = n > MOST_SHOWN ? n - MOST_SHOWN : 0;
    return tft_fail(err, code, "%s%s", cut ? "..." : "", text + cut);
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
    *out = json_loadb(text, size, JSON_DECODE_INT_AS_REAL | flags, &e);
    if (*out)
        return TFT_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", name);
    return import_error(err, TFT_ERR_FORMAT, "%s: line %d, column %d: %s", name, e.line, e.column,
                    e.text);
}

enum tft_status import_json_read(json_t **out, const char *path, bool optional,
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
        import_json_parse(out, path, map.data ? (const void *)map.data : "", map.size,
                          JSON_ALLOW_NUL, err);
    tft_port_unmap(&map);
    if (status == TFT_OK && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        status = import_error(err, TFT_ERR_FORMAT, "%s: this is not a JSON object", path);
    }
    return status;
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
