#include "tools/quantize/tune/heads.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/rope.h"
#include "tools/quantize/tune/row_ops.h"

struct heads {
    const struct tft_model *m;
    float *cos, *sin; /* [n, n_rot] */
};

struct heads *heads_open(const struct tft_model *m, size_t n_prefix, size_t n)
{
    struct heads *h = calloc(1, sizeof *h);
    size_t bytes;
    if (!h)
        return NULL;
    h->m = m;
    if (tft_mul(n, 2 * (m->n_rot + (size_t)1) * sizeof *h->cos, &bytes))
        h->cos = malloc(bytes);
    if (!h->cos) {
        heads_close(h);
        return NULL;
    }
    h->sin = h->cos + n * m->n_rot;
    for (size_t i = 0; i < n; i++)
        tft_rope_angles(h->cos + i * m->n_rot, h->sin + i * m->n_rot, m->rope_freq, m->n_rot,
                        m->rope_halves, (uint32_t)(n_prefix + i));
    return h;
}

void heads_close(struct heads *h)
{
    if (!h)
        return;
    free(h->cos);
    free(h);
}

static size_t width_of(const struct tft_model *m, bool keys)
{
    return (size_t)(keys ? m->n_head_kv : m->n_head) * m->head_dim;
}

static void rotate(const struct heads *h, bool keys, real *x, size_t i, bool back)
{
    const struct tft_model *m = h->m;
    row_rope(m, x, width_of(m, keys), h->cos + i * m->n_rot, h->sin + i * m->n_rot, back);
}

void heads_run(const struct heads *h, const struct tft_block *b, bool keys, real *y, const real *x,
               size_t i)
{
    const struct tft_model *m = h->m;
    const struct tft_norm *norm = keys ? &b->k_norm : &b->q_norm;
    size_t width = width_of(m, keys), dim = m->head_dim;
    memcpy(y, x, width * sizeof *y);
    for (size_t at = 0; norm->w && at < width; at += dim)
        row_norm(y + at, y + at, norm, dim, m->norm_eps);
    rotate(h, keys, y, i, false);
}

void heads_back(const struct heads *h, const struct tft_block *b, bool keys, real *dx, real *dy,
                const real *x, size_t i)
{
    const struct tft_model *m = h->m;
    const struct tft_norm *norm = keys ? &b->k_norm : &b->q_norm;
    size_t width = width_of(m, keys), dim = m->head_dim;
    rotate(h, keys, dy, i, true);
    if (!norm->w) {
        memcpy(dx, dy, width * sizeof *dx);
        return;
    }
    memset(dx, 0, width * sizeof *dx);
    for (size_t at = 0; at < width; at += dim)
        row_norm_back(dx + at, dy + at, x + at, norm, dim, m->norm_eps);
}
