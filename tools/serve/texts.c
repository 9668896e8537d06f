#include "texts.h"

#include <stdlib.h>

struct texts *texts_new(size_t n)
{
    struct texts *t = calloc(1, sizeof *t + n * sizeof *t->text);
    if (t)
        t->n = n;
    return t;
}

static void free_text(struct text *t)
{
    free(t->ids);
    free(t->types);
}

void texts_free(struct texts *t)
{
    for (size_t i = 0; t && i < t->n; i++)
        free_text(&t->text[i]);
    free(t);
}
