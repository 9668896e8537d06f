/* What a quantized cache gives up of its slots becomes blocks of codes. */
#include "coded.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"
#include "run/session.h"

static const float clips[] = {TFT_CODED_CLIPS};

/* What is being quantized: a head's keys or values of the slots in order. */
struct job {
    const struct tft_kv *kv;
    const struct tft_kernels *kern;
    const struct tft_kv_side *side;
    const struct tft_coded_scratch *w;
    const uint32_t *order; /* [block] slots */
    const uint8_t *channel; /* as in struct tft_coded_layer, */
    const float *clip;      /* [groups] likewise; NULL: to be chosen */
    uint32_t layer, head;
    bool keys;
};

/* Channel d of the slot's key or value, and how far the next one is. */
static const uint16_t *row(const struct job *j, uint32_t slot, uint32_t *step)
{
    uint32_t column = slot % TFT_KEY_PANEL;
    *step = j->keys ? TFT_KEY_PANEL : 1;
    if (j->keys)
        return (const uint16_t *)tft_kv_keys(j->kv, j->layer, j->head, slot - column) + column;
    return tft_kv_values(j->kv, j->layer, j->head, slot);
}

/* x: [E, block] where a token has scales of its own, else [block, E padded] */
static void gather(const struct job *j)
{
    uint32_t dim = j->kv->head_dim, block = j->kv->block, step;
    size_t width = tft_coded_width(j->kv);
    bool by_token = j->side->axis == TFT_KV_TOKEN;
    size_t next = by_token ? block : 1, row_stride = by_token ? 1 : width;
    for (uint32_t t = 0; t < block; t++) {
        const uint16_t *from = row(j, j->order[t], &step);
        float *to = j->w->x + t * row_stride;
        for (uint32_t d = 0; d < dim; d++)
            to[d * next] = tft_f16_to_f32(from[(j->channel ? j->channel[d] : d) * step]);
        for (size_t d = dim; d < width && !by_token; d++)
            to[d] = 0;
    }
}

/* Of the parts that the policy has a group choose from, the first n. */
static struct tft_fit fit_of(const struct tft_kv *kv, size_t n)
{
    return (struct tft_fit){.clip = clips, .n_clip = n, .to_zero = tft_coded_to_zero(&kv->policy)};
}

/* Scales, middles and codes of all groups, in the workspace. Of the clips that the file has for
   them if `clipped`. */
static void fit(const struct job *j, const struct tft_fit *how, bool clipped)
{
    uint32_t dim = j->kv->head_dim, block = j->kv->block, group = j->kv->policy.group;
    const struct tft_coded_scratch *w = j->w;
    size_t width = tft_coded_width(j->kv);
    if (j->side->axis != TFT_KV_TOKEN) {
        for (size_t d = 0; d < width; d += TFT_PANEL)
            j->kern->fit(
                &(struct tft_fit_groups){
                    .code = w->code + d,
                    .ldc = width,
                    .scale = w->scale + d,
                    .mid = w->mid + d,
                    .x = w->x + d,
                    .ldx = width,
                    .n = block,
                    .half = w->half + d,
                },
                how);
        return;
    }
    for (uint32_t d = 0, g = 0; d < dim; d += group, g++) {
        struct tft_fit own = *how;
        if (clipped && j->clip)
            own.clip = j->clip + g;
        for (uint32_t t = 0; t < block; t += TFT_PANEL)
            j->kern->fit(
                &(struct tft_fit_groups){
                    .code = w->code + d * block + t,
                    .ldc = block,
                    .scale = w->scale + g * block + t,
                    .mid = w->mid + g * block + t,
                    .x = w->x + d * block + t,
                    .ldx = block,
                    .n = dim - d < group ? dim - d : group,
                    .half = w->half,
                },
                &own);
    }
}

/* The least e with most <= 448 * 2^e: what E4M3 numbers are to be multiples of. */
static int exponent(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    int e = -100;
    while (e < 100 && !(most <= ldexpf(TFT_F8_MAX, e)))
        e++;
    return e;
}

static void put_scales(const struct job *j, char *to)
{
    size_t n = tft_coded_n_scales(j->kv, j->side);
    struct tft_fit how = fit_of(j->kv, 1);
    int e[2] = {0, 0};
    if (j->kv->policy.f8) {
        fit(j, &how, false);
        e[0] = exponent(j->w->scale, n);
        e[1] = exponent(j->w->mid, n);
        how.f8 = true;
        how.scale_unit = ldexpf(1, e[0]);
        how.mid_unit = ldexpf(1, e[1]);
    }
    how.n_clip = tft_coded_clips(&j->kv->policy);
    fit(j, &how, true);
    if (!how.f8) {
        j->kern->narrow[TFT_NUM_F16](to, j->w->scale, n);
        j->kern->narrow[TFT_NUM_F16](to + n * sizeof(uint16_t), j->w->mid, n);
        return;
    }
    to[0] = (char)e[0];
    to[1] = (char)e[1];
    for (size_t i = 0; i < n; i++) {
        to[2 + i] = (char)tft_f32_to_f8(j->w->scale[i] / how.scale_unit);
        to[2 + n + i] = (char)tft_f32_to_f8(j->w->mid[i] / how.mid_unit);
    }
}

/* Packs rows of 16 and `columns` columns, a multiple of 4, `of` each kind of bits: keys have tokens
   as rows, values channels. */
static void put_codes(const struct job *j, char *to, uint32_t rows, uint32_t columns,
                      const uint16_t quads[TFT_BITS_COUNT])
{
    bool by_token = j->side->axis == TFT_KV_TOKEN;
    size_t token = by_token ? 1 : tft_coded_width(j->kv), channel = by_token ? j->kv->block : 1,
           at = 0;
    size_t down = j->keys ? token : channel, across = j->keys ? channel : token;
    uint8_t code[64 * TFT_QUAD_CODES];
    for (uint32_t first = 0; first < rows; first += TFT_PANEL) {
        for (uint32_t c = 0; c < columns; c++)
            for (uint32_t r = 0; r < TFT_PANEL; r++)
                code[c / TFT_QUAD * TFT_QUAD_CODES + r * TFT_QUAD + c % TFT_QUAD] =
                    first + r < rows ? j->w->code[(first + r) * down + c * across] : 0;
        const uint8_t *from = code;
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++) {
            tft_codes_pack((uint8_t *)to + at, from, b, quads[b]);
            at += tft_codes_bytes(b, quads[b]);
            from += (size_t)quads[b] * TFT_QUAD_CODES;
        }
    }
}

/* The half-width of each channel's codes, or of each token's, in the workspace. */
static void put_half(const struct job *j, const uint16_t quads[TFT_BITS_COUNT], unsigned bits)
{
    size_t d = 0, width = tft_coded_width(j->kv);
    if (j->side->axis == TFT_KV_MIXED)
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
            for (size_t i = 0; i < (size_t)quads[b] * TFT_QUAD; i++)
                j->w->half[d++] = (float)(tft_bits_levels(b) - 1) / 2;
    for (; d < width; d++)
        j->w->half[d] = (float)(tft_bits_levels((enum tft_bits)bits) - 1) / 2;
}

/* [groups] of the head's keys or values */
static const float *clip_of(const struct job *j, int side)
{
    const float *all = j->kv->layer[j->layer].clip[side];
    return all ? all + (size_t)j->head * tft_coded_groups(j->kv) : NULL;
}

static void put_keys(struct job j, uint32_t b)
{
    const struct tft_coded_layer *y = &j.kv->layer[j.layer];
    char *to = tft_coded_key_record(j.kv, j.layer, j.head, b);
    j.keys = true;
    j.side = &j.kv->policy.k;
    j.channel = y->channel ? y->channel + j.head * j.kv->head_dim : NULL;
    j.clip = clip_of(&j, 0);
    if (y->k_bits == TFT_KV_BITS_F16) {
        uint16_t *panel = (uint16_t *)to;
        uint32_t dim = j.kv->head_dim, step;
        for (uint32_t t = 0; t < j.kv->block; t++) {
            const uint16_t *from = row(&j, j.order[t], &step);
            for (uint32_t d = 0; d < dim; d++)
                panel[(t / TFT_KEY_PANEL * dim + d) * TFT_KEY_PANEL + t % TFT_KEY_PANEL] =
                    from[d * step];
        }
        return;
    }
    put_half(&j, y->quads[j.head], y->k_bits);
    gather(&j);
    put_scales(&j, to + y->k_codes);
    put_codes(&j, to, j.kv->block, j.kv->head_dim, y->quads[j.head]);
}

static void put_values(struct job j, uint32_t b)
{
    const struct tft_coded_layer *y = &j.kv->layer[j.layer];
    char *to = tft_coded_value_record(j.kv, j.layer, j.head, b);
    uint16_t quads[TFT_BITS_COUNT] = {0};
    j.side = &j.kv->policy.v;
    j.clip = clip_of(&j, 1);
    if (y->v_bits == TFT_KV_BITS_F16) {
        uint32_t step;
        for (uint32_t t = 0; t < j.kv->block; t++)
            memcpy(to + (size_t)t * j.kv->head_dim * 2, row(&j, j.order[t], &step),
                   (size_t)j.kv->head_dim * 2);
        return;
    }
    quads[y->v_bits] = (uint16_t)(j.kv->block / TFT_QUAD);
    put_half(&j, quads, y->v_bits);
    gather(&j);
    put_scales(&j, to + y->v_codes);
    put_codes(&j, to, j.kv->head_dim, j.kv->block, quads);
}

/* A block of values that stay in their slots becomes what its codes would stand for. */
static void round_values(struct job j, uint32_t n)
{
    uint32_t block = j.kv->block, dim = j.kv->head_dim, group = j.kv->policy.group, step;
    uint16_t none[TFT_BITS_COUNT] = {0};
    struct tft_fit how = fit_of(j.kv, tft_coded_clips(&j.kv->policy));
    j.side = &j.kv->policy.v;
    j.clip = clip_of(&j, 1);
    put_half(&j, none, j.kv->layer[j.layer].v_bits);
    gather(&j);
    fit(&j, &how, true);
    for (uint32_t t = 0; t < n; t++) {
        uint16_t *to = (uint16_t *)(uintptr_t)row(&j, j.order[t], &step);
        for (uint32_t d = 0; d < dim; d++) {
            size_t scale = (size_t)(d / group) * block + t;
            to[d] = tft_f32_to_f16(
                fmaf(j.w->code[d * block + t] - j.w->half[0], j.w->scale[scale], j.w->mid[scale]));
        }
    }
}

/* Of the tokens that are kept after an eviction, slots base .. base + n - 1, those that were within
   the newest `window` until then. */
static void round_old_values(struct job j, uint32_t base, uint32_t n, bool again)
{
    uint32_t window = j.kv->policy.window, first = again ? window / 2 : 0,
             end = n > window ? n - window : 0, block = j.kv->block;
    for (uint32_t i = first; i < end; i += block) {
        uint32_t some = end - i < block ? end - i : block;
        /* a block is gathered whole, and the last slot stands in for what it lacks */
        for (uint32_t t = 0; t < block; t++)
            j.w->order[t] = base + i + (t < some ? t : some - 1);
        j.order = j.w->order;
        round_values(j, some);
    }
}

/* Slots base .. base + n - 1 get what the slots `order` have. */
static void close_up(struct job j, const uint32_t *order, uint32_t base, uint32_t n)
{
    uint32_t dim = j.kv->head_dim, step;
    for (int keys = 0; keys < 2; keys++) {
        j.keys = keys;
        for (uint32_t i = 0; i < n; i++) {
            const uint16_t *from = row(&j, order[i], &step);
            for (uint32_t d = 0; d < dim; d++)
                j.w->rows[i * dim + d] = from[d * step];
        }
        for (uint32_t i = 0; i < n; i++) {
            uint16_t *to = (uint16_t *)(uintptr_t)row(&j, base + i, &step);
            for (uint32_t d = 0; d < dim; d++)
                to[d * step] = j.w->rows[i * dim + d];
        }
    }
}

void tft_coded_evict(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                     uint32_t head, struct tft_retained at, int tid)
{
    const struct tft_coded_scratch *w = &kv->scratch[tid];
    struct job j = {.kv = kv, .kern = kern, .w = w, .layer = layer, .head = head};
    bool again = at.waiting || at.blocks;
    uint32_t base = kv->n_prefix + at.sinks + at.named, slots = at.waiting + at.kept, b = at.blocks;
    uint32_t leave = tft_retain_evict(&kv->policy, &at, w->order);
    for (uint32_t i = 0; i < slots; i++)
        w->order[i] += base;
    for (uint32_t i = 0; i < leave; i += kv->block, b++) {
        j.order = w->order + i;
        put_keys(j, b);
        put_values(j, b);
    }
    close_up(j, w->order + leave, base, slots - leave);
    if (kv->policy.partial)
        round_old_values(j, kv->n_prefix + at.sinks + at.named + at.waiting, at.kept, again);
}
