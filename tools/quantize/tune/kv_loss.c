#include "tools/quantize/tune/kv_loss.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/quantize/tune/matmul.h"
#include "tools/quantize/tune/row_ops.h"

/* Queries of a head that are processed together; errors of a token's key and value. */
enum { TILE = 32, KEY_ERRORS = 2 * KV_LOSS_CHOICES, VALUE_ERRORS = KV_LOSS_CHOICES };

/* N: the prefix's tokens and the sequence's. */
struct kv_loss {
    const struct tft_model *m;
    struct tft_kv_heads kv; /* G and E */
    size_t n;
    real *k, *v;     /* [N, E] of the head, after RoPE */
    real *key;       /* [n, choices, 2, E] errors of the first channels of pairs, and of the second
                        ones, after RoPE */
    real *value;     /* [n, choices, E] */
    real *q, *dy;    /* [TILE, E] */
    real *p, *w;     /* [TILE, N] */
    real *slope;     /* [N] of a score in its product, of one query */
    real *mixed_k;   /* [TILE, choices, 2, E] */
    real *mixed_v;   /* [TILE, choices, E] */
    real *r[TFT_KV_SIDES]; /* [TILE, choices, E] */
    real *memory;
    uint16_t partner[TFT_CODED_DIM]; /* of a channel, which RoPE turns with it */
};

static void pair_up(struct kv_loss *z)
{
    const struct tft_model *m = z->m;
    for (uint32_t i = 0; i < z->kv.dim / 2; i++) {
        bool apart = m->rope_halves && i < m->n_rot / 2;
        uint32_t a = apart ? i : 2 * i, b = apart ? i + m->n_rot / 2 : 2 * i + 1;
        z->partner[a] = (uint16_t)b;
        z->partner[b] = (uint16_t)a;
    }
}

struct kv_loss *kv_loss_open(const struct tft_model *m, size_t n)
{
    const struct tft_kv_heads kv = tft_model_coded_heads(m);
    size_t all = m->n_prefix + n, dim = kv.dim, bytes,
           of_token = (KEY_ERRORS + VALUE_ERRORS) * dim,
           each = 2 * all * dim + n * of_token + TILE * (2 * dim + 2 * all + of_token) + all +
                  2 * TILE * VALUE_ERRORS * dim;
    struct kv_loss *z = calloc(1, sizeof *z);
    if (!z || !tft_mul(each, sizeof(real), &bytes) || !(z->memory = malloc(bytes))) {
        free(z);
        return NULL;
    }
    z->m = m;
    z->kv = kv;
    z->n = n;
    z->k = z->memory;
    z->v = z->k + all * dim;
    z->key = z->v + all * dim;
    z->value = z->key + n * KEY_ERRORS * dim;
    z->q = z->value + n * VALUE_ERRORS * dim;
    z->dy = z->q + TILE * dim;
    z->p = z->dy + TILE * dim;
    z->w = z->p + TILE * all;
    z->slope = z->w + TILE * all;
    z->mixed_k = z->slope + all;
    z->mixed_v = z->mixed_k + TILE * KEY_ERRORS * dim;
    z->r[TFT_KV_K] = z->mixed_v + TILE * VALUE_ERRORS * dim;
    z->r[TFT_KV_V] = z->r[TFT_KV_K] + TILE * VALUE_ERRORS * dim;
    pair_up(z);
    return z;
}

void kv_loss_close(struct kv_loss *z)
{
    if (!z)
        return;
    free(z->memory);
    free(z);
}

/* --------------------------------------------------------------------------------------- errors */

/* The nearest level of z with these bits. */
static float level_of(float z, float step, unsigned bits)
{
    float half = (float)((1 << bits) - 1) / 2, c = step > 0 ? rintf(z / step + half) : half;
    return step * ((c < 0 ? 0 : c > 2 * half ? 2 * half : c) - half);
}

/* error: [choices, E] of a token's key or value x. */
static void code_errors(real *error, const real *x, const float *table, uint32_t dim)
{
    float square = 0;
    for (uint32_t d = 0; d < dim; d++) {
        float y = x[d] - table[TFT_FISHER_MEAN * dim + d];
        square += table[TFT_FISHER_GAIN * dim + d] * y * y;
    }
    float gain = sqrtf(square);
    for (uint32_t d = 0; d < dim; d++) {
        float y = x[d] - table[TFT_FISHER_MEAN * dim + d];
        error[d] = -y;
        for (unsigned bits = 1; bits <= TFT_FISHER_BITS; bits++) {
            float step = table[(TFT_FISHER_STEP + bits - 1) * dim + d];
            error[bits * dim + d] = gain > 0 ? gain * level_of(y / gain, step, bits) - y : 0;
        }
    }
}

/* The errors of a key: [choices, E] to [choices, 2, E]. */
static void turn_errors(const struct kv_loss *z, real *to, const real *error,
                        const struct row_angles *a, bool no_rope)
{
    size_t dim = z->kv.dim;
    memset(to, 0, KEY_ERRORS * dim * sizeof *to);
    for (size_t i = 0; i < KV_LOSS_CHOICES; i++)
        for (size_t d = 0; d < dim; d++)
            to[(2 * i + (z->partner[d] < d)) * dim + d] = error[i * dim + d];
    if (!no_rope)
        row_rope(to, KEY_ERRORS * dim, a, false);
}

/* Sets the head's keys, values and errors. */
static void take_head(struct kv_loss *z, const struct kv_loss_rows *x)
{
    const struct tft_model *m = z->m;
    size_t dim = z->kv.dim, width = z->kv.n * dim, at = x->head * dim,
           bytes = dim * sizeof *z->k;
    real error[KV_LOSS_CHOICES * TFT_CODED_DIM];
    for (size_t t = 0; t < m->n_prefix; t++) {
        memcpy(z->k + t * dim, x->prefix_k + t * width + at, bytes);
        memcpy(z->v + t * dim, x->prefix_v + t * width + at, bytes);
    }
    for (size_t t = 0; t < z->n; t++) {
        const struct row_angles a = {x->cos + t * m->n_rot, x->sin + t * m->n_rot, m->n_rot, dim,
                                     m->rope_halves};
        const real *k = x->k + t * width + at, *v = x->v + t * width + at;
        real *to = z->k + (m->n_prefix + t) * dim;
        memcpy(to, k, bytes);
        if (!x->layer->no_rope)
            row_rope(to, dim, &a, false);
        memcpy(z->v + (m->n_prefix + t) * dim, v, bytes);
        memset(error, 0, sizeof error);
        if (!x->exact[t])
            code_errors(error, k, x->table[TFT_KV_K], z->kv.dim);
        turn_errors(z, z->key + t * KEY_ERRORS * dim, error, &a, x->layer->no_rope);
        if (!x->exact[t])
            code_errors(error, v, x->table[TFT_KV_V], z->kv.dim);
        memcpy(z->value + t * VALUE_ERRORS * dim, error, VALUE_ERRORS * bytes);
    }
}

/* -------------------------------------------------------------------------------------- queries */

/* From query `from` on, of one query head of a layer. */
struct tile {
    const struct kv_loss_reader *layer;
    size_t from, rows, head, keys; /* keys: that the last query sees */
    size_t coded;                  /* tokens whose codes it reads */
};

/* Sets z->p, and z->w to the change of the loss with a score. */
static void weigh(struct kv_loss *z, const struct kv_loss_rows *x, const struct tile *t)
{
    const struct tft_model *m = z->m;
    size_t dim = z->kv.dim, width = m->n_head * dim, far = x->far;
    for (size_t i = 0; i < t->rows; i++) {
        size_t at = (t->from + i) * width + t->head * dim;
        memcpy(z->q + i * dim, t->layer->q + at, dim * sizeof *z->q);
        memcpy(z->dy + i * dim, t->layer->dy + at, dim * sizeof *z->dy);
    }
    matmul_plain(m, z->p, t->keys, z->q, z->k, t->rows, t->keys, dim);
    matmul_plain(m, z->w, t->keys, z->dy, z->v, t->rows, t->keys, dim);
    for (size_t i = 0; i < t->rows; i++) {
        real *p = z->p + i * t->keys, *w = z->w + i * t->keys, max = -INFINITY, sum = 0, mean = 0;
        size_t token = x->at[t->from + i], seen = m->n_prefix + token + 1,
               coded = token >= far ? m->n_prefix + token - far + 1 : m->n_prefix;
        for (size_t j = 0; j < seen; j++) {
            p[j] *= (real)m->attn_scale;
            if (m->score_cap > 0)
                p[j] = row_softcap(p[j], (real)m->score_cap);
            z->slope[j] = row_softcap_slope(p[j], (real)m->score_cap) * (real)m->attn_scale;
            max = p[j] > max ? p[j] : max;
        }
        for (size_t j = 0; j < seen; j++) {
            sum += p[j] = real_exp(p[j] - max);
            mean += p[j] * w[j];
        }
        for (size_t j = 0; j < seen; j++) {
            p[j] /= sum;
            w[j] = p[j] * (w[j] - mean / sum) * z->slope[j];
        }
        memset(p + coded, 0, (t->keys - coded) * sizeof *p);
        memset(w + coded, 0, (t->keys - coded) * sizeof *w);
    }
}

/* Adds the changes of the loss by the errors of keys and values, from one query head. */
static void add_changes(struct kv_loss *z, const struct tile *t)
{
    const struct tft_model *m = z->m;
    size_t dim = z->kv.dim, keys = KEY_ERRORS * dim, values = VALUE_ERRORS * dim,
           skip = m->n_prefix;
    memset(z->mixed_k, 0, t->rows * keys * sizeof *z->mixed_k);
    memset(z->mixed_v, 0, t->rows * values * sizeof *z->mixed_v);
    matmul_mix(m, z->mixed_k, z->w + skip, t->keys, z->key, t->rows, keys, t->coded);
    matmul_mix(m, z->mixed_v, z->p + skip, t->keys, z->value, t->rows, values, t->coded);
    for (size_t i = 0; i < t->rows; i++) {
        const real *q = z->q + i * dim, *dy = z->dy + i * dim, *v = z->mixed_v + i * values;
        for (size_t c = 0; c < KV_LOSS_CHOICES; c++) {
            const real *k = z->mixed_k + i * keys + 2 * c * dim;
            real *to_k = z->r[TFT_KV_K] + i * values + c * dim,
                 *to_v = z->r[TFT_KV_V] + i * values + c * dim;
            for (size_t d = 0; d < dim; d++) {
                size_t other = z->partner[d];
                const real *own = k + (other < d) * dim; /* errors of d's half of the pairs */
                to_k[d] += q[d] * own[d] + q[other] * own[other];
                to_v[d] += dy[d] * v[c * dim + d];
            }
        }
    }
}

void kv_loss_add(struct kv_loss *z, const struct kv_loss_rows *x, double *loss[TFT_KV_SIDES])
{
    const struct tft_model *m = z->m;
    size_t group = m->n_head / z->kv.n, numbers = VALUE_ERRORS * (size_t)z->kv.dim;
    take_head(z, x);
    for (struct tile t = {0}; t.from < x->n_query; t.from += t.rows) {
        t.rows = x->n_query - t.from < TILE ? x->n_query - t.from : TILE;
        size_t last = x->at[t.from + t.rows - 1];
        t.keys = m->n_prefix + last + 1;
        t.coded = last >= x->far ? last - x->far + 1 : 0;
        for (int side = 0; side < TFT_KV_SIDES; side++)
            memset(z->r[side], 0, t.rows * numbers * sizeof *z->r[side]);
        for (size_t i = 0; i < x->n_reader * group; i++) {
            t.layer = &x->reader[i / group];
            t.head = x->head * group + i % group;
            weigh(z, x, &t);
            add_changes(z, &t);
        }
        for (int side = 0; side < TFT_KV_SIDES; side++)
            for (size_t i = 0; i < t.rows * numbers; i++)
                loss[side][i % numbers] += (double)z->r[side][i] * (double)z->r[side][i] / 2;
    }
}
