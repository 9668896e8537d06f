/* What codes of one channel cost in attention (kv_loss.h): the equations again in double, with the
   change of attention's output as a difference quotient. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/rope.h"
#include "layer_toys.h"
#include "random.h"
#include "tools/quantize/tune/kv_fisher_table.h"
#include "tools/quantize/tune/kv_loss.h"
#include "w8a8.h"

enum { T = 40, FAR = 9, MOST = 64, QUERIES = 34, READERS = 2, EVERY = 7 };

struct problem {
    const struct tft_model *m;
    const struct tft_layer *layer;
    struct tft_kv_heads kv;
    struct kv_loss_rows rows;
    struct kv_loss_reader reader[READERS];
    float *k, *v, *q[READERS], *dy[READERS], *prefix_k, *prefix_v, *cos, *sin;
    bool exact[T];
    uint32_t at[QUERIES];
    float *table[TFT_KV_SIDES];
};

static float *normals(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = random_normal();
    return x;
}

/* Tables of the head's own keys, or values, and random costs. */
static float *fit(const float *x, size_t stride, uint32_t dim)
{
    double square[MOST];
    float *table = calloc(TFT_FISHER_ROWS * dim, sizeof *table);
    for (uint32_t d = 0; d < dim; d++)
        square[d] = (double)expf(random_normal());
    kv_fisher_table(table, &(struct kv_fisher_rows){
                               .x = x, .n = T, .stride = stride, .dim = dim, .square = square});
    return table;
}

/* The last layer without a window. */
static const struct tft_layer *full_layer(const struct tft_model *m)
{
    uint32_t l = m->n_layer - 1;
    while (m->layer[l].window)
        l--;
    return &m->layer[l];
}

static void make(struct problem *p, const struct tft_model *m)
{
    const struct tft_layer *layer = full_layer(m);
    size_t dim = layer->kv.dim, width = layer->kv.n * dim, head = layer->kv.n - 1;
    *p = (struct problem){.m = m, .layer = layer, .kv = layer->kv};
    p->k = normals(T * width);
    p->v = normals(T * width);
    for (int i = 0; i < READERS; i++) {
        p->q[i] = normals(QUERIES * m->n_head * dim);
        p->dy[i] = normals(QUERIES * m->n_head * dim);
        p->reader[i] = (struct kv_loss_reader){p->q[i], p->dy[i]};
    }
    p->prefix_k = normals(m->n_prefix * width);
    p->prefix_v = normals(m->n_prefix * width);
    p->cos = malloc((T * m->n_rot + 1) * sizeof *p->cos);
    p->sin = malloc((T * m->n_rot + 1) * sizeof *p->sin);
    for (uint32_t t = 0; t < T; t++) {
        tft_rope_angles(p->cos + (size_t)t * m->n_rot, p->sin + (size_t)t * m->n_rot, m->rope_freq,
                        m->n_rot, m->rope_halves, m->n_prefix + t);
        p->exact[t] = t % EVERY == 0;
    }
    for (uint32_t i = 0; i < QUERIES; i++)
        p->at[i] = T - QUERIES + i;
    p->table[TFT_KV_K] = fit(p->k + head * dim, width, p->kv.dim);
    p->table[TFT_KV_V] = fit(p->v + head * dim, width, p->kv.dim);
    p->rows = (struct kv_loss_rows){.layer = p->layer,
                                    .head = head,
                                    .cos = p->cos,
                                    .sin = p->sin,
                                    .k = p->k,
                                    .v = p->v,
                                    .prefix_k = p->prefix_k,
                                    .prefix_v = p->prefix_v,
                                    .exact = p->exact,
                                    .reader = p->reader,
                                    .n_reader = READERS,
                                    .at = p->at,
                                    .n_query = QUERIES,
                                    .far = FAR,
                                    .table = {p->table[0], p->table[1]}};
}

static void drop(struct problem *p)
{
    free(p->k);
    free(p->v);
    for (int i = 0; i < READERS; i++) {
        free(p->q[i]);
        free(p->dy[i]);
    }
    free(p->prefix_k);
    free(p->prefix_v);
    free(p->cos);
    free(p->sin);
    free(p->table[0]);
    free(p->table[1]);
}

/* The error of a channel of x: [E], with the nearest level. */
static double error_of(const float *x, const float *table, uint32_t dim, uint32_t d, int bits)
{
    double square = 0, y = (double)x[d] - (double)table[TFT_FISHER_MEAN * dim + d], best = -y;
    for (uint32_t i = 0; i < dim; i++)
        square += (double)table[TFT_FISHER_GAIN * dim + i] *
                  pow((double)x[i] - (double)table[TFT_FISHER_MEAN * dim + i], 2);
    for (int c = 0; bits && c < 1 << bits; c++) {
        double step = (double)table[(TFT_FISHER_STEP + bits - 1) * dim + d],
               e = sqrt(square) * step * (c - ((1 << bits) - 1) / 2.0) - y;
        best = !c || fabs(e) < fabs(best) ? e : best;
    }
    return best;
}

/* RoPE of a token's position in double. */
static void turn(const struct problem *p, double *x, uint32_t position)
{
    const struct tft_model *m = p->m;
    for (uint32_t i = 0; !p->layer->no_rope && i < m->n_rot / 2; i++) {
        uint32_t a = m->rope_halves ? i : 2 * i, b = m->rope_halves ? i + m->n_rot / 2 : 2 * i + 1;
        double angle = position * (double)m->rope_freq[i], first = x[a];
        x[a] = first * cos(angle) - x[b] * sin(angle);
        x[b] = first * sin(angle) + x[b] * cos(angle);
    }
}

/* The sum over layers and query heads of dy . attention, if `by` of each error of channel d is
   added. */
static double output(const struct problem *p, uint32_t query, int side, uint32_t d, int bits,
                     double by)
{
    const struct tft_model *m = p->m;
    uint32_t dim = p->kv.dim, token = p->at[query], group = m->n_head / p->kv.n;
    size_t width = p->kv.n * (size_t)dim, at = p->rows.head * dim;
    double sum = 0;
    for (uint32_t h = 0; h < READERS * group; h++) {
        size_t row = query * m->n_head * dim + (p->rows.head * group + h % group) * dim;
        const float *q = p->q[h / group] + row, *dy = p->dy[h / group] + row;
        double all = 0, mixed = 0;
        for (uint32_t j = 0; j < m->n_prefix + token + 1; j++) {
            uint32_t t = j - m->n_prefix;
            bool before = j < m->n_prefix;
            const float *k = before ? p->prefix_k + j * width + at : p->k + t * width + at,
                        *v = before ? p->prefix_v + j * width + at : p->v + t * width + at;
            double x[MOST], score = 0, value = 0, e = 0;
            if (!before && t + FAR <= token && !p->exact[t])
                e = by * error_of(side == TFT_KV_K ? k : v, p->table[side], dim, d, bits);
            for (uint32_t i = 0; i < dim; i++) {
                x[i] = (double)k[i] + (side == TFT_KV_K && i == d ? e : 0);
                value += (double)dy[i] * ((double)v[i] + (side == TFT_KV_V && i == d ? e : 0));
            }
            if (!before)
                turn(p, x, j);
            for (uint32_t i = 0; i < dim; i++)
                score += (double)q[i] * x[i] * (double)m->attn_scale;
            if (m->score_cap > 0)
                score = (double)m->score_cap * tanh(score / (double)m->score_cap);
            all += exp(score);
            mixed += exp(score) * value;
        }
        sum += mixed / all;
    }
    return sum;
}

static void check(const struct problem *p, int side, const double *loss)
{
    uint32_t dim = p->kv.dim;
    for (int bits = 0; bits < KV_LOSS_CHOICES; bits++)
        for (uint32_t d = 0; d < dim; d += 3) {
            double want = 0, by = 1e-4, is = loss[(size_t)bits * dim + d];
            for (uint32_t i = 0; i < QUERIES; i++) {
                double r = (output(p, i, side, d, bits, by) - output(p, i, side, d, bits, -by)) /
                           (2 * by);
                want += r * r / 2;
            }
            if (!(fabs(is - want) <= 1e-3 * want + 1e-9))
                fail_msg("side %d, %d bits, channel %u: %g, not %g", side, bits, d, is, want);
        }
}

static void equations(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS + 2; i++) {
        const struct toy *t = i < N_TOYS ? &toys[i] : &layer_toys[i - N_TOYS];
        struct quantize_opts o = usual(t);
        struct tft_model *m = opened(i < N_TOYS ? quantized(t, &o) : written(t));
        struct problem p;
        double loss[TFT_KV_SIDES][KV_LOSS_CHOICES * MOST] = {{0}};
        make(&p, m);
        assert_in_range(p.kv.dim, 1, MOST);
        struct kv_loss *z = kv_loss_open(m, T);
        kv_loss_add(z, &p.rows, (double *[]){loss[0], loss[1]});
        for (int side = 0; side < TFT_KV_SIDES; side++)
            check(&p, side, loss[side]);
        kv_loss_close(z);
        drop(&p);
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equations),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
