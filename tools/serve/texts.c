#include "texts.h"

#include <stdlib.h>

struct texts *texts_new(size_t n)
{
    struct texts *t = calloc(1, sizeof *t + n * sizeof *t->text);
    if (t)
        t->n = n;
    return t;
}

void texts_free(struct texts *t)
{
    for (size_t i = 0; t && i < t->n; i++)
        free(t->text[i].ids);
    free(t);
}
