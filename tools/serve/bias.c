#include "bias.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 10000 }; /* tokens */

static void add(struct bias *b, struct fields *f, int64_t id, const json_t *value)
{
    bool ban = json_is_false(value);
    double x = ban ? -INFINITY : json_number_value(value);
    if (id < 0 || id >= (int64_t)b->n_vocab || !(ban || json_is_number(value)))
        fields_fail(f, "logit_bias takes tokens of the model, each with a number or false");
    else
        b->token[b->n++] = (struct bias_token){(int32_t)id, x <= -100 ? -INFINITY : (float)x};
}

/* {"ID": BIAS, ...}, or [[ID, BIAS], ...] */
static void read_tokens(struct bias *b, struct fields *f)
{
    json_t *all = json_object_get(f->body, "logit_bias"), *value;
    const char *name;
    size_t i, n = json_is_object(all) ? json_object_size(all) : json_array_size(all);
    if (n > MOST)
        fields_fail(f, "logit_bias has more than %d tokens", MOST);
    if (all && !json_is_null(all) && !json_is_object(all) && !json_is_array(all))
        fields_fail(f, "logit_bias must be an object or a list");
    if (!n || f->failed)
        return;
    b->token = calloc(n, sizeof *b->token);
    if (!b->token) {
        fields_fail(f, "out of memory");
        return;
    }
    json_object_foreach(json_is_object(all) ? all : NULL, name, value)
    {
        char *end;
        long long id = strtoll(name, &end, 10);
        add(b, f, *end || end == name ? -1 : id, value);
    }
    json_array_foreach(json_is_array(all) ? all : NULL, i, value)
    {
        int64_t id;
        add(b, f, json_whole(json_array_get(value, 0), &id) ? id : -1, json_array_get(value, 1));
    }
}

void bias_read(struct bias *b, struct fields *f, const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    *b = (struct bias){.n_vocab = info.n_vocab};
    b->frequency = (float)field_number(f, "frequency_penalty", -2, 2, 0);
    b->presence = (float)field_number(f, "presence_penalty", -2, 2, 0);
    read_tokens(b, f);
}

void bias_free(struct bias *b)
{
    free(b->token);
    free(b->logits);
    free(b->count);
}

bool bias_copy(struct bias *b, const struct bias *from)
{
    bool counts = from->frequency != 0 || from->presence != 0;
    *b = *from;
    b->token = NULL;
    b->logits = NULL;
    b->count = NULL;
    if (!from->n && !counts)
        return true;
    b->logits = malloc(b->n_vocab * sizeof *b->logits);
    b->token = malloc((b->n + 1) * sizeof *b->token);
    b->count = counts ? calloc(b->n_vocab, sizeof *b->count) : NULL;
    if (!b->logits || !b->token || (counts && !b->count))
        return false;
    if (b->n)
        memcpy(b->token, from->token, b->n * sizeof *b->token);
    return true;
}

const float *bias_apply(struct bias *b, const struct tft_session *s)
{
    const float *logits = b->logits ? tft_logits(s, 0) : NULL;
    if (!logits)
        return NULL;
    memcpy(b->logits, logits, b->n_vocab * sizeof *logits);
    for (size_t id = 0; b->count && id < b->n_vocab; id++)
        if (b->count[id])
            b->logits[id] -= b->frequency * (float)b->count[id] + b->presence;
    for (size_t i = 0; i < b->n; i++)
        b->logits[b->token[i].id] += b->token[i].add;
    return b->logits;
}

void bias_count(struct bias *b, int32_t id)
{
    if (b->count)
        b->count[id]++;
}
