/* rows.cu, compared with the reference kernels. */
#include <string.h>

#include "simd/affine.h"
#include "data.h"
#include "gpu.h"
#include "backend/cuda/launch.h"

/* Where a kernel writes: floats, or bytes with a range of all tokens or of each token. */
struct result {
    struct tft_cuda_rows rows;
    struct tft_affine *affine; /* of the host */
    size_t M, n;
};

static struct result take_result(struct gpu *g, size_t M, size_t n)
{
    struct check *c = g->c;
    struct result r = {.M = M, .n = n};
    r.rows.ld = n + check_below(c, 4);
    r.rows.affine_step = check_below(c, 2);
    if (check_below(c, 2)) {
        r.rows.floats = gpu_alloc(((M - 1) * r.rows.ld + n) * sizeof(float));
        return r;
    }
    r.affine = check_buf(c, M, sizeof *r.affine);
    for (size_t m = 0; m < M; m++) {
        r.affine[m] = check_affine(c);
        r.affine[m].scale *= 0.02f; /* so that most byte values occur */
        r.affine[m].inverse = 1 / r.affine[m].scale;
    }
    r.rows.affine = gpu_copy(r.affine, M * sizeof *r.affine);
    r.rows.bytes = gpu_alloc((M - 1) * r.rows.ld + n);
    return r;
}

/* want: the floats of token m */
static void same_row(struct gpu *g, const struct result *r, size_t m, const float *want,
                     const char *what)
{
    if (r->rows.floats) {
        gpu_same(g, want, r->rows.floats + m * r->rows.ld, r->n * sizeof *want,
                 "%s: token %zu of %zu, %zu numbers", what, m, r->M, r->n);
        return;
    }
    uint8_t *bytes = check_buf(g->c, r->n, 1);
    g->c->ref->quantize(bytes, want, r->n, &r->affine[m * r->rows.affine_step]);
    gpu_same(g, bytes, r->rows.bytes + m * r->rows.ld, r->n,
             "%s: token %zu of %zu, %zu bytes, step %zu", what, m, r->M, r->n, r->rows.affine_step);
}

static float *filled(struct gpu *g, size_t n)
{
    float *x = check_buf(g->c, n, sizeof *x);
    check_fill(g->c, x, n);
    return x;
}

static void norm(struct gpu *g)
{
    if (!check_named(g->c, "norm"))
        return;
    for (int i = 0; i < 40; i++) {
        size_t M = 1 + check_below(g->c, 4), n = check_size(g->c, i % 8 ? 700 : 5000),
               ld = n + check_below(g->c, 4);
        float *x = filled(g, M * ld), *w = filled(g, n), *b = i % 2 ? filled(g, n) : NULL,
              *want = check_buf(g->c, n, sizeof *want);
        struct result r = take_result(g, M, n);
        tft_cuda_norm(g->stream, &r.rows, gpu_copy(x, M * ld * sizeof *x), ld,
                      gpu_copy(w, n * sizeof *w), b ? gpu_copy(b, n * sizeof *b) : NULL,
                      (uint32_t)M, (uint32_t)n, 1e-5f);
        for (size_t m = 0; m < M; m++) {
            if (b)
                g->c->ref->layernorm(want, x + m * ld, w, b, n, 1e-5f);
            else
                g->c->ref->rmsnorm(want, x + m * ld, w, n, 1e-5f);
            same_row(g, &r, m, want, b ? "layernorm" : "rmsnorm");
        }
        gpu_free(g);
    }
}

/* Query and key heads on the host, and on the device. n: floats, including the gaps between rows */
struct heads {
    struct tft_cuda_heads device;
    float *x[2];
    size_t n[2], M;
};

static struct heads take_heads(struct gpu *g, size_t dim)
{
    struct heads h = {.device = {.dim = (uint32_t)dim}, .M = 1 + check_below(g->c, 4)};
    for (int i = 0; i < 2; i++) {
        h.device.heads[i] = 1 + (uint32_t)check_below(g->c, 5);
        h.device.ld[i] = h.device.heads[i] * dim + check_below(g->c, 4);
        h.n[i] = h.M * h.device.ld[i];
        h.x[i] = filled(g, h.n[i]);
        h.device.x[i] = gpu_copy(h.x[i], h.n[i] * sizeof(float));
    }
    return h;
}

static void same_heads(struct gpu *g, const struct heads *h)
{
    for (int i = 0; i < 2; i++)
        gpu_same(g, h->x[i], h->device.x[i], h->n[i] * sizeof(float),
                 "kind %d: %u heads of %u, %zu tokens", i, h->device.heads[i], h->device.dim, h->M);
    gpu_free(g);
}

static void rmsnorm_heads(struct gpu *g)
{
    if (!check_named(g->c, "rmsnorm_heads"))
        return;
    for (int i = 0; i < 20; i++) {
        size_t dim = check_size(g->c, 270);
        struct heads h = take_heads(g, dim);
        float *w[] = {filled(g, dim), filled(g, dim)};
        const float *const device_w[] = {gpu_copy(w[0], dim * sizeof(float)),
                                         gpu_copy(w[1], dim * sizeof(float))};
        tft_cuda_rmsnorm_heads(g->stream, &h.device, device_w, (uint32_t)h.M, 1e-5f);
        for (size_t k = 0; k < 2; k++)
            for (size_t m = 0; m < h.M; m++)
                for (size_t j = 0; j < h.device.heads[k]; j++) {
                    float *x = h.x[k] + m * h.device.ld[k] + j * dim;
                    g->c->ref->rmsnorm(x, x, w[k], dim, 1e-5f);
                }
        same_heads(g, &h);
    }
}

static void rope(struct gpu *g)
{
    if (!check_named(g->c, "rope"))
        return;
    for (int i = 0; i < 30; i++) {
        size_t n_rot = 2 * check_size(g->c, 70), dim = n_rot + check_below(g->c, 20);
        struct heads h = take_heads(g, dim);
        float *c = filled(g, h.M * n_rot), *s = filled(g, h.M * n_rot);
        tft_rope_fn *ref = i % 2 ? g->c->ref->rope_halves : g->c->ref->rope_pairs;
        tft_cuda_rope(g->stream, &h.device, gpu_copy(c, h.M * n_rot * sizeof *c),
                      gpu_copy(s, h.M * n_rot * sizeof *s), (uint32_t)h.M, (uint32_t)n_rot, i % 2);
        for (size_t k = 0; k < 2; k++)
            for (size_t m = 0; m < h.M; m++)
                ref(h.x[k] + m * h.device.ld[k], c + m * n_rot, s + m * n_rot, h.device.heads[k],
                    dim, n_rot);
        same_heads(g, &h);
    }
}

static void activate(struct gpu *g)
{
    if (!check_named(g->c, "activate"))
        return;
    for (int i = 0; i < 40; i++) {
        size_t block = (size_t)1 << check_below(g->c, 9), M = 1 + check_below(g->c, 4);
        size_t n = block * (1 + check_below(g->c, 700 / block)), ld = n + check_below(g->c, 4);
        float *a = filled(g, M * ld), *b = i % 2 ? filled(g, M * ld) : NULL,
              *want = check_buf(g->c, n, sizeof *want);
        struct result r = take_result(g, M, n);
        float *device_a = gpu_copy(a, M * ld * sizeof *a);
        if (r.rows.floats && check_below(g->c, 2)) { /* in place */
            r.rows.floats = device_a;
            r.rows.ld = ld;
        }
        if (block == 1)
            block = 0;
        tft_cuda_activate(g->stream, &r.rows, device_a, b ? gpu_copy(b, M * ld * sizeof *b) : NULL,
                          ld, (uint32_t)M, (uint32_t)n, (uint32_t)block);
        for (size_t m = 0; m < M; m++) {
            if (b)
                g->c->ref->silu_mul(want, a + m * ld, b + m * ld, n);
            else
                g->c->ref->gelu(want, a + m * ld, n);
            if (block)
                g->c->ref->hadamard(want, n, block);
            same_row(g, &r, m, want, b ? "silu_mul" : "gelu");
        }
        gpu_free(g);
    }
}

/* By the range of each token. */
static void quantize(struct gpu *g)
{
    if (!check_named(g->c, "quantize"))
        return;
    for (int i = 0; i < 40; i++) {
        size_t M = 1 + check_below(g->c, i % 4 ? 5 : 300), n = check_size(g->c, M > 5 ? 20 : 700);
        size_t ldx = n + check_below(g->c, 4), ldy = n + check_below(g->c, 4);
        float *x = filled(g, M * ldx);
        uint8_t *want = check_buf(g->c, n, 1), *y = gpu_alloc(M * ldy);
        struct tft_affine *q = check_buf(g->c, M, sizeof *q), *device_q = gpu_alloc(M * sizeof *q);
        tft_cuda_quantize(g->stream, y, ldy, gpu_copy(x, M * ldx * sizeof *x), ldx, (uint32_t)M,
                          (uint32_t)n, device_q, gpu_alloc(M * 2 * sizeof *x));
        for (size_t m = 0; m < M; m++) {
            float min, max;
            g->c->ref->range(x + m * ldx, n, &min, &max);
            q[m] = tft_affine_of(min, max);
            g->c->ref->quantize(want, x + m * ldx, n, &q[m]);
            gpu_same(g, want, y + m * ldy, n, "token %zu of %zu, %zu numbers", m, M, n);
        }
        gpu_same(g, q, device_q, M * sizeof *q, "ranges of %zu tokens of %zu numbers", M, n);
        gpu_free(g);
    }
}

static void embed(struct gpu *g)
{
    if (!check_named(g->c, "embed"))
        return;
    for (int i = 0; i < 20; i++) {
        size_t M = 1 + check_below(g->c, 5), width = check_size(g->c, 400),
               vocab = check_size(g->c, 60), ld = width + check_below(g->c, 4);
        size_t cols = tft_panel_cols(width), rows = tft_panel_rows(vocab),
               from = check_below(g->c, 10);
        int8_t *data = check_buf(g->c, rows * cols, 1);
        int32_t *tokens = check_buf(g->c, M, sizeof *tokens);
        float *scale = filled(g, rows), *position = i % 2 ? filled(g, (from + M) * width) : NULL,
              *want = check_buf(g->c, width, sizeof *want);
        struct tft_cuda_start start = {.position = (uint32_t)from};
        for (size_t k = 0; k < rows * cols; k++)
            data[k] = check_weight(g->c, 3);
        for (size_t m = 0; m < M; m++)
            tokens[m] = (int32_t)check_below(g->c, vocab);
        struct tft_cuda_embedding e = {
            gpu_copy(data, rows * cols), gpu_copy(scale, rows * sizeof *scale),
            position ? gpu_copy(position, (from + M) * width * sizeof *position) : NULL,
            (uint32_t)width};
        float *x = gpu_alloc(M * ld * sizeof *x);
        tft_cuda_embed(g->stream, x, ld, gpu_copy(tokens, M * sizeof *tokens),
                       gpu_copy(&start, sizeof start), (uint32_t)M, &e);
        for (size_t m = 0; m < M; m++) {
            for (size_t k = 0; k < width; k++)
                want[k] = (float)data[tft_panel_at((size_t)tokens[m], k, cols)] * scale[tokens[m]];
            if (position)
                g->c->ref->add(want, position + (from + m) * width, width);
            gpu_same(g, want, x + m * ld, width * sizeof *want, "token %zu of %zu, %zu numbers", m,
                     M, width);
        }
        gpu_free(g);
    }
}

void gpu_rows(struct gpu *g)
{
    embed(g);
    norm(g);
    rmsnorm_heads(g);
    rope(g);
    activate(g);
    quantize(g);
}
