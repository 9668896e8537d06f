#include "naming.h"

#include <event2/util.h>
#include <stdint.h>
#include <stdio.h>

void name_make(char out[NAME_ROOM], const char *before, int digits)
{
    uint64_t bits;
    evutil_secure_rng_get_bytes(&bits, sizeof bits);
    snprintf(out, NAME_ROOM, "%s%0*llx", before, digits,
             (unsigned long long)(bits >> (64 - 4 * digits)));
}

void name_call(char out[NAME_ROOM]) { name_make(out, "", 9); }
