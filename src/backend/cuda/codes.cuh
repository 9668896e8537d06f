/* Full blocks of a quantized cache on the device: coded.h's records, codes.h's quads. */
#ifndef TFT_CUDA_CODES_CUH
#define TFT_CUDA_CODES_CUH

#include "simd/codes.h"
#include "simd/expf.h"
#include "simd/half.h"
#include "launch.h"
#include "machine.cuh"

/* use(i, load(i)) for each i < n, in order, with AHEAD loads under way at a time: a thread that
   waits for each of them would wait for memory most of its time. */
template <uint32_t AHEAD, typename Load, typename Use>
static inline __device__ void ahead(uint32_t n, Load load, Use use)
{
    uint32_t i = 0;
    ONCE
    for (; i + AHEAD <= n; i += AHEAD) {
        decltype(load(0)) x[AHEAD];
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++)
            x[k] = load(i + k);
        UNROLL
        for (uint32_t k = 0; k < AHEAD; k++)
            use(i + k, x[k]);
    }
    ONCE
    for (; AHEAD > 1 && i < n; i++)
        use(i, load(i));
}

/* Scales, or where they begin n further, middles of a record: `at` counts both. */
static inline __device__ float record_scale(const struct tft_cuda_blocks &b,
                                            const unsigned char *scales, uint32_t n, uint32_t at)
{
    if (!b.f8)
        return tft_f16_to_f32(((const uint16_t *)scales)[at]);
    return tft_f8_to_f32(scales[2 + at]) * tft_pow2i((int8_t)scales[at >= n]);
}

/* A number's scale and middle as they are held, so that reading them depends on nothing: two bytes
   each, of which E4M3 is one, and the record's exponents. */
struct raw_scaling {
    uint8_t scale[2], mid[2], exponent[2];
};

static inline __device__ struct raw_scaling record_scaling(const struct tft_cuda_blocks &b,
                                                           const unsigned char *scales, uint32_t n,
                                                           uint32_t at)
{
    uint32_t bytes = b.f8 ? 1 : 2, s = b.f8 ? 2 + at : 2 * at, m = s + n * bytes, next = bytes - 1;
    return {{scales[s], scales[s + next]}, {scales[m], scales[m + next]}, {scales[0], scales[1]}};
}

static inline __device__ float held(const struct tft_cuda_blocks &b, const uint8_t x[2],
                                    uint8_t exponent)
{
    return b.f8 ? tft_f8_to_f32(x[0]) * tft_pow2i((int8_t)exponent)
                : tft_f16_to_f32((uint16_t)(x[0] | x[1] << 8));
}

static inline __device__ float scale_of(const struct tft_cuda_blocks &b,
                                        const struct raw_scaling &s)
{
    return held(b, s.scale, s.exponent[0]);
}

static inline __device__ float mid_of(const struct tft_cuda_blocks &b, const struct raw_scaling &s)
{
    return held(b, s.mid, s.exponent[1]);
}

static inline __device__ unsigned char *record(const struct tft_cuda_blocks &b,
                                               const struct tft_cuda_side &s, uint32_t head,
                                               uint32_t block)
{
    return s.records + ((size_t)head * b.n_blocks + block) * s.record_bytes;
}

/* Groups of channels of a head that share scales, of a side with scales by token. */
static inline __host__ __device__ uint32_t channel_groups(const struct tft_cuda_blocks &b)
{
    return (b.dim + b.group_channels - 1) / b.group_channels;
}

static inline __host__ __device__ uint32_t n_scales(const struct tft_cuda_blocks &b,
                                                    const struct tft_cuda_side &s)
{
    return s.per_token ? channel_groups(b) * b.block_tokens : b.dim;
}

/* Levels of channel d of the keys. */
static inline __device__ uint32_t key_levels(const uint16_t quads[TFT_BITS_COUNT], uint32_t d)
{
    uint32_t b = 0, q = d / TFT_QUAD;
    for (; q >= quads[b]; b++)
        q -= quads[b];
    return tft_bits_levels((enum tft_bits)b);
}

/* Four bits of 1-bit codes: 0 or 1 in each byte; word `row % 2` of the quad's, code 4 row + i in
   bit row / 2 of byte i. */
static inline __device__ uint32_t quad_1(const unsigned char *quad, uint32_t row)
{
    return ((const uint32_t *)quad)[row % 2] >> row / 2 & 0x01010101;
}

static inline __device__ uint32_t quad_2(const unsigned char *quad, uint32_t row)
{
    return ((const uint32_t *)quad)[row % 4] >> 2 * (row / 4) & 0x03030303;
}

/* The first digits of four fractions in base 3; and what is left of them. */
static inline __device__ uint32_t digits(uint32_t *fractions)
{
    uint32_t even = (*fractions & 0x00ff00ff) * 3, odd = (*fractions >> 8 & 0x00ff00ff) * 3;
    *fractions = (even & 0x00ff00ff) | (odd & 0x00ff00ff) << 8;
    return (even >> 8 & 0x00ff00ff) | (odd & 0xff00ff00);
}

/* take(q, four codes) for each of `quads` quads of row `row` of a panel, all of `bits`. Returns
   where the quads end. */
template <uint32_t AHEAD, typename Take>
static inline __device__ const unsigned char *
each_quad(enum tft_bits bits, uint32_t quads, const unsigned char *at, uint32_t row, Take take)
{
    uint32_t fives = bits == TFT_BITS_3_LEVELS ? quads / TFT_TRIT_QUADS : 0,
             first = fives * TFT_TRIT_QUADS, n = quads - first;
    const unsigned char *rest = at + 64 * fives;
    auto later = [&](uint32_t q, uint32_t four) { take(first + q, four); };
    switch (bits) {
    case TFT_BITS_1:
        ahead<AHEAD>(
            n, [=](uint32_t q) { return quad_1(at + 8 * q, row); }, later);
        break;
    case TFT_BITS_3_LEVELS:
        ahead<AHEAD>(
            fives, [=](uint32_t five) { return ((const uint32_t *)at)[16 * five + row]; },
            [&](uint32_t five, uint32_t fractions) {
                for (uint32_t i = 0; i < TFT_TRIT_QUADS; i++)
                    take(five * TFT_TRIT_QUADS + i, digits(&fractions));
            }); /* fall through */
    case TFT_BITS_2:
        ahead<AHEAD>(
            n, [=](uint32_t q) { return quad_2(rest + 16 * q, row); }, later);
        break;
    case TFT_BITS_3:
        ahead<AHEAD>(
            n,
            [=](uint32_t q) {
                return quad_2(at + 24 * q, row) | quad_1(at + 24 * q + 16, row) << 2;
            },
            later);
        break;
    case TFT_BITS_4:
        ahead<AHEAD>(
            n,
            [=](uint32_t q) {
                return ((const uint32_t *)at)[8 * q + row % 8] >> 4 * (row / 8) & 0x0f0f0f0f;
            },
            later);
        break;
    default:
        ahead<AHEAD>(
            n, [=](uint32_t q) { return ((const uint32_t *)at)[16 * q + row]; }, later);
    }
    return at + tft_codes_bytes(bits, quads);
}

#endif
