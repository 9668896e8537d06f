#include "tools/quantize/tune/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/array.h"

/* A block of W as floats. It fits an L1 cache together with the rows that it multiplies. */
enum { BLOCK_ROWS = 512, BLOCK_COLS = 16 };

struct matmul {
    const struct tft_model *m;
    int n_threads;
    size_t n, stride; /* rows of the input; bytes from one row to the next */
    uint8_t *bytes;   /* [largest n, stride], padded like the columns of panels; or rows of groups
                         (simd/packed.h) */
    const float *x;   /* [n, width] */
    size_t width;
    const struct tft_affine *affine;
    size_t step;
    float *block; /* [threads, BLOCK_ROWS, BLOCK_COLS] */
    float *rows;  /* [BLOCK_ROWS, largest width] of a matrix that is not in panels of int8 */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct matmul *matmul_open(const struct tft_model *m, size_t n, int n_threads)
{
    size_t width = larger(larger(m->n_embd, m->n_ff), (size_t)m->n_head * m->head_dim), bytes,
           groups = tft_groups_bytes(tft_panel_cols(width));
    struct matmul *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct matmul){.m = m,
                         .n_threads = n_threads,
                         .stride = m->group_inputs ? groups : tft_panel_cols(width)};
    if (tft_mul(n, p->stride, &bytes))
        p->bytes = calloc(bytes, 1);
    p->block = malloc((size_t)n_threads * BLOCK_ROWS * BLOCK_COLS * sizeof *p->block);
    if (!m->byte_inputs)
        p->rows = array_alloc(sizeof *p->rows, BLOCK_ROWS, width, 1);
    if (p->bytes && p->block && (p->rows || m->byte_inputs))
        return p;
    matmul_close(p);
    return NULL;
}

void matmul_close(struct matmul *p)
{
    if (!p)
        return;
    free(p->bytes);
    free(p->block);
    free(p->rows);
    free(p);
}

/* The share of thread tid in n units. */
static void share(size_t n, int tid, int n_threads, size_t *begin, size_t *end)
{
    *begin = n * (size_t)tid / (size_t)n_threads;
    *end = n * (size_t)(tid + 1) / (size_t)n_threads;
}

/* -------------------------------------------------------------------------------------- forward */

static void take_bytes(void *arg, int tid, int n_threads)
{
    const struct matmul *p = arg;
    size_t begin, end;
    share(p->n, tid, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++)
        p->m->kern.quantize(p->bytes + i * p->stride, p->x + i * p->width, p->width,
                            &p->affine[i * p->step]);
}

static void take_groups(void *arg, int tid, int n_threads)
{
    const struct matmul *p = arg;
    size_t begin, end;
    share(p->n, tid, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++)
        p->m->kern.quantize_groups(p->bytes + i * p->stride, p->width, 0, p->x + i * p->width,
                                   p->width);
}

/* Bytes beyond the width are left from an earlier input: panels are padded with zeros, so these
   bytes add 0. */
void matmul_take(struct matmul *p, const real *x, size_t n, const struct tft_input *in,
                 const struct tft_affine *q, size_t step)
{
    p->n = n;
    p->x = x;
    p->width = in->width;
    p->affine = q;
    p->step = step;
    if (in->range != TFT_RANGE_FLOAT)
        tft_port_team(p->n_threads, in->range == TFT_RANGE_GROUPS ? take_groups : take_bytes, p);
}

struct run_task {
    const struct matmul *p;
    const struct tft_linear *l;
    float *y;
    bool add;
};

static void run(void *arg, int tid, int n_threads)
{
    const struct run_task *task = arg;
    const struct matmul *p = task->p;
    const struct tft_mat *w = &task->l->w;
    size_t begin, end;
    share(tft_panel_rows(w->rows) / TFT_PANEL, tid, n_threads, &begin, &end);
    begin *= TFT_PANEL;
    end = end * TFT_PANEL < w->rows ? end * TFT_PANEL : w->rows;
    struct tft_product product = {.y = task->y + begin,
                                  .ldy = w->rows,
                                  .x = p->x,
                                  .bytes = p->bytes,
                                  .ldx = tft_format_in_panels(w->format) ? p->stride : p->width,
                                  .affine = p->affine,
                                  .step = p->step,
                                  .bias = task->l->bias,
                                  .add = task->add,
                                  .n = p->n};
    if (begin < end)
        w->format->product(&p->m->kern, w, &product, begin, end);
}

void matmul_run(struct matmul *p, real *y, const struct tft_linear *l, bool add)
{
    tft_port_team(p->n_threads, run, &(struct run_task){p, l, y, add});
}

/* ----------------------------------------------------------------------------------------- back */

/* to: [cols] = columns k .. k + cols - 1 of a row of panels of codes. */
static void expand_codes(float *to, const struct tft_mat *w, size_t row, size_t k, size_t cols)
{
    const struct tft_low *low = w->format->low;
    size_t size = tft_codes_bytes(low->bits, 1), at = row % TFT_PANEL;
    const uint8_t *panel = (const uint8_t *)w->data +
                           row / TFT_PANEL * tft_low_panel(low, tft_panel_cols(w->cols));
    for (size_t i = 0; i < cols; i++, k++) {
        const uint8_t *group = panel + k / low->group * tft_low_group_bytes(low),
                      *quad = group + TFT_PANEL + k % low->group / TFT_QUAD * size;
        int code = tft_low_code(quad, low->bits, at * TFT_QUAD + k % TFT_QUAD);
        to[i] = (float)((group[at] & 15) * (code - (group[at] >> 4))) * w->scale[row];
    }
}

static void expand_int8(float *to, const struct tft_mat *w, size_t first, size_t rows, size_t k,
                        size_t cols)
{
    const int8_t *data = w->data;
    for (size_t r = 0; r < rows; r++) {
        const int8_t *from = data + tft_panel_at(first + r, k, tft_panel_cols(w->cols));
        float scale = w->scale[first + r];
        for (size_t i = 0; i < cols; i++)
            to[r * cols + i] = (float)from[i / TFT_QUAD * TFT_QUAD * TFT_PANEL + i % TFT_QUAD] *
                               scale;
    }
}

struct back_task {
    struct matmul *p;
    const struct tft_linear *l;
    float *dx;
    const float *dy;
    size_t n, first, end; /* rows of W */
    bool add;
};

/* to: [rows, cols] = rows first .. first + rows - 1 and columns k .. k + cols - 1 of W. `first`
   begins a panel, and k four quads. */
static void expand(float *to, const struct back_task *task, size_t first, size_t rows, size_t k,
                   size_t cols)
{
    const struct tft_mat *w = &task->l->w;
    if (w->format->takes_bytes && !w->format->low) {
        expand_int8(to, w, first, rows, k, cols);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        if (w->format->low)
            expand_codes(to + r * cols, w, first + r, k, cols);
        else
            memcpy(to + r * cols, task->p->rows + (first + r - task->first) * w->cols + k,
                   cols * sizeof *to);
}

/* dx += dy W for some columns of W. Rows of W are added in their order, so that the result does not
   depend on the thread. */
static void back_columns(const struct back_task *task, float *block, size_t k, size_t cols)
{
    const struct tft_mat *w = &task->l->w;
    for (size_t i = 0; i < task->n && !task->add; i++)
        memset(task->dx + i * w->cols + k, 0, cols * sizeof *task->dx);
    for (size_t r = task->first, rows; r < task->end; r += rows) {
        rows = task->end - r < BLOCK_ROWS ? task->end - r : BLOCK_ROWS;
        expand(block, task, r, rows, k, cols);
        task->p->m->kern.mix[TFT_NUM_F32](&(struct tft_mix){
            .o = task->dx + k,
            .ldo = w->cols,
            .p = task->dy + r,
            .ldp = w->rows,
            .v = block,
            .nq = task->n,
            .n = rows,
            .head_dim = cols,
        });
    }
}

static void back(void *arg, int tid, int n_threads)
{
    const struct back_task *task = arg;
    size_t cols = task->l->w.cols, begin, end;
    share((cols + BLOCK_COLS - 1) / BLOCK_COLS, tid, n_threads, &begin, &end);
    end = end * BLOCK_COLS < cols ? end * BLOCK_COLS : cols;
    for (size_t k = begin * BLOCK_COLS; k < end; k += BLOCK_COLS)
        back_columns(task, task->p->block + (size_t)tid * BLOCK_ROWS * BLOCK_COLS, k,
                     end - k < BLOCK_COLS ? end - k : BLOCK_COLS);
}

static void widen_rows(void *arg, int tid, int n_threads)
{
    const struct back_task *task = arg;
    const struct tft_mat *w = &task->l->w;
    size_t begin, end;
    share(task->end - task->first, tid, n_threads, &begin, &end);
    for (size_t r = begin; r < end; r++)
        tft_mat_row(task->p->m, w, (uint32_t)(task->first + r), task->p->rows + r * w->cols);
}

/* Panels of int8 and of codes for int8 give some columns of a row. Other formats give whole rows
   alone, which become floats first. */
void matmul_back(struct matmul *p, real *dx, const real *dy, size_t n, const struct tft_linear *l,
                  bool add)
{
    size_t rows = l->w.rows, step = l->w.format->takes_bytes ? rows : BLOCK_ROWS;
    struct back_task task = {.p = p, .l = l, .dx = dx, .dy = dy, .n = n, .add = add};
    for (size_t first = 0; first < rows; first += step, task.add = true) {
        task.first = first;
        task.end = rows - first < step ? rows : first + step;
        if (!l->w.format->takes_bytes)
            tft_port_team(p->n_threads, widen_rows, &task);
        tft_port_team(p->n_threads, back, &task);
    }
}

/* ---------------------------------------------------------------------------------------- plain */

void matmul_plain(const struct tft_model *m, real *y, size_t ldy, const real *x, const real *w,
                   size_t M, size_t N, size_t K)
{
    m->kern.gemm[TFT_NUM_F32](
        &(struct tft_gemm){.y = y, .ldy = ldy, .x = x, .ldx = K, .w = w, .M = M, .N = N, .K = K});
}

void matmul_mix(const struct tft_model *m, real *y, const real *p, size_t ldp, const real *v,
                 size_t M, size_t N, size_t K)
{
    m->kern.mix[TFT_NUM_F32](&(struct tft_mix){y, N, p, ldp, v, M, K, N});
}
