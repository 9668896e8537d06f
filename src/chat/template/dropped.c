/* Finds messages that a template dropped. */
#include <string.h>

#include "base/options.h"
#include "base/utf8.h"
#include "history.h"
#include "input.h"

/* Characters without white space. */
struct squeezed {
    char *p; /* [n] */
    size_t n;
};

struct search {
    struct jinja *x;
    struct squeezed in; /* the parts of the text that are not trusted: what messages say */
    struct squeezed all; /* the whole text */
    size_t at;          /* after the last text that was found: messages come in their order */
};

/* ---- squeezing */

/* The length of a word that templates act on and remove (SmolLM 3); 0: none. */
static size_t switch_at(const char *p, size_t n)
{
    static const char *const words[] = {"/no_think", "/think", "/system_override"};
    for (size_t i = 0; i < sizeof words / sizeof *words && *p == '/'; i++)
        if (strlen(words[i]) <= n && memcmp(p, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

/* Adds p[n]; out->p has room. */
static void squeeze(struct squeezed *out, const char *p, size_t n)
{
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        size_t word = switch_at(p + at, n - at);
        len = word ? word : tft_utf8_next(p + at, n - at, &c);
        if (word || tft_jinja_space(c))
            continue;
        memcpy(out->p + out->n, p + at, len);
        out->n += len;
    }
}

static struct squeezed squeezed(struct jinja *x, const char *p, size_t n)
{
    struct squeezed out = {.p = tft_jinja_spend(x, n / 4) ? tft_jinja_take(x, n + 1, 1) : NULL};
    if (out.p)
        squeeze(&out, p, n);
    return out;
}

/* The parts of the text that are not trusted. */
static struct squeezed untrusted(struct jinja *x, const struct tft_chat_text *t)
{
    struct squeezed out = {.p = tft_jinja_spend(x, t->n / 4) ? tft_jinja_take(x, t->n + 1, 1)
                                                             : NULL};
    size_t at = 0;
    for (size_t i = 0; out.p && i <= t->n_trusted; i++) {
        size_t end = i < t->n_trusted ? t->trusted[i].begin : t->n;
        squeeze(&out, t->p + at, end - at);
        at = i < t->n_trusted ? t->trusted[i].end : at;
    }
    return out;
}

/* ---- searching */

/* Where p[n] has what[len], by a rolling hash (Karp and Rabin); n: nowhere. */
static size_t position(struct jinja *x, const char *p, size_t n, const char *what, size_t len)
{
    const uint64_t base = 0x9e3779b97f4a7c15;
    uint64_t hash = 0, wanted = 0, top = 1;
    if (len > n || !tft_jinja_spend(x, n / 16))
        return n;
    for (size_t i = 0; i < len; i++) {
        hash = hash * base + (unsigned char)p[i];
        wanted = wanted * base + (unsigned char)what[i];
        top *= i ? base : 1;
    }
    for (size_t at = 0; at + len <= n; at++) {
        if (hash == wanted && tft_jinja_spend(x, len / 16) && memcmp(p + at, what, len) == 0)
            return at;
        if (at + len < n)
            hash = (hash - (unsigned char)p[at] * top) * base + (unsigned char)p[at + len];
    }
    return n;
}

/* Looks for p[n] after the last text, then before. */
static bool find(struct search *s, const char *p, size_t n)
{
    const struct squeezed what = squeezed(s->x, p, n);
    const char *in = s->in.p;
    if (!what.p || !what.n)
        return true;
    size_t rest = s->in.n - s->at, at = position(s->x, in + s->at, rest, what.p, what.n);
    if (at < rest) {
        s->at += at + what.n;
        return true;
    }
    size_t before = s->at + what.n - 1 < s->in.n ? s->at + what.n - 1 : s->in.n;
    return position(s->x, in, before, what.p, what.n) < before;
}

/* Whether the text stands as a JSON string. */
static bool find_string(struct search *s, struct jinja_value said)
{
    const struct jinja_args none = {0};
    const struct jinja_value json = tft_jinja_tojson(s->x, said, &none);
    return json.kind != JINJA_STRING || find(s, json.string->p + 1, json.string->n - 2);
}

/* Whether the text is a JSON object or list, and its value stands as JSON: anywhere, because
   numbers and brackets of a value that a template has read and written again are not marked as
   untrusted. */
static bool find_value(struct search *s, struct jinja_value said)
{
    const struct jinja_args none = {0};
    const struct squeezed text = squeezed(s->x, said.string->p, said.string->n);
    if (!text.p || !text.n || !strchr("{[", *text.p))
        return false;
    struct jinja x = *s->x; /* text that is not JSON is no failure of the search */
    x.chunk = NULL;
    x.memory = 0;
    struct jinja_value v = tft_jinja_read_json(&x, said.string);
    if (x.status == TFT_OK)
        v = tft_jinja_tojson(&x, v, &none);
    const struct squeezed what =
        x.status == TFT_OK ? squeezed(s->x, v.string->p, v.string->n) : (struct squeezed){0};
    bool found = what.p && position(s->x, s->all.p, s->all.n, what.p, what.n) < s->all.n;
    if (x.status == TFT_ERR_NOMEM)
        tft_jinja_fail(s->x, TFT_ERR_NOMEM, "out of memory");
    tft_jinja_free(&x);
    return found;
}

static bool stands(struct search *s, struct jinja_value said)
{
    return find(s, said.string->p, said.string->n) || find_string(s, said) || find_value(s, said);
}

/* ---- messages */

static bool is_there(struct search *s, struct jinja_value message)
{
    const struct jinja_value *text = tft_chat_member(s->x, message, "content", JINJA_STRING),
                             *parts = tft_chat_member(s->x, message, "content", JINJA_LIST);
    if (text)
        return stands(s, *text);
    for (size_t i = 0; parts && i < parts->list->n; i++) {
        text = tft_chat_member(s->x, parts->list->item[i], "text", JINJA_STRING);
        if (text && !stands(s, *text))
            return false;
    }
    return true;
}

static bool has_role(struct jinja *x, struct jinja_value message, const char *const *roles)
{
    const struct jinja_value *role = tft_chat_member(x, message, "role", JINJA_STRING);
    while (role && *roles && !tft_jinja_is(role->string, *roles))
        roles++;
    return role && *roles;
}

enum tft_status tft_chat_dropped(size_t *said, size_t *result, const struct tft_chat_text *text,
                                 const struct tft_chat_input *in, struct tft_error *err)
{
    static const char *const says[] = {"system", "developer", "user", NULL}, *const answers[] = {
                                                                                 "assistant",
                                                                                 "model", NULL};
    struct tft_chat_input i;
    struct jinja_scope scope = {0};
    *said = *result = SIZE_MAX;
    enum tft_status status = tft_options_take(&i, sizeof i, in, "tft_chat_input", err);
    if (status == TFT_OK)
        status = tft_options_reserved(text->reserved, sizeof text->reserved, "tft_chat_text", err);
    if (status != TFT_OK)
        return status;
    struct jinja x = tft_chat_pool(&i);
    x.scope = &scope;
    struct jinja_value messages = tft_chat_set_variables(&x, &i, CHAT_EITHER);
    struct search s = {.x = &x, .in = untrusted(&x, text), .all = squeezed(&x, text->p, text->n)};
    for (size_t k = 0; messages.kind == JINJA_LIST && k < messages.list->n; k++) {
        struct jinja_value m = messages.list->item[k];
        size_t *first = has_role(&x, m, says) ? said : result;
        if (*first == SIZE_MAX && !has_role(&x, m, answers) && !is_there(&s, m))
            *first = k;
    }
    if (x.status != TFT_OK && err)
        *err = x.err;
    tft_jinja_free(&x);
    return x.status;
}
