#include "routes.h"

#include <float.h>
#include <string.h>

#include "simd/expf.h"

void tft_routes_layout(struct tft_routes *r, struct tft_arena *a, const struct tft_model *m,
                       uint32_t n_batch)
{
    size_t used = m->n_expert_used;
    r->of_token = tft_arena_take(a, n_batch, used * sizeof *r->of_token);
    r->shared = tft_arena_take(a, n_batch, sizeof *r->shared);
    r->first = tft_arena_take(a, m->n_expert + 1, sizeof *r->first);
    r->token = tft_arena_take(a, n_batch, used * sizeof *r->token);
    r->weight = tft_arena_take(a, n_batch, used * sizeof *r->weight);
}

void tft_routes_group(struct tft_routes *r, const struct tft_model *m, uint32_t begin,
                      uint32_t end)
{
    uint32_t used = m->n_expert_used, sum = 0;
    memset(r->first, 0, (m->n_expert + 1) * sizeof *r->first);
    for (size_t i = (size_t)begin * used; i < (size_t)end * used; i++)
        r->first[r->of_token[i].expert]++;
    for (uint32_t e = 0; e <= m->n_expert; e++) { /* the end of each expert's pairs */
        sum += r->first[e];
        r->first[e] = sum;
    }
    for (uint32_t t = end; t-- > begin;) /* fills them from their end: first[e] becomes the first */
        for (uint32_t i = 0; i < used; i++) {
            struct tft_route route = r->of_token[(size_t)t * used + i];
            uint32_t at = --r->first[route.expert];
            r->token[at] = t;
            r->weight[at] = route.weight;
        }
}

/* --------------------------------------------------------------------------------------- choice */

static void weigh(const struct tft_model *m, float *score)
{
    float max, sum;
    if (m->expert_sigmoid) {
        for (uint32_t e = 0; e < m->n_expert; e++)
            score[e] = 1 / (1 + tft_expf(-score[e]));
        return;
    }
    m->kern.softmax(score, m->n_expert, &max, &sum);
    for (uint32_t e = 0; e < m->n_expert; e++)
        score[e] /= sum;
}

/* The expert with the largest weight plus bias of the experts that are not taken; the first of
   equal ones. NaN counts as the least number. */
static uint32_t best(const struct tft_model *m, const float *bias, const float *weight,
                     const bool *taken)
{
    uint32_t at = m->n_expert;
    float most = 0;
    for (uint32_t e = 0; e < m->n_expert; e++) {
        float x = weight[e] + (bias ? bias[e] : 0);
        x = x >= -FLT_MAX ? x : -FLT_MAX;
        if (!taken[e] && (at == m->n_expert || x > most)) {
            most = x;
            at = e;
        }
    }
    return at;
}

void tft_routes_choose(const struct tft_model *m, const float *bias, float *score,
                       struct tft_route *to)
{
    bool taken[TFT_MAX_EXPERTS] = {false};
    const float least = 0x1p-14f; /* of the sum of weights: the smallest normal f16, llama.cpp's */
    float sum = 0;
    uint32_t used = m->n_expert_used, n = 0;
    weigh(m, score);
    for (uint32_t i = 0; i < used; i++) { /* the sum is in the order of their choice */
        uint32_t e = best(m, bias, score, taken);
        taken[e] = true;
        sum += score[e];
    }
    float scale = m->expert_scale / (sum > least ? sum : least);
    for (uint32_t e = 0; n < used; e++)
        if (taken[e]) {
            float w = m->expert_renorm ? score[e] * scale : score[e] * m->expert_scale;
            to[n++] = (struct tft_route){e, w};
        }
}
