/* __builtin_cpu_supports() checks the CPU, and that the operating system saves its registers. */
#include "simd/isas.h"

#include <cpuid.h>

#include "port/port.h"

/* Some compilers' __builtin_cpu_supports() does not know the name "f16c" .. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* .. or "avxvnni". */
static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1 << 4);
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

#if TFT_AMX
/* Tiles, and products of bytes by them; few tokens are avx512vnni's. The system is asked last. */
static bool has_amx(void)
{
    enum { AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };
    unsigned a, b, c, d;
    return has_avx512vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & AMX_TILE &&
           d & AMX_INT8 && tft_port_cpu_features() & TFT_X86_AMX;
}
#endif

const struct tft_isa tft_ladder[] = {
    {"c", NULL, tft_isa_c},
    {"avx2", has_avx2, tft_isa_avx2},
    {"avxvnni", has_avxvnni, tft_isa_avxvnni},
    {"avx512", has_avx512, tft_isa_avx512},
    {"avx512vnni", has_avx512vnni, tft_isa_avx512vnni},
#if TFT_AMX
    {"amx", has_amx, tft_isa_amx},
#endif
    {0},
};
