#include "openai_logprobs.h"

#include <math.h>
#include <string.h>

#include "fields.h"

/* -9999 is OpenAI's number for a token that cannot come. */
static json_t *real(double x)
{
    return isnan(x) ? json_null() : json_real(isfinite(x) ? x : -9999);
}

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

json_t *logprobs_unknown(const struct tft_model *m, int32_t id)
{
    json_t *entry = token(m, &(struct tft_choice){id, NAN});
    json_object_set_new(entry, "top_logprobs", json_null());
    return entry;
}

json_t *logprobs_chat(json_t *entries)
{
    return entries ? json_pack("{s:o}", "content", entries) : json_null();
}

/* The most likely tokens by their text; the first of equal texts is the most likely. null: they are
   not known. */
static json_t *by_text(json_t *top)
{
    json_t *all, *entry;
    size_t i;
    if (json_is_null(top))
        return json_null();
    all = json_object();
    json_array_foreach(top, i, entry)
    {
        const char *text = json_string_value(json_object_get(entry, "token"));
        if (text && !json_object_get(all, text))
            json_object_set(all, text, json_object_get(entry, "logprob"));
    }
    return all;
}

static size_t count_characters(const char *p, size_t n)
{
    size_t characters = 0;
    for (size_t i = 0; i < n; i++)
        characters += ((unsigned char)p[i] & 0xc0) != 0x80;
    return characters;
}

/* Number of bytes if the special token stands in the echo by its name; or 0. */
static size_t named(const struct shown *shown, const struct tft_model *m, int32_t id)
{
    size_t n, plain;
    const char *name = tft_token_text(m, id, true, &n);
    tft_token_text(m, id, false, &plain);
    bool there = !plain && shown->at < shown->n_echo && n <= shown->n_echo - shown->at &&
                 memcmp(shown->echo + shown->at, name, n) == 0;
    return there ? n : 0;
}

/* Whether the text has no space where the token begins with one: vocabularies put spaces before the
   first word, and after special tokens. */
static bool has_extra_space(const struct shown *shown, const char *piece, size_t len)
{
    return len && *piece == ' ' && shown->at < shown->n_echo && shown->echo[shown->at] != ' ';
}

/* Adds a token and its offset. Its text is the one that it has in the text of the choice. */
static void add_token(json_t *tokens, json_t *offsets, const json_t *entry,
                      const struct tft_model *m, struct shown *shown)
{
    char piece[TFT_TEXT_MAX];
    int32_t id = (int32_t)json_integer_value(json_object_get(entry, "id"));
    bool fresh = !shown->state.started;
    size_t n, len = tft_text_push(&shown->state, m, id, piece), special = named(shown, m, id),
              space = has_extra_space(shown, piece, len);
    const char *name = tft_token_text(m, id, true, &n), *p = piece + space;
    len -= space;
    bool cut = (fresh || space) && !special && n && *name == ' ' && len + 1 == n;
    json_array_append_new(tokens, cut ? json_bytes(p, len) : json_bytes(name, n));
    json_array_append_new(offsets, json_integer((json_int_t)shown->offset));
    shown->at += len + special;
    shown->offset += count_characters(p, len) + count_characters(name, special);
}

json_t *logprobs_completion(json_t *entries, const struct tft_model *m, struct shown *shown)
{
    if (!entries)
        return json_null();
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(),
           *offsets = json_array(), *entry;
    size_t i;
    json_array_foreach(entries, i, entry)
    {
        add_token(tokens, offsets, entry, m, shown);
        json_array_append(values, json_object_get(entry, "logprob"));
        json_array_append_new(tops, by_text(json_object_get(entry, "top_logprobs")));
    }
    json_decref(entries);
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values,
                     "top_logprobs", tops, "text_offset", offsets);
}
