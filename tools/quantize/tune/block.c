#include "tools/quantize/tune/block.h"

#include <string.h>

#include "tools/quantize/tune/tape.h"

/* --------------------------------------------------------------------- queries, keys and values */

static size_t q_width(const struct tape *t, const struct tft_layer *b)
{
    return (size_t)t->m->n_head * b->kv.dim;
}

static size_t kv_width(const struct tft_layer *b) { return (size_t)b->kv.n * b->kv.dim; }

/* Values before their norm, which may be keys. */
static const real *raw_values(const struct tape *t, const struct tft_layer *b)
{
    return b->v.w.rows ? t->v0 : t->k0;
}

static void heads_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_layer *b = arg;
    size_t q = i * q_width(t, b), k = i * kv_width(b);
    heads_run(t->heads, b, false, t->q + q, t->q0 + q, i);
    if (!tft_layer_has_kv(b))
        return;
    if (b->v_norm.w)
        heads_values(t->heads, b, t->v + k, raw_values(t, b) + k);
    heads_run(t->heads, b, true, t->k + k, t->k0 + k, i);
}

static void heads_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_layer *b = arg;
    size_t q = i * q_width(t, b), width = kv_width(b), k = i * width;
    heads_back(t->heads, b, false, t->dq0 + q, t->dq + q, t->q0 + q, i);
    if (!tft_layer_has_kv(b))
        return;
    heads_back(t->heads, b, true, t->dk0 + k, t->dk + k, t->k0 + k, i);
    if (!b->v_norm.w)
        return;
    if (b->v.w.rows)
        memset(t->dv0 + k, 0, width * sizeof *t->dv0);
    heads_values_back(t->heads, b, (b->v.w.rows ? t->dv0 : t->dk0) + k, t->dv + k,
                      raw_values(t, b) + k);
}

/* --------------------------------------------------------------------------- hidden activations */

/* Whether the hidden activations of b go through GELU; otherwise through SiLU. */
static bool is_gelu(const struct tape *t, const struct tft_layer *b)
{
    return !b->gate.w.rows || t->m->parts & TFT_BIT(TFT_PART_GEGLU);
}

static void activate_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_layer *b = arg;
    size_t n = b->down.w.cols, at = i * n;
    bool gated = b->gate.w.rows;
    row_activate(t->c + at, t->g + at, gated ? t->u + at : NULL, n, is_gelu(t, b));
    if (b->down.in->hadamard)
        row_hadamard(t->c + at, n, b->down.in->hadamard);
}

static void activate_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_layer *b = arg;
    size_t n = b->down.w.cols, at = i * n;
    bool gated = b->gate.w.rows;
    if (b->down.in->hadamard)
        row_hadamard(t->dc + at, n, b->down.in->hadamard);
    row_activate_back(t->dg + at, gated ? t->du + at : NULL, t->dc + at, t->g + at,
                      gated ? t->u + at : NULL, n, is_gelu(t, b));
}

/* ------------------------------------------------------------------------ outputs of the halves */

/* A half's y, which is normalized and scaled before it is added to x; and gradients. */
struct added {
    real *x, *y, *dy;
    const real *dx;
    const struct tft_norm *norm;
};

static void add_row(const struct tape *t, const void *arg, size_t i)
{
    const struct added *a = arg;
    size_t d = t->m->n_embd;
    real *x = a->x + i * d, *scratch = t->dh + i * d;
    row_norm(scratch, a->y + i * d, a->norm, d, t->m->norm_eps);
    for (size_t j = 0; j < d; j++)
        x[j] += (real)t->m->residual_scale * scratch[j];
}

/* x += r norm(y): dy = r norm'(dx) */
static void add_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct added *a = arg;
    size_t d = t->m->n_embd;
    real *dy = a->dy + i * d, *scratch = t->dh + i * d;
    for (size_t j = 0; j < d; j++)
        scratch[j] = (real)t->m->residual_scale * a->dx[i * d + j];
    memset(dy, 0, d * sizeof *dy);
    row_norm_back(dy, scratch, a->y + i * d, a->norm, d, t->m->norm_eps);
}

/* x += the output of l for its input. y: [n, D] this output, kept for the gradient. */
static void add(struct tape *t, real *x, real *y, const struct tft_linear *l,
                const struct tft_norm *norm)
{
    bool apart = tft_model_adds_y(t->m);
    matmul_run(t->matmul, apart ? y : x, l, !apart);
    if (apart)
        each_row(t, t->n, add_row, &(struct added){.x = x, .y = y, .norm = norm});
}

/* The gradient of l's output from dx, the gradient of x: [n, D] each. */
static const real *add_back(const struct tape *t, const real *dx, real *y,
                            const struct tft_norm *norm)
{
    if (!tft_model_adds_y(t->m))
        return dx;
    each_row(t, t->n, add_back_row, &(struct added){.dx = dx, .y = y, .dy = t->dy, .norm = norm});
    return t->dy;
}

/* -------------------------------------------------------------------------------------- a block */

static struct attention_rows attention_in(const struct tape *t, const struct tft_layer *b,
                                          struct prefix_rows prefix)
{
    return (struct attention_rows){b->kv,    t->q,     t->seen_k, t->seen_v, prefix.k,
                                   prefix.v, t->coded, b->window};
}

/* Whether a norm comes before layer l, the first of a later round: models/nanbeige.c. */
static bool starts_round(const struct tft_model *m, uint32_t l)
{
    return m->n_round && m->round_norm && l && l % m->n_round == 0;
}

/* The rows that later blocks use too; NULL: they use others. */
static struct shared_rows *shared_of(const struct tape *t, const struct tft_layer *b)
{
    return t->shared && t->shared[b->kv_layer].k ? &t->shared[b->kv_layer] : NULL;
}

/* Computes q, and k and v, or takes those of an earlier block. */
static void queries_keys_values(struct tape *t, const struct tft_layer *b)
{
    size_t bytes = t->n * kv_width(b) * sizeof *t->k;
    struct shared_rows *shared = shared_of(t, b);
    bool own = tft_layer_has_kv(b);
    matmul_run(t->matmul, t->q0, &b->q, false);
    if (own)
        matmul_run(t->matmul, t->k0, &b->k, false);
    if (own && b->v.w.rows)
        matmul_run(t->matmul, b->v_norm.w ? t->v0 : t->v, &b->v, false);
    each_row(t, t->n, heads_row, b);
    if (own && shared) {
        memcpy(shared->k, t->k, bytes);
        memcpy(shared->v, t->v, bytes);
    }
    t->seen_k = own ? t->k : shared->k;
    t->seen_v = own ? t->v : shared->v;
    t->coded = coded_rows_run(t->coded_rows, b->kv_layer, t->seen_k, t->seen_v);
}

/* Computes the block up to ffn_down; t->c is then the input of ffn_down. */
static void run_to_down(struct tape *t, uint32_t l, struct prefix_rows prefix, const real *x)
{
    const struct tft_model *m = t->m;
    const struct tft_layer *b = &m->layer[l];
    size_t d = m->n_embd;

    norm_rows(t, t->h, x, &b->attn_norm);
    quantize_input(t, t->h, d, &b->q);
    queries_keys_values(t, b);
    const struct attention_rows in = attention_in(t, b, prefix);
    attention_run(t->attention, t->a, &in, t->n);
    quantize_input(t, t->a, q_width(t, b), &b->o);
    memcpy(t->x2, x, t->n * d * sizeof *x);
    add(t, t->x2, t->y, &b->o, &b->attn_post_norm);

    norm_rows(t, t->h2, m->parallel ? x : t->x2, &b->ffn_norm);
    quantize_input(t, t->h2, d, &b->up);
    matmul_run(t->matmul, t->g, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_run(t->matmul, t->u, &b->up, false);
    each_row(t, t->n, activate_row, b);
}

/* The residual stream that block l reads, from that after the block before: there is a norm between
   rounds of layers. */
static const real *enter(const struct tape *t, uint32_t l, const real *x)
{
    if (!starts_round(t->m, l))
        return x;
    norm_rows(t, t->x0, x, &t->m->out_norm);
    return t->x0;
}

static void enter_back(const struct tape *t, uint32_t l, real *dx, const real *x)
{
    size_t bytes = t->n * t->m->n_embd * sizeof *dx;
    if (!starts_round(t->m, l))
        return;
    memcpy(t->dout, dx, bytes);
    memset(dx, 0, bytes);
    norm_rows_back(t, dx, t->dout, x, &t->m->out_norm);
}

static void scale_rows(const struct tape *t, const struct tft_layer *b, real *x)
{
    for (size_t i = 0; b->scale && i < t->n * t->m->n_embd; i++)
        x[i] *= (real)*b->scale;
}

double block_run(struct tape *t, uint32_t l, struct prefix_rows prefix, real *y, const real *x)
{
    const struct tft_layer *b = &t->m->layer[l];
    double lost = 0;
    memset(t->error, 0, t->n * sizeof *t->error);
    run_to_down(t, l, prefix, enter(t, l, x));
    quantize_input(t, t->c, b->down.w.cols, &b->down);
    memcpy(y, t->x2, t->n * t->m->n_embd * sizeof *y);
    add(t, y, t->y2, &b->down, &b->ffn_post_norm);
    if (t->embeds)
        layer_embeds_run(t->embeds, l, y, y);
    scale_rows(t, b, y);
    for (size_t i = 0; i < t->n; i++)
        lost += t->error[i];
    return lost;
}

/* Adds the gradient of the feed-forward half's input to dx, from dy, the gradient of the block's
   output; x: the half's input. */
static void ffn_back(struct tape *t, const struct tft_layer *b, real *dx, const real *dy,
                     const real *x)
{
    const struct tft_model *m = t->m;
    dy = add_back(t, dy, t->y2, &b->ffn_post_norm);
    matmul_back(t->matmul, t->dc, dy, t->n, &b->down, false);
    quantize_back(t, t->dc, t->c, b->down.w.cols, &b->down);
    each_row(t, t->n, activate_back_row, b);
    matmul_back(t->matmul, t->dh, t->dg, t->n, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_back(t->matmul, t->dh, t->du, t->n, &b->up, true);
    quantize_back(t, t->dh, t->h2, m->n_embd, &b->up);
    norm_rows_back(t, dx, t->dh, x, &b->ffn_norm);
}

/* to += from; from = 0 */
static void move(real *to, real *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
    memset(from, 0, n * sizeof *from);
}

/* The gradients of shared keys and values: a block without its own leaves them to the earlier
   block, which adds them to its own. */
static void share_gradients(struct tape *t, const struct tft_layer *b)
{
    struct shared_rows *shared = shared_of(t, b);
    size_t n = t->n * kv_width(b);
    bool own = tft_layer_has_kv(b);
    if (!shared)
        return;
    move(own ? t->dk : shared->dk, own ? shared->dk : t->dk, n);
    move(own ? t->dv : shared->dv, own ? shared->dv : t->dv, n);
    if (!t->watch)
        return;
    move(own ? t->far_k : shared->far_k, own ? shared->far_k : t->far_k, n);
    move(own ? t->far_v : shared->far_v, own ? shared->far_v : t->far_v, n);
}

/* Likewise for the attention half; dy: the gradient of its sum with the input. */
static void attention_half_back(struct tape *t, const struct tft_layer *b,
                                struct prefix_rows prefix, struct prefix_rows dprefix, real *dx,
                                const real *dy, const real *x)
{
    const struct attention_rows in = attention_in(t, b, prefix);
    const struct block_watch *watch = t->watch;
    const struct attention_gradients out = {.q = t->dq,
                                            .k = t->dk,
                                            .v = t->dv,
                                            .prefix_k = dprefix.k,
                                            .prefix_v = dprefix.v,
                                            .far_k = watch ? t->far_k : NULL,
                                            .far_v = t->far_v,
                                            .far = watch ? watch->far : 0};
    dy = add_back(t, dy, t->y, &b->attn_post_norm);
    matmul_back(t->matmul, t->da, dy, t->n, &b->o, false);
    quantize_back(t, t->da, t->a, q_width(t, b), &b->o);
    attention_back(t->attention, &out, t->da, &in, t->n);
    share_gradients(t, b);
    if (watch)
        watch->take(watch->user, (uint32_t)(b - t->m->layer),
                    &(struct block_rows){t->q, t->da, t->seen_k, t->seen_v, t->far_k, t->far_v});
    each_row(t, t->n, heads_back_row, b);
    matmul_back(t->matmul, t->dh, t->dq0, t->n, &b->q, false);
    if (tft_layer_has_kv(b))
        matmul_back(t->matmul, t->dh, t->dk0, t->n, &b->k, true);
    if (tft_layer_has_kv(b) && b->v.w.rows)
        matmul_back(t->matmul, t->dh, b->v_norm.w ? t->dv0 : t->dv, t->n, &b->v, true);
    quantize_back(t, t->dh, t->h, t->m->n_embd, &b->q);
    norm_rows_back(t, dx, t->dh, x, &b->attn_norm);
}

void block_back(struct tape *t, uint32_t l, struct prefix_rows prefix, struct prefix_rows dprefix,
                real *dx, const real *before)
{
    const struct tft_layer *b = &t->m->layer[l];
    size_t bytes = t->n * t->m->n_embd * sizeof *dx;
    const real *x = enter(t, l, before);
    run_to_down(t, l, prefix, x);
    if (b->ffn_post_norm.w) { /* the gradient needs the norm's input */
        quantize_input(t, t->c, b->down.w.cols, &b->down);
        matmul_run(t->matmul, t->y2, &b->down, false);
    }
    scale_rows(t, b, dx);
    if (t->embeds) {
        memcpy(t->x3, t->x2, bytes);
        each_row(t, t->n, add_row,
                 &(struct added){.x = t->x3, .y = t->y2, .norm = &b->ffn_post_norm});
        layer_embeds_back(t->embeds, l, dx, t->x3);
    }
    memcpy(t->dout, dx, bytes);
    ffn_back(t, b, dx, t->dout, t->m->parallel ? x : t->x2);
    if (!t->m->parallel) /* feed-forward also reads the output of attention */
        memcpy(t->dout, dx, bytes);
    attention_half_back(t, b, prefix, dprefix, dx, t->dout, x);
    enter_back(t, l, dx, before);
}
