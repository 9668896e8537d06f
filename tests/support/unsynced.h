/* The files of a test need not outlive a loss of power, so nothing waits for the disk. Include it
   in one file of a program, after the feature macros. */
#ifndef TFT_TEST_UNSYNCED_H
#define TFT_TEST_UNSYNCED_H

#ifndef _WIN32
#include <unistd.h>

/* Takes the place of the system's. test_gguf_write.c checks the calls. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}
#endif

#endif
