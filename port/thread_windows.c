#define _WIN32_WINNT 0x0602
#include "thread.h"

#include <windows.h>

/* A DLL whose code a thread runs stays loaded. */
static void stay_loaded(void)
{
    HMODULE self;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                       (LPCSTR)(uintptr_t)stay_loaded, &self);
}

/* The system runs handlers of signals in threads of their own. */
int tft_port_start(pthread_t *out, size_t stack, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int err = pthread_attr_init(&attr);
    if (err)
        return err;
    stay_loaded();
    if (stack)
        err = pthread_attr_setstacksize(&attr, stack);
    if (!err)
        err = pthread_create(out, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return err;
}

/* There is no fork(). */
void tft_port_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before;
    (void)in_parent;
    (void)in_child;
}
