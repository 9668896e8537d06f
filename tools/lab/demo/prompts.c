#include "prompts.h"

#include "tool.h"

#include <ctype.h>
#include <string.h>

enum { MAX_LINES = 256 };

struct line { /* a list "NAME = a|b", or a pattern, which has no name */
    const char *name, *text;
    size_t name_len, len;
};

struct prompts {
    struct line list[MAX_LINES], pattern[MAX_LINES];
    size_t n_lists, n_patterns;
};

static void add(struct prompts *p, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    if (len == 0 || text[0] == '#')
        return;
    if (p->n_lists == MAX_LINES || p->n_patterns == MAX_LINES)
        die("more than %d lines of prompts", MAX_LINES);
    if (!equals) {
        p->pattern[p->n_patterns++] = (struct line){NULL, text, 0, len};
        return;
    }
    const char *from = equals + 2;
    p->list[p->n_lists++] = (struct line){text, from, (size_t)(equals - text) - 1,
                                          len - (size_t)(from - text)};
}

struct prompts *prompts_read(const char *path)
{
    struct prompts *p = take(1, sizeof *p);
    size_t len;
    char *text = read_text(path, &len);
    for (char *at = text, *end; at < text + len; at = end + 1) {
        end = strchr(at, '\n');
        if (!end)
            end = text + len;
        add(p, at, (size_t)(end - at));
    }
    if (!p->n_patterns)
        die("%s: no pattern in it", path);
    return p;
}

struct writer {
    char *out;
    int n, cap;
};

static void expand(const struct prompts *p, const char *text, size_t len, uint64_t *random,
                   struct writer *w);

/* Writes one of "a|b|c", none of which contains braces. */
static void expand_one(const struct prompts *p, const char *text, size_t len, uint64_t *random,
                       struct writer *w)
{
    size_t n = 1;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '|';
    for (size_t skip = random_below(random, n); skip > 0; skip--) {
        size_t past = (size_t)((const char *)memchr(text, '|', len) - text) + 1;
        text += past;
        len -= past;
    }
    const char *end = memchr(text, '|', len);
    expand(p, text, end ? (size_t)(end - text) : len, random, w);
}

static const struct line *find_list(const struct prompts *p, const char *text, size_t len)
{
    for (size_t i = 0; i < p->n_lists; i++)
        if (p->list[i].name_len == len && !memcmp(p->list[i].name, text, len))
            return &p->list[i];
    return NULL;
}

static void expand(const struct prompts *p, const char *text, size_t len, uint64_t *random,
                   struct writer *w)
{
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && isupper((unsigned char)text[i + n]))
            n++;
        const struct line *list = n > 1 ? find_list(p, text + i, n) : NULL;
        const char *close = text[i] == '{' ? memchr(text + i, '}', len - i) : NULL;
        if (list) {
            expand_one(p, list->text, list->len, random, w);
            i += n;
        } else if (close) {
            n = (size_t)(close - text) - i;
            expand_one(p, text + i + 1, n - 1, random, w);
            i += n + 1;
        } else {
            if (w->n + 1 < w->cap)
                w->out[w->n++] = text[i];
            i++;
        }
    }
}

int prompts_draw(const struct prompts *p, uint64_t *random, char *out, int cap)
{
    struct writer w = {out, 0, cap};
    const struct line *line = &p->pattern[random_below(random, p->n_patterns)];
    expand(p, line->text, line->len, random, &w);
    while (w.n > 0 && out[w.n - 1] == ' ')
        w.n--;
    out[w.n] = 0;
    return w.n;
}
