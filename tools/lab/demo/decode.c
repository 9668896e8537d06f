#include "decode.h"

#include "tool.h"

struct decoder {
    struct shape s;
    struct params w;
    int n;
    int head_tokens;
    const float *head; /* [head_tokens, dim] */
    float *rope;
    float *k; /* [layers, n, kv_dim, context]: the positions of a channel are adjacent, since
                 scores are summed channel by channel */
    float *v; /* [layers, n, context, kv_dim] */
    float *x, *norm, *q, *att; /* [n, dim] */
    float *new_k, *new_v;      /* [n, kv_dim] */
    float *gate, *up;          /* [n, ffn] */
    float *scores;             /* [context] */
    float *logits;             /* [n, head_tokens] */
};

struct decoder *decoder_open(const struct shape *s, const struct params *w, int n)
{
    struct decoder *d = take(1, sizeof *d);
    size_t rows = (size_t)n, dim = (size_t)s->dim, kv = (size_t)kv_dim(s);
    d->s = *s;
    d->w = *w;
    d->n = n;
    d->head = w->embed;
    d->head_tokens = s->vocab;
    d->rope = rope_table(s);
    d->k = take((size_t)s->layers * rows * kv * (size_t)s->context, sizeof(float));
    d->v = take((size_t)s->layers * rows * kv * (size_t)s->context, sizeof(float));
    d->x = take(rows * dim, sizeof(float));
    d->norm = take(rows * dim, sizeof(float));
    d->q = take(rows * dim, sizeof(float));
    d->att = take(rows * dim, sizeof(float));
    d->new_k = take(rows * kv, sizeof(float));
    d->new_v = take(rows * kv, sizeof(float));
    d->gate = take(rows * (size_t)s->ffn, sizeof(float));
    d->up = take(rows * (size_t)s->ffn, sizeof(float));
    d->scores = take((size_t)s->context, sizeof(float));
    d->logits = take(rows * (size_t)s->vocab, sizeof(float));
    return d;
}

void decoder_narrow_head(struct decoder *d, const int *token, int n)
{
    size_t dim = (size_t)d->s.dim;
    float *head = take((size_t)n * dim, sizeof *head);
    for (int i = 0; i < n; i++)
        memcpy(head + (size_t)i * dim, d->w.embed + (size_t)token[i] * dim, dim * sizeof *head);
    d->head = head;
    d->head_tokens = n;
}

static void norm_rows(float *y, const float *x, const float *w, int rows, int n)
{
    for (int i = 0; i < rows; i++, x += n, y += n) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < n; j++)
            sum += x[j] * x[j];
        float r = 1 / sqrtf(sum / (float)n + 1e-5f);
        for (int j = 0; j < n; j++)
            y[j] = x[j] * r * w[j];
    }
}

static void rotate(float *x, const float *table, int n, int hd)
{
    for (int h = 0; h < n; h += hd)
        for (int j = 0; j < hd; j += 2) {
            float c = table[j], s = table[j + 1], a = x[h + j], b = x[h + j + 1];
            x[h + j] = a * c - b * s;
            x[h + j + 1] = a * s + b * c;
        }
}

/* out[hd] = softmax(q . k) v over n positions; k: [hd, context], v: [context, kv_dim] */
static void attend(float *out, const float *q, const float *k, const float *v, float *scores, int n,
                   int hd, int context, int kd)
{
    float scale = 1 / sqrtf((float)hd), max = -1e30f, sum = 0;
    memset(scores, 0, (size_t)n * sizeof *scores);
    for (int j = 0; j < hd; j += 4, k += 4 * context) {
        float q0 = q[j] * scale, q1 = q[j + 1] * scale, q2 = q[j + 2] * scale,
              q3 = q[j + 3] * scale;
        for (int p = 0; p < n; p++)
            scores[p] += q0 * k[p] + q1 * k[context + p] + q2 * k[2 * context + p] +
                         q3 * k[3 * context + p];
    }
#pragma omp simd reduction(max : max)
    for (int p = 0; p < n; p++)
        max = max > scores[p] ? max : scores[p];
#pragma omp simd reduction(+ : sum)
    for (int p = 0; p < n; p++) {
        scores[p] = fast_exp(scores[p] - max);
        sum += scores[p];
    }
    memset(out, 0, (size_t)hd * sizeof *out);
    int p = 0;
    for (; p + 4 <= n; p += 4, v += 4 * kd)
        for (int j = 0; j < hd; j++)
            out[j] += scores[p] * v[j] + scores[p + 1] * v[kd + j] + scores[p + 2] * v[2 * kd + j] +
                      scores[p + 3] * v[3 * kd + j];
    for (; p < n; p++, v += kd)
        for (int j = 0; j < hd; j++)
            out[j] += scores[p] * v[j];
    for (int j = 0; j < hd; j++)
        out[j] /= sum;
}

static void attention(struct decoder *d, int layer, const int *pos)
{
    const struct shape *s = &d->s;
    int hd = head_dim(s), kd = kv_dim(s), per_kv = s->heads / s->kv_heads;
    size_t room = (size_t)kd * (size_t)s->context;
    for (int i = 0; i < d->n; i++) {
        float *k = d->k + ((size_t)layer * (size_t)d->n + (size_t)i) * room;
        float *v = d->v + ((size_t)layer * (size_t)d->n + (size_t)i) * room;
        float *q = d->q + (size_t)i * (size_t)s->dim, *att = d->att + (size_t)i * (size_t)s->dim;
        float *new_k = d->new_k + (size_t)i * (size_t)kd;
        const float *table = d->rope + (size_t)pos[i] * (size_t)hd;
        rotate(q, table, s->dim, hd);
        rotate(new_k, table, kd, hd);
        for (int j = 0; j < kd; j++)
            k[(size_t)j * (size_t)s->context + (size_t)pos[i]] = new_k[j];
        memcpy(v + (size_t)pos[i] * (size_t)kd, d->new_v + (size_t)i * (size_t)kd,
               (size_t)kd * sizeof *v);
        for (int h = 0; h < s->heads; h++) {
            int from = h / per_kv * hd;
            attend(att + h * hd, q + h * hd, k + (size_t)from * (size_t)s->context, v + from,
                   d->scores, pos[i] + 1, hd, s->context, kd);
        }
    }
}

static void linear(float *y, const float *x, const float *w, int rows, int n, int k, bool add)
{
    gemm(false, true, rows, n, k, 1, x, k, w, k, add, y, n);
}

static void layer_step(struct decoder *d, int layer, const int *pos)
{
    const struct shape *s = &d->s;
    int n = d->n, dim = s->dim, kd = kv_dim(s);
    size_t at = (size_t)layer, square = (size_t)dim * (size_t)dim,
           narrow = (size_t)dim * (size_t)kd;
    size_t wide = (size_t)dim * (size_t)s->ffn;
    norm_rows(d->norm, d->x, d->w.att_norm + at * (size_t)dim, n, dim);
    linear(d->q, d->norm, d->w.wq + at * square, n, dim, dim, false);
    linear(d->new_k, d->norm, d->w.wk + at * narrow, n, kd, dim, false);
    linear(d->new_v, d->norm, d->w.wv + at * narrow, n, kd, dim, false);
    attention(d, layer, pos);
    linear(d->x, d->att, d->w.wo + at * square, n, dim, dim, true);
    norm_rows(d->norm, d->x, d->w.ffn_norm + at * (size_t)dim, n, dim);
    linear(d->gate, d->norm, d->w.gate + at * wide, n, s->ffn, dim, false);
    linear(d->up, d->norm, d->w.up + at * wide, n, s->ffn, dim, false);
    for (size_t i = 0; i < (size_t)n * (size_t)s->ffn; i++)
        d->gate[i] = d->gate[i] / (1 + fast_exp(-d->gate[i])) * d->up[i];
    linear(d->x, d->gate, d->w.down + at * wide, n, dim, s->ffn, true);
}

float *decoder_step(struct decoder *d, const uint16_t *token, const int *pos)
{
    size_t dim = (size_t)d->s.dim;
    for (size_t i = 0; i < (size_t)d->n; i++)
        memcpy(d->x + i * dim, d->w.embed + token[i] * dim, dim * sizeof *d->x);
    for (int i = 0; i < d->s.layers; i++)
        layer_step(d, i, pos);
    norm_rows(d->norm, d->x, d->w.out_norm, d->n, d->s.dim);
    linear(d->logits, d->norm, d->head, d->n, d->head_tokens, d->s.dim, false);
    return d->logits;
}
