#include "oracle/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const part_name[PARTS] = {
    "attn_norm.weight",
    "attn_norm.bias",
    "attn_q.weight",
    "attn_q.bias",
    "attn_k.weight",
    "attn_k.bias",
    "attn_v.weight",
    "attn_v.bias",
    "attn_qkv.weight",
    "attn_qkv.bias",
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "attn_output.weight",
    "attn_output.bias",
    "ffn_norm.weight",
    "ffn_norm.bias",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_up.bias",
    "ffn_down.weight",
    "ffn_down.bias",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
    "attn_norm_2.weight",
    "attn_norm_2.bias",
    "shortconv.in_proj.weight",
    "shortconv.conv.weight",
    "shortconv.out_proj.weight",
    "attn_qkv.weight",
    "attn_gate.weight",
    "ssm_alpha.weight",
    "ssm_beta.weight",
    "ssm_conv1d.weight",
    "ssm_a",
    "ssm_dt.bias",
    "ssm_norm.weight",
    "ssm_out.weight",
    "post_attention_norm.weight",
    "post_attention_norm.bias",
    "ffn_gate_inp.weight",
    "exp_probs_b.bias",
    "ffn_gate_exps.weight",
    "ffn_up_exps.weight",
    "ffn_gate_up_exps.weight",
    "ffn_down_exps.weight",
    "ffn_gate_shexp.weight",
    "ffn_up_shexp.weight",
    "ffn_down_shexp.weight",
    "ffn_gate_inp_shexp.weight",
    "attn_sub_norm.weight",
    "ffn_sub_norm.weight",
    "attn_q.scale",
    "attn_k.scale",
    "attn_v.scale",
    "attn_output.scale",
    "ffn_gate.scale",
    "ffn_up.scale",
    "ffn_down.scale",
    "inp_gate.weight",
    "proj.weight",
    "post_norm.weight",
    "layer_output_scale.weight",
    "ffn_gate_inp.scale",
    "ffn_down_exps.scale",
    "pre_ffw_norm_2.weight",
    "post_ffw_norm_1.weight",
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
    "ssm_ba.weight",
    "ffn_latent_down.weight",
    "ffn_latent_up.weight",
    "time_mix_lerp_fused.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_k_k.weight",
    "time_mix_k_a.weight",
    "time_mix_r_k.weight",
    "time_mix_receptance.weight",
    "time_mix_key.weight",
    "time_mix_value.weight",
    "time_mix_ln.weight",
    "time_mix_ln.bias",
    "time_mix_output.weight",
    "channel_mix_lerp_k.weight",
    "channel_mix_key.weight",
    "channel_mix_value.weight",
};

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

/* Factors of embeddings, halves, logits and scores. If a file of minicpm has none, they are the
   paper's. */
static void factors(struct oracle *o)
{
    double usual = 1 / sqrt((double)o->dim);
    o->e = o->r = o->l = 1;
    o->a = usual;
    o->amplitude = oracle_number(o, "rope.scaling.attn_factor", 1);
    if (strncmp(o->arch, "gemma", 5) == 0 || oracle_is(o, "afmoe"))
        o->e = sqrt((double)o->d);
    if (oracle_is(o, "gemma2")) {
        o->score_cap = oracle_number(o, "attn_logit_softcapping", 50);
        o->logit_cap = oracle_number(o, "final_logit_softcapping", 30);
    }
    if (oracle_is_one(o, " gemma4 gemma3n ")) {
        o->a = 1;
        o->logit_cap = oracle_number(o, "final_logit_softcapping", oracle_is(o, "gemma4") ? 0 : 30);
    }
    double f = o->linear, m = oracle_number(o, "rope.scaling.yarn_log_multiplier", 0);
    o->yarn = oracle_text_is(o, "rope.scaling.type", "yarn");
    if (o->yarn && !(oracle_is(o, "olmo2") && oracle_number(o, "rope.scaling.attn_factor", 0) > 0))
        o->amplitude *= (1 + 0.1 * log(f)) / (1 + 0.1 * m * log(f));
    o->bound = oracle_number(o, "attention.clamp_kqv", 0);
    if (oracle_is_one(o, " cohere2 command-r "))
        o->l = oracle_number(o, "logit_scale", 1);
    if (oracle_is_one(o, " granite granitemoe granite_swa granitehybrid ")) {
        o->e = oracle_number(o, "embedding_scale", 1);
        o->r = oracle_number(o, "residual_scale", 1);
        o->l = 1 / oracle_number(o, "logit_scale", 1);
        o->a = oracle_number(o, "attention.scale", usual);
    }
    if (oracle_is(o, "minicpm")) {
        o->e = oracle_number(o, "embedding_scale", 12);
        o->r = oracle_number(o, "residual_scale", 1.4 / sqrt((double)o->layers));
        o->l = 1 / oracle_number(o, "logit_scale", (double)o->d / 256);
    }
    if (oracle_is(o, "minicpm3")) {
        o->e = 12;
        o->r = 1.4 / sqrt((double)o->layers);
        o->l = 256 / (double)o->d;
    }
    if (o->rank)
        o->a = 1 / sqrt((double)o->key);
    if (o->rank && o->yarn && m > 0) { /* m is a tenth of the file's mscale_all_dim */
        o->amplitude = oracle_number(o, "rope.scaling.attn_factor", 1);
        o->a *= pow(1 + m * log(f), 2);
    }
    if (o->a == 0)
        o->a = usual;
    if (strncmp(o->arch, "granite", 7) == 0 && oracle_number(o, "rope.scaling.finetuned", 1) == 0)
        o->rot = 0;
}

/* Of the frequencies of RoPE: the ones for long sessions, as if the session had the whole
   context. */
static double *divisors(const struct oracle *o)
{
    double *w = oracle_tensor(o, "rope_freqs.weight").w,
           n_ctx = oracle_number(o, "context_length", 0);
    bool is_long = n_ctx > oracle_number(o, "rope.scaling.original_context_length", n_ctx);
    return w ? w
             : oracle_tensor(o, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight")
                   .w;
}

/* bitnet: each matrix times its factor, where the file has it. */
static void multiply_factors(struct oracle *o)
{
    static const enum part of[][2] = {{QW, QF},      {KW, KF},  {VW, VF},     {OW, OF},
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
    o->d = (size_t)oracle_number(o, "embedding_length", 0);
    o->layers =
        (size_t)(oracle_number(o, "block_count", 0) - oracle_number(o, "nextn_predict_layers", 0));
    o->blocks = o->layers;
    o->layers *= (size_t)oracle_number(o, "num_loops", 1); /* rounds of the same blocks */
    o->heads = (size_t)oracle_number(o, "attention.head_count", 0);
    o->kv_heads = kv_heads(o);
    o->dim = (size_t)oracle_number(o, "attention.key_length",
                                   o->heads ? (double)o->d / (double)o->heads : 0);
    o->rot = (size_t)oracle_number(o, "rope.dimension_count", (double)o->dim);
    o->eps = oracle_number(o, "attention.layer_norm_rms_epsilon",
                           oracle_number(o, "attention.layer_norm_epsilon", 0));
    o->base = oracle_number(o, "rope.freq_base", 10000);
    o->linear = oracle_number(o, "rope.scaling.factor", 1);
    o->capacity = capacity;
    o->rank = (size_t)oracle_number(o, "attention.kv_lora_rank", 0);
    if (o->rank) { /* its cache has c and the shared key */
        o->key = (size_t)oracle_number(o, "attention.key_length_mla", (double)o->dim);
        o->value =
            (size_t)oracle_number(o, "attention.value_length_mla", (double)o->d / (double)o->heads);
        o->dim = o->rank + o->rot;
        o->kv_heads = 1;
    }
    factors(o);

    o->embed = oracle_tensor(o, "token_embd.weight");
    o->positions = oracle_tensor(o, "position_embd.weight");
    o->out = oracle_tensor(o, "output.weight");
    o->vocab = o->embed.rows;
    o->out_w = oracle_tensor(o, strncmp(o->arch, "lfm2", 4) == 0 ? "token_embd_norm.weight"
                                                                 : "output_norm.weight")
                   .w;
    o->out_b = oracle_tensor(o, "output_norm.bias").w;
    o->out_bias = oracle_tensor(o, "output.bias").w;
    o->freq_div = divisors(o);
    o->layer = calloc(o->layers * PARTS, sizeof *o->layer);
    for (size_t l = 0; l < o->layers; l++)
        for (size_t i = 0; i < PARTS; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%zu.%s", l % o->blocks, part_name[i]);
            o->layer[l * PARTS + i] = oracle_tensor(o, name);
        }
    multiply_factors(o);
    o->own_embed = oracle_tensor(o, "per_layer_token_embd.weight");
    o->own_proj = oracle_tensor(o, "per_layer_model_proj.weight");
    o->begin = oracle_tensor(o, "altup_proj.weight");
    o->end = oracle_tensor(o, "altup_unembd_proj.weight");
    o->own_norm = oracle_tensor(o, "per_layer_proj_norm.weight").w;
    size_t kv = o->layers * capacity * o->kv_heads * o->dim;
    o->k = malloc(kv * sizeof *o->k);
    o->v = malloc(kv * sizeof *o->v);
    o->kheads = (size_t)oracle_number(o, "ssm.group_count", 0);
    o->vheads = (size_t)oracle_number(o, "ssm.time_step_rank", 0);
    o->sdim = (size_t)oracle_number(o, "ssm.state_size", 0);
    o->wide = 2 * o->kheads * o->sdim + (size_t)oracle_number(o, "ssm.inner_size", 0);
    o->wide = o->d > o->wide ? o->d : o->wide;
    o->past = malloc(o->layers * capacity * o->wide * sizeof *o->past);
    size_t rwkv =
        oracle_is(o, "rwkv7") ? o->d * (2 + (size_t)oracle_number(o, "wkv.head_size", 0)) : 0;
    o->states =
        calloc(o->layers * ((size_t)oracle_number(o, "ssm.inner_size", 0) * o->sdim + rwkv) + 1,
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
    double *const all[] = {o->embed.w,  o->positions.w, o->out.w,       o->out_w,      o->out_b,
                           o->freq_div, o->k,           o->v,           o->past,       o->states,
                           o->logits,   o->hidden,      o->own_embed.w, o->own_proj.w, o->own_norm,
                           o->out_bias, o->begin.w,     o->end.w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(o->layer);
    free(o);
}

const double *oracle_hidden(const struct oracle *o) { return o->hidden; }

uint32_t oracle_vocab(const struct oracle *o) { return (uint32_t)o->vocab; }
