#include "loras.h"

#include <math.h>
struct loras loras_given(void)
{
    struct loras l = {0};
    const struct tft_lora_use *use;
    uint32_t n = cli_loras(&use);
    for (uint32_t i = 0; i < n; i++)
        l.scale[i] = use[i].scale;
    return l;
}

bool loras_same(const struct loras *a, const struct loras *b)
{
    for (uint32_t i = 0; i < CLI_MOST_TEXTS; i++)
        if (a->scale[i] != b->scale[i])
            return false;
    return true;
}

void loras_put(const struct loras *l, struct tft_lora_use *use, struct tft_session_opts *o)
{
    const struct tft_lora_use *open;
    o->n_loras = cli_loras(&open);
    o->loras = use;
    for (uint32_t i = 0; i < o->n_loras; i++)
        use[i] = (struct tft_lora_use){.lora = open[i].lora, .scale = l->scale[i]};
}

/* ---- a list of scales */

/* Reads entry i. said: the adapters that came before it. */
static void read_one(struct loras *l, struct fields *f, const json_t *one, size_t i, bool *said)
{
    const struct tft_lora_use *open;
    const json_t *scale = json_object_get(one, "scale");
    int64_t n = cli_loras(&open), id;
    double x = json_number_value(scale);
    if (!json_is_object(one) || !json_whole(json_object_get(one, "id"), &id) ||
        !json_is_number(scale))
        fields_fail(f, "lora[%zu] must be an object with the numbers id and scale", i);
    else if (id < 0 || id >= n)
        fields_fail(f, "lora[%zu].id is %lld, and the server's last adapter is %lld", i,
                    (long long)id, (long long)n - 1);
    else if (said[id])
        fields_fail(f, "lora[%zu]: the adapter %lld comes twice", i, (long long)id);
    else if (!(fabs(x) <= 1e6))
        fields_fail(f, "lora[%zu].scale must be a number up to 1e6", i);
    else {
        said[id] = true;
        l->scale[id] = (float)x;
    }
}

void loras_set(struct loras *l, struct fields *f, const json_t *list)
{
    const struct tft_lora_use *open;
    bool said[CLI_MOST_TEXTS] = {false};
    size_t i;
    json_t *one;
    *l = (struct loras){0};
    if (!json_is_array(list)) {
        fields_fail(f, "lora must be a list");
    } else if (json_array_size(list) && !cli_loras(&open)) {
        f->unsupported |= !f->failed;
        fields_fail(f, "lora: the server has no adapters: it is started with --lora FILE");
    } else {
        json_array_foreach((json_t *)(uintptr_t)list, i, one) read_one(l, f, one, i, said);
    }
}

void loras_read(struct loras *l, struct fields *f)
{
    const json_t *list = field(f, "lora");
    if (list)
        loras_set(l, f, list);
}
