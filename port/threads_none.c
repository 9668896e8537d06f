/* Teams of one. */
#include "team.h"

void tft_port_team(int n, tft_team_fn *fn, void *arg)
{
    (void)n;
    tft_team_alone(fn, arg);
}

const char *tft_port_threads(void)
{
    return NULL;
}
