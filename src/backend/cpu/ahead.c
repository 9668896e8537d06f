/* Reading experts ahead of their use, with a bound on their memory (model/resident.h). */
#include "cpu.h"

#include "model/resident.h"

/* The first layer with experts after b; NULL: there is none. */
static const struct tft_layer *next_with_experts(const struct tft_model *m,
                                                 const struct tft_layer *b)
{
    const struct tft_layer *end = m->layer + m->n_host;
    for (b++; b < end; b++)
        if (tft_layer_has_experts(b))
            return b;
    return NULL;
}

const struct tft_layer *tft_cpu_guessed_layer(const struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_wanted *w = &p->work->routes.wanted;
    return w->guesses && p->n - p->first <= TFT_GUESS_TOKENS ? next_with_experts(p->m, b) : NULL;
}

/* ------------------------------------------------------------------------------------- the list */

static void want(struct tft_wanted *w, const struct tft_model *m, const struct tft_layer *b,
                 enum tft_expert_half half, uint32_t expert)
{
    w->unit[w->n++] = tft_expert_unit(m, (uint32_t)(b - m->layer), half, expert);
}

/* Both halves of the pass's experts. */
static void want_own(struct tft_wanted *w, const struct tft_pass *p, const struct tft_layer *b)
{
    const uint32_t *first = p->work->routes.first;
    w->n = 0;
    for (enum tft_expert_half half = 0; half < TFT_EXPERT_HALVES; half++)
        for (uint32_t e = 0; e < p->m->n_expert; e++)
            if (first[e] < first[e + 1])
                want(w, p->m, b, half, e);
    w->n_own = w->n;
}

/* Experts that the next layer's router chooses by this layer's residual stream: Eliseev and Mazur
   2023 (arXiv 2312.17238, section 3.2). An expert of several tokens is in the list several
   times, if there is room. */
static void want_likely(struct tft_wanted *w, const struct tft_pass *p,
                        const struct tft_layer *next)
{
    const struct tft_model *m = p->m;
    const struct tft_experts *x = &next->experts;
    uint32_t most = w->n_own + 2 * m->n_expert;
    for (uint32_t t = 0; t < p->n - p->first; t++) {
        float *score = w->score + (size_t)t * tft_pass_stride(p, TFT_E);
        if (x->router_bias)
            m->kern.add(score, x->router_bias, m->n_expert);
        tft_routes_choose(m, x->bias, score, w->route);
        for (uint32_t i = 0; i < m->n_expert_used && w->n + 2 <= most; i++) {
            want(w, m, next, TFT_EXPERT_HIDDEN, w->route[i].expert);
            want(w, m, next, TFT_EXPERT_DOWN, w->route[i].expert);
        }
    }
}

/* A long pass uses nearly all experts of each layer, in their order. */
static void want_all(struct tft_wanted *w, const struct tft_model *m, const struct tft_layer *next)
{
    for (uint32_t e = 0; e < m->n_expert; e++)
        want(w, m, next, TFT_EXPERT_HIDDEN, e);
}

void tft_cpu_want(const struct tft_pass *p, const struct tft_layer *b, const struct tft_layer *next)
{
    const struct tft_model *m = p->m;
    struct tft_wanted *w = &p->work->routes.wanted;
    const struct tft_layer *after = next_with_experts(m, b);
    want_own(w, p, b);
    if (next)
        want_likely(w, p, next);
    else if (after && w->n_own / 2 > m->n_expert - m->n_expert / 8)
        want_all(w, m, after);
    w->guesses = tft_resident_guesses(m->resident);

    struct tft_pass alone = *p;
    alone.n_threads = 1;
    w->asked = 0;
    tft_cpu_ask(&alone, &w->asked, 0);
}

/* ------------------------------------------------------------------------------ asking for them */

void tft_cpu_ask(const struct tft_pass *p, uint32_t *asked, uint32_t used)
{
    const struct tft_wanted *w = &p->work->routes.wanted;
    struct tft_resident *r = p->m->resident;
    uint32_t end = w->unit ? used + tft_resident_ahead(r) : 0;
    end = end < w->n ? end : w->n;
    for (; *asked < end; ++*asked)
        if (*asked % (uint32_t)p->n_threads == (uint32_t)p->tid)
            tft_resident_use(r, w->unit[*asked], *asked >= w->n_own);
}
