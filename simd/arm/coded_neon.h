/* The registers of bytes of codes_attention.h and packed_unpack.h, for NEON. */
typedef uint8x16_t breg;
enum { BYTES = 16 };

static inline breg b_set(uint8_t x) { return vdupq_n_u8(x); }
static inline breg b_and(breg a, breg b) { return vandq_u8(a, b); }
static inline breg b_add(breg a, breg b) { return vaddq_u8(a, b); }
static inline breg b_subs(breg a, breg b) { return vqsubq_u8(a, b); }
static inline breg b_min(breg a, breg b) { return vminq_u8(a, b); }
static inline void b_store(uint8_t *p, breg a) { vst1q_u8(p, a); }
static inline breg b_lookup(const uint8_t *table, breg a) { return vqtbl1q_u8(vld1q_u8(table), a); }
static inline breg b_repeat(const uint8_t *p, int r, int period)
{
    uint64_t eight;
    memcpy(&eight, p, 8);
    return period == 8 ? vreinterpretq_u8_u64(vdupq_n_u64(eight))
                       : vld1q_u8(p + r * BYTES % period);
}

/* quad.h. NEON can shift bytes, test bits and insert bits: a quad of 2 and 4 bits takes 14
   instructions; with b_shift it would take 24. */
#define HAVE_UNPACK_BITS

/* 255 for a 1-bit code of 1, 0 for a code of 0. r: [4] */
static inline void b_test(breg *r, const uint8_t *from)
{
    breg v = b_repeat(from, 0, 8), bit = vcombine_u8(vdup_n_u8(1), vdup_n_u8(2));
    r[0] = vtstq_u8(v, bit);
    r[1] = vtstq_u8(v, vshlq_n_u8(bit, 2));
    r[2] = vtstq_u8(v, vshlq_n_u8(bit, 4));
    r[3] = vtstq_u8(v, vshlq_n_u8(bit, 6));
}

FORCE_INLINE void unpack_bits(breg *a, const uint8_t *from, int bits)
{
    breg v, w;
    switch (bits) {
    case 1:
        b_test(a, from);
        UNROLL for (int r = 0; r < 4; r++)
            a[r] = b_and(a[r], b_set(1));
        break;
    case 2:
        v = vld1q_u8(from);
        a[0] = b_and(v, b_set(3));
        a[1] = b_and(vshrq_n_u8(v, 2), b_set(3));
        a[2] = b_and(vshrq_n_u8(v, 4), b_set(3));
        a[3] = vshrq_n_u8(v, 6);
        break;
    case 4:
        v = vld1q_u8(from), w = vld1q_u8(from + 16);
        a[0] = b_and(v, b_set(15));
        a[1] = b_and(w, b_set(15));
        a[2] = vshrq_n_u8(v, 4);
        a[3] = vshrq_n_u8(w, 4);
        break;
    default:
        UNROLL for (int r = 0; r < 4; r++)
            a[r] = vld1q_u8(from + 16 * r);
    }
}

FORCE_INLINE void unpack_above(breg *a, const uint8_t *from, int bits, int n, const uint8_t *above)
{
    breg b[4];
    (void)above;
    if (bits == 1) {
        b_test(b, from);
        UNROLL for (int r = 0; r < 4; r++)
            a[r] = vbslq_u8(b_set((uint8_t)(1 << n)), b[r], a[r]);
        return;
    }
    unpack_bits(b, from, bits);
    UNROLL for (int r = 0; r < 4; r++)
        a[r] = n == 2 ? vsliq_n_u8(a[r], b[r], 2) : vsliq_n_u8(a[r], b[r], 4);
}

/* load_i8.h */
#define HAVE_LOAD_I8
FORCE_INLINE v16 v_load_i8(const int8_t *x)
{
    int8x16_t a = vld1q_s8(x);
    int16x8_t low = vmovl_s8(vget_low_s8(a)), high = vmovl_high_s8(a);
    return (v16){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
                  vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                  vcvtq_f32_s32(vmovl_high_s16(high))}};
}
