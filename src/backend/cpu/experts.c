/*
 * Mixtures of experts (models/mixture.h). A pass's tokens are grouped by expert, so the matrices of
 * an expert are read once for all its tokens, and matrices of other experts are not touched. A
 * token's result does not depend on the group: each product is of one row, and the products are
 * added in the order of the experts.
 */
#include "cpu.h"

#include <string.h>

#include "simd/expf.h"

/* --------------------------------------------------------------------------------------- router */

/* y: [n, rows of w from begin to end] = n rows of R at x times w. */
static void router_product(const struct tft_pass *p, const struct tft_mat *w, float *y, size_t ldy,
                           size_t begin, size_t end, const float *x, uint32_t n)
{
    struct tft_product product = {
        .y = y, .ldy = ldy, .x = x, .ldx = tft_pass_stride(p, TFT_R), .n = n};
    if (begin < end && n)
        w->format->product(&p->m->kern, w, &product, begin, end);
}

/* E = Wrouter R: many tokens are shared out, the rows of few. The same for likely experts of the
   next layer, whose router is `next`; NULL: they are not wanted. */
static void score(struct tft_pass *p, const struct tft_mat *router, const struct tft_mat *next)
{
    const struct tft_wanted *w = &p->work->routes.wanted;
    size_t ldx = tft_pass_stride(p, TFT_R), ldy = tft_pass_stride(p, TFT_E);
    size_t from = 0, to = router->rows;
    uint32_t begin = p->first, end = p->n;
    tft_pass_touch(p, BIT(TFT_R), BIT(TFT_E));
    if (p->n - p->first >= (uint32_t)p->n_threads)
        tft_pass_share_tokens(p, &begin, &end);
    else
        tft_cpu_share_rows(p, &(struct tft_linear){.w = *router}, &from, &to);
    router_product(p, router, tft_pass_row(p, TFT_E, begin) + from, ldy, from, to,
                   tft_pass_row(p, TFT_R, begin), end - begin);
    size_t at = begin - p->first;
    if (next)
        router_product(p, next, w->score + at * ldy + from, ldy, from, to, w->in + at * ldx,
                       end - begin);
}

/* The weight of the block's own feed-forward: sigmoid(Wgate R), or 1. */
static float shared_weight(const struct tft_pass *p, const struct tft_experts *x, uint32_t t)
{
    float y = 0;
    if (!x->shared_gate.rows)
        return 1;
    router_product(p, &x->shared_gate, &y, 1, 0, 1, tft_pass_row(p, TFT_R, t), 1);
    return 1 / (1 + tft_expf(-y));
}

/* r = R of a token. */
static void router_input(const struct tft_pass *p, const struct tft_layer *b, uint32_t t, float *r)
{
    const struct tft_norm *own = &b->experts.router_norm;
    tft_cpu_norm_row(p, own->w || b->experts.raw ? own : &b->ffn_norm, t, r);
    if (p->m->router_scale != 1)
        p->m->kern.scale(r, p->m->router_scale, p->m->n_embd);
}

/* The experts of a token, to[n_expert_used]. */
static void choose(const struct tft_pass *p, const struct tft_experts *x, uint32_t t,
                   struct tft_route *to)
{
    if (x->router_bias)
        p->m->kern.add(tft_pass_row(p, TFT_E, t), x->router_bias, p->m->n_expert);
    tft_routes_choose(p->m, x->bias, tft_pass_row(p, TFT_E, t), to);
    for (uint32_t i = 0; i < p->m->n_expert_used && x->factor; i++)
        to[i].weight *= x->factor[to[i].expert];
}

void tft_cpu_route(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_experts *x = &b->experts;
    struct tft_routes *r = &p->work->routes;
    const struct tft_layer *next = tft_cpu_guessed_layer(p, b);
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_X), BIT(TFT_R));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        router_input(p, b, t, tft_pass_row(p, TFT_R, t));
        if (next)
            router_input(p, next, t,
                         r->wanted.in + (size_t)(t - p->first) * tft_pass_stride(p, TFT_R));
    }
    score(p, &x->router, next ? &next->experts.router : NULL);

    tft_pass_touch(p, BIT(TFT_R) | BIT(TFT_E), BIT(TFT_E) | BIT(TFT_ROUTES));
    for (uint32_t t = begin; t < end; t++) {
        choose(p, x, t, r->of_token + (size_t)t * p->m->n_expert_used);
        r->shared[t] = shared_weight(p, x, t);
    }
    tft_pass_touch(p, BIT(TFT_ROUTES), BIT(TFT_ROUTES));
    if (p->tid != 0)
        return;
    tft_routes_group(r, p->m, p->first, p->n);
    if (r->wanted.unit)
        tft_cpu_want(p, b, next);
}

/* -------------------------------------------------------------------------------------- experts */

/* Pairs [at, at + n) of an expert. */
struct pairs {
    uint32_t expert, at, n;
    uint32_t nth; /* of the pass's experts, counted from 1 */
};

/* The next pairs of the pass, at most `most` and of one expert, after `last`, which begins all
   zero. Returns false if there are none. */
static bool next(const struct tft_pass *p, struct pairs *last, uint32_t most)
{
    const uint32_t *first = p->work->routes.first;
    last->at += last->n;
    while (last->expert < p->m->n_expert && last->at == first[last->expert + 1])
        last->expert++;
    if (last->expert == p->m->n_expert)
        return false;
    last->nth += last->at == first[last->expert];
    uint32_t left = first[last->expert + 1] - last->at;
    last->n = left < most ? left : most;
    return true;
}

/* The input of the product of `l` with the pairs' tokens: their rows of XN, copied side by side.
   One row is used in place. */
static struct tft_product inputs(const struct tft_pass *p, const struct tft_linear *l,
                                 const struct pairs *pairs)
{
    const struct tft_expert_inputs *to = &p->work->expert_inputs[p->tid];
    const uint32_t *token = p->work->routes.token + pairs->at;
    bool bytes = tft_format_in_panels(l->w.format),
         step = l->w.format->takes_bytes && l->in->range != TFT_RANGE_STATIC;
    struct tft_product x = {.n = pairs->n, .step = step, .affine = &l->in->affine};
    x.ldx = bytes ? tft_pass_byte_stride(p, TFT_XN) : tft_pass_stride(p, TFT_XN);
    x.x = to->x;
    x.bytes = to->bytes;
    if (step)
        x.affine = to->affine;
    for (uint32_t i = 0; i < pairs->n; i++) {
        uint32_t row = tft_cpu_own_row(p, TFT_XN, l->in) ? (uint32_t)p->tid : token[i];
        if (step)
            to->affine[i] = p->work->affine[TFT_XN][row];
        if (pairs->n == 1) {
            x.x = bytes ? NULL : tft_pass_row(p, TFT_XN, row);
            x.bytes = bytes ? tft_pass_bytes(p, TFT_XN, row) : NULL;
        } else if (bytes) {
            memcpy(to->bytes + i * x.ldx, tft_pass_bytes(p, TFT_XN, row), x.ldx);
        } else {
            memcpy(to->x + i * x.ldx, tft_pass_row(p, TFT_XN, row), x.ldx * sizeof *to->x);
        }
    }
    return x;
}

/* Rows [begin, end) of one expert's matrix times x, to y. */
static void product(const struct tft_pass *p, const struct tft_linear *all, uint32_t expert,
                    struct tft_product x, float *y, size_t ldy, size_t begin, size_t end)
{
    struct tft_mat w = tft_mat_expert(&all->w, expert);
    x.bias = all->bias ? all->bias + (size_t)expert * all->w.rows : NULL;
    x.y = y;
    x.ldy = ldy;
    w.format->product(&p->m->kern, &w, &x, begin, end);
}

/* Rows of a slice for n tokens: few enough that the outputs of both products stay in the CPU cache
   until they are used. */
static size_t slice_rows(uint32_t n)
{
    return TFT_HIDDEN_TOKENS / n * TFT_HIDDEN_ROWS;
}

/* H of the pairs, this thread's share of its numbers. Gate and up may differ in their format. */
static void hidden_slices(const struct tft_pass *p, const struct tft_experts *x,
                          enum tft_activation a, const struct pairs *pairs, size_t from, size_t to)
{
    const struct tft_hidden_scratch *w = &p->work->hidden[p->tid];
    size_t slice = slice_rows(pairs->n);
    bool gated = x->gate.w.rows;
    struct tft_product up = inputs(p, &x->up, pairs), gate = up;
    if (gated)
        gate = inputs(p, &x->gate, pairs);
    for (size_t i = from; i < to; i += slice) {
        size_t rows = to - i < slice ? to - i : slice;
        if (gated)
            product(p, &x->gate, pairs->expert, gate, w->gate, slice, i, i + rows);
        product(p, &x->up, pairs->expert, up, gated ? w->up : w->gate, slice, i, i + rows);
        for (uint32_t j = 0; j < pairs->n; j++)
            tft_cpu_activate(p, a, TFT_H, pairs->at + j, i, w->gate + j * slice,
                             gated ? w->up + j * slice : NULL, rows, x->down.in);
    }
}

/* asked: as in tft_cpu_ask. */
static void hidden(struct tft_pass *p, const struct tft_experts *x, enum tft_activation a,
                   uint32_t *asked)
{
    size_t block = x->down.in->hadamard, unit = block > 64 ? block : 64, from, to,
           width = x->up.w.rows;
    unsigned xn = tft_cpu_own_row(p, TFT_XN, x->up.in) ? 0 : BIT(TFT_XN);
    tft_pass_touch(p, xn | BIT(TFT_ROUTES), BIT(TFT_H));
    tft_pass_share(p, (width + unit - 1) / unit, &from, &to);
    to = to * unit < width ? to * unit : width;
    struct pairs pairs = {0};
    *asked = p->work->routes.wanted.asked;
    while (from * unit < to && next(p, &pairs, TFT_EXPERT_TOKENS)) {
        tft_cpu_ask(p, asked, pairs.nth - 1);
        hidden_slices(p, x, a, &pairs, from * unit, to);
    }
    if (x->down.in->range != TFT_RANGE_TOKEN)
        return;
    tft_pass_touch(p, 0, BIT(TFT_H));
    tft_pass_share(p, (size_t)(p->n - p->first) * p->m->n_expert_used, &from, &to);
    for (size_t i = from; i < to; i++)
        tft_cpu_quantize_token(p, TFT_H, (uint32_t)i, x->down.in);
}

/* The input of the product of `down`: the pairs' rows of H. */
static struct tft_product hidden_rows(const struct tft_pass *p, const struct tft_linear *down,
                                      const struct pairs *pairs)
{
    struct tft_product x = {.n = pairs->n, .affine = &down->in->affine};
    if (!tft_format_in_panels(down->w.format)) {
        x.x = tft_pass_row(p, TFT_H, pairs->at);
        x.ldx = tft_pass_stride(p, TFT_H);
        return x;
    }
    x.bytes = tft_pass_bytes(p, TFT_H, pairs->at);
    x.ldx = tft_pass_byte_stride(p, TFT_H);
    x.step = down->w.format->takes_bytes && down->in->range != TFT_RANGE_STATIC;
    if (x.step)
        x.affine = p->work->affine[TFT_H] + pairs->at;
    return x;
}

/* Whether Y begins with the block's own feed-forward, which read the same input. Otherwise there is
   none, or it was set aside, or added. */
static bool begins_with_own(const struct tft_layer *b)
{
    return b->up.w.rows && !tft_layer_has_own_input(b);
}

/* Y of all tokens begins with the block's own feed-forward, or with 0: rows [begin, end). */
static void begin_sums(const struct tft_pass *p, const struct tft_layer *b, size_t begin,
                       size_t end)
{
    for (uint32_t t = p->first; t < p->n; t++) {
        float *y = tft_pass_row(p, TFT_Y, t) + begin;
        if (!begins_with_own(b))
            memset(y, 0, (end - begin) * sizeof *y);
        else if (b->experts.shared_gate.rows)
            p->m->kern.scale(y, p->work->routes.shared[t], end - begin);
    }
}

void tft_cpu_experts(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    const struct tft_experts *x = &b->experts;
    const struct tft_routes *r = &p->work->routes;
    float *sum = p->work->hidden[p->tid].gate;
    size_t begin, end;
    uint32_t asked;
    if (!begins_with_own(b)) { /* otherwise the block's own feed-forward has shown the input, and
                                  counted it */
        tft_pass_tap(p, &x->up, TFT_XN);
        tft_cpu_count_ends(p, x->up.in, TFT_XN);
    }
    hidden(p, x, a, &asked);
    tft_pass_tap_rows(p, x->down.in, TFT_H, (size_t)(p->n - p->first) * p->m->n_expert_used);
    tft_cpu_count_pair_ends(p, x->down.in, TFT_H);

    tft_pass_touch(p, BIT(TFT_H) | BIT(TFT_ROUTES), BIT(TFT_Y));
    tft_cpu_share_rows(p, &x->down, &begin, &end);
    if (begin == end) {
        tft_cpu_ask(p, &asked, r->wanted.n_own);
        return;
    }
    begin_sums(p, b, begin, end);
    struct pairs pairs = {0};
    while (next(p, &pairs, TFT_EXPERT_TOKENS)) {
        tft_cpu_ask(p, &asked, r->wanted.n_own / 2 + pairs.nth - 1);
        struct tft_product h = hidden_rows(p, &x->down, &pairs);
        size_t slice = slice_rows(pairs.n);
        for (size_t i = begin; i < end; i += slice) {
            size_t rows = end - i < slice ? end - i : slice;
            product(p, &x->down, pairs.expert, h, sum, slice, i, i + rows);
            for (uint32_t j = 0; j < pairs.n; j++)
                p->m->kern.blend(tft_pass_row(p, TFT_Y, r->token[pairs.at + j]) + i, 1,
                                 sum + j * slice, r->weight[pairs.at + j], rows);
        }
    }
}

/* ----------------------------------------------------------------- feed-forward beside experts */

void tft_cpu_set_aside(struct tft_pass *p, const struct tft_norm *w)
{
    const struct tft_model *m = p->m;
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_Y), BIT(TFT_Z));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        m->kern.rmsnorm(tft_pass_row(p, TFT_Z, t), tft_pass_row(p, TFT_Y, t), w->w, m->n_embd,
                        m->norm_eps);
}

void tft_cpu_add_aside(struct tft_pass *p, const struct tft_norm *w)
{
    const struct tft_model *m = p->m;
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_Z), BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *y = tft_pass_row(p, TFT_Y, t);
        m->kern.rmsnorm(y, y, w->w, m->n_embd, m->norm_eps);
        m->kern.add(y, tft_pass_row(p, TFT_Z, t), m->n_embd);
    }
}
