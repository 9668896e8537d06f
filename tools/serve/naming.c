#include "naming.h"

#include <stdio.h>
#include <time.h>

#include "base/splitmix64.h"
#include "tools/cli/cli.h"

void name_make(char out[NAME_ROOM], const char *before, int digits)
{
    static uint64_t state;
    state += (uint64_t)time(NULL) ^ cli_ns();
    snprintf(out, NAME_ROOM, "%s%0*llx", before, digits,
             (unsigned long long)(tft_splitmix64(&state) >> (64 - 4 * digits)));
}

void name_call(char out[NAME_ROOM]) { name_make(out, "", 9); }
