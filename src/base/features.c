#include "port/port.h"
#include "simd/kernels.h"
#include "tuffet.h"

uint32_t tft_version_number(void)
{
    return TFT_VERSION_NUMBER;
}

const char *tft_feature(size_t i)
{
    const char *const options[] = {tft_port_threads(), TFT_CUDA ? "cuda" : NULL};
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if (options[k] && i-- == 0)
            return options[k];
    return tft_kernels_built_in(i);
}
