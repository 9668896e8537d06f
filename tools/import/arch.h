/*
 * Description of an architecture's folders: the classes of transformers in config.json, the names
 * of numbers and of tensors, and the changes to them.
 */
#ifndef IMPORT_ARCH_H
#define IMPORT_ARCH_H

#include "work.h"

/* A number of config.json that the GGUF file has as the float ARCH.key. */
#define IMPORT_OPTIONAL (-2)
struct import_number {
    const char *key, *names; /* names: as in import_find */
    double def;              /* IMPORT_NEEDED; or IMPORT_OPTIONAL: without the number there is no
                                key */
};

/* The inputs of RWKV-7's time mixing, in the order of its GGUF files. */
#define IMPORT_LERP_NAMES "rwkvag"

enum {
    IMPORT_MAY_MISS = 1, /* the folder need not have the tensor */
    IMPORT_HEAD = 2,     /* the output matrix: its name has no prefix, and it is not read if it
                            equals the embedding */
    IMPORT_Q = 4,        /* rows of queries, or of keys: permuted for architectures with
                            `permuted` */
    IMPORT_K = 8,
    IMPORT_TRANSPOSE = 16, /* columns become rows */
    IMPORT_QKV = 32,       /* rows are grouped by KV head: its queries, its key, its value. They
                              become all queries, then all keys, then all values */
    IMPORT_STACK = 64,     /* `from` has a second %u: these tensors become parts of one */
    IMPORT_GATE = 128,     /* each matrix of the folder has twice the rows: the first half is the
                              gate, */
    IMPORT_UP = 256,       /* the second half is up */
    /* The tensor is only in layers of one kind. In other layers it is an error. */
    IMPORT_ATTENDING = 512, /* layers with attention */
    IMPORT_STATEFUL = 1024, /* layers with a state instead */
    IMPORT_DENSE = 2048,    /* layers with a feed-forward without experts */
    IMPORT_MIXED = 4096,    /* layers with experts */
    IMPORT_SHARED = 8192,   /* layers with a shared expert */
    /* For delta nets. In the folder, the heads of values that share a head of keys are neighbours.
       In the GGUF file, head j of the values uses head j % k_heads of the keys. */
    IMPORT_V_ROWS = 1 << 14,    /* the last rows belong to heads of values: 1 row each, or `dim` */
    IMPORT_V_COLUMNS = 1 << 15, /* the columns do */
    IMPORT_MINUS_EXP = 1 << 16, /* x becomes -exp(x) */
    IMPORT_TERNARY = 1 << 17,   /* each number becomes the nearest of -s, 0 and s; s is the mean of
                                   their magnitudes */
    /* For architectures with differing layers (struct import, `layers`). */
    IMPORT_OWN_KV = 1 << 18,   /* layers with keys and values of their own; left out of other
                                  layers */
    IMPORT_OWN_V = 1 << 19,    /* layers with values that differ from their keys */
    IMPORT_EMBEDDED = 1 << 20, /* models with embeddings for each layer */
    IMPORT_TURNED = 1 << 21,   /* matrices of experts have inputs as rows. With IMPORT_GATE or
                                  IMPORT_UP, columns of the gate and of up are in turns, and so are
                                  numbers of their biases */
    IMPORT_COLUMN = 1 << 22,   /* numbers in a row become rows of one number, */
    IMPORT_GROUPED = 1 << 24,  /* or a row for each of Mamba-2's groups */
    IMPORT_QKVZ = 1 << 25, /* a delta net's rows are grouped by head of keys: its query, its key,
                              its heads of values, and as many of z. Queries, keys and values
                              become one matrix, z another one */
    IMPORT_PREDICTING = 1 << 23, /* the block that predicts a further token: its tensors are
                                    "mtp.", and those of its layer "mtp.layers.0." */
    IMPORT_LERPS = 1 << 27, /* with IMPORT_STACK: the second %u is %c, a letter of
                               IMPORT_LERP_NAMES; the GGUF file has the dimensions D, 1, 1, and
                               their number */
    IMPORT_FLAT = 1 << 28,  /* rows become one vector */
    IMPORT_PADDED = 1 << 26,   /* rows that the folder's tensor lacks at its end are its first */
    IMPORT_RANKING = 1 << 29,  /* models with a classifier, for pairs of texts */
    IMPORT_BARE = 1 << 30,     /* its name has no prefix */
};

/*
 * A tensor. `shape` is its shape in the folder: a letter for each dimension, rows first:
 *      D F E V     as in work.h
 *      Q K         H E, G E: the rows of queries, of keys or values
 *      A           Q + 2 K
 *      2           2 F
 *      P           positions: n_ctx, after those of the folder that no token has
 *      X M S 4     n_expert, n_ff_expert, n_ff_shared, n_latent or D
 *      3 T L       3 D, 2 D, n_taps
 *      R           2 Q: for each head, the rows of queries, then the rows of a gate
 *      N Y Z C     of a delta net: heads of values, numbers of one head, of all heads, channels
 *      5           2 N
 *      O W U I     of Mamba-2: heads, numbers of all heads, channels, rows of the first matrix
 *      J B         numbers of a token's embedding for one layer, for all layers
 *      q c k       of latent attention (struct import, `latent`): q_rank, rank, rank + rot
 *      b o u       H (E - rot + value), H value, G value
 *      y l d e     of encoders: types of tokens, labels, rows of the matrices after pooling
 *      t r         of AltUp: the streams but one, all; n a      their square; Laurel's rank
 *      6 h         of RWKV-7: the inputs of time mixing, heads
 *      w i v g     ranks of decay, of rate, of value, of gate
 *      1           1, a dimension that the GGUF file does not have, unless it is the only one
 *      H G X       before the others: stacked tensors
 * With IMPORT_GATE or IMPORT_UP, it is the shape of one half; with IMPORT_TURNED, that of the GGUF
 * file, rows first.
 */
struct import_tensor {
    const char *from; /* without the prefix; %u is the layer; alternatives between '|' */
    const char *to;
    const char *shape;
    unsigned how;
};

struct import_arch {
    const char *classes;     /* with a blank before and after each */
    const char *name;        /* general.architecture */
    const char *activations; /* as classes */
    const char *defaults;    /* JSON, or NULL */
    bool layer_norm, no_rope, ff_is_4d;
    bool permuted;    /* the GGUF file pairs neighbours for RoPE; in the folder partners are half a
                         head apart */
    bool norm_plus_1; /* the folder stores gains of norms without the 1 that is added */
    bool parallel;    /* default of use_parallel_residual in config.json */
    enum {
        IMPORT_IF_ONLINE = 1, /* weights become ternary if quantization_mode in config.json is
                                 "online" */
        IMPORT_ALWAYS,        /* weights always become ternary */
    } ternary;                /* for tensors with IMPORT_TERNARY; 0: they stay */
    bool one_kv_number; /* the GGUF file has one number of KV heads, although only some layers have
                           attention */
    bool encoder;     /* it has no output matrix, and heads of its training are left out */
    bool tied;        /* default of tie_word_embeddings in config.json */
    bool (*fits)(const struct import *im); /* whether config.json is of this architecture: several
                                              may have the same class. NULL: yes */
    const struct import_number *numbers; /* the last has no key; or NULL */
    void (*dimensions)(struct import *im); /* reads its particular values; or NULL */
    void (*values)(struct import *im);     /* writes them; or NULL */
    /* The factor of a row of a tensor. NULL: 1 */
    double (*factor)(const struct import *im, const char *to, uint64_t row);
    void (*layer)(struct import *im, unsigned layer); /* sets the dimensions of a layer, before its
                                                         tensors are visited; or NULL */
    const struct import_tensor *tensors[7]; /* lists, the last tensor of each without a name; NULL
                                               ends them. The first tensor is the embedding */
};

#endif
