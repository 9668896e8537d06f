/* Slots of bytes. */
#include "kv.h"
#include "saved.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The slots to clear together: a panel of keys, a span of values. */
static uint32_t unit_of(enum tft_kv_which which)
{
    return which == TFT_KV_K ? TFT_KEY_PANEL : TFT_SPAN;
}

/* The index of a slot's number d; cols: numbers of a slot, with padding. */
static size_t byte_at(const struct tft_kv *kv, enum tft_kv_which which, uint32_t slot, size_t d,
                      size_t cols)
{
    return which == TFT_KV_K ? tft_panel_at(slot, d, cols)
                             : slot / TFT_SPAN * TFT_SPAN * cols +
                                   tft_panel_at(d, slot % TFT_SPAN, tft_kv_span_slots(kv, slot));
}

size_t tft_kv_slots_bytes(const struct tft_kv_policy *policy, bool floats, uint32_t dim,
                          enum tft_kv_which which, uint32_t slots)
{
    bool bytes = policy->i8 && !floats;
    size_t n = tft_kv_number_bytes(policy, floats, dim),
           sums = which == TFT_KV_K ? slots : tft_spans(slots) * n, all;
    if (!tft_mul(slots, bytes ? n + sizeof(float) : n, &all) ||
        !tft_add(all, bytes ? sums * sizeof(int32_t) : 0, &all))
        return SIZE_MAX;
    return all;
}

struct tft_kv_int8 tft_kv_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                               enum tft_kv_which which, uint32_t from)
{
    size_t cols = tft_panel_cols(tft_kv_heads(kv, layer).dim), slots = kv->capacity[which];
    char *data = which == TFT_KV_K ? tft_kv_keys(kv, layer, head, 0)
                                   : tft_kv_values(kv, layer, head, 0);
    float *scale = (float *)(void *)(data + slots * cols);
    int32_t *sum = (int32_t *)(void *)(scale + slots);
    return (struct tft_kv_int8){.data = (int8_t *)data + from * cols,
                                .scale = scale + from,
                                .sum = which == TFT_KV_K ? sum + from
                                                         : sum + from / TFT_SPAN * cols};
}

/* Clears the unit that begins with slot `from`; the last span of values may be short. */
static void clear(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                  uint32_t from)
{
    struct tft_kv_int8 to = tft_kv_int8(kv, layer, head, which, from);
    size_t n = which == TFT_KV_K ? TFT_KEY_PANEL : tft_kv_span_slots(kv, from),
           cols = tft_panel_cols(tft_kv_heads(kv, layer).dim);
    memset(to.data, 0, n * cols);
    memset(to.scale, 0, n * sizeof *to.scale);
    memset(to.sum, 0, (which == TFT_KV_K ? n : cols) * sizeof *to.sum);
}

/* Puts a number into a slot. */
static void put(const struct tft_kv *kv, const struct tft_kv_int8 *to, enum tft_kv_which which,
                uint32_t slot, size_t d, size_t cols, int number)
{
    int8_t *at = &to->data[byte_at(kv, which, slot, d, cols)];
    to->sum[which == TFT_KV_K ? slot : slot / TFT_SPAN * cols + d] += number - *at;
    *at = (int8_t)number;
}

/* Puts the 16 numbers from d on, a multiple of 16, into a slot of keys: 4 at a time, because a quad
   of a panel has 4 numbers of one slot. Returns the sum of the numbers. */
static int32_t put_keys(const struct tft_kv *kv, const struct tft_kv_int8 *to, uint32_t slot,
                        size_t d, size_t cols, const int8_t *number)
{
    enum { NEXT = TFT_QUAD * TFT_PANEL };
    int8_t *at = &to->data[byte_at(kv, TFT_KV_K, slot, d, cols)];
    int32_t sum = 0;
    for (size_t i = 0; i < TFT_PANEL; i += TFT_QUAD, at += NEXT)
        memcpy(at, number + i, TFT_QUAD);
    for (size_t i = 0; i < TFT_PANEL; i++)
        sum += number[i];
    return sum;
}

/* Puts 16 numbers into a slot of values. A quad of a panel of values has 4 slots, so the numbers
   are one byte of each of 16 words. */
static void put_values(const struct tft_kv *kv, const struct tft_kv_int8 *to, uint32_t slot,
                       size_t d, size_t cols, const int8_t *number)
{
    const uint32_t shift = slot % TFT_QUAD * 8;
    int8_t *at = &to->data[byte_at(kv, TFT_KV_V, slot - slot % TFT_QUAD, d, cols)];
    int32_t *sum = to->sum + slot / TFT_SPAN * cols + d;
    uint32_t word[TFT_PANEL];
    memcpy(word, at, sizeof word);
    for (size_t i = 0; i < TFT_PANEL; i++) {
        sum[i] += number[i] - (int8_t)(word[i] >> shift);
        word[i] = (word[i] & ~((uint32_t)0xff << shift)) | (uint32_t)(uint8_t)number[i] << shift;
    }
    memcpy(at, word, sizeof word);
}

struct tft_affine tft_kv_affine(const struct tft_kernels *kern, const float *x, size_t n)
{
    float low, high;
    kern->range(x, n, &low, &high);
    float r = -low > high ? -low : high;
    bool in_range = r >= TFT_FOLD_LEAST && r <= FLT_MAX;
    return (struct tft_affine){in_range ? r / 127 : 0, in_range ? 127 / r : 0, 128};
}

/* The key x less the offset of its head: x, or in `room`. */
static const float *less_offset(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                const float *x, size_t dim, float room[TFT_KV_OFFSET_DIM])
{
    const float *offset = tft_kv_key_offset(kv, layer, head);
    if (!offset || dim > TFT_KV_OFFSET_DIM) /* layers may differ in their heads */
        return x;
    for (size_t d = 0; d < dim; d++)
        room[d] = x[d] - offset[d];
    return room;
}

void tft_kv_store_int8(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                       uint32_t head, enum tft_kv_which which, uint32_t slot, const float *x)
{
    enum { PART = 256 };
    float room[TFT_KV_OFFSET_DIM];
    size_t dim = tft_kv_heads(kv, layer).dim, cols = tft_panel_cols(dim);
    if (which == TFT_KV_K)
        x = less_offset(kv, layer, head, x, dim, room);
    struct tft_kv_int8 to = tft_kv_int8(kv, layer, head, which, 0);
    struct tft_affine q = tft_kv_affine(kern, x, dim);
    int32_t sum = 0;
    bool is_number = true;
    if (slot % unit_of(which) == 0)
        clear(kv, layer, head, which, slot);
    for (size_t first = 0; first < dim; first += PART) {
        uint8_t byte[PART];
        int8_t number[PART] = {0};
        size_t n = dim - first < PART ? dim - first : PART;
        kern->quantize(byte, x + first, n, &q);
        is_number = is_number && !tft_kv_has_nan(byte, n);
        for (size_t i = 0; i < n; i++)
            number[i] = (int8_t)(byte[i] ? byte[i] - q.zero : -127);
        for (size_t i = 0; i < n; i += TFT_PANEL)
            if (which == TFT_KV_K)
                sum += put_keys(kv, &to, slot, first + i, cols, number + i);
            else
                put_values(kv, &to, slot, first + i, cols, number + i);
    }
    if (which == TFT_KV_K)
        to.sum[slot] = sum;
    to.scale[slot] = q.scale;
    if (!is_number)
        tft_kv_int8(kv, layer, head, TFT_KV_K, slot - slot % TFT_KEY_PANEL)
            .scale[slot % TFT_KEY_PANEL] = NAN;
}

void tft_kv_take_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, char *row)
{
    size_t dim = tft_kv_heads(kv, layer).dim, cols = tft_panel_cols(dim);
    struct tft_kv_int8 a = tft_kv_int8(kv, layer, head, which, 0);
    for (size_t d = 0; d < dim; d++)
        row[sizeof *a.scale + d] = (char)a.data[byte_at(kv, which, slot, d, cols)];
    memcpy(row, &a.scale[slot], sizeof *a.scale);
}

void tft_kv_give_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, const char *row)
{
    size_t dim = tft_kv_heads(kv, layer).dim, cols = tft_panel_cols(dim);
    struct tft_kv_int8 a = tft_kv_int8(kv, layer, head, which, 0);
    for (size_t d = 0; d < dim; d++)
        put(kv, &a, which, slot, d, cols, (int8_t)row[sizeof *a.scale + d]);
    memcpy(&a.scale[slot], row, sizeof *a.scale);
}

void tft_kv_move_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t to,
                      uint32_t from)
{
    size_t dim = tft_kv_heads(kv, layer).dim, cols = tft_panel_cols(dim);
    for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++) {
        struct tft_kv_int8 a = tft_kv_int8(kv, layer, head, i, 0);
        for (size_t d = 0; d < dim; d++)
            put(kv, &a, i, to, d, cols, a.data[byte_at(kv, i, from, d, cols)]);
        a.scale[to] = a.scale[from];
    }
}

void tft_kv_read_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, float *x)
{
    size_t dim = tft_kv_heads(kv, layer).dim, cols = tft_panel_cols(dim);
    const float *offset = which == TFT_KV_K && dim <= TFT_KV_OFFSET_DIM
                              ? tft_kv_key_offset(kv, layer, head)
                              : NULL;
    struct tft_kv_int8 a = tft_kv_int8(kv, layer, head, which, 0);
    for (size_t d = 0; d < dim; d++)
        x[d] = (float)a.data[byte_at(kv, which, slot, d, cols)] * a.scale[slot];
    for (size_t d = 0; offset && d < dim; d++)
        x[d] += offset[d];
}

/* ---------------------------------------------------------------------------------- saved slots */

/* A walk through slots of a head: in this cache and, when copying, in the source. */
struct twin {
    struct tft_walk *w;
    const struct tft_kv *kv;
    struct tft_kv_int8 a, b;
    enum tft_kv_which which;
    size_t cols;
};

/* Walks through n bytes from number d of a slot on. */
static void part(const struct twin *t, uint32_t slot, size_t d, size_t n)
{
    const struct tft_kv *from = t->w->kv;
    tft_walk_part(t->w, t->a.data + byte_at(t->kv, t->which, slot, d, t->cols),
                  from ? t->b.data + byte_at(from, t->which, slot, d, t->cols) : NULL, n);
}

/* The slots p .. p + n - 1 of a head, p a multiple of 16 and n at most 16. */
static void slots_of_panel(const struct twin *t, uint32_t p, uint32_t n)
{
    size_t quads = n / TFT_QUAD, rest = n % TFT_QUAD;
    if (t->which == TFT_KV_K) {
        for (size_t d = 0; d < t->cols; d += TFT_QUAD)
            part(t, p, d, n * TFT_QUAD);
    } else {
        for (size_t d = 0; d < t->cols; d += TFT_PANEL) {
            part(t, p, d, quads * TFT_PANEL * TFT_QUAD);
            for (size_t i = 0; rest && i < TFT_PANEL; i++)
                part(t, p + n - (uint32_t)rest, d + i, rest);
        }
    }
    tft_walk_part(t->w, t->a.scale + p, t->w->kv ? t->b.scale + p : NULL, n * sizeof *t->a.scale);
}

/* Computes the sums of the first n slots, after a load. Later slots of a unit are 0. The number
   -128 becomes -127: tft_kv_store_int8 never stores -128, and the ISA levels would compute
   different sums with -128. */
static void add_up(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                   uint32_t n)
{
    size_t cols = tft_panel_cols(tft_kv_heads(kv, layer).dim);
    struct tft_kv_int8 a = tft_kv_int8(kv, layer, head, which, 0);
    memset(a.sum, 0, (which == TFT_KV_K ? n : tft_spans(n) * cols) * sizeof *a.sum);
    for (uint32_t slot = 0; slot < n; slot++)
        for (size_t d = 0; d < cols; d++) {
            int8_t *number = &a.data[byte_at(kv, which, slot, d, cols)];
            if (*number < -127)
                *number = -127;
            a.sum[which == TFT_KV_K ? slot : slot / TFT_SPAN * cols + d] += *number;
        }
}

void tft_kv_walk_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n,
                      struct tft_walk *w)
{
    for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++) {
        struct twin t = {.w = w,
                         .kv = kv,
                         .a = tft_kv_int8(kv, layer, head, i, 0),
                         .which = i,
                         .cols = tft_panel_cols(tft_kv_heads(kv, layer).dim)};
        if (w->kv)
            t.b = tft_kv_int8(w->kv, layer, head, i, 0);
        for (uint32_t p = 0; p < n; p += TFT_KEY_PANEL) {
            if ((w->from || w->kv) && p % unit_of(i) == 0)
                clear(kv, layer, head, i, p);
            slots_of_panel(&t, p, n - p < TFT_KEY_PANEL ? n - p : TFT_KEY_PANEL);
        }
        if (w->from || w->kv)
            add_up(kv, layer, head, i, n);
    }
}
