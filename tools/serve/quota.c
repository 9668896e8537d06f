#include "quota.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct quota {
    size_t n;
    struct limit {
        char name[KEYS_NAME + 1];
        uint32_t requests, tokens; /* of the file; 0: any */
        double left;               /* tokens, at the time `at` */
        uint64_t at;               /* ns */
    } of[];
};

static struct limit *find(const struct quota *q, const char *name)
{
    for (size_t i = 0; q && i < q->n; i++)
        if (strcmp(q->of[i].name, name) == 0)
            return (struct limit *)&q->of[i];
    return NULL;
}

static void refill(struct limit *l, uint64_t now)
{
    double more = now > l->at ? (double)(now - l->at) / 60e9 * l->tokens : 0;
    l->left = fmin(l->left + more, l->tokens);
    l->at = now;
}

struct quota *quota_open(const struct setup *s, const struct quota *old, uint64_t now)
{
    struct quota *q = calloc(1, sizeof *q + s->n_keys * sizeof *q->of);
    if (!q)
        return NULL;
    q->n = s->n_keys;
    for (size_t i = 0; i < q->n; i++) {
        const struct setup_key *k = &s->keys[i];
        const struct limit *was = find(old, k->name);
        q->of[i] = (struct limit){.requests = k->requests,
                                  .tokens = k->tokens,
                                  .left = was && was->tokens ? was->left : k->tokens,
                                  .at = was && was->tokens ? was->at : now};
        snprintf(q->of[i].name, sizeof q->of[i].name, "%s", k->name);
    }
    return q;
}

void quota_close(struct quota *q) { free(q); }

unsigned quota_check(struct quota *q, const char *name, size_t running, uint64_t now,
                     char why[QUOTA_WHY])
{
    struct limit *l = find(q, name);
    if (!l)
        return 0;
    refill(l, now);
    if (l->requests && running >= l->requests) {
        snprintf(why, QUOTA_WHY, "this key may have %u requests at once", l->requests);
        return 1;
    }
    if (l->tokens && l->left <= 0) {
        snprintf(why, QUOTA_WHY, "this key may use %u tokens a minute", l->tokens);
        return 1 + (unsigned)(-l->left * 60 / l->tokens);
    }
    return 0;
}

void quota_spend(struct quota *q, const char *name, uint64_t now, size_t tokens)
{
    struct limit *l = find(q, name);
    if (!l)
        return;
    refill(l, now);
    l->left -= (double)tokens;
}
