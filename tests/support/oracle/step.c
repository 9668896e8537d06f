#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double *oracle_step(struct oracle *o, int32_t token)
{
    double *x = malloc(o->d * sizeof *x), *h = malloc(o->d * sizeof *h),
           *g = malloc(o->d * sizeof *g), *x0 = malloc(o->d * sizeof *x0),
           *raw = malloc(o->d * sizeof *raw);
    for (size_t i = 0; i < o->d; i++)
        x[i] = o->e * o->embed.w[(size_t)token * o->d + i] +
               (o->positions.w ? o->positions.w[o->pos * o->d + i] : 0);
    memcpy(x0, x, o->d * sizeof *x);
    bool whole = oracle_is_one(o, " gemma3n rwkv7 ");
    if (oracle_is(o, "gemma3n"))
        oracle_altup_layers(o, x, x0, token);
    if (oracle_is(o, "rwkv7"))
        oracle_rwkv_layers(o, x);
    for (size_t l = 0; l < o->layers && !whole; l++) {
        const struct matrix *w = o->layer + l * PARTS;
        if (l && l % o->blocks == 0 && !oracle_flag(o, "skip_loop_final_norm"))
            oracle_norm(o, x, x, o->out_w, NULL);
        bool one = oracle_is_one(
                       o, " falcon cohere2 command-r phi2 nemotron_h nemotron_h_moe mamba2 ") ||
                   (oracle_is(o, "stablelm") && !w[NORM2].w),
             parallel = one || (oracle_is(o, "gptneox") &&
                                oracle_number(o, "use_parallel_residual", 1) != 0);
        enum part first = w[NORM_2].w ? NORM_2 : NORM1, second = one                        ? NORM1
                                                                 : oracle_norm_is_before(o) ? NORM2P
                                                                 : w[NORM2S].w              ? NORM2S
                                                                                            : NORM2;
        memcpy(raw, x, o->d * sizeof *raw);
        oracle_norm(o, h, x, w[first].w, w[first + 1].w);
        if (parallel)
            oracle_norm(o, g, x, w[second].w, w[second + 1].w);
        if (w[MIN].w)
            oracle_mamba_block(o, l, x, h);
        if (w[CONV].w)
            oracle_conv_block(o, l, x, h);
        else if (w[DALPHA].w || w[DBA].w)
            oracle_delta_block(o, l, x, h);
        else if (oracle_is(o, "gemma4"))
            oracle_layer_attention(o, l, x, h);
        else if (oracle_is(o, "mimo2"))
            oracle_short_value_block(o, l, x, h);
        else if (w[KVA].w)
            oracle_latent_block(o, l, x, h);
        else if (w[QW].w || w[QKV].w)
            oracle_attention_block(o, l, x, h);
        if (!parallel)
            oracle_norm(o, g, x, w[second].w, w[second + 1].w);
        if (w[RSCALE].w)
            oracle_beside_block(o, l, x, g);
        else if (w[ROUTER].w)
            oracle_mixture_block(o, l, x, oracle_is(o, "smallthinker") ? raw : g, g);
        else if (w[DOWN].w)
            oracle_mlp_block(o, l, x, g);
        if (oracle_is(o, "gemma4"))
            oracle_layer_end(o, l, x, x0, token);
    }
    oracle_norm(o, h, x, o->out_w, o->out_b);
    memcpy(o->hidden, h, o->d * sizeof *h);
    oracle_product(o->logits, o->out.w ? o->out : o->embed, h, o->out_bias);
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
