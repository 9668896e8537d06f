#include "kernels.h"

#include <string.h>

#include "isas.h"

static const char *limit; /* a name in tft_ladder, or NULL. The library's only global variable. */

/* The i-th ISA level of this machine, from the lowest; NULL past the last. */
static const struct tft_isa *isa(int i)
{
    const struct tft_isa *r = tft_ladder;
    for (; r->name; r++)
        if ((!r->present || r->present()) && i-- == 0)
            return r;
    return NULL;
}

int tft_kernels_isas(void)
{
    int n = 0;
    while (isa(n))
        n++;
    return n;
}

void tft_kernels_fill(struct tft_kernels *k, int top)
{
    for (int i = 0; i <= top; i++) {
        isa(i)->fill(k);
        k->name = isa(i)->name;
    }
}

const char *tft_kernels_name(int i)
{
    return isa(i)->name;
}

const char *tft_kernels_built_in(size_t i)
{
    const struct tft_isa *r = tft_ladder;
    while (r->name && i-- > 0)
        r++;
    return r->name;
}

int tft_kernels_best(void)
{
    int i = 0; /* stops at the limit: to look for amx asks the system for a permission */
    for (; isa(i); i++)
        if (limit && strcmp(isa(i)->name, limit) == 0)
            return i;
    return i - 1;
}

bool tft_kernels_limit(const char *name)
{
    if (!name) {
        limit = NULL;
        return true;
    }
    for (int i = 0; isa(i); i++)
        if (strcmp(isa(i)->name, name) == 0) {
            limit = isa(i)->name;
            return true;
        }
    return false;
}
