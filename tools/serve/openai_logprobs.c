#include "openai_logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lost.h"
#include "tools/json/read.h"

static size_t all; /* bytes that are kept */

/* ---- keeping */

/* The tokens follow each other: the number of alternatives, the token, the alternatives. UNKNOWN:
   neither the token's log-probability nor alternatives are known. */
#define UNKNOWN UINT32_MAX
struct token {
    uint32_t n;
    bool known;
    struct tft_choice choice[1 + JOB_LOGPROBS];
};

static bool append(struct cli_text *t, const void *p, size_t n)
{
    return cli_text_append(t, p, n);
}

static bool keep(struct logprobs *l, uint32_t n, const void *choices, size_t size)
{
    size_t before = l->kept.n, bytes = sizeof n + size;
    if (bytes > LOGPROBS_ALL - all)
        return false;
    if (!append(&l->kept, &n, sizeof n) || !append(&l->kept, choices, size)) {
        l->kept.n = before;
        return false;
    }
    all += bytes;
    return true;
}

bool logprobs_keep(struct logprobs *l, const struct item *item)
{
    return keep(l, (uint32_t)item->index, item->p, item->n);
}

bool logprobs_keep_unknown(struct logprobs *l, int32_t id)
{
    return keep(l, UNKNOWN, &(struct tft_choice){id, NAN}, sizeof(struct tft_choice));
}

void logprobs_free(struct logprobs *l)
{
    all -= l->kept.n;
    free(l->kept.p);
    l->kept = (struct cli_text){0};
}

/* Reads the token at *at, and moves there. False: there are no more. */
static bool next(const struct logprobs *l, size_t *at, struct token *t)
{
    if (*at == l->kept.n)
        return false;
    memcpy(&t->n, l->kept.p + *at, sizeof t->n);
    t->known = t->n != UNKNOWN;
    t->n = t->known ? t->n : 0;
    size_t bytes = (1 + t->n) * sizeof *t->choice;
    memcpy(t->choice, l->kept.p + *at + sizeof t->n, bytes);
    *at += sizeof t->n + bytes;
    return true;
}

/* ---- writing */

static bool say(struct cli_text *to, const char *p) { return append(to, p, strlen(p)); }

/* A real number in JSON has a point or an exponent. -9999 is OpenAI's number for a token that
   cannot come. */
static bool say_number(struct cli_text *to, double x)
{
    char text[32];
    if (isnan(x))
        return say(to, "null");
    snprintf(text, sizeof text, "%.9g", isfinite(x) ? x : -9999);
    return say(to, text) && (strpbrk(text, ".e") || say(to, ".0"));
}

static bool say_text(struct cli_text *to, const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    return cli_text_json(to, p ? p : "", n);
}

static bool say_bytes(struct cli_text *to, const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    bool good = say(to, "[");
    for (size_t i = 0; i < n && good; i++) {
        char number[8];
        snprintf(number, sizeof number, i ? ",%u" : "%u", (unsigned char)p[i]);
        good = say(to, number);
    }
    return good && say(to, "]");
}

/* The members of a token of a chat, without the end of the object. */
static bool say_token(struct cli_text *to, const struct tft_model *m, const struct tft_choice *c)
{
    char id[32];
    snprintf(id, sizeof id, ",\"id\":%d,\"logprob\":", (int)c->id);
    return say(to, "{\"token\":") && say_text(to, m, c->id) && say(to, id) &&
           say_number(to, c->logprob) && say(to, ",\"bytes\":") && say_bytes(to, m, c->id);
}

static bool say_entry(struct cli_text *to, const struct tft_model *m, const struct token *t)
{
    bool good = say_token(to, m, &t->choice[0]) && say(to, ",\"top_logprobs\":[");
    for (size_t i = 0; i < t->n && good; i++)
        good = (!i || say(to, ",")) && say_token(to, m, &t->choice[1 + i]) && say(to, "}");
    return good && say(to, "]}");
}

static bool write_chat(struct cli_text *to, const struct tft_model *m, const struct logprobs *l)
{
    struct token t;
    bool good = say(to, "{\"content\":[");
    for (size_t at = 0; good && next(l, &at, &t);)
        good = (to->p[to->n - 1] == '[' || say(to, ",")) && say_entry(to, m, &t);
    return good && say(to, "]}");
}

/* Whether the last of n keys, which ends at the end of the text, is one of the others. */
static bool is_double(const struct cli_text *to, const size_t *key, const size_t *len, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (len[i] == len[n - 1] && memcmp(to->p + key[i], to->p + key[n - 1], len[i]) == 0)
            return true;
    return false;
}

/* Names of members have no NUL in jansson: the token of that byte is shown as other bytes are that
   are no text. */
static bool say_name(struct cli_text *to, const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    return p && memchr(p, 0, n) ? say(to, "\"\xef\xbf\xbd\"") : say_text(to, m, id);
}

/* The most likely tokens by their text; the first of equal texts is the most likely. */
static bool say_by_text(struct cli_text *to, const struct tft_model *m, const struct token *t)
{
    size_t key[JOB_LOGPROBS], len[JOB_LOGPROBS], n = 0;
    bool good = say(to, "{");
    for (size_t i = 0; i < t->n && good; i++) {
        size_t before = to->n;
        if (n)
            good = say(to, ",");
        key[n] = to->n;
        good = good && say_name(to, m, t->choice[1 + i].id);
        len[n] = to->n - key[n];
        if (good && is_double(to, key, len, n + 1)) {
            to->n = before;
            continue;
        }
        n++;
        good = good && say(to, ":") && say_number(to, t->choice[1 + i].logprob);
    }
    return good && say(to, "}");
}

/* ---- completions */

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

/* Goes on by a token, and writes its text as the text of the choice has it; to: or NULL. */
static bool show(struct cli_text *to, const struct tft_model *m, int32_t id, struct shown *shown)
{
    char piece[TFT_TEXT_MAX];
    bool fresh = !shown->state.started;
    size_t n, len = tft_text_push(&shown->state, m, id, piece), special = named(shown, m, id),
              space = has_extra_space(shown, piece, len);
    const char *name = tft_token_text(m, id, true, &n), *p = piece + space;
    len -= space;
    bool cut = (fresh || space) && !special && n && *name == ' ' && len + 1 == n;
    shown->at += len + special;
    shown->offset += count_characters(p, len) + count_characters(name, special);
    return !to || (cut ? cli_text_json(to, p, len) : cli_text_json(to, name ? name : "", n));
}

static bool say_offset(struct cli_text *to, const struct tft_model *m, int32_t id,
                       struct shown *shown)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", shown->offset);
    return say(to, number) && show(NULL, m, id, shown);
}

static bool say_top(struct cli_text *to, const struct tft_model *m, const struct token *t)
{
    return t->known ? say_by_text(to, m, t) : say(to, "null");
}

static bool write_completion(struct cli_text *to, const struct tft_model *m,
                             const struct logprobs *l, struct shown *shown)
{
    static const char *const heads[] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                        "],\"top_logprobs\":[", "],\"text_offset\":["};
    struct shown first = *shown;
    bool good = true;
    struct token t;
    for (int list = 0; list < 4 && good; list++) {
        good = say(to, heads[list]);
        for (size_t at = 0; good && next(l, &at, &t);) {
            good = (to->p[to->n - 1] == '[' || say(to, ",")) &&
                   (list == 0   ? show(to, m, t.choice[0].id, &first)
                    : list == 1 ? say_number(to, t.choice[0].logprob)
                    : list == 2 ? say_top(to, m, &t)
                                : say_offset(to, m, t.choice[0].id, shown));
        }
    }
    return good && say(to, "]}");
}

bool logprobs_write(struct cli_text *to, const struct tft_model *m, struct logprobs *l,
                    struct shown *shown)
{
    bool good = !l->kept.n ? say(to, "null")
                : shown    ? write_completion(to, m, l, shown)
                           : write_chat(to, m, l);
    logprobs_free(l);
    return good;
}

json_t *logprobs_take(const struct tft_model *m, struct logprobs *l, struct shown *shown)
{
    struct cli_text t = {0};
    if (!l->kept.n)
        return json_null();
    bool good = logprobs_write(&t, m, l, shown);
    json_t *v = good ? read_json(t.p, t.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    free(t.p);
    if (!v)
        lost_note();
    return v;
}
