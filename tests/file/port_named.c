/* The port for systems on which every file has a name. */
#define _GNU_SOURCE
#include <fcntl.h>
#undef O_TMPFILE
#include "port/posix.c"
