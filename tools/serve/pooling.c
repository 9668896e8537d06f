#include "pooling.h"

#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "tools/cli/cli.h"

bool pooling_choose(enum pooling *p, const char *name, const struct tft_model *m)
{
    enum { NONE, MEAN, LAST = 3 }; /* in files */
    char key[128];
    uint64_t type = NONE;
    if (name && strcmp(name, "mean") != 0 && strcmp(name, "last") != 0) {
        cli_usage("--pooling must be mean or last, not \"%s\"", name);
        return false;
    }
    snprintf(key, sizeof key, "%s.pooling_type", m->arch->name);
    const struct tft_value *v = tft_source_value(&m->source, key);
    if (v && !tft_value_uint(v, 0, &type))
        type = LAST + 1;
    if (name)
        *p = *name == 'm' ? POOLING_MEAN : POOLING_LAST;
    else
        *p = type == LAST ? POOLING_LAST : type <= MEAN ? POOLING_MEAN : POOLING_OTHER;
    return true;
}

bool pooling_adds_eos(const struct tft_model *m)
{
    const struct tft_value *v = tft_source_value(&m->source, "tokenizer.ggml.add_eos_token");
    return tft_token_eos(m) >= 0 && v && v->type == TFT_VALUE_BOOL && !v->is_array && *v->data;
}
