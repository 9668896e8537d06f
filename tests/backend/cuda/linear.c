/* linear.cu, compared with the reference gemm_i8. */
#include <stdio.h>
#include <string.h>

#include "data.h"
#include "gpu.h"
#include "backend/cuda/launch.h"

static size_t size_y(const struct check_product *o)
{
    return ((o->M - 1) * o->ldy + o->N) * sizeof(float);
}

/* Copies x to the GPU, in rows that begin at multiples of 16 bytes, as tft_cuda_linear wants. */
static struct tft_cuda_rows put_bytes(struct gpu *g, const struct check_product *o)
{
    size_t ld = o->cols + 16 * check_below(g->c, 3), n = (o->M - 1) * ld + o->cols;
    uint8_t *x = check_buf(g->c, n, 1);
    for (size_t m = 0; m < o->M; m++)
        memcpy(x + m * ld, o->x + m * o->ldx, o->cols);
    return (struct tft_cuda_rows){
        .bytes = gpu_copy(x, n),
        .ld = ld,
        .affine = gpu_copy(o->xq, (o->step ? o->M : 1) * sizeof *o->xq),
        .affine_step = o->step,
    };
}

static struct tft_cuda_product put_product(const struct check_product *o)
{
    size_t rows = tft_panel_rows(o->N);
    return (struct tft_cuda_product){
        .y = gpu_copy(o->y, size_y(o)),
        .ldy = o->ldy,
        .w = {
            .data = gpu_copy(o->w.data, rows * o->cols),
            .scale = gpu_copy(o->w.scale, rows * sizeof *o->w.scale),
            .rowsum = gpu_copy(o->w.rowsum, rows * sizeof *o->w.rowsum),
            .bias = o->bias ? gpu_copy(o->bias, o->N * sizeof *o->bias) : NULL,
            .rows = (uint32_t)o->N,
            .cols = (uint32_t)o->cols,
        },
    };
}

/* One launch of n matrices of N[i] outputs, all multiplied by the first operand's x. */
static void one_shape(struct gpu *g, size_t M, size_t cols, size_t n, const size_t N[],
                      size_t byte_kind, size_t weight_kind)
{
    struct check_product o[TFT_CUDA_PRODUCTS] = {{0}};
    struct tft_cuda_product p[TFT_CUDA_PRODUCTS];
    for (size_t i = 0; i < n; i++) {
        o[i] = check_product(g->c, M, N[i], cols, byte_kind, weight_kind);
        p[i] = put_product(&o[i]);
    }
    struct tft_cuda_rows x = put_bytes(g, &o[0]);
    /* a random number of multiprocessors chooses a random tile */
    tft_cuda_linear(g->stream, p, (uint32_t)n, o[0].add, &x, (uint32_t)M,
                    1 + (uint32_t)check_below(g->c, 20));
    for (size_t i = 0; i < n; i++) {
        g->c->ref->gemm_i8(&(struct tft_gemm_i8){o[i].y, o[i].ldy, o[0].x, o[0].ldx, o[0].xq,
                                                 o[0].step, &o[i].w, o[i].bias, o[0].add, M, N[i],
                                                 0});
        gpu_same(g, o[i].y, p[i].y, size_y(&o[i]),
                 "matrix %zu of %zu: M %zu N %zu cols %zu step %zu bias %d add %d", i, n, M, N[i],
                 cols, o[0].step, o[i].bias != NULL, o[0].add);
    }
    gpu_free(g);
}

/* --------------------------------------------------------------------------------------- timing */

struct timed {
    struct tft_cuda_product p[TFT_CUDA_PRODUCTS];
    size_t n, M, bytes; /* of weights */
    struct tft_cuda_rows x;
    int8_t *data[100]; /* weights of all matrices, for each copy */
};

static void launch(struct gpu *g, void *arg, size_t copy)
{
    struct timed *t = arg;
    int8_t *data = t->data[copy];
    for (size_t i = 0; i < t->n; i++) {
        t->p[i].w.data = data;
        data += tft_panel_rows(t->p[i].w.rows) * t->p[i].w.cols;
    }
    tft_cuda_linear(g->stream, t->p, (uint32_t)t->n, false, &t->x, (uint32_t)t->M,
                    g->multiprocessors);
}

/* Times one launch of n matrices [N[i], cols] and M tokens. */
static void bench(struct gpu *g, const char *what, size_t M, size_t cols, size_t n,
                  const size_t N[])
{
    struct check *c = g->c;
    struct timed t = {.n = n, .M = M, .x = {.ld = cols}};
    struct tft_affine q = {1, 1, 128};
    char name[80];
    double rows = 0;
    for (size_t i = 0; i < n; i++) {
        size_t padded = tft_panel_rows(N[i]);
        float *zero = check_buf(c, padded, sizeof *zero);
        memset(zero, 0, padded * sizeof *zero);
        t.p[i] = (struct tft_cuda_product){
            .y = gpu_alloc(M * N[i] * sizeof(float)),
            .ldy = N[i],
            .w =
                {
                    .scale = gpu_copy(zero, padded * sizeof *zero),
                    .rowsum = gpu_copy(zero, padded * sizeof *zero),
                    .rows = (uint32_t)N[i],
                    .cols = (uint32_t)cols,
                },
        };
        t.bytes += padded * cols;
        rows += (double)N[i];
    }
    int8_t *weights = check_buf(c, t.bytes, 1);
    uint8_t *x = check_buf(c, M * cols, 1);
    size_t copies = gpu_copies((double)t.bytes);
    for (size_t i = 0; i < t.bytes; i++)
        weights[i] = check_weight(c, 3);
    for (size_t i = 0; i < M * cols; i++)
        x[i] = check_byte(c, 2);
    for (size_t i = 0; i < copies; i++)
        t.data[i] = gpu_copy(weights, t.bytes);
    t.x.bytes = gpu_copy(x, M * cols);
    t.x.affine = gpu_copy(&q, sizeof q);
    snprintf(name, sizeof name, "%zu x %.0f x %zu: %s", M, rows, cols, what);
    gpu_time(g, &(struct gpu_timed){name, launch, &t, copies, (double)t.bytes,
                                    2 * (double)M * rows * (double)cols, true});
    gpu_free(g);
}

/* The layers of Llama 3.2 1B. */
static void bench_all(struct gpu *g)
{
    static const size_t tokens[] = {1, 4, 32, 128, 512, 2048};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        bench(g, "q, k, v", tokens[i], 2048, 3, (const size_t[]){2048, 512, 512});
        bench(g, "o", tokens[i], 2048, 1, (const size_t[]){2048});
        bench(g, "gate, up", tokens[i], 2048, 2, (const size_t[]){8192, 8192});
        bench(g, "down", tokens[i], 8192, 1, (const size_t[]){2048});
    }
    bench(g, "head", 1, 2048, 1, (const size_t[]){128256});
}

void gpu_linear(struct gpu *g)
{
    struct check *c = g->c;
    if (!check_named(g->c, "linear"))
        return;
    /* one token, a few, more than the smallest tile */
    for (int i = 0; i < (c->thorough ? 40 : 24); i++) {
        size_t M = i % 4 == 0 ? 1 : i % 4 == 1 ? check_size(c, 64) : 1 + check_below(c, 140);
        size_t N[] = {check_size(c, 300), check_size(c, 100), check_size(c, 60)};
        one_shape(g, M, 16 * check_size(c, 24), 1 + check_below(c, 3), N, check_below(c, 6),
                  check_below(c, 6));
    }
    for (size_t kind = 0; kind < 6; kind++) { /* the largest sums of each sign, and mixed */
        size_t N[] = {17};
        one_shape(g, 1 + kind % 2 * 8, 8192, 1, N, kind % 2, kind / 2);
    }
    size_t N[] = {16};
    one_shape(g, 1, TFT_PANEL_MAX_K, 1, N, 1, 1);
    one_shape(g, 2, TFT_PANEL_MAX_K, 1, N, 1, 0);
    if (c->bench)
        bench_all(g);
}
