#include "tools/quantize/write/in_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "file/file.h"
#include "model/keys.h"

/* f32 as GGUF has it: little-endian */
static void put_float(unsigned char *to, double x)
{
    float number = (float)x;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(bits >> 8 * i);
}

/* *at = offset in the file of the n elements of the key's array */
static enum tft_status find(const char *path, const char *key, enum tft_value_type type, size_t n,
                            long *at, struct tft_error *err)
{
    struct tft_source s;
    enum tft_status status = tft_source_open(&s, path, NULL, NULL, err);
    if (status != TFT_OK)
        return status;
    const struct tft_value *v = tft_source_value(&s, key);
    bool there = v && v->is_array && v->type == type && v->n == n;
    *at = there ? (long)(v->data - (const unsigned char *)s.data) : 0;
    tft_source_close(&s);
    return there ? TFT_OK : tft_fail(err, TFT_ERR_FORMAT, "%s: has no place for %s", path, key);
}

static enum tft_status put(const char *path, long at, const unsigned char *bytes, size_t n,
                           struct tft_error *err)
{
    FILE *f = fopen(path, "r+b");
    bool written = f && fseek(f, at, SEEK_SET) == 0 && fwrite(bytes, n, 1, f) == 1;
    if (f && fclose(f))
        written = false;
    return written ? TFT_OK
                   : tft_fail(err, TFT_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
}

enum tft_status write_held_out(const char *path, const struct check_loss loss[CHECK_GROUPS],
                               struct tft_error *err)
{
    unsigned char bytes[4 * CHECK_GROUPS * HELD_OUT_NUMBERS], *to = bytes;
    long at;
    enum tft_status status = find(path, TFT_KEY_HELD_OUT, TFT_VALUE_F32,
                                  CHECK_GROUPS * HELD_OUT_NUMBERS, &at, err);
    for (int g = 0; g < CHECK_GROUPS; g++) {
        const double numbers[HELD_OUT_NUMBERS] = {loss[g].tokens, loss[g].floats, loss[g].file,
                                                  loss[g].divergence, loss[g].same};
        for (int i = 0; i < HELD_OUT_NUMBERS; i++, to += 4)
            put_float(to, numbers[i]);
    }
    return status == TFT_OK ? put(path, at, bytes, sizeof bytes, err) : status;
}

enum tft_status write_ranges(const char *path, const enum tft_range *range, uint32_t n,
                             struct tft_error *err)
{
    unsigned char *bytes = malloc(n);
    long at;
    if (!bytes)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", path);
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)range[i];
    enum tft_status status = find(path, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, n, &at, err);
    if (status == TFT_OK)
        status = put(path, at, bytes, n, err);
    free(bytes);
    return status;
}
