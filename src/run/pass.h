/*
 * One pass of tokens through a model, and the operations an architecture's forward() is written in.
 *
 * forward() runs on every thread of the team at once, each with its own tft_pass. An operation does
 * this thread's share of the work - by rows of a matrix, by tokens, by heads - and waits for the
 * others only where it must: each names the buffers it reads and writes, and a barrier is inserted
 * when one of them was touched since the last barrier in a way that conflicts. All threads see the
 * same sequence, so they agree without talking.
 */
#ifndef TFT_PASS_H
#define TFT_PASS_H

#include "model/model.h"

/* Activations, one row per token of the pass; f32. Those that feed linear layers, H, A and G, are
   bytes where the weights are. */
enum tft_buf {
    TFT_X,      /* [D] the residual stream */
    TFT_H,      /* [D] normalised */
    TFT_Q,      /* [H E] */
    TFT_K,      /* [G E] */
    TFT_V,      /* [G E] */
    TFT_A,      /* [H E] attention's output */
    TFT_G,      /* [F] the hidden activations */
    TFT_U,      /* [F] up */
    TFT_LOGITS, /* [V], only for the tokens that tft_keep_last keeps */
    TFT_N_BUF,
    TFT_KV = TFT_N_BUF, /* the cache, the rotation tables and attention's parts: */
    TFT_ROPE,           /* shared too, though no rows of tokens */
    TFT_PARTS,
};

struct tft_pass {
    const struct tft_device *on; /* NULL; or what operations are queued on instead of done. Then
                                    there is one thread. */
    const struct tft_model *m;
    struct tft_session *s;
    int tid, n_threads;
    const int32_t *tokens; /* [n] */
    uint32_t n;            /* tokens in the pass */
    uint32_t pos;          /* position of the first */
    uint32_t keep;         /* of the last ones the logits are wanted, of this many at most */
    uint32_t first;        /* operations work on tokens first .. n - 1 */
    uint32_t each; /* 0: the tokens are one sequence. Or they are n / each, all from position pos
                      on, and sequence i has its keys and values where those of layer i would be:
                      for tools, that run one layer at a time. */
    unsigned read, written; /* buffers touched since the last barrier, a bit each */
    unsigned by_head;       /* of those written: by the heads that tft_pass_share gives each thread,
                               which so may go on with its own */
    const struct tft_input *tapped; /* the last one that s->tap was shown */
};

/* Everything from the tokens to the logits: embedding, layers, last norm, head. Or, of a model with
   a device, what comes before its layers. */
void tft_forward(struct tft_pass *p);

/* What comes behind the layers: logits of X. */
void tft_head(struct tft_pass *p);

/* Fills the rotation tables for the positions of the pass. Comes first where a layer is run by
   itself. */
void tft_pass_positions(struct tft_pass *p);

/* X = embedding of the tokens, plus the embedding of their positions where the model has one. */
void tft_embed(struct tft_pass *p);

/* H = norm(X) in the form that linear layer l takes: LayerNorm where w has a bias, else RMSNorm. */
void tft_norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l);

/* Q, K, V = Wq H + bq, Wk H + bk, Wv H + bv */
void tft_qkv(struct tft_pass *p, const struct tft_block *b);

/* Each head of Q and K by itself, in place, with the block's q_norm and k_norm. */
void tft_rmsnorm_heads(struct tft_pass *p, const struct tft_block *b);

/* Rotates the heads of Q and K by their tokens' positions. */
void tft_rope(struct tft_pass *p);

/* Stores K and V of the tokens in layer `layer` of the cache. Where tokens of the pass are to be
   quantized before others come, tft_attend stores those. */
void tft_kv_append(struct tft_pass *p, uint32_t layer);

/* A = softmax(Q K^T / sqrt(E)) V over the cache, each token seeing positions up to its own, in the
   form that o takes. */
void tft_attend(struct tft_pass *p, uint32_t layer, const struct tft_linear *o);

/* G = silu(Wgate H) * Wup H;  G = gelu(Wup H): in the form that down takes. */
void tft_swiglu(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up,
                const struct tft_linear *down);
void tft_gelu(struct tft_pass *p, const struct tft_linear *up, const struct tft_linear *down);

/* to += W from + bias. from: A or G. */
void tft_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                    enum tft_buf from);

/* From here on only the tokens whose logits are wanted. Put it where the cache of the last layer
   has been written. */
void tft_keep_last(struct tft_pass *p);

/* ---- for the operations themselves */

/* Stores K and V of the chunk's tokens, after those before it have been quantized that are due. */
struct tft_chunk;
void tft_kv_chunk(struct tft_pass *p, uint32_t layer, const struct tft_chunk *c);

/* Barrier if this thread's next reads and writes (bit masks of tft_buf) conflict with anybody's
   since the last one. */
void tft_pass_touch(struct tft_pass *p, unsigned reads, unsigned writes);

/* Where token t is in its sequence. */
uint32_t tft_pass_position(const struct tft_pass *p, uint32_t t);

/* How many numbers a row has. */
static inline uint32_t tft_pass_width(const struct tft_pass *p, enum tft_buf buf)
{
    const struct tft_model *m = p->m;
    switch (buf) {
    case TFT_Q:
    case TFT_A: return m->n_head * m->head_dim;
    case TFT_K:
    case TFT_V: return m->n_head_kv * m->head_dim;
    case TFT_G:
    case TFT_U: return m->n_ff;
    case TFT_LOGITS: return m->n_vocab;
    default: return m->n_embd;
    }
}

enum { TFT_LINE = 16 }; /* floats of a cache line: threads should not write to the same one */

/* How far the next row is, in floats. Logits are the caller's, without gaps. Other rows are an odd
   number of cache lines apart: were it a power of two, the same column of all rows would fall into
   the same few lines of a cache. */
static inline uint32_t tft_pass_stride(const struct tft_pass *p, enum tft_buf buf)
{
    uint32_t width = tft_pass_width(p, buf);
    return buf == TFT_LOGITS ? width : ((width + TFT_LINE - 1) / TFT_LINE | 1) * TFT_LINE;
}

/* In bytes: likewise, and as long as a panel's rows with their padding. */
static inline uint32_t tft_pass_byte_stride(const struct tft_pass *p, enum tft_buf buf)
{
    return ((tft_pass_width(p, buf) + 63) / 64 | 1) * 64;
}

/* Row of token t. */
float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t);
uint8_t *tft_pass_bytes(const struct tft_pass *p, enum tft_buf buf, uint32_t t);

/* Shows s->tap the input of l, unless it has just seen it. */
void tft_pass_tap(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from);

/* The float rows of buf, which are complete, in the form that `in` says. */
void tft_pass_quantize(struct tft_pass *p, enum tft_buf buf, const struct tft_input *in);

/* This thread's share [*begin, *end) of n units. */
void tft_pass_share(const struct tft_pass *p, size_t n, size_t *begin, size_t *end);

#endif
