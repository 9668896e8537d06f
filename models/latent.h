/*
 * Multi-head latent attention: DeepSeek-V2 (arXiv 2405.04434, section 2.1). Keys and values of all
 * H heads are made of one vector c of `rank` numbers, and of one key of `rot` numbers that all
 * heads share and that alone is rotated:
 *
 *      q = Wqb (rms(Wqa h) g_q)            or q = Wq h; per head q_n [nope], q_r [rot]
 *      c, k = Wkva h;  c = rms(c) g        [rank], [rot]
 *      k_i = (Kb_i^T c, rot(k)), v_i = Vb_i c                              of head i
 *      a_i = softmax(s (q_n, rot(q_r)).k_i) v_i,  s = 1 / sqrt(nope + rot)
 *      Wo (a_1, ..., a_H)
 *
 * A head's matrices move to its query and to its output ("absorbed", section 2.1.2 there), so the
 * cache has c and rot(k) alone. That is attention with one KV head of rot + rank numbers:
 *
 *      queries (rot(q_r), Kb_i q_n), keys (rot(k), c), values (0, c);  a_i = Vb_i (the mix's last
 *      rank numbers)
 *
 * A file has Kb and Vb in attn_k_b, [H, rank, nope], and attn_v_b, [H, v, rank], or both in
 * attn_kv_b, [H (nope + v), rank]. In W8A8 files Wqb, Kb and Vb stay as they are.
 */
#ifndef TFT_LATENT_H
#define TFT_LATENT_H

#include "model/model.h"

/* Reads the numbers of heads: attention.q_lora_rank, kv_lora_rank, key_length_mla, value_length_mla
   and rope.dimension_count. Without key_length_mla, key_length and value_length are of heads, as in
   older files. Comes after tft_load_shape. */
void tft_latent_shape(struct tft_load *ld);

/* Loads the mixer of a layer: tft_transformer.mixer. */
bool tft_latent_load(struct tft_load *ld, unsigned layer);

/* The layer with latent attention, and with a mixture of experts or feed-forward. */
void tft_latent_layer(struct tft_pass *p, uint32_t l);

#endif
