#include "addon.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ok(napi_env env, napi_status status)
{
    const napi_extended_error_info *info = NULL;
    bool pending = false;
    if (status == napi_ok)
        return true;
    napi_get_last_error_info(env, &info);
    if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
        napi_throw_error(env, NULL, info && info->error_message ? info->error_message : "Node-API");
    return false;
}

napi_value own_error(napi_env env, const char *code, const char *line)
{
    napi_value error, name = text_value(env, code, strlen(code)),
                      message = text_value(env, line, strlen(line));
    return name && message && ok(env, napi_create_error(env, name, message, &error)) ? error : NULL;
}

napi_value error_of(napi_env env, enum tft_status status, const struct tft_error *err)
{
    static const char *const names[] = {
        [TFT_ERR_ARG] = "TFT_ERR_ARG",         [TFT_ERR_NOMEM] = "TFT_ERR_NOMEM",
        [TFT_ERR_IO] = "TFT_ERR_IO",           [TFT_ERR_FORMAT] = "TFT_ERR_FORMAT",
        [TFT_ERR_UNSUPPORTED] = "TFT_ERR_UNSUPPORTED", [TFT_ERR_FULL] = "TFT_ERR_FULL",
        [TFT_ERR_DEVICE] = "TFT_ERR_DEVICE",   [TFT_ERR_NUMBERS] = "TFT_ERR_NUMBERS",
        [TFT_ERR_CANCELLED] = "TFT_ERR_CANCELLED",
    };
    const bool known = (size_t)status < sizeof names / sizeof *names && names[status];
    const char *name = known ? names[status] : "TFT_ERR"; /* of a later version */
    const char *line = err && err->msg[0] ? err->msg : tft_status_text(status);
    napi_value error = own_error(env, name, line);
    if (!error)
        return NULL;
    if (err && status == TFT_ERR_FORMAT &&
        !put(env, error, "offset", number_value(env, (double)err->offset)))
        return NULL;
    if (err && err->os && !put(env, error, "errno", number_value(env, -err->os)))
        return NULL; /* negative, as Node's own are */
    return error;
}

napi_value throw_status(napi_env env, enum tft_status status, const struct tft_error *err)
{
    napi_value error = error_of(env, status, err);
    if (error)
        napi_throw(env, error);
    return NULL;
}

napi_value throw_argument(napi_env env, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    napi_throw_type_error(env, "TFT_ERR_ARG", line);
    return NULL;
}

bool arguments(napi_env env, napi_callback_info info, size_t n, napi_value *argv)
{
    return ok(env, napi_get_cb_info(env, info, &n, argv, NULL, NULL));
}

static bool is(napi_env env, napi_value v, napi_valuetype type)
{
    napi_valuetype t;
    return napi_typeof(env, v, &t) == napi_ok && t == type;
}

bool read_number(napi_env env, napi_value v, const char *what, double least, double most,
                 double *out)
{
    if (napi_get_value_double(env, v, out) == napi_ok && *out >= least && *out <= most)
        return true;
    throw_argument(env, "%s must be a number from %.9g to %.9g", what, least, most);
    return false;
}

bool read_integer(napi_env env, napi_value v, const char *what, double least, double most,
                  double *out)
{
    if (napi_get_value_double(env, v, out) == napi_ok && *out >= least && *out <= most &&
        *out == floor(*out))
        return true;
    throw_argument(env, "%s must be an integer from %.0f to %.0f", what, least, most);
    return false;
}

bool read_bool(napi_env env, napi_value v, const char *what, bool *out)
{
    if (napi_get_value_bool(env, v, out) == napi_ok)
        return true;
    throw_argument(env, "%s must be true or false", what);
    return false;
}

char *read_text(napi_env env, napi_value v, const char *what, size_t *n)
{
    size_t size = 0;
    if (!is(env, v, napi_string)) {
        throw_argument(env, "%s must be a string", what);
        return NULL;
    }
    if (!ok(env, napi_get_value_string_utf8(env, v, NULL, 0, &size)))
        return NULL;
    char *text = malloc(size + 1);
    if (!text) {
        throw_status(env, TFT_ERR_NOMEM, NULL);
        return NULL;
    }
    if (!ok(env, napi_get_value_string_utf8(env, v, text, size + 1, &size))) {
        free(text);
        return NULL;
    }
    if (n) {
        *n = size;
    } else if (strlen(text) != size) {
        throw_argument(env, "%s has a character of zero", what);
        free(text);
        return NULL;
    }
    return text;
}

/* Writes the numbers of an array to ids[n]. An element may be a getter that shortens the array:
   later elements are then undefined, which is refused. */
static bool read_array(napi_env env, napi_value v, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        napi_handle_scope scope;
        napi_value element;
        double x = 0;
        if (!ok(env, napi_open_handle_scope(env, &scope)))
            return false;
        const bool read = ok(env, napi_get_element(env, v, (uint32_t)i, &element)) &&
                          read_integer(env, element, "a token", INT32_MIN, INT32_MAX, &x);
        napi_close_handle_scope(env, scope);
        if (!read)
            return false;
        ids[i] = (int32_t)x;
    }
    return true;
}

int32_t *read_tokens(napi_env env, napi_value v, size_t *n)
{
    napi_typedarray_type type = napi_int8_array;
    napi_value buffer;
    void *data = NULL;
    uint32_t length = 1;
    bool array = false, typed = false, owned = false;
    const bool number = is(env, v, napi_number);
    *n = 0;
    if (!number && (napi_is_array(env, v, &array) != napi_ok ||
                    napi_is_typedarray(env, v, &typed) != napi_ok || (!array && !typed))) {
        throw_argument(env, "tokens must be an Int32Array or an array of integers");
        return NULL;
    }
    if (array && !ok(env, napi_get_array_length(env, v, &length)))
        return NULL;
    *n = length;
    if (typed) {
        /* other threads may write to the memory of a SharedArrayBuffer, which is none of these */
        if (!ok(env, napi_get_typedarray_info(env, v, &type, n, &data, &buffer, NULL)) ||
            !ok(env, napi_is_arraybuffer(env, buffer, &owned)))
            return NULL;
        if (type != napi_int32_array || !owned) {
            throw_argument(env, "tokens must be an Int32Array or an array of integers");
            return NULL;
        }
    }
    int32_t *ids = malloc(*n * sizeof *ids + 1);
    if (!ids) {
        throw_status(env, TFT_ERR_NOMEM, NULL);
        return NULL;
    }
    double x = 0;
    if (typed && *n) {
        memcpy(ids, data, *n * sizeof *ids);
    } else if (array ? !read_array(env, v, ids, *n)
                     : number && !read_integer(env, v, "a token", INT32_MIN, INT32_MAX, &x)) {
        free(ids);
        return NULL;
    } else if (number) {
        ids[0] = (int32_t)x;
    }
    return ids;
}

uint8_t *read_bytes(napi_env env, napi_value v, const char *what, size_t *n)
{
    napi_typedarray_type type;
    napi_value buffer;
    void *data;
    bool typed = false, owned = false;
    if (napi_is_typedarray(env, v, &typed) == napi_ok && typed &&
        !(ok(env, napi_get_typedarray_info(env, v, &type, n, &data, &buffer, NULL)) &&
          ok(env, napi_is_arraybuffer(env, buffer, &owned))))
        return NULL;
    if (owned && type == napi_uint8_array)
        return *n ? data : (uint8_t *)"";
    throw_argument(env, "%s must be a Uint8Array, and not of shared memory", what);
    return NULL;
}

/* A copy of x[size], as n numbers. */
static napi_value array_value(napi_env env, napi_typedarray_type type, const void *x, size_t n,
                              size_t size)
{
    napi_value buffer, array;
    void *data;
    if (!ok(env, napi_create_arraybuffer(env, size, &data, &buffer)))
        return NULL;
    if (size)
        memcpy(data, x, size);
    return ok(env, napi_create_typedarray(env, type, n, buffer, 0, &array)) ? array : NULL;
}

napi_value tokens_value(napi_env env, const int32_t *ids, size_t n)
{
    return array_value(env, napi_int32_array, ids, n, n * sizeof *ids);
}

napi_value floats_value(napi_env env, const float *x, size_t n)
{
    return array_value(env, napi_float32_array, x, n, n * sizeof *x);
}

napi_value bytes_value(napi_env env, const void *bytes, size_t n)
{
    return array_value(env, napi_uint8_array, bytes, n, n);
}

napi_value text_value(napi_env env, const char *text, size_t n)
{
    napi_value v;
    return ok(env, napi_create_string_utf8(env, text, n, &v)) ? v : NULL;
}

napi_value number_value(napi_env env, double x)
{
    napi_value v;
    return ok(env, napi_create_double(env, x, &v)) ? v : NULL;
}

napi_value bool_value(napi_env env, bool x)
{
    napi_value v;
    return ok(env, napi_get_boolean(env, x, &v)) ? v : NULL;
}

napi_value null_value(napi_env env)
{
    napi_value v;
    return ok(env, napi_get_null(env, &v)) ? v : NULL;
}

bool put(napi_env env, napi_value object, const char *name, napi_value value)
{
    return value && ok(env, napi_set_named_property(env, object, name, value));
}
