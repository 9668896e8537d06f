#include "samples.h"

#include "tools/cli/cli.h"
#include "tools/cli/system.h"

bool samples_add(struct samples *s)
{
    uint64_t start = cli_ns();
    if (!measure_limits(&s->x[s->n], s->threads))
        return false;
    s->n++;
    s->ended = cli_ns();
    s->took = s->ended - start;
    return true;
}

bool samples_between(struct samples *s)
{
    uint64_t left;
    if (s->fixed || s->n == SAMPLES_MOST || cli_ns() - s->ended < 4 * s->took)
        return false;
    if (system_memory_left(&left) && left < 2 * (uint64_t)LIMITS_BUFFER)
        return false;
    return samples_add(s);
}

void samples_fix(struct samples *s, struct limits l)
{
    s->fixed = true;
    s->n = 1;
    s->x[0] = l;
}

struct samples_spread samples_spread(const struct samples *s)
{
    double read[SAMPLES_MOST], int8[SAMPLES_MOST], fma[SAMPLES_MOST];
    for (size_t i = 0; i < s->n; i++) {
        read[i] = s->x[i].read_gbps;
        int8[i] = s->x[i].int8_gops;
        fma[i] = s->x[i].fma_gflops;
    }
    return (struct samples_spread){spread_of(read, s->n), spread_of(int8, s->n),
                                   spread_of(fma, s->n)};
}

struct limits samples_limits(const struct samples *s)
{
    struct samples_spread x = samples_spread(s);
    return (struct limits){x.read_gbps.median, x.int8_gops.median, x.fma_gflops.median};
}
