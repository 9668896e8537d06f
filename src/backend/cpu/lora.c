/*
 * Adapters beside a matrix: y += B u, where u = s (A x), in the rows of session->loras.low.
 *
 * u is whole before its product with B begins, so each adapted product has a barrier more. A and B
 * are floats, and products are kernels of floats: the order of their sums is that of the contract.
 * Where the matrix takes groups of bytes, x is the numbers that the bytes stand for.
 */
#include "cpu.h"

static const struct tft_session_loras *loras(const struct tft_pass *p)
{
    return p->s && p->s->loras.n ? &p->s->loras : NULL;
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

/* This thread's share of u of one adapter; u: of the pass's first token. */
static void inner(const struct tft_pass *p, const struct tft_lora_use *use,
                  const struct tft_lora_part *part, const struct tft_linear *l, enum tft_buf from,
                  float *u)
{
    const struct tft_session_loras *all = &p->s->loras;
    const struct tft_kernels *kern = &p->m->kern;
    struct tft_part own = tft_pass_part(p, part->rank, 1);
    float *scratch = all->row + (size_t)p->tid * all->cols, factor = use->scale * part->scale;
    size_t n = own.to - own.from;
    for (uint32_t t = own.begin; t < own.end && n; t++) {
        float *y = u + (size_t)(t - p->first) * all->stride + own.from;
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
    const struct tft_session_loras *all = loras(p);
    for (uint32_t i = 0; all && i < all->n; i++)
        if (tft_lora_part_of(all->use[i].lora, l))
            return true;
    return false;
}

unsigned tft_cpu_adapt_inner(struct tft_pass *p, unsigned slot, const struct tft_linear *l,
                             enum tft_buf from)
{
    unsigned bit = BIT(slot ? TFT_LOW_1 : TFT_LOW_0);
    if (!tft_cpu_adapts(p, l))
        return 0;
    tft_pass_touch(p, tft_cpu_own_row(p, from, l->in) ? 0 : BIT(from), bit);
    const struct tft_session_loras *all = loras(p);
    float *u = all->low[slot];
    for (uint32_t i = 0; i < all->n; u += all->use[i++].lora->rank) {
        const struct tft_lora_part *part = tft_lora_part_of(all->use[i].lora, l);
        if (part)
            inner(p, &all->use[i], part, l, from, u);
    }
    return bit;
}

void tft_cpu_adapt(const struct tft_pass *p, unsigned slot, const struct tft_linear *l, float *y,
                   size_t ldy, size_t begin, size_t end, uint32_t t, uint32_t n)
{
    const struct tft_session_loras *all = loras(p);
    if (!all)
        return;
    const float *u = all->low[slot] + (size_t)(t - p->first) * all->stride;
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
                                   .M = n,
                                   .N = end - begin,
                                   .K = part->rank});
    }
}
