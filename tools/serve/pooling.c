#include "pooling.h"

#include <string.h>

#include "tools/cli/cli.h"

bool pooling_choose(enum tft_pooling *p, const char *name, const struct tft_model *m)
{
    static const struct {
        const char *name;
        enum tft_pooling is;
    } all[] = {{"mean", TFT_POOLING_MEAN}, {"last", TFT_POOLING_LAST}, {"cls", TFT_POOLING_CLS}};
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    size_t n = info.encoder ? 3 : 2, i = 0; /* a session has no first token's vector at the end */
    while (name && i < n && strcmp(all[i].name, name) != 0)
        i++;
    if (i == n) {
        cli_usage("--pooling must be mean or last%s, not \"%s\"", n == 3 ? " or cls" : "", name);
        return false;
    }
    bool knows = info.pooling <= TFT_POOLING_LAST || info.pooling == TFT_POOLING_RANK ||
                 (info.encoder && info.pooling == TFT_POOLING_CLS);
    if (name)
        *p = all[i].is;
    else if (info.pooling == TFT_POOLING_NONE)
        *p = TFT_POOLING_MEAN;
    else
        *p = knows ? info.pooling : TFT_POOLING_OTHER;
    return true;
}

bool pooling_is_all(const struct tft_model *m, enum tft_pooling pooling)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    return info.encoder || pooling == TFT_POOLING_RANK;
}
