/* What a GPU can do at most, from its clocks and what its maker says that a multiprocessor does in
   one: the tables of CUDA's programming guide (arithmetic throughput) and the whitepapers of each
   generation (dense int8 of its tensor cores). */
#include <math.h>

#include "inside.h"

/* Multiply-adds in a clock. */
static const struct {
    int capability;
    double int8, f32;
} multiprocessors[] = {
    {75, 1024, 64},  {80, 2048, 64},   {86, 1024, 128},  {87, 2048, 128},  {89, 1024, 128},
    {90, 4096, 128}, {100, 8192, 128}, {120, 1024, 128}, {121, 1024, 128},
};

/* 0 if it is not known. */
static int attribute(const struct device *d, int which)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, d->which) == cudaSuccess ? value : 0;
}

static double known(double x)
{
    return x > 0 ? x : NAN;
}

void tft_cuda_limits(const void *device, double *read, double *int8, double *fma)
{
    const struct device *d = device;
    double clocks = (double)attribute(d, cudaDevAttrClockRate) * 1e3 *
                    attribute(d, cudaDevAttrMultiProcessorCount);
    /* at both edges */
    double transfers = (double)attribute(d, cudaDevAttrMemoryClockRate) * 1e3 * 2;
    int capability = 10 * attribute(d, cudaDevAttrComputeCapabilityMajor) +
                     attribute(d, cudaDevAttrComputeCapabilityMinor);
    *int8 = *fma = NAN;
    for (size_t i = 0; i < sizeof multiprocessors / sizeof *multiprocessors; i++)
        if (multiprocessors[i].capability == capability) {
            *int8 = known(2 * multiprocessors[i].int8 * clocks / 1e9);
            *fma = known(2 * multiprocessors[i].f32 * clocks / 1e9);
        }
    *read = known(transfers * attribute(d, cudaDevAttrGlobalMemoryBusWidth) / 8 / 1e9);
}
