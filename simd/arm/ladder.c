/* Every 64-bit ARM has NEON with fma; the operating system reports the other features. */
#include "simd/isas.h"

#include "port/port.h"

static bool has_dotprod(void)
{
    return tft_port_arm_features() & TFT_ARM_DOTPROD;
}

static bool has_i8mm(void)
{
    return tft_port_arm_features() & TFT_ARM_I8MM;
}

const struct tft_isa tft_ladder[] = {
    {"c", NULL, tft_isa_c},
    {"neon", NULL, tft_isa_neon},
    {"dotprod", has_dotprod, tft_isa_dotprod},
    {"i8mm", has_i8mm, tft_isa_i8mm},
    {0},
};
