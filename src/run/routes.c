#include "routes.h"

#include <float.h>
#include <string.h>

#include "buffers.h"
#include "simd/expf.h"

static void layout_wanted(struct tft_wanted *w, struct tft_arena *a, const struct tft_model *m)
{
    w->unit = tft_arena_take(a, m->n_expert, 4 * sizeof *w->unit);
    w->in = tft_arena_take(a, TFT_GUESS_TOKENS, tft_buf_stride(m, TFT_R) * sizeof *w->in);
    w->score = tft_arena_take(a, TFT_GUESS_TOKENS, tft_buf_stride(m, TFT_E) * sizeof *w->score);
    w->route = tft_arena_take(a, m->n_expert_used, sizeof *w->route);
}

void tft_routes_layout(struct tft_routes *r, struct tft_arena *a, const struct tft_model *m,
                       uint32_t n_batch)
{
    size_t used = m->n_expert_used;
    r->of_token = tft_arena_take(a, n_batch, used * sizeof *r->of_token);
    r->shared = tft_arena_take(a, n_batch, sizeof *r->shared);
    r->first = tft_arena_take(a, m->n_expert + 1, sizeof *r->first);
    r->token = tft_arena_take(a, n_batch, used * sizeof *r->token);
    r->weight = tft_arena_take(a, n_batch, used * sizeof *r->weight);
    if (m->resident)
        layout_wanted(&r->wanted, a, m);
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
    if (m->expert_chosen) /* later */
        return;
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

/* The sum of a group's two largest weights plus bias; NaN counts as the least number. */
static float group_size(const float *bias, const float *weight, uint32_t first, uint32_t end)
{
    float most[2] = {-FLT_MAX, -FLT_MAX};
    for (uint32_t e = first; e < end; e++) {
        float x = weight[e] + (bias ? bias[e] : 0);
        x = x >= -FLT_MAX ? x : -FLT_MAX;
        if (x > most[0]) {
            most[1] = most[0];
            most[0] = x;
        } else if (x > most[1]) {
            most[1] = x;
        }
    }
    float sum = most[0] + most[1];
    return sum >= -FLT_MAX ? sum : -FLT_MAX;
}

/* Takes the experts out of all groups but the n_group_used largest; of equal ones, the first
   stays. */
static void leave_groups(const struct tft_model *m, const float *bias, const float *weight,
                         bool *taken)
{
    uint32_t groups = m->n_expert_group, n = m->n_expert / groups;
    float size[TFT_MAX_EXPERTS];
    for (uint32_t g = 0; g < groups; g++)
        size[g] = group_size(bias, weight, g * n, (g + 1) * n);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t larger = 0;
        for (uint32_t i = 0; i < groups; i++)
            larger += size[i] > size[g] || (size[i] == size[g] && i < g);
        memset(taken + g * n, larger >= m->n_group_used, n * sizeof *taken);
    }
}

/* The weights of chosen experts become the softmax of their scores. */
static void weigh_chosen(const struct tft_model *m, struct tft_route *to)
{
    float max = to[0].weight, sum = 0;
    for (uint32_t i = 1; i < m->n_expert_used; i++)
        max = to[i].weight > max ? to[i].weight : max;
    for (uint32_t i = 0; i < m->n_expert_used; i++)
        sum += to[i].weight = tft_expf(to[i].weight - max);
    for (uint32_t i = 0; i < m->n_expert_used; i++)
        to[i].weight = to[i].weight / sum * m->expert_scale;
}

void tft_routes_choose(const struct tft_model *m, const float *bias, float *score,
                       struct tft_route *to)
{
    bool taken[TFT_MAX_EXPERTS] = {false}, left[TFT_MAX_EXPERTS] = {false};
    const float least = 0x1p-14f; /* of the sum of weights: the smallest normal f16, llama.cpp's */
    float sum = 0;
    uint32_t used = m->n_expert_used, n = 0;
    weigh(m, score);
    if (m->n_expert_group)
        leave_groups(m, bias, score, left);
    for (uint32_t i = 0; i < used; i++) { /* the sum is in the order of their choice */
        uint32_t e = best(m, bias, score, left);
        taken[e] = left[e] = true;
        sum += score[e];
    }
    float scale = m->expert_scale / (sum > least ? sum : least);
    for (uint32_t e = 0; n < used; e++)
        if (taken[e]) {
            float w = m->expert_chosen   ? score[e]
                      : m->expert_renorm ? score[e] * scale
                                         : score[e] * m->expert_scale;
            to[n++] = (struct tft_route){e, w};
        }
    if (m->expert_chosen)
        weigh_chosen(m, to);
}
