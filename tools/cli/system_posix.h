/* What files of POSIX systems share beside system.h. */
#ifndef SYSTEM_POSIX_H
#define SYSTEM_POSIX_H

#include <sys/stat.h>

#include "tools/cli/system.h"

static inline struct system_file system_file_of(const struct stat *st)
{
    return (struct system_file){.device = (uint64_t)st->st_dev,
                                .number = (uint64_t)st->st_ino,
                                .size = (uint64_t)st->st_size,
                                .seconds = (int64_t)st->st_mtim.tv_sec,
                                .ns = (int64_t)st->st_mtim.tv_nsec};
}

#endif
