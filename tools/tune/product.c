#include "product.h"

#include <stdlib.h>

#include "alloc.h"
#include "port.h"

struct product {
    const struct tft_model *m;
    int n_threads;
    size_t n, stride; /* rows in hand, and how many bytes they are apart */
    uint8_t *bytes;   /* [most n, stride], padded as panels want it */
    const struct tft_affine *affine;
    size_t step;
    float *slab; /* [threads, slab_size] */
    size_t slab_size;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct product *product_open(const struct tft_model *m, size_t n, int n_threads)
{
    enum { SLAB = 1 << 18 }; /* floats: near an L2 cache */
    size_t width = larger(larger(m->n_embd, m->n_ff), (size_t)m->n_head * m->head_dim), bytes, slab;
    struct product *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct product){.m = m, .n_threads = n_threads, .stride = tft_panel_cols(width)};
    p->slab_size = larger(SLAB, TFT_QUAD * larger(width, m->n_vocab));
    if (tft_mul(n, p->stride, &bytes))
        p->bytes = calloc(bytes, 1);
    if (tft_mul((size_t)n_threads * p->slab_size, sizeof *p->slab, &slab))
        p->slab = malloc(slab);
    if (p->bytes && p->slab)
        return p;
    product_close(p);
    return NULL;
}

void product_close(struct product *p)
{
    if (!p)
        return;
    free(p->bytes);
    free(p->slab);
    free(p);
}

/* This thread's share of n units. */
static void share(size_t n, int tid, int n_threads, size_t *begin, size_t *end)
{
    *begin = n * (size_t)tid / (size_t)n_threads;
    *end = n * (size_t)(tid + 1) / (size_t)n_threads;
}

/* ------------------------------------------------------------------------------------------------ forward */

struct take_job {
    struct product *p;
    const float *x;
    size_t width;
};

static void take(void *arg, int tid, int n_threads)
{
    const struct take_job *j = arg;
    size_t begin, end;
    share(j->p->n, tid, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++)
        j->p->m->kern.quantize(j->p->bytes + i * j->p->stride, j->x + i * j->width, j->width, &j->p->affine[i * j->p->step]);
}

/* What is behind a row is of an earlier input, and multiplied by the zeros that panels are padded with. */
void product_take(struct product *p, const real *x, size_t n, size_t width, const struct tft_affine *q, size_t step)
{
    p->n = n;
    p->affine = q;
    p->step = step;
    tft_port_team(p->n_threads, take, &(struct take_job){p, x, width});
}

struct run_job {
    const struct product *p;
    const struct tft_linear *l;
    float *y;
    bool add;
};

static void run(void *arg, int tid, int n_threads)
{
    const struct run_job *j = arg;
    const struct product *p = j->p;
    const struct tft_mat *w = &j->l->w;
    size_t cols = tft_panel_cols(w->cols), begin, end;
    share(tft_panel_rows(w->rows) / TFT_PANEL, tid, n_threads, &begin, &end);
    begin *= TFT_PANEL;
    end = end * TFT_PANEL < w->rows ? end * TFT_PANEL : w->rows;
    struct tft_panels panels = {(const int8_t *)w->data + begin * cols, w->scale + begin, w->rowsum + begin, cols};
    if (begin < end)
        p->m->kern.gemm_i8(j->y + begin, w->rows, p->bytes, p->stride, p->affine, p->step, &panels,
                           j->l->bias ? j->l->bias + begin : NULL, j->add, p->n, end - begin);
}

void product_run(struct product *p, real *y, const struct tft_linear *l, bool add)
{
    tft_port_team(p->n_threads, run, &(struct run_job){p, l, y, add});
}

/* --------------------------------------------------------------------------------------------------- back */

/* to: [n, rows]: columns k .. k + n - 1 of W, each one a row; k a multiple of 4. In a panel 16 of its numbers are near each other. */
static void columns(float *to, const struct tft_mat *w, size_t k, size_t n)
{
    const int8_t *data = w->data;
    size_t rows = w->rows, cols = tft_panel_cols(w->cols);
    for (size_t row = 0; row < rows; row += TFT_PANEL)
        for (size_t i = 0; i < n; i += TFT_QUAD) {
            const int8_t *quad = data + tft_panel_at(row, k + i, cols);
            size_t some = rows - row < TFT_PANEL ? rows - row : TFT_PANEL, depth = n - i < TFT_QUAD ? n - i : TFT_QUAD;
            for (size_t d = 0; d < depth; d++)
                for (size_t r = 0; r < some; r++)
                    to[(i + d) * rows + row + r] = (float)quad[r * TFT_QUAD + d] * w->scale[row + r];
        }
}

struct back_job {
    struct product *p;
    const struct tft_linear *l;
    float *dx;
    const float *dy;
    size_t n;
    bool add;
};

/* dx = dy W, some columns of W at a time. */
static void back(void *arg, int tid, int n_threads)
{
    const struct back_job *j = arg;
    const struct tft_mat *w = &j->l->w;
    float *slab = j->p->slab + (size_t)tid * j->p->slab_size;
    size_t most = j->p->slab_size / w->rows / TFT_QUAD * TFT_QUAD, begin, end;
    share((w->cols + TFT_QUAD - 1) / TFT_QUAD, tid, n_threads, &begin, &end);
    begin *= TFT_QUAD;
    end = end * TFT_QUAD < w->cols ? end * TFT_QUAD : w->cols;
    for (size_t k = begin, n; k < end; k += n) {
        n = end - k < most ? end - k : most;
        columns(slab, w, k, n);
        j->p->m->kern.gemm[TFT_NUM_F32](j->dx + k, w->cols, j->dy, w->rows, slab, NULL, j->add, j->n, n, w->rows);
    }
}

void product_back(struct product *p, real *dx, const real *dy, size_t n, const struct tft_linear *l, bool add)
{
    tft_port_team(p->n_threads, back, &(struct back_job){p, l, dx, dy, n, add});
}

/* -------------------------------------------------------------------------------------------------- plain */

void product_plain(const struct tft_model *m, real *y, size_t ldy, const real *x, const real *w, size_t M, size_t N, size_t K)
{
    m->kern.gemm[TFT_NUM_F32](y, ldy, x, K, w, NULL, 0, M, N, K);
}

void product_mix(const struct tft_model *m, real *y, const real *p, size_t ldp, const real *v, size_t M, size_t N, size_t K)
{
    m->kern.mix[TFT_NUM_F32](y, N, p, ldp, v, M, K, N);
}
