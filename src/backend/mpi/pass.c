/*
 * A pass through a process's part of the model. All processes compute the same residual stream.
 * Attention and the hidden activations belong to the part. The products of o and down sum over the
 * columns of all processes. The sums are integers, so they equal the sums of one machine: each
 * process adds up its own columns (gemm_i8 of kernels.h: acc), MPI adds up the processes, and then
 * each process finishes the product as gemm_i8 does.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "inside.h"
#include "port/port.h"
#include "simd/affine.h"

static struct member *member_of(const struct tft_pass *p) { return p->state; }

/* Sums member->words of n tokens over all processes. Each thread has written its share of the
   words. */
static void add_up(struct tft_pass *p, uint32_t n)
{
    struct member *member = member_of(p);
    tft_port_barrier();
    if (p->tid == 0)
        tft_mpi_sum(&member->part->link, member->words, (size_t)n * p->m->n_embd);
    tft_port_barrier();
    p->read = p->written = p->by_head = 0;
}

/* --------------------------------------------------------------------------------------- tokens */

/* The process with a token's row of the embedding gives the row's bits to all; the others add 0. */
static void embed(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    const struct member *member = member_of(p);
    const float *positions = m->pos_embed.data;
    size_t width = m->n_embd;
    uint32_t begin, end;
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        uint32_t token = (uint32_t)p->tokens[t];
        float *x = tft_pass_row(p, TFT_X, t);
        bool own = token >= member->part->vocab.from && token < member->part->vocab.to;
        memset(x, 0, width * sizeof *x);
        if (own)
            tft_mat_row(m, &m->embed, token, x);
        if (own && m->embed_scale != 1)
            m->kern.scale(x, m->embed_scale, width);
        if (own && positions)
            m->kern.add(x, positions + (size_t)tft_pass_position(p, t) * width, width);
        memcpy(member->words + t * width, x, width * sizeof *x);
    }
    add_up(p, p->n);
    tft_pass_touch(p, 0, BIT(TFT_X));
    for (uint32_t t = begin; t < end; t++)
        memcpy(tft_pass_row(p, TFT_X, t), member->words + t * width, width * sizeof(float));
}

/* ------------------------------------------------------------------------------------- products */

/* The columns of l: o or down of a layer. */
static const struct columns *columns_of(const struct tft_pass *p, const struct tft_linear *l)
{
    const struct part *part = member_of(p)->part;
    size_t layer = (size_t)((const char *)l - (const char *)p->m->layer) / sizeof *p->m->layer;
    return l == &p->m->layer[layer].o ? &part->o[layer] : &part->down[layer];
}

/* The range of a token covers the columns of all processes. A maximum is the same in any order, so
   the range has the bits of one machine. */
static void quantize(struct tft_pass *p, enum tft_buf from, const struct tft_linear *l)
{
    struct member *member = member_of(p);
    const struct columns *c = columns_of(p, l);
    uint32_t begin, end, width = 0;
    if (l->in->range != TFT_RANGE_TOKEN)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        width += c->piece[i].cols;
    tft_pass_touch(p, 0, BIT(from));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float min, max, *ends = member->ends + (size_t)t * 2;
        p->m->kern.range(tft_pass_row(p, from, t), width, &min, &max);
        ends[0] = -fminf(min, 0);
        ends[1] = fmaxf(max, 0);
    }
    tft_port_barrier();
    if (p->tid == 0)
        tft_mpi_largest(&member->part->link, member->ends + (size_t)p->first * 2,
                        (size_t)(p->n - p->first) * 2);
    tft_port_barrier();
    for (uint32_t t = begin; t < end; t++) {
        const float *ends = member->ends + (size_t)t * 2;
        struct tft_affine *q = &p->work->affine[from][t];
        *q = tft_affine_of(-ends[0], ends[1]);
        p->m->kern.quantize(tft_pass_bytes(p, from, t), tft_pass_row(p, from, t), width, q);
    }
}

/* The sums of rows [begin, end) over the process's columns, for n tokens from `first` on. */
static void sum_columns(const struct tft_pass *p, const struct columns *c, enum tft_buf from,
                        uint32_t first, uint32_t n, size_t begin, size_t end)
{
    static const struct tft_affine plain = {1, 1, 0};
    const struct member *member = member_of(p);
    size_t width = p->m->n_embd;
    for (size_t t = 0; t < n; t++)
        memset(member->words + t * width + begin, 0, (end - begin) * sizeof *member->words);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct tft_mat *w = &c->piece[i];
        struct tft_product product = {.y = member->sums + begin,
                                      .ldy = width,
                                      .bytes = tft_pass_bytes(p, from, first) +
                                               (size_t)i * TFT_MPI_PIECE,
                                      .ldx = tft_pass_byte_stride(p, from),
                                      .affine = &plain,
                                      .n = n};
        w->format->product(&p->m->kern, w, &product, begin, end);
        for (size_t t = 0; t < n; t++)
            for (size_t r = begin; r < end; r++)
                member->words[t * width + r] += (int32_t)member->sums[t * width + r];
    }
}

/* y: rows [begin, end) of gemm_i8's result, from acc, the sums over all columns. */
static void finish(float *y, const int32_t *acc, const struct tft_linear *l,
                   const struct tft_affine *q, bool add, size_t begin, size_t end)
{
    for (size_t r = begin; r < end; r++) {
        uint32_t d = (uint32_t)acc[r] - (uint32_t)q->zero * (uint32_t)l->w.rowsum[r];
        float v = (float)(int32_t)d * (q->scale * l->w.scale[r]);
        if (l->bias)
            v = v + l->bias[r];
        y[r] = add ? y[r] + v : v;
    }
}

static void linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                   enum tft_buf from, bool add)
{
    size_t begin, end, width = p->m->n_embd;
    if (p->first == p->n)
        return;
    tft_pass_touch(p, BIT(from), 0);
    tft_cpu_share_rows(p, l, &begin, &end);
    for (uint32_t first = p->first, n; first < p->n; first += n) {
        n = p->n - first < TFT_MPI_BLOCK ? p->n - first : TFT_MPI_BLOCK;
        if (begin < end)
            sum_columns(p, columns_of(p, l), from, first, n, begin, end);
        add_up(p, n);
        tft_pass_touch(p, 0, BIT(to));
        for (uint32_t t = 0; t < n; t++)
            finish(tft_pass_row(p, to, first + t), member_of(p)->words + t * width, l,
                   l->in->range == TFT_RANGE_STATIC ? &l->in->affine
                                                    : &p->work->affine[from][first + t],
                   add, begin, end);
    }
}

static void linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                       enum tft_buf from)
{
    linear(p, to, l, from, true);
}

static void linear_y(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from)
{
    linear(p, TFT_Y, l, from, false);
}

const struct tft_ops tft_mpi_ops = {
    .embed = embed,
    .norm = tft_cpu_norm,
    .qkv = tft_cpu_qkv,
    .rmsnorm_heads = tft_cpu_rmsnorm_heads,
    .layernorm_heads = tft_cpu_layernorm_heads,
    .rope = tft_cpu_rope,
    .scale_queries = tft_cpu_scale_queries,
    .kv_append = tft_cpu_kv_append,
    .attend = tft_cpu_attend,
    .hidden = tft_cpu_hidden,
    .quantize = quantize,
    .linear_add = linear_add,
    .linear_y = linear_y,
    .add_y = tft_cpu_add_y,
    .logits = tft_cpu_logits,
};

/* ----------------------------------------------------------------------------------------- runs */

struct run {
    const struct tft_pass *p;
    uint32_t first, end;
};

static void run_thread(void *arg, int tid, int n_threads)
{
    const struct run *run = arg;
    struct tft_pass p = *run->p;
    p.tid = tid;
    p.n_threads = n_threads;
    if (run->first < run->end)
        tft_pass_positions(&p);
    tft_pass_layers(&p, run->first, run->end);
}

void tft_mpi_pass(struct tft_pass *p, uint32_t first, uint32_t end)
{
    struct run run = {p, first, end};
    tft_port_team(p->n_threads, run_thread, &run);
}
