#include "vector.h"

#include <math.h>
#include <string.h>

void vector_normalise(float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (size_t i = 0; i < n && sum > 0; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
}

bool vector_write(struct cli_text *t, const float *v, size_t n)
{
    char text[32];
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        int len = snprintf(text, sizeof text, i ? ",%.9g" : "[%.9g", (double)v[i]);
        good &= cli_text_append(t, text, (size_t)len);
    }
    return good && cli_text_append(t, "]", 1);
}

bool vector_write_base64(struct cli_text *t, const float *v, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = n * sizeof *v;
    bool good = cli_text_append(t, "\"", 1);
    for (size_t at = 0; at < bytes; at += 3) {
        uint32_t word = 0;
        char four[4];
        for (size_t i = at; i < at + 3; i++) {
            uint32_t bits = 0;
            if (i < bytes)
                memcpy(&bits, v + i / 4, sizeof bits);
            word = word << 8 | (bits >> 8 * (i % 4) & 0xff);
        }
        for (size_t i = 0; i < 4; i++)
            four[i] = at + i > bytes ? '=' : digits[word >> (18 - 6 * i) & 63];
        good &= cli_text_append(t, four, 4);
    }
    return good && cli_text_append(t, "\"", 1);
}
