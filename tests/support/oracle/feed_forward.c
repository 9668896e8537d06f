#include "oracle/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The function of hidden activations without a gate. */
static double plain(const struct oracle *o, size_t l, double u)
{
    if (oracle_is_one(o, " arcee nemotron nemotron_h nemotron_h_moe "))
        return fmax(0, u) * fmax(0, u);
    if (!oracle_is(o, "apertus"))
        return oracle_gelu(u);
    double value[4]; /* keys without the name of the architecture */
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (int i = 0; i < 4; i++) {
        const struct tft_value *v = tft_source_value(o->s, keys[i]);
        tft_value_real(v, v->is_array ? l : 0, &value[i]);
    }
    double p = log(1 + exp(value[0])), n = value[2] + log(1 + exp(value[1]));
    return (u > 0 ? p * u * u : n * (expm1(fmin(u, value[3])) - u)) + value[2] * u;
}

/* gemma3n: gates less their mean and some standard deviations, or 0. */
static void keep_largest(const struct oracle *o, size_t l, double *g, size_t n)
{
    double mean = 0, var = 0, c = oracle_element(o, "activation_sparsity_scale", l);
    for (size_t i = 0; i < n; i++)
        mean += g[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (g[i] - mean) * (g[i] - mean) / ((double)n - 1);
    for (size_t i = 0; i < n && c > 0; i++)
        g[i] = fmax(0, g[i] - mean - c * sqrt(var));
}

void oracle_mlp_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t ff = w[DOWN].cols;
    double *u = malloc(2 * ff * sizeof *u), *g = malloc(ff * sizeof *g),
           *y = malloc(o->d * sizeof *y);
    bool fused = oracle_is_one(o, " phi3 glm4 plamo3 "),
         relu2 = oracle_text_is(o, "hidden_activation", "relu2");
    oracle_product(u, w[UP], h, w[UPB].w);
    if (fused) { /* the gate's rows come first */
        memcpy(g, u, ff * sizeof *g);
        memcpy(u, u + ff, ff * sizeof *u);
    } else if (w[GATE].w) {
        oracle_product(g, w[GATE], h, NULL);
    }
    if (oracle_is(o, "gemma3n"))
        keep_largest(o, l, g, ff);
    for (size_t i = 0; i < ff; i++)
        u[i] = !w[GATE].w && !fused ? plain(o, l, u[i])
               : strncmp(o->arch, "gemma", 5) == 0 || oracle_is(o, "spark2_5")
                   ? u[i] * oracle_gelu(g[i])
               : relu2 ? u[i] * fmax(0, g[i]) * fmax(0, g[i])
                       : u[i] * g[i] / (1 + exp(-g[i]));
    if (w[SUBNORM2].w)
        oracle_rms(u, u, w[SUBNORM2].w, ff, o->eps);
    oracle_product(y, w[DOWN], u, w[DOWNB].w);
    oracle_add(o, x, y, w[w[POSTD].w ? POSTD : w[POST2].w ? POST2 : POST2S].w);
    free(u);
    free(g);
    free(y);
}

/* The hidden activation of gate g and up u. */
static double gated(const struct oracle *o, double g, double u)
{
    double a = fmin(g, 7);
    if (oracle_is(o, "gpt-oss"))
        return a * oracle_sigmoid(1.702 * a) * (fmin(fmax(u, -7), 7) + 1);
    return u * (oracle_is(o, "gemma4")         ? oracle_gelu(g)
                : oracle_is(o, "smallthinker") ? fmax(0, g)
                                               : g / (1 + exp(-g)));
}

/* y += weight Wdown (silu(Wgate h) * Wup h), or another function, of rows [e n, (e + 1) n) of the
   first two; fused: gate has n rows of the gate and n of up for each e. bias: NULL, or those of
   gate, up and down. d: numbers of h and of y */
static void add_expert(const struct oracle *o, double *y, double weight, struct matrix gate,
                       struct matrix up, struct matrix down, size_t e, const double *h, size_t d,
                       const struct matrix *bias)
{
    size_t n = down.cols;
    double *a = malloc(2 * n * sizeof *a), *one = malloc(d * sizeof *one);
    bool has_gate = gate.w;
    gate = has_gate ? gate : up;
    struct matrix g = {gate.w + (up.w ? e : 2 * e) * n * d, n, d},
                  u = {up.w ? up.w + e * n * d : g.w + n * d, n, d}, w = {down.w + e * d * n, d, n};
    oracle_product(a, g, h, bias ? bias[0].w + e * n : NULL);
    oracle_product(a + n, u, h, bias ? bias[1].w + e * n : NULL);
    for (size_t i = 0; i < n; i++)
        a[i] = has_gate ? gated(o, a[i], a[n + i]) : plain(o, 0, a[n + i]);
    oracle_product(one, w, a, bias ? bias[2].w + e * d : NULL);
    for (size_t i = 0; i < d; i++)
        y[i] += weight * one[i];
    free(a);
    free(one);
}

/* Which weights are divided by their sum. Files of some may say otherwise. */
static bool renormalised(const struct oracle *o)
{
    const struct tft_value *v = NULL;
    if (oracle_is_one(o, " bailingmoe2 dots1 afmoe deepseek2 ")) {
        char key[96];
        snprintf(key, sizeof key, "%s.expert_weights_norm", o->arch);
        v = tft_source_value(o->s, key);
    }
    if (v)
        return *v->data;
    return oracle_is_one(
        o, " llama qwen3moe granitemoe lfm2moe gemma4 qwen35moe hunyuan-moe ernie4_5-moe "
           "bailingmoe2 dots1 mellum granite_swa smallthinker afmoe granitehybrid "
           "nemotron_h_moe qwen3next mimo2 ");
}

/* Takes out the experts of all groups but those with the largest sums of two ranks. */
static void leave_groups(const struct oracle *o, double *rank, size_t n)
{
    size_t groups = (size_t)oracle_number(o, "expert_group_count", 1), of_one = n / groups,
           used = (size_t)oracle_number(o, "expert_group_used_count", 1);
    double *sum = malloc(groups * sizeof *sum);
    for (size_t g = 0; g < groups; g++) {
        sum[g] = -INFINITY;
        for (size_t i = 0; i < of_one; i++)
            for (size_t j = i + 1; j < of_one; j++)
                sum[g] = fmax(sum[g], rank[g * of_one + i] + rank[g * of_one + j]);
    }
    for (size_t g = 0; g < groups && groups > 1; g++) {
        size_t larger = 0;
        for (size_t i = 0; i < groups; i++)
            larger += sum[i] > sum[g];
        for (size_t i = 0; i < of_one && larger >= used; i++)
            rank[g * of_one + i] = -INFINITY;
    }
    free(sum);
}

/* y += the experts of h that the router chooses, which reads r */
static void add_experts(const struct oracle *o, size_t l, double *y, const double *r,
                        const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = w[ROUTER].rows, used = (size_t)oracle_number(o, "expert_used_count", 0), chosen[32];
    double *p = malloc(2 * n * sizeof *p), *rank = p + n, sum = 0, all = 0,
           scale = oracle_number(o, "expert_weights_scale", 1);
    bool after =
        oracle_is(o, "gpt-oss"); /* softmax of the chosen scores is that of all, renormalised */
    oracle_product(p, w[ROUTER], r, w[ROUTERBIAS].w);
    for (size_t e = 0; e < n; e++)
        all += exp(p[e]);
    for (size_t e = 0; e < n; e++) {
        p[e] =
            oracle_number(o, "expert_gating_func", 1) == 2 ? 1 / (1 + exp(-p[e])) : exp(p[e]) / all;
        rank[e] = p[e] + (w[ROUTERB].w ? w[ROUTERB].w[e] : 0);
    }
    leave_groups(o, rank, n);
    for (size_t i = 0; i < used; i++) {
        size_t best = 0;
        for (size_t e = 1; e < n; e++)
            best = rank[e] > rank[best] ? e : best;
        rank[best] = -INFINITY;
        sum += p[best];
        chosen[i] = best;
    }
    for (size_t i = 0; i < used; i++)
        add_expert(o, y,
                   p[chosen[i]] * scale / (after || renormalised(o) ? sum : 1) *
                       (w[ESCALE].w ? w[ESCALE].w[chosen[i]] : 1),
                   w[w[EGATE].w ? EGATE : EFUSED], w[EUP], w[EDOWN], chosen[i], h,
                   w[LATENTDOWN].w ? w[LATENTDOWN].rows : o->d, w[EGATEB].w ? &w[EGATEB] : NULL);
    free(p);
}

void oracle_mixture_block(struct oracle *o, size_t l, double *x, const double *r, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS, none = {0};
    double *y = calloc(o->d, sizeof *y), gate = 0;
    bool fused = w[SUP].rows > w[SDOWN].cols; /* else without SGATE there is no gate */
    if (w[LATENTDOWN].w) {                    /* the experts have a width of their own */
        size_t n = w[LATENTDOWN].rows;
        double *in = calloc(2 * n, sizeof *in), *sum = in + n;
        oracle_product(in, w[LATENTDOWN], h, NULL);
        add_experts(o, l, sum, r, in);
        oracle_product(y, w[LATENTUP], sum, NULL);
        free(in);
    } else {
        add_experts(o, l, y, r, h);
    }
    if (w[SGATEW].w)
        oracle_product(&gate, w[SGATEW], h, NULL);
    if (w[SUP].w)
        add_expert(o, y, w[SGATEW].w ? 1 / (1 + exp(-gate)) : 1, w[fused ? SUP : SGATE],
                   fused ? none : w[SUP], w[SDOWN], 0, h, o->d, NULL);
    oracle_add(o, x, y, w[POST2].w);
    free(y);
}

void oracle_beside_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *y = calloc(4 * o->d, sizeof *y), *r = y + o->d, *in = r + o->d, *sum = in + o->d;
    oracle_rms(r, x, w[RSCALE].w, o->d, o->eps);
    oracle_rms(in, x, w[NORME].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        r[i] /= sqrt((double)o->d);
    add_experts(o, l, sum, r, in);
    oracle_rms(sum, sum, w[POSTE].w, o->d, o->eps);
    oracle_mlp_block(o, l, y, h);
    for (size_t i = 0; i < o->d; i++)
        y[i] += sum[i];
    oracle_add(o, x, y, w[POST2].w);
    free(y);
}
