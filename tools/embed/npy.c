#include "npy.h"

#include <string.h>

#include "base/bytes.h"

bool npy_begin(FILE *f, size_t rows, uint32_t width)
{
    enum { HEAD = 128, MAGIC = 10 };
    unsigned char head[HEAD] = "\x93NUMPY\1";
    char *text = (char *)head + MAGIC;
    memset(text, ' ', HEAD - MAGIC - 1);
    int n = snprintf(text, HEAD - MAGIC,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %u), }", rows, width);
    text[n] = ' '; /* in place of the NUL */
    head[HEAD - 1] = '\n';
    tft_store_u16(head + 8, HEAD - MAGIC);
    return fwrite(head, 1, HEAD, f) == HEAD;
}

bool npy_floats(FILE *f, const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char bytes[4];
        uint32_t bits;
        memcpy(&bits, v + i, sizeof bits);
        tft_store_u32(bytes, bits);
        if (fwrite(bytes, 1, sizeof bytes, f) != sizeof bytes)
            return false;
    }
    return true;
}
