#include "kernels.h"

#include <string.h>

#include "rungs.h"

static const char *limit; /* the library's one global: tft_cpu_limit */

bool tft_always(void)
{
    return true;
}

int tft_kernels_rungs(void)
{
    int n = 0;
    while (tft_ladder[n].name && tft_ladder[n].present())
        n++;
    return n;
}

void tft_kernels_fill(struct tft_kernels *k, int rung)
{
    for (int i = 0; i <= rung; i++) {
        tft_ladder[i].fill(k);
        k->name = tft_ladder[i].name;
    }
}

const char *tft_kernels_name(int rung)
{
    return tft_ladder[rung].name;
}

int tft_kernels_best(void)
{
    int n = tft_kernels_rungs() - 1;
    for (int i = 0; limit && i < n; i++)
        if (strcmp(tft_ladder[i].name, limit) == 0)
            return i;
    return n;
}

bool tft_kernels_limit(const char *name)
{
    int n = tft_kernels_rungs();
    for (int i = 0; name && i < n; i++)
        if (strcmp(tft_ladder[i].name, name) == 0) {
            limit = tft_ladder[i].name;
            return true;
        }
    if (!name)
        limit = NULL;
    return !name;
}
