#include "lora_adapters.h"

#include <stdlib.h>
#include <string.h>

#include "request.h"
#include "tools/cli/system.h"

static json_t *describe(const struct loras *l, uint32_t i)
{
    char *path = cli_lora_path(i);
    const char *name = path ? system_file_name(path) : NULL;
    json_t *all =
        json_pack("{s:I, s:o, s:f}", "id", (json_int_t)i, "path",
                  name ? json_bytes(name, strlen(name)) : NULL, "scale", (double)l->scale[i]);
    free(path);
    return all;
}

/* Adapters go with one model, which is the first. */
void lora_adapters_list(struct exchange *x)
{
    const struct tft_lora_use *open;
    uint32_t n = cli_loras(&open);
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(all, describe(&x->server->models[0]->loras, i));
    reply_json(x, 200, all);
}

void lora_adapters_change(struct exchange *x)
{
    struct fields f = {.body = NULL};
    struct loras l;
    json_t *list = exchange_list(x);
    if (!list)
        return;
    loras_set(&l, &f, list);
    json_decref(list);
    if (f.failed) {
        request_fail(x, &f);
        return;
    }
    x->server->models[0]->loras = l;
    reply_json(x, 200, json_pack("{s:b}", "success", 1));
}
