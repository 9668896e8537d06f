/* Progress. */
#include "cli.h"

#include <unistd.h>

#include "port/port.h"
#include "system.h"

uint64_t cli_ns(void) { return tft_port_ns(); }

void cli_progress_begin(struct cli_progress *p, const char *what)
{
    *p = (struct cli_progress){.what = what, .start = cli_ns()};
}

void cli_progress_at(struct cli_progress *p, double done)
{
    enum { WIDTH = 30 };
    const uint64_t second = 1000000000;
    uint64_t now = cli_ns(), spent = now - p->start, first = p->soon ? second / 2 : 2 * second;
    if (!system_is_terminal(STDERR_FILENO) || spent < first || now - p->shown < second / 10 ||
        !(done > 0))
        return;
    int full = (int)(done * WIDTH);
    double left = (double)spent / 1e9 * (1 - done) / done;
    fprintf(stderr, "\r%c %s [%.*s%*s] %3.0f %%, %.0f s left \x1b[K",
            "|/-\\"[now / (second / 10) % 4], p->what, full, "##############################",
            WIDTH - full, "", done * 100, left);
    p->shown = now;
    p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn)
        fputs("\r\x1b[K", stderr);
    p->drawn = false;
}
