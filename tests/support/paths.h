/* Paths of test data that is not in the repository. Each function returns NULL if the file does not
   exist: the test then calls skip(). */
#ifndef TFT_TEST_PATHS_H
#define TFT_TEST_PATHS_H

#include <stdio.h>
#include <stdlib.h>

/* DIR SUB/NAME if that file exists. */
static inline const char *path_if_exists(const char *dir, const char *sub, const char *name)
{
    static char path[4][4096]; /* the last four results stay valid */
    static unsigned next;
    char *p = path[next++ % 4];
    if (!dir)
        return NULL;
    snprintf(p, sizeof path[0], "%s%s/%s", dir, sub, name);
    FILE *f = fopen(p, "rb");
    if (!f)
        return NULL;
    fclose(f);
    return p;
}

/* A file in $TUFFET_SHARED, or else in the folder `shared` beside the source tree. */
static inline const char *shared_path(const char *name)
{
    const char *shared = getenv("TUFFET_SHARED");
    return shared ? path_if_exists(shared, "", name)
                  : path_if_exists(getenv("TUFFET_SOURCE"), "/../shared", name);
}

/* A downloaded model: in $TUFFET_MODELS, or else in the user's cache. */
static inline const char *model_path(const char *name)
{
    const char *models = getenv("TUFFET_MODELS");
    return models ? path_if_exists(models, "", name)
                  : path_if_exists(getenv("HOME"), "/.cache/tuffet/models", name);
}

#endif
