#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "thread.h"

#include <signal.h>

int tft_port_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int err = pthread_attr_init(&attr);
    if (err)
        return err;
    if (stack)
        err = pthread_attr_setstacksize(&attr, stack);
    sigset_t every, was;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &was); /* the thread begins with this mask */
    if (!err)
        err = pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

void tft_port_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    pthread_atfork(before, in_parent, in_child);
}
