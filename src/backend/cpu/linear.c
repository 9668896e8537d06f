/* Matrix products, and the hidden activations between the two products of a feed-forward layer. */
#include "cpu.h"

#include <math.h>
#include <string.h>

#include "simd/gelu_erf.h"

/* y = rows [begin, end) of the product of l and tokens [t, t + n) of `from`; tokens are ldy apart
   in y. `begin` is a multiple of TFT_PANEL. If the matrix has a factor, l has no bias and nothing
   is added. slot: where tft_cpu_adapt_inner has left the inner vectors of its adapters. */
static void product(const struct tft_pass *p, float *y, size_t ldy, const struct tft_linear *l,
                    enum tft_buf from, bool add, size_t begin, size_t end, uint32_t t, uint32_t n,
                    unsigned slot)
{
    const struct tft_mat *w = &l->w;
    struct tft_product product = {.y = y, .ldy = ldy, .bias = l->bias, .add = add, .n = n};
    uint32_t row = tft_cpu_own_row(p, from, l->in) ? (uint32_t)p->tid : t;
    if (w->format->takes_bytes) {
        bool fixed = l->in->range == TFT_RANGE_STATIC;
        product.bytes = tft_pass_bytes(p, from, row);
        product.ldx = tft_pass_byte_stride(p, from);
        product.affine = fixed ? &l->in->affine : &p->work->affine[from][t];
        product.step = !fixed;
    } else if (w->format->packing) {
        product.bytes = tft_pass_bytes(p, from, row);
        product.ldx = tft_pass_byte_stride(p, from);
    } else {
        product.x = tft_pass_row(p, from, row);
        product.ldx = tft_pass_stride(p, from);
    }
    w->format->product(&p->m->kern, w, &product, begin, end);
    for (uint32_t i = 0; w->factor != 0 && i < n; i++)
        p->m->kern.scale(y + i * ldy, w->factor, end - begin);
    tft_cpu_adapt(p, slot, l, y, ldy, begin, end, t, n);
}

void tft_cpu_share_rows(const struct tft_pass *p, const struct tft_linear *l, size_t *begin,
                        size_t *end)
{
    size_t rows = l->w.rows;
    tft_pass_share(p, (rows + TFT_LINE - 1) / TFT_LINE, begin, end);
    *begin *= TFT_LINE;
    *end = *end * TFT_LINE < rows ? *end * TFT_LINE : rows;
}

void tft_cpu_linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                    enum tft_buf from, bool add)
{
    unsigned low = tft_cpu_adapt_inner(p, 0, l, from);
    tft_pass_touch(p, low | (tft_cpu_own_row(p, from, l->in) ? 0 : BIT(from)), BIT(to));
    tft_pass_tap(p, l, from);
    tft_cpu_count_ends(p, l->in, from);

    size_t begin, end;
    tft_cpu_share_rows(p, l, &begin, &end);
    if (begin < end)
        product(p, tft_pass_row(p, to, p->first) + begin, tft_pass_stride(p, to), l, from, add,
                begin, end, p->first, p->n - p->first, 0);
}
_Static_assert(TFT_LINE % TFT_PANEL == 0, "a thread's share of the rows begins with a panel");

static void values_are_keys(struct tft_pass *p, const struct tft_layer *b)
{
    tft_pass_touch(p, BIT(TFT_K), BIT(TFT_V));
    struct tft_part part = tft_pass_part(p, b->k.w.rows, TFT_LINE);
    for (uint32_t t = part.begin; t < part.end; t++)
        memcpy(tft_pass_row(p, TFT_V, t) + part.from, tft_pass_row(p, TFT_K, t) + part.from,
               (part.to - part.from) * sizeof(float));
}

void tft_cpu_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    tft_cpu_linear(p, TFT_Q, &b->q, TFT_XN, false);
    if (!b->k.w.rows)
        return;
    tft_cpu_linear(p, TFT_K, &b->k, TFT_XN, false);
    if (b->v.w.rows)
        tft_cpu_linear(p, TFT_V, &b->v, TFT_XN, false);
    else
        values_are_keys(p, b);
}

void tft_cpu_gated_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t dim = p->m->head_dim;
    tft_cpu_linear(p, TFT_M, &b->q, TFT_XN, false);
    tft_cpu_linear(p, TFT_K, &b->k, TFT_XN, false);
    tft_cpu_linear(p, TFT_V, &b->v, TFT_XN, false);
    tft_pass_touch(p, BIT(TFT_M), BIT(TFT_Q));
    struct tft_part part = tft_pass_part(p, tft_pass_width(p, TFT_Q), dim);
    for (uint32_t t = part.begin; t < part.end; t++)
        for (size_t i = part.from; i < part.to; i += dim)
            memcpy(tft_pass_row(p, TFT_Q, t) + i, tft_pass_row(p, TFT_M, t) + 2 * i,
                   dim * sizeof(float));
}

void tft_cpu_delta_gates(struct tft_pass *p, const struct tft_layer *b)
{
    tft_cpu_linear(p, TFT_Q, &b->delta.z, TFT_XN, false);
    tft_cpu_linear(p, TFT_K, &b->delta.alpha, TFT_XN, false);
    if (b->delta.beta.w.rows)
        tft_cpu_linear(p, TFT_V, &b->delta.beta, TFT_XN, false);
}

void tft_cpu_project(struct tft_pass *p, const struct tft_linear *l)
{
    tft_cpu_linear(p, TFT_M, l, TFT_XN, false);
}

void tft_cpu_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                        enum tft_buf from)
{
    tft_cpu_linear(p, to, w, from, true);
}

void tft_cpu_linear_y(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from)
{
    tft_cpu_linear(p, TFT_Y, l, from, false);
}

void tft_cpu_logits(struct tft_pass *p, const struct tft_linear *output)
{
    const struct tft_model *m = p->m;
    size_t begin, end;
    tft_cpu_linear(p, TFT_LOGITS, output, TFT_XN, false);
    if (m->logit_scale == 1 && !(m->logit_cap > 0))
        return;
    tft_cpu_share_rows(p, output, &begin, &end); /* the columns that this thread has written */
    for (uint32_t t = p->first; t < p->n && begin < end; t++)
        tft_model_finish_logits(m, tft_pass_row(p, TFT_LOGITS, t) + begin, end - begin);
}

/* --------------------------------------------------------------------------- hidden activations */

/* The kernels have no function of their own for these. They take CHUNK numbers at a time, which
   plain C prepares: the same bits on every CPU. NaN stays NaN. */
enum { CHUNK = 64 };
#define ONES 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
static const float ones[CHUNK] = {ONES, ONES, ONES, ONES};

/* g = max(g, 0)^2 */
static void plain_relu2(const struct tft_kernels *kern, float *g, size_t n)
{
    for (size_t i = 0; i < n; i += CHUNK)
        kern->relu2_mul(g + i, g + i, ones, n - i < CHUNK ? n - i : CHUNK);
}

/* g = max(g, 0) u */
static void relu_mul(float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = (g[i] < 0 ? 0 : g[i]) * u[i];
}

/* a sigmoid(1.702 a) = silu(1.702 a) / 1.702 */
static void bounded_swiglu(const struct tft_kernels *kern, float *g, const float *u, size_t n)
{
    const float slope = 1.702f, bound = 7;
    float c[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK, g += CHUNK, u += CHUNK) {
        size_t k = n - i < CHUNK ? n - i : CHUNK;
        for (size_t j = 0; j < k; j++) {
            float x = u[j] > bound ? bound : u[j] < -bound ? -bound : u[j];
            g[j] = slope * (g[j] > bound ? bound : g[j]);
            c[j] = (x + 1) / slope;
        }
        kern->silu_mul(g, g, c, k);
    }
}

/* exp(x) = 1 / (1 / sigmoid(x) - 1), where x <= 0 loses no precision */
static void xielu(const struct tft_kernels *kern, float *g, size_t n, const struct tft_xielu *x)
{
    float e[CHUNK];
    for (size_t i = 0; i < n; i += CHUNK, g += CHUNK) {
        size_t k = n - i < CHUNK ? n - i : CHUNK;
        for (size_t j = 0; j < k; j++)
            e[j] = g[j] > x->least ? x->least : g[j];
        kern->sigmoid_mul(e, ones, e, k);
        for (size_t j = 0; j < k; j++) {
            float u = g[j], grown = 1 / (1 / e[j] - 1) - 1 - u;
            g[j] = (u > 0 ? x->p * u * u : x->n * grown) + x->b * u;
        }
    }
}

/* g = gelu(g), of the form with erf, times u where there is a gate */
static void gelu_erf_mul(float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = tft_gelu_erf(g[i]);
    for (size_t i = 0; i < n && u; i++)
        g[i] *= u[i];
}

/* Floats, in place: g: [n], and u: [n] where there is a gate. */
static void activate(const struct tft_kernels *kern, enum tft_activation a, float *g,
                     const float *u, size_t n, const struct tft_input *in)
{
    if (a == TFT_XIELU)
        xielu(kern, g, n, &in->xielu);
    else if (a == TFT_GELU_ERF)
        gelu_erf_mul(g, u, n);
    else if (a == TFT_BOUNDED_SWIGLU)
        bounded_swiglu(kern, g, u, n);
    else if (a == TFT_RELU)
        relu_mul(g, u, n);
    else if (a == TFT_RELU2 && !u)
        plain_relu2(kern, g, n);
    else if (!u)
        kern->gelu(g, g, n);
    else if (a == TFT_GELU)
        kern->gelu_mul(g, g, u, n);
    else if (a == TFT_RELU2)
        kern->relu2_mul(g, g, u, n);
    else
        kern->silu_mul(g, g, u, n);
    if (in->hadamard && !in->norm)
        kern->hadamard(g, n, in->hadamard);
}

/* y: [n] bytes of the same; g is overwritten. */
static void activate_u8(const struct tft_kernels *kern, enum tft_activation a, uint8_t *y,
                        float *g, const float *u, size_t n, const struct tft_input *in)
{
    if (in->hadamard || a > TFT_GELU) {
        activate(kern, a, g, u, n, in);
        kern->quantize(y, g, n, &in->affine);
    } else if (!u) {
        kern->gelu_u8(y, g, n, &in->affine);
    } else if (a == TFT_GELU) {
        kern->gelu_mul_u8(y, g, u, n, &in->affine);
    } else {
        kern->silu_mul_u8(y, g, u, n, &in->affine);
    }
}

void tft_cpu_activate(const struct tft_pass *p, enum tft_activation a, enum tft_buf to,
                      uint32_t row, size_t first, float *g, const float *u, size_t n,
                      const struct tft_input *in)
{
    if (in->range == TFT_RANGE_STATIC) {
        activate_u8(&p->m->kern, a, tft_pass_bytes(p, to, row) + first, g, u, n, in);
        return;
    }
    activate(&p->m->kern, a, g, u, n, in);
    if (in->range == TFT_RANGE_GROUPS)
        p->m->kern.quantize_groups(tft_pass_bytes(p, to, row), in->width, first, g, n);
    else
        memcpy(tft_pass_row(p, to, row) + first, g, n * sizeof *g);
}

static void hidden_floats(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                          const struct tft_linear *up, const struct tft_linear *down)
{
    tft_cpu_linear(p, TFT_G, gate ? gate : up, TFT_XN, false);
    if (gate)
        tft_cpu_linear(p, TFT_U, up, TFT_XN, false);

    tft_pass_touch(p, gate ? BIT(TFT_U) : 0, BIT(TFT_G));
    uint32_t block = down->in->hadamard;
    struct tft_part part = tft_pass_part(p, up->w.rows, block > TFT_LINE ? block : TFT_LINE);
    for (uint32_t t = part.begin; t < part.end; t++)
        activate(&p->m->kern, a, tft_pass_row(p, TFT_G, t) + part.from,
                 gate ? tft_pass_row(p, TFT_U, t) + part.from : NULL, part.to - part.from,
                 down->in);
    p->ops->quantize(p, TFT_G, down);
}

/* Numbers below the mean and `deviations` standard deviations (of a sample) become 0, the others
   are what is above. */
static void keep_largest(float *g, size_t n, float deviations)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += (double)g[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)g[i] - mean) * ((double)g[i] - mean);
    float least = (float)(mean + (double)deviations * sqrt(squares / ((double)n - 1)));
    for (size_t i = 0; i < n; i++)
        g[i] = g[i] > least ? g[i] - least : 0;
}

void tft_cpu_sparse_hidden(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_input *in = b->down.in;
    size_t n = b->up.w.rows;
    uint32_t begin, end;
    tft_cpu_linear(p, TFT_G, &b->gate, TFT_XN, false);
    tft_cpu_linear(p, TFT_U, &b->up, TFT_XN, false);
    tft_pass_touch(p, BIT(TFT_U), BIT(TFT_G));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *g = tft_pass_row(p, TFT_G, t);
        keep_largest(g, n, b->altup.sparsity);
        activate(&p->m->kern, TFT_GELU, g, tft_pass_row(p, TFT_U, t), n, in);
        if (in->range == TFT_RANGE_STATIC)
            p->m->kern.quantize(tft_pass_bytes(p, TFT_G, t), g, n, &in->affine);
    }
    p->ops->quantize(p, TFT_G, &b->down);
}

/* A slice of the hidden rows for a tile of tokens at a time: the results of the two products are
   still in the CPU's cache when they become bytes, and are not copied. A slice is whole blocks of
   the Hadamard transform, and whole groups. The fewer the tokens, the longer the slice: a few
   tokens wait for weights to come from memory, and long runs come quickest. */
static void hidden_bytes(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                         const struct tft_linear *up, const struct tft_linear *down)
{
    const struct tft_hidden_scratch *w = &p->work->hidden[p->tid];
    uint32_t block = down->in->hadamard, unit = block > 64 ? block : 64;
    size_t from, to, width = up->w.rows;
    unsigned low = gate ? tft_cpu_adapt_inner(p, 0, gate, TFT_XN) : 0;
    low |= tft_cpu_adapt_inner(p, 1, up, TFT_XN);
    tft_pass_touch(p, low | (tft_cpu_own_row(p, TFT_XN, up->in) ? 0 : BIT(TFT_XN)), BIT(TFT_G));
    tft_cpu_count_ends(p, up->in, TFT_XN);
    tft_pass_share(p, (width + unit - 1) / unit, &from, &to);
    to = to * unit < width ? to * unit : width;
    if (p->first == p->n)
        return;

    uint32_t left = p->n - p->first, tokens = left < TFT_HIDDEN_TOKENS ? left : TFT_HIDDEN_TOKENS;
    size_t slice = TFT_HIDDEN_TOKENS / tokens * TFT_HIDDEN_ROWS;
    for (size_t i = from * unit; i < to; i += slice)
        for (uint32_t t = p->first; t < p->n; t += tokens) {
            size_t rows = to - i < slice ? to - i : slice;
            uint32_t n = p->n - t < tokens ? p->n - t : tokens;
            product(p, w->gate, slice, gate ? gate : up, TFT_XN, false, i, i + rows, t, n, !gate);
            if (gate)
                product(p, w->up, slice, up, TFT_XN, false, i, i + rows, t, n, 1);
            for (uint32_t j = 0; j < n; j++)
                tft_cpu_activate(p, a, TFT_G, t + j, i, w->gate + j * slice,
                                 gate ? w->up + j * slice : NULL, rows, down->in);
        }
}

void tft_cpu_hidden(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                    const struct tft_linear *up, const struct tft_linear *down)
{
    bool bytes = down->in->range == TFT_RANGE_STATIC || down->in->range == TFT_RANGE_GROUPS;
    if (bytes && !down->in->norm)
        hidden_bytes(p, a, gate, up, down);
    else
        hidden_floats(p, a, gate, up, down);
}
