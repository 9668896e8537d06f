#include "tools/quantize/write/old_keys.h"

#include <string.h>

#include "model/keys.h"

static bool begins_with(struct tft_str key, const char *with)
{
    size_t n = strlen(with);
    return key.n >= n && memcmp(key.p, with, n) == 0;
}

bool describes_types(struct tft_str key)
{
    return tft_str_is(key, "general.file_type") ||
           tft_str_is(key, "general.quantization_version");
}

bool describes_old_file(struct tft_str key)
{
    static const char *const kept[] = {TFT_KEY_GELU, "tuffet.prompt", "tuffet.default_prompt"};
    if (tft_str_is(key, "general.alignment") || describes_types(key))
        return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (begins_with(key, kept[i]))
            return false;
    return begins_with(key, "tuffet.");
}
