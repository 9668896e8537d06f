/* Quantizations on the CPU: quantizes tokens in slots into blocks of codes. */
#include "fisher.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"

static const float clips[TFT_FIT_LISTS][TFT_KV_N_CLIPS] = {TFT_KV_CLIPS};

/* The keys, or the values, of a block's tokens in one head. */
struct rows {
    const struct tft_kv *kv;
    const struct tft_kernels *kern;
    const struct tft_kv_side *side;
    const struct tft_kv_scratch *w;
    const uint32_t *slot;    /* [block] the tokens' slots */
    const uint16_t *channel; /* [E] and */
    const float *clip;       /* [groups] as in struct tft_kv_layer; clip NULL: choose by error */
    uint32_t layer, head, dim;
    bool keys;
};

/* x: [E] the key, or value, of token t of the block. */
static void read_token(const struct rows *j, uint32_t t, float *x)
{
    tft_kv_read(j->kv, j->layer, j->head, j->keys ? TFT_KV_K : TFT_KV_V, j->slot[t], x);
}

/* Copies the rows into w->x as floats: [E, block] if each token has its own scales, else
   [block, E padded]. */
static void gather(const struct rows *j)
{
    uint32_t dim = j->dim, block = j->kv->block;
    size_t width = tft_kv_padded_dim(j->dim);
    float x[TFT_CODED_DIM];
    bool by_token = j->side->axis == TFT_KV_TOKEN;
    size_t next = by_token ? block : 1, row_stride = by_token ? 1 : width;
    for (uint32_t t = 0; t < block; t++) {
        float *to = j->w->x + t * row_stride;
        read_token(j, t, x);
        for (uint32_t d = 0; d < dim; d++)
            to[d * next] = x[j->channel ? j->channel[d] : d];
        for (size_t d = dim; d < width && !by_token; d++)
            to[d] = 0;
    }
}

/* A fit that tries the first n clips of each list. */
static struct tft_fit fit_of(const struct tft_kv *kv, size_t n)
{
    return (struct tft_fit){
        .clip = {clips[0], clips[1], clips[2]},
        .n_clip = n,
        .to_zero = tft_kv_clips_to_zero(&kv->policy),
    };
}

/* Computes scales, mids and codes of all groups in the workspace. clipped: by the file's clips, if
   the file has clips. */
static void fit(const struct rows *j, const struct tft_fit *how, bool clipped)
{
    uint32_t dim = j->dim, block = j->kv->block, group = j->kv->policy.group;
    const struct tft_kv_scratch *w = j->w;
    size_t width = tft_kv_padded_dim(j->dim);
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
        for (int i = 0; clipped && j->clip && i < TFT_FIT_LISTS; i++)
            own.clip[i] = j->clip + g;
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

/* The least e with max |x| <= 448 * 2^e: E4M3 scales are multiples of 2^e. */
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

static void put_scales(const struct rows *j, char *to)
{
    size_t n = tft_kv_scales(j->kv, j->side, j->dim);
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
    how.n_clip = tft_kv_clips(&j->kv->policy);
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

/* Packs rows of 16 and `columns` columns, a multiple of 4, `of` each kind of bits. A row is a token
   of keys, or a channel of values. */
static void put_codes(const struct rows *j, char *to, uint32_t rows, uint32_t columns,
                      const uint16_t quads[TFT_BITS_COUNT])
{
    bool by_token = j->side->axis == TFT_KV_TOKEN;
    size_t token = by_token ? 1 : tft_kv_padded_dim(j->dim), channel = by_token ? j->kv->block : 1,
           at = 0;
    size_t down = j->keys ? token : channel, across = j->keys ? channel : token;
    uint8_t code[TFT_CODED_DIM / TFT_QUAD * TFT_QUAD_CODES];
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

/* Writes the half-width of the codes of each channel, or each token, to the workspace. */
static void put_half(const struct rows *j, const uint16_t quads[TFT_BITS_COUNT], unsigned bits)
{
    size_t d = 0, width = tft_kv_padded_dim(j->dim);
    if (j->side->axis == TFT_KV_MIXED)
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
            for (size_t i = 0; i < (size_t)quads[b] * TFT_QUAD; i++)
                j->w->half[d++] = (float)(tft_bits_levels(b) - 1) / 2;
    for (; d < width; d++)
        j->w->half[d] = (float)(tft_bits_levels((enum tft_bits)bits) - 1) / 2;
}

/* [groups] of the head's keys or values */
static const float *clip_of(const struct rows *j)
{
    const float *all = j->kv->layer[j->layer].clip[j->keys ? TFT_KV_K : TFT_KV_V];
    return all ? all + (size_t)j->head * tft_kv_groups(j->kv, j->dim) : NULL;
}

static void put_fisher(struct rows j, uint32_t b)
{
    enum tft_kv_which which = j.keys ? TFT_KV_K : TFT_KV_V;
    const struct tft_fisher_head *h = &j.kv->layer[j.layer].fisher[which][j.head];
    size_t width = tft_kv_padded_dim(j.dim);
    gather(&j);
    if (j.keys)
        tft_fisher_keep_exact(j.kv, j.layer, j.head, b, j.slot);
    if (j.keys && tft_kv_turns(j.kv, j.layer))
        tft_turn_block_back(&j.kv->turns, j.kern, b, j.w->x, width, j.dim);
    tft_fisher_put(h, which, j.w->x, width, j.w->code, tft_fisher_block(j.kv, h, b));
}

static void put_keys(struct rows j, uint32_t b)
{
    const struct tft_kv_layer *y = &j.kv->layer[j.layer];
    char *to = tft_kv_key_record(j.kv, j.layer, j.head, b);
    float x[TFT_CODED_DIM];
    j.channel = y->channel ? y->channel + j.head * j.dim : NULL;
    if (y->k_bits == TFT_KV_BITS_F16) {
        uint16_t *panel = (uint16_t *)to;
        uint32_t dim = j.dim;
        for (uint32_t t = 0; t < j.kv->block; t++) {
            read_token(&j, t, x);
            for (uint32_t d = 0; d < dim; d++)
                panel[(t / TFT_KEY_PANEL * dim + d) * TFT_KEY_PANEL + t % TFT_KEY_PANEL] =
                    tft_f32_to_f16(x[d]);
        }
        return;
    }
    put_half(&j, y->quads[j.head], y->k_bits);
    gather(&j);
    put_scales(&j, to + y->k_codes);
    put_codes(&j, to, j.kv->block, j.dim, y->quads[j.head]);
}

static void put_values(struct rows j, uint32_t b)
{
    const struct tft_kv_layer *y = &j.kv->layer[j.layer];
    char *to = tft_kv_value_record(j.kv, j.layer, j.head, b);
    uint16_t quads[TFT_BITS_COUNT] = {0};
    float x[TFT_CODED_DIM];
    if (y->v_bits == TFT_KV_BITS_F16) {
        for (uint32_t t = 0; t < j.kv->block; t++) {
            read_token(&j, t, x);
            j.kern->narrow[TFT_NUM_F16](to + (size_t)t * j.dim * 2, x, j.dim);
        }
        return;
    }
    quads[y->v_bits] = (uint16_t)(j.kv->block / TFT_QUAD);
    put_half(&j, quads, y->v_bits);
    gather(&j);
    put_scales(&j, to + y->v_codes);
    put_codes(&j, to, j.dim, j.kv->block, quads);
}

void tft_kv_quantize(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                     uint32_t head, enum tft_kv_which which, const struct tft_kv_quantization *e,
                     int tid)
{
    struct rows j = {.kv = kv,
                     .kern = kern,
                     .side = tft_kv_side(&kv->policy, which),
                     .w = &kv->scratch[tid],
                     .layer = layer,
                     .head = head,
                     .dim = tft_kv_heads(kv, layer).dim,
                     .keys = which == TFT_KV_K};
    j.clip = clip_of(&j);
    for (uint32_t b = 0; b < e->n_blocks; b++) {
        j.slot = e->order + b * kv->block;
        if (tft_kv_is_fisher(&kv->policy))
            put_fisher(j, e->first + b);
        else if (j.keys)
            put_keys(j, e->first + b);
        else
            put_values(j, e->first + b);
    }
    tft_kv_move(kv, layer, head, which, e->base, e->order + e->n_blocks * kv->block, e->stay,
                j.w->rows);
}
