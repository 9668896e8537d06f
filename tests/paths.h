/* Test data that is not in the repository. Each function gives NULL where a file is not there:
   skip() then. */
#ifndef TFT_TEST_PATHS_H
#define TFT_TEST_PATHS_H

#include <stdio.h>
#include <stdlib.h>

static inline const char *path_if_there(const char *dir, const char *sub, const char *name)
{
    static char path[4][4096]; /* a few may be in use at once */
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

/* A file of the folder `shared` beside the source tree, or of $TUFFET_SHARED. */
static inline const char *shared_path(const char *name)
{
    const char *shared = getenv("TUFFET_SHARED");
    return shared ? path_if_there(shared, "", name)
                  : path_if_there(getenv("TUFFET_SOURCE"), "/../shared", name);
}

/* A model that was downloaded: from $TUFFET_MODELS, or the user's cache. */
static inline const char *model_path(const char *name)
{
    const char *models = getenv("TUFFET_MODELS");
    return models ? path_if_there(models, "", name)
                  : path_if_there(getenv("HOME"), "/.cache/tuffet/models", name);
}

#endif
