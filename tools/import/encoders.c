#include "encoders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "model/keys.h"
#include "own.h"

/* ---- dimensions */

/* The labels of a classifier are its rows. */
static void read_labels(struct import *im)
{
    static const char *const names[] = {"classifier.weight", "classifier.out_proj.weight"};
    const unsigned char *data;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct safetensor *t = import_folder_find(&im->folder, names[i], &data);
        if (t && t->n_dims == 2)
            im->encoder.labels = t->ne[1];
    }
}

/* Rows of a Dense module. modules.c has checked the rest of it. */
static void read_dense(struct import *im)
{
    static const char *const names[] = {"dense.0.weight", "dense.1.weight"};
    const unsigned char *data;
    for (size_t i = 0; i < 2; i++) {
        const struct safetensor *t = import_folder_find(&im->folder, names[i], &data);
        if (t && t->n_dims == 2)
            im->encoder.dense[i] = t->ne[1];
    }
}

void import_encoder_dimensions(struct import *im)
{
    read_labels(im);
    read_dense(im);
}

/* How positions are told apart: a word of config.json. */
static void check_positions(struct import *im, const char *want)
{
    const char *type = json_string_value(import_find(im, "position_embedding_type"));
    if (strcmp(type ? type : "absolute", want) != 0)
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s/config.json: a \"position_embedding_type\" of \"%.40s\" is not supported",
                    im->folder.path, type ? type : "absolute");
}

void import_bert_dimensions(struct import *im)
{
    import_encoder_dimensions(im);
    im->encoder.types = import_whole(im, "type_vocab_size", 2);
    check_positions(im, "absolute");
}

void import_roberta_dimensions(struct import *im)
{
    import_bert_dimensions(im);
    im->encoder.skipped = import_whole(im, "pad_token_id", 1) + 1;
    if (im->n_ctx <= im->encoder.skipped)
        import_unsupported(im, "\"max_position_embeddings\" is not above \"pad_token_id\" + 1");
    else
        im->n_ctx -= im->encoder.skipped;
}

/* Beyond max_trained_positions, its code scales RoPE; llama.cpp's converter ends the context
   there. */
void import_nomic_bert_dimensions(struct import *im)
{
    uint64_t trained = import_whole(im, "max_trained_positions", 2048);
    import_encoder_dimensions(im);
    im->encoder.types = import_whole(im, "type_vocab_size", 2);
    if (trained && trained < im->n_ctx)
        im->n_ctx = trained;
}

void import_jina_bert_dimensions(struct import *im)
{
    const char *ffn = json_string_value(import_find(im, "feed_forward_type"));
    import_encoder_dimensions(im);
    im->encoder.types = import_whole(im, "type_vocab_size", 2);
    check_positions(im, "alibi");
    if (!ffn || strcmp(ffn, "geglu") != 0)
        import_unsupported(im, "a \"feed_forward_type\" other than \"geglu\" is not supported");
}

/* ---- values */

/* Names of labels in the order of their numbers, which are the keys of id2label. */
static void put_labels(struct import *im)
{
    enum { MOST = 1 << 16 };
    const json_t *names = import_find(im, "id2label");
    size_t n = (size_t)im->encoder.labels;
    struct tft_str *label = n && n <= MOST ? calloc(n, sizeof *label) : NULL;
    bool all = label && json_object_size(names) == n;
    for (size_t i = 0; i < n && all; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        const json_t *name = json_object_get(names, key);
        label[i] = (struct tft_str){json_string_value(name), json_string_length(name)};
        all = label[i].p;
    }
    if (all)
        tft_gguf_put_strs(im->gguf, import_key(im, "classifier.output_labels"), label, n);
    free(label);
}

/* "gelu" is erf in transformers, and the other names are tanh's. */
static void put_gelu(struct import *im)
{
    const char *act = json_string_value(
                   import_find(im, "hidden_activation|hidden_act|activation_function|activation")),
               *form = !act || strcmp(act, "gelu") == 0 ? "erf" : "tanh";
    if (!act || strncmp(act, "gelu", 4) == 0)
        tft_gguf_put_str(im->gguf, TFT_KEY_GELU, (struct tft_str){form, strlen(form)});
}

void import_encoder_values(struct import *im)
{
    enum { RANK = 4 };
    tft_gguf_put_bool(im->gguf, import_key(im, "attention.causal"), false);
    put_gelu(im);
    if (im->encoder.types)
        tft_gguf_put_u32(im->gguf, "tokenizer.ggml.token_type_count", (uint32_t)im->encoder.types);
    if (im->encoder.labels) {
        tft_gguf_put_u32(im->gguf, import_key(im, "pooling_type"), RANK);
        put_labels(im);
    }
}

void import_jina_bert_values(struct import *im)
{
    import_encoder_values(im);
    tft_gguf_put_f32(im->gguf, import_key(im, "attention.max_alibi_bias"), 8);
}

void import_modern_bert_values(struct import *im)
{
    const char *act = json_string_value(import_find(im, "hidden_activation")),
               *pooling = json_string_value(import_find(im, "classifier_pooling"));
    uint64_t period = import_whole(im, "global_attn_every_n_layers", 3);
    import_encoder_values(im);
    if (!period)
        import_unsupported(im, "\"global_attn_every_n_layers\" is 0");
    for (uint64_t l = 0; l < im->n_layer && period && import_find(im, "layer_types"); l++)
        if (import_has_window(im, l, 1) != (l % period != 0))
            import_unsupported(im, "its windows are not in all layers but each of "
                                   "\"global_attn_every_n_layers\"");
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window"),
                     (uint32_t)import_whole(im, "local_attention", 128));
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                     (uint32_t)period);
    if (act)
        tft_gguf_put_str(im->gguf, import_key(im, "hidden_activation"),
                         (struct tft_str){act, strlen(act)});
    if (im->encoder.labels && (!pooling || strcmp(pooling, "mean") != 0))
        import_unsupported(im, "a \"classifier_pooling\" other than \"mean\" is not supported");
}

void import_gemma_embedding_values(struct import *im)
{
    import_gemma3_values(im);
    tft_gguf_put_bool(im->gguf, import_key(im, "attention.causal"), false);
}

bool import_is_bidirectional(const struct import *im)
{
    return json_is_true(import_find(im, "use_bidirectional_attention"));
}
