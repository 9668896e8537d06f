#include "naming.h"

#include <event2/util.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fields.h"

void name_make(char out[NAME_ROOM], const char *before, int digits)
{
    uint64_t bits;
    evutil_secure_rng_get_bytes(&bits, sizeof bits);
    snprintf(out, NAME_ROOM, "%s%0*llx", before, digits,
             (unsigned long long)(bits >> (64 - 4 * digits)));
}

void name_call(char out[NAME_ROOM]) { name_make(out, "", 9); }

json_t *name_model(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t n = strlen(file);
    bool gguf = n > 5 && strcmp(file + n - 5, ".gguf") == 0;
    return json_bytes(file, gguf ? n - 5 : n);
}
