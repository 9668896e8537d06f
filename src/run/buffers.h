/* The buffers that a pass computes in: rows of numbers, one row for each token of the pass. */
#ifndef TFT_BUFFERS_H
#define TFT_BUFFERS_H

#include "model/model.h"

/* Rows are f32. TFT_XN, TFT_A, TFT_G, TFT_H, TFT_I, TFT_J and TFT_L are inputs of linear layers:
   bytes where the weights are int8, and both where the weights take bytes in groups
   (TFT_RANGE_GROUPS). Letters are as in model.h: H is the number of heads. Where layers differ in
   size, a row has the numbers of the largest layer, and smaller layers use the first of them. */
enum tft_buf {
    TFT_X,      /* [D] the residual stream. With AltUp the others and a copy follow (altup.h) */
    TFT_XN,     /* [D] the residual stream, normalised */
    TFT_Q,      /* [H E] queries */
    TFT_K,      /* [G E] keys */
    TFT_V,      /* [G E] values */
    TFT_A,      /* [mixed_width] the output of attention, or of another mixer */
    TFT_G,      /* [F] hidden activations: first the gate, or up where there is no gate */
    TFT_U,      /* [F] up, where there is a gate */
    TFT_M,      /* [mixer_width] the projection of a mixer other than attention. In latent attention
                   queries, then attention's mixes [H E] and values [H v_dim]. In RWKV-7 see
                   src/backend/cpu/rwkv.c */
    TFT_R,      /* [D] the residual stream, normalised, for the router of a mixture of experts */
    TFT_E,      /* [experts] the router's scores */
    TFT_H,      /* [F of an expert] hidden activations of a token's experts: a row for each expert
                   of a token, the rows of an expert one after the other (routes.h) */
    TFT_Y,      /* [D] an output that is normalised or scaled before the residual stream gets it */
    TFT_Z,      /* [D] the output of a feed-forward beside experts; or the difference between two
                   tokens of RWKV-7 */
    TFT_P,      /* [n_layer n] per-layer embeddings of the token: models/layer_embed.h */
    TFT_I,      /* [n] the embedding of one layer, times its gate */
    TFT_J,      /* [2 D] the input of a block that predicts a further token: models/predictor.h */
    TFT_L,      /* [q_rank] the vector that queries of latent attention are made of; or [rank] the
                   inner one of Laurel */
    TFT_LOGITS, /* [V] for the tokens that need logits, without gaps */
    TFT_N_BUF,
    /* Not rows of tokens, but threads share them too: see tft_pass_touch. */
    TFT_KV = TFT_N_BUF, /* the cache */
    TFT_ROPE,           /* the rotation tables */
    TFT_PARTS,          /* attention's partial results */
    TFT_STATES,         /* the states of layers that have one */
    TFT_ROUTES,         /* which experts tokens go to */
    TFT_LOW_0,          /* the inner vectors of adapters: model/lora.h */
    TFT_LOW_1,
};

/* Numbers of a row. */
static inline uint32_t tft_buf_width(const struct tft_model *m, enum tft_buf buf)
{
    switch (buf) {
    case TFT_Q: return m->n_head * m->head_dim;
    case TFT_A: return m->mixed_width;
    case TFT_K:
    case TFT_V: return m->n_head_kv * m->head_dim;
    case TFT_G:
    case TFT_U: return m->n_ff;
    case TFT_M: return m->mixer_width;
    case TFT_E: return m->n_expert;
    case TFT_H: return m->n_ff_expert;
    case TFT_P: return m->n_layer * m->layer_embed.n;
    case TFT_I: return m->layer_embed.n;
    case TFT_J: return 2 * m->n_embd;
    case TFT_L: return m->latent.q_rank + m->altup.rank; /* a model has one of them */
    case TFT_X: return (m->altup.n + 1) * m->n_embd;
    case TFT_LOGITS: return m->n_vocab;
    default: return m->n_embd;
    }
}

enum { TFT_LINE = 16 }; /* floats of a cache line: no two threads should write to the same one */

/* From a row of floats to the next, in floats. Rows are an odd number of cache lines apart: were it
   a power of two, the same column of all rows would fall into the same few sets of a cache. Logits
   are the caller's and have no gaps. */
static inline uint32_t tft_buf_stride(const struct tft_model *m, enum tft_buf buf)
{
    uint32_t width = tft_buf_width(m, buf);
    return buf == TFT_LOGITS ? width : ((width + TFT_LINE - 1) / TFT_LINE | 1) * TFT_LINE;
}

/* From a row of bytes to the next, likewise. A row has room for the padding of a panel's rows, or
   for groups (simd/packed.h). */
static inline uint32_t tft_buf_byte_stride(const struct tft_model *m, enum tft_buf buf)
{
    uint32_t width = tft_buf_width(m, buf);
    if (m->group_inputs)
        width = (uint32_t)tft_groups_bytes((width + TFT_STEP_GROUP - 1) / TFT_STEP_GROUP *
                                           TFT_STEP_GROUP);
    return ((width + 63) / 64 | 1) * 64;
}

#endif
