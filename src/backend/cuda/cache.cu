/* Kernels that change the cache: they store tokens in slots (kv/kv.h), quantize tokens into blocks
   of codes (kv/quantize.c), and drop tokens. Codes and scales have the CPU's bits. */
#include <float.h>
#include <math.h>

#include "codes.cuh"
#include "slots.cuh"
#include "simd/fit.h"

static constexpr uint32_t THREADS = 256, WARP = 32;

/* *to = v, rounded to the type of *to. */
static __device__ void narrow(float *to, float v)
{
    *to = v;
}
static __device__ void narrow(uint16_t *to, float v)
{
    *to = tft_f32_to_f16(v);
}

/* ---------------------------------------------------------------------------------------- slots */

/* tft_kv_store_key, tft_kv_store_value. A thread block has one panel of slots of a head: blockIdx.x
   is the panel, counted from the first slot's panel, blockIdx.y the head. */
template <typename Num>
static __global__ void store(struct tft_cuda_slots to, const float *k, const float *v, size_t ld,
                             uint32_t M, const struct tft_cuda_start *start)
{
    uint32_t dim = to.dim, slot[2];
    for (uint32_t s = 0; s < 2; s++)
        slot[s] = (start->slot[s] / TFT_KEY_PANEL + blockIdx.x) * TFT_KEY_PANEL;
    Num *keys = (Num *)to.k + ((size_t)blockIdx.y * to.capacity[0] + slot[0]) * dim,
        *values = (Num *)to.v + ((size_t)blockIdx.y * to.capacity[1] + slot[1]) * dim;
    for (uint32_t i = threadIdx.x; i < dim * TFT_KEY_PANEL; i += blockDim.x) {
        /* m wraps to a huge number in slots before the first */
        uint32_t c = i % TFT_KEY_PANEL, d = i / TFT_KEY_PANEL, m = slot[0] + c - start->slot[0];
        if (m < M)
            narrow(&keys[i], k[m * ld + blockIdx.y * dim + d]);
    }
    for (uint32_t i = threadIdx.x; i < dim * TFT_KEY_PANEL; i += blockDim.x) {
        uint32_t c = i / dim, d = i % dim, m = slot[1] + c - start->slot[1];
        if (m < M)
            narrow(&values[i], v[m * ld + blockIdx.y * dim + d]);
    }
}

/* Rounds the key, or value, x(0) .. x(dim - 1) to bytes, by a warp. Returns its scale; NAN if x has
   a NaN or an infinity. */
template <typename Number>
static __device__ float store_side(const struct tft_cuda_slots &to, uint32_t side, uint32_t head,
                                   uint32_t slot, Number x)
{
    struct tft_affine q = byte_affine(to.dim, x);
    int8_t *numbers = (int8_t *)(side ? to.v : to.k);
    uint32_t width = side ? to.dim : key_width<int8_t>(to.dim);
    bool has_nan = false;
    for (uint32_t d = threadIdx.x % WARP; d < width; d += WARP) {
        int byte = d < to.dim ? tft_affine_byte(x(d), &q) : q.zero;
        has_nan |= byte == 0;
        numbers[slot_at<int8_t>(to, side, head, slot, d)] = (int8_t)(byte ? byte - q.zero : -127);
    }
    if (threadIdx.x % WARP == 0)
        *slot_scale(to, side, head, slot) = q.scale;
    return any_lane(has_nan) ? NAN : q.scale;
}

/* tft_kv_store_int8 of keys and values. A warp has one token of a head: blockIdx.x counts as many
   tokens as a thread block has warps, blockIdx.y is the head. */
static __global__ void store_bytes(struct tft_cuda_slots to, const float *k, const float *v,
                                   size_t ld, uint32_t M, const struct tft_cuda_start *start)
{
    uint32_t m = blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP, head = blockIdx.y,
             slot = start->slot[0] + m;
    size_t at = m * ld + head * to.dim;
    const float *offset = to.key_offset ? to.key_offset + head * to.dim : NULL;
    if (m >= M)
        return;
    float of_key = store_side(to, 0, head, slot, [=](uint32_t d) {
        return offset ? k[at + d] - offset[d] : k[at + d];
    });
    float of_value = store_side(to, 1, head, start->slot[1] + m,
                                [=](uint32_t d) { return v[at + d]; });
    if (threadIdx.x % WARP == 0 && !(of_key >= 0 && of_value >= 0))
        *slot_scale(to, 0, head, slot) = NAN; /* attention has no numbers either */
}

void tft_cuda_put(cudaStream_t stream, const struct tft_cuda_slots *to, const float *k,
                  const float *v, size_t ld, uint32_t M, const struct tft_cuda_start *start)
{
    if (to->scale[0]) {
        uint32_t tokens = THREADS / WARP;
        launch(stream, store_bytes, dim3((M + tokens - 1) / tokens, to->heads), THREADS, 0, *to, k,
               v, ld, M, start);
        return;
    }
    /* the most panels that M slots can touch, from any first slot */
    dim3 blocks((M + 2 * TFT_KEY_PANEL - 2) / TFT_KEY_PANEL, to->heads);
    if (to->num == TFT_NUM_F16)
        launch(stream, store<uint16_t>, blocks, THREADS, 0, *to, k, v, ld, M, start);
    else
        launch(stream, store<float>, blocks, THREADS, 0, *to, k, v, ld, M, start);
}

/* tft_kv_drop_slots. A thread moves one channel of every 16th slot, in order: blockIdx.x is the
   channel, blockIdx.y the head, threadIdx.x the column in the panels of keys. Of bytes, the threads
   of the first channel also move the scales. */
template <typename Num>
static __global__ void drop(struct tft_cuda_slots s, uint32_t from, uint32_t n, uint32_t used)
{
    uint32_t c = threadIdx.x, d = blockIdx.x, head = blockIdx.y,
             slot = from + (c + TFT_KEY_PANEL - from % TFT_KEY_PANEL) % TFT_KEY_PANEL;
    Num *numbers[] = {(Num *)s.k, (Num *)s.v};
    for (; slot + n < used; slot += TFT_KEY_PANEL) {
        uint32_t old = slot + n;
        for (uint32_t side = 0; side < 2; side++) {
            numbers[side][slot_at<Num>(s, side, head, slot, d)] =
                numbers[side][slot_at<Num>(s, side, head, old, d)];
            if (sizeof(Num) == 1 && d == 0)
                *slot_scale(s, side, head, slot) = *slot_scale(s, side, head, old);
        }
    }
}

void tft_cuda_drop_slots(cudaStream_t stream, const struct tft_cuda_slots *s, uint32_t from,
                         uint32_t n, uint32_t used)
{
    dim3 blocks(s->dim, s->heads);
    if (s->scale[0])
        launch(stream, drop<int8_t>, blocks, TFT_KEY_PANEL, 0, *s, from, n, used);
    else if (s->num == TFT_NUM_F16)
        launch(stream, drop<uint16_t>, blocks, TFT_KEY_PANEL, 0, *s, from, n, used);
    else
        launch(stream, drop<float>, blocks, TFT_KEY_PANEL, 0, *s, from, n, used);
}

/* --------------------------------------------------------------------------------------- blocks */

/* The arguments of a quantization. */
struct quantization {
    struct tft_cuda_blocks to;
    struct tft_cuda_slots from;
    struct tft_cuda_clips clips;
    const uint32_t *order; /* slots of the tokens to quantize, block by block */
    uint32_t first_block;  /* the first block to fill */
    bool keys;             /* else values */
};

/* The keys or the values of a head for one block. */
struct source {
    const struct tft_cuda_slots *from;
    const uint32_t *order;         /* [block_tokens] slots */
    const uint16_t *channel_order; /* [dim] of keys, or NULL */
    const float *offset;           /* [dim] of keys, or NULL */
    uint32_t side, head;           /* side: 0 for keys, 1 for values */
};

static __device__ struct source source_of(const struct quantization &ev, uint32_t head,
                                          const uint32_t *order)
{
    size_t first = (size_t)head * ev.from.dim;
    struct source x = {};
    x.from = &ev.from;
    x.order = order;
    x.channel_order = ev.keys && ev.to.channel_order ? ev.to.channel_order + first : NULL;
    x.offset = ev.keys && ev.from.key_offset ? ev.from.key_offset + first : NULL;
    x.side = !ev.keys;
    x.head = head;
    return x;
}

/* tft_kv_read: number d of token t. */
static __device__ float read(const struct source &x, uint32_t t, uint32_t d)
{
    const struct tft_cuda_slots &s = *x.from;
    const void *numbers = x.side ? s.v : s.k;
    uint32_t slot = x.order[t];
    if (!s.scale[0])
        return tft_f16_to_f32(
            ((const uint16_t *)numbers)[slot_at<uint16_t>(s, x.side, x.head, slot, d)]);
    float v = (float)((const int8_t *)numbers)[slot_at<int8_t>(s, x.side, x.head, slot, d)] *
              *slot_scale(s, x.side, x.head, slot);
    return x.offset ? v + x.offset[d] : v;
}

/* The same; d counts channels in the order of blocks. */
static __device__ float number(const struct source &x, uint32_t t, uint32_t d)
{
    return read(x, t, x.channel_order ? x.channel_order[d] : d);
}

/* The numbers that share a scale: channels first .. first + n - 1 of a token if scales are per
   token; else all n tokens of channel `first`. */
struct group {
    uint32_t token, first, n;
    bool per_token;
};

/* The group of scale number `at` of a record. */
static __device__ struct group group_of(const struct tft_cuda_blocks &b, bool per_token,
                                        uint32_t at)
{
    uint32_t first = per_token ? at / b.block_tokens * b.group_channels : at, left = b.dim - first;
    return {at % b.block_tokens, first,
            !per_token                ? b.block_tokens
            : left < b.group_channels ? left
                                      : b.group_channels,
            per_token};
}

/* Number i of a group. */
static __device__ float member(const struct source &x, const struct group &g, uint32_t i)
{
    return g.per_token ? number(x, g.token, g.first + i) : number(x, i, g.first);
}

/* tft_fit_fn of one group: its scale and middle. half: (L - 1) / 2 */
static __device__ struct tft_fitted fit(const struct source &x, const struct group &g, float half,
                                        const struct tft_fit *how)
{
    float low = INFINITY, high = -INFINITY, least = 0;
    struct tft_fitted best = {};
    for (uint32_t i = 0; i < g.n; i++) {
        float v = member(x, g, i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    for (size_t c = 0; c < how->n_clip; c++) {
        struct tft_fitted f = tft_fitted_of(low, high, half, c, how);
        float error = 0;
        for (uint32_t i = 0; i < g.n && how->n_clip > 1; i++) {
            float v = member(x, g, i), e = v - fmaf(tft_fitted_code(v, &f) - half, f.scale, f.mid);
            error = fmaf(e, e, error);
        }
        if (c == 0 || error < least) {
            best = f;
            least = error;
        }
    }
    return best;
}

/* The fit of a group: by the first n clip ratios of the policy; or, if `own`, by the group's ratio
   in the model file, if the file has one. */
static __device__ struct tft_fit fit_settings(const struct quantization &ev,
                                              const struct tft_cuda_side &s, uint32_t head,
                                              const struct group &g, uint32_t n, bool own)
{
    struct tft_fit how = {};
    how.n_clip = n;
    how.to_zero = ev.clips.to_zero;
    for (int i = 0; i < TFT_FIT_LISTS; i++)
        how.clip[i] = own && s.clip && g.per_token
                          ? s.clip + head * channel_groups(ev.to) + g.first / ev.to.group_channels
                          : ev.clips.ratio[i];
    return how;
}

/* (L - 1) / 2 of channel d. */
static __device__ float half_of(const struct quantization &ev, const struct tft_cuda_side &s,
                                uint32_t head, uint32_t d)
{
    return (float)((ev.keys ? key_levels(ev.to.quads[head], d)
                         : tft_bits_levels((enum tft_bits)s.bits)) -
                   1) /
           2;
}

/* The least e in -100 .. 100 with largest <= 448 * 2^e, for the largest of all threads. */
static __device__ int common_exponent(float largest)
{
    __shared__ float all[THREADS];
    __syncthreads();
    all[threadIdx.x] = largest;
    for (uint32_t half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            all[threadIdx.x] = fmaxf(all[threadIdx.x], all[threadIdx.x + half]);
    }
    __syncthreads();
    int e = -100;
    while (e < 100 && !(all[0] <= TFT_F8_MAX * tft_pow2i(e)))
        e++;
    return e;
}

/* Writes the scales and middles of a record. E4M3: all scales of the record share an exponent, and
   so do all middles. The exponents come first, from fits of the whole range. */
static __device__ void store_scales(const struct quantization &ev, const struct tft_cuda_side &s,
                                    uint32_t head, const struct source &x, unsigned char *to)
{
    uint32_t n = n_scales(ev.to, s);
    int e[2] = {0, 0};
    if (ev.to.f8) {
        float largest[2] = {0, 0}; /* scale, middle */
        for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
            struct group g = group_of(ev.to, s.per_token, i);
            struct tft_fit how = fit_settings(ev, s, head, g, 1, false); /* the whole range */
            struct tft_fitted all = fit(x, g, half_of(ev, s, head, g.first), &how);
            largest[0] = fmaxf(largest[0], fabsf(all.scale));
            largest[1] = fmaxf(largest[1], fabsf(all.mid));
        }
        e[0] = common_exponent(largest[0]);
        e[1] = common_exponent(largest[1]);
    }
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        struct group g = group_of(ev.to, s.per_token, i);
        struct tft_fit how = fit_settings(ev, s, head, g, ev.clips.n, true);
        how.f8 = ev.to.f8;
        how.scale_unit = tft_pow2i(e[0]);
        how.mid_unit = tft_pow2i(e[1]);
        struct tft_fitted own = fit(x, g, half_of(ev, s, head, g.first), &how);
        if (how.f8) {
            to[2 + i] = tft_f32_to_f8(own.scale / how.scale_unit);
            to[2 + n + i] = tft_f32_to_f8(own.mid / how.mid_unit);
        } else {
            ((uint16_t *)to)[i] = tft_f32_to_f16(own.scale);
            ((uint16_t *)to)[n + i] = tft_f32_to_f16(own.mid);
        }
    }
    if (ev.to.f8 && threadIdx.x < 2)
        to[threadIdx.x] = (unsigned char)e[threadIdx.x];
}

/* A record during the packing of its codes. */
struct packing {
    const struct quantization *ev;
    const struct tft_cuda_side *s;
    const struct source *x;
    const unsigned char *scales;
    uint32_t head, panel;
    uint32_t quad; /* the first of a run of quads of equal bits */
};

/* Code i of quad `quad` of the panel: 4 row + column (simd/codes.h). */
static __device__ uint32_t code(const struct packing &p, uint32_t quad, uint32_t i)
{
    const struct tft_cuda_blocks &b = p.ev->to;
    uint32_t row = p.panel * TFT_PANEL + i / TFT_QUAD, column = quad * TFT_QUAD + i % TFT_QUAD;
    bool keys = p.ev->keys;
    uint32_t t = keys ? row : column, d = keys ? column : row, n = n_scales(b, *p.s);
    if (d >= b.dim)
        return 0;
    uint32_t at = p.s->per_token ? d / b.group_channels * b.block_tokens + t : d;
    struct tft_fitted own = {scale_or_mid(b, p.scales, n, at), scale_or_mid(b, p.scales, n, n + at),
                             0, half_of(*p.ev, *p.s, p.head, d)};
    own.inverse = own.scale >= FLT_MIN ? 1 / own.scale : 0;
    return (uint32_t)tft_fitted_code(number(*p.x, t, d), &own);
}

/* Byte `at` of a run of `quads` quads of equal bits, from p.quad on (simd/codes.h). */
static __device__ uint32_t pack(const struct packing &p, enum tft_bits bits, uint32_t quads,
                                uint32_t at)
{
    uint32_t byte = 0, quad = p.quad;
    if (bits == TFT_BITS_3_LEVELS) {
        uint32_t fives = quads / TFT_TRIT_QUADS;
        if (at < fives * 64) {
            for (uint32_t i = 0; i < TFT_TRIT_QUADS; i++)
                byte = byte * 3 + code(p, quad + at / 64 * TFT_TRIT_QUADS + i, at % 64);
            return (byte * 256 + 242) / 243;
        }
        at -= fives * 64;
        quad += fives * TFT_TRIT_QUADS;
    }
    uint32_t size = (uint32_t)tft_codes_bytes(bits, 1), in = at % size;
    quad += at / size;
    bool upper = bits == TFT_BITS_3 && in >= 16;
    switch (bits) {
    case TFT_BITS_1:
        for (uint32_t l = 0; l < 8; l++)
            byte |= code(p, quad, 8 * l + in) << l;
        break;
    case TFT_BITS_4: byte = code(p, quad, in) | code(p, quad, 32 + in) << 4; break;
    case TFT_BITS_8: byte = code(p, quad, in); break;
    default: /* 2 bits, or the lower two or the upper one of 3 */
        for (uint32_t l = 0; l < 8 && upper; l++)
            byte |= (code(p, quad, 8 * l + in - 16) >> 2) << l;
        for (uint32_t l = 0; l < 4 && !upper; l++)
            byte |= (code(p, quad, 16 * l + in) & 3) << 2 * l;
    }
    return byte;
}

/* Writes the codes of a record, a byte by each thread in turn. */
static __device__ void store_codes(struct packing p, unsigned char *to)
{
    const struct tft_cuda_blocks &b = p.ev->to;
    bool keys = p.ev->keys;
    uint32_t panels = keys ? b.block_tokens / TFT_PANEL : (b.dim + TFT_PANEL - 1) / TFT_PANEL,
             bytes = (uint32_t)p.s->code_bytes / panels;
    for (uint32_t i = threadIdx.x; i < p.s->code_bytes; i += THREADS) {
        uint32_t at = i % bytes, bits = keys ? 0 : p.s->bits,
                 quads = keys ? b.quads[p.head][0] : b.block_tokens / TFT_QUAD;
        p.panel = i / bytes;
        p.quad = 0;
        /* a panel of keys has quads of several widths, fewer bits first */
        while (at >= tft_codes_bytes((enum tft_bits)bits, quads)) {
            at -= (uint32_t)tft_codes_bytes((enum tft_bits)bits, quads);
            p.quad += quads;
            quads = b.quads[p.head][++bits];
        }
        to[i] = (unsigned char)pack(p, (enum tft_bits)bits, quads, at);
    }
}

/* Writes a record of f16. */
static __device__ void store_f16(const struct quantization &ev, const struct source &x,
                                 unsigned char *to)
{
    uint16_t *halves = (uint16_t *)to;
    uint32_t dim = ev.to.dim;
    for (uint32_t i = threadIdx.x; i < ev.to.block_tokens * dim; i += THREADS) {
        uint32_t t = i / dim, d = i % dim;
        halves[ev.keys ? key_at<uint16_t>(t, d, dim) : i] = tft_f32_to_f16(read(x, t, d));
    }
}

/* tft_kv_quantize, the new blocks. A thread block writes one record: blockIdx.x is the block,
   blockIdx.y the head. */
static __global__ void __launch_bounds__(THREADS) fill_blocks(struct quantization ev)
{
    uint32_t head = blockIdx.y;
    const struct tft_cuda_side &s = ev.keys ? ev.to.k : ev.to.v;
    unsigned char *to = record(ev.to, s, head, ev.first_block + blockIdx.x);
    struct source x = source_of(ev, head, ev.order + blockIdx.x * ev.to.block_tokens);
    if (s.bits == TFT_BITS_COUNT) {
        store_f16(ev, x, to);
        return;
    }
    store_scales(ev, s, head, x, to + s.code_bytes);
    __syncthreads();
    store_codes({&ev, &s, &x, to + s.code_bytes, head, 0, 0}, to);
}

/* tft_kv_move, the tokens that stay: gather copies slots order[0 .. n - 1] to `rows`, scatter
   copies them back to the slots from `first` on. Num: uint16_t, or int8_t for bytes. rows:
   [G, n, E]; scales: [G, n] of bytes. A thread block has one slot (blockIdx.x) of one head
   (blockIdx.y). */
template <typename Num>
static __global__ void gather(Num *rows, float *scales, struct tft_cuda_slots s, uint32_t side,
                              const uint32_t *order, uint32_t n)
{
    uint32_t head = blockIdx.y, slot = order[blockIdx.x];
    size_t row = (size_t)head * n + blockIdx.x;
    const Num *numbers = (const Num *)(side ? s.v : s.k);
    for (uint32_t d = threadIdx.x; d < s.dim; d += blockDim.x)
        rows[row * s.dim + d] = numbers[slot_at<Num>(s, side, head, slot, d)];
    if (sizeof(Num) == 1 && threadIdx.x == 0)
        scales[row] = *slot_scale(s, side, head, slot);
}

template <typename Num>
static __global__ void scatter(struct tft_cuda_slots s, const Num *rows, const float *scales,
                               uint32_t side, uint32_t first, uint32_t n)
{
    uint32_t head = blockIdx.y, slot = first + blockIdx.x;
    size_t row = (size_t)head * n + blockIdx.x;
    Num *numbers = (Num *)(side ? s.v : s.k);
    for (uint32_t d = threadIdx.x; d < s.dim; d += blockDim.x)
        numbers[slot_at<Num>(s, side, head, slot, d)] = rows[row * s.dim + d];
    if (sizeof(Num) == 1 && threadIdx.x == 0)
        *slot_scale(s, side, head, slot) = scales[row];
}

/* order: [e->stay] slots; rows, scales: workspace */
template <typename Num>
static void move(cudaStream_t stream, const struct tft_cuda_slots &s,
                 const struct tft_cuda_quantization &e, const uint32_t *order, Num *rows,
                 float *scales)
{
    dim3 blocks(e.stay, s.heads);
    launch(stream, gather<Num>, blocks, 64, 0, rows, scales, s, !e.keys, order, e.stay);
    launch(stream, scatter<Num>, blocks, 64, 0, s, rows, scales, !e.keys, e.first_slot, e.stay);
}

void tft_cuda_quantize_kv(cudaStream_t stream, const struct tft_cuda_blocks *to,
                          const struct tft_cuda_slots *from, const struct tft_cuda_quantization *e,
                          const struct tft_cuda_clips *clips, void *workspace)
{
    struct quantization ev = {*to, *from, *clips, e->order, e->first_block, e->keys};
    const uint32_t *staying = e->order + e->n_blocks * to->block_tokens;
    float *scales = (float *)workspace;
    if (e->n_blocks)
        launch(stream, fill_blocks, dim3(e->n_blocks, to->heads), THREADS, 0, ev);
    if (e->stay && from->scale[0])
        move(stream, *from, *e, staying, (int8_t *)(scales + to->heads * e->stay), scales);
    else if (e->stay)
        move(stream, *from, *e, staying, (uint16_t *)workspace, scales);
}

/* tft_kv_drop_blocks: drops the first n of `used` records. A thread moves 8 bytes of each record,
   in order: blockIdx.y is the head. head_bytes: from one head's records to the next */
static __global__ void drop_records(unsigned char *records, size_t bytes, size_t head_bytes,
                                    uint32_t n, uint32_t used)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t *words = (uint64_t *)(records + blockIdx.y * head_bytes);
    size_t step = bytes / sizeof *words;
    if (at >= step)
        return;
    for (uint32_t b = 0; b + n < used; b++)
        words[b * step + at] = words[(b + n) * step + at];
}

void tft_cuda_drop_blocks(cudaStream_t stream, const struct tft_cuda_blocks *b, uint32_t n,
                          const uint32_t used[2])
{
    const struct tft_cuda_side *sides[] = {&b->k, &b->v};
    for (int i = 0; i < 2; i++) {
        const struct tft_cuda_side *s = sides[i];
        launch(stream, drop_records,
               dim3((unsigned)((s->record_bytes / 8 + THREADS - 1) / THREADS), b->heads), THREADS,
               0, s->records, s->record_bytes, s->record_bytes * b->n_blocks, n, used[i]);
    }
}
