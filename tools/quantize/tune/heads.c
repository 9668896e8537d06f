#include "tools/quantize/tune/heads.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rope.h"
#include "port/port.h"
#include "tools/quantize/tune/row_ops.h"

/* A table of angles for all tokens. */
struct angles {
    uint32_t n_rot;
    float *cos, *sin; /* [n, n_rot] */
};

struct heads {
    const struct tft_model *m;
    struct angles usual, window; /* window: of layers with a window, if their frequencies differ */
    real *growth;                /* [n] factors of queries */
    void *memory;
};

/* ---------------------------------------------------------------------------- tables of a model */

static void layout(struct heads *h, struct tft_arena *a, size_t n)
{
    const struct tft_model *m = h->m;
    for (int i = 0; i < (m->rope_freq_window ? 2 : 1); i++) {
        struct angles *t = i ? &h->window : &h->usual;
        t->n_rot = i && m->n_rot_window ? m->n_rot_window : m->n_rot;
        t->cos = tft_arena_take(a, n, t->n_rot * sizeof *t->cos);
        t->sin = tft_arena_take(a, n, t->n_rot * sizeof *t->sin);
    }
    h->growth = tft_arena_take(a, n, sizeof *h->growth);
}

static void set_angles(const struct tft_model *m, const struct angles *t, const double *freq,
                       float amplitude, size_t i, uint32_t position)
{
    float *c = t->cos + i * t->n_rot, *s = t->sin + i * t->n_rot;
    tft_rope_angles(c, s, freq, t->n_rot, m->rope_halves, position);
    for (uint32_t j = 0; j < t->n_rot; j++) {
        c[j] *= amplitude;
        s[j] *= amplitude;
    }
}

/* Mistral 3: models/mistral3.c. */
static real growth_at(const struct tft_model *m, uint32_t position)
{
    uint32_t periods = m->query_growth > 0 ? position / m->query_period : 0;
    return (real)(1 + (double)m->query_growth * tft_rope_log(1.0 + periods));
}

struct heads *heads_open(const struct tft_model *m, size_t n_prefix, size_t n)
{
    struct heads *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->m = m;
    struct tft_arena a = {0};
    layout(h, &a, n);
    h->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!h->memory) {
        heads_close(h);
        return NULL;
    }
    a = (struct tft_arena){.base = h->memory};
    layout(h, &a, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t position = (uint32_t)(n_prefix + i);
        set_angles(m, &h->usual, m->rope_freq, m->rope_amplitude, i, position);
        if (m->rope_freq_window)
            set_angles(m, &h->window, m->rope_freq_window, 1, i, position);
        h->growth[i] = growth_at(m, position);
    }
    return h;
}

void heads_close(struct heads *h)
{
    if (!h)
        return;
    tft_port_free(h->memory);
    free(h);
}

/* ------------------------------------------------------------------------------------- rotation */

static size_t width_of(const struct tft_model *m, const struct tft_layer *b, bool keys)
{
    return (size_t)(keys ? b->kv.n : m->n_head) * b->kv.dim;
}

/* RoPE and the growth of queries, in place. With an amplitude r, RoPE is r R with the transpose
   r R^T: back turns the other way. */
static void rotate(const struct heads *h, const struct tft_layer *b, bool keys, real *x, size_t i,
                   bool back)
{
    const struct tft_model *m = h->m;
    const struct angles *t = b->window && m->rope_freq_window ? &h->window : &h->usual;
    size_t width = width_of(m, b, keys), at = i * t->n_rot;
    const struct row_angles angles = {t->cos + at, t->sin + at, t->n_rot, b->kv.dim,
                                      m->rope_halves};
    if (t->n_rot && !b->no_rope)
        row_rope(x, width, &angles, back);
    for (size_t j = 0; !keys && m->query_growth > 0 && j < width; j++)
        x[j] *= h->growth[i];
}

/* ---------------------------------------------------------------------------------------- norms */

static bool has(const struct tft_model *m, enum tft_formula_part piece)
{
    return m->parts >> piece & 1;
}

/* How many numbers are normalized together. */
static size_t normalized(const struct tft_model *m, const struct tft_layer *b, bool keys)
{
    return has(m, TFT_PART_WHOLE_QK_NORM) ? width_of(m, b, keys) : b->kv.dim;
}

/* The norm of the numbers from `at` on. */
static struct tft_norm norm_at(const struct tft_model *m, const struct tft_layer *b, bool keys,
                               size_t at)
{
    struct tft_norm norm = keys ? b->k_norm : b->q_norm;
    if (has(m, TFT_PART_OWN_QK_NORM))
        norm = (struct tft_norm){.w = norm.w + at, .b = m->zeros};
    return norm;
}

void heads_run(const struct heads *h, const struct tft_layer *b, bool keys, real *y, real *x,
               size_t i)
{
    const struct tft_model *m = h->m;
    bool late = has(m, TFT_PART_LATE_QK_NORM);
    size_t width = width_of(m, b, keys), n = normalized(m, b, keys);
    if (late)
        rotate(h, b, keys, x, i, false);
    memcpy(y, x, width * sizeof *y);
    for (size_t at = 0; b->q_norm.w && at < width; at += n) {
        struct tft_norm norm = norm_at(m, b, keys, at);
        row_norm(y + at, x + at, &norm, n, m->norm_eps);
    }
    if (!late)
        rotate(h, b, keys, y, i, false);
}

void heads_back(const struct heads *h, const struct tft_layer *b, bool keys, real *dx, real *dy,
                const real *x, size_t i)
{
    const struct tft_model *m = h->m;
    bool late = has(m, TFT_PART_LATE_QK_NORM);
    size_t width = width_of(m, b, keys), n = normalized(m, b, keys);
    if (!late)
        rotate(h, b, keys, dy, i, true);
    if (b->q_norm.w)
        memset(dx, 0, width * sizeof *dx);
    else
        memcpy(dx, dy, width * sizeof *dx);
    for (size_t at = 0; b->q_norm.w && at < width; at += n) {
        struct tft_norm norm = norm_at(m, b, keys, at);
        row_norm_back(dx + at, dy + at, x + at, &norm, n, m->norm_eps);
    }
    if (late)
        rotate(h, b, keys, dx, i, true);
}

void heads_values(const struct heads *h, const struct tft_layer *b, real *y, const real *x)
{
    for (size_t at = 0, dim = b->kv.dim; at < b->kv.n * dim; at += dim)
        row_norm(y + at, x + at, &b->v_norm, dim, h->m->norm_eps);
}

void heads_values_back(const struct heads *h, const struct tft_layer *b, real *dx, const real *dy,
                       const real *x)
{
    for (size_t at = 0, dim = b->kv.dim; at < b->kv.n * dim; at += dim)
        row_norm_back(dx + at, dy + at, x + at, &b->v_norm, dim, h->m->norm_eps);
}
