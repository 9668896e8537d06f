/*
 * Encoders: each token sees all tokens of its text. BERT (Devlin et al. 2019, arXiv 1810.04805,
 * section 3) and its kin have norms after the halves of a block (Vaswani et al. 2017, section 5.4):
 *
 *      x = layernorm(embed[token] + embed_type[type] + embed_pos[position])
 *      per layer:
 *          q, k, v = Wq x + bq, Wk x + bk, Wv x + bv
 *          x = layernorm(x + Wo attend(q, K, V) + bo)
 *          x = layernorm(x + Wdown gelu(Wup x + bup) + bdown)
 *      hidden vectors = x
 *
 * GELU is the tanh form, or erf if the file has tuffet.gelu.
 */
#ifndef TFT_ENCODER_H
#define TFT_ENCODER_H

#include "run/ops.h"

/* What the embedding has beside token_embd: token_types, where the file has it, and the norm
   token_embd_norm; and tuffet.gelu. bias: of the norm. */
void tft_encoder_embedding(struct tft_load *ld, bool bias);

/* tuffet.gelu alone. */
void tft_encoder_gelu(struct tft_load *ld);

/* For struct tft_transformer.block: the norms after the halves of a block. */
void tft_encoder_post_norms(struct tft_load *ld, unsigned layer);

/* A whole load of BERT's kin, without positions. */
void tft_encoder_load(struct tft_load *ld);

/* The block above, with RoPE where the model has it, with a gate by SiLU or with experts where the
   block has them. */
void tft_encoder_layer(struct tft_pass *p, uint32_t l);

/* GELU as the file has it. */
static inline enum tft_activation tft_encoder_activation(const struct tft_model *m)
{
    return m->gelu_erf ? TFT_GELU_ERF : TFT_GELU;
}

#endif
