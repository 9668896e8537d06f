/*
 * A model in memory: dimensions, weights, tokenizer. Immutable once open, so any number of threads
 * and sessions may share it.
 *
 * Legend for shapes: D = n_embd, F = n_ff, V = n_vocab, H = n_head, G = n_head_kv, E = head_dim.
 * Matrices are [rows, cols] with a row for each output, as in every GGUF file (its ne[0] is cols).
 */
#ifndef TFT_MODEL_H
#define TFT_MODEL_H

#include "file/file.h"
#include "kv/kv.h"
#include "model/keys.h"
#include "simd/kernels.h"
#include "text/tokenizer.h"
#include "tuffet.h"
#include "weights/format.h"

struct tft_backend;
struct tft_pass;
struct tft_load;
struct tft_resident;
struct tft_transformer;

/* An architecture: how a model of that name is loaded and computed. models/ has a file for each. */
struct tft_arch {
    const char *name;                  /* general.architecture */
    uint64_t parts; /* mask of tft_formula_part: parts that its formula has in every file */
    void (*load)(struct tft_load *ld); /* reads dimensions and weights: model/load.h */
    void (*layer)(struct tft_pass *p, uint32_t l); /* computes block l: run/pass.h */
    void (*predict)(struct tft_pass *p); /* computes the block of struct tft_predictor; NULL: the
                                            architecture has none */
    const struct tft_transformer *transformer; /* parameters of these two, if architectures share
                                                  them */
};

/* The form in which a linear layer takes its input. */
enum tft_range {
    TFT_RANGE_FLOAT,  /* f32, for weights that are floats */
    TFT_RANGE_STATIC, /* 8 bits; the file has the scale and the zero-point: CushionCache, section
                         3 */
    TFT_RANGE_TOKEN,  /* 8 bits; the scale and the zero-point come from the token's own range */
    TFT_RANGE_GROUPS, /* 8 bits in groups of 32 with a step of their own each (simd/packed.h): for
                         packed weights. Normalised rows and attention's output are floats too */
};

/* xIELU (Huang & Schlag 2024, arXiv 2411.13010): p u^2 + b u for u > 0, otherwise
   n (exp(min(u, least)) - 1 - u) + b u. */
struct tft_xielu {
    float p, n, b, least;
};

/* The input of one or more linear layers: q, k and v share theirs, so do gate and up. */
struct tft_input {
    uint32_t index; /* its place in the arrays of a W8A8 file: tft_input_index */
    uint32_t width; /* its numbers: columns of the layers' matrices */
    enum tft_range range;
    struct tft_affine affine; /* STATIC */
    const float *norm;        /* gain of the RMSNorm that is applied first; NULL: none */
    struct tft_xielu xielu;   /* of hidden activations, where xIELU makes them */
    uint32_t hadamard;        /* block size of the Hadamard transform (kernels.h) that is applied
                                 then and that the weights expect; 0: none */
};
/* Of a layer. All have the first four. In a mixture of experts, TFT_IN_DOWN is the input of the
   experts' down, and TFT_IN_SHARED the input of down in the feed-forward beside them. If this
   feed-forward has a norm of its own, or experts have a width of their own, TFT_IN_BESIDE is the
   input of its gate and up, and TFT_IN_FFN is of the experts alone. Where Mamba-2 is beside
   attention, TFT_IN_SHARED is the input of its last matrix. */
enum {
    TFT_IN_ATTN,
    TFT_IN_O,
    TFT_IN_FFN,
    TFT_IN_DOWN,
    TFT_LAYER_INPUTS,
    TFT_IN_SHARED = TFT_LAYER_INPUTS,
    TFT_IN_BESIDE,
    TFT_INPUT_KINDS
};
#define TFT_NO_INDEX UINT32_MAX /* index of an input that W8A8 files do not have */

struct tft_linear { /* y = W x + bias */
    struct tft_mat w;
    const float *bias; /* [rows] or NULL */
    const struct tft_input *in;
};

struct tft_norm {
    const float *w, *b; /* [n]; b is NULL for RMSNorm. No w: there is no norm */
    bool plain;         /* a product with w instead of a norm */
};

/* A mixture of experts: models/mixture.h. The matrices of all experts have the same shape. */
struct tft_experts {
    struct tft_mat router;      /* [n_expert, D] f32; no rows: the block has no experts */
    const float *bias;          /* [n_expert] added where experts are chosen; or NULL */
    const float *router_bias;   /* [n_expert] added to the router's scores; or NULL */
    struct tft_mat shared_gate; /* [1, D] f32; no rows: the block's own feed-forward has no gate */
    struct tft_linear gate, up, down; /* of expert 0: [n_ff_expert, D] twice, [D, n_ff_expert].
                                         Biases: [n_expert, rows] */
    struct tft_linear latent_down, latent_up; /* [n, D], [D, n] before the experts, and after their
                                                 sum; in place of D they have n then. No rows: there
                                                 are none */
    bool raw;                         /* the router reads the residual stream as it is */
    bool beside; /* experts and the block's own feed-forward have norms of their own, [D]: of the
                    router's input, of the experts' input, of feed-forward's output, of the experts'
                    output. Otherwise both read the output of ffn_norm */
    struct tft_norm router_norm, in_norm, beside_norm, sum_norm;
    const float *factor; /* [n_expert] of the weights of chosen experts; or NULL */
};

/* The operation that mixes the tokens of a block. All but attention have a state:
   models/short_conv.h, models/delta_net.h, models/mamba.h, models/rwkv7.c */
enum tft_mixer {
    TFT_MIX_ATTENTION,
    TFT_MIX_SHORT_CONV,
    TFT_MIX_DELTA_NET,
    TFT_MIX_MAMBA,
    TFT_MIX_RWKV,
    TFT_MIX_NONE, /* the block is a feed-forward alone */
};
enum { TFT_READS = 4 }; /* the most matrices that a mixer's input is multiplied by */

/* Numbers at the end of a layer's state: the factor of each head's matrix (simd/decay.h), and zeros
   up to a whole panel. */
static inline uint32_t tft_state_factors(uint32_t heads)
{
    return (heads + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

/* Heads of delta nets; all zero: there are none. */
struct tft_delta_shape {
    uint32_t k_heads, v_heads, dim; /* dim: numbers of a key, of a value */
    bool grouped; /* neighbouring heads of values share a head of keys. alpha has the rows of beta,
                     too: of each head of keys, beta's rows, then alpha's */
    const float *q_norm, *k_norm;   /* [dim] RMSNorm's factors of queries and keys */
};

/* Numbers of queries, keys and values. */
static inline uint32_t tft_delta_channels(const struct tft_delta_shape *d)
{
    return (2 * d->k_heads + d->v_heads) * d->dim;
}

/* Heads of Mamba-2; all zero: there are none. */
struct tft_mamba_shape {
    uint32_t heads, dim;    /* of the input; dim: numbers of a head */
    uint32_t groups, state; /* heads of a group share b and c, of `state` numbers each */
};

/* Numbers of all heads, and with them b and c of all groups. */
static inline uint32_t tft_mamba_width(const struct tft_mamba_shape *s)
{
    return s->heads * s->dim;
}

static inline uint32_t tft_mamba_channels(const struct tft_mamba_shape *s)
{
    return s->heads * s->dim + 2 * s->groups * s->state;
}

/* Heads of RWKV-7; all zero: there are none. */
struct tft_rwkv_shape {
    uint32_t heads, dim;
    uint32_t decay_rank, rate_rank, value_rank, gate_rank; /* of the products of two matrices */
    const float *ones;                                     /* [dim] */
};

/* A product of two matrices of floats, with a bias; no rows: there is none. */
struct tft_low_rank {
    struct tft_mat in, out; /* [rank, D], [D, rank] */
    const float *bias;      /* [D] or NULL */
};

/* The weights of RWKV-7's time mixing beside r, k, v and o, and of its channel mixing beside up and
   down. */
enum tft_rwkv_input { TFT_RWKV_R, TFT_RWKV_W, TFT_RWKV_K, TFT_RWKV_V, TFT_RWKV_A, TFT_RWKV_G };
struct tft_rwkv {
    const float *lerp;         /* [6, D] of its inputs, enum tft_rwkv_input */
    const float *channel_lerp; /* [D] */
    struct tft_low_rank decay, rate, value, gate; /* value: none in layer 0 */
    const float *k_k, *k_a, *r_k;                 /* [D] */
    struct tft_norm norm;                         /* [D] of heads */
};

/* Latent attention; all zero: the model has other attention. models/latent.h */
struct tft_latent_shape {
    uint32_t q_rank;    /* numbers of the vector that queries are made of; 0: there is none */
    uint32_t rank;      /* of the vector that keys and values are made of */
    uint32_t nope, rot; /* of a head's query: not rotated, rotated */
    uint32_t v_dim;     /* of a head's value */
};

/* The weights of latent attention beside q, k and o. Heads have a matrix each: tft_mat_expert. */
struct tft_latent {
    struct tft_norm q_norm, norm; /* [q_rank], [rank] */
    struct tft_linear q_b;        /* [H (nope + rot), q_rank], if there is a q_rank */
    struct tft_mat k_b, v_b;      /* [rank, nope], [v_dim, rank] floats */
    struct tft_input in;          /* of q_b */
};

/* Several residual streams, and a low-rank product beside attention: models/altup.h. */
enum { TFT_MAX_STREAMS = 8 };
struct tft_altup {
    uint32_t n, rank;        /* streams; of the product. 0: the model has one stream */
    struct tft_mat begin, end; /* [D, D] floats of stream 1; tft_mat_expert finds the others */
};
struct tft_altup_layer {
    struct tft_norm router_norm; /* [D] */
    struct tft_mat router;       /* [n, D] f32 */
    const float *predict, *correct; /* [n, n, n], [n, n] */
    struct tft_norm scale;          /* [D] of the input of per-layer embeddings' gate */
    struct tft_linear left, right;  /* [rank, D], [D, rank] */
    struct tft_norm norm;           /* [D] of their result */
    struct tft_input in[2];         /* of these two */
    float sparsity; /* gates of feed-forward below their mean and this many standard deviations are
                       0; 0: none */
};

/* The weights of a convolution over time. */
struct tft_taps {
    const float *w;    /* [n, channels], the oldest token first */
    const float *bias; /* [channels] or NULL */
    uint32_t n, channels;
};

/* Per-layer embeddings: models/layer_embed.h. */
struct tft_layer_embed {
    uint32_t n;           /* numbers of a token for one layer; 0: the model has none */
    struct tft_mat embed; /* [V, n_layer n] */
    struct tft_linear w;  /* [n_layer n, D] */
    struct tft_norm norm; /* [n] */
    struct tft_input in;
};

/* The parts that a transformer block can have; an architecture uses the parts of its formula. */
struct tft_layer {
    struct tft_norm attn_norm, ffn_norm;           /* [D] */
    struct tft_norm attn_post_norm, ffn_post_norm; /* [D] */
    struct tft_norm attn_sub_norm, ffn_sub_norm;   /* [H E], [F] norms of the inputs of o and of
                                                      down */
    enum tft_mixer mixer;
    union { /* by mixer */
        struct tft_linear reads[TFT_READS]; /* the matrices that its input is multiplied by, which
                                               come first in each: tft_layer_reads */
        struct { /* ATTENTION */
            struct tft_linear q, k, v; /* [H E, D], [G E, D], [G E, D]. Without v, values are keys;
                                          without k, kv_layer belongs to an earlier layer. With
                                          OUTPUT_GATE q has a gate for each number of attention's
                                          output, [H, 2, E, D]. In latent attention, of `latent` */
            union {
                struct tft_linear out_gate; /* [H E, D] gates of attention's output, or with
                                               HEAD_GATE [H, D]; no rows: it has none, or q has
                                               them; */
                struct tft_linear side;     /* or proj of MAMBA, where side_out has rows */
            };
            struct tft_norm q_norm, k_norm; /* [E], or all heads: [H, E], [G, E] */
            bool own_norms;                 /* LayerNorm of each head, with gains of its own */
            struct tft_norm v_norm;         /* [E] gains, all 1 */
            struct tft_kv_heads kv;         /* G and E */
            uint32_t kv_layer; /* which layer of the cache has its keys and values */
            uint32_t window;   /* a token attends to itself and the window - 1 tokens before it; 0:
                                  to all */
            bool no_rope;      /* q and k are not rotated */
            bool has_sinks;
            const float *sinks; /* [H] a score of each head that has no value; NULL: none */
        };
        struct { /* SHORT_CONV */
            struct tft_linear proj; /* [3 D, D] */
        } conv;
        struct { /* MAMBA */
            struct tft_linear proj; /* [width + channels + heads, D] */
        } scan;
        struct { /* RWKV */
            struct tft_linear r, k, v; /* [D, D] */
        } mix;
        struct { /* DELTA_NET */
            struct tft_linear qkv, alpha, beta, z; /* [channels, D], [v_heads, D] twice,
                                                      [v_heads dim, D] */
            const float *decay, *bias;             /* [v_heads] a and b */
            struct tft_norm norm;                  /* [dim] */
        } delta;
    };
    struct tft_linear o;        /* [D, H E] */
    struct tft_taps taps;       /* not of attention, unless Mamba-2 is beside it */
    struct tft_linear side_out; /* o of Mamba-2 beside attention; no rows: there is none */
    struct {                    /* of MAMBA */
        const float *decay, *bias, *skip; /* [heads] a, b and d */
        struct tft_norm norm;             /* [groups, width / groups]; no w: there is none */
    } mamba;
    size_t state, state_size; /* the layer's numbers in a copy of the states (run/states.h); none of
                                 attention alone */
    struct tft_linear gate, up; /* [F, D] */
    struct tft_linear down;     /* [D, F] */
    struct tft_xielu xielu;     /* of hidden activations; all zero: they have another function */
    struct tft_experts experts; /* beside gate, up and down, or instead of them */
    struct tft_input in[TFT_INPUT_KINDS];
    struct tft_latent latent;
    struct tft_rwkv rwkv;
    struct tft_altup_layer altup;
    struct tft_linear embed_gate, embed_out; /* [n, D], [D, n] of per-layer embeddings, */
    struct tft_norm embed_norm;              /* [D] */
    struct tft_input embed_in[2];            /* and the inputs of these two */
    struct tft_input latent_in[2]; /* of latent_down, of latent_up */
    const float *scale; /* [1] factor of the block's output; NULL: 1 */
};

/* The block that predicts a further token (models/predictor.h). Its layer is layer[n_layer] of the
   model, and the state of this layer is the hidden vector of the newest token, [D]. */
struct tft_predictor {
    struct tft_linear proj; /* [D, 2 D] */
    struct tft_input in;
    struct tft_norm embed, hidden, out; /* [D] */
    uint64_t bytes;                     /* of weights that a draft token reads, the head's too */
};

/* What is computed of a pooled vector (models/pooled.h): an embedding takes `dense`, one after
   the other; a reranker has a classifier. Matrices are f32. */
enum { TFT_DENSE = 2 };
struct tft_pooled {
    struct tft_mat dense[TFT_DENSE]; /* [n, width of the vector before]; no rows: it has none */
    struct tft_mat cls, out;         /* [D, D], [n_labels, D]; no rows: it has none */
    const float *cls_bias, *out_bias; /* [D], [n_labels]; or NULL */
    struct tft_norm cls_norm;         /* [D] */
    enum tft_pooling from; /* the vector that the classifier takes: CLS, MEAN or LAST */
    bool gelu;             /* after cls; otherwise tanh */
    bool softmax;          /* scores are probabilities of the labels */
    uint32_t n_labels;     /* 0: there is no classifier */
};

/* Parts of a formula that came with later architectures: parts.c says which a model has. Masks have
   the bit of each. */
#define TFT_BIT(part) (UINT64_C(1) << (part))
enum tft_formula_part {
    TFT_PART_GEGLU,
    TFT_PART_EMBED_SCALE,
    TFT_PART_RESIDUAL_SCALE,
    TFT_PART_LOGIT_SCALE,
    TFT_PART_ATTN_SCALE,
    TFT_PART_NO_PRE_NORM,
    TFT_PART_POST_NORM,
    TFT_PART_WHOLE_QK_NORM,
    TFT_PART_LATE_QK_NORM,
    TFT_PART_OWN_QK_NORM,
    TFT_PART_PARALLEL,
    TFT_PART_ROPE_LAYERS,
    TFT_PART_ROPE_AMPLITUDE,
    TFT_PART_ROPE_BY_CONTEXT,
    TFT_PART_SCORE_CAP,
    TFT_PART_LOGIT_CAP,
    TFT_PART_WINDOW,
    TFT_PART_QUERY_SCALE,
    TFT_PART_SHORT_CONV,
    TFT_PART_DELTA_NET,
    TFT_PART_OUTPUT_GATE,
    TFT_PART_EXPERTS,
    TFT_PART_SUB_NORM,
    TFT_PART_RELU2,
    TFT_PART_WEIGHT_FACTOR,
    TFT_PART_VALUE_NORM,
    TFT_PART_SHARED_KV,
    TFT_PART_LAYER_SIZES,
    TFT_PART_LAYER_EMBED,
    TFT_PART_EXPERTS_BESIDE,
    TFT_PART_SINKS,
    TFT_PART_PLAIN_RELU2,
    TFT_PART_REGLU,
    TFT_PART_BOUNDED_SWIGLU,
    TFT_PART_XIELU,
    TFT_PART_BOUNDED_QKV,
    TFT_PART_HEAD_BIAS,
    TFT_PART_OWN_GATE,
    TFT_PART_MAMBA,
    TFT_PART_HALF_BLOCKS,
    TFT_PART_PREDICTOR,
    TFT_PART_LATENT,
    TFT_PART_ALTUP,
    TFT_PART_LATENT_EXPERTS,
    TFT_PART_ROUNDS,
    TFT_PART_RWKV,
    TFT_PART_SHORT_VALUES,
    TFT_PART_HEAD_GATE,
    TFT_PART_ENCODER,
    TFT_FORMULA_PARTS
};

/* The most experts of a layer. */
enum { TFT_MAX_EXPERTS = 1024 };

/* The most heads that may share a KV head: attention takes them through a span together. In latent
   attention any number may. */
enum { TFT_MAX_GROUP = 32 };

/* Consecutive layers that one backend computes: run/backend.h. The first stage also embeds, the
   last one has the head. */
struct tft_stage {
    const struct tft_backend *backend;
    void *device;        /* the result of the backend's open() */
    void *library;       /* the plug-in it came from, or NULL */
    uint32_t first, end; /* layers first .. end - 1 */
};
enum { TFT_STAGES = 2 }; /* the CPU, and a device */

/* The model's prefix, followed by tokens of text. */
struct tft_named_prefix {
    const char *name, *system; /* NUL-terminated; system: NULL if the file has none */
    uint32_t n;                /* tokens of the text */
    const int32_t *tokens;     /* [n] */
    const uint16_t *k, *v; /* [n_kv_layer, n, G, E] f16, keys rotated; G and E are the layer's */
    const float *x;            /* [D] as prefix_x, after the text */
    const float *state;        /* [state_size] as prefix_state, after the text */
};

struct tft_model {
    const struct tft_arch *arch; /* NULL if opened for its vocabulary only */
    const struct tft_arch *kind; /* as arch, and of the file if opened for its vocabulary only; then
                                    NULL if it is not supported */
    struct tft_kernels kern;
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    uint32_t n_round; /* the layers run in rounds of n_round, which have the same weights, but keys
                         and values of their own; 0: there is one round */
    bool round_norm;  /* out_norm is between the rounds, too */
    uint32_t n_kv_layer; /* layers with attention that have keys and values */
    uint32_t n_shared;   /* the last n_shared layers use keys and values of earlier layers */
    const uint32_t *kv_window; /* [n_kv_layer] their windows; NULL: no layer has one */
    const struct tft_kv_heads *kv_heads; /* [n_kv_layer] G and E of each layer; n_head_kv and
                                            head_dim are then the largest. NULL: layers do not
                                            differ */
    uint64_t kv_numbers; /* keys of a token in all layers of the cache: the sum of their G E */
    float norm_eps;

    uint32_t n_expert;       /* experts of a layer; 0: feed-forward is dense */
    uint32_t n_expert_used;  /* experts of a token */
    uint32_t n_ff_expert;    /* hidden activations of an expert */
    uint32_t n_ff_dense;     /* hidden activations of layers without experts, beside others with
                               them, */
    uint32_t n_ff_shared;    /* and of shared experts; 0: there are none. n_ff is the larger */
    uint32_t n_expert_group; /* groups that the experts are in; 0: they are in none */
    uint32_t n_group_used;   /* groups that a token's experts may be of */
    uint32_t n_leading;      /* layers that come first and have no experts */
    uint32_t expert_period;  /* layer l has experts if l % expert_period is 1; 0: all after the
                                leading ones have */
    bool mamba_beside;       /* Mamba-2 is beside attention in all layers */
    bool shared_expert;      /* some layer has a feed-forward of its own beside its experts */
    bool expert_sigmoid;     /* the router's scores become weights by sigmoid; otherwise softmax, */
    bool expert_chosen;      /* after the choice of experts, of their scores alone */
    bool expert_renorm;      /* the weights of a token's experts are divided by their sum, */
    float expert_scale;      /* and multiplied by this */
    float router_scale;      /* the router's input is multiplied by it */

    uint32_t mixer_width; /* numbers of TFT_M, the projection of mixers other than attention; 0:
                             there are none */
    uint32_t mixed_width; /* numbers of TFT_A, the output of mixers: of the widest one */
    size_t state_size;    /* floats of the states of all layers */
    struct tft_delta_shape delta;
    struct tft_mamba_shape mamba;
    struct tft_latent_shape latent;
    struct tft_rwkv_shape rwkv;
    struct tft_altup altup;
    uint64_t parts;      /* mask of tft_formula_part */
    bool encoder;        /* attention sees whole texts: there are no sessions, cache and head */
    bool gelu_erf;       /* GELU is by erf; otherwise by tanh */
    bool hidden_silu;    /* hidden activations of modern-bert are SiLU's; otherwise GELU's */
    const float *slopes; /* [H] ALiBi (Press et al. 2022): scores of a head fall by its slope with
                            each token of distance; NULL: they do not */
    bool relu2;           /* hidden activations are gated by squared ReLU; otherwise as the
                             architecture's formula has it */
    float embed_scale;    /* embeddings are multiplied by it, */
    float residual_scale; /* the outputs of attention and feed-forward likewise, */
    float logit_scale;    /* and logits */
    bool parallel;        /* attention and feed-forward of a block read the same x */
    bool names_norm_2;    /* a block's norms are named attn_norm_2, of attention, and attn_norm; the
                             file has one of them where both are the same */
    const float *ones;    /* [E] for RMSNorm without a gain; NULL: there is none */
    const float *zeros;   /* [E] for LayerNorm without a bias; NULL: there is none */
    float attn_scale;     /* of scores: 1 / sqrt(E), unless the file has its own */
    uint32_t v_dim;       /* numbers of a head's value, where values are shorter than keys: with
                             SHORT_VALUES. They are multiplied by */
    float value_scale;
    float qkv_bound;      /* queries, keys and values become at most this far from 0; 0: none do */
    float score_cap, logit_cap; /* soft caps (kernels.h); 0: none */
    float query_growth;   /* queries are multiplied by 1 + query_growth ln(1 + floor(position /
                             query_period)); 0: they are not */
    uint32_t query_period;

    uint32_t n_rot;          /* numbers of a head that RoPE rotates; 0: no RoPE */
    bool rope_halves;        /* partners are n_rot / 2 apart; otherwise they are neighbours */
    const double *rope_freq; /* [n_rot / 2] radians per position */
    const double *rope_freq_long; /* the same in sessions of more than rope_original_ctx positions;
                                     NULL: these have no frequencies of their own */
    uint32_t rope_original_ctx;
    const double *rope_freq_window; /* of layers with a window; NULL: the same as all */
    uint32_t n_rot_window;          /* numbers of a head that RoPE rotates in these layers; 0: as in
                                       the others */
    float rope_amplitude; /* of cosines and sines */

    struct tft_mat embed;     /* [V, D] */
    struct tft_mat pos_embed; /* [n_ctx, D] f32, learned positions; data is NULL without them */
    struct tft_mat type_embed;  /* [types of tokens, D] f32; no rows: it has none */
    struct tft_norm token_norm; /* [D] of embeddings of an encoder */
    struct tft_pooled pooled;
    struct tft_layer_embed layer_embed;
    struct tft_norm embed_norm; /* [D] of embeddings, in RWKV-7; no w: there is none */
    struct tft_norm out_norm;   /* [D] */
    struct tft_linear output; /* [V, D]; its matrix is the embedding where the head is tied to it */
    struct tft_input head_in;
    struct tft_layer *layer;  /* [n_layer], and one more with a predictor */
    struct tft_predictor predictor;

    /* The prefix: keys and values that come before every sequence, at positions 0 .. n_prefix - 1.
       CushionCache (section 4), IntactKV */
    uint32_t n_prefix;
    const uint16_t *prefix_k, *prefix_v; /* [n_kv_layer, n_prefix, G, E] f16, keys rotated; G and E
                                            are the layer's, as in the arrays below */
    const float *prefix_state; /* [state_size] the states after the prefix */
    const float *prefix_x; /* [D] the residual stream of the prefix's last token after the last
                              layer; NULL if unknown */
    bool prefix_bos;       /* the prefix has BOS, which is not put before a text again */
    const int32_t *prefix_text; /* [n_prefix_text] the prefix's last tokens, which are text: a
                                   prompt that begins with them continues after them */
    uint32_t n_prefix_text;
    const struct tft_named_prefix *named; /* [n_named] prefixes that a session may have instead */
    uint32_t n_named;

    /* The KV cache of sessions that do not name one, and its calibration */
    const char *kv_text;            /* as in tft_session_opts; NULL if the file has none */
    struct tft_kv_policy kv_policy; /* the same, parsed; f16 if the file has none */
    const float *key_importance;    /* [n_kv_layer, G, E] the cost of an error in a channel of the
                                       keys; NULL if the file has none */
    const int32_t *key_order;       /* [n_kv_layer, G, E] channels of a head's keys, in the order in
                                       which the cache holds them; likewise */
    const float *kv_clip[2];        /* [n_kv_layer, G, groups of kv_policy] for keys and for values:
                                       SKVQ eq. 2's alpha; likewise */
    const float *kv_fisher[TFT_KV_SIDES]; /* [n_kv_layer, G, rows, E] tables of kv/fisher.h for keys
                                             and for values, with tft_model_coded_heads;
                                             likewise */
    const struct tft_model *whole; /* of a part that a process of several has; else NULL */

    bool float_inputs; /* the input of some linear layer is computed as floats first */
    bool byte_inputs;  /* some linear layer takes 8-bit activations of one scale */
    bool group_inputs; /* some linear layer takes 8-bit activations in groups */
    bool float_hidden; /* the hidden activations of some layer are rows of floats first */

    struct tft_tokenizer *tokenizer;  /* NULL if the file has none */
    const char *name, *chat_template; /* NUL-terminated; NULL if the file has none */
    const char *tool_template;        /* the same, of conversations with tools alone */
    uint64_t n_params, weight_bytes, matmul_macs; /* as in struct tft_model_info */

    struct tft_stage stage[TFT_STAGES]; /* [n_stage] who computes which layers, in order */
    uint32_t n_stage;                   /* 0 with vocab_only */
    uint32_t n_host; /* layers that the CPU computes, the first ones: all without a device */

    struct tft_resident *resident; /* which experts are in memory, and the only part of a model that
                                      passes change; NULL: all may stay */

    struct tft_source source; /* keeps the file mapped */
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    void *memory;                          /* everything above that is not in the file */
    size_t memory_size;
};

/* How its file says that embeddings are made. */
enum tft_pooling tft_model_pooling(const struct tft_model *m);

/* The prefix of that name; NULL if there is none, or name is NULL. */
const struct tft_named_prefix *tft_model_prefix(const struct tft_model *m, const char *name);

/* Whether the outputs of attention and feed-forward are computed in Y before the residual stream
   gets them. */
static inline bool tft_model_adds_y(const struct tft_model *m)
{
    return m->parts & (TFT_BIT(TFT_PART_POST_NORM) | TFT_BIT(TFT_PART_RESIDUAL_SCALE) |
                        TFT_BIT(TFT_PART_WEIGHT_FACTOR));
}

/* Whether the model has a predictor. */
static inline bool tft_model_predicts(const struct tft_model *m)
{
    return m->parts & TFT_BIT(TFT_PART_PREDICTOR);
}

/* The window of a layer of the cache; 0: it has none. */
static inline uint32_t tft_model_kv_window(const struct tft_model *m, uint32_t kv_layer)
{
    return m->kv_window ? m->kv_window[kv_layer] : 0;
}

/* Whether all layers of the cache have a window, or there is none. */
bool tft_model_only_windows(const struct tft_model *m);

/* The cache of sessions that name none: the file's, or i8, or f16 where i8 cannot be. */
const char *tft_model_kv(const struct tft_model *m);

/* G and E of a layer of the cache. */
static inline struct tft_kv_heads tft_model_kv_heads(const struct tft_model *m, uint32_t kv_layer)
{
    return m->kv_heads ? m->kv_heads[kv_layer] : (struct tft_kv_heads){m->n_head_kv, m->head_dim};
}

/* The heads of the first layer without a window; the cache fisher takes models in which all such
   layers have them. */
static inline struct tft_kv_heads tft_model_coded_heads(const struct tft_model *m)
{
    uint32_t l = 0;
    while (l + 1 < m->n_kv_layer && tft_model_kv_window(m, l))
        l++;
    return tft_model_kv_heads(m, l);
}

/* Numbers of a token's key in a layer of the cache, G E; and in all layers before it, which is its
   place in arrays of [n_kv_layer, G, E]. */
static inline size_t tft_model_kv_width(const struct tft_model *m, uint32_t kv_layer)
{
    struct tft_kv_heads own = tft_model_kv_heads(m, kv_layer);
    return (size_t)own.n * own.dim;
}

static inline size_t tft_model_kv_before(const struct tft_model *m, uint32_t kv_layer)
{
    size_t n = 0;
    for (uint32_t l = 0; l < kv_layer; l++)
        n += tft_model_kv_width(m, l);
    return n;
}

/* Whether the block has keys and values of its own. */
static inline bool tft_layer_has_kv(const struct tft_layer *b)
{
    return b->mixer == TFT_MIX_ATTENTION && b->k.w.rows;
}

/* How many matrices the mixer's input is multiplied by: the block's `reads`. */
static inline uint32_t tft_layer_reads(const struct tft_layer *b)
{
    if (b->mixer == TFT_MIX_ATTENTION)
        return b->out_gate.w.rows ? 4 : 3;
    if (b->mixer == TFT_MIX_RWKV)
        return 3;
    return b->mixer == TFT_MIX_DELTA_NET ? 4 : b->mixer == TFT_MIX_NONE ? 0 : 1;
}

/* Whether the block is, or has beside its own feed-forward, a mixture of experts. */
static inline bool tft_layer_has_experts(const struct tft_layer *b)
{
    return b->experts.router.rows;
}

/* Whether the block has Mamba-2, alone or beside attention; the last matrix of it. */
static inline bool tft_layer_has_mamba(const struct tft_layer *b)
{
    return b->mixer == TFT_MIX_MAMBA || b->side_out.w.rows;
}

static inline const struct tft_linear *tft_layer_mamba_out(const struct tft_layer *b)
{
    return b->mixer == TFT_MIX_MAMBA ? &b->o : &b->side_out;
}

/* Whether experts and the block's own feed-forward have norms of their own, and both are added. */
static inline bool tft_layer_has_experts_beside(const struct tft_layer *b)
{
    return b->experts.beside;
}

/* Whether experts have a width of their own. */
static inline bool tft_layer_has_latent_experts(const struct tft_layer *b)
{
    return b->experts.latent_down.w.rows;
}

/* Whether gate and up of the block's own feed-forward have another input than the experts. */
static inline bool tft_layer_has_own_input(const struct tft_layer *b)
{
    return tft_layer_has_experts_beside(b) || tft_layer_has_latent_experts(b);
}

/* Whether layers have input `which`. */
static inline bool tft_model_has_input(const struct tft_model *m, uint32_t which)
{
    return which < TFT_LAYER_INPUTS ||
           (which == TFT_IN_SHARED && (m->shared_expert || m->mamba_beside)) ||
           (which == TFT_IN_BESIDE && m->parts & (TFT_BIT(TFT_PART_EXPERTS_BESIDE) |
                                                  TFT_BIT(TFT_PART_LATENT_EXPERTS)));
}

/* The place of input `which` of a layer among the inputs that a W8A8 file describes: of all layers,
   then the head's, then TFT_IN_SHARED and TFT_IN_BESIDE of all layers. */
static inline uint32_t tft_input_index(const struct tft_model *m, uint32_t layer, uint32_t which)
{
    return which < TFT_LAYER_INPUTS
               ? layer * TFT_LAYER_INPUTS + which
               : m->n_layer * (TFT_LAYER_INPUTS + which - TFT_IN_SHARED) + 1 + layer;
}

/* Their number. */
static inline uint32_t tft_model_inputs(const struct tft_model *m)
{
    uint32_t which = TFT_IN_SHARED;
    while (which < TFT_INPUT_KINDS && tft_model_has_input(m, which))
        which++;
    return tft_input_index(m, 0, which);
}

/* Whether layers have a state beside the cache. */
static inline bool tft_model_has_states(const struct tft_model *m)
{
    return m->parts &
           (TFT_BIT(TFT_PART_SHORT_CONV) | TFT_BIT(TFT_PART_DELTA_NET) | TFT_BIT(TFT_PART_MAMBA) |
            TFT_BIT(TFT_PART_RWKV));
}

/* Whether n bytes may be the name of a prefix. */
bool tft_prefix_name_valid(const char *name, size_t n);

/* to = the name of a value or tensor of a prefix; key: TFT_KEY_NAMED_TOKENS, ... */
const char *tft_prefix_key(char to[TFT_PREFIX_KEY], const char *key, struct tft_str name);

/* Scale and cap of n logits, products of the head, in place. */
static inline void tft_model_finish_logits(const struct tft_model *m, float *logits, size_t n)
{
    if (m->logit_scale != 1)
        m->kern.scale(logits, m->logit_scale, n);
    if (m->logit_cap > 0)
        m->kern.softcap(logits, n, m->logit_cap, 1 / m->logit_cap);
}

/* y: [cols] = row `row` of a matrix as floats. */
static inline void tft_mat_row(const struct tft_model *m, const struct tft_mat *w, uint32_t row,
                               float *y)
{
    w->format->row(&m->kern, w, row, y);
    if (w->factor != 0)
        m->kern.scale(y, w->factor, w->cols);
}

#endif
