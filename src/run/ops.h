/*
 * The operations that an architecture's layer is written in, and the table through which a backend
 * provides them. Operations work on the rows of tokens p->first .. p->n - 1 (buffers.h).
 */
#ifndef TFT_OPS_H
#define TFT_OPS_H

#include "pass.h"

/* The function of hidden activations. */
enum tft_activation {
    TFT_SILU,
    TFT_GELU,
    TFT_RELU2, /* max(x, 0)^2 */
    TFT_RELU,
    TFT_BOUNDED_SWIGLU, /* of gate g and up u: a sigmoid(1.702 a) (c + 1), a = min(g, 7), c = u
                           between -7 and 7: OpenAI 2025 (arXiv 2508.10925, section 2.3) */
    TFT_XIELU,          /* without a gate: struct tft_xielu */
    TFT_GELU_ERF,       /* x (1 + erf(x / sqrt(2))) / 2 */
};

struct tft_ops {
    /* X = embedding of the tokens, plus those of their types and of their positions where the model
       has such, normalised where it has token_norm */
    void (*embed)(struct tft_pass *p);

    /* XN = norm(X) in the form that linear layer l takes: LayerNorm where w has a bias, RMSNorm
       where it has none, X itself where w is empty */
    void (*norm)(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l);

    /* Q, K, V = Wq XN + bq, Wk XN + bk, Wv XN + bv. Without Wv, V = K; without Wk, Q alone */
    void (*qkv)(struct tft_pass *p, const struct tft_layer *b);

    /* RMSNorm of each head of Q and K by itself, in place, with the block's q_norm and k_norm, and
       of V where the block has v_norm */
    void (*rmsnorm_heads)(struct tft_pass *p, const struct tft_layer *b);

    /* RMSNorm of Q over all its heads, LayerNorm where the norm has a bias, and of K likewise, in
       place */
    void (*rmsnorm_whole)(struct tft_pass *p, const struct tft_layer *b);

    /* LayerNorm without a bias of each head of Q and K by itself, with its own gains, in place */
    void (*layernorm_heads)(struct tft_pass *p, const struct tft_layer *b);

    /* Rotates the heads of Q and K by their tokens' positions. A layer with a window has
       frequencies of its own, if the model has such */
    void (*rope)(struct tft_pass *p, const struct tft_layer *b);

    /* Q, K, V = each number between -qkv_bound and qkv_bound of the model */
    void (*bound_qkv)(struct tft_pass *p, const struct tft_layer *b);

    /* V = value_scale V, with zeros after each head's v_dim numbers: V is then as wide as K */
    void (*pad_values)(struct tft_pass *p, const struct tft_layer *b);

    /* Multiplies Q by the factor of its tokens' positions: query_growth of the model */
    void (*scale_queries)(struct tft_pass *p);

    /* Stores K and V of the plan's first chunk in layer `layer` of the cache; attend stores the
       other chunks, each after the one before has attended */
    void (*kv_append)(struct tft_pass *p, uint32_t layer);

    /* A = softmax(cap(attn_scale Q K^T)) V over the cache, each token seeing the positions up to
       its own, or the window of the layer before it, in the form that the block's o takes; times
       the sigmoids of M, where the model has the part OWN_GATE or HEAD_GATE. With SHORT_VALUES, the
       first v_dim numbers of each head */
    void (*attend)(struct tft_pass *p, uint32_t layer);

    /* The same within whole texts, the sequences of the pass, of which nothing stays: each token
       sees all tokens of its text or, in a layer with a window, as many as the half of it, rounded
       down, on each side. Less the slopes of the model times the distance, before the softmax */
    void (*attend_texts)(struct tft_pass *p, const struct tft_layer *b);

    /* For latent attention (models/latent.h). latent_qkv: Q, K, V of XN, to be rotated. attend then
       makes M, not A. latent_values: A = the heads' values of M, in the form that the block's o
       takes */
    void (*latent_qkv)(struct tft_pass *p, const struct tft_layer *b);
    void (*latent_values)(struct tft_pass *p, const struct tft_layer *b);

    /* For AltUp and Laurel (models/altup.h). X is the first stream; begin and end make the others
       of it, and it of all. predict: all streams, and a copy of the first. laurel: Z = the product
       beside attention, of XN. join: X = (norm(Y) + X + Z) / sqrt(2). correct: all streams. add:
       the others += norm(Y) */
    void (*altup_begin)(struct tft_pass *p);
    void (*altup_predict)(struct tft_pass *p, const struct tft_layer *b);
    void (*laurel)(struct tft_pass *p, const struct tft_layer *b);
    void (*laurel_join)(struct tft_pass *p, const struct tft_layer *b);
    void (*altup_correct)(struct tft_pass *p, const struct tft_layer *b);
    void (*altup_add)(struct tft_pass *p, const struct tft_layer *b);
    void (*altup_end)(struct tft_pass *p);

    /* hidden with GELU, of gates of which the smaller ones become 0: `sparsity` of the block */
    void (*sparse_hidden)(struct tft_pass *p, const struct tft_layer *b);

    /* M = W XN + bias */
    void (*project)(struct tft_pass *p, const struct tft_linear *l);

    /* A = the block's short convolution of M (models/short_conv.h), in the form that the block's o
       takes. Takes all tokens of the pass, and moves the state on. */
    void (*short_conv)(struct tft_pass *p, const struct tft_layer *b);

    /* M = Wq XN + bq, queries and gates in turns, head by head; Q = the queries; K, V as qkv. Where
       the model has such gates, attend multiplies A by their sigmoids */
    void (*gated_qkv)(struct tft_pass *p, const struct tft_layer *b);

    /* Q, K, V = Wz XN, Walpha XN, Wbeta XN of a delta net (models/delta_net.h). Without Wbeta, K
       has its numbers, too */
    void (*delta_gates)(struct tft_pass *p, const struct tft_layer *b);

    /* A = the block's delta net of M, Q, K and V, as short_conv */
    void (*delta_net)(struct tft_pass *p, const struct tft_layer *b);

    /* A = the block's Mamba-2 of M (models/mamba.h), as short_conv, in the form that its
       last matrix takes */
    void (*mamba)(struct tft_pass *p, const struct tft_layer *b);

    /* For RWKV-7 (models/rwkv7.c). shift: Z = Y of the token before - Y, and moves the state on;
       channel: of channel mixing, otherwise of time mixing. lerp: XN = Y + w Z, in the form that l
       takes. time_mix: A = time mixing of Y and Z, as short_conv */
    void (*shift)(struct tft_pass *p, const struct tft_layer *b, bool channel);
    void (*lerp)(struct tft_pass *p, const float *w, const struct tft_linear *l);
    void (*time_mix)(struct tft_pass *p, const struct tft_layer *b);

    /* G = a(Wgate XN) * Wup XN, or a(Wup XN) where gate is NULL, in the form that down takes */
    void (*hidden)(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                   const struct tft_linear *up, const struct tft_linear *down);

    /* Gives each token to experts (models/mixture.h), by R = norm(X) and E = Wrouter R */
    void (*route)(struct tft_pass *p, const struct tft_layer *b);

    /* Y = sum of a token's experts of XN, times their weights; a is as in hidden. Where the block
       has a feed-forward of its own that has no norm of its own, Y begins with it, times its
       gate */
    void (*experts)(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a);

    /* For experts beside a feed-forward. set_aside: Z = norm(Y). add_aside: Y = Z + norm(Y) */
    void (*set_aside)(struct tft_pass *p, const struct tft_norm *w);
    void (*add_aside)(struct tft_pass *p, const struct tft_norm *w);

    /* Makes bytes of A or G, the input of l, if the range is dynamic. attend and hidden of the CPU
       end with it */
    void (*quantize)(struct tft_pass *p, enum tft_buf from, const struct tft_linear *l);

    /* to += W from + bias; from is A or G */
    void (*linear_add)(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                       enum tft_buf from);

    /* linear_y: Y = W from + bias. add_y: X = scale * (X + residual_scale * norm(Y)),
       without the norm if w is empty, and without the factor if scale is NULL */
    void (*linear_y)(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from);
    void (*add_y)(struct tft_pass *p, const struct tft_norm *w, const float *scale);

    /* X = norm(X + Y); then, where `again` is not empty, X = again(the same + X as it was) */
    void (*norm_sum)(struct tft_pass *p, const struct tft_norm *w, const struct tft_norm *again);

    /* The first numbers of to, in the form that l takes, = those of from. to is XN, A or X */
    void (*copy)(struct tft_pass *p, enum tft_buf to, enum tft_buf from,
                 const struct tft_linear *l);

    /* layer_embed: P = per-layer embeddings of the tokens, where XN is X (models/layer_embed.h).
       embed_gate: I = the embedding of layer `layer` times the layer's gate of XN, in the form that
       embed_out takes */
    void (*layer_embed)(struct tft_pass *p);
    void (*embed_gate)(struct tft_pass *p, uint32_t layer);

    /* Writes norm(X) of the last n_hidden tokens to their sessions' last_hidden. After it,
       operations work only on tokens that need logits. NULL: the backend does not have it */
    void (*keep_hidden)(struct tft_pass *p);

    /* Y = norm(X), as floats */
    void (*norm_y)(struct tft_pass *p, const struct tft_norm *w);

    /* X = the input of the predictor's layer (models/predictor.h), of tokens whose hidden vectors
       are in Y; in a pass through the predictor alone they are those of p->before */
    void (*predict_input)(struct tft_pass *p);

    /* tft_pass_gather, of a backend with sequences in its passes. (A plug-in has no sequences, and
       cannot call functions of the library.) */
    void (*gather)(struct tft_pass *p);

    /* LOGITS = cap(logit_scale * W XN) */
    void (*logits)(struct tft_pass *p, const struct tft_linear *output);
};

static inline void tft_embed_tokens(struct tft_pass *p)
{
    p->ops->embed(p);
}

static inline void tft_norm(struct tft_pass *p, const struct tft_norm *w,
                            const struct tft_linear *l)
{
    p->ops->norm(p, w, l);
}

/* XN = X in the form that l takes */
static inline void tft_take(struct tft_pass *p, const struct tft_linear *l)
{
    p->ops->norm(p, &(struct tft_norm){0}, l);
}

static inline void tft_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->qkv(p, b);
}

static inline void tft_rmsnorm_heads(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->rmsnorm_heads(p, b);
}

static inline void tft_rmsnorm_whole(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->rmsnorm_whole(p, b);
}

static inline void tft_layernorm_heads(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->layernorm_heads(p, b);
}

static inline void tft_rope(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->rope(p, b);
}

static inline void tft_bound_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->bound_qkv(p, b);
}

static inline void tft_pad_values(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->pad_values(p, b);
}

static inline void tft_scale_queries(struct tft_pass *p) { p->ops->scale_queries(p); }

static inline void tft_kv_append(struct tft_pass *p, uint32_t layer)
{
    p->ops->kv_append(p, layer);
}

static inline void tft_attend(struct tft_pass *p, uint32_t layer)
{
    p->ops->attend(p, layer);
}

static inline void tft_attend_texts(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->attend_texts(p, b);
}

static inline void tft_latent_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->latent_qkv(p, b);
}

static inline void tft_latent_values(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->latent_values(p, b);
}

static inline void tft_altup_begin(struct tft_pass *p)
{
    p->ops->altup_begin(p);
}

static inline void tft_altup_predict(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->altup_predict(p, b);
}

static inline void tft_laurel(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->laurel(p, b);
}

static inline void tft_laurel_join(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->laurel_join(p, b);
}

static inline void tft_altup_correct(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->altup_correct(p, b);
}

static inline void tft_altup_add(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->altup_add(p, b);
}

static inline void tft_altup_end(struct tft_pass *p)
{
    p->ops->altup_end(p);
}

static inline void tft_sparse_hidden(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->sparse_hidden(p, b);
}

static inline void tft_project(struct tft_pass *p, const struct tft_linear *l)
{
    p->ops->project(p, l);
}

static inline void tft_short_conv(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->short_conv(p, b);
}

static inline void tft_gated_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->gated_qkv(p, b);
}

static inline void tft_delta_gates(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->delta_gates(p, b);
}

static inline void tft_delta_net(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->delta_net(p, b);
}

static inline void tft_mamba(struct tft_pass *p, const struct tft_layer *b) { p->ops->mamba(p, b); }

static inline void tft_norm_y(struct tft_pass *p, const struct tft_norm *w)
{
    p->ops->norm_y(p, w);
}

static inline void tft_shift(struct tft_pass *p, const struct tft_layer *b, bool channel)
{
    p->ops->shift(p, b, channel);
}

static inline void tft_lerp(struct tft_pass *p, const float *w, const struct tft_linear *l)
{
    p->ops->lerp(p, w, l);
}

static inline void tft_time_mix(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->time_mix(p, b);
}

static inline void tft_gated(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    p->ops->hidden(p, a, &b->gate, &b->up, &b->down);
}

/* Without a gate. */
static inline void tft_plain(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    p->ops->hidden(p, a, NULL, &b->up, &b->down);
}

static inline void tft_gelu(struct tft_pass *p, const struct tft_layer *b)
{
    tft_plain(p, b, TFT_GELU);
}

static inline void tft_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                                  enum tft_buf from)
{
    p->ops->linear_add(p, to, w, from);
}

static inline void tft_route(struct tft_pass *p, const struct tft_layer *b)
{
    p->ops->route(p, b);
}

static inline void tft_experts(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    p->ops->experts(p, b, a);
}

static inline void tft_set_aside(struct tft_pass *p, const struct tft_norm *w)
{
    p->ops->set_aside(p, w);
}

static inline void tft_add_aside(struct tft_pass *p, const struct tft_norm *w)
{
    p->ops->add_aside(p, w);
}

static inline void tft_copy(struct tft_pass *p, enum tft_buf to, enum tft_buf from,
                            const struct tft_linear *l)
{
    p->ops->copy(p, to, from, l);
}

static inline void tft_linear_y(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from)
{
    p->ops->linear_y(p, l, from);
}

static inline void tft_add_y(struct tft_pass *p, const struct tft_norm *w, const float *scale)
{
    p->ops->add_y(p, w, scale);
}

static inline void tft_norm_sum(struct tft_pass *p, const struct tft_norm *w,
                                const struct tft_norm *again)
{
    p->ops->norm_sum(p, w, again);
}

static inline void tft_layer_embed(struct tft_pass *p)
{
    p->ops->layer_embed(p);
}

static inline void tft_embed_gate(struct tft_pass *p, uint32_t layer)
{
    p->ops->embed_gate(p, layer);
}

static inline void tft_predict_input(struct tft_pass *p)
{
    p->ops->predict_input(p);
}

/* The predictor's logits of X, of the last token; Y = its normalised X, which the next token
   takes as a hidden vector. */
static inline void tft_predict_head(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    p->first = p->n - 1;
    p->ops->norm_y(p, &m->predictor.out);
    tft_norm(p, &m->predictor.out, &m->output);
    p->ops->logits(p, &m->output);
}

/* The logits of X. */
static inline void tft_head(struct tft_pass *p)
{
    tft_norm(p, &p->m->out_norm, &p->m->output);
    p->ops->logits(p, &p->m->output);
}

/* Layers first .. end - 1: the embedding comes before layer 0, the head after the last layer. With
   first = end = n_layer it is the head alone. A predictor comes after the head, and takes the
   tokens into its part of the cache. An encoder has no head: Y = the hidden vectors of all
   tokens. */
static inline void tft_pass_layers(struct tft_pass *p, uint32_t first, uint32_t end)
{
    bool predicts = tft_model_predicts(p->m);
    if (p->before) {
        p->m->arch->predict(p);
        return;
    }
    if (first == 0)
        tft_embed_tokens(p);
    for (uint32_t l = first; l < end; l++)
        p->m->arch->layer(p, l);
    if (end == p->m->n_layer && p->m->encoder) {
        p->ops->norm_y(p, &p->m->out_norm);
    } else if (end == p->m->n_layer) {
        if (predicts)
            p->ops->norm_y(p, &p->m->out_norm);
        if (p->n_hidden)
            p->ops->keep_hidden(p);
        if (p->seq)
            p->ops->gather(p);
        else if (predicts)
            p->first = p->n - p->n_logits;
        tft_head(p);
        if (predicts)
            p->m->arch->predict(p);
    }
}

#endif
