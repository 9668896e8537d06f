#include "papers.h"
#include "run/pass.h"

/* A query of the last layer. It attends to positions up to its own. */
struct query {
    const struct paper *p;
    const struct paper_cache *c; /* [2] */
    const struct paper_numbers *k, *v;
    uint32_t position, layer, dim, head;
    const float *q;
    bool folded;                  /* compare with the result of rounded queries */
    double p_of[MAX_POSITIONS];   /* probabilities */
    double factor[MAX_POSITIONS]; /* the cache's may be larger or smaller by this factor */
};

static bool coded(const struct query *a, int side, uint32_t j)
{
    return a->c[side].since[j] <= a->position;
}

static double number(const struct query *a, int side, uint32_t j, uint32_t d)
{
    const struct paper_numbers *n = side == KEYS ? a->k : a->v;
    return coded(a, side, j) ? n->x[j][d] : (double)tft_f16_to_f32(n->row[j][d]);
}

/* A bound of the error of a sum in floats: its distance from the middle and the middle. */
static double size(const struct query *a, int side, uint32_t j, uint32_t d)
{
    const struct paper_numbers *n = side == KEYS ? a->k : a->v;
    double coded_size = 2 * n->scale[j][d] * fabs(n->c[j][d]);
    return fabs(number(a, side, j, d)) + (coded(a, side, j) ? coded_size : 0);
}

/*
 * The change of the score of position j by fold() of kernels.h. The factor of the codes' distances
 * c from the middle is rounded to 127 steps on each side, 16256 for codes of 8 bits: with scales
 * per channel, the query times the scale; with scales per token, the query in each group.
 *
 * *moved is the rounding's part of the score. *error bounds the difference from the paper's score:
 * half a step times c, times the scale if the query alone is rounded. From the rounded score, the
 * cache differs only where a number is as near to two steps.
 */
static void fold(const struct query *a, uint32_t j, double *moved, double *error)
{
    enum axis axis = a->p->axis[KEYS];
    uint32_t group = axis == TOKEN ? a->p->group : a->dim;
    uint32_t channel[MAX_DIM];
    for (uint32_t i = 0; i < a->dim; i++)
        channel[i] = a->p->reorder ? (uint32_t)paper_key_order[a->head * a->dim + i] : i;
    double steps = axis != MIXED && a->p->levels[KEYS][a->layer] == 256 ? 16256 : 127;
    *moved = *error = 0;
    for (uint32_t first = 0; first < a->dim; first += group) {
        double most = 0;
        uint32_t end = first + group < a->dim ? first + group : a->dim;
        for (uint32_t i = first; i < end; i++)
            most = fmax(most, fabs((double)a->q[channel[i]]) *
                                  (axis == TOKEN ? 1 : a->k->scale[j][channel[i]]));
        for (uint32_t i = first; i < end && most > 0; i++) {
            uint32_t d = channel[i];
            double by = axis == TOKEN ? 1 : a->k->scale[j][d],
                   f = (double)a->q[d] * by / most * steps;
            double c = a->k->c[j][d] * (axis == TOKEN ? a->k->scale[j][d] : 1) * most / steps;
            bool tie = fabs(fabs(f - trunc(f)) - 0.5) < FLOAT_SLACK * steps;
            *moved += (rint(f) - f) * c;
            *error += fabs(c) * (!a->folded ? 0.5 : tie ? 1 : 0);
        }
    }
}

/* Probabilities, and by which factor the cache's may differ. If scores differ by at most e_j, then
   p_j differs by a factor of at most exp(e_j) S, with S = sum of p_i exp(e_i). Upwards: p_j is
   divided by a sum of at least sum of p_i exp(-e_i), which is at least 1 / S (Cauchy and Schwarz).
   Downwards likewise. */
static void score(struct query *a)
{
    double s[MAX_POSITIONS], most = -INFINITY, sum = 0, by = 0;
    for (uint32_t j = 0; j <= a->position; j++) {
        double dot = 0, sizes = 0, moved = 0, error = 0;
        if (coded(a, KEYS, j))
            fold(a, j, &moved, &error);
        for (uint32_t d = 0; d < a->dim; d++) {
            dot += (double)a->q[d] * number(a, KEYS, j, d);
            sizes += fabs((double)a->q[d]) * size(a, KEYS, j, d);
        }
        error += (a->dim + 8) * 0x1p-24 * sizes;
        s[j] = (dot + (a->folded ? moved : 0)) / sqrt(a->dim);
        most = fmax(most, s[j]);
        /* 2^-20: exponentials in floats, of scores and of the maxima of spans */
        a->factor[j] = exp(error / sqrt(a->dim) + 0x1p-20);
    }
    for (uint32_t j = 0; j <= a->position; j++)
        sum += a->p_of[j] = exp(s[j] - most);
    for (uint32_t j = 0; j <= a->position; j++)
        by += a->factor[j] * (a->p_of[j] /= sum);
    for (uint32_t j = 0; j <= a->position; j++)
        a->factor[j] *= by;
}

/* A bound of the change in channel d by the fold of probabilities, with as many steps as above: of
   p if scales are per channel, of p times the scale if they are per token. The largest of a span is
   at most the largest of all. Each of them is off by at most half a step. As these errors are
   independent, their sum is also at most five standard deviations of uniform errors. */
static double mix_error(const struct query *a, uint32_t d)
{
    double most = 0, far = 0, squares = 0,
           steps = a->p->levels[VALUES][a->layer] == 256 ? 16256 : 127;
    bool per_token = a->p->axis[VALUES] == TOKEN;
    for (uint32_t j = 0; j <= a->position; j++)
        if (coded(a, VALUES, j)) {
            most = fmax(most, a->p_of[j] * a->factor[j] * (per_token ? a->v->scale[j][d] : 1));
            double c = fabs(a->v->c[j][d]) * (per_token ? 1 : a->v->scale[j][d]);
            far += c;
            squares += c * c;
        }
    return most / steps * fmin(far / 2, 5 * sqrt(squares / 12));
}

/* o = sum p_j v_j, and the error that is allowed. As the sum of p_j (v_j - o) is 0, an error of p_j
   changes o by the error times v_j - o. To this the fold of p and the rounding of a sum of floats
   are added. */
static double mixed(const struct query *a, uint32_t d, double *allowed)
{
    double o = 0, spread = 0, sizes = 0;
    for (uint32_t j = 0; j <= a->position; j++) {
        o += a->p_of[j] * number(a, VALUES, j, d);
        sizes += a->p_of[j] * a->factor[j] * size(a, VALUES, j, d);
    }
    for (uint32_t j = 0; j <= a->position; j++)
        spread += a->p_of[j] * (a->factor[j] - 1) * fabs(number(a, VALUES, j, d) - o);
    *allowed = spread + mix_error(a, d) + (a->position + 16) * 0x1p-24 * sizes;
    return o;
}

static void assert_head(struct query *a, uint32_t head, const float *got)
{
    double allowed;
    score(a);
    for (uint32_t d = 0; d < a->dim; d++) {
        double want = mixed(a, d, &allowed);
        if (!(fabs((double)got[d] - want) <= allowed))
            fail_msg("%s: attention at %u%s, head %u, channel %u: %.9g, not %.9g +- %.2g", a->p->kv,
                     a->position, a->folded ? ", folded" : "", head, d, (double)got[d], want,
                     allowed);
    }
}

void paper_assert_attention(const struct paper *p, const struct tft_session *s,
                            const struct paper_cache c[2], uint32_t position, uint32_t row)
{
    static struct query a;
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m, .work = s->work};
    uint32_t layer = m->n_layer - 1;
    for (uint32_t h = 0; h < m->n_head; h++) {
        uint32_t g = h / (m->n_head / m->n_head_kv);
        a = (struct query){.p = p,
                           .c = c,
                           .k = &paper_numbers[KEYS][layer][g],
                           .v = &paper_numbers[VALUES][layer][g],
                           .position = position,
                           .layer = layer,
                           .dim = m->head_dim,
                           .head = g,
                           .q = tft_pass_row(&shape, TFT_Q, row) + h * m->head_dim};
        assert_head(&a, h, tft_pass_row(&shape, TFT_A, row) + h * a.dim);
        a.folded = true;
        assert_head(&a, h, tft_pass_row(&shape, TFT_A, row) + h * a.dim);
    }
}
