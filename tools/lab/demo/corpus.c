#include "corpus.h"

#include "port/port.h"
#include "tool.h"

#include <stdlib.h>

enum { ID_BOS = 1 };

static void add_story(struct corpus *c, const struct target *at, size_t n)
{
    if (c->n == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 1024;
        c->story = realloc(c->story, c->capacity * sizeof *c->story);
        if (!c->story)
            die("out of memory");
    }
    c->story[c->n++] = (struct story){at, n};
    c->tokens += n;
}

void corpus_add(struct corpus *c, const char *path)
{
    struct tft_map map;
    if (tft_port_map(&map, path))
        die("%s: cannot be mapped", path);
    const struct target *at = (const void *)map.data;
    size_t n = map.size / sizeof *at, start = 0;
    for (size_t i = 1; i <= n; i++)
        if (i == n || at[i].token == ID_BOS) {
            add_story(c, at + start, i - start);
            start = i;
        }
    if (!n || at[0].token != ID_BOS)
        die("%s: contains no story", path);
}

void corpus_window(const struct corpus *c, uint64_t *random, uint16_t *token, struct target *target,
                   int t)
{
    for (int n = 0; n <= t;) { /* t + 1 records are t pairs of a token and the target after it */
        const struct story *s = &c->story[random_below(random, c->n)];
        for (size_t i = 0; i < s->n && n <= t; i++, n++) {
            if (n < t)
                token[n] = s->at[i].token;
            if (n > 0)
                target[n - 1] = s->at[i];
        }
    }
}

double targets_entropy(const struct target *target, int t)
{
    double sum = 0;
    for (int i = 0; i < t; i++) {
        double rest = target[i].p[0] ? 1 : 0;
        for (int k = 0; k < TARGETS && target[i].p[k]; k++) {
            double p = target[i].p[k] / 65535.0;
            sum -= p * log(p);
            rest -= p;
        }
        if (rest > 0)
            sum -= rest * log(rest);
    }
    return sum;
}
