/* Tensors of folders of encoders: lists of lists.h. */
#include <stddef.h>

#include "lists.h"

#define BOTH(from, to, matrix, vector)                                                             \
    {from ".weight", to ".weight", matrix, 0}, { from ".bias", to ".bias", vector, 0 }
/* Older folders call the gain of a norm gamma, and its bias beta. */
#define NORM(from, to)                                                                             \
    {from ".weight|" from ".gamma", to ".weight", "D", 0},                                         \
    {                                                                                              \
        from ".bias|" from ".beta", to ".bias", "D", 0                                             \
    }
#define HEAD(from, to, matrix, vector)                                                             \
    {from ".weight", to ".weight", matrix, IMPORT_RANKING},                                        \
    {                                                                                              \
        from ".bias", to ".bias", vector, IMPORT_RANKING | IMPORT_MAY_MISS                         \
    }
#define BARE_HEAD(from, to, matrix, vector)                                                        \
    {from ".weight", to ".weight", matrix, IMPORT_RANKING | IMPORT_BARE},                          \
    {                                                                                              \
        from ".bias", to ".bias", vector, IMPORT_RANKING | IMPORT_BARE | IMPORT_MAY_MISS           \
    }

/* Modules after pooling, by the names that modules.c gives them. */
const struct import_tensor list_dense[] = {
    {"dense.0.weight", "dense_2.weight", "dD", IMPORT_BARE | IMPORT_MAY_MISS},
    {"dense.1.weight", "dense_3.weight", "ed", IMPORT_BARE | IMPORT_MAY_MISS},
    {0},
};

/* By the name that reranker.c gives it. */
const struct import_tensor list_reranker[] = {
    {"yes_no.weight", "cls.output.weight", "lD", IMPORT_RANKING | IMPORT_BARE},
    {0},
};

const struct import_tensor list_bert_outside[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", "VD", 0},
    {"embeddings.token_type_embeddings.weight", "token_types.weight", "yD", 0},
    NORM("embeddings.LayerNorm", "token_embd_norm"),
    {0},
};

const struct import_tensor list_positions[] = {
    {"embeddings.position_embeddings.weight", "position_embd.weight", "PD", 0},
    {0},
};

const struct import_tensor list_bert_attention[] = {
    BOTH("encoder.layer.%u.attention.self.query", "blk.%u.attn_q", "QD", "Q"),
    BOTH("encoder.layer.%u.attention.self.key", "blk.%u.attn_k", "KD", "K"),
    BOTH("encoder.layer.%u.attention.self.value", "blk.%u.attn_v", "KD", "K"),
    BOTH("encoder.layer.%u.attention.output.dense", "blk.%u.attn_output", "DQ", "D"),
    NORM("encoder.layer.%u.attention.output.LayerNorm", "blk.%u.attn_output_norm"),
    {0},
};

const struct import_tensor list_bert_ffn[] = {
    BOTH("encoder.layer.%u.intermediate.dense", "blk.%u.ffn_up", "FD", "F"),
    BOTH("encoder.layer.%u.output.dense", "blk.%u.ffn_down", "DF", "D"),
    NORM("encoder.layer.%u.output.LayerNorm", "blk.%u.layer_output_norm"),
    {0},
};

/* The pooler, a matrix with tanh, comes before the classifier. */
const struct import_tensor list_bert_classifier[] = {
    HEAD("pooler.dense", "cls", "DD", "D"),
    BARE_HEAD("classifier", "cls.output", "lD", "l"),
    {0},
};

const struct import_tensor list_roberta_classifier[] = {
    BARE_HEAD("classifier.dense", "cls", "DD", "D"),
    BARE_HEAD("classifier.out_proj", "cls.output", "lD", "l"),
    {0},
};

const struct import_tensor list_distilbert[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", "VD", 0},
    NORM("embeddings.LayerNorm", "token_embd_norm"),
    BOTH("transformer.layer.%u.attention.q_lin", "blk.%u.attn_q", "QD", "Q"),
    BOTH("transformer.layer.%u.attention.k_lin", "blk.%u.attn_k", "KD", "K"),
    BOTH("transformer.layer.%u.attention.v_lin", "blk.%u.attn_v", "KD", "K"),
    BOTH("transformer.layer.%u.attention.out_lin", "blk.%u.attn_output", "DQ", "D"),
    NORM("transformer.layer.%u.sa_layer_norm", "blk.%u.attn_output_norm"),
    BOTH("transformer.layer.%u.ffn.lin1", "blk.%u.ffn_up", "FD", "F"),
    BOTH("transformer.layer.%u.ffn.lin2", "blk.%u.ffn_down", "DF", "D"),
    NORM("transformer.layer.%u.output_layer_norm", "blk.%u.layer_output_norm"),
    {0},
};

const struct import_tensor list_nomic_bert[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight", "VD", 0},
    {"embeddings.token_type_embeddings.weight", "token_types.weight", "yD", 0},
    NORM("emb_ln", "token_embd_norm"),
    {"encoder.layers.%u.attn.Wqkv.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"encoder.layers.%u.attn.out_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    NORM("encoder.layers.%u.norm1", "blk.%u.attn_output_norm"),
    {"encoder.layers.%u.mlp.fc12.weight", "blk.%u.ffn_gate.weight", "FD", 0},
    {"encoder.layers.%u.mlp.fc11.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"encoder.layers.%u.mlp.fc2.weight", "blk.%u.ffn_down.weight", "DF", 0},
    NORM("encoder.layers.%u.norm2", "blk.%u.layer_output_norm"),
    {0},
};

/* The first half of gated_layers goes through GELU, as ffn_up's does. */
const struct import_tensor list_jina_bert_ffn[] = {
    {"encoder.layer.%u.mlp.gated_layers.weight", "blk.%u.ffn_up.weight", "2D", 0},
    BOTH("encoder.layer.%u.mlp.wo", "blk.%u.ffn_down", "DF", "D"),
    NORM("encoder.layer.%u.mlp.layernorm", "blk.%u.layer_output_norm"),
    {0},
};

/* Norms have no bias; the first layer has no norm before attention. */
const struct import_tensor list_modern_bert[] = {
    {"embeddings.tok_embeddings.weight", "token_embd.weight", "VD", 0},
    {"embeddings.norm.weight", "token_embd_norm.weight", "D", 0},
    {"final_norm.weight", "output_norm.weight", "D", 0},
    {"layers.%u.attn_norm.weight", "blk.%u.attn_norm.weight", "D", IMPORT_MAY_MISS},
    {"layers.%u.attn.Wqkv.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"layers.%u.attn.Wo.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.mlp_norm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.mlp.Wi.weight", "blk.%u.ffn_up.weight", "2D", 0},
    {"layers.%u.mlp.Wo.weight", "blk.%u.ffn_down.weight", "DF", 0},
    BARE_HEAD("head.dense", "cls", "DD", "D"),
    {"head.norm.weight", "cls.norm.weight", "D", IMPORT_RANKING | IMPORT_BARE},
    BARE_HEAD("classifier", "cls.output", "lD", "l"),
    {0},
};

const struct import_tensor list_outside_encoder[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    {"norm.weight", "output_norm.weight", "D", 0},
    {0},
};
