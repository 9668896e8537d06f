#include "port.h"

#include <omp.h>

void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg)
{
    if (n <= 1) {
        fn(arg, 0, 1); /* without a region: a barrier outside one does nothing */
        return;
    }
#pragma omp parallel num_threads(n)
    fn(arg, omp_get_thread_num(), omp_get_num_threads());
}

void tft_port_barrier(void)
{
#pragma omp barrier
}

bool tft_port_threaded(void)
{
    return true;
}
