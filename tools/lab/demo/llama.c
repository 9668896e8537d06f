#include "llama.h"

#include "tool.h"

enum {
    ROWS = 128
}; /* queries, or rows of logits, at a time: their intermediate results stay in the cache */

static const real eps = (real)1e-5;

struct layer_tape {
    real *x;     /* [T, dim] input of the layer */
    real *norm;  /* [T, dim] of x, and 1 / rms */
    real *scale; /* [T] */
    real *q;     /* [T, dim] after rope */
    real *k, *v; /* [T, kv_dim] */
    real *att;   /* [T, dim] */
    real *lse;   /* [heads, T] log of the sum of exp of a row of scores */
    real *x2, *norm2, *scale2; /* as x, norm, scale, of the feed-forward part */
    real *gate, *up;           /* [T, ffn] */
};

struct tape {
    struct shape s;
    real *rope;
    struct layer_tape *layer;
    real *x, *norm, *scale; /* [T, dim] output of the layers */
    real *hidden;           /* [T, ffn] */
    real *scores, *dscores; /* [ROWS, context] */
    real *logits;           /* [ROWS, vocab] */
    /* dNAME is the gradient of NAME */
    real *dx, *dnorm, *datt, *dq; /* [T, dim] */
    real *dk, *dv;                /* [T, kv_dim] */
    real *dhidden, *dgate;        /* [T, ffn] */
};

size_t params_count(const struct shape *s)
{
    size_t d = (size_t)s->dim,
           per_layer = 2 * d + 2 * d * d + 2 * d * (size_t)kv_dim(s) + 3 * d * (size_t)s->ffn;
    return (size_t)s->vocab * d + (size_t)s->layers * per_layer + d;
}

struct params params_at(const struct shape *s, real *flat)
{
    size_t d = (size_t)s->dim, n = (size_t)s->layers;
    struct params w;
    real *at = flat;
    w.embed = at, at += (size_t)s->vocab * d;
    w.att_norm = at, at += n * d;
    w.wq = at, at += n * d * d;
    w.wk = at, at += n * d * (size_t)kv_dim(s);
    w.wv = at, at += n * d * (size_t)kv_dim(s);
    w.wo = at, at += n * d * d;
    w.ffn_norm = at, at += n * d;
    w.gate = at, at += n * d * (size_t)s->ffn;
    w.down = at, at += n * d * (size_t)s->ffn;
    w.up = at, at += n * d * (size_t)s->ffn;
    w.out_norm = at;
    return w;
}

/* Pointers to one layer's part of every field. */
static struct params params_of_layer(const struct shape *s, const struct params *w, int layer)
{
    size_t d = (size_t)s->dim, n = (size_t)layer;
    struct params l = *w;
    l.att_norm += n * d;
    l.wq += n * d * d;
    l.wk += n * d * (size_t)kv_dim(s);
    l.wv += n * d * (size_t)kv_dim(s);
    l.wo += n * d * d;
    l.ffn_norm += n * d;
    l.gate += n * d * (size_t)s->ffn;
    l.down += n * d * (size_t)s->ffn;
    l.up += n * d * (size_t)s->ffn;
    return l;
}

real *rope_table(const struct shape *s)
{
    int half = head_dim(s) / 2;
    real *table = take((size_t)s->context * (size_t)half * 2, sizeof(real));
    for (int p = 0; p < s->context; p++)
        for (int i = 0; i < half; i++) {
            double angle = p * pow(10000.0, -(double)i / half);
            table[(p * half + i) * 2] = (real)cos(angle);
            table[(p * half + i) * 2 + 1] = (real)sin(angle);
        }
    return table;
}

struct tape *tape_open(const struct shape *s)
{
    struct tape *tape = take(1, sizeof *tape);
    size_t t = (size_t)s->context, d = t * (size_t)s->dim, kv = t * (size_t)kv_dim(s),
           f = t * (size_t)s->ffn;
    tape->s = *s;
    tape->rope = rope_table(s);
    tape->layer = take((size_t)s->layers, sizeof *tape->layer);
    for (int i = 0; i < s->layers; i++) {
        struct layer_tape *l = &tape->layer[i];
        real **wide[] = {&l->x, &l->norm, &l->q, &l->att, &l->x2, &l->norm2};
        for (size_t j = 0; j < sizeof wide / sizeof *wide; j++)
            *wide[j] = take(d, sizeof(real));
        l->scale = take(t, sizeof(real));
        l->scale2 = take(t, sizeof(real));
        l->k = take(kv, sizeof(real));
        l->v = take(kv, sizeof(real));
        l->lse = take(t * (size_t)s->heads, sizeof(real));
        l->gate = take(f, sizeof(real));
        l->up = take(f, sizeof(real));
    }
    real **wide[] = {&tape->x, &tape->norm, &tape->dx, &tape->dnorm, &tape->datt, &tape->dq};
    for (size_t j = 0; j < sizeof wide / sizeof *wide; j++)
        *wide[j] = take(d, sizeof(real));
    tape->scale = take(t, sizeof(real));
    tape->dk = take(kv, sizeof(real));
    tape->dv = take(kv, sizeof(real));
    tape->hidden = take(f, sizeof(real));
    tape->dhidden = take(f, sizeof(real));
    tape->dgate = take(f, sizeof(real));
    tape->scores = take(ROWS * t, sizeof(real));
    tape->dscores = take(ROWS * t, sizeof(real));
    tape->logits = take(ROWS * (size_t)s->vocab, sizeof(real));
    return tape;
}

/* ---- rows */

static void norm_forward(real *y, real *scale, const real *x, const real *w, int t, int n)
{
    for (int i = 0; i < t; i++, x += n, y += n) {
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < n; j++)
            sum += x[j] * x[j];
        real r = scale[i] = 1 / (real)sqrt(sum / (real)n + eps);
        for (int j = 0; j < n; j++)
            y[j] = x[j] * r * w[j];
    }
}

/* dx += the gradient of x, dw += that of w. With u = x * r: dx = r (dy w - u mean(dy w u)). */
static void norm_backward(real *dx, real *dw, const real *dy, const real *x, const real *scale,
                          const real *w, int t, int n)
{
    for (int i = 0; i < t; i++, x += n, dx += n, dy += n) {
        real r = scale[i], mean = 0;
#pragma omp simd reduction(+ : mean)
        for (int j = 0; j < n; j++)
            mean += dy[j] * w[j] * x[j];
        mean *= r / (real)n;
        for (int j = 0; j < n; j++) {
            real u = x[j] * r;
            dw[j] += dy[j] * u;
            dx[j] += r * (dy[j] * w[j] - u * mean);
        }
    }
}

/* Rotates every pair of the heads in x [t, n]; sign -1 rotates back, which is also the gradient. */
static void rope(real *x, const real *table, int t, int n, int hd, real sign)
{
    for (int i = 0; i < t; i++, table += hd)
        for (int h = 0; h < n; h += hd, x += hd)
            for (int j = 0; j < hd; j += 2) {
                real c = table[j], s = sign * table[j + 1], a = x[j], b = x[j + 1];
                x[j] = a * c - b * s;
                x[j + 1] = a * s + b * c;
            }
}

static real row_max(const real *x, int n)
{
    real m = x[0];
#pragma omp simd reduction(max : m)
    for (int i = 0; i < n; i++)
        m = m > x[i] ? m : x[i];
    return m;
}

/* x[n] = exp(x - shift); returns the sum. */
static real row_exp(real *x, int n, real shift)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        x[i] = fast_exp(x[i] - shift);
        sum += x[i];
    }
    return sum;
}

static void silu_forward(real *hidden, const real *gate, const real *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hidden[i] = gate[i] / (1 + fast_exp(-gate[i])) * up[i];
}

/* dhidden becomes the gradient of up, and hidden is computed again. */
static void silu_backward(real *dgate, real *dhidden, real *hidden, const real *gate,
                          const real *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        real s = 1 / (1 + fast_exp(-gate[i])), silu = gate[i] * s, dh = dhidden[i];
        hidden[i] = silu * up[i];
        dgate[i] = dh * up[i] * s * (1 + gate[i] * (1 - s));
        dhidden[i] = dh * silu;
    }
}

/* ---- matrices */

/* y[t, n] (+)= x[t, k] w[n, k]^T */
static void linear(real *y, const real *x, const real *w, int t, int n, int k, bool add)
{
    gemm(false, true, t, n, k, 1, x, k, w, k, add, y, n);
}

/* dx[t, k] (+)= dy w, dw += dy^T x */
static void linear_backward(real *dx, real *dw, const real *dy, const real *x, const real *w, int t,
                            int n, int k, bool add)
{
    gemm(false, false, t, k, n, 1, dy, n, w, k, add, dx, k);
    gemm(true, false, n, k, t, 1, dy, n, x, k, true, dw, k);
}

/* ---- attention: one head, ROWS queries at a time, against the keys up to the last of them */

static int attention_scores(const struct tape *tape, const struct layer_tape *l, int head, int from,
                            int rows)
{
    const struct shape *s = &tape->s;
    int hd = head_dim(s), kd = kv_dim(s), keys = from + rows, kv = head / (s->heads / s->kv_heads);
    gemm(false, true, rows, keys, hd, 1 / (real)sqrt(hd),
         l->q + (size_t)from * (size_t)s->dim + head * hd, s->dim, l->k + kv * hd, kd, false,
         tape->scores, keys);
    return keys;
}

static void attention_forward(struct tape *tape, struct layer_tape *l, int head, int from, int rows,
                              int t)
{
    const struct shape *s = &tape->s;
    int hd = head_dim(s), kd = kv_dim(s), kv = head / (s->heads / s->kv_heads);
    int keys = attention_scores(tape, l, head, from, rows);
    for (int i = 0; i < rows; i++) {
        real *row = tape->scores + (size_t)i * (size_t)keys;
        int n = from + i + 1;
        real max = row_max(row, n), sum = row_exp(row, n, max), r = 1 / sum;
        l->lse[(size_t)head * (size_t)t + (size_t)(from + i)] = max + (real)log(sum);
        for (int j = 0; j < n; j++)
            row[j] *= r;
        memset(row + n, 0, (size_t)(keys - n) * sizeof *row);
    }
    gemm(false, false, rows, hd, keys, 1, tape->scores, keys, l->v + kv * hd, kd, false,
         l->att + (size_t)from * (size_t)s->dim + head * hd, s->dim);
}

/* Computes the probabilities again from the scores and lse (Dao et al. 2022, FlashAttention,
   section 3.1). */
static void attention_backward(struct tape *tape, const struct layer_tape *l, int head, int from,
                               int rows, int t)
{
    const struct shape *s = &tape->s;
    int hd = head_dim(s), kd = kv_dim(s), d = s->dim, kv = head / (s->heads / s->kv_heads) * hd;
    size_t at = (size_t)from * (size_t)d + (size_t)(head * hd);
    int keys = attention_scores(tape, l, head, from, rows);
    real *p = tape->scores, *dp = tape->dscores, scale = 1 / (real)sqrt(hd);
    gemm(false, true, rows, keys, hd, 1, tape->datt + at, d, l->v + kv, kd, false, dp, keys);
    for (int i = 0; i < rows; i++) {
        real *row = p + (size_t)i * (size_t)keys, *drow = dp + (size_t)i * (size_t)keys, dot = 0;
        const real *o = l->att + at + (size_t)i * (size_t)d,
                   *dout = tape->datt + at + (size_t)i * (size_t)d;
        int n = from + i + 1;
        row_exp(row, n, l->lse[(size_t)head * (size_t)t + (size_t)(from + i)]);
        memset(row + n, 0, (size_t)(keys - n) * sizeof *row);
#pragma omp simd reduction(+ : dot)
        for (int j = 0; j < hd; j++)
            dot += o[j] * dout[j];
        for (int j = 0; j < keys; j++)
            drow[j] = row[j] * (drow[j] - dot) * scale;
    }
    gemm(true, false, keys, hd, rows, 1, p, keys, tape->datt + at, d, true, tape->dv + kv, kd);
    gemm(false, false, rows, hd, keys, 1, dp, keys, l->k + kv, kd, false, tape->dq + at, d);
    gemm(true, false, keys, hd, rows, 1, dp, keys, l->q + at, d, true, tape->dk + kv, kd);
}

/* ---- layers */

static void layer_forward(struct tape *tape, struct layer_tape *l, const struct params *w, real *x,
                          int t)
{
    const struct shape *s = &tape->s;
    int d = s->dim, kd = kv_dim(s), hd = head_dim(s);
    size_t wide = (size_t)t * (size_t)d * sizeof *x;
    memcpy(l->x, x, wide);
    norm_forward(l->norm, l->scale, x, w->att_norm, t, d);
    linear(l->q, l->norm, w->wq, t, d, d, false);
    linear(l->k, l->norm, w->wk, t, kd, d, false);
    linear(l->v, l->norm, w->wv, t, kd, d, false);
    rope(l->q, tape->rope, t, d, hd, 1);
    rope(l->k, tape->rope, t, kd, hd, 1);
    for (int h = 0; h < s->heads; h++)
        for (int from = 0; from < t; from += ROWS)
            attention_forward(tape, l, h, from, t - from < ROWS ? t - from : ROWS, t);
    linear(x, l->att, w->wo, t, d, d, true);
    memcpy(l->x2, x, wide);
    norm_forward(l->norm2, l->scale2, x, w->ffn_norm, t, d);
    linear(l->gate, l->norm2, w->gate, t, s->ffn, d, false);
    linear(l->up, l->norm2, w->up, t, s->ffn, d, false);
    silu_forward(tape->hidden, l->gate, l->up, (size_t)t * (size_t)s->ffn);
    linear(x, tape->hidden, w->down, t, d, s->ffn, true);
}

/* tape->dx: on entry the gradient of the layer's output, on return that of its input. */
static void layer_backward(struct tape *tape, struct layer_tape *l, const struct params *w,
                           const struct params *g, int t)
{
    const struct shape *s = &tape->s;
    int d = s->dim, kd = kv_dim(s), hd = head_dim(s), f = s->ffn;
    size_t kv_bytes = (size_t)t * (size_t)kd * sizeof(real);

    gemm(false, false, t, f, d, 1, tape->dx, d, w->down, f, false, tape->dhidden, f);
    silu_backward(tape->dgate, tape->dhidden, tape->hidden, l->gate, l->up, (size_t)t * (size_t)f);
    gemm(true, false, d, f, t, 1, tape->dx, d, tape->hidden, f, true, g->down, f);
    linear_backward(tape->dnorm, g->gate, tape->dgate, l->norm2, w->gate, t, f, d, false);
    linear_backward(tape->dnorm, g->up, tape->dhidden, l->norm2, w->up, t, f, d, true);
    norm_backward(tape->dx, g->ffn_norm, tape->dnorm, l->x2, l->scale2, w->ffn_norm, t, d);

    linear_backward(tape->datt, g->wo, tape->dx, l->att, w->wo, t, d, d, false);
    memset(tape->dk, 0, kv_bytes);
    memset(tape->dv, 0, kv_bytes);
    for (int h = 0; h < s->heads; h++)
        for (int from = 0; from < t; from += ROWS)
            attention_backward(tape, l, h, from, t - from < ROWS ? t - from : ROWS, t);
    rope(tape->dq, tape->rope, t, d, hd, -1);
    rope(tape->dk, tape->rope, t, kd, hd, -1);
    linear_backward(tape->dnorm, g->wq, tape->dq, l->norm, w->wq, t, d, d, false);
    linear_backward(tape->dnorm, g->wk, tape->dk, l->norm, w->wk, t, kd, d, true);
    linear_backward(tape->dnorm, g->wv, tape->dv, l->norm, w->wv, t, kd, d, true);
    norm_backward(tape->dx, g->att_norm, tape->dnorm, l->x, l->scale, w->att_norm, t, d);
}

void llama_forward(struct tape *tape, const struct params *w, const uint16_t *token, int t)
{
    const struct shape *s = &tape->s;
    size_t d = (size_t)s->dim;
    for (int i = 0; i < t; i++)
        memcpy(tape->x + (size_t)i * d, w->embed + token[i] * d, d * sizeof *tape->x);
    for (int i = 0; i < s->layers; i++) {
        struct params l = params_of_layer(s, w, i);
        layer_forward(tape, &tape->layer[i], &l, tape->x, t);
    }
    norm_forward(tape->norm, tape->scale, tape->x, w->out_norm, t, s->dim);
}

/* ---- the head */

static void head_logits(struct tape *tape, const struct params *w, int from, int rows)
{
    const struct shape *s = &tape->s;
    linear(tape->logits, tape->norm + (size_t)from * (size_t)s->dim, w->embed, rows, s->vocab,
           s->dim, false);
}

/* z [vocab]: logits on entry, their gradient on return, which is q - p for a listed token and q (1
   - p_rest / q_rest) for another one. */
static double row_loss(real *z, int vocab, const struct target *target, real scale)
{
    if (!target->p[0]) {
        memset(z, 0, (size_t)vocab * sizeof *z);
        return 0;
    }
    real max = row_max(z, vocab), listed[TARGETS], sum = row_exp(z, vocab, max), q_rest = sum;
    double loss = 0, p_rest = 1;
    int n = 0;
    for (; n < TARGETS && target->p[n]; n++) {
        double p = target->p[n] / 65535.0;
        listed[n] = z[target->id[n]];
        q_rest -= listed[n];
        p_rest -= p;
        loss -= p * log((double)(listed[n] / sum) + 1e-30);
    }
    /* A difference of sums may only be rounding error, which is not a probability. */
    q_rest = q_rest / sum > (real)1e-6 ? q_rest / sum : (real)1e-6;
    p_rest = p_rest > 0 ? p_rest : 0;
    loss -= p_rest * log((double)q_rest);
    real others = scale / sum * (1 - (real)p_rest / q_rest);
    for (int j = 0; j < vocab; j++)
        z[j] *= others;
    for (int k = 0; k < n; k++)
        z[target->id[k]] = scale * (listed[k] / sum - (real)(target->p[k] / 65535.0));
    return loss;
}

static void embed_backward(const struct tape *tape, const struct params *g, const uint16_t *token,
                           int t)
{
    size_t d = (size_t)tape->s.dim;
    for (int i = 0; i < t; i++)
        for (size_t j = 0; j < d; j++)
            g->embed[token[i] * d + j] += tape->dx[(size_t)i * d + j];
}

double llama_loss(struct tape *tape, const struct params *w, const struct params *grad, real scale,
                  const uint16_t *token, const struct target *target, int t)
{
    const struct shape *s = &tape->s;
    size_t d = (size_t)s->dim;
    double loss = 0;
    for (int from = 0; from < t; from += ROWS) {
        int rows = t - from < ROWS ? t - from : ROWS;
        head_logits(tape, w, from, rows);
        for (int i = 0; i < rows; i++)
            loss += row_loss(tape->logits + (size_t)i * (size_t)s->vocab, s->vocab,
                             &target[from + i], scale);
        if (grad)
            linear_backward(tape->dnorm + (size_t)from * d, grad->embed, tape->logits,
                            tape->norm + (size_t)from * d, w->embed, rows, s->vocab, s->dim, false);
    }
    if (!grad)
        return loss;
    memset(tape->dx, 0, (size_t)t * d * sizeof *tape->dx);
    norm_backward(tape->dx, grad->out_norm, tape->dnorm, tape->x, tape->scale, w->out_norm, t,
                  s->dim);
    for (int i = s->layers - 1; i >= 0; i--) {
        struct params l = params_of_layer(s, w, i), g = params_of_layer(s, grad, i);
        layer_backward(tape, &tape->layer[i], &l, &g, t);
    }
    embed_backward(tape, grad, token, t);
    return loss;
}
