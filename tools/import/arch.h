/*
 * What an architecture's folders look like: the classes of transformers in config.json, the names
 * of numbers and of tensors, and what has to be done to them.
 */
#ifndef IMPORT_ARCH_H
#define IMPORT_ARCH_H

#include "work.h"

/* A number of config.json that the GGUF file has as the float ARCH.key. */
#define IMPORT_OPTIONAL (-2)
struct import_number {
    const char *key, *names; /* names: as in import_find */
    double def;              /* IMPORT_NEEDED; or IMPORT_OPTIONAL: then there is no key either */
};

enum {
    IMPORT_MAY_MISS = 1, /* the folder need not have the tensor */
    IMPORT_HEAD = 2,     /* the output matrix, whose name has no prefix, and which is not read where
                            it is the embedding again */
    IMPORT_Q = 4,        /* rows of queries, or of keys: permuted where the architecture says so */
    IMPORT_K = 8,
    IMPORT_TRANSPOSE = 16, /* columns become rows */
    IMPORT_QKV = 32,       /* rows are grouped by KV head: its queries, its key, its value. They
                              become those of all queries, all keys, all values */
    IMPORT_STACK = 64,     /* `from` has a second %u: these tensors become parts of one */
    IMPORT_GATE = 128,     /* each matrix of the folder has twice the rows: first a gate's, */
    IMPORT_UP = 256,       /* then those of up */
    /* Only in layers of a kind; in others the tensor is not known. */
    IMPORT_ATTENDING = 512, /* with attention */
    IMPORT_STATEFUL = 1024, /* with a state instead */
    IMPORT_DENSE = 2048,    /* without experts */
    IMPORT_MIXED = 4096,    /* with experts */
    IMPORT_SHARED = 8192,   /* with a shared expert */
    /* Of a delta net. Heads of values are grouped by head of keys in the folder; in the file those
       of each group are as far apart as there are heads of keys. */
    IMPORT_V_ROWS = 1 << 14,    /* the last rows are of heads of values: one each, or dim */
    IMPORT_V_COLUMNS = 1 << 15, /* columns are */
    IMPORT_MINUS_EXP = 1 << 16, /* x becomes -exp(x) */
    IMPORT_TERNARY = 1 << 17,   /* each number becomes -s, 0 or s, the nearest one; s is the mean of
                                   all sizes */
};

/*
 * A tensor. The shape is that in the folder, a letter for each dimension, rows first:
 *      D F E V     as in work.h
 *      Q K         H E, G E: the rows of queries, of keys or values
 *      A           Q + 2 K
 *      2           2 F
 *      P           positions: n_ctx
 *      X M S       n_expert, n_ff_expert, n_ff_shared
 *      3 L         3 D, n_taps
 *      R           2 Q: of each head the rows of queries, and those of a gate
 *      N Y Z C     of a delta net: heads of values, numbers of a head, of all of them, channels
 *      1           1, a dimension that the GGUF file does not have
 *      H G X       before the others: stacked tensors
 * With IMPORT_GATE or IMPORT_UP it is that of a half.
 */
struct import_tensor {
    const char *from; /* without the prefix; %u is the layer; with alternatives between '|' */
    const char *to;
    const char *shape;
    unsigned how;
};

struct import_arch {
    const char *classes;     /* with a blank before and behind each */
    const char *name;        /* general.architecture */
    const char *activations; /* as classes */
    const char *defaults;    /* JSON, or NULL */
    bool layer_norm, no_rope, ff_is_4d;
    bool permuted;    /* RoPE pairs neighbours, and in the folder partners are half a head apart */
    bool norm_plus_1; /* gains of norms are stored without the 1 that is added */
    bool parallel;    /* what use_parallel_residual is where config.json does not say it */
    enum {
        IMPORT_IF_ONLINE = 1, /* config.json may say that weights are to be quantized as
                                 IMPORT_TERNARY does: otherwise they stay */
        IMPORT_ALWAYS,        /* they are, whether it says so or not */
    } ternary;                /* 0: there are none */
    bool one_kv_number; /* the file has no array of KV heads, although only some layers attend */
    bool tied;        /* what tie_word_embeddings is where config.json does not say it */
    const struct import_number *numbers; /* the last has no key; or NULL */
    void (*dimensions)(struct import *im); /* reads what is particular to it; or NULL */
    void (*values)(struct import *im);     /* writes it; or NULL */
    const struct import_tensor *tensors[6]; /* lists, the last tensor of each without a name; NULL
                                               ends them. The first tensor is the embedding */
};

#endif
