/* Choosing a GPU, and copying a model's weights to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "inside.h"

/* --------------------------------------------------------------------------------------- errors */

enum tft_status tft_cuda_status(cudaError_t e, const char *doing, struct tft_error *err)
{
    if (e == cudaSuccess)
        return TFT_OK;
    cudaGetLastError(); /* it has been told */
    return tft_fail(err, e == cudaErrorMemoryAllocation ? TFT_ERR_NOMEM : TFT_ERR_DEVICE,
                    "cuda: %s: %s", doing, cudaGetErrorString(e));
}

enum tft_status tft_cuda_take(void **out, size_t bytes, const char *what, struct tft_error *err)
{
    cudaError_t e = cudaMalloc(out, bytes ? bytes : 1);
    size_t left = 0, all = 0;
    if (e != cudaErrorMemoryAllocation)
        return tft_cuda_status(e, what, err);
    cudaGetLastError();
    cudaMemGetInfo(&left, &all);
    return tft_fail(err, TFT_ERR_NOMEM,
                    "cuda: no memory for %s: %zu MB, where %zu of %zu MB are free", what,
                    bytes >> 20, left >> 20, all >> 20);
}

/* --------------------------------------------------------------------------------------- models */

/* Counts, or notes. */
static void note(struct device *d, const void *from, size_t bytes)
{
    if (!from)
        return;
    if (d->copied)
        d->copied[d->n] = (struct copied){from, bytes, NULL};
    d->n++;
}

static void note_matrix(struct device *d, const struct tft_mat *w)
{
    size_t rows = tft_panel_rows(w->rows);
    if (!w->data)
        return;
    note(d, w->data, rows * tft_panel_cols(w->cols));
    note(d, w->scale, rows * sizeof *w->scale);
    note(d, w->rowsum, rows * sizeof *w->rowsum);
}

static void note_linear(struct device *d, const struct tft_linear *l)
{
    note_matrix(d, &l->w);
    note(d, l->bias, l->w.rows * sizeof *l->bias);
}

static void note_norm(struct device *d, const struct tft_norm *w, uint32_t n)
{
    note(d, w->w, n * sizeof *w->w);
    note(d, w->b, n * sizeof *w->b);
}

static void note_all(struct device *d)
{
    const struct tft_model *m = d->m;
    d->n = 0;
    for (uint32_t l = m->n_host; l < m->n_layer; l++) {
        const struct tft_block *b = &m->block[l];
        note_norm(d, &b->attn_norm, m->n_embd);
        note_norm(d, &b->ffn_norm, m->n_embd);
        note_norm(d, &b->q_norm, m->head_dim);
        note_norm(d, &b->k_norm, m->head_dim);
        const struct tft_linear *linear[] = {&b->q,    &b->k,  &b->v,   &b->o,
                                             &b->gate, &b->up, &b->down};
        for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
            note_linear(d, linear[i]);
    }
    note_norm(d, &m->out_norm, m->n_embd);
    note_linear(d, &m->output);
    if (m->n_host)
        return;
    note_matrix(d, &m->embed);
    note(d, m->pos_embed.data, (size_t)m->pos_embed.rows * m->pos_embed.cols * sizeof(float));
}

static int by_from(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct copied *)a)->from,
              y = (uintptr_t)((const struct copied *)b)->from;
    return (x > y) - (x < y);
}

/* A tied head has the embedding's. */
static void unify(struct device *d)
{
    size_t n = 0;
    qsort(d->copied, d->n, sizeof *d->copied, by_from);
    for (size_t i = 0; i < d->n; i++)
        if (!n || d->copied[n - 1].from != d->copied[i].from)
            d->copied[n++] = d->copied[i];
    d->n = n;
}

/* Where the device has it; NULL for NULL. */
void *tft_cuda_there(const struct device *d, const void *from)
{
    struct copied key = {.from = from};
    const struct copied *c = from ? bsearch(&key, d->copied, d->n, sizeof key, by_from) : NULL;
    return c ? c->to : NULL;
}

static size_t inputs(const struct tft_model *m)
{
    return (size_t)m->n_layer * TFT_LAYER_INPUTS + 1;
}

/* How the bytes of static inputs are held, by their index. */
static enum tft_status copy_affine(struct device *d, void *to, struct tft_error *err)
{
    const struct tft_model *m = d->m;
    struct tft_affine *all = calloc(inputs(m), sizeof *all);
    if (!all)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < TFT_LAYER_INPUTS; i++)
            all[l * TFT_LAYER_INPUTS + (uint32_t)i] = m->block[l].in[i].affine;
    all[m->n_layer * TFT_LAYER_INPUTS] = m->head_in.affine;
    cudaError_t e = cudaMemcpy(to, all, inputs(m) * sizeof *all, cudaMemcpyHostToDevice);
    free(all);
    d->affine = to;
    return tft_cuda_status(e, "weights", err);
}

static enum tft_status copy_all(struct device *d, struct tft_error *err)
{
    struct tft_arena a = {0};
    for (size_t i = 0; i < d->n; i++)
        tft_arena_take(&a, d->copied[i].bytes, 1);
    tft_arena_take(&a, inputs(d->m), sizeof *d->affine);
    if (a.failed)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    enum tft_status status = tft_cuda_take(&d->memory, a.used, "weights", err);
    a = (struct tft_arena){.base = d->memory};
    for (size_t i = 0; i < d->n && status == TFT_OK; i++) {
        struct copied *c = &d->copied[i];
        c->to = tft_arena_take(&a, c->bytes, 1);
        status = tft_cuda_status(cudaMemcpy(c->to, c->from, c->bytes, cudaMemcpyHostToDevice),
                                 "weights", err);
    }
    if (status == TFT_OK)
        status = copy_affine(d, tft_arena_take(&a, inputs(d->m), sizeof *d->affine), err);
    /* a copy may still be under way when its call returns, and sessions have streams that do not
       wait for it */
    if (status == TFT_OK)
        status = tft_cuda_status(cudaDeviceSynchronize(), "weights", err);
    return status;
}

/* The kernels are for sm_75 and newer: tensor cores that multiply bytes. */
static enum tft_status choose(struct device *d, uint32_t which, struct tft_error *err)
{
    int n = 0, major = 0, minor = 0, multiprocessors = 0;
    enum tft_status status = tft_cuda_status(cudaGetDeviceCount(&n), "looking for a GPU", err);
    if (status != TFT_OK)
        return status;
    if (which >= (uint32_t)n)
        return tft_fail(err, TFT_ERR_DEVICE, "cuda:%u: of GPUs there are %d", which, n);
    d->which = (int)which;
    status = tft_cuda_status(cudaSetDevice(d->which), "using the GPU", err);
    if (status != TFT_OK)
        return status;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->which);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->which);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, d->which);
    d->multiprocessors = (uint32_t)multiprocessors;
    if (major * 10 + minor < 75)
        return tft_fail(err, TFT_ERR_DEVICE,
                        "cuda:%u: of compute capability %d.%d, where 7.5 is needed", which, major,
                        minor);
    return TFT_OK;
}

void tft_cuda_close(void *device)
{
    struct device *d = device;
    cudaSetDevice(d->which);
    cudaFree(d->memory);
    free(d->copied);
    free(d);
}

enum tft_status tft_cuda_open(void **out, const struct tft_model *m, uint32_t which,
                              struct tft_error *err)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    d->m = m;
    enum tft_status status = choose(d, which, err);
    note_all(d);
    if (status == TFT_OK && !(d->copied = calloc(d->n, sizeof *d->copied)))
        status = tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    if (status == TFT_OK) {
        note_all(d);
        unify(d);
        status = copy_all(d, err);
    }
    if (status != TFT_OK) {
        tft_cuda_close(d);
        return status;
    }
    *out = d;
    return TFT_OK;
}
