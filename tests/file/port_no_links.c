/* The port for a system that forbids links, as Android does. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

static int forbidden(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    (void)from_folder, (void)from, (void)to_folder, (void)to, (void)flags;
    errno = EACCES;
    return -1;
}

#define linkat forbidden
#include "port/posix.c"
