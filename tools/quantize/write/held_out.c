#include "tools/quantize/write/held_out.h"

#include <errno.h>
#include <stdio.h>
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

/* *at = where the numbers are in the file */
static enum tft_status find(const char *path, long *at, struct tft_error *err)
{
    struct tft_source s;
    enum tft_status status = tft_source_open(&s, path, NULL, NULL, err);
    if (status != TFT_OK)
        return status;
    const struct tft_value *v = tft_source_value(&s, TFT_KEY_HELD_OUT);
    bool there = v && v->is_array && v->type == TFT_VALUE_F32 && v->n == 2;
    *at = there ? (long)(v->data - (const unsigned char *)s.data) : 0;
    tft_source_close(&s);
    return there ? TFT_OK
                 : tft_fail(err, TFT_ERR_FORMAT, "%s: has no place for %s", path, TFT_KEY_HELD_OUT);
}

enum tft_status write_held_out(const char *path, double floats, double file, struct tft_error *err)
{
    unsigned char bytes[8];
    long at;
    enum tft_status status = find(path, &at, err);
    if (status != TFT_OK)
        return status;
    put_float(bytes, floats);
    put_float(bytes + 4, file);
    FILE *f = fopen(path, "r+b");
    bool written = f && fseek(f, at, SEEK_SET) == 0 && fwrite(bytes, sizeof bytes, 1, f) == 1;
    if (f && fclose(f))
        written = false;
    return written ? TFT_OK
                   : tft_fail(err, TFT_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
}
