#include "kernels.h"

#include <string.h>

#include "rungs.h"

static const char *limit; /* the library's one global: tft_cpu_limit */

bool tft_always(void)
{
    return true;
}

/* The i-th rung that this machine has, from the bottom; NULL past the last. */
static const struct tft_rung *rung(int i)
{
    const struct tft_rung *r = tft_ladder;
    for (; r->name; r++)
        if (r->present() && i-- == 0)
            return r;
    return NULL;
}

int tft_kernels_rungs(void)
{
    int n = 0;
    while (rung(n))
        n++;
    return n;
}

void tft_kernels_fill(struct tft_kernels *k, int top)
{
    for (int i = 0; i <= top; i++) {
        rung(i)->fill(k);
        k->name = rung(i)->name;
    }
}

const char *tft_kernels_name(int i)
{
    return rung(i)->name;
}

int tft_kernels_best(void)
{
    int n = tft_kernels_rungs() - 1;
    for (int i = 0; limit && i < n; i++)
        if (strcmp(rung(i)->name, limit) == 0)
            return i;
    return n;
}

bool tft_kernels_limit(const char *name)
{
    int n = tft_kernels_rungs();
    for (int i = 0; name && i < n; i++)
        if (strcmp(rung(i)->name, name) == 0) {
            limit = rung(i)->name;
            return true;
        }
    if (!name)
        limit = NULL;
    return !name;
}
