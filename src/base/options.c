#include "options.h"

#include <string.h>

#include "error.h"

/* No struct of options is larger. An unset size often is. */
enum { MOST = 4096 };

enum tft_status tft_options_take(void *out, size_t size, const void *given, const char *name,
                                 struct tft_error *err)
{
    size_t n = 0;
    memset(out, 0, size);
    if (!given)
        return TFT_OK;
    memcpy(&n, given, sizeof n);
    if (n < sizeof n || n > MOST)
        return tft_fail(err, TFT_ERR_ARG, "struct %s: its size is %zu: set it to sizeof", name, n);
    for (size_t i = size; i < n; i++)
        if (((const unsigned char *)given)[i])
            return tft_fail(err, TFT_ERR_ARG,
                            "struct %s: byte %zu of %zu is not 0: an option that this library, "
                            "version %s, does not know",
                            name, i, n, tft_version());
    memcpy(out, given, n < size ? n : size);
    return TFT_OK;
}

void tft_options_give(void *to, const void *out, size_t size)
{
    size_t n;
    memcpy(&n, to, sizeof n);
    memcpy(to, out, n < size ? n : size);
    if (n > size)
        memset((unsigned char *)to + size, 0, n - size);
}

enum tft_status tft_options_reserved(const uint64_t *reserved, size_t size, const char *name,
                                     struct tft_error *err)
{
    for (size_t i = 0; i < size / sizeof *reserved; i++)
        if (reserved[i])
            return tft_fail(err, TFT_ERR_ARG,
                            "struct %s: reserved[%zu] is not 0: an option that this library, "
                            "version %s, does not know",
                            name, i, tft_version());
    return TFT_OK;
}
