#include "tools/quantize/measure/key_importance.h"

#include <stdlib.h>

#include "base/arena.h"
#include "run/pass.h"

bool key_importance_open(struct key_importance *ki, const struct tft_model *m)
{
    size_t width = (size_t)m->n_head_kv * m->head_dim, n;
    *ki = (struct key_importance){.m = m};
    if (!tft_mul(m->n_kv_layer, width, &n))
        return false;
    ki->query = calloc(n, sizeof *ki->query);
    ki->key = calloc(n, sizeof *ki->key);
    ki->importance = calloc(n, sizeof *ki->importance);
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
    struct tft_pass p = {.m = m, .work = s->work};
    uint32_t dim = m->head_dim, width = m->n_head_kv * dim, group = m->n_head / m->n_head_kv;
    size_t stride = tft_pass_stride(&p, TFT_K), at = (size_t)l * width;
    for (uint32_t i = 0; i < width; i++)
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
    for (size_t i = 0; i < (size_t)ki->m->n_kv_layer * ki->m->n_head_kv * ki->m->head_dim; i++)
        ki->importance[i] = (float)(ki->query[i] * ki->key[i]);
}
