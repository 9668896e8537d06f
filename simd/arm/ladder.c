/* Every 64-bit ARM has NEON with fma; the operating system reports the other features. */
#include "simd/isas.h"

#include "port/port.h"

static bool has_dotprod(void)
{
    return tft_port_cpu_features() & TFT_ARM_DOTPROD;
}

static bool has_i8mm(void)
{
    return tft_port_cpu_features() & TFT_ARM_I8MM;
}

#if TFT_SME
/* Few tokens are i8mm's. */
static bool has_sme(void)
{
    return tft_port_cpu_features() & TFT_ARM_SME && has_dotprod() && has_i8mm() && tft_sme_right();
}
#endif

const struct tft_isa tft_ladder[] = {
    {"c", NULL, tft_isa_c},
    {"neon", NULL, tft_isa_neon},
    {"dotprod", has_dotprod, tft_isa_dotprod},
    {"i8mm", has_i8mm, tft_isa_i8mm},
#if TFT_SME
    {"sme", has_sme, tft_isa_sme},
#endif
    {0},
};
