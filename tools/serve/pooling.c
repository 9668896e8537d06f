#include "pooling.h"

#include <string.h>

#include "tools/cli/cli.h"

bool pooling_choose(enum tft_pooling *p, const char *name, const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    if (name && strcmp(name, "mean") != 0 && strcmp(name, "last") != 0) {
        cli_usage("--pooling must be mean or last, not \"%s\"", name);
        return false;
    }
    tft_model_describe(m, &info);
    if (name)
        *p = *name == 'm' ? TFT_POOLING_MEAN : TFT_POOLING_LAST;
    else if (info.pooling == TFT_POOLING_NONE)
        *p = TFT_POOLING_MEAN;
    else
        *p = info.pooling <= TFT_POOLING_LAST ? info.pooling : TFT_POOLING_OTHER;
    return true;
}
