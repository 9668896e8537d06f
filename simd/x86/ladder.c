/* __builtin_cpu_supports() checks the CPU, and that the operating system saves its registers. */
#include "simd/isas.h"

#include <cpuid.h>

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

const struct tft_isa tft_ladder[] = {
    {"c", NULL, tft_isa_c},
    {"avx2", has_avx2, tft_isa_avx2},
    {"avxvnni", has_avxvnni, tft_isa_avxvnni},
    {"avx512", has_avx512, tft_isa_avx512},
    {"avx512vnni", has_avx512vnni, tft_isa_avx512vnni},
    {0},
};
