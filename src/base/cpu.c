/* The public functions about the CPU that tuffet runs on. */
#include "port/port.h"
#include "simd/kernels.h"
#include "tuffet.h"

const char *tft_cpu_name(void)
{
    return tft_kernels_name(tft_kernels_best());
}

enum tft_status tft_cpu_limit(const char *isa)
{
    return tft_kernels_limit(isa) ? TFT_OK : TFT_ERR_ARG;
}

int tft_cpu_threads(void)
{
    return tft_port_threaded() ? tft_port_cpus() : 1;
}
