#include "clock.h"

#include <stdio.h>

/* CPU numbers may have gaps: an offline CPU has no clock. */
enum { MOST_CPUS = 4096, LAST_GAP = 64 };

static bool read_khz(double *khz, const char *folder, int cpu, const char *name)
{
    char path[512];
    long n = 0;
    int len = snprintf(path, sizeof path, "%s/cpu%d/cpufreq/%s", folder, cpu, name);
    FILE *f = len > 0 && (size_t)len < sizeof path ? fopen(path, "r") : NULL;
    bool known = f && fscanf(f, "%9ld", &n) == 1 && n > 0;
    if (f)
        fclose(f);
    *khz = (double)n;
    return known;
}

bool clock_read(struct clock *c, const char *folder)
{
    int n = 0;
    *c = (struct clock){0};
    for (int cpu = 0, gap = 0; cpu < MOST_CPUS && gap < LAST_GAP; cpu++) {
        double now, most;
        gap++;
        if (!read_khz(&now, folder, cpu, "scaling_cur_freq") ||
            !read_khz(&most, folder, cpu, "cpuinfo_max_freq"))
            continue;
        c->mhz += now / 1000;
        c->most_mhz += most / 1000;
        n++;
        gap = 0;
    }
    c->mhz /= n ? n : 1;
    c->most_mhz /= n ? n : 1;
    return n;
}
