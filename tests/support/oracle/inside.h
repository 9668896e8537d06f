/*
 * What the files of the oracle share.
 */
#ifndef TFT_TEST_ORACLE_INSIDE_H
#define TFT_TEST_ORACLE_INSIDE_H

#include "oracle/oracle.h"

struct matrix {
    double *w; /* [rows, cols] */
    size_t rows, cols;
};

struct oracle {
    const struct tft_source *s;
    char arch[16];
    size_t blocks;                     /* layers of a round: nanbeige */
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
    double *past;   /* [layers, capacity, wide] the input of a convolution for each token */
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

/* --------------------------------------------------------------------------------------- file.c */

bool oracle_is(const struct oracle *o, const char *arch);
/* Whether the architecture is one of a list of names, each with a blank before and after it. */
bool oracle_is_one(const struct oracle *o, const char *names);
/* The number ARCH.KEY of the file, or `missing` if the file does not have it. */
double oracle_number(const struct oracle *o, const char *key, double missing);
bool oracle_flag(const struct oracle *o, const char *key);
/* Whether ARCH.KEY of the file is this text. */
bool oracle_text_is(const struct oracle *o, const char *key, const char *text);
/* Element l of the array ARCH.KEY. */
double oracle_element(const struct oracle *o, const char *key, size_t l);
/* Whether ARCH.KEY is an array. */
bool oracle_has_array(const struct oracle *o, const char *key);
/* A tensor of the file as doubles; all zero if the file does not have it. */
struct matrix oracle_tensor(const struct oracle *o, const char *name);
/* Tokens that layer l attends to; 0: all. */
size_t oracle_window_of(const struct oracle *o, size_t l);

/* ---------------------------------------------------------------------------------------- ops.c */

/* y: [rows] = m x + bias */
void oracle_product(double *y, struct matrix m, const double *x, const double *bias);
void oracle_rms(double *y, const double *x, const double *w, size_t n, double eps);
/* w: NULL, or the factors; b: NULL, or the addition */
void oracle_layernorm(double *y, const double *x, const double *w, const double *b, size_t n,
                      double eps);
void oracle_norm(const struct oracle *o, double *y, const double *x, const double *w,
                 const double *b);
double oracle_gelu(double x);
double oracle_sigmoid(double x);
double oracle_length(const double *x, size_t n);
/* x += r y, with y normalised where there is a gain */
void oracle_add(const struct oracle *o, double *x, double *y, const double *gain);

/* ---------------------------------------------------------------------------------- attention.c */

void oracle_rotate(const struct oracle *o, size_t l, double *head);
/* post_attention_norm is the norm before feed-forward. */
bool oracle_norm_is_before(const struct oracle *o);
void oracle_attention_block(struct oracle *o, size_t l, double *x, const double *h);
/* mimo2: values shorter than keys, and KV heads by layer. */
void oracle_short_value_block(struct oracle *o, size_t l, double *x, const double *h);
/* gemma4, once more: attention in which each head has its cache. */
void oracle_layer_attention(struct oracle *o, size_t l, double *x, const double *h);

/* ------------------------------------------------------------------------------------- latent.c */

void oracle_latent_block(struct oracle *o, size_t l, double *x, const double *h);

/* ------------------------------------------------------------------------------------- states.c */

/* qwen35: a gated delta net. Head j of the values uses head j mod kheads of the keys; in qwen3next,
   neighbours use the same. */
void oracle_delta_block(struct oracle *o, size_t l, double *x, const double *h);
/* Mamba-2: Dao & Gu 2024. Group i of the heads shares vectors b and c. */
void oracle_mamba_block(struct oracle *o, size_t l, double *x, const double *h);
/* lfm2: x += Wout (c * sum over k of conv[k] (b * u of the token k before)) */
void oracle_conv_block(struct oracle *o, size_t l, double *x, const double *h);

/* --------------------------------------------------------------------------------------- rwkv.c */

void oracle_rwkv_layers(const struct oracle *o, double *x);

/* ------------------------------------------------------------------------------- feed_forward.c */

void oracle_mlp_block(struct oracle *o, size_t l, double *x, const double *h);
/* r: what the router reads */
void oracle_mixture_block(struct oracle *o, size_t l, double *x, const double *r, const double *h);
/* gemma4: feed-forward of h and experts side by side, each with norms of its own. */
void oracle_beside_block(struct oracle *o, size_t l, double *x, const double *h);

/* -------------------------------------------------------------------------------------- gemma.c */

/* gemma4: x += the layer's embedding; then x times the layer's factor. */
void oracle_layer_end(struct oracle *o, size_t l, double *x, const double *x0, int32_t token);
/* x = the output of all layers, of the embedding x0. */
void oracle_altup_layers(struct oracle *o, double *x, const double *x0, int32_t token);

#endif
