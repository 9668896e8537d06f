/* Vectors are an option of RISC-V. */
#include "simd/isas.h"

#include "port/port.h"

static bool has_v(void)
{
    return tft_port_cpu_features() & TFT_RISCV_V;
}

const struct tft_isa tft_ladder[] = {{"c", NULL, tft_isa_c}, {"v", has_v, tft_isa_v}, {0}};
