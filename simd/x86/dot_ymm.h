/* The sums and tokens of gemm_i8.h in registers of 256 bits: a quad of a panel is two registers;
   every lane repeats the 4 bytes of a token. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    __m256i low, high;
} d_acc;
typedef const uint8_t *d_bytes;

static inline d_acc d_zero(void) { return (d_acc){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline d_acc d_add(d_acc a, d_acc b)
{
    return (d_acc){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
static inline d_bytes d_token(const uint8_t *x, size_t next) { return (void)next, x; }
static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    _mm256_storeu_si256((__m256i *)sum, a.low);
    _mm256_storeu_si256((__m256i *)sum + 1, a.high);
}
