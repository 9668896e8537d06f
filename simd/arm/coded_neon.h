/* The registers of bytes that codes_attention.h wants, for NEON. */
typedef uint8x16_t breg;
enum { BYTES = 16 };

static inline breg b_set(uint8_t x) { return vdupq_n_u8(x); }
static inline breg b_and(breg a, breg b) { return vandq_u8(a, b); }
static inline breg b_add(breg a, breg b) { return vaddq_u8(a, b); }
static inline breg b_subs(breg a, breg b) { return vqsubq_u8(a, b); }
static inline breg b_min(breg a, breg b) { return vminq_u8(a, b); }
static inline void b_store(uint8_t *p, breg a) { vst1q_u8(p, a); }
static inline breg b_lookup(const uint8_t *table, breg a) { return vqtbl1q_u8(vld1q_u8(table), a); }
static inline breg b_shift(breg a, const uint64_t *n)
{
    int64x2_t left = vnegq_s64(vreinterpretq_s64_u64(vld1q_u64(n)));
    return vreinterpretq_u8_u64(vshlq_u64(vreinterpretq_u64_u8(a), left));
}

static inline breg b_repeat(const uint8_t *p, int r, int period)
{
    return period == 8 ? vcombine_u8(vld1_u8(p), vld1_u8(p)) : vld1q_u8(p + r * BYTES % period);
}
