#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
    double *w; /* [rows, cols] */
    size_t rows, cols;
};

struct oracle {
    const struct tft_source *s;
    char arch[16];
    size_t blocks; /* layers of a round: nanbeige */
    size_t wide, kheads, vheads, sdim; /* of layers with a state */
    size_t d, layers, heads, kv_heads, dim, rot, vocab, capacity, pos;
    size_t rank, key, value; /* of latent attention: c, and numbers of a head; rank 0: none */
    double eps, base, linear;
    double e, r, l, a; /* factors of embeddings, of additions to x, of logits, of scores */
    double amplitude;  /* of the rotation */
    double score_cap, logit_cap; /* 0: none */
    double bound;                /* of queries, keys and values; 0: none */
    bool yarn;
    struct matrix embed, positions, out, *layer; /* layer: [layers, PARTS] */
    double *out_w, *out_b, *out_bias, *freq_div;
    double *k, *v;                     /* [layers, capacity, kv_heads * dim] */
    struct matrix own_embed, own_proj; /* of layers, and the gain of their norm */
    struct matrix begin, end;          /* gemma3n: of streams 1 and on, one after the other */
    double *own_norm;
    double *states; /* [layers, heads, E, numbers of a state] of delta nets and of Mamba-2; or
                       [layers, (2 + E) d] of RWKV-7 */
    double *past;  /* [layers, capacity, wide] the input of a convolution for each token */
    double *logits, *hidden; /* hidden: [d] their source */
};

/* Tensors of a layer. */
enum part {
    NORM1,
    NORM1B,
    QW,
    QB,
    KW,
    KB,
    VW,
    VB,
    QKV,
    QKVB,
    QN,
    KN,
    OW,
    OB,
    NORM2,
    NORM2B,
    GATE,
    UP,
    UPB,
    DOWN,
    DOWNB,
    POST1,
    POST2,
    NORM_2,
    NORM_2B,
    CONV_IN,
    CONV,
    CONV_OUT,
    DQKV,
    DZ,
    DALPHA,
    DBETA,
    DCONV,
    DA,
    DBIAS,
    DNORM,
    DOUT,
    NORM2P,
    NORM2PB,
    ROUTER,
    ROUTERB,
    EGATE,
    EUP,
    EFUSED,
    EDOWN,
    SGATE,
    SUP,
    SDOWN,
    SGATEW,
    SUBNORM1,
    SUBNORM2,
    QF,
    KF,
    VF,
    OF,
    GATEF,
    UPF,
    DOWNF,
    PGATE,
    PPROJ,
    PNORM,
    PSCALE,
    RSCALE,
    ESCALE,
    NORME,
    POSTD,
    POSTE,
    SINKS,
    POST1S,
    POST2S,
    ROUTERBIAS,
    EGATEB,
    EUPB,
    EDOWNB,
    MIN,
    MCONVB,
    MSKIP,
    NORM2S,
    NORM2SB,
    QA,
    QAN,
    QBW,
    KVA,
    KVN,
    KVB,
    KBW,
    VBW,
    AROUTERN,
    AROUTER,
    APREDICT,
    ACORRECT,
    ASCALE,
    LLEFT,
    LRIGHT,
    LNORM,
    DBA,
    LATENTDOWN,
    LATENTUP,
    TLERP,
    TW0,
    TW1,
    TW2,
    TA0,
    TA1,
    TA2,
    TV0,
    TV1,
    TV2,
    TG1,
    TG2,
    TKK,
    TKA,
    TRK,
    TR,
    TK,
    TV,
    TLN,
    TLNB,
    TO,
    CLERP,
    CK,
    CV,
    PARTS
};

static const char *const part_name[PARTS] = {
    "attn_norm.weight",   "attn_norm.bias",   "attn_q.weight",      "attn_q.bias",
    "attn_k.weight",      "attn_k.bias",      "attn_v.weight",      "attn_v.bias",
    "attn_qkv.weight",    "attn_qkv.bias",    "attn_q_norm.weight", "attn_k_norm.weight",
    "attn_output.weight", "attn_output.bias", "ffn_norm.weight",    "ffn_norm.bias",
    "ffn_gate.weight",    "ffn_up.weight",    "ffn_up.bias",        "ffn_down.weight",
    "ffn_down.bias",      "post_attention_norm.weight", "post_ffw_norm.weight",
    "attn_norm_2.weight", "attn_norm_2.bias",
    "shortconv.in_proj.weight", "shortconv.conv.weight", "shortconv.out_proj.weight",
    "attn_qkv.weight", "attn_gate.weight", "ssm_alpha.weight", "ssm_beta.weight",
    "ssm_conv1d.weight", "ssm_a", "ssm_dt.bias", "ssm_norm.weight", "ssm_out.weight",
    "post_attention_norm.weight", "post_attention_norm.bias",
    "ffn_gate_inp.weight", "exp_probs_b.bias", "ffn_gate_exps.weight", "ffn_up_exps.weight",
    "ffn_gate_up_exps.weight", "ffn_down_exps.weight", "ffn_gate_shexp.weight",
    "ffn_up_shexp.weight", "ffn_down_shexp.weight", "ffn_gate_inp_shexp.weight",
    "attn_sub_norm.weight", "ffn_sub_norm.weight",
    "attn_q.scale", "attn_k.scale", "attn_v.scale", "attn_output.scale", "ffn_gate.scale",
    "ffn_up.scale", "ffn_down.scale",
    "inp_gate.weight", "proj.weight", "post_norm.weight", "layer_output_scale.weight",
    "ffn_gate_inp.scale", "ffn_down_exps.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight",
    "post_ffw_norm_2.weight",
    "attn_sinks.weight",
    "post_attention_norm",
    "post_ffw_norm",
    "ffn_gate_inp.bias",
    "ffn_gate_exps.bias",
    "ffn_up_exps.bias",
    "ffn_down_exps.bias",
    "ssm_in.weight",
    "ssm_conv1d.bias",
    "ssm_d",
    "ffn_norm",
    "ffn_norm.bias",
    "attn_q_a.weight",
    "attn_q_a_norm.weight",
    "attn_q_b.weight",
    "attn_kv_a_mqa.weight",
    "attn_kv_a_norm.weight",
    "attn_kv_b.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
    "altup_router_norm.weight",
    "altup_router.weight",
    "altup_predict_coef.weight",
    "altup_correct_coef.weight",
    "altup_correct_scale.weight",
    "laurel_l.weight",
    "laurel_r.weight",
    "laurel_post_norm.weight",
    "ssm_ba.weight", "ffn_latent_down.weight", "ffn_latent_up.weight",
    "time_mix_lerp_fused.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight",
    "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_v0.weight",
    "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
    "time_mix_k_k.weight", "time_mix_k_a.weight", "time_mix_r_k.weight",
    "time_mix_receptance.weight", "time_mix_key.weight", "time_mix_value.weight",
    "time_mix_ln.weight", "time_mix_ln.bias", "time_mix_output.weight", "channel_mix_lerp_k.weight",
    "channel_mix_key.weight", "channel_mix_value.weight",
};

static bool is(const struct oracle *o, const char *arch)
{
    return strcmp(o->arch, arch) == 0;
}

/* Whether the architecture is one of a list of names, each with a blank before and after it. */
static bool is_one(const struct oracle *o, const char *names)
{
    char name[24];
    snprintf(name, sizeof name, " %s ", o->arch);
    return strstr(names, name);
}

/* The number ARCH.KEY of the file, or `missing` if the file does not have it. */
static double number(const struct oracle *o, const char *key, double missing)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    double x;
    return v && tft_value_real(v, 0, &x) ? x : missing;
}

static bool flag(const struct oracle *o, const char *key)
{
    char full[96];
    uint64_t is = 0;
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && tft_value_uint(v, 0, &is) && is;
}

/* The largest element of ARCH.attention.head_count_kv: layers without attention have 0. */
static size_t kv_heads(const struct oracle *o)
{
    char full[96];
    snprintf(full, sizeof full, "%s.attention.head_count_kv", o->arch);
    const struct tft_value *v = tft_source_value(o->s, full);
    double most = v ? 0 : (double)o->heads, x;
    for (uint64_t i = 0; v && i < (v->is_array ? v->n : 1); i++)
        most = tft_value_real(v, i, &x) ? fmax(most, x) : most;
    return (size_t)most;
}

/* A tensor of the file as doubles; all zero if the file does not have it. */
static struct matrix tensor(const struct oracle *o, const char *name)
{
    const struct tft_tensor *t = tft_source_tensor(o->s, name);
    struct matrix m = {0};
    if (!t)
        return m;
    m.cols = (size_t)t->ne[0];
    m.rows = (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
    size_t n = m.rows * m.cols;
    float *f = malloc(n * sizeof *f);
    m.w = malloc(n * sizeof *m.w);
    tft_dtype_info(t->type)->to_f32(f, t->data, n);
    for (size_t i = 0; i < n; i++)
        m.w[i] = (double)f[i];
    free(f);
    return m;
}

/* Whether ARCH.KEY of the file is this text. */
static bool text_is(const struct oracle *o, const char *key, const char *text)
{
    char full[96];
    struct tft_str s;
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && tft_value_str(v, &s) && tft_str_is(s, text);
}

/* Element l of the array ARCH.KEY. */
static double element(const struct oracle *o, const char *key, size_t l)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    double x = 0;
    tft_value_real(v, v->is_array ? l : 0, &x);
    return x;
}

/* Whether ARCH.KEY is an array. */
static bool has_array(const struct oracle *o, const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", o->arch, key);
    const struct tft_value *v = tft_source_value(o->s, full);
    return v && v->is_array;
}

/* Tokens that layer l attends to; 0: all. */
static size_t window_of(const struct oracle *o, size_t l)
{
    if (is_one(o, " granite_swa mellum mimo2 spark2_5 ") &&
        has_array(o, "attention.sliding_window_pattern"))
        return element(o, "attention.sliding_window_pattern", l) != 0
                   ? (size_t)number(o, "attention.sliding_window", 0)
                   : 0;
    if (is_one(o, " llama phi3 qwen2 starcoder2 ")) { /* all layers, or none */
        double size = number(o, "attention.sliding_window", 0);
        return size < number(o, "context_length", 0) ? (size_t)size : 0;
    }
    if (is(o, "smallthinker"))
        return l % 4 != 0 ? (size_t)number(o, "attention.sliding_window", 0) : 0;
    if (is_one(o, " gemma4 gemma3n "))
        return element(o, "attention.sliding_window_pattern", l) != 0
                   ? (size_t)number(o, "attention.sliding_window", 0)
                   : 0;
    if (is(o, "lfm2") || is(o, "lfm2moe")) /* all layers with attention */
        return (size_t)number(o, "attention.sliding_window", 0);
    double window = number(o, "attention.sliding_window", is(o, "gemma2") ? 4096 : 0),
           usual = is_one(o, " gemma2 gpt-oss ") ? 2
                   : is(o, "gemma3")             ? 6
                   : is(o, "plamo3")             ? 8
                                                 : 4;
    size_t period = (size_t)number(o, "attention.sliding_window_pattern", usual);
    bool has = is_one(o, " gemma2 gemma3 olmo2 exaone4 cohere2 gpt-oss plamo3 mellum "
                         "granite_swa afmoe ");
    return has && (l + 1) % period != 0 ? (size_t)window : 0;
}

/* Factors of embeddings, halves, logits and scores. If a file of minicpm has none, they are the
   paper's. */
static void factors(struct oracle *o)
{
    double usual = 1 / sqrt((double)o->dim);
    o->e = o->r = o->l = 1;
    o->a = usual;
    o->amplitude = number(o, "rope.scaling.attn_factor", 1);
    if (strncmp(o->arch, "gemma", 5) == 0 || is(o, "afmoe"))
        o->e = sqrt((double)o->d);
    if (is(o, "gemma2")) {
        o->score_cap = number(o, "attn_logit_softcapping", 50);
        o->logit_cap = number(o, "final_logit_softcapping", 30);
    }
    if (is_one(o, " gemma4 gemma3n ")) {
        o->a = 1;
        o->logit_cap = number(o, "final_logit_softcapping", is(o, "gemma4") ? 0 : 30);
    }
    double f = o->linear, m = number(o, "rope.scaling.yarn_log_multiplier", 0);
    o->yarn = text_is(o, "rope.scaling.type", "yarn");
    if (o->yarn && !(is(o, "olmo2") && number(o, "rope.scaling.attn_factor", 0) > 0))
        o->amplitude *= (1 + 0.1 * log(f)) / (1 + 0.1 * m * log(f));
    o->bound = number(o, "attention.clamp_kqv", 0);
    if (is_one(o, " cohere2 command-r "))
        o->l = number(o, "logit_scale", 1);
    if (is_one(o, " granite granitemoe granite_swa granitehybrid ")) {
        o->e = number(o, "embedding_scale", 1);
        o->r = number(o, "residual_scale", 1);
        o->l = 1 / number(o, "logit_scale", 1);
        o->a = number(o, "attention.scale", usual);
    }
    if (is(o, "minicpm")) {
        o->e = number(o, "embedding_scale", 12);
        o->r = number(o, "residual_scale", 1.4 / sqrt((double)o->layers));
        o->l = 1 / number(o, "logit_scale", (double)o->d / 256);
    }
    if (is(o, "minicpm3")) {
        o->e = 12;
        o->r = 1.4 / sqrt((double)o->layers);
        o->l = 256 / (double)o->d;
    }
    if (o->rank)
        o->a = 1 / sqrt((double)o->key);
    if (o->rank && o->yarn && m > 0) { /* m is a tenth of the file's mscale_all_dim */
        o->amplitude = number(o, "rope.scaling.attn_factor", 1);
        o->a *= pow(1 + m * log(f), 2);
    }
    if (o->a == 0)
        o->a = usual;
    if (strncmp(o->arch, "granite", 7) == 0 && number(o, "rope.scaling.finetuned", 1) == 0)
        o->rot = 0;
}

/* Of the frequencies of RoPE: the ones for long sessions, as if the session had the whole
   context. */
static double *divisors(const struct oracle *o)
{
    double *w = tensor(o, "rope_freqs.weight").w, n_ctx = number(o, "context_length", 0);
    bool is_long = n_ctx > number(o, "rope.scaling.original_context_length", n_ctx);
    return w ? w : tensor(o, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight").w;
}

/* bitnet: each matrix times its factor, where the file has it. */
static void multiply_factors(struct oracle *o)
{
    static const enum part of[][2] = {{QW, QF},     {KW, KF}, {VW, VF},    {OW, OF},
                                      {GATE, GATEF}, {UP, UPF}, {DOWN, DOWNF}};
    for (size_t l = 0; l < o->layers; l++)
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            struct matrix *w = o->layer + l * PARTS;
            const double *factor = w[of[i][1]].w;
            for (size_t k = 0; factor && k < w[of[i][0]].rows * w[of[i][0]].cols; k++)
                w[of[i][0]].w[k] *= *factor;
        }
}

struct oracle *oracle_open(const struct tft_source *s, uint32_t capacity)
{
    struct oracle *o = calloc(1, sizeof *o);
    struct tft_str arch;
    o->s = s;
    if (!tft_value_str(tft_source_value(s, "general.architecture"), &arch) ||
        arch.n >= sizeof o->arch) {
        free(o);
        return NULL;
    }
    memcpy(o->arch, arch.p, arch.n);
    o->d = (size_t)number(o, "embedding_length", 0);
    o->layers = (size_t)(number(o, "block_count", 0) - number(o, "nextn_predict_layers", 0));
    o->blocks = o->layers;
    o->layers *= (size_t)number(o, "num_loops", 1); /* rounds of the same blocks */
    o->heads = (size_t)number(o, "attention.head_count", 0);
    o->kv_heads = kv_heads(o);
    o->dim = (size_t)number(o, "attention.key_length",
                            o->heads ? (double)o->d / (double)o->heads : 0);
    o->rot = (size_t)number(o, "rope.dimension_count", (double)o->dim);
    o->eps = number(o, "attention.layer_norm_rms_epsilon",
                    number(o, "attention.layer_norm_epsilon", 0));
    o->base = number(o, "rope.freq_base", 10000);
    o->linear = number(o, "rope.scaling.factor", 1);
    o->capacity = capacity;
    o->rank = (size_t)number(o, "attention.kv_lora_rank", 0);
    if (o->rank) { /* its cache has c and the shared key */
        o->key = (size_t)number(o, "attention.key_length_mla", (double)o->dim);
        o->value = (size_t)number(o, "attention.value_length_mla",
                                  (double)o->d / (double)o->heads);
        o->dim = o->rank + o->rot;
        o->kv_heads = 1;
    }
    factors(o);

    o->embed = tensor(o, "token_embd.weight");
    o->positions = tensor(o, "position_embd.weight");
    o->out = tensor(o, "output.weight");
    o->vocab = o->embed.rows;
    o->out_w = tensor(o, strncmp(o->arch, "lfm2", 4) == 0 ? "token_embd_norm.weight"
                                                          : "output_norm.weight").w;
    o->out_b = tensor(o, "output_norm.bias").w;
    o->out_bias = tensor(o, "output.bias").w;
    o->freq_div = divisors(o);
    o->layer = calloc(o->layers * PARTS, sizeof *o->layer);
    for (size_t l = 0; l < o->layers; l++)
        for (size_t i = 0; i < PARTS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%zu.%s", l % o->blocks, part_name[i]);
            o->layer[l * PARTS + i] = tensor(o, name);
        }
    multiply_factors(o);
    o->own_embed = tensor(o, "per_layer_token_embd.weight");
    o->own_proj = tensor(o, "per_layer_model_proj.weight");
    o->begin = tensor(o, "altup_proj.weight");
    o->end = tensor(o, "altup_unembd_proj.weight");
    o->own_norm = tensor(o, "per_layer_proj_norm.weight").w;
    size_t kv = o->layers * capacity * o->kv_heads * o->dim;
    o->k = malloc(kv * sizeof *o->k);
    o->v = malloc(kv * sizeof *o->v);
    o->kheads = (size_t)number(o, "ssm.group_count", 0);
    o->vheads = (size_t)number(o, "ssm.time_step_rank", 0);
    o->sdim = (size_t)number(o, "ssm.state_size", 0);
    o->wide = 2 * o->kheads * o->sdim + (size_t)number(o, "ssm.inner_size", 0);
    o->wide = o->d > o->wide ? o->d : o->wide;
    o->past = malloc(o->layers * capacity * o->wide * sizeof *o->past);
    size_t rwkv = is(o, "rwkv7") ? o->d * (2 + (size_t)number(o, "wkv.head_size", 0)) : 0;
    o->states =
        calloc(o->layers * ((size_t)number(o, "ssm.inner_size", 0) * o->sdim + rwkv) + 1,
               sizeof *o->states);
    o->logits = malloc(o->vocab * sizeof *o->logits);
    o->hidden = malloc(o->d * sizeof *o->hidden);
    return o;
}

void oracle_close(struct oracle *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->layers * PARTS; i++)
        free(o->layer[i].w);
    double *const all[] = {o->embed.w,     o->positions.w, o->out.w,    o->out_w,
                           o->out_b,       o->freq_div,    o->k,        o->v,
                           o->past,        o->states,      o->logits,   o->hidden,
                           o->own_embed.w, o->own_proj.w,  o->own_norm, o->out_bias,
                           o->begin.w,     o->end.w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(o->layer);
    free(o);
}

const double *oracle_hidden(const struct oracle *o) { return o->hidden; }

uint32_t oracle_vocab(const struct oracle *o)
{
    return (uint32_t)o->vocab;
}

/* y: [rows] = m x + bias */
static void product(double *y, struct matrix m, const double *x, const double *bias)
{
    for (size_t r = 0; r < m.rows; r++) {
        y[r] = bias ? bias[r] : 0;
        for (size_t c = 0; c < m.cols; c++)
            y[r] += m.w[r * m.cols + c] * x[c];
    }
}

static void rms(double *y, const double *x, const double *w, size_t n, double eps)
{
    double ss = 0;
    for (size_t i = 0; i < n; i++)
        ss += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(ss / (double)n + eps) * w[i];
}

/* w: NULL, or the factors; b: NULL, or the addition */
static void layernorm(double *y, const double *x, const double *w, const double *b, size_t n,
                      double eps)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) / sqrt(var + eps) * (w ? w[i] : 1) + (b ? b[i] : 0);
}

static void norm(const struct oracle *o, double *y, const double *x, const double *w,
                 const double *b)
{
    if (b || is_one(o, " cohere2 command-r olmo ")) /* LayerNorm without a bias, or a gain */
        layernorm(y, x, w, b, o->d, o->eps);
    else if (w)
        rms(y, x, w, o->d, o->eps);
    else
        memcpy(y, x, o->d * sizeof *y);
}

/* The frequency of pair i by YaRN, f without it: pairs that turn fast within the original context
   stay, slow ones are divided. */
static double yarn(const struct oracle *o, size_t i, double f)
{
    double n_ctx = number(o, "rope.scaling.original_context_length", 0), edge[2];
    for (int k = 0; k < 2; k++) {
        double turns = number(o, k ? "rope.scaling.yarn_beta_slow" : "rope.scaling.yarn_beta_fast",
                              k ? 1 : 32);
        edge[k] = (double)o->rot * log(n_ctx / (turns * 2 * 3.14159265358979323846)) /
                  (2 * log(o->base));
    }
    double low = fmax(0, floor(edge[0])), high = fmin((double)o->rot - 1, ceil(edge[1]));
    double slow = fmin(1, fmax(0, ((double)i - low) / fmax(0.001, high - low)));
    return f * (1 - slow) + f / o->linear * slow;
}

static void rotate(const struct oracle *o, size_t l, double *head)
{
    bool neighbours = strncmp(o->arch, "granite", 7) == 0 ||
                      is_one(o, " llama nanbeige minicpm smollm3 ernie4_5 mistral3 internlm2 glm4 "
                                "maincoder cohere2 command-r arcee ernie4_5-moe olmo deepseek2 ");
    /* another base in windows */
    bool gemma = is_one(o, " gemma3 gemma4 gemma3n plamo3 mimo2 spark2_5 "),
        plain = window_of(o, l) && (gemma || is_one(o, " olmo2 mellum "));
    double base = plain && gemma ? number(o, "rope.freq_base_swa", 10000) : o->base;
    size_t rot = o->rot;
    if (plain && is_one(o, " gemma4 spark2_5 "))
        rot = (size_t)number(o, "rope.dimension_count_swa", 0);
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

/* gemma4, once more: attention in which each head has its cache. */
static void layer_attention(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t dim = window_of(o, l) ? (size_t)number(o, "attention.key_length_swa", (double)o->dim)
                                 : o->dim,
           groups = (size_t)element(o, "attention.head_count_kv", l), first = 0, from = l,
           most = o->kv_heads * o->dim, share = o->heads / groups;
    size_t shared = (size_t)number(o, "attention.shared_kv_layers", 0);
    double *q = malloc(o->heads * dim * sizeof *q), *out = calloc(o->heads * dim, sizeof *out),
           *y = malloc(o->d * sizeof *y), *p = malloc((o->pos + 1) * sizeof *p),
           *one = malloc(dim * sizeof *one);
    for (size_t i = 0; i < dim; i++)
        one[i] = 1;
    if (l >= o->layers - shared) /* the last layer of its kind that is not among them */
        for (size_t i = 0; i < o->layers - shared; i++)
            if (!window_of(o, i) == !window_of(o, l))
                from = i;
    double *k = o->k + from * o->capacity * most, *v = o->v + from * o->capacity * most;
    if (from == l) {
        product(k + o->pos * most, w[KW], h, NULL);
        product(v + o->pos * most, w[VW].w ? w[VW] : w[KW], h, NULL);
    }
    for (size_t g = 0; g < groups && from == l; g++) {
        rms(k + o->pos * most + g * dim, k + o->pos * most + g * dim, w[KN].w, dim, o->eps);
        rms(v + o->pos * most + g * dim, v + o->pos * most + g * dim, one, dim, o->eps);
        rotate(o, l, k + o->pos * most + g * dim);
    }
    product(q, w[QW], h, NULL);
    if (window_of(o, l) && o->pos >= window_of(o, l))
        first = o->pos + 1 - window_of(o, l);
    for (size_t a = 0; a < o->heads; a++) {
        double sum = 0;
        rms(q + a * dim, q + a * dim, w[QN].w, dim, o->eps);
        rotate(o, l, q + a * dim);
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
    product(y, w[OW], out, NULL);
    rms(y, y, w[POST1].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        x[i] += y[i];
    free(q);
    free(out);
    free(y);
    free(p);
    free(one);
}

static double gelu(double x);

/* gemma4, gemma3n: y = rms(W (gelu(Wgate x) * p)), p of the token's embedding x0 and of the table;
   nothing without per-layer embeddings */
static void layer_embedding(struct oracle *o, size_t l, const double *x, const double *x0,
                            int32_t token, double *y)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = w[PGATE].rows;
    double *p = malloc((2 * n + 1) * sizeof *p), *g = p + n;
    struct matrix rows = {n ? o->own_proj.w + l * n * o->d : NULL, n, o->d};
    product(p, rows, x0, NULL);
    for (size_t i = 0; i < n; i++)
        p[i] /= sqrt((double)o->d);
    if (n) {
        rms(p, p, o->own_norm, n, o->eps);
        product(g, w[PGATE], x, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] += sqrt((double)n) * o->own_embed.w[(size_t)token * o->own_embed.cols + l * n + i];
        g[i] = gelu(g[i]) * p[i] / sqrt(2);
    }
    if (n) {
        product(y, w[PPROJ], g, NULL);
        rms(y, y, w[PNORM].w, o->d, o->eps);
    }
    free(p);
}

/* gemma4: x += the layer's embedding; then x times the layer's factor. */
static void layer_end(struct oracle *o, size_t l, double *x, const double *x0, int32_t token)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *y = calloc(o->d, sizeof *y);
    layer_embedding(o, l, x, x0, token, y);
    for (size_t i = 0; i < o->d; i++)
        x[i] = (x[i] + y[i]) * (w[PSCALE].w ? w[PSCALE].w[0] : 1);
    free(y);
}

static void attend(const struct oracle *o, size_t layer, const double *q, double *out)
{
    size_t width = o->kv_heads * o->dim;
    size_t window = window_of(o, layer),
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

/* x += r y, with y normalised where there is a gain */
static void add(const struct oracle *o, double *x, double *y, const double *gain)
{
    if (gain)
        rms(y, y, gain, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        x[i] += o->r * y[i];
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Whether layer l rotates queries and keys. */
static bool rotates(const struct oracle *o, size_t l)
{
    if (is(o, "granite_swa") && has_array(o, "attention.rope_pattern"))
        return element(o, "attention.rope_pattern", l) != 0;
    bool windows = number(o, "attention.sliding_window", 0) > 0;
    bool global = is_one(o, " exaone4 cohere2 smallthinker afmoe ") && windows && !window_of(o, l);
    return !is_one(o, " gpt2 nemotron_h nemotron_h_moe ") &&
           !(is(o, "smollm3") && l % 4 == 3) && !global;
}

static bool is_qwen35(const struct oracle *o) { return is_one(o, " qwen35 qwen35moe qwen3next "); }

/* post_attention_norm is the norm before feed-forward. */
static bool norm_is_before(const struct oracle *o)
{
    return is_one(o, " qwen35 qwen35moe qwen3next seed_oss gpt-oss ");
}

static void attention_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t nq = o->heads * o->dim, nkv = o->kv_heads * o->dim,
           slot = (l * o->capacity + o->pos) * nkv;
    double *q = malloc((nq + 2 * nkv) * sizeof *q), *a = malloc(nq * sizeof *a),
           *y = malloc(o->d * sizeof *y), *z = malloc(2 * nq * sizeof *z),
           *gate = malloc(nq * sizeof *gate);
    double *k = q + nq, *v = k + nkv;
    if (is_qwen35(o)) { /* rows of q and of a gate in turns, head by head */
        product(z, w[QW], h, NULL);
        for (size_t i = 0; i < nq; i++) {
            size_t at = i / o->dim * 2 * o->dim + i % o->dim;
            q[i] = z[at];
            gate[i] = z[at + o->dim];
        }
        product(k, w[KW], h, NULL);
        product(v, w[VW], h, NULL);
    } else if (w[QKV].w) {
        product(q, w[QKV], h, w[QKVB].w);
    } else {
        product(q, w[QW], h, w[QB].w);
        product(k, w[KW], h, w[KB].w);
        product(v, w[VW], h, w[VB].w);
    }
    for (size_t i = 0; i < nq + 2 * nkv && o->bound > 0; i++)
        q[i] = fmin(fmax(q[i], -o->bound), o->bound);
    bool whole = is(o, "olmo2") || is(o, "olmoe");
    if (whole) {
        rms(q, q, w[QN].w, nq, o->eps);
        rms(k, k, w[KN].w, nkv, o->eps);
    }
    bool own = is(o, "stablelm") && w[QN].w; /* a LayerNorm of each head, without a bias */
    for (size_t i = 0; i < nq + nkv && own; i += o->dim)
        layernorm(q + i, q + i, i < nq ? w[QN].w + i : w[KN].w + i - nq, NULL, o->dim, o->eps);
    for (size_t i = 0; i < nq + nkv; i += o->dim) {
        const double *gain = i < nq ? w[QN].w : w[KN].w;
        bool heads = gain && !whole && !own,
             late = is_one(o, " hunyuan-dense hunyuan-moe maincoder ");
        if (heads && !late)
            rms(q + i, q + i, gain, o->dim, o->eps);
        if (rotates(o, l))
            rotate(o, l, q + i);
        if (heads && late)
            rms(q + i, q + i, gain, o->dim, o->eps);
    }
    double grow = is(o, "mistral3") ? number(o, "attention.temperature_scale", 0) : 0,
           original = number(o, "rope.scaling.original_context_length", 1);
    for (size_t i = 0; i < nq; i++)
        q[i] *= 1 + grow * log(1 + floor((double)o->pos / original));
    memcpy(o->k + slot, k, nkv * sizeof *k);
    memcpy(o->v + slot, v, nkv * sizeof *v);
    attend(o, l, q, a);
    for (size_t i = 0; i < nq && is_qwen35(o); i++)
        a[i] *= sigmoid(gate[i]);
    bool head_gate = is(o, "spark2_5");
    if (is(o, "afmoe") || head_gate)
        product(gate, w[DZ], h, NULL);
    for (size_t i = 0; i < nq && (is(o, "afmoe") || head_gate); i++)
        a[i] *= sigmoid(gate[head_gate ? i / o->dim : i]);
    if (w[SUBNORM1].w)
        rms(a, a, w[SUBNORM1].w, nq, o->eps);
    product(y, w[OW], a, w[OB].w);
    add(o, x, y, norm_is_before(o) ? NULL : w[POST1].w ? w[POST1].w : w[POST1S].w);
    free(z);
    free(gate);
    free(q);
    free(a);
    free(y);
}

/* mimo2: values shorter than keys, and KV heads by layer. */
static void short_value_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t dim = o->dim, n = (size_t)number(o, "attention.value_length", 0),
           window = window_of(o, l), kv = (size_t)element(o, "attention.head_count_kv", l),
           width = o->kv_heads * dim,
           first = window && o->pos >= window ? o->pos - window + 1 : 0;
    double *q = malloc(w[QKV].rows * sizeof *q), *k = q + o->heads * dim, *v = k + kv * dim,
           *a = calloc(o->heads * n, sizeof *a), *y = malloc(o->d * sizeof *y),
           *p = malloc((o->pos + 1) * sizeof *p), *keys = o->k + l * o->capacity * width,
           *values = o->v + l * o->capacity * width;
    product(q, w[QKV], h, NULL);
    for (size_t i = 0; i < o->heads + kv; i++)
        rotate(o, l, q + i * dim);
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
    product(y, w[OW], a, NULL);
    for (size_t i = 0; i < o->d; i++)
        x[i] += number(o, "attention.value_scale", 1) * y[i];
    free(q);
    free(a);
    free(y);
    free(p);
}

/* Number `i` of head h's key (without the rotated numbers), or value, of the token with c. */
static double latent_key(const struct oracle *o, const struct matrix *w, size_t h, size_t i,
                         const double *c)
{
    size_t nope = o->key - o->rot;
    double sum = 0;
    for (size_t r = 0; r < o->rank; r++)
        sum += c[r] * (w[KVB].w ? w[KVB].w[(h * (nope + o->value) + i) * o->rank + r]
                                : w[KBW].w[(h * o->rank + r) * nope + i]);
    return sum;
}

static double latent_value(const struct oracle *o, const struct matrix *w, size_t h, size_t i,
                           const double *c)
{
    size_t nope = o->key - o->rot;
    double sum = 0;
    for (size_t r = 0; r < o->rank; r++)
        sum += c[r] * (w[KVB].w ? w[KVB].w[(h * (nope + o->value) + nope + i) * o->rank + r]
                                : w[VBW].w[(h * o->value + i) * o->rank + r]);
    return sum;
}

/* deepseek2, minicpm3: out = the values of head h, mixed. q: [key], rotated; p: scratch [pos + 1] */
static void latent_head(const struct oracle *o, size_t l, size_t h, const double *q, double *p,
                        double *out)
{
    const struct matrix *w = o->layer + l * PARTS;
    const double *past = o->k + l * o->capacity * o->dim;
    size_t nope = o->key - o->rot;
    double sum = 0, max = -INFINITY;
    for (size_t t = 0; t <= o->pos; t++) {
        const double *c = past + t * o->dim;
        p[t] = 0;
        for (size_t i = 0; i < nope; i++)
            p[t] += q[i] * latent_key(o, w, h, i, c);
        for (size_t i = 0; i < o->rot; i++)
            p[t] += q[nope + i] * c[o->rank + i];
        p[t] *= o->a;
        max = fmax(max, p[t]);
    }
    for (size_t t = 0; t <= o->pos; t++)
        sum += p[t] = exp(p[t] - max);
    for (size_t i = 0; i < o->value; i++) {
        out[i] = 0;
        for (size_t t = 0; t <= o->pos; t++)
            out[i] += p[t] / sum * latent_value(o, w, h, i, past + t * o->dim);
    }
}

static void latent_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *q = malloc(o->heads * o->key * sizeof *q), *a = malloc(o->heads * o->value * sizeof *a),
           *z = malloc((w[QA].rows + 1) * sizeof *z), *y = malloc(o->d * sizeof *y),
           *p = malloc((o->pos + 1) * sizeof *p),
           *c = o->k + (l * o->capacity + o->pos) * o->dim;
    if (w[QA].w) {
        product(z, w[QA], h, NULL);
        rms(z, z, w[QAN].w, w[QA].rows, o->eps);
        product(q, w[QBW], z, NULL);
    } else {
        product(q, w[QW], h, NULL);
    }
    product(c, w[KVA], h, NULL);
    rms(c, c, w[KVN].w, o->rank, o->eps);
    rotate(o, l, c + o->rank);
    for (size_t i = 0; i < o->heads; i++) {
        rotate(o, l, q + (i + 1) * o->key - o->rot);
        latent_head(o, l, i, q + i * o->key, p, a + i * o->value);
    }
    product(y, w[OW], a, NULL);
    add(o, x, y, NULL);
    free(q);
    free(a);
    free(z);
    free(y);
    free(p);
}

/* The channel `i` of a convolution over the last tokens; x: its input now. w: [channels, taps] */
static double conv(struct oracle *o, size_t l, struct matrix w, size_t i, double x)
{
    double sum = 0, *past = o->past + l * o->capacity * o->wide;
    past[o->pos * o->wide + i] = x;
    for (size_t back = 0; back < w.cols && back <= o->pos; back++)
        sum += w.w[i * w.cols + w.cols - 1 - back] * past[(o->pos - back) * o->wide + i];
    return sum;
}

static void unit(double *x, size_t n, double eps, double length)
{
    double sum = eps;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        x[i] *= length / sqrt(sum);
}

/* One step of the state S: [E, E] of a head: Yang et al. 2024, eq. 10. */
static void delta_step(double *s, const double *q, const double *k, const double *v, double *y,
                       double decay, double beta, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double held = 0;
        for (size_t i = 0; i < n; i++)
            held += k[i] * decay * s[i * n + j];
        y[j] = 0;
        for (size_t i = 0; i < n; i++) {
            s[i * n + j] = decay * s[i * n + j] + k[i] * beta * (v[j] - held);
            y[j] += q[i] * s[i * n + j];
        }
    }
}

/* qwen35: a gated delta net. Head j of the values uses head j mod kheads of the keys; in qwen3next,
   neighbours use the same. */
static void delta_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = o->sdim, keys = o->kheads * n, values = o->vheads * n, channels = 2 * keys + values,
           of_one = o->vheads / o->kheads;
    double *m = malloc(channels * sizeof *m), *z = malloc(values * sizeof *z),
           *gate = malloc(2 * o->vheads * sizeof *gate), *y = malloc(values * sizeof *y),
           *out = malloc(o->d * sizeof *out);
    product(m, w[DQKV], h, NULL);
    if (w[DBA].w) { /* qwen3next: of each head of keys, beta of its heads of values, then alpha */
        product(z, w[DBA], h, NULL);
        for (size_t j = 0; j < 2 * o->vheads; j++) {
            size_t group = j / (2 * of_one), i = j % (2 * of_one);
            gate[group * of_one + i % of_one + (i < of_one ? o->vheads : 0)] = z[j];
        }
    } else {
        product(gate, w[DALPHA], h, NULL);
        product(gate + o->vheads, w[DBETA], h, NULL);
    }
    product(z, w[DZ], h, NULL);
    for (size_t i = 0; i < channels; i++) {
        double c = conv(o, l, w[DCONV], i, m[i]);
        m[i] = c * sigmoid(c);
    }
    for (size_t i = 0; i < o->kheads; i++) {
        unit(m + i * n, n, o->eps, 1 / sqrt((double)n));
        unit(m + keys + i * n, n, o->eps, 1);
    }
    for (size_t j = 0; j < o->vheads; j++) {
        size_t key = (w[DBA].w ? j / of_one : j % o->kheads) * n;
        double decay = exp(w[DA].w[j] * log(1 + exp(gate[j] + w[DBIAS].w[j])));
        delta_step(o->states + (l * o->vheads + j) * n * n, m + key, m + keys + key,
                   m + 2 * keys + j * n, y + j * n, decay, sigmoid(gate[o->vheads + j]), n);
        rms(y + j * n, y + j * n, w[DNORM].w, n, o->eps);
    }
    for (size_t i = 0; i < values; i++)
        y[i] *= z[i] * sigmoid(z[i]);
    product(out, w[DOUT], y, NULL);
    add(o, x, out, NULL);
    free(m);
    free(z);
    free(gate);
    free(y);
    free(out);
}

/* Mamba-2: Dao & Gu 2024. Group i of the heads shares vectors b and c. */
static void mamba_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = o->sdim, width = w[DOUT].cols, dim = width / o->vheads, groups = o->kheads,
           channels = width + 2 * groups * n, each = width / groups;
    double *z = malloc(w[MIN].rows * sizeof *z), *m = z + width, *gate = m + channels,
           *y = malloc(o->d * sizeof *y);
    product(z, w[MIN], h, NULL);
    for (size_t i = 0; i < channels; i++) {
        double c = conv(o, l, w[DCONV], i, m[i]) + w[MCONVB].w[i];
        m[i] = c * sigmoid(c);
    }
    for (size_t j = 0; j < o->vheads; j++) {
        double step = log(1 + exp(gate[j] + w[DBIAS].w[j])), decay = exp(w[DA].w[j] * step);
        const double *b = m + width + j * groups / o->vheads * n, *c = b + groups * n;
        for (size_t k = j * dim; k < (j + 1) * dim; k++) {
            double *s = o->states + (l * width + k) * n, out = w[MSKIP].w[j] * m[k];
            for (size_t i = 0; i < n; i++) {
                s[i] = decay * s[i] + step * m[k] * b[i];
                out += c[i] * s[i];
            }
            m[k] = out * z[k] * sigmoid(z[k]);
        }
    }
    for (size_t i = 0; i < width && w[DNORM].w; i += each)
        rms(m + i, m + i, w[DNORM].w + i, each, o->eps);
    product(y, w[DOUT], m, NULL);
    add(o, x, y, NULL);
    free(z);
    free(y);
}

/* lfm2: x += Wout (c * sum over k of conv[k] (b * u of the token k before)) */
static void conv_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t d = o->d;
    double *p = malloc(3 * d * sizeof *p), *y = malloc(d * sizeof *y), *b = p, *c = p + d,
           *u = p + 2 * d;
    product(p, w[CONV_IN], h, NULL);
    for (size_t i = 0; i < d; i++)
        c[i] *= conv(o, l, w[CONV], i, b[i] * u[i]);
    product(y, w[CONV_OUT], c, NULL);
    add(o, x, y, NULL);
    free(p);
    free(y);
}

/* The function of hidden activations without a gate. */
static double plain(const struct oracle *o, size_t l, double u)
{
    if (is_one(o, " arcee nemotron nemotron_h nemotron_h_moe "))
        return fmax(0, u) * fmax(0, u);
    if (!is(o, "apertus"))
        return gelu(u);
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
    double mean = 0, var = 0, c = element(o, "activation_sparsity_scale", l);
    for (size_t i = 0; i < n; i++)
        mean += g[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (g[i] - mean) * (g[i] - mean) / ((double)n - 1);
    for (size_t i = 0; i < n && c > 0; i++)
        g[i] = fmax(0, g[i] - mean - c * sqrt(var));
}

static void mlp_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t ff = w[DOWN].cols;
    double *u = malloc(2 * ff * sizeof *u), *g = malloc(ff * sizeof *g),
           *y = malloc(o->d * sizeof *y);
    bool fused = is_one(o, " phi3 glm4 plamo3 "), relu2 = text_is(o, "hidden_activation", "relu2");
    product(u, w[UP], h, w[UPB].w);
    if (fused) { /* the gate's rows come first */
        memcpy(g, u, ff * sizeof *g);
        memcpy(u, u + ff, ff * sizeof *u);
    } else if (w[GATE].w) {
        product(g, w[GATE], h, NULL);
    }
    if (is(o, "gemma3n"))
        keep_largest(o, l, g, ff);
    for (size_t i = 0; i < ff; i++)
        u[i] = !w[GATE].w && !fused                ? plain(o, l, u[i])
               : strncmp(o->arch, "gemma", 5) == 0 || is(o, "spark2_5") ? u[i] * gelu(g[i])
               : relu2                             ? u[i] * fmax(0, g[i]) * fmax(0, g[i])
                                                   : u[i] * g[i] / (1 + exp(-g[i]));
    if (w[SUBNORM2].w)
        rms(u, u, w[SUBNORM2].w, ff, o->eps);
    product(y, w[DOWN], u, w[DOWNB].w);
    add(o, x, y, w[w[POSTD].w ? POSTD : w[POST2].w ? POST2 : POST2S].w);
    free(u);
    free(g);
    free(y);
}

/* The hidden activation of gate g and up u. */
static double gated(const struct oracle *o, double g, double u)
{
    double a = fmin(g, 7);
    if (is(o, "gpt-oss"))
        return a * sigmoid(1.702 * a) * (fmin(fmax(u, -7), 7) + 1);
    return u * (is(o, "gemma4") ? gelu(g) : is(o, "smallthinker") ? fmax(0, g) : g / (1 + exp(-g)));
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
    product(a, g, h, bias ? bias[0].w + e * n : NULL);
    product(a + n, u, h, bias ? bias[1].w + e * n : NULL);
    for (size_t i = 0; i < n; i++)
        a[i] = has_gate ? gated(o, a[i], a[n + i]) : plain(o, 0, a[n + i]);
    product(one, w, a, bias ? bias[2].w + e * d : NULL);
    for (size_t i = 0; i < d; i++)
        y[i] += weight * one[i];
    free(a);
    free(one);
}

/* Which weights are divided by their sum. Files of some may say otherwise. */
static bool renormalised(const struct oracle *o)
{
    const struct tft_value *v = NULL;
    if (is_one(o, " bailingmoe2 dots1 afmoe deepseek2 ")) {
        char key[96];
        snprintf(key, sizeof key, "%s.expert_weights_norm", o->arch);
        v = tft_source_value(o->s, key);
    }
    if (v)
        return *v->data;
    return is_one(o, " llama qwen3moe granitemoe lfm2moe gemma4 qwen35moe hunyuan-moe ernie4_5-moe "
                     "bailingmoe2 dots1 mellum granite_swa smallthinker afmoe granitehybrid "
                     "nemotron_h_moe qwen3next mimo2 ");
}

/* Takes out the experts of all groups but those with the largest sums of two ranks. */
static void leave_groups(const struct oracle *o, double *rank, size_t n)
{
    size_t groups = (size_t)number(o, "expert_group_count", 1), of_one = n / groups,
           used = (size_t)number(o, "expert_group_used_count", 1);
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
    size_t n = w[ROUTER].rows, used = (size_t)number(o, "expert_used_count", 0), chosen[32];
    double *p = malloc(2 * n * sizeof *p), *rank = p + n, sum = 0, all = 0,
           scale = number(o, "expert_weights_scale", 1);
    bool after = is(o, "gpt-oss"); /* softmax of the chosen scores is that of all, renormalised */
    product(p, w[ROUTER], r, w[ROUTERBIAS].w);
    for (size_t e = 0; e < n; e++)
        all += exp(p[e]);
    for (size_t e = 0; e < n; e++) {
        p[e] = number(o, "expert_gating_func", 1) == 2 ? 1 / (1 + exp(-p[e])) : exp(p[e]) / all;
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

/* r: what the router reads */
static void mixture_block(struct oracle *o, size_t l, double *x, const double *r, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS, none = {0};
    double *y = calloc(o->d, sizeof *y), gate = 0;
    bool fused = w[SUP].rows > w[SDOWN].cols; /* else without SGATE there is no gate */
    if (w[LATENTDOWN].w) { /* the experts have a width of their own */
        size_t n = w[LATENTDOWN].rows;
        double *in = calloc(2 * n, sizeof *in), *sum = in + n;
        product(in, w[LATENTDOWN], h, NULL);
        add_experts(o, l, sum, r, in);
        product(y, w[LATENTUP], sum, NULL);
        free(in);
    } else {
        add_experts(o, l, y, r, h);
    }
    if (w[SGATEW].w)
        product(&gate, w[SGATEW], h, NULL);
    if (w[SUP].w)
        add_expert(o, y, w[SGATEW].w ? 1 / (1 + exp(-gate)) : 1, w[fused ? SUP : SGATE],
                   fused ? none : w[SUP], w[SDOWN], 0, h, o->d, NULL);
    add(o, x, y, w[POST2].w);
    free(y);
}

/* gemma4: feed-forward of h and experts side by side, each with norms of its own. */
static void beside_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *y = calloc(4 * o->d, sizeof *y), *r = y + o->d, *in = r + o->d, *sum = in + o->d;
    rms(r, x, w[RSCALE].w, o->d, o->eps);
    rms(in, x, w[NORME].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        r[i] /= sqrt((double)o->d);
    add_experts(o, l, sum, r, in);
    rms(sum, sum, w[POSTE].w, o->d, o->eps);
    mlp_block(o, l, y, h);
    for (size_t i = 0; i < o->d; i++)
        y[i] += sum[i];
    add(o, x, y, w[POST2].w);
    free(y);
}

/* ---- gemma3n: streams are [n, d] */

static size_t streams(const struct oracle *o) { return o->begin.rows / o->d + 1; }

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* y = matrix i of `all` times x, as long as `as`. */
static void stream_of(const struct oracle *o, struct matrix all, size_t i, const double *x,
                      const double *as, double *y)
{
    struct matrix one = {all.w + i * o->d * o->d, o->d, o->d};
    product(y, one, x, NULL);
    double factor = length(as, o->d) / length(y, o->d);
    for (size_t k = 0; k < o->d; k++)
        y[k] *= factor;
}

/* m: [n] */
static void modalities(const struct oracle *o, const struct matrix *w, const double *x, double *m)
{
    double *r = malloc(o->d * sizeof *r);
    rms(r, x, w[AROUTERN].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        r[i] /= (double)o->d;
    product(m, w[AROUTER], r, NULL);
    for (size_t i = 0; i < w[AROUTER].rows; i++)
        m[i] = tanh(m[i]);
    free(r);
}

static void altup_layer(struct oracle *o, size_t l, double *x, const double *x0, int32_t token)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t d = o->d, n = streams(o);
    double *p = malloc(n * d * sizeof *p), *h = malloc(4 * d * sizeof *h), *y = h + d,
           *lau = y + d, *z = lau + d, *low = malloc(w[LLEFT].rows * sizeof *low), m[8], c[64];
    modalities(o, w, x, m);
    product(c, w[APREDICT], m, NULL);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++) {
            p[i * d + k] = x[i * d + k];
            for (size_t j = 0; j < n; j++)
                p[i * d + k] += c[i * n + j] * x[j * d + k];
        }
    rms(h, p, w[NORM1].w, d, o->eps);
    product(low, w[LLEFT], h, NULL);
    product(lau, w[LRIGHT], low, NULL);
    rms(lau, lau, w[LNORM].w, d, o->eps);
    memcpy(y, p, d * sizeof *y);
    layer_attention(o, l, y, h);
    for (size_t k = 0; k < d; k++)
        y[k] = (y[k] + h[k] + lau[k]) / sqrt(2);
    rms(h, y, w[NORM2].w, d, o->eps);
    mlp_block(o, l, y, h);
    modalities(o, w, y, m);
    product(c, w[ACORRECT], m, NULL);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++)
            x[i * d + k] = p[i * d + k] + (y[k] - p[k]) * (c[i] + 1);
    for (size_t k = 0; k < d; k++)
        h[k] = x[k] * w[ASCALE].w[k];
    layer_embedding(o, l, h, x0, token, z);
    for (size_t i = d; i < n * d; i++)
        x[i] += z[i % d];
    free(p);
    free(h);
    free(low);
}

/* x = the output of all layers, of the embedding x0. */
static void altup_layers(struct oracle *o, double *x, const double *x0, int32_t token)
{
    size_t d = o->d, n = streams(o);
    double *all = malloc((n + 1) * d * sizeof *all), *y = all + n * d;
    memcpy(all, x0, d * sizeof *all);
    for (size_t i = 1; i < n; i++)
        stream_of(o, o->begin, i - 1, x0, x0, all + i * d);
    for (size_t l = 0; l < o->layers; l++)
        altup_layer(o, l, all, x0, token);
    memcpy(x, all, d * sizeof *x);
    for (size_t i = 1; i < n; i++) {
        stream_of(o, o->end, i - 1, all + i * d, all, y);
        for (size_t k = 0; k < d; k++)
            x[k] += y[k];
    }
    for (size_t k = 0; k < d; k++)
        x[k] /= (double)n;
    free(all);
}

/* ---- RWKV-7: Peng et al. 2025. A state is h of the last token, twice, then S [d, E], a row for
   each number of a value. */

/* y = h + (last - h) * w */
static void shifted(const struct oracle *o, double *y, const double *h, const double *last,
                    const double *w)
{
    for (size_t i = 0; i < o->d; i++)
        y[i] = h[i] + (last[i] - h[i]) * w[i];
}

/* y = W2 f(W1 x) + bias; f: 't' tanh, 's' sigmoid, or nothing */
static void two_steps(double *y, struct matrix one, struct matrix two, const double *bias,
                      const double *x, char f)
{
    double *low = malloc(one.rows * sizeof *low);
    product(low, one, x, NULL);
    for (size_t i = 0; i < one.rows; i++)
        low[i] = f == 't' ? tanh(low[i]) : f == 's' ? sigmoid(low[i]) : low[i];
    product(y, two, low, bias);
    free(low);
}

/* Head j: y = its output. r, w, k, v, a: [d] */
static void rwkv_head(const struct oracle *o, const struct matrix *part, size_t j, double *s,
                      const double *r, const double *w, const double *k, const double *v,
                      const double *a, double *y)
{
    size_t n = (size_t)number(o, "wkv.head_size", 0), at = j * n;
    double *c = malloc(2 * n * sizeof *c), *kk = c + n, bonus = 0;
    for (size_t i = 0; i < n; i++) {
        c[i] = k[at + i] * part[TKK].w[at + i];
        kk[i] = k[at + i] * (1 + (a[at + i] - 1) * part[TKA].w[at + i]);
        bonus += r[at + i] * kk[i] * part[TRK].w[at + i];
    }
    double size = length(c, n);
    for (size_t i = 0; i < n; i++)
        c[i] /= size;
    for (size_t q = 0; q < n; q++) {
        double *row = s + (at + q) * n, forget = 0;
        for (size_t i = 0; i < n; i++)
            forget += row[i] * c[i];
        y[at + q] = 0;
        for (size_t i = 0; i < n; i++) {
            row[i] = row[i] * w[at + i] - forget * c[i] * a[at + i] + v[at + q] * kk[i];
            y[at + q] += row[i] * r[at + i];
        }
    }
    layernorm(y + at, y + at, part[TLN].w + at, part[TLNB].w + at, n, 64e-5);
    for (size_t i = 0; i < n; i++)
        y[at + i] += v[at + i] * bonus;
    free(c);
}

/* x += the time mixing of h; first: [d] values of layer 0 */
static void time_mix(const struct oracle *o, size_t l, double *x, const double *h, double *state,
                     double *first)
{
    const struct matrix *part = o->layer + l * PARTS;
    size_t d = o->d, n = (size_t)number(o, "wkv.head_size", 0);
    double *in = malloc(8 * d * sizeof *in), *r = in + d, *w = r + d, *k = w + d, *v = k + d,
           *a = v + d, *g = a + d, *y = g + d, *m = part[TLERP].w;
    shifted(o, in, h, state, m);
    product(r, part[TR], in, NULL);
    shifted(o, in, h, state, m + d);
    two_steps(w, part[TW1], part[TW2], part[TW0].w, in, 't');
    shifted(o, in, h, state, m + 2 * d);
    product(k, part[TK], in, NULL);
    shifted(o, in, h, state, m + 3 * d);
    product(v, part[TV], in, NULL);
    two_steps(y, part[TV1], part[TV2], part[TV0].w, in, 0);
    for (size_t i = 0; i < d && l; i++)
        v[i] += (first[i] - v[i]) * sigmoid(y[i]);
    if (!l)
        memcpy(first, v, d * sizeof *v);
    shifted(o, in, h, state, m + 4 * d);
    two_steps(a, part[TA1], part[TA2], part[TA0].w, in, 0);
    shifted(o, in, h, state, m + 5 * d);
    two_steps(g, part[TG1], part[TG2], NULL, in, 's');
    for (size_t i = 0; i < d; i++) {
        w[i] = exp(-exp(-0.5) * sigmoid(w[i]));
        a[i] = sigmoid(a[i]);
    }
    for (size_t j = 0; j < d / n; j++)
        rwkv_head(o, part, j, state + 2 * d, r, w, k, v, a, y);
    for (size_t i = 0; i < d; i++)
        y[i] *= g[i];
    product(in, part[TO], y, NULL);
    for (size_t i = 0; i < d; i++)
        x[i] += in[i];
    memcpy(state, h, d * sizeof *h);
    free(in);
}

static void channel_mix(const struct oracle *o, size_t l, double *x, const double *h,
                        double *state)
{
    const struct matrix *part = o->layer + l * PARTS;
    size_t d = o->d, ff = part[CK].rows;
    double *in = malloc((2 * d + ff) * sizeof *in), *y = in + d, *u = y + d;
    shifted(o, in, h, state, part[CLERP].w);
    product(u, part[CK], in, NULL);
    for (size_t i = 0; i < ff; i++)
        u[i] = fmax(0, u[i]) * fmax(0, u[i]);
    product(y, part[CV], u, NULL);
    for (size_t i = 0; i < d; i++)
        x[i] += y[i];
    memcpy(state, h, d * sizeof *h);
    free(in);
}

static void rwkv_layers(const struct oracle *o, double *x)
{
    size_t d = o->d, all = d * (2 + (size_t)number(o, "wkv.head_size", 0));
    double *h = malloc(2 * d * sizeof *h), *first = h + d;
    struct matrix w = tensor(o, "token_embd_norm.weight"), b = tensor(o, "token_embd_norm.bias");
    layernorm(x, x, w.w, b.w, d, o->eps);
    for (size_t l = 0; l < o->layers; l++) {
        const struct matrix *part = o->layer + l * PARTS;
        double *state = o->states + l * all;
        layernorm(h, x, part[NORM1].w, part[NORM1B].w, d, o->eps);
        time_mix(o, l, x, h, state, first);
        layernorm(h, x, part[NORM_2].w, part[NORM_2B].w, d, o->eps);
        channel_mix(o, l, x, h, state + d);
    }
    free(h);
    free(w.w);
    free(b.w);
}

const double *oracle_step(struct oracle *o, int32_t token)
{
    double *x = malloc(o->d * sizeof *x), *h = malloc(o->d * sizeof *h),
           *g = malloc(o->d * sizeof *g), *x0 = malloc(o->d * sizeof *x0),
           *raw = malloc(o->d * sizeof *raw);
    for (size_t i = 0; i < o->d; i++)
        x[i] = o->e * o->embed.w[(size_t)token * o->d + i] +
               (o->positions.w ? o->positions.w[o->pos * o->d + i] : 0);
    memcpy(x0, x, o->d * sizeof *x);
    bool whole = is_one(o, " gemma3n rwkv7 ");
    if (is(o, "gemma3n"))
        altup_layers(o, x, x0, token);
    if (is(o, "rwkv7"))
        rwkv_layers(o, x);
    for (size_t l = 0; l < o->layers && !whole; l++) {
        const struct matrix *w = o->layer + l * PARTS;
        if (l && l % o->blocks == 0 && !flag(o, "skip_loop_final_norm"))
            norm(o, x, x, o->out_w, NULL);
        bool one = is_one(o, " falcon cohere2 command-r phi2 nemotron_h nemotron_h_moe mamba2 ") ||
                   (is(o, "stablelm") && !w[NORM2].w),
             parallel = one || (is(o, "gptneox") && number(o, "use_parallel_residual", 1) != 0);
        enum part first = w[NORM_2].w ? NORM_2 : NORM1,
                  second = one ? NORM1 : norm_is_before(o) ? NORM2P : w[NORM2S].w ? NORM2S : NORM2;
        memcpy(raw, x, o->d * sizeof *raw);
        norm(o, h, x, w[first].w, w[first + 1].w);
        if (parallel)
            norm(o, g, x, w[second].w, w[second + 1].w);
        if (w[MIN].w)
            mamba_block(o, l, x, h);
        if (w[CONV].w)
            conv_block(o, l, x, h);
        else if (w[DALPHA].w || w[DBA].w)
            delta_block(o, l, x, h);
        else if (is(o, "gemma4"))
            layer_attention(o, l, x, h);
        else if (is(o, "mimo2"))
            short_value_block(o, l, x, h);
        else if (w[KVA].w)
            latent_block(o, l, x, h);
        else if (w[QW].w || w[QKV].w)
            attention_block(o, l, x, h);
        if (!parallel)
            norm(o, g, x, w[second].w, w[second + 1].w);
        if (w[RSCALE].w)
            beside_block(o, l, x, g);
        else if (w[ROUTER].w)
            mixture_block(o, l, x, is(o, "smallthinker") ? raw : g, g);
        else if (w[DOWN].w)
            mlp_block(o, l, x, g);
        if (is(o, "gemma4"))
            layer_end(o, l, x, x0, token);
    }
    norm(o, h, x, o->out_w, o->out_b);
    memcpy(o->hidden, h, o->d * sizeof *h);
    product(o->logits, o->out.w ? o->out : o->embed, h, o->out_bias);
    for (size_t i = 0; i < o->vocab; i++)
        o->logits[i] = o->logit_cap > 0 ? o->logit_cap * tanh(o->logits[i] * o->l / o->logit_cap)
                                        : o->logits[i] * o->l;
    o->pos++;
    free(x);
    free(h);
    free(g);
    free(x0);
    free(raw);
    return o->logits;
}
