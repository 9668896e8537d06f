/*
 * How most architectures load: the keys and tensors that the files of transformers have. An
 * architecture names here in which its files differ. Its formula is its layer().
 */
#ifndef TFT_TRANSFORMER_H
#define TFT_TRANSFORMER_H

#include "model/model.h"

/* How RoPE pairs the numbers of a head: neighbours, or numbers half of n_rot apart. */
enum tft_rotation { TFT_NO_ROPE, TFT_ROPE_PAIRS, TFT_ROPE_HALVES };

/* RMSNorm of q and k: of each head by itself, or of all heads together. */
enum tft_qk_norm { TFT_NO_QK_NORM, TFT_QK_NORM_HEADS, TFT_QK_NORM_WHOLE };

struct tft_mixture;

/* Factors of granite's formula (models/granite.c). All are values of the file: embedding_scale,
   residual_scale, logit_scale, attention.scale. Missing ones are 1, or: */
struct tft_multipliers {
    float embedding; /* e = embedding; 0: 1 */
    float depth;     /* r = depth / sqrt(n_layer); 0: 1 */
    float width;     /* logits are divided by n_embd / width; 0: by 1 */
};

/* All zero: RMSNorm before each half, biases where the file has them, positions not encoded, a gate
   in feed-forward. */
struct tft_transformer {
    enum tft_rotation rope; /* TFT_NO_ROPE: none, or the architecture's own load() loads it */
    bool layer_norm;        /* LayerNorm with a bias; otherwise RMSNorm */
    bool bare_norms;        /* files may lack the bias of a LayerNorm, or its gain too */
    bool short_names;       /* names of norms after a half, or between two, may lack ".weight" */
    bool sinks;             /* attention has them in every layer */
    enum tft_qk_norm qk_norm;
    bool fused_qkv;         /* files have attn_qkv instead of attn_q, attn_k and attn_v */
    bool qkv_bias, o_bias, ffn_bias; /* all files have these biases; other files of any
                                        architecture may have them too */
    bool no_gate;           /* feed-forward has no gate */
    bool fused_gate;        /* one tensor ffn_up has the rows of the gate and of up. W8A8 and packed
                               files have two tensors, each of whole panels. */
    bool scaled_embedding;  /* e = sqrt(n_embd) */
    const struct tft_multipliers *multipliers;
    /* Sliding windows. Where a file has no period of its own, nor a mask of layers, layer l has a
       window unless l % window_period is window_period - 1. */
    uint32_t window_period; /* 0: windows of the file are not applied */
#define TFT_WINDOW_EVERYWHERE                                                                      \
    INT32_MAX          /* all layers have one, if the file names its size. 0
                                           or the whole context is no window */
    bool window_first; /* there, layer l has a window unless l % window_period is 0 */
    uint32_t window;   /* if the file names none; 0: then no layer has one */
    bool caps;         /* the file may name soft caps of scores and of logits */
    const struct tft_mixture *mixture; /* layers are mixtures of experts: mixture.h */
    /* Names in files of the norm before feed-forward and of the last norm. NULL: ffn_norm and
       output_norm */
    const char *ffn_norm, *out_norm;
    bool no_out_norm; /* there is no last norm: the norms of blocks come after their halves */
    /* Loads the mixer of a layer that is not attention as others have it, or returns false. NULL:
       all layers have attention */
    bool (*mixer)(struct tft_load *ld, unsigned layer);
    /* Loads the tensors that only blocks of this architecture have. NULL: nothing */
    void (*block)(struct tft_load *ld, unsigned layer);
};

/* Names of norms in files; that of a block has %u for the layer. */
static inline const char *tft_transformer_ffn_norm(const struct tft_transformer *t)
{
    return t->ffn_norm ? t->ffn_norm : "blk.%u.ffn_norm";
}

static inline const char *tft_transformer_out_norm(const struct tft_transformer *t)
{
    return t->out_norm ? t->out_norm : "output_norm";
}

/* For a struct tft_arch with `transformer`. load is three steps: tft_load_shape, the values that
   files of several architectures have, the tensors. An architecture with values of its own takes
   the steps one by one, and sets its own values before it loads the tensors. */
void tft_transformer_values(struct tft_load *ld);
void tft_transformer_tensors(struct tft_load *ld);
void tft_transformer_load(struct tft_load *ld);

/* Loads block `layer`, as tft_transformer_tensors does for each. */
void tft_transformer_block(struct tft_load *ld, unsigned layer);

/* Blocks that predict further tokens come last (nextn_predict_layers), and are no layers of the
   model (models/predictor.h). Comes after tft_load_shape. */
void tft_transformer_drop_predicting(struct tft_load *ld);

/* For `mixer`: attention, with q rows of queries. Or only q, k and v where the file has them in one
   tensor, attn_qkv, in that order; false: it has not. Any architecture may have it. */
void tft_transformer_attention(struct tft_load *ld, unsigned layer, uint32_t q);
bool tft_transformer_fused_qkv(struct tft_load *ld, unsigned layer, uint32_t q);

/* The window of a layer; 0: it has none. */
uint32_t tft_transformer_window(struct tft_load *ld, unsigned layer);

#endif
