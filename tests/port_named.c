/* The port as it is on systems whose files must have names. */
#define _GNU_SOURCE
#include <fcntl.h>
#undef O_TMPFILE
#include "port/posix.c"
