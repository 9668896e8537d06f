/* What differs between systems that have POSIX threads: thread_posix.c, and thread_windows.c for
   MinGW's. */
#ifndef TFT_THREAD_H
#define TFT_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread, which gets none of the process's signals. stack: bytes; 0: the system's default.
   Returns 0 or an errno. */
int tft_port_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg);

/* As pthread_atfork, where there is fork(). */
void tft_port_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
