#include "tools/quantize/measure/key_importance.h"

#include <stdlib.h>
#include <string.h>

#include "run/pass.h"
#include "tools/quantize/array.h"

static void *zeros(uint64_t n, size_t size)
{
    void *p = array_alloc(size, n, 1, 1);
    return p ? memset(p, 0, (size_t)n * size) : NULL;
}

bool key_importance_open(struct key_importance *ki, const struct tft_model *m)
{
    *ki = (struct key_importance){.m = m};
    ki->query = zeros(m->kv_numbers, sizeof *ki->query);
    ki->key = zeros(m->kv_numbers, sizeof *ki->key);
    ki->importance = zeros(m->kv_numbers, sizeof *ki->importance);
    return ki->query && ki->key && ki->importance;
}

void key_importance_close(struct key_importance *ki)
{
    free(ki->query);
    free(ki->key);
    free(ki->importance);
    *ki = (struct key_importance){0};
}

/* The sum of (x - mean)^2. x: n numbers, `stride` apart. */
static double squares_off_mean(const float *x, size_t stride, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i * stride];
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i * stride] - sum / (double)n;
        squares += d * d;
    }
    return squares;
}

void key_importance_add(struct key_importance *ki, const struct tft_session *s, uint32_t l,
                        uint32_t n)
{
    const struct tft_model *m = ki->m;
    const struct tft_layer *b = &m->layer[l];
    struct tft_pass p = {.m = m, .work = s->work};
    uint32_t dim = b->kv.dim, width = b->kv.n * dim, group = m->n_head / b->kv.n;
    size_t stride = tft_pass_stride(&p, TFT_K), at = tft_model_kv_before(m, b->kv_layer);
    for (uint32_t i = 0; tft_layer_has_kv(b) && i < width; i++)
        for (uint32_t t = 0; t < n; t += KEY_IMPORTANCE_GROUP)
            ki->key[at + i] +=
                squares_off_mean(tft_pass_row(&p, TFT_K, t) + i, stride,
                                 n - t < KEY_IMPORTANCE_GROUP ? n - t : KEY_IMPORTANCE_GROUP);
    for (uint32_t t = 0; t < n; t++) {
        const float *q = tft_pass_row(&p, TFT_Q, t);
        for (uint32_t i = 0; i < m->n_head * dim; i++)
            ki->query[at + i / dim / group * dim + i % dim] += (double)q[i] * (double)q[i];
    }
}

void key_importance_finish(struct key_importance *ki)
{
    for (size_t i = 0; i < ki->m->kv_numbers; i++)
        ki->importance[i] = (float)(ki->query[i] * ki->key[i]);
}
