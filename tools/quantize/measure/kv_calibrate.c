#include "tools/quantize/measure/kv_calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/pass.h"
#include "tools/quantize/array.h"

uint32_t kv_calibrate_groups(const struct kv_calibration *c, uint32_t dim)
{
    return (dim + c->policy.group - 1) / c->policy.group;
}

size_t kv_calibrate_groups_before(const struct kv_calibration *c, uint32_t l)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l; i++) {
        struct tft_kv_heads own = tft_model_kv_heads(c->m, i);
        n += (size_t)own.n * kv_calibrate_groups(c, own.dim);
    }
    return n;
}

/* Numbers of a token's keys in the widest layer. The channels of values have an order only where
   all layers have this width. */
static size_t width(const struct kv_calibration *c)
{
    return (size_t)c->m->n_head_kv * c->m->head_dim;
}

static bool calibrates_clip(const struct kv_calibration *c)
{
    return tft_kv_quantizes(&c->policy) && c->policy.clip == TFT_KV_CALIBRATED;
}

/* Whether layer l of the cache is quantized, so that its groups need a clip. */
static bool clips_layer(const struct kv_calibration *c, uint32_t l)
{
    return calibrates_clip(c) && !tft_model_kv_window(c->m, l);
}

static bool open_order(struct kv_calibration *c)
{
    c->key_order = array_alloc(sizeof *c->key_order, c->m->n_kv_layer, width(c), 1);
    c->value_order = malloc(width(c) * sizeof *c->value_order);
    return c->key_order && c->value_order && channel_ranges_open(&c->ranges[0], width(c)) &&
           channel_ranges_open(&c->ranges[1], width(c));
}

static bool open_clip(struct kv_calibration *c, int n_threads)
{
    for (int i = 0; i < 2; i++)
        c->alpha[i] =
            array_alloc(sizeof *c->alpha[i], kv_calibrate_groups_before(c, c->m->n_kv_layer), 1, 1);
    return c->alpha[0] && c->alpha[1] && kv_clip_open(&c->clip, c->m, &c->policy, c->o, n_threads);
}

bool kv_calibrate_open(struct kv_calibration *c, const struct tft_model *m,
                       const struct quantize_opts *o, int n_threads)
{
    *c = (struct kv_calibration){.m = m, .o = o};
    tft_kv_parse(&c->policy, o->kv, NULL);
    if (!c->policy.reorder && !calibrates_clip(c))
        return true;
    c->v = array_alloc(sizeof *c->v, o->window, width(c), 1);
    return c->v && (!c->policy.reorder || open_order(c)) &&
           (!calibrates_clip(c) || open_clip(c, n_threads));
}

void kv_calibrate_close(struct kv_calibration *c)
{
    channel_ranges_close(&c->ranges[0]);
    channel_ranges_close(&c->ranges[1]);
    kv_clip_close(&c->clip);
    free(c->key_order);
    free(c->value_order);
    free(c->alpha[0]);
    free(c->alpha[1]);
    free(c->v);
    *c = (struct kv_calibration){0};
}

/* Copies the values of a window, n of each token, rotated like the file's weights make them, not
   yet reordered. */
static void copy_values(struct kv_calibration *c, const struct tft_pass *p, size_t n)
{
    size_t block = quantize_head_block(c->m, c->o);
    for (uint32_t t = 0; t < c->o->window; t++) {
        float *v = memcpy(c->v + t * n, tft_pass_row(p, TFT_V, t), n * sizeof *v);
        if (!block)
            continue;
        c->m->kern.hadamard(v, n, block);
        c->m->kern.scale(v, 1 / sqrtf((float)block), n);
    }
}

void kv_calibrate_add(struct kv_calibration *c, const struct tft_session *s, uint32_t l)
{
    struct tft_pass p = {.m = c->m, .work = s->work};
    size_t stride = tft_pass_stride(&p, TFT_K), n = tft_model_kv_width(c->m, l),
           window = c->o->window;
    /* sinks stay f16, so their range does not matter */
    uint32_t sinks = c->policy.sinks < window ? c->policy.sinks : (uint32_t)window;
    if (!c->v)
        return;
    copy_values(c, &p, n);
    if (c->policy.reorder) {
        channel_ranges_add(&c->ranges[0], tft_pass_row(&p, TFT_K, sinks), window - sinks, stride);
        channel_ranges_add(&c->ranges[1], c->v + sinks * n, window - sinks, n);
    }
    if (clips_layer(c, l))
        kv_clip_add(&c->clip, l, tft_pass_row(&p, TFT_Q, 0), tft_pass_stride(&p, TFT_Q),
                    tft_pass_row(&p, TFT_K, 0), stride, c->v, n);
}

static void finish_order(struct kv_calibration *c, uint32_t l)
{
    uint32_t dim = c->m->head_dim;
    for (uint32_t h = 0; h < c->m->n_head_kv; h++) {
        channel_order_choose(&c->ranges[0], h * dim, dim, c->policy.group,
                             c->key_order + l * width(c) + h * dim);
        channel_order_choose(&c->ranges[1], h * dim, dim, c->policy.group,
                             c->value_order + h * dim);
    }
    channel_ranges_clear(&c->ranges[0]);
    channel_ranges_clear(&c->ranges[1]);
}

void kv_calibrate_finish(struct kv_calibration *c, uint32_t l, const uint16_t *prefix_k,
                         const uint16_t *prefix_v)
{
    size_t first = calibrates_clip(c) ? kv_calibrate_groups_before(c, l) : 0;
    if (c->policy.reorder)
        finish_order(c, l);
    for (size_t i = first; calibrates_clip(c) && i < kv_calibrate_groups_before(c, l + 1); i++)
        c->alpha[0][i] = c->alpha[1][i] = 1;
    if (!clips_layer(c, l))
        return;
    struct kv_clip_layer y = {.layer = l,
                              .prefix_k = prefix_k,
                              .prefix_v = prefix_v,
                              .alpha = {c->alpha[0] + first, c->alpha[1] + first}};
    if (c->policy.reorder) {
        y.order[0] = c->key_order + l * width(c);
        y.order[1] = c->value_order;
    }
    kv_clip_finish(&c->clip, &y);
    kv_clip_clear(&c->clip);
}
