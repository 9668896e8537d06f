/*
 * Adapters beside a matrix: y += B u, where u = s (A x), in the rows of session->loras.low.
 *
 * u is whole before its product with B begins, so each adapted product has a barrier more. A and B
 * are floats, and products are kernels of floats: the order of their sums is that of the contract.
 * Where the matrix takes groups of bytes, x is the numbers that the bytes stand for. In a pass of
 * several sessions, each one's tokens get its own adapters.
 */
#include "cpu.h"

/* Tokens [from, to) of the pass, and the adapters of their session. */
struct share {
    const struct tft_session_loras *loras; /* NULL: it has none */
    uint32_t from, to;
};

/* The number of sessions in the pass. */
static uint32_t shares(const struct tft_pass *p) { return p->seq ? p->n_seq : 1; }

static struct share share_of(const struct tft_pass *p, uint32_t i)
{
    const struct tft_session *s = p->seq ? p->seq[i].s : p->s;
    return (struct share){.loras = s && s->loras.n ? &s->loras : NULL,
                          .from = p->seq ? p->seq[i].at : p->first,
                          .to = p->seq ? p->seq[i].at + p->seq[i].n : p->n};
}

/* Row t of `from` as floats. */
static const float *input(const struct tft_pass *p, const struct tft_linear *l, enum tft_buf from,
                          uint32_t t, float *scratch)
{
    uint32_t row = tft_cpu_own_row(p, from, l->in) ? (uint32_t)p->tid : t;
    if (!l->w.format->packing)
        return tft_pass_row(p, from, row);
    const uint8_t *bytes = tft_pass_bytes(p, from, row);
    const float *step = tft_groups_step(bytes, l->in->width);
    for (uint32_t i = 0; i < l->w.cols; i++)
        scratch[i] = (float)(int8_t)bytes[i] * step[i / TFT_STEP_GROUP];
    return scratch;
}

/* This thread's part of u of one adapter; u: of the share's first token. */
static void inner(const struct tft_pass *p, const struct share *of, const struct tft_lora_use *use,
                  const struct tft_lora_part *part, const struct tft_linear *l, enum tft_buf from,
                  float *u)
{
    const struct tft_session_loras *all = of->loras;
    const struct tft_kernels *kern = &p->m->kern;
    struct tft_part own = tft_pass_part(p, part->rank, 1);
    float *scratch = all->row + (size_t)p->tid * all->cols, factor = use->scale * part->scale;
    size_t n = own.to - own.from;
    uint32_t begin = own.begin > of->from ? own.begin : of->from,
             end = own.end < of->to ? own.end : of->to;
    for (uint32_t t = begin; t < end && n; t++) {
        float *y = u + (size_t)(t - of->from) * all->stride + own.from;
        kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = y,
                                                   .ldy = all->stride,
                                                   .x = input(p, l, from, t, scratch),
                                                   .ldx = part->cols,
                                                   .w = part->a + own.from * part->cols,
                                                   .M = 1,
                                                   .N = n,
                                                   .K = part->cols});
        kern->scale(y, factor, n);
    }
}

bool tft_cpu_adapts(const struct tft_pass *p, const struct tft_linear *l)
{
    for (uint32_t k = 0; k < shares(p); k++) {
        const struct tft_session_loras *all = share_of(p, k).loras;
        for (uint32_t i = 0; all && i < all->n; i++)
            if (tft_lora_part_of(all->use[i].lora, l))
                return true;
    }
    return false;
}

static void adapt_inner(const struct tft_pass *p, const struct share *of, unsigned slot,
                        const struct tft_linear *l, enum tft_buf from)
{
    const struct tft_session_loras *all = of->loras;
    float *u = all->low[slot];
    for (uint32_t i = 0; i < all->n; u += all->use[i++].lora->rank) {
        const struct tft_lora_part *part = tft_lora_part_of(all->use[i].lora, l);
        if (part)
            inner(p, of, &all->use[i], part, l, from, u);
    }
}

unsigned tft_cpu_adapt_inner(struct tft_pass *p, unsigned slot, const struct tft_linear *l,
                             enum tft_buf from)
{
    unsigned bit = BIT(slot ? TFT_LOW_1 : TFT_LOW_0);
    if (!tft_cpu_adapts(p, l))
        return 0;
    tft_pass_touch(p, tft_cpu_own_row(p, from, l->in) ? 0 : BIT(from), bit);
    for (uint32_t k = 0; k < shares(p); k++) {
        struct share of = share_of(p, k);
        if (of.loras)
            adapt_inner(p, &of, slot, l, from);
    }
    return bit;
}

/* y: [to - from, end - begin] of the tokens from .. to - 1 of the share */
static void adapt(const struct tft_pass *p, const struct share *of, unsigned slot,
                  const struct tft_linear *l, float *y, size_t ldy, size_t begin, size_t end,
                  uint32_t from, uint32_t to)
{
    const struct tft_session_loras *all = of->loras;
    const float *u = all->low[slot] + (size_t)(from - of->from) * all->stride;
    for (uint32_t i = 0; i < all->n; u += all->use[i++].lora->rank) {
        const struct tft_lora_part *part = tft_lora_part_of(all->use[i].lora, l);
        if (part)
            p->m->kern.gemm[TFT_NUM_F32](
                &(struct tft_gemm){.y = y,
                                   .ldy = ldy,
                                   .x = u,
                                   .ldx = all->stride,
                                   .w = part->b + (l->w.tensor_row + begin) * part->rank,
                                   .add = true,
                                   .M = to - from,
                                   .N = end - begin,
                                   .K = part->rank});
    }
}

void tft_cpu_adapt(const struct tft_pass *p, unsigned slot, const struct tft_linear *l, float *y,
                   size_t ldy, size_t begin, size_t end, uint32_t t, uint32_t n)
{
    for (uint32_t k = 0; k < shares(p); k++) {
        struct share of = share_of(p, k);
        uint32_t from = t > of.from ? t : of.from, to = t + n < of.to ? t + n : of.to;
        if (of.loras && from < to)
            adapt(p, &of, slot, l, y + (size_t)(from - t) * ldy, ldy, begin, end, from, to);
    }
}
