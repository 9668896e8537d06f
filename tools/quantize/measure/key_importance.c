#include "tools/quantize/measure/key_importance.h"

#include <stdlib.h>

bool key_importance_open(struct key_importance *k, const struct tft_model *m)
{
    size_t n = (size_t)m->n_layer * m->n_head_kv * m->head_dim;
    *k = (struct key_importance){.m = m};
    k->query = calloc(n, sizeof *k->query);
    k->key = calloc(n, sizeof *k->key);
    k->importance = calloc(n, sizeof *k->importance);
    return k->query && k->key && k->importance;
}

void key_importance_close(struct key_importance *k)
{
    free(k->query);
    free(k->key);
    free(k->importance);
    *k = (struct key_importance){0};
}

/* x: n numbers, `stride` apart */
static double off_mean(const float *x, size_t stride, size_t n)
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

void key_importance_add(struct key_importance *k, const struct tft_session *s, uint32_t l,
                        uint32_t n)
{
    const struct tft_model *m = k->m;
    struct tft_pass p = {.m = m, .s = (struct tft_session *)(uintptr_t)s};
    uint32_t dim = m->head_dim, width = m->n_head_kv * dim, group = m->n_head / m->n_head_kv;
    size_t stride = tft_pass_stride(&p, TFT_K), at = (size_t)l * width;
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t t = 0; t < n; t += KEY_IMPORTANCE_GROUP)
            k->key[at + i] += off_mean(tft_pass_row(&p, TFT_K, t) + i, stride,
                                       n - t < KEY_IMPORTANCE_GROUP ? n - t : KEY_IMPORTANCE_GROUP);
    for (uint32_t t = 0; t < n; t++) {
        const float *q = tft_pass_row(&p, TFT_Q, t);
        for (uint32_t i = 0; i < m->n_head * dim; i++)
            k->query[at + i / dim / group * dim + i % dim] += (double)q[i] * (double)q[i];
    }
}

void key_importance_finish(struct key_importance *k)
{
    for (size_t i = 0; i < (size_t)k->m->n_layer * k->m->n_head_kv * k->m->head_dim; i++)
        k->importance[i] = (float)(k->query[i] * k->key[i]);
}
