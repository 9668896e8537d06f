/*
 * Compares gemm_i8 of the best ISA level, or of ISA, with oneDNN's inner product u8 x s8 -> s32,
 * with weights in the layout that oneDNN prefers. One thread; the two run in turns.
 *
 *      bench_onednn [ISA]
 */
#define _POSIX_C_SOURCE 200809L
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simd/kernels.h"

enum { TOKENS = 512, ROUNDS = 61 };

static void *must(void *p)
{
    if (!p) {
        fputs("bench_onednn: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static void check(dnnl_status_t s, const char *what)
{
    if (s != dnnl_success) {
        fprintf(stderr, "bench_onednn: %s: status %d\n", what, (int)s);
        exit(1);
    }
}
#define DNNL(call) check(call, #call)

static double now(void) /* CPU time of the process, since the machine may be busy */
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* --------------------------------------------------------------------------------------- oneDNN */

struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_memory_t src, weights, dst;
};

static dnnl_memory_t memory(struct product *p, dnnl_query_t which, void *data)
{
    dnnl_memory_t m;
    DNNL(dnnl_memory_create(&m, dnnl_primitive_desc_query_md(p->desc, which, 0), p->engine, data));
    return m;
}

/* y: [TOKENS, N], x: [TOKENS, K], w: [N, K] */
static struct product product_of(int32_t *y, uint8_t *x, int8_t *w, size_t N, size_t K)
{
    struct product p;
    dnnl_dims_t xd = {TOKENS, (dnnl_dim_t)K}, wd = {(dnnl_dim_t)N, (dnnl_dim_t)K},
                yd = {TOKENS, (dnnl_dim_t)N};
    dnnl_memory_desc_t xm, wm, ym, plain;
    dnnl_inner_product_desc_t d;
    DNNL(dnnl_engine_create(&p.engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&p.stream, p.engine, dnnl_stream_default_flags));
    DNNL(dnnl_memory_desc_init_by_tag(&xm, 2, xd, dnnl_u8, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&wm, 2, wd, dnnl_s8, dnnl_format_tag_any));
    DNNL(dnnl_memory_desc_init_by_tag(&plain, 2, wd, dnnl_s8, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&ym, 2, yd, dnnl_s32, dnnl_ab));
    DNNL(dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, &xm, &wm, NULL, &ym));
    DNNL(dnnl_primitive_desc_create(&p.desc, &d, NULL, p.engine, NULL));
    DNNL(dnnl_primitive_create(&p.primitive, p.desc));
    p.src = memory(&p, dnnl_query_src_md, x);
    p.dst = memory(&p, dnnl_query_dst_md, y);
    p.weights = memory(&p, dnnl_query_weights_md, DNNL_MEMORY_ALLOCATE);

    dnnl_memory_t from;
    dnnl_primitive_desc_t rd;
    dnnl_primitive_t reorder;
    DNNL(dnnl_memory_create(&from, &plain, p.engine, w));
    DNNL(dnnl_reorder_primitive_desc_create(
        &rd, &plain, p.engine, dnnl_primitive_desc_query_md(p.desc, dnnl_query_weights_md, 0),
        p.engine, NULL));
    DNNL(dnnl_primitive_create(&reorder, rd));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, p.weights}};
    DNNL(dnnl_primitive_execute(reorder, p.stream, 2, args));
    DNNL(dnnl_stream_wait(p.stream));
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(rd);
    dnnl_memory_destroy(from);
    return p;
}

static void product_run(struct product *p)
{
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->src}, {DNNL_ARG_WEIGHTS, p->weights}, {DNNL_ARG_DST, p->dst}};
    DNNL(dnnl_primitive_execute(p->primitive, p->stream, 3, args));
    DNNL(dnnl_stream_wait(p->stream));
}

static void product_end(struct product *p)
{
    dnnl_memory_destroy(p->src);
    dnnl_memory_destroy(p->weights);
    dnnl_memory_destroy(p->dst);
    dnnl_primitive_destroy(p->primitive);
    dnnl_primitive_desc_destroy(p->desc);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

/* ----------------------------------------------------------------------------------------- race */

static void race(const struct tft_kernels *k, size_t N, size_t K)
{
    size_t rows = tft_panel_rows(N);
    uint8_t *x = must(aligned_alloc(64, TOKENS * K));
    int8_t *w = must(malloc(N * K)), *panels = must(aligned_alloc(64, rows * K));
    int32_t *theirs = must(aligned_alloc(64, TOKENS * N * sizeof *theirs)),
            *rowsum = must(calloc(rows, sizeof *rowsum));
    float *ours = must(aligned_alloc(64, TOKENS * N * sizeof *ours)),
          *scale = must(calloc(rows, sizeof *scale));
    srand(1);
    for (size_t i = 0; i < TOKENS * K; i++)
        /* below 128: without VNNI, oneDNN saturates sums of pairs of larger ones at 16 bits */
        x[i] = rand() >> 7 & 127;
    for (size_t n = 0; n < N; n++) {
        scale[n] = 1;
        for (size_t i = 0; i < K; i++) {
            w[n * K + i] = (int8_t)((rand() >> 7) % 255 - 127);
            panels[tft_panel_at(n, i, K)] = w[n * K + i];
            rowsum[n] += w[n * K + i];
        }
    }
    struct tft_affine q = {1, 1, 0};
    struct tft_panels p = {panels, scale, rowsum, K};
    struct product product = product_of(theirs, x, w, N, K);

    double a[ROUNDS], b[ROUNDS];
    for (int r = -1; r < ROUNDS; r++) { /* round -1 warms up */
        double t0 = now();
        k->gemm_i8(&(struct tft_gemm_i8){
            .y = ours, .ldy = N, .x = x, .ldx = K, .xq = &q, .w = &p, .M = TOKENS, .N = N});
        double t1 = now();
        product_run(&product);
        double t2 = now();
        if (r >= 0)
            a[r] = t1 - t0, b[r] = t2 - t1;
    }
    for (size_t i = 0; i < TOKENS * N; i++)
        if (ours[i] != (float)theirs[i]) {
            fprintf(stderr, "bench_onednn: output %zu: %.1f, oneDNN has %d\n", i, (double)ours[i],
                    (int)theirs[i]);
            exit(1);
        }
    qsort(a, ROUNDS, sizeof *a, by_value);
    qsort(b, ROUNDS, sizeof *b, by_value);
    double ops = 2.0 * TOKENS * (double)N * (double)K;
    printf("%6d x %4zu x %4zu %8.0f %8.0f %9.0f %8.0f %8.3f %8.3f\n", TOKENS, N, K,
           ops / a[ROUNDS / 2], ops / a[0], ops / b[ROUNDS / 2], ops / b[0],
           b[ROUNDS / 2] / a[ROUNDS / 2], b[0] / a[0]);
    product_end(&product);
    free(x), free(w), free(panels), free(theirs), free(rowsum), free(ours), free(scale);
}

int main(int argc, char **argv)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    if (!threads || strcmp(threads, "1") != 0) { /* OpenMP reads it before main */
        setenv("OMP_NUM_THREADS", "1", 1);
        execv("/proc/self/exe", argv);
        perror("bench_onednn: execv");
        return 1;
    }
    if (argc > 1 && !tft_kernels_limit(argv[1])) {
        fprintf(stderr, "bench_onednn: this machine has no ISA level \"%s\"\n", argv[1]);
        return 2;
    }
    struct tft_kernels k = {0};
    tft_kernels_fill(&k, tft_kernels_best());
    printf("GOPS, one thread      %8s %8s %9s %8s %8s %8s\n", k.name, "best", "oneDNN", "best",
           "ratio", "of bests");
    /* N, K */
    static const size_t shape[][2] = {{4864, 896}, {2048, 2048}, {896, 4864}, {1536, 576}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        race(&k, shape[i][0], shape[i][1]);
    return 0;
}
