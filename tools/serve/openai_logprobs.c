#include "openai_logprobs.h"

#include <math.h>
#include <string.h>

#include "fields.h"

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_real(-9999); }

static json_t *token(const struct tft_model *m, const struct tft_choice *c)
{
    size_t n;
    const char *p = tft_token_text(m, c->id, true, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)p[i]));
    return json_pack("{s:o,s:i,s:o,s:o}", "token", json_bytes(p, n), "id", (int)c->id, "logprob",
                     real(c->logprob), "bytes", bytes);
}

json_t *logprobs_entry(const struct tft_model *m, const struct item *item)
{
    struct tft_choice all[1 + JOB_LOGPROBS];
    memcpy(all, item->p, item->n);
    json_t *entry = token(m, &all[0]), *top = json_array();
    for (size_t i = 0; i < item->index; i++)
        json_array_append_new(top, token(m, &all[1 + i]));
    json_object_set_new(entry, "top_logprobs", top);
    return entry;
}

json_t *logprobs_chat(json_t *entries)
{
    return entries ? json_pack("{s:o}", "content", entries) : json_null();
}

/* The most likely tokens by their text; the first of equal texts is the most likely. */
static json_t *by_text(const json_t *top)
{
    json_t *all = json_object(), *entry;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)top, i, entry)
    {
        const char *text = json_string_value(json_object_get(entry, "token"));
        if (text && !json_object_get(all, text))
            json_object_set(all, text, json_object_get(entry, "logprob"));
    }
    return all;
}

json_t *logprobs_completion(json_t *entries, size_t *offset)
{
    if (!entries)
        return json_null();
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(),
           *offsets = json_array(), *entry;
    size_t i;
    json_array_foreach(entries, i, entry)
    {
        const json_t *top = json_object_get(entry, "top_logprobs");
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(values, json_object_get(entry, "logprob"));
        json_array_append_new(tops, by_text(top));
        json_array_append_new(offsets, json_integer((json_int_t)*offset));
        *offset += json_array_size(json_object_get(entry, "bytes"));
    }
    json_decref(entries);
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", tops, "text_offset", offsets);
}
