#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The frequency of pair i by YaRN, f without it: pairs that turn fast within the original context
   stay, slow ones are divided. */
static double yarn(const struct oracle *o, size_t i, double f)
{
    double n_ctx = oracle_number(o, "rope.scaling.original_context_length", 0), edge[2];
    for (int k = 0; k < 2; k++) {
        double turns = oracle_number(
            o, k ? "rope.scaling.yarn_beta_slow" : "rope.scaling.yarn_beta_fast", k ? 1 : 32);
        edge[k] =
            (double)o->rot * log(n_ctx / (turns * 2 * 3.14159265358979323846)) / (2 * log(o->base));
    }
    double low = fmax(0, floor(edge[0])), high = fmin((double)o->rot - 1, ceil(edge[1]));
    double slow = fmin(1, fmax(0, ((double)i - low) / fmax(0.001, high - low)));
    return f * (1 - slow) + f / o->linear * slow;
}

void oracle_rotate(const struct oracle *o, size_t l, double *head)
{
    bool neighbours =
        strncmp(o->arch, "granite", 7) == 0 ||
        oracle_is_one(o, " llama nanbeige minicpm smollm3 ernie4_5 mistral3 internlm2 glm4 "
                         "maincoder cohere2 command-r arcee ernie4_5-moe olmo deepseek2 ");
    /* another base in windows */
    bool gemma = oracle_is_one(o, " gemma3 gemma4 gemma3n plamo3 mimo2 spark2_5 "),
         plain = oracle_window_of(o, l) && (gemma || oracle_is_one(o, " olmo2 mellum "));
    double base = plain && gemma ? oracle_number(o, "rope.freq_base_swa", 10000) : o->base;
    size_t rot = o->rot;
    if (plain && oracle_is_one(o, " gemma4 spark2_5 "))
        rot = (size_t)oracle_number(o, "rope.dimension_count_swa", 0);
    for (size_t i = 0; i < rot / 2; i++) {
        double freq = pow(base, -2.0 * (double)i / (double)rot);
        if (!plain)
            freq = (o->yarn ? yarn(o, i, freq) : freq / o->linear) /
                   (o->freq_div ? o->freq_div[i] : 1);
        double size = plain ? 1 : o->amplitude, c = cos((double)o->pos * freq) * size,
               s = sin((double)o->pos * freq) * size;
        size_t a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + rot / 2;
        double x = head[a], y = head[b];
        head[a] = x * c - y * s;
        head[b] = x * s + y * c;
    }
}

static void attend(const struct oracle *o, size_t layer, const double *q, double *out)
{
    size_t width = o->kv_heads * o->dim;
    size_t window = oracle_window_of(o, layer),
           first = window && o->pos >= window ? o->pos - window + 1 : 0;
    double *p = malloc((o->pos + 1) * sizeof *p);
    for (size_t h = 0; h < o->heads; h++) {
        size_t g = h / (o->heads / o->kv_heads);
        double max = -INFINITY, sum = 0;
        for (size_t t = first; t <= o->pos; t++) {
            const double *k = o->k + (layer * o->capacity + t) * width + g * o->dim;
            p[t] = 0;
            for (size_t i = 0; i < o->dim; i++)
                p[t] += q[h * o->dim + i] * k[i];
            p[t] *= o->a;
            if (o->score_cap > 0)
                p[t] = o->score_cap * tanh(p[t] / o->score_cap);
            max = fmax(max, p[t]);
        }
        for (size_t t = first; t <= o->pos; t++)
            sum += p[t] = exp(p[t] - max);
        const double *sinks = o->layer[layer * PARTS + SINKS].w;
        sum += sinks ? exp(sinks[h] - max) : 0; /* one more score, without a value */
        for (size_t i = 0; i < o->dim; i++) {
            double v = 0;
            for (size_t t = first; t <= o->pos; t++)
                v += p[t] / sum * o->v[(layer * o->capacity + t) * width + g * o->dim + i];
            out[h * o->dim + i] = v;
        }
    }
    free(p);
}

/* Whether layer l rotates queries and keys. */
static bool rotates(const struct oracle *o, size_t l)
{
    if (oracle_is(o, "granite_swa") && oracle_has_array(o, "attention.rope_pattern"))
        return oracle_element(o, "attention.rope_pattern", l) != 0;
    bool windows = oracle_number(o, "attention.sliding_window", 0) > 0;
    bool global = oracle_is_one(o, " exaone4 cohere2 smallthinker afmoe ") && windows &&
                  !oracle_window_of(o, l);
    return !oracle_is_one(o, " gpt2 nemotron_h nemotron_h_moe ") &&
           !(oracle_is(o, "smollm3") && l % 4 == 3) && !global;
}

static bool is_qwen35(const struct oracle *o)
{
    return oracle_is_one(o, " qwen35 qwen35moe qwen3next ");
}

bool oracle_norm_is_before(const struct oracle *o)
{
    return oracle_is_one(o, " qwen35 qwen35moe qwen3next seed_oss gpt-oss ");
}

void oracle_attention_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t nq = o->heads * o->dim, nkv = o->kv_heads * o->dim,
           slot = (l * o->capacity + o->pos) * nkv;
    double *q = malloc((nq + 2 * nkv) * sizeof *q), *a = malloc(nq * sizeof *a),
           *y = malloc(o->d * sizeof *y), *z = malloc(2 * nq * sizeof *z),
           *gate = malloc(nq * sizeof *gate);
    double *k = q + nq, *v = k + nkv;
    if (is_qwen35(o)) { /* rows of q and of a gate in turns, head by head */
        oracle_product(z, w[QW], h, NULL);
        for (size_t i = 0; i < nq; i++) {
            size_t at = i / o->dim * 2 * o->dim + i % o->dim;
            q[i] = z[at];
            gate[i] = z[at + o->dim];
        }
        oracle_product(k, w[KW], h, NULL);
        oracle_product(v, w[VW], h, NULL);
    } else if (w[QKV].w) {
        oracle_product(q, w[QKV], h, w[QKVB].w);
    } else {
        oracle_product(q, w[QW], h, w[QB].w);
        oracle_product(k, w[KW], h, w[KB].w);
        oracle_product(v, w[VW], h, w[VB].w);
    }
    for (size_t i = 0; i < nq + 2 * nkv && o->bound > 0; i++)
        q[i] = fmin(fmax(q[i], -o->bound), o->bound);
    bool whole = oracle_is(o, "olmo2") || oracle_is(o, "olmoe");
    if (whole) {
        oracle_rms(q, q, w[QN].w, nq, o->eps);
        oracle_rms(k, k, w[KN].w, nkv, o->eps);
    }
    bool own = oracle_is(o, "stablelm") && w[QN].w; /* a LayerNorm of each head, without a bias */
    for (size_t i = 0; i < nq + nkv && own; i += o->dim)
        oracle_layernorm(q + i, q + i, i < nq ? w[QN].w + i : w[KN].w + i - nq, NULL, o->dim,
                         o->eps);
    for (size_t i = 0; i < nq + nkv; i += o->dim) {
        const double *gain = i < nq ? w[QN].w : w[KN].w;
        bool heads = gain && !whole && !own,
             late = oracle_is_one(o, " hunyuan-dense hunyuan-moe maincoder ");
        if (heads && !late)
            oracle_rms(q + i, q + i, gain, o->dim, o->eps);
        if (rotates(o, l))
            oracle_rotate(o, l, q + i);
        if (heads && late)
            oracle_rms(q + i, q + i, gain, o->dim, o->eps);
    }
    double grow = oracle_is(o, "mistral3") ? oracle_number(o, "attention.temperature_scale", 0) : 0,
           original = oracle_number(o, "rope.scaling.original_context_length", 1);
    for (size_t i = 0; i < nq; i++)
        q[i] *= 1 + grow * log(1 + floor((double)o->pos / original));
    memcpy(o->k + slot, k, nkv * sizeof *k);
    memcpy(o->v + slot, v, nkv * sizeof *v);
    attend(o, l, q, a);
    for (size_t i = 0; i < nq && is_qwen35(o); i++)
        a[i] *= oracle_sigmoid(gate[i]);
    bool head_gate = oracle_is(o, "spark2_5");
    if (oracle_is(o, "afmoe") || head_gate)
        oracle_product(gate, w[DZ], h, NULL);
    for (size_t i = 0; i < nq && (oracle_is(o, "afmoe") || head_gate); i++)
        a[i] *= oracle_sigmoid(gate[head_gate ? i / o->dim : i]);
    if (w[SUBNORM1].w)
        oracle_rms(a, a, w[SUBNORM1].w, nq, o->eps);
    oracle_product(y, w[OW], a, w[OB].w);
    oracle_add(o, x, y, oracle_norm_is_before(o) ? NULL : w[POST1].w ? w[POST1].w : w[POST1S].w);
    free(z);
    free(gate);
    free(q);
    free(a);
    free(y);
}

void oracle_short_value_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t dim = o->dim, n = (size_t)oracle_number(o, "attention.value_length", 0),
           window = oracle_window_of(o, l),
           kv = (size_t)oracle_element(o, "attention.head_count_kv", l), width = o->kv_heads * dim,
           first = window && o->pos >= window ? o->pos - window + 1 : 0;
    double *q = malloc(w[QKV].rows * sizeof *q), *k = q + o->heads * dim, *v = k + kv * dim,
           *a = calloc(o->heads * n, sizeof *a), *y = malloc(o->d * sizeof *y),
           *p = malloc((o->pos + 1) * sizeof *p), *keys = o->k + l * o->capacity * width,
           *values = o->v + l * o->capacity * width;
    oracle_product(q, w[QKV], h, NULL);
    for (size_t i = 0; i < o->heads + kv; i++)
        oracle_rotate(o, l, q + i * dim);
    memcpy(keys + o->pos * width, k, kv * dim * sizeof *k);
    memcpy(values + o->pos * width, v, kv * n * sizeof *v);
    for (size_t j = 0; j < o->heads; j++) {
        size_t g = j / (o->heads / kv);
        double sum = w[SINKS].w ? exp(w[SINKS].w[j]) : 0;
        for (size_t t = first; t <= o->pos; t++) {
            p[t] = 0;
            for (size_t i = 0; i < dim; i++)
                p[t] += q[j * dim + i] * keys[t * width + g * dim + i];
            sum += p[t] = exp(p[t] / sqrt((double)dim)); /* of toys: small */
        }
        for (size_t t = first; t <= o->pos; t++)
            for (size_t i = 0; i < n; i++)
                a[j * n + i] += p[t] / sum * values[t * width + g * n + i];
    }
    oracle_product(y, w[OW], a, NULL);
    for (size_t i = 0; i < o->d; i++)
        x[i] += oracle_number(o, "attention.value_scale", 1) * y[i];
    free(q);
    free(a);
    free(y);
    free(p);
}

void oracle_layer_attention(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t dim = oracle_window_of(o, l)
                     ? (size_t)oracle_number(o, "attention.key_length_swa", (double)o->dim)
                     : o->dim,
           groups = (size_t)oracle_element(o, "attention.head_count_kv", l), first = 0, from = l,
           most = o->kv_heads * o->dim, share = o->heads / groups;
    size_t shared = (size_t)oracle_number(o, "attention.shared_kv_layers", 0);
    double *q = malloc(o->heads * dim * sizeof *q), *out = calloc(o->heads * dim, sizeof *out),
           *y = malloc(o->d * sizeof *y), *p = malloc((o->pos + 1) * sizeof *p),
           *one = malloc(dim * sizeof *one);
    for (size_t i = 0; i < dim; i++)
        one[i] = 1;
    if (l >= o->layers - shared) /* the last layer of its kind that is not among them */
        for (size_t i = 0; i < o->layers - shared; i++)
            if (!oracle_window_of(o, i) == !oracle_window_of(o, l))
                from = i;
    double *k = o->k + from * o->capacity * most, *v = o->v + from * o->capacity * most;
    if (from == l) {
        oracle_product(k + o->pos * most, w[KW], h, NULL);
        oracle_product(v + o->pos * most, w[VW].w ? w[VW] : w[KW], h, NULL);
    }
    for (size_t g = 0; g < groups && from == l; g++) {
        oracle_rms(k + o->pos * most + g * dim, k + o->pos * most + g * dim, w[KN].w, dim, o->eps);
        oracle_rms(v + o->pos * most + g * dim, v + o->pos * most + g * dim, one, dim, o->eps);
        oracle_rotate(o, l, k + o->pos * most + g * dim);
    }
    oracle_product(q, w[QW], h, NULL);
    if (oracle_window_of(o, l) && o->pos >= oracle_window_of(o, l))
        first = o->pos + 1 - oracle_window_of(o, l);
    for (size_t a = 0; a < o->heads; a++) {
        double sum = 0;
        oracle_rms(q + a * dim, q + a * dim, w[QN].w, dim, o->eps);
        oracle_rotate(o, l, q + a * dim);
        for (size_t t = first; t <= o->pos; t++) {
            p[t] = 0;
            for (size_t i = 0; i < dim; i++)
                p[t] += q[a * dim + i] * k[t * most + a / share * dim + i];
            sum += p[t] = exp(p[t]); /* of two normalised vectors: small */
        }
        for (size_t t = first; t <= o->pos; t++)
            for (size_t i = 0; i < dim; i++)
                out[a * dim + i] += p[t] / sum * v[t * most + a / share * dim + i];
    }
    oracle_product(y, w[OW], out, NULL);
    oracle_rms(y, y, w[POST1].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        x[i] += y[i];
    free(q);
    free(out);
    free(y);
    free(p);
    free(one);
}
