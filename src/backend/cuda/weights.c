/* Selects a GPU and copies the weights of a model to it. */
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
    cudaGetLastError(); /* clear the error: this function reports it */
    return tft_fail(err, e == cudaErrorMemoryAllocation ? TFT_ERR_NOMEM : TFT_ERR_DEVICE,
                    "cuda: %s: %s", doing, cudaGetErrorString(e));
}

int tft_cuda_enter(int index, cudaError_t *error)
{
    int before = index;
    cudaError_t e = cudaGetDevice(&before);
    if (*error == cudaSuccess)
        *error = e != cudaSuccess ? e : before != index ? cudaSetDevice(index) : cudaSuccess;
    return before;
}

void tft_cuda_leave(int before, int index)
{
    if (before != index)
        cudaSetDevice(before);
}

enum tft_status tft_cuda_alloc(void **out, size_t bytes, const char *what, struct tft_error *err)
{
    cudaError_t e = cudaMalloc(out, bytes ? bytes : 1);
    size_t free_bytes = 0, all = 0;
    if (e != cudaErrorMemoryAllocation)
        return tft_cuda_status(e, "allocating memory", err);
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &all);
    return tft_fail(err, TFT_ERR_NOMEM,
                    "cuda: not enough GPU memory for %s: %zu MB needed, %zu of %zu MB free", what,
                    bytes >> 20, free_bytes >> 20, all >> 20);
}

/* ----------------------------------------------------------------------------- lists of weights */

/* Each list function is called twice: the first time d->weights is NULL, and the function only
   counts. */
static void list_weight(struct device *d, struct weight w)
{
    if (!w.host)
        return;
    if (d->weights)
        d->weights[d->n_weights] = w;
    d->n_weights++;
}

static void list(struct device *d, const void *host, size_t bytes)
{
    list_weight(d, (struct weight){.host = host, .bytes = bytes});
}

static void list_matrix(struct device *d, const struct tft_mat *w)
{
    size_t rows = tft_panel_rows(w->rows);
    if (!w->data)
        return;
    list_weight(d, (struct weight){.host = w->data,
                                   .bytes = rows * tft_panel_cols(w->cols),
                                   .codes = w->format->low ? w : NULL});
    list(d, w->scale, rows * sizeof *w->scale);
    list(d, w->rowsum, rows * sizeof *w->rowsum);
}

static void list_linear(struct device *d, const struct tft_linear *l)
{
    list_matrix(d, &l->w);
    list(d, l->bias, l->w.rows * sizeof *l->bias);
}

static void list_norm(struct device *d, const struct tft_norm *w, uint32_t n)
{
    list(d, w->w, n * sizeof *w->w);
    list(d, w->b, n * sizeof *w->b);
}

static void list_all(struct device *d)
{
    const struct tft_model *m = d->m;
    d->n_weights = 0;
    for (uint32_t l = m->n_host; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        list_norm(d, &b->attn_norm, m->n_embd);
        list_norm(d, &b->ffn_norm, m->n_embd);
        list_norm(d, &b->q_norm, m->head_dim);
        list_norm(d, &b->k_norm, m->head_dim);
        const struct tft_linear *linear[] = {&b->q,    &b->k,  &b->v,   &b->o,
                                             &b->gate, &b->up, &b->down};
        for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
            list_linear(d, linear[i]);
    }
    list_norm(d, &m->out_norm, m->n_embd);
    list_linear(d, &m->output);
    if (m->n_host)
        return;
    list_matrix(d, &m->embed);
    list(d, m->pos_embed.data, (size_t)m->pos_embed.rows * m->pos_embed.cols * sizeof(float));
}

static int by_host(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct weight *)a)->host,
              y = (uintptr_t)((const struct weight *)b)->host;
    return (x > y) - (x < y);
}

/* Sorts the list and removes duplicates: a tied head and the embedding are the same matrix. */
static void sort_unique(struct device *d)
{
    size_t n = 0;
    qsort(d->weights, d->n_weights, sizeof *d->weights, by_host);
    for (size_t i = 0; i < d->n_weights; i++)
        if (!n || d->weights[n - 1].host != d->weights[i].host)
            d->weights[n++] = d->weights[i];
    d->n_weights = n;
}

void *tft_cuda_weight(const struct device *d, const void *host)
{
    struct weight key = {.host = host};
    const struct weight *w =
        host ? bsearch(&key, d->weights, d->n_weights, sizeof key, by_host) : NULL;
    return w ? w->device : NULL;
}

/* --------------------------------------------------------------------------------------- copies */

/* The number of inputs of linear layers: each layer's inputs, then the head's. */
static size_t n_inputs(const struct tft_model *m)
{
    return (size_t)m->n_layer * TFT_LAYER_INPUTS + 1;
}

/* Copies the static ranges of all inputs, by tft_input.index. */
static enum tft_status copy_affine(struct device *d, void *to, struct tft_error *err)
{
    const struct tft_model *m = d->m;
    struct tft_affine *all = calloc(n_inputs(m), sizeof *all);
    if (!all)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < TFT_LAYER_INPUTS; i++)
            all[l * TFT_LAYER_INPUTS + (uint32_t)i] = m->layer[l].in[i].affine;
    all[m->n_layer * TFT_LAYER_INPUTS] = m->head_in.affine;
    cudaError_t e = cudaMemcpy(to, all, n_inputs(m) * sizeof *all, cudaMemcpyHostToDevice);
    free(all);
    d->affine = to;
    return tft_cuda_status(e, "copying weights", err);
}

/* Copies a matrix of codes as panels of int8. */
static enum tft_status copy_codes(void *to, const struct tft_mat *w, struct tft_error *err)
{
    size_t cols = tft_panel_cols(w->cols);
    int8_t *panel = calloc(TFT_PANEL, cols);
    enum tft_status status =
        panel ? TFT_OK : tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    for (size_t n = 0; n < tft_panel_rows(w->rows) && status == TFT_OK; n += TFT_PANEL) {
        for (size_t k = 0; k < w->cols; k++)
            for (size_t r = 0; r < TFT_PANEL; r++)
                panel[tft_panel_at(r, k, cols)] =
                    (int8_t)tft_low_at(w->data, w->format->low, n + r, k, w->cols);
        status = tft_cuda_status(cudaMemcpy((int8_t *)to + n * cols, panel, TFT_PANEL * cols,
                                            cudaMemcpyHostToDevice),
                                 "copying weights", err);
    }
    free(panel);
    return status;
}

static enum tft_status copy_all(struct device *d, struct tft_error *err)
{
    struct tft_arena a = {0};
    for (size_t i = 0; i < d->n_weights; i++)
        tft_arena_take(&a, d->weights[i].bytes, 1);
    tft_arena_take(&a, n_inputs(d->m), sizeof *d->affine);
    if (a.failed)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    enum tft_status status = tft_cuda_alloc(&d->memory, a.used, "weights", err);
    a = (struct tft_arena){.base = d->memory};
    for (size_t i = 0; i < d->n_weights && status == TFT_OK; i++) {
        struct weight *w = &d->weights[i];
        w->device = tft_arena_take(&a, w->bytes, 1);
        status = w->codes ? copy_codes(w->device, w->codes, err)
                          : tft_cuda_status(cudaMemcpy(w->device, w->host, w->bytes,
                                                       cudaMemcpyHostToDevice),
                                            "copying weights", err);
    }
    if (status == TFT_OK)
        status = copy_affine(d, tft_arena_take(&a, n_inputs(d->m), sizeof *d->affine), err);
    /* cudaMemcpy may return before the device has the bytes, and the sessions' streams do not wait
       for the copy. */
    if (status == TFT_OK)
        status = tft_cuda_status(cudaDeviceSynchronize(), "copying weights", err);
    return status;
}

/* -------------------------------------------------------------------------------------- devices */

/* Enters the GPU; pass *before to tft_cuda_leave. The kernels need compute capability 7.5: tensor
   cores that multiply bytes. */
static enum tft_status select_gpu(struct device *d, uint32_t index, int *before,
                                  struct tft_error *err)
{
    int n = 0, major = 0, minor = 0, multiprocessors = 0;
    cudaError_t e = cudaSuccess;
    enum tft_status status = tft_cuda_status(cudaGetDeviceCount(&n), "looking for a GPU", err);
    if (status != TFT_OK)
        return status;
    if (index >= (uint32_t)n)
        return tft_fail(err, TFT_ERR_DEVICE,
                        "cuda:%u: no such GPU: this machine has %d, counted from cuda:0", index, n);
    d->index = (int)index;
    *before = tft_cuda_enter(d->index, &e);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->index);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->index);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, d->index);
    status = tft_cuda_status(e, "selecting the GPU", err);
    if (status != TFT_OK)
        return status;
    d->multiprocessors = (uint32_t)multiprocessors;
    if (major * 10 + minor < 75)
        return tft_fail(err, TFT_ERR_DEVICE,
                        "cuda:%u: the GPU has compute capability %d.%d: 7.5 or newer is needed",
                        index, major, minor);
    return TFT_OK;
}

void tft_cuda_close(void *device)
{
    struct device *d = device;
    cudaError_t ignored = cudaSuccess;
    int before = tft_cuda_enter(d->index, &ignored);
    cudaFree(d->memory);
    tft_cuda_leave(before, d->index);
    free(d->weights);
    free(d);
}

enum tft_status tft_cuda_open(void **out, const struct tft_model *m, uint32_t index,
                              struct tft_error *err)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    d->m = m;
    int before = 0;
    enum tft_status status = select_gpu(d, index, &before, err);
    list_all(d);
    if (status == TFT_OK && !(d->weights = calloc(d->n_weights, sizeof *d->weights)))
        status = tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    if (status == TFT_OK) {
        list_all(d);
        sort_unique(d);
        status = copy_all(d, err);
    }
    tft_cuda_leave(before, d->index);
    if (status != TFT_OK) {
        tft_cuda_close(d);
        return status;
    }
    *out = d;
    return TFT_OK;
}
