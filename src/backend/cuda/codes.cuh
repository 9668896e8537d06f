/* Kernels' access to the blocks of a quantized cache: records (kv/kv.h) and their quads of codes
   (simd/codes.h). */
#ifndef TFT_CUDA_CODES_CUH
#define TFT_CUDA_CODES_CUH

#include "simd/codes.h"
#include "simd/expf.h"
#include "simd/half.h"
#include "launch.h"
#include "machine.cuh"

/* Calls use(i, load(i)) for i = 0 .. n - 1 in order, but loads AHEAD values before their use, so
   the thread does not wait for memory at each step. */
template <uint32_t AHEAD, typename Load, typename Use>
static inline __device__ void load_ahead(uint32_t n, Load load, Use use)
{
    uint32_t i = 0;
    NO_UNROLL
    for (; i + AHEAD <= n; i += AHEAD) {
        decltype(load(0)) x[AHEAD];
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++)
            x[k] = load(i + k);
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++)
            use(i + k, x[k]);
    }
    NO_UNROLL
    for (; AHEAD > 1 && i < n; i++)
        use(i, load(i));
}

/* Number `at` of a record's n scales and n middles: the scales come first. */
static inline __device__ float scale_or_mid(const struct tft_cuda_blocks &b,
                                            const unsigned char *scales, uint32_t n, uint32_t at)
{
    if (!b.f8)
        return tft_f16_to_f32(((const uint16_t *)scales)[at]);
    return tft_f8_to_f32(scales[2 + at]) * tft_pow2i((int8_t)scales[at >= n]);
}

/* The bytes of a scale and its middle, before conversion, so the reads need not wait for one
   another. */
struct raw_scaling {
    uint8_t scale[2], mid[2]; /* f16; or E4M3 in the first byte */
    uint8_t exponent[2];      /* E4M3: of the record's scales, of its middles */
};

/* The bytes of scale `at` and its middle, in a record with n scales. */
static inline __device__ struct raw_scaling raw_scaling_at(const struct tft_cuda_blocks &b,
                                                           const unsigned char *scales, uint32_t n,
                                                           uint32_t at)
{
    uint32_t bytes = b.f8 ? 1 : 2, s = b.f8 ? 2 + at : 2 * at, m = s + n * bytes, next = bytes - 1;
    return {{scales[s], scales[s + next]}, {scales[m], scales[m + next]}, {scales[0], scales[1]}};
}

static inline __device__ float converted(const struct tft_cuda_blocks &b, const uint8_t x[2],
                                         uint8_t exponent)
{
    return b.f8 ? tft_f8_to_f32(x[0]) * tft_pow2i((int8_t)exponent)
                : tft_f16_to_f32((uint16_t)(x[0] | x[1] << 8));
}

static inline __device__ float scale_of(const struct tft_cuda_blocks &b,
                                        const struct raw_scaling &s)
{
    return converted(b, s.scale, s.exponent[0]);
}

static inline __device__ float mid_of(const struct tft_cuda_blocks &b, const struct raw_scaling &s)
{
    return converted(b, s.mid, s.exponent[1]);
}

/* The record of a head's keys or values in a block. */
static inline __device__ unsigned char *record(const struct tft_cuda_blocks &b,
                                               const struct tft_cuda_side &s, uint32_t head,
                                               uint32_t block)
{
    return s.records + ((size_t)head * b.n_blocks + block) * s.record_bytes;
}

/* Groups of channels of a head; a group shares a scale if scales are per token. */
static inline __host__ __device__ uint32_t channel_groups(const struct tft_cuda_blocks &b)
{
    return (b.dim + b.group_channels - 1) / b.group_channels;
}

/* The number of scales, and of middles, of a record. */
static inline __host__ __device__ uint32_t n_scales(const struct tft_cuda_blocks &b,
                                                    const struct tft_cuda_side &s)
{
    return s.per_token ? channel_groups(b) * b.block_tokens : b.dim;
}

/* The number of levels of the codes of channel d of a head's keys. quads: the head's */
static inline __device__ uint32_t key_levels(const uint16_t quads[TFT_BITS_COUNT], uint32_t d)
{
    uint32_t b = 0, q = d / TFT_QUAD;
    for (; q >= quads[b]; b++)
        q -= quads[b];
    return tft_bits_levels((enum tft_bits)b);
}

/* The four 1-bit codes of a row of a quad, one in each byte: code 4 row + i is bit row / 2 of byte
   i of word row % 2. */
static inline __device__ uint32_t unpack_1(const unsigned char *quad, uint32_t row)
{
    return ((const uint32_t *)quad)[row % 2] >> row / 2 & 0x01010101;
}

/* The four 2-bit codes of a row of a quad. */
static inline __device__ uint32_t unpack_2(const unsigned char *quad, uint32_t row)
{
    return ((const uint32_t *)quad)[row % 4] >> 2 * (row / 4) & 0x03030303;
}

/* The next base-3 digits of four fractions, one in each byte; *fractions keeps the rest. */
static inline __device__ uint32_t next_digits(uint32_t *fractions)
{
    uint32_t even = (*fractions & 0x00ff00ff) * 3, odd = (*fractions >> 8 & 0x00ff00ff) * 3;
    *fractions = (even & 0x00ff00ff) | (odd & 0x00ff00ff) << 8;
    return (even >> 8 & 0x00ff00ff) | (odd & 0xff00ff00);
}

/* Calls take(q, four codes) for the codes of row `row` in each of `quads` quads of a panel, all of
   the same `bits`. Returns the end of the quads. */
template <uint32_t AHEAD, typename Take>
static inline __device__ const unsigned char *
each_quad(enum tft_bits bits, uint32_t quads, const unsigned char *at, uint32_t row, Take take)
{
    uint32_t fives = bits == TFT_BITS_3_LEVELS ? quads / TFT_TRIT_QUADS : 0,
             first = fives * TFT_TRIT_QUADS, n = quads - first;
    const unsigned char *rest = at + 64 * fives;
    auto take_rest = [&](uint32_t q, uint32_t four) { take(first + q, four); };
    switch (bits) {
    case TFT_BITS_1:
        load_ahead<AHEAD>(
            n, [=](uint32_t q) { return unpack_1(at + 8 * q, row); }, take_rest);
        break;
    case TFT_BITS_3_LEVELS:
        load_ahead<AHEAD>(
            fives, [=](uint32_t five) { return ((const uint32_t *)at)[16 * five + row]; },
            [&](uint32_t five, uint32_t fractions) {
                for (uint32_t i = 0; i < TFT_TRIT_QUADS; i++)
                    take(five * TFT_TRIT_QUADS + i, next_digits(&fractions));
            }); /* fall through */
    case TFT_BITS_2:
        load_ahead<AHEAD>(
            n, [=](uint32_t q) { return unpack_2(rest + 16 * q, row); }, take_rest);
        break;
    case TFT_BITS_3:
        load_ahead<AHEAD>(
            n,
            [=](uint32_t q) {
                return unpack_2(at + 24 * q, row) | unpack_1(at + 24 * q + 16, row) << 2;
            },
            take_rest);
        break;
    case TFT_BITS_4:
        load_ahead<AHEAD>(
            n,
            [=](uint32_t q) {
                return ((const uint32_t *)at)[8 * q + row % 8] >> 4 * (row / 8) & 0x0f0f0f0f;
            },
            take_rest);
        break;
    default:
        load_ahead<AHEAD>(
            n, [=](uint32_t q) { return ((const uint32_t *)at)[16 * q + row]; }, take_rest);
    }
    return at + tft_codes_bytes(bits, quads);
}

#endif
