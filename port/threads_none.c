/* A team of one, for builds without OpenMP. */
#include "port.h"

void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg)
{
    (void)n;
    fn(arg, 0, 1);
}

void tft_port_barrier(void)
{
}

bool tft_port_threaded(void)
{
    return false;
}
