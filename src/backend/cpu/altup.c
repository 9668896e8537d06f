/* Several residual streams: models/altup.h has the formula. A row of X has the n streams one after
   the other, then a copy of the first as it was predicted. */
#include "cpu.h"

#include <math.h>
#include <string.h>

#include "base/exp_log.h"

static float *stream(const struct tft_pass *p, uint32_t t, uint32_t i)
{
    return tft_pass_row(p, TFT_X, t) + (size_t)i * p->m->n_embd;
}

static double length(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* The factor that gives x: [n] the length of `as`. */
static float factor_to(const float *x, const float *as, size_t n)
{
    double own = length(x, n);
    return own > 0 ? (float)(length(as, n) / own) : 0;
}

/* Stream `to` = matrix i times stream `from`: this thread's rows of it. */
static void multiply(struct tft_pass *p, const struct tft_mat *all, uint32_t i, uint32_t to,
                     uint32_t from)
{
    struct tft_mat w = tft_mat_expert(all, i);
    size_t begin, end, rows = p->m->n_embd, stride = tft_pass_stride(p, TFT_X);
    tft_pass_share(p, (rows + TFT_LINE - 1) / TFT_LINE, &begin, &end);
    begin *= TFT_LINE;
    end = end * TFT_LINE < rows ? end * TFT_LINE : rows;
    struct tft_product product = {.y = stream(p, p->first, to) + begin,
                                  .ldy = stride,
                                  .x = stream(p, p->first, from),
                                  .ldx = stride,
                                  .n = p->n - p->first};
    if (begin < end)
        w.format->product(&p->m->kern, &w, &product, begin, end);
}

void tft_cpu_altup_begin(struct tft_pass *p)
{
    const struct tft_altup *a = &p->m->altup;
    size_t d = p->m->n_embd;
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_X));
    for (uint32_t i = 1; i < a->n; i++)
        multiply(p, &a->begin, i - 1, i, 0);
    tft_pass_touch(p, 0, BIT(TFT_X));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        for (uint32_t i = 1; i < a->n; i++)
            p->m->kern.scale(stream(p, t, i), factor_to(stream(p, t, i), stream(p, t, 0), d), d);
}

/* ------------------------------------------------------------------------------------ a layer */

static double tanh_of(double x)
{
    return x > 20 ? 1 : x < -20 ? -1 : 1 - 2 / (tft_exp(2 * x) + 1);
}

/* m: [n] of the first stream of token t, which row t of Y is scratch for. */
static void route(const struct tft_pass *p, const struct tft_layer *b, uint32_t t,
                  float m[TFT_MAX_STREAMS])
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_mat *w = &b->altup.router;
    uint32_t d = p->m->n_embd;
    float *y = tft_pass_row(p, TFT_Y, t);
    kern->rmsnorm(y, stream(p, t, 0), b->altup.router_norm.w, d, p->m->norm_eps);
    kern->scale(y, 1 / (float)d, d);
    w->format->product(kern, w,
                       &(struct tft_product){.y = m, .ldy = w->rows, .x = y, .ldx = d, .n = 1}, 0,
                       w->rows);
    for (uint32_t i = 0; i < w->rows; i++)
        m[i] = (float)tanh_of((double)m[i]);
}

/* The product of a row of coefficients and m. */
static float weigh(const float *row, const float *m, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)row[i] * (double)m[i];
    return (float)sum;
}

void tft_cpu_altup_predict(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t begin, end, n = p->m->altup.n;
    size_t d = p->m->n_embd;
    float m[TFT_MAX_STREAMS], c[TFT_MAX_STREAMS * TFT_MAX_STREAMS], old[TFT_MAX_STREAMS];
    tft_pass_touch(p, 0, BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = stream(p, t, 0);
        route(p, b, t, m);
        for (uint32_t i = 0; i < n * n; i++)
            c[i] = weigh(b->altup.predict + i * n, m, n);
        for (size_t k = 0; k < d; k++) {
            for (uint32_t j = 0; j < n; j++)
                old[j] = x[j * d + k];
            for (uint32_t i = 0; i < n; i++) {
                float sum = old[i];
                for (uint32_t j = 0; j < n; j++)
                    sum += c[i * n + j] * old[j];
                x[i * d + k] = sum;
            }
        }
        memcpy(x + n * d, x, d * sizeof *x);
    }
}

/* If one token has its row in groups of bytes, each thread has a row of its own. */
void tft_cpu_laurel(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_altup_layer *a = &b->altup;
    bool own = tft_cpu_own_row(p, TFT_XN, a->left.in);
    size_t d = p->m->n_embd;
    uint32_t begin, end;
    tft_cpu_linear(p, TFT_L, &a->left, TFT_XN, false);
    tft_cpu_quantize(p, TFT_L, a->right.in);
    tft_cpu_linear(p, TFT_Y, &a->right, TFT_L, false);
    tft_pass_touch(p, own ? 0 : BIT(TFT_XN), BIT(TFT_Y) | BIT(TFT_Z));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *y = tft_pass_row(p, TFT_Y, t), *z = tft_pass_row(p, TFT_Z, t);
        kern->rmsnorm(y, y, a->norm.w, d, p->m->norm_eps);
        memcpy(z, tft_pass_row(p, TFT_XN, own ? (uint32_t)p->tid : t), d * sizeof *z);
        kern->add(z, y, d);
    }
}

void tft_cpu_laurel_join(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_kernels *kern = &p->m->kern;
    size_t d = p->m->n_embd;
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_Z), BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = stream(p, t, 0), *y = tft_pass_row(p, TFT_Y, t);
        kern->rmsnorm(y, y, b->attn_post_norm.w, d, p->m->norm_eps);
        kern->add(x, y, d);
        kern->add(x, tft_pass_row(p, TFT_Z, t), d);
        kern->scale(x, 1 / sqrtf(2), d);
    }
}

void tft_cpu_altup_correct(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t begin, end, n = p->m->altup.n;
    size_t d = p->m->n_embd;
    float m[TFT_MAX_STREAMS], c[TFT_MAX_STREAMS];
    tft_pass_touch(p, 0, BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = stream(p, t, 0), *predicted = stream(p, t, n);
        route(p, b, t, m);
        for (uint32_t i = 0; i < n; i++)
            c[i] = 1 + weigh(b->altup.correct + i * n, m, n);
        for (size_t k = 0; k < d; k++) {
            float off = x[k] - predicted[k];
            x[k] = predicted[k] + off * c[0];
            for (uint32_t i = 1; i < n; i++)
                x[i * d + k] += off * c[i];
        }
    }
}

void tft_cpu_altup_add(struct tft_pass *p, const struct tft_layer *b)
{
    size_t d = p->m->n_embd;
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *y = tft_pass_row(p, TFT_Y, t);
        p->m->kern.rmsnorm(y, y, b->embed_norm.w, d, p->m->norm_eps);
        for (uint32_t i = 1; i < p->m->altup.n; i++)
            p->m->kern.add(stream(p, t, i), y, d);
    }
}

/* -------------------------------------------------------------------------------------- the end */

/* Adds matrix i - 1 times stream i, which is in the place of the copy, to the sum in Y. */
static void add_up(struct tft_pass *p, uint32_t t, uint32_t i)
{
    const struct tft_kernels *kern = &p->m->kern;
    size_t d = p->m->n_embd, n = p->m->altup.n;
    float *x = stream(p, t, 0), *y = tft_pass_row(p, TFT_Y, t), *of = stream(p, t, (uint32_t)n);
    if (i == 1)
        memcpy(y, x, d * sizeof *y);
    kern->scale(of, factor_to(of, x, d), d);
    kern->add(y, of, d);
    if (i + 1 < n)
        return;
    memcpy(x, y, d * sizeof *x);
    kern->scale(x, 1 / (float)n, d);
}

void tft_cpu_altup_end(struct tft_pass *p)
{
    const struct tft_altup *a = &p->m->altup;
    uint32_t begin, end;
    for (uint32_t i = 1; i < a->n; i++) {
        tft_pass_touch(p, 0, BIT(TFT_X));
        multiply(p, &a->end, i - 1, a->n, i);
        tft_pass_touch(p, 0, BIT(TFT_X) | BIT(TFT_Y));
        tft_pass_share_tokens(p, &begin, &end);
        for (uint32_t t = begin; t < end; t++)
            add_up(p, t, i);
    }
}
