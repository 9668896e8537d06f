/* Names of the hub, in a build without libcurl. */
#include "operand.h"

#include <string.h>

#include "tools/cli/cli.h"

int pull_operand(const char **operand)
{
    return strncmp(*operand, "hf:", 3) != 0
               ? CLI_OK
               : cli_fail("%s: this build fetches no models: it takes libcurl, OpenSSL and jansson "
                          "(Debian: libcurl4-openssl-dev, libssl-dev, libjansson-dev)",
                          *operand);
}
