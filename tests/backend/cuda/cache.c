/* cache.cu, compared with the cache of a session on the CPU (kv/kv.h), both filled with
   the same random numbers. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caches.h"
#include "gpu.h"
#include "backend/cuda/launch.h"
#include "run/session.h"

enum { HEADS = 4, DIM = 20 }; /* of the small model: KV heads of all layers, channels of one */
enum { MOST_NUMBERS = 2 * 1024 * DIM }; /* of the slots of a layer */

/* A session of the small model. */
struct opened {
    struct tft_model *m;
    struct tft_session *s;
    const struct tft_kv *kv;
};

/* Gives the model random calibration data for the cache, as its file could have. */
static void calibrate(struct check *c, struct tft_model *m, const char *kv)
{
    enum { GROUPS = 2 };
    static float importance[HEADS * DIM], clip[2][HEADS * GROUPS];
    static int32_t order[HEADS * DIM];
    for (size_t i = 0; i < HEADS * DIM; i++)
        importance[i] = check_float(c) * check_float(c);
    for (size_t i = 0; i < HEADS * DIM; i++) {
        size_t other = i / DIM * DIM + check_below(c, i % DIM + 1);
        order[i] = order[other];
        order[other] = (int32_t)(i % DIM);
    }
    for (size_t i = 0; i < HEADS * GROUPS; i++)
        for (int side = 0; side < 2; side++)
            clip[side][i] = 0.5f + 0.01f * (float)check_below(c, 51);
    m->key_importance = importance;
    m->key_order = order;
    m->kv_clip[0] = clip[0];
    m->kv_clip[1] = clip[1];
    if (tft_kv_parse(&m->kv_policy, kv, NULL) == TFT_OK)
        m->kv_text = kv;
}

static struct opened open_session(struct check *c, const char *kv, uint32_t capacity)
{
    char path[] = "/tmp/tuffet-test-XXXXXX";
    struct opened h = {NULL, NULL, NULL};
    struct tft_error err;
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1, .capacity = capacity, .kv = kv};
    int fd = mkstemp(path);
    bool is_open =
        fd >= 0 && toy_write(&small, path) && tft_model_open(&h.m, path, NULL, &err) == TFT_OK;
    if (fd >= 0) {
        close(fd);
        remove(path);
    }
    if (is_open)
        calibrate(c, h.m, kv);
    if (!is_open || tft_session_open(&h.s, h.m, &o, &err) != TFT_OK) {
        fprintf(stderr, "%s: no session\n", kv);
        exit(1);
    }
    for (uint32_t i = 0; h.s->filter.named && i < h.s->capacity; i++)
        h.s->filter.named[i] = i % 100 == 99;
    h.kv = &h.s->kv;
    return h;
}

static void close_session(struct opened *h)
{
    tft_session_close(h->s);
    tft_model_close(h->m);
}

/* Of the slots of keys or values. */
static size_t head_numbers(const struct tft_kv *kv, enum tft_kv_which which)
{
    return (size_t)kv->capacity[which] * kv->head_dim;
}

static size_t layer_bytes(const struct tft_kv *kv, enum tft_kv_which which)
{
    return kv->n_head_kv * head_numbers(kv, which) * tft_num_bytes(kv->num);
}

/* The place of number d of a slot of bytes on the GPU (launch.h). */
static size_t byte_at(const struct tft_kv *kv, enum tft_kv_which which, uint32_t head,
                      uint32_t slot, size_t d)
{
    size_t dim = kv->head_dim, i = (size_t)head * kv->capacity[which] + slot;
    return which == TFT_KV_K ? (i / 16 * dim + d / 4 * 4) * 16 + i % 16 * 4 + d % 4
                             : (i / 4 * dim + d) * 4 + i % 4;
}

/* Copies keys, or values, of slots of bytes to the GPU, and their scales. */
static void put_side_bytes(const struct tft_kv *kv, uint32_t layer, enum tft_kv_which which,
                           void **numbers, float **scale)
{
    static char number[MOST_NUMBERS];
    static float scales[MOST_NUMBERS / DIM];
    size_t slots = (size_t)kv->n_head_kv * kv->capacity[which];
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (uint32_t slot = 0; slot < kv->capacity[which]; slot++) {
            char row[sizeof(float) + DIM];
            tft_kv_take_int8(kv, layer, h, which, slot, row);
            memcpy(&scales[(size_t)h * kv->capacity[which] + slot], row, sizeof(float));
            for (size_t d = 0; d < DIM; d++)
                number[byte_at(kv, which, h, slot, d)] = row[sizeof(float) + d];
        }
    *numbers = gpu_copy(number, slots * DIM);
    *scale = gpu_copy(scales, slots * sizeof(float));
}

static struct tft_cuda_slots put_slots(const struct tft_kv *kv, uint32_t layer)
{
    if (kv->policy.i8) {
        const float *offset = tft_kv_key_offset(kv, layer, 0);
        struct tft_cuda_slots slots = {
            .capacity = {kv->capacity[TFT_KV_K], kv->capacity[TFT_KV_V]},
            .heads = kv->n_head_kv,
            .dim = kv->head_dim,
            .key_offset = offset ? gpu_copy(offset, kv->n_head_kv * DIM * sizeof *offset) : NULL,
        };
        put_side_bytes(kv, layer, TFT_KV_K, &slots.k, &slots.scale[0]);
        put_side_bytes(kv, layer, TFT_KV_V, &slots.v, &slots.scale[1]);
        return slots;
    }
    return (struct tft_cuda_slots){
        .k = gpu_copy(tft_kv_keys(kv, layer, 0, 0), layer_bytes(kv, TFT_KV_K)),
        .v = gpu_copy(tft_kv_values(kv, layer, 0, 0), layer_bytes(kv, TFT_KV_V)),
        .num = kv->num,
        .capacity = {kv->capacity[TFT_KV_K], kv->capacity[TFT_KV_V]},
        .heads = kv->n_head_kv,
        .dim = kv->head_dim,
    };
}

/* Random slots of bytes: keys and values of magnitudes that differ by a factor of up to 8. */
static void fill_bytes(struct check *c, const struct tft_kv *kv, uint32_t layer)
{
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (int side = 0; side < TFT_KV_SIDES; side++)
            for (uint32_t slot = 0; slot < kv->capacity[side]; slot++) {
                float x[DIM];
                check_fill(c, x, DIM);
                for (size_t d = 0; d < DIM; d++)
                    x[d] *= (float)(1 + slot % 8);
                tft_kv_store_int8(kv, c->ref, layer, h, side ? TFT_KV_V : TFT_KV_K, slot, x);
            }
}

static void fill_slots(struct check *c, const struct tft_kv *kv, uint32_t layer)
{
    if (kv->policy.i8) {
        fill_bytes(c, kv, layer);
        return;
    }
    check_fill_num(c, tft_kv_keys(kv, layer, 0, 0), kv->n_head_kv * head_numbers(kv, TFT_KV_K),
                   kv->num);
    check_fill_num(c, tft_kv_values(kv, layer, 0, 0), kv->n_head_kv * head_numbers(kv, TFT_KV_V),
                   kv->num);
}

/* Compares the keys, or the values, of slots of bytes 0 .. used - 1. */
static void same_bytes(struct gpu *g, const struct tft_kv *kv, uint32_t layer,
                       const struct tft_cuda_slots *got, enum tft_kv_which which, uint32_t used,
                       const char *what)
{
    size_t slots = (size_t)kv->n_head_kv * kv->capacity[which];
    char *number = check_buf(g->c, slots * DIM, 1);
    float *scale = check_buf(g->c, slots, sizeof *scale);
    gpu_read(g, number, which == TFT_KV_K ? got->k : got->v, slots * DIM);
    gpu_read(g, scale, got->scale[which], slots * sizeof *scale);
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (uint32_t slot = 0; slot < used; slot++) {
            char want[sizeof *scale + DIM], row[sizeof *scale + DIM];
            tft_kv_take_int8(kv, layer, h, which, slot, want);
            memcpy(row, &scale[(size_t)h * kv->capacity[which] + slot], sizeof *scale);
            for (size_t d = 0; d < DIM; d++)
                row[sizeof *scale + d] = number[byte_at(kv, which, h, slot, d)];
            check_same(g->c, want, row, sizeof row, "%s: side %d of slot %u, head %u", what, which,
                       slot, h);
        }
}

/* Compares the values of slots 0 .. used - 1. */
static void same_values(struct gpu *g, const struct tft_kv *kv, uint32_t layer,
                        const struct tft_cuda_slots *got, uint32_t used, const char *what)
{
    if (kv->policy.i8) {
        same_bytes(g, kv, layer, got, TFT_KV_V, used, what);
        return;
    }
    size_t size = tft_num_bytes(kv->num), bytes = layer_bytes(kv, TFT_KV_V);
    char *v = check_buf(g->c, bytes, 1);
    gpu_read(g, v, got->v, bytes);
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        check_same(g->c, tft_kv_values(kv, layer, h, 0), v + h * head_numbers(kv, TFT_KV_V) * size,
                   used * kv->head_dim * size, "%s: values of head %u", what, h);
}

/* The same of keys. The other columns of the last panel may differ. */
static void same_keys(struct gpu *g, const struct tft_kv *kv, uint32_t layer,
                      const struct tft_cuda_slots *got, uint32_t used, const char *what)
{
    if (kv->policy.i8) {
        same_bytes(g, kv, layer, got, TFT_KV_K, used, what);
        return;
    }
    size_t size = tft_num_bytes(kv->num), dim = kv->head_dim, key = dim * TFT_KEY_PANEL,
           bytes = layer_bytes(kv, TFT_KV_K);
    char *k = check_buf(g->c, bytes, 1);
    gpu_read(g, k, got->k, bytes);
    for (uint32_t h = 0; h < kv->n_head_kv; h++) {
        size_t at = h * head_numbers(kv, TFT_KV_K) * size;
        for (uint32_t slot = 0; slot < used; slot++)
            for (size_t d = 0; d < dim; d++) {
                size_t of =
                    (slot / TFT_KEY_PANEL * key + d * TFT_KEY_PANEL + slot % TFT_KEY_PANEL) * size;
                check_same(g->c, (char *)tft_kv_keys(kv, layer, h, 0) + of, k + at + of, size,
                           "%s: key of slot %u, head %u, number %zu", what, slot, h, d);
            }
    }
}

/* Of slots without blocks. */
static const char *const slots_of[] = {"f16", "f32", "i8"};

/* Random offsets of the keys in slots of bytes. */
static void give_offsets(struct check *c, struct opened *h)
{
    static float offset[HEADS * DIM];
    check_fill(c, offset, HEADS * DIM);
    h->s->kv.key_offset = offset;
}

static void put(struct gpu *g)
{
    if (!check_named(g->c, "put"))
        return;
    for (int i = 0; i < (g->c->thorough ? 30 : 12); i++) {
        struct opened h = open_session(g->c, slots_of[i % 3], 200);
        struct tft_kernels kern = *g->c->ref;
        bool i8 = h.kv->policy.i8;
        uint32_t M = 1 + (uint32_t)check_below(g->c, 70), layer = i % 4 / 2,
                 slot[] = {(uint32_t)check_below(g->c, 100), (uint32_t)check_below(g->c, 100)};
        size_t width = (size_t)h.kv->n_head_kv * h.kv->head_dim, ld = width + check_below(g->c, 4),
               n = M * ld * sizeof(float);
        float *k = check_buf(g->c, n, 1), *v = check_buf(g->c, n, 1);
        struct tft_cuda_start start = {.slot = {slot[TFT_KV_K], slot[TFT_KV_V]}};
        check_fill(g->c, k, M * ld);
        check_fill(g->c, v, M * ld);
        if (i8 && i % 2)
            give_offsets(g->c, &h);
        if (i8) { /* not numbers: the key is marked; a value too small for a scale */
            k[check_below(g->c, M * ld)] = NAN;
            v[check_below(g->c, M * ld)] = i % 2 ? -INFINITY : NAN;
            v[check_below(g->c, M * ld)] = 1e-38f;
            start.slot[TFT_KV_V] = slot[TFT_KV_V] = slot[TFT_KV_K];
        }
        fill_slots(g->c, h.kv, layer);
        struct tft_cuda_slots slots = put_slots(h.kv, layer);
        tft_cuda_put(g->stream, &slots, gpu_copy(k, n), gpu_copy(v, n), ld, M,
                     gpu_copy(&start, sizeof start));
        for (uint32_t m = 0; m < M; m++)
            for (uint32_t head = 0; head < h.kv->n_head_kv; head++) {
                size_t at = m * ld + head * h.kv->head_dim;
                tft_kv_store_key(h.kv, &kern, layer, head, slot[TFT_KV_K] + m, k + at);
                tft_kv_store_value(h.kv, &kern, layer, head, slot[TFT_KV_V] + m, v + at);
            }
        same_keys(g, h.kv, layer, &slots, slot[TFT_KV_K] + M, "put");
        same_values(g, h.kv, layer, &slots, slot[TFT_KV_V] + M, "put");
        gpu_free(g);
        close_session(&h);
    }
}

static void drop(struct gpu *g)
{
    if (!check_named(g->c, "drop"))
        return;
    for (int i = 0; i < (g->c->thorough ? 30 : 12); i++) {
        struct opened h = open_session(g->c, slots_of[i % 3], 300);
        uint32_t n = 16 * (1 + (uint32_t)check_below(g->c, 6)),
                 from = (uint32_t)check_below(g->c, 60);
        uint32_t used = from + n + (uint32_t)check_below(g->c, 130);
        fill_slots(g->c, h.kv, 0);
        struct tft_cuda_slots slots = put_slots(h.kv, 0);
        tft_cuda_drop_slots(g->stream, &slots, from, n, used);
        for (uint32_t head = 0; head < h.kv->n_head_kv; head++)
            tft_kv_drop_slots(h.kv, 0, head, from, n, used);
        same_keys(g, h.kv, 0, &slots, used - n, "drop");
        same_values(g, h.kv, 0, &slots, used - n, "drop");
        gpu_free(g);
        close_session(&h);
    }
}

/* --------------------------------------------------------------------------------------- blocks */

static struct tft_cuda_side put_side(const struct tft_kv *kv, uint32_t layer, int side)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    const float *clip = y->clip[side];
    size_t bytes = side ? y->v_bytes : y->k_bytes;
    return (struct tft_cuda_side){
        .records =
            gpu_copy(kv->codes + (side ? y->v_at : y->k_at), kv->n_head_kv * kv->n_blocks * bytes),
        .record_bytes = bytes,
        .code_bytes = side ? y->v_codes : y->k_codes,
        .bits = side ? y->v_bits : y->k_bits,
        .per_token = (side ? &kv->policy.v : &kv->policy.k)->axis == TFT_KV_TOKEN,
        .clip = clip
                    ? gpu_copy(clip, kv->n_head_kv * tft_kv_groups(kv, kv->head_dim) * sizeof *clip)
                    : NULL,
    };
}

static struct tft_cuda_blocks put_blocks(const struct tft_kv *kv, uint32_t layer)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    return (struct tft_cuda_blocks){
        .k = put_side(kv, layer, 0),
        .v = put_side(kv, layer, 1),
        .quads = gpu_copy(y->quads, kv->n_head_kv * sizeof *y->quads),
        .channel_order = y->channel ? gpu_copy(y->channel, (size_t)kv->n_head_kv * kv->head_dim *
                                                               sizeof *y->channel)
                                    : NULL,
        .n_blocks = kv->n_blocks,
        .block_tokens = kv->block,
        .group_channels = kv->policy.group,
        .heads = kv->n_head_kv,
        .dim = kv->head_dim,
        .f8 = kv->policy.f8,
    };
}

/* Compares the first n blocks of keys, or of values, of all heads. */
static void same_blocks(struct gpu *g, const struct tft_kv *kv, uint32_t layer,
                        const struct tft_cuda_blocks *got, enum tft_kv_which which, uint32_t n,
                        const char *what)
{
    const struct tft_cuda_side *side = which == TFT_KV_K ? &got->k : &got->v;
    for (uint32_t h = 0; h < kv->n_head_kv && n; h++)
        gpu_same(g,
                 which == TFT_KV_K ? tft_kv_key_record(kv, layer, h, 0)
                                   : tft_kv_value_record(kv, layer, h, 0),
                 side->records + (size_t)h * kv->n_blocks * side->record_bytes,
                 n * side->record_bytes, "%s: %s of head %u", what,
                 which == TFT_KV_K ? "keys" : "values", h);
}

/* Carries out a quantization of keys or values on the CPU and on the GPU. */
static void quantize_once(struct gpu *g, const struct opened *h, uint32_t layer,
                          enum tft_kv_which which, const struct tft_kv_quantization *e,
                          const char *what)
{
    const struct tft_kv *kv = h->kv;
    struct tft_cuda_blocks blocks = put_blocks(kv, layer);
    struct tft_cuda_slots slots = put_slots(kv, layer);
    struct tft_cuda_clips clips = {
        {TFT_KV_CLIPS}, (uint32_t)tft_kv_clips(&kv->policy), tft_kv_clips_to_zero(&kv->policy)};
    struct tft_cuda_quantization on_gpu = {
        .keys = which == TFT_KV_K,
        .order = gpu_copy(e->order, (e->n_blocks * kv->block + e->stay) * sizeof *e->order),
        .n_blocks = e->n_blocks,
        .first_block = e->first,
        .stay = e->stay,
        .first_slot = e->base,
    };
    tft_cuda_quantize_kv(
        g->stream, &blocks, &slots, &on_gpu, &clips,
        gpu_alloc((size_t)kv->n_head_kv * (e->stay + 1) * tft_kv_row_bytes(kv, kv->head_dim)));
    for (uint32_t head = 0; head < kv->n_head_kv; head++)
        tft_kv_quantize(kv, g->c->ref, layer, head, which, e, 0);
    same_blocks(g, kv, layer, &blocks, which, e->first + e->n_blocks, what);
    if (which == TFT_KV_K)
        same_keys(g, kv, layer, &slots, e->base + e->stay, what);
    else
        same_values(g, kv, layer, &slots, e->base + e->stay, what);
    gpu_free(g);
}

/* All quantizations of a pass of 400 tokens, each of slots with new random numbers. */
static void quantize(struct gpu *g)
{
    if (!check_named(g->c, "quantize"))
        return;
    for (size_t i = 0; i < N_BLOCK_CACHES; i++) {
        struct opened h = open_session(g->c, caches[i].kv, 500);
        if (h.kv->policy.i8 && check_below(g->c, 2))
            give_offsets(g->c, &h);
        tft_kv_plan(&h.s->kv, 400);
        for (uint32_t c = 0; c < h.kv->plan.n_chunk; c++) {
            const struct tft_kv_chunk *chunk = &h.kv->plan.chunk[c];
            fill_slots(g->c, h.kv, c % 2);
            for (enum tft_kv_which side = 0; side < TFT_KV_SIDES; side++)
                if (chunk->side[side].quantizes)
                    quantize_once(g, &h, c % 2, side, &chunk->side[side].quantization,
                                  caches[i].kv);
        }
        close_session(&h);
    }
}

static void drop_blocks(struct gpu *g)
{
    if (!check_named(g->c, "drop_blocks"))
        return;
    for (size_t i = 0; i < N_BLOCK_CACHES; i++) {
        struct opened h = open_session(g->c, caches[i].kv, 500);
        uint32_t blocks[] = {h.kv->n_blocks - (uint32_t)check_below(g->c, 2),
                             h.kv->n_blocks - (uint32_t)check_below(g->c, 2)},
                 n = 1 + (uint32_t)check_below(g->c, h.kv->n_blocks - 1);
        const struct tft_kv_layer *y = &h.kv->layer[1];
        size_t each = (size_t)h.kv->n_head_kv * h.kv->n_blocks;
        for (size_t k = 0; k < each * y->k_bytes; k++)
            h.kv->codes[y->k_at + k] = (char)check_rand(g->c);
        for (size_t k = 0; k < each * y->v_bytes; k++)
            h.kv->codes[y->v_at + k] = (char)check_rand(g->c);
        struct tft_cuda_blocks device_blocks = put_blocks(h.kv, 1);
        tft_cuda_drop_blocks(g->stream, &device_blocks, n, blocks);
        for (int side = 0; side < TFT_KV_SIDES; side++)
            h.s->kv.at[side].blocks = blocks[side];
        for (uint32_t head = 0; head < h.kv->n_head_kv; head++)
            tft_kv_drop_blocks(h.kv, 1, head, n);
        for (enum tft_kv_which side = 0; side < TFT_KV_SIDES; side++)
            same_blocks(g, h.kv, 1, &device_blocks, side, blocks[side] - n, caches[i].kv);
        gpu_free(g);
        close_session(&h);
    }
}

void gpu_cache(struct gpu *g)
{
    put(g);
    drop(g);
    quantize(g);
    drop_blocks(g);
}
