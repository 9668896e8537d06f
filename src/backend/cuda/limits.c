/*
 * The peak rates of a GPU, computed from its clock rates. Multiply-adds per clock and
 * multiprocessor are NVIDIA's figures: fp32 from the arithmetic throughput table of the CUDA
 * programming guide, int8 from the whitepaper of each generation (dense, tensor cores).
 */
#include <math.h>

#include "inside.h"

static const struct {
    int capability;
    double int8, f32; /* multiply-adds per clock */
} multiprocessors[] = {
    {75, 1024, 64},  {80, 2048, 64},   {86, 1024, 128},  {87, 2048, 128},  {89, 1024, 128},
    {90, 4096, 128}, {100, 8192, 128}, {120, 1024, 128}, {121, 1024, 128},
};

/* 0 if the driver does not report it. */
static int attribute(const struct device *d, int name)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, name, d->index) == cudaSuccess)
        return value;
    cudaGetLastError(); /* else the next pass would report this error */
    return 0;
}

static double nan_if_zero(double x) { return x > 0 ? x : NAN; }

void tft_cuda_limits(const void *device, double *read, double *int8, double *fma)
{
    const struct device *d = device;
    double clocks = (double)attribute(d, cudaDevAttrClockRate) * 1e3 *
                    attribute(d, cudaDevAttrMultiProcessorCount); /* per second, of all */
    /* double data rate: memory transfers at both edges of the clock */
    double transfers = (double)attribute(d, cudaDevAttrMemoryClockRate) * 1e3 * 2;
    int capability = 10 * attribute(d, cudaDevAttrComputeCapabilityMajor) +
                     attribute(d, cudaDevAttrComputeCapabilityMinor);
    *int8 = *fma = NAN;
    for (size_t i = 0; i < sizeof multiprocessors / sizeof *multiprocessors; i++)
        if (multiprocessors[i].capability == capability) {
            *int8 = nan_if_zero(2 * multiprocessors[i].int8 * clocks / 1e9);
            *fma = nan_if_zero(2 * multiprocessors[i].f32 * clocks / 1e9);
        }
    *read = nan_if_zero(transfers * attribute(d, cudaDevAttrGlobalMemoryBusWidth) / 8 / 1e9);
}
