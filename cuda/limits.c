/* What a GPU can do at most, from its clocks and what its maker says that a multiprocessor does in one: the tables of CUDA's programming
   guide (arithmetic throughput) and the whitepapers of each generation (dense int8 of its tensor cores). */
#include <math.h>

#include "inside.h"

/* Multiply-adds in a clock. */
static const struct {
    int capability;
    double int8, f32;
} multiprocessors[] = {
    {75, 1024, 64}, {80, 2048, 64}, {86, 1024, 128}, {87, 2048, 128}, {89, 1024, 128}, {90, 4096, 128},
    {100, 8192, 128}, {120, 1024, 128}, {121, 1024, 128},
};

static double attribute(const struct device *d, int which)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, d->which) == cudaSuccess && value > 0 ? value : NAN;
}

void tft_cuda_limits(const void *device, double *read, double *int8, double *fma)
{
    const struct device *d = device;
    double khz = attribute(d, cudaDevAttrClockRate), many = attribute(d, cudaDevAttrMultiProcessorCount);
    double major = attribute(d, cudaDevAttrComputeCapabilityMajor), minor = attribute(d, cudaDevAttrComputeCapabilityMinor);
    int capability = (int)(10 * major) + (isnan(minor) ? 0 : (int)minor);
    *int8 = *fma = NAN;
    for (size_t i = 0; i < sizeof multiprocessors / sizeof *multiprocessors; i++)
        if (multiprocessors[i].capability == capability) {
            *int8 = 2 * multiprocessors[i].int8 * many * khz / 1e6;
            *fma = 2 * multiprocessors[i].f32 * many * khz / 1e6;
        }
    *read = 2 * attribute(d, cudaDevAttrMemoryClockRate) * attribute(d, cudaDevAttrGlobalMemoryBusWidth) / 8 / 1e6; /* both edges */
}
