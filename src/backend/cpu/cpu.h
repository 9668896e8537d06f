/*
 * The CPU as a backend: the operations of run/ops.h, shared out over the threads of a team.
 *
 *      rows.c      embedding, norms, rotation; bytes of rows
 *      linear.c    matrix products and the hidden activations
 *      attend.c    the cache and attention over it; split.c where keys and values are apart; span.c
 *                  the work on one span, for both;
 *                  int8.c on one of slots that are bytes
 *      texts.c     attention within whole texts
 *      conv.c      short convolutions; delta.c delta nets; rwkv.c RWKV-7
 *      predict.c   the input of a block that predicts a further token
 *      experts.c   mixtures of experts
 *      ahead.c     reading experts ahead of their use
 *      layer_embed.c  per-layer embeddings
 *      latent.c    latent attention
 *      altup.c     several residual streams
 *      ends.c      counts of bytes at the ends of static ranges
 *      lora.c      adapters beside matrices
 *      cpu.c       the table
 */
#ifndef TFT_CPU_H
#define TFT_CPU_H

#include "run/backend.h"
#include "run/session.h"

extern const struct tft_backend tft_backend_cpu;

/* Mask of a buffer, for tft_pass_touch. */
#define BIT(buf) (1u << (buf))

/* ---- rows.c */

void tft_cpu_embed(struct tft_pass *p);
void tft_cpu_norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l);
void tft_cpu_keep_hidden(struct tft_pass *p);
void tft_cpu_rmsnorm_heads(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_rmsnorm_whole(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_layernorm_heads(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_rope(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_bound_qkv(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_pad_values(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_scale_queries(struct tft_pass *p);

/* Whether each thread makes the one row of `buf` for itself: one token's normalised row takes less
   time than a wait for another thread. Thread tid then has row tid. */
bool tft_cpu_own_row(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in);

/* Applies the norm of `in`, if it has one, to the float rows of `buf`, which are complete. Makes
   bytes of them if `in` has a norm or a dynamic range. */
void tft_cpu_quantize(struct tft_pass *p, enum tft_buf buf, const struct tft_input *in);

void tft_cpu_copy(struct tft_pass *p, enum tft_buf to, enum tft_buf from,
                  const struct tft_linear *l);

/* The operation: that of l->in. */
void tft_cpu_quantize_for(struct tft_pass *p, enum tft_buf from, const struct tft_linear *l);

/* h = norm of the row of token t. */
void tft_cpu_norm_row(const struct tft_pass *p, const struct tft_norm *w, uint32_t t, float *h);

/* Makes bytes of a row of floats, with the row's own range. */
void tft_cpu_quantize_token(const struct tft_pass *p, enum tft_buf buf, uint32_t row,
                            const struct tft_input *in);

/* ---- linear.c */

/* This thread's share of the rows of l. */
void tft_cpu_share_rows(const struct tft_pass *p, const struct tft_linear *l, size_t *begin,
                        size_t *end);

/* Numbers `first` .. first + n - 1 of a row of hidden activations, of the products g with the gate
   and u with up, in the form that `in` has; floats for ranges that are dynamic. `first` is a
   multiple of 64 and of in->hadamard. u: NULL without a gate, g is then of up. g is overwritten. */
void tft_cpu_activate(const struct tft_pass *p, enum tft_activation a, enum tft_buf to,
                      uint32_t row, size_t first, float *g, const float *u, size_t n,
                      const struct tft_input *in);

/* to = W from + bias, or to += the same. */
void tft_cpu_linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                    enum tft_buf from, bool add);

void tft_cpu_qkv(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_gated_qkv(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_delta_gates(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_project(struct tft_pass *p, const struct tft_linear *l);
void tft_cpu_hidden(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                    const struct tft_linear *up, const struct tft_linear *down);
void tft_cpu_sparse_hidden(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                        enum tft_buf from);
void tft_cpu_linear_y(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from);
void tft_cpu_add_y(struct tft_pass *p, const struct tft_norm *w, const float *scale);
void tft_cpu_norm_sum(struct tft_pass *p, const struct tft_norm *w, const struct tft_norm *again);
void tft_cpu_logits(struct tft_pass *p, const struct tft_linear *output);

/* ---- lora.c */

/* Whether the session has an adapter for the matrix of l. */
bool tft_cpu_adapts(const struct tft_pass *p, const struct tft_linear *l);

/* Before a product of l: makes the inner vectors of its adapters in `slot`. Returns the mask of
   their buffer, which the product reads; 0: there are none. */
unsigned tft_cpu_adapt_inner(struct tft_pass *p, unsigned slot, const struct tft_linear *l,
                             enum tft_buf from);

/* y: [n, end - begin] += the adapters' part of rows [begin, end) of l, of tokens [t, t + n). */
void tft_cpu_adapt(const struct tft_pass *p, unsigned slot, const struct tft_linear *l, float *y,
                   size_t ldy, size_t begin, size_t end, uint32_t t, uint32_t n);

/* ---- conv.c */

void tft_cpu_short_conv(struct tft_pass *p, const struct tft_layer *b);

/* ---- predict.c */

void tft_cpu_norm_y(struct tft_pass *p, const struct tft_norm *w);
void tft_cpu_predict_input(struct tft_pass *p);

/* ---- delta.c */

void tft_cpu_delta_net(struct tft_pass *p, const struct tft_layer *b);

/* ---- mamba.c */

void tft_cpu_mamba(struct tft_pass *p, const struct tft_layer *b);

/* ---- rwkv.c */

void tft_cpu_shift(struct tft_pass *p, const struct tft_layer *b, bool channel);
void tft_cpu_lerp(struct tft_pass *p, const float *w, const struct tft_linear *l);
void tft_cpu_time_mix(struct tft_pass *p, const struct tft_layer *b);

/* ---- experts.c */

void tft_cpu_route(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_experts(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a);
void tft_cpu_set_aside(struct tft_pass *p, const struct tft_norm *w);
void tft_cpu_add_aside(struct tft_pass *p, const struct tft_norm *w);

/* ---- ahead.c */

/* The next layer with experts after b, if this pass looks for its likely experts; else NULL. */
const struct tft_layer *tft_cpu_guessed_layer(const struct tft_pass *p, const struct tft_layer *b);

/* Lists the units that the pass wants when the tokens of b are grouped, and asks for the first
   ones. next: as tft_cpu_guessed_layer. For thread 0 of a model with a bound on the memory of
   experts. */
void tft_cpu_want(const struct tft_pass *p, const struct tft_layer *b,
                  const struct tft_layer *next);

/* Asks for this thread's share of the wanted units, as far ahead of unit `used` as the model says.
   *asked: the units that have been asked for, at first `asked` of struct tft_wanted. */
void tft_cpu_ask(const struct tft_pass *p, uint32_t *asked, uint32_t used);

/* ---- layer_embed.c */

void tft_cpu_layer_embed(struct tft_pass *p);
void tft_cpu_embed_gate(struct tft_pass *p, uint32_t layer);

/* ---- latent.c */

void tft_cpu_latent_qkv(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_latent_values(struct tft_pass *p, const struct tft_layer *b);

/* ---- altup.c */

void tft_cpu_altup_begin(struct tft_pass *p);
void tft_cpu_altup_predict(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_laurel(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_laurel_join(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_altup_correct(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_altup_add(struct tft_pass *p, const struct tft_layer *b);
void tft_cpu_altup_end(struct tft_pass *p);

/* ---- ends.c */

/* Whether a session of the pass counts bytes at the ends of static ranges. */
bool tft_cpu_counts_ends(const struct tft_pass *p);

/* Counts such bytes of an input. The rows `from` must be complete and touched for reading. Does
   nothing if the range is not static, if no session counts, or if the input was counted last. */
void tft_cpu_count_ends(struct tft_pass *p, const struct tft_input *in, enum tft_buf from);

/* The same for rows that are not by token, but by tokens' experts (routes.h). */
void tft_cpu_count_pair_ends(const struct tft_pass *p, const struct tft_input *in,
                             enum tft_buf from);

/* ---- attend.c */

void tft_cpu_kv_append(struct tft_pass *p, uint32_t layer);
void tft_cpu_attend(struct tft_pass *p, uint32_t layer);

/* ---- texts.c */

void tft_cpu_attend_texts(struct tft_pass *p, const struct tft_layer *b);

#endif
