/*
 * Kernels' access to slots (kv/kv.h): the places of their numbers, and slots of bytes.
 *
 * Slots of bytes hold the same numbers as the CPU's (struct tft_kv_int8), in an order of their own:
 * a word has four numbers that one dot4 multiplies, of four channels of a key, or of a channel in
 * four slots of values. Sums of rows are not needed, and nothing has to be cleared: no result
 * depends on a slot that is not in use.
 */
#ifndef TFT_CUDA_SLOTS_CUH
#define TFT_CUDA_SLOTS_CUH

#include "simd/affine.h"
#include "launch.h"
#include "machine.cuh"

/* Numbers of a head's key in slots, with padding. Num: float, uint16_t for f16, int8_t for bytes */
template <typename Num> static inline __host__ __device__ uint32_t key_width(uint32_t dim)
{
    return sizeof(Num) == 1 ? (dim + TFT_QUAD - 1) / TFT_QUAD * TFT_QUAD : dim;
}

/* The place of number d of a slot's key among the keys of a head, and of its value. */
template <typename Num>
static inline __device__ size_t key_at(uint32_t slot, uint32_t d, uint32_t dim)
{
    uint32_t quad = sizeof(Num) == 1 ? TFT_QUAD : 1;
    size_t column = (size_t)(slot / TFT_KEY_PANEL) * (key_width<Num>(dim) / quad) + d / quad;
    return (column * TFT_KEY_PANEL + slot % TFT_KEY_PANEL) * quad + d % quad;
}

template <typename Num>
static inline __device__ size_t value_at(uint32_t slot, uint32_t d, uint32_t dim)
{
    uint32_t quad = sizeof(Num) == 1 ? TFT_QUAD : 1;
    return ((size_t)(slot / quad) * dim + d) * quad + slot % quad;
}

/* The same, with the keys or values of the heads before `head`. side: 0 for keys, 1 for values */
template <typename Num>
static inline __device__ size_t slot_at(const struct tft_cuda_slots &s, uint32_t side,
                                        uint32_t head, uint32_t slot, uint32_t d)
{
    size_t before = (size_t)head * s.capacity[side];
    return side == 0 ? before * key_width<Num>(s.dim) + key_at<Num>(slot, d, s.dim)
                     : before * s.dim + value_at<Num>(slot, d, s.dim);
}

/* The scale of a slot of bytes. */
static inline __device__ float *slot_scale(const struct tft_cuda_slots &s, uint32_t side,
                                           uint32_t head, uint32_t slot)
{
    return s.scale[side] + (size_t)head * s.capacity[side] + slot;
}

/* tft_kv_affine of the numbers x(0) .. x(n - 1), by a warp. */
template <typename Number>
static inline __device__ struct tft_affine byte_affine(uint32_t n, Number x)
{
    constexpr uint32_t LANES = 32;
    float largest = 0;
    for (uint32_t d = threadIdx.x % LANES; d < n; d += LANES) {
        float size = fabsf(x(d));
        largest = size > largest ? size : largest;
    }
    for (unsigned half = LANES / 2; half; half /= 2) {
        float other = __shfl_xor_sync(0xffffffff, largest, half);
        largest = other > largest ? other : largest;
    }
    bool in_range = largest >= TFT_FOLD_LEAST && largest <= FLT_MAX;
    return {in_range ? largest / 127 : 0, in_range ? 127 / largest : 0, 128};
}

/* Whether `own` is true in any lane of the warp. */
static inline __device__ bool any_lane(bool own)
{
    uint32_t any = own;
    for (unsigned half = 16; half; half /= 2)
        any |= __shfl_xor_sync(0xffffffff, any, half);
    return any;
}

#endif
