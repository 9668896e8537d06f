/* Folders of encoders and of sentence-transformers, made here from the names and shapes of their
   tensors. */
#define _XOPEN_SOURCE 700
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "paths.h"
#include "tools/import/import.h"

enum { D = 32, HEADS = 2, F = 64, VOCAB = 20, CTX = 12, LAYERS = 2 };

/* ---- a folder */

static char folder[64];
static struct tft_error err;

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tuffet-XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int empty_folder(void **state)
{
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "modules.json",
                                        "i.gguf",
                                        "1_Pooling/config.json",
                                        "config_sentence_transformers.json",
                                        "2_Dense/config.json",
                                        "2_Dense/model.safetensors",
                                        "3_Dense/config.json",
                                        "3_Dense/model.safetensors",
                                        "1_Pooling",
                                        "2_Dense",
                                        "3_Dense"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(in_folder(names[i]));
    return 0;
}

static int remove_folder(void **state)
{
    empty_folder(state);
    return rmdir(folder);
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* A tensor of the folder; "%u" in its name stands for all layers. cols 0: a vector. */
struct part {
    const char *name;
    unsigned rows, cols;
};

struct writer {
    char head[1 << 16];
    size_t n_head, bytes;
    unsigned n;
};

static void describe(struct writer *w, const char *name, const struct part *p)
{
    char shape[32];
    size_t bytes = sizeof(float) * p->rows * (p->cols ? p->cols : 1);
    snprintf(shape, sizeof shape, p->cols ? "%u,%u" : "%u", p->rows, p->cols);
    w->n_head +=
        (size_t)snprintf(w->head + w->n_head, sizeof w->head - w->n_head,
                         "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         w->n ? "," : "{", name, shape, w->bytes, w->bytes + bytes);
    assert_true(w->n_head < sizeof w->head - 2);
    w->bytes += bytes;
    w->n++;
}

/* Number i of a file is i / 4096: no two are equal. */
static void write_tensors(const char *name, const struct part *parts)
{
    static struct writer w;
    w = (struct writer){.n = 0};
    for (; parts->name; parts++)
        for (unsigned l = 0; l < (strstr(parts->name, "%u") ? LAYERS : 1); l++) {
            char full[96];
            snprintf(full, sizeof full, parts->name, l);
            describe(&w, full, parts);
        }
    w.head[w.n_head++] = '}';
    while (w.n_head % 8)
        w.head[w.n_head++] = ' ';
    FILE *f = fopen(in_folder(name), "wb");
    assert_non_null(f);
    for (int i = 0; i < 64; i += 8)
        fputc((int)((uint64_t)w.n_head >> i & 255), f);
    assert_int_equal(fwrite(w.head, 1, w.n_head, f), w.n_head);
    for (size_t i = 0; i < w.bytes / sizeof(float); i++) {
        float x = (float)i / 4096;
        assert_int_equal(fwrite(&x, sizeof x, 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
}

/* ---- results */

static enum tft_status import(void)
{
    struct import_result r;
    const struct import_opts o = {.no_tokenizer = true};
    return import_model(folder, in_folder("i.gguf"), &o, &r, &err);
}

/* The imported file, open until the next call. */
static const struct tft_source *imported(void)
{
    static struct tft_source s;
    tft_source_close(&s);
    if (import() != TFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(tft_source_open(&s, in_folder("i.gguf"), NULL, NULL, &err), TFT_OK);
    return &s;
}

static double number(const struct tft_source *s, const char *key)
{
    double x = -1;
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(!v || (!v->is_array && tft_value_real(v, 0, &x)));
    return x;
}

static void is_str(const struct tft_source *s, const char *key, const char *want)
{
    struct tft_str have;
    const struct tft_value *v = tft_source_value(s, key);
    assert_true(v && tft_value_str(v, &have));
    assert_int_equal(have.n, strlen(want));
    assert_memory_equal(have.p, want, have.n);
}

/* The tensor has this shape; cols 0: a vector. */
static void has(const struct tft_source *s, const char *name, unsigned rows, unsigned cols)
{
    const struct tft_tensor *t = tft_source_tensor(s, name);
    if (!t)
        fail_msg("%s is missing", name);
    assert_int_equal(t->n_dims, cols ? 2 : 1);
    assert_int_equal(t->ne[0], cols ? cols : rows);
    assert_int_equal(t->ne[1], cols ? rows : 1);
}

static void refused(const char *what)
{
    assert_int_equal(import(), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, what))
        fail_msg("%s", err.msg);
}

/* ---- BERT and its kin */

#define CONFIG(classes, more)                                                                      \
    "{\"architectures\":[\"" classes "\"],\"hidden_size\":32,\"num_attention_heads\":2,"           \
    "\"num_hidden_layers\":2,\"intermediate_size\":64,\"vocab_size\":20," more "}"
#define LINEAR(name, rows, cols)                                                                   \
    {name ".weight", rows, cols}, { name ".bias", rows, 0 }
#define NORM(name)                                                                                 \
    {name ".weight", D, 0}, { name ".bias", D, 0 }
#define EMBEDDINGS(p, types)                                                                       \
    {p "embeddings.word_embeddings.weight", VOCAB, D},                                             \
        {p "embeddings.token_type_embeddings.weight", types, D}, NORM(p "embeddings.LayerNorm")
#define ATTENTION(p)                                                                               \
    LINEAR(p "encoder.layer.%u.attention.self.query", D, D),                                       \
        LINEAR(p "encoder.layer.%u.attention.self.key", D, D),                                     \
        LINEAR(p "encoder.layer.%u.attention.self.value", D, D),                                   \
        LINEAR(p "encoder.layer.%u.attention.output.dense", D, D),                                 \
        NORM(p "encoder.layer.%u.attention.output.LayerNorm")
#define BERT(p, types, positions)                                                                  \
    EMBEDDINGS(p, types), {p "embeddings.position_embeddings.weight", positions, D}, ATTENTION(p), \
        LINEAR(p "encoder.layer.%u.intermediate.dense", F, D),                                     \
        LINEAR(p "encoder.layer.%u.output.dense", D, F),                                           \
        NORM(p "encoder.layer.%u.output.LayerNorm")

static const struct part bert_parts[] = {BERT("", 2, CTX), LINEAR("pooler.dense", D, D), {0}};
static const char bert_config[] =
    CONFIG("BertModel", "\"max_position_embeddings\":12,\"hidden_act\":\"gelu\","
                        "\"layer_norm_eps\":1e-12,\"type_vocab_size\":2,"
                        "\"position_embedding_type\":\"absolute\"");

static void bert(void **state)
{
    (void)state;
    write_tensors("model.safetensors", bert_parts);
    write_text("config.json", bert_config);
    const struct tft_source *s = imported();
    is_str(s, "general.architecture", "bert");
    is_str(s, "tuffet.gelu", "erf");
    assert_true(number(s, "bert.attention.causal") == 0);
    assert_true(number(s, "bert.context_length") == CTX);
    assert_true(number(s, "bert.pooling_type") == -1);
    assert_true(number(s, "tokenizer.ggml.token_type_count") == 2);
    has(s, "token_embd.weight", VOCAB, D);
    has(s, "token_types.weight", 2, D);
    has(s, "position_embd.weight", CTX, D);
    has(s, "token_embd_norm.bias", D, 0);
    has(s, "blk.1.attn_output_norm.weight", D, 0);
    has(s, "blk.1.ffn_up.weight", F, D);
    has(s, "blk.1.ffn_down.bias", D, 0);
    has(s, "blk.1.layer_output_norm.bias", D, 0);
    assert_null(tft_source_tensor(s, "cls.weight")); /* the pooler is of no use */
    write_text("config.json",
               CONFIG("BertModel", "\"max_position_embeddings\":12,\"hidden_act\":\"gelu_new\""));
    is_str(imported(), "tuffet.gelu", "tanh");
    write_text("config.json", CONFIG("BertModel", "\"max_position_embeddings\":12,"
                                                  "\"position_embedding_type\":\"relative_key\""));
    refused("a \"position_embedding_type\" of \"relative_key\"");
    write_text("config.json",
               CONFIG("BertModel", "\"max_position_embeddings\":12,\"hidden_act\":\"relu\""));
    refused("activation \"relu\"");
}

static void bert_that_ranks(void **state)
{
    static const struct part parts[] = {
        BERT("bert.", 2, CTX), LINEAR("bert.pooler.dense", D, D), LINEAR("classifier", 3, D), {0}};
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json",
               CONFIG("BertForSequenceClassification",
                      "\"max_position_embeddings\":12,\"id2label\":{\"0\":\"no\",\"1\":\"maybe\","
                      "\"2\":\"yes\"}"));
    const struct tft_source *s = imported();
    assert_true(number(s, "bert.pooling_type") == 4);
    has(s, "cls.weight", D, D);
    has(s, "cls.bias", D, 0);
    has(s, "cls.output.weight", 3, D);
    has(s, "cls.output.bias", 3, 0);
    const struct tft_value *labels = tft_source_value(s, "bert.classifier.output_labels");
    assert_true(labels && labels->is_array && labels->n == 3);
    const unsigned char *next = labels->data;
    assert_true(tft_str_is(tft_value_next_str(&next), "no"));
}

/* Its first positions are left out. */
static void roberta(void **state)
{
    static const struct part parts[] = {BERT("roberta.", 1, CTX + 2),
                                        LINEAR("classifier.dense", D, D),
                                        LINEAR("classifier.out_proj", 1, D),
                                        {0}};
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json", CONFIG("XLMRobertaForSequenceClassification",
                                     "\"max_position_embeddings\":14,\"type_vocab_size\":1,"
                                     "\"pad_token_id\":1,\"layer_norm_eps\":1e-5"));
    const struct tft_source *s = imported();
    assert_true(number(s, "bert.context_length") == CTX);
    has(s, "position_embd.weight", CTX, D);
    has(s, "token_types.weight", 1, D);
    has(s, "cls.weight", D, D);
    has(s, "cls.output.weight", 1, D);
    const struct tft_tensor *t = tft_source_tensor(s, "position_embd.weight");
    float first;
    memcpy(&first, t->data, sizeof first);
    size_t before = (size_t)D * VOCAB + D + 2 * D; /* the folder's numbers before positions */
    assert_true(first == (float)(before + 2 * D) / 4096);
    write_text("config.json", CONFIG("XLMRobertaModel", "\"max_position_embeddings\":2,"
                                                        "\"pad_token_id\":1"));
    refused("is not above");
}

static void distilbert(void **state)
{
#define L "transformer.layer.%u."
    static const struct part parts[] = {{"embeddings.word_embeddings.weight", VOCAB, D},
                                        {"embeddings.position_embeddings.weight", CTX, D},
                                        NORM("embeddings.LayerNorm"),
                                        LINEAR(L "attention.q_lin", D, D),
                                        LINEAR(L "attention.k_lin", D, D),
                                        LINEAR(L "attention.v_lin", D, D),
                                        LINEAR(L "attention.out_lin", D, D),
                                        NORM(L "sa_layer_norm"),
                                        LINEAR(L "ffn.lin1", F, D),
                                        LINEAR(L "ffn.lin2", D, F),
                                        NORM(L "output_layer_norm"),
                                        {0}};
#undef L
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json",
               "{\"architectures\":[\"DistilBertModel\"],\"dim\":32,\"n_heads\":2,\"n_layers\":2,"
               "\"hidden_dim\":64,\"vocab_size\":20,\"max_position_embeddings\":12,"
               "\"activation\":\"gelu\",\"sinusoidal_pos_embds\":false,\"qa_dropout\":0.1}");
    const struct tft_source *s = imported();
    is_str(s, "tuffet.gelu", "erf");
    assert_null(tft_source_tensor(s, "token_types.weight"));
    has(s, "blk.1.ffn_up.weight", F, D);
    has(s, "blk.0.attn_output_norm.bias", D, 0);
}

static void nomic_bert(void **state)
{
#define L "encoder.layers.%u."
    static const struct part parts[] = {{"embeddings.word_embeddings.weight", VOCAB, D},
                                        {"embeddings.token_type_embeddings.weight", 2, D},
                                        NORM("emb_ln"),
                                        {L "attn.Wqkv.weight", 3 * D, D},
                                        {L "attn.out_proj.weight", D, D},
                                        NORM(L "norm1"),
                                        {L "mlp.fc11.weight", F, D},
                                        {L "mlp.fc12.weight", F, D},
                                        {L "mlp.fc2.weight", D, F},
                                        NORM(L "norm2"),
                                        {0}};
#undef L
#define NOMIC(more)                                                                                \
    "{\"architectures\":[\"NomicBertModel\"],\"n_embd\":32,\"n_head\":2,\"n_layer\":2,"            \
    "\"n_inner\":64,\"vocab_size\":20,\"n_positions\":8192,\"max_trained_positions\":2048,"        \
    "\"layer_norm_epsilon\":1e-12,\"activation_function\":\"swiglu\",\"rotary_emb_base\":1000,"    \
    "\"type_vocab_size\":2,\"causal\":false," more "}"
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json", NOMIC("\"rotary_emb_fraction\":1.0,\"prenorm\":false"));
    const struct tft_source *s = imported();
    is_str(s, "general.architecture", "nomic-bert");
    assert_true(number(s, "nomic-bert.rope.freq_base") == 1000);
    assert_true(number(s, "nomic-bert.context_length") == 2048);
    assert_null(tft_source_value(s, "tuffet.gelu"));
    has(s, "blk.1.attn_qkv.weight", 3 * D, D);
    has(s, "blk.1.ffn_gate.weight", F, D);
    write_text("config.json", NOMIC("\"prenorm\":true"));
    refused("\"prenorm\" is not supported");
    write_text("config.json", NOMIC("\"num_experts\":8"));
    refused("\"num_experts\" is not supported");
}

static void jina_bert(void **state)
{
    static const struct part parts[] = {EMBEDDINGS("", 2),
                                        ATTENTION(""),
                                        {"encoder.layer.%u.mlp.gated_layers.weight", 2 * F, D},
                                        LINEAR("encoder.layer.%u.mlp.wo", D, F),
                                        NORM("encoder.layer.%u.mlp.layernorm"),
                                        LINEAR("pooler.dense", D, D),
                                        {0}};
    (void)state;
    write_tensors("model.safetensors", parts);
#define JINA(ffn)                                                                                  \
    CONFIG("JinaBertForMaskedLM",                                                                  \
           "\"max_position_embeddings\":8192,\"hidden_act\":\"gelu\","                             \
           "\"position_embedding_type\":\"alibi\",\"feed_forward_type\":\"" ffn "\"")
    write_text("config.json", JINA("geglu"));
    const struct tft_source *s = imported();
    is_str(s, "general.architecture", "jina-bert-v2");
    assert_true(number(s, "jina-bert-v2.attention.max_alibi_bias") == 8);
    has(s, "blk.1.ffn_up.weight", 2 * F, D);
    has(s, "blk.1.layer_output_norm.weight", D, 0);
    write_text("config.json", JINA("reglu"));
    refused("a \"feed_forward_type\" other than \"geglu\"");
}

static void modern_bert(void **state)
{
#define L "model.layers.%u."
    static const struct part parts[] = {{"model.embeddings.tok_embeddings.weight", VOCAB, D},
                                        {"model.embeddings.norm.weight", D, 0},
                                        {"model.final_norm.weight", D, 0},
                                        {"model.layers.1.attn_norm.weight", D, 0},
                                        {L "attn.Wqkv.weight", 3 * D, D},
                                        {L "attn.Wo.weight", D, D},
                                        {L "mlp_norm.weight", D, 0},
                                        {L "mlp.Wi.weight", 2 * F, D},
                                        {L "mlp.Wo.weight", D, F},
                                        {"head.dense.weight", D, D},
                                        {"head.norm.weight", D, 0},
                                        LINEAR("classifier", 1, D),
                                        {0}};
#undef L
#define MODERN(class_name, more)                                                                   \
    CONFIG(class_name, "\"max_position_embeddings\":8192,\"hidden_activation\":\"gelu\","          \
                       "\"norm_eps\":1e-5,\"norm_bias\":false,\"local_attention\":128,"            \
                       "\"global_attn_every_n_layers\":3,\"global_rope_theta\":160000.0,"          \
                       "\"local_rope_theta\":10000.0,\"classifier_pooling\":" more)
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json", MODERN("ModernBertForSequenceClassification", "\"mean\""));
    const struct tft_source *s = imported();
    assert_true(number(s, "modern-bert.rope.freq_base") == 160000);
    assert_true(number(s, "modern-bert.rope.freq_base_swa") == 10000);
    assert_true(number(s, "modern-bert.attention.sliding_window") == 128);
    assert_true(number(s, "modern-bert.attention.sliding_window_pattern") == 3);
    assert_true(number(s, "modern-bert.pooling_type") == 4);
    is_str(s, "modern-bert.hidden_activation", "gelu");
    is_str(s, "tuffet.gelu", "erf");
    assert_null(tft_source_tensor(s, "blk.0.attn_norm.weight"));
    has(s, "blk.1.attn_norm.weight", D, 0);
    has(s, "cls.norm.weight", D, 0);
    has(s, "cls.output.weight", 1, D);
    write_text("config.json", MODERN("ModernBertForSequenceClassification", "\"cls\""));
    refused("a \"classifier_pooling\" other than \"mean\"");
    write_text("config.json",
               MODERN("ModernBertForSequenceClassification",
                      "\"mean\",\"layer_types\":[\"sliding_attention\",\"full_attention\"]"));
    refused("its windows are not in all layers");
}

#define LLAMA(p)                                                                                   \
    {p "embed_tokens.weight", VOCAB, D}, {p "norm.weight", D, 0},                                  \
        {p "layers.%u.input_layernorm.weight", D, 0},                                              \
        {p "layers.%u.post_attention_layernorm.weight", D, 0},                                     \
        {p "layers.%u.self_attn.q_proj.weight", D, D},                                             \
        {p "layers.%u.self_attn.k_proj.weight", D / 2, D},                                         \
        {p "layers.%u.self_attn.v_proj.weight", D / 2, D},                                         \
        {p "layers.%u.self_attn.o_proj.weight", D, D}, {p "layers.%u.mlp.gate_proj.weight", F, D}, \
        {p "layers.%u.mlp.up_proj.weight", F, D},                                                  \
    {                                                                                              \
        p "layers.%u.mlp.down_proj.weight", D, F                                                   \
    }

static void eurobert(void **state)
{
    static const struct part parts[] = {LLAMA("model."), {"lm_head.weight", VOCAB, D}, {0}};
    (void)state;
    write_tensors("model.safetensors", parts);
    write_text("config.json",
               CONFIG("EuroBertForMaskedLM", "\"max_position_embeddings\":8192,\"rms_norm_eps\":"
                                             "1e-5,\"num_key_value_heads\":1,\"hidden_act\":"
                                             "\"silu\",\"rope_theta\":250000"));
    const struct tft_source *s = imported();
    is_str(s, "general.architecture", "eurobert");
    assert_true(number(s, "eurobert.rope.freq_base") == 250000);
    assert_true(number(s, "eurobert.attention.causal") == 0);
    assert_null(tft_source_tensor(s, "output.weight"));
    has(s, "blk.1.attn_k.weight", D / 2, D);
}

/* ---- modules */

#define MODULE(name, path)                                                                         \
    "{\"path\":\"" path "\",\"type\":\"sentence_transformers.models." name "\"}"
#define MODULES(more) "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling") more "]"
#define DENSE(act)                                                                                 \
    "{\"in_features\":32,\"out_features\":48,\"bias\":false,\"activation_function\":"              \
    "\"torch.nn.modules." act "\"}"

static void make_modules(const char *modules, const char *pooling)
{
    mkdir(in_folder("1_Pooling"), 0700);
    write_text("modules.json", modules);
    write_text("1_Pooling/config.json", pooling);
}

static void gemma_embedding(void **state)
{
    static const struct part parts[] = {LLAMA(""),
                                        {"layers.%u.pre_feedforward_layernorm.weight", D, 0},
                                        {"layers.%u.post_feedforward_layernorm.weight", D, 0},
                                        {"layers.%u.self_attn.q_norm.weight", D / 2, 0},
                                        {"layers.%u.self_attn.k_norm.weight", D / 2, 0},
                                        {0}},
                             wide[] = {{"linear.weight", 48, D}, {0}},
                             narrow[] = {{"linear.weight", D, 48}, {0}};
    (void)state;
    write_tensors("model.safetensors", parts);
#define GEMMA(both)                                                                                \
    CONFIG("Gemma3TextModel",                                                                      \
           "\"max_position_embeddings\":2048,\"num_key_value_heads\":1,"                           \
           "\"head_dim\":16,\"query_pre_attn_scalar\":16,\"sliding_window\":512,\"rope_theta\":"   \
           "1e6,\"rope_local_base_freq\":1e4,\"hidden_activation\":\"gelu_pytorch_tanh\","         \
           "\"use_bidirectional_attention\":" both)
    write_text("config.json", GEMMA("true"));
    make_modules(MODULES("," MODULE("Dense", "2_Dense") "," MODULE("Dense", "3_Dense") "," MODULE(
                     "Normalize", "4_Normalize")),
                 "{\"pooling_mode_mean_tokens\":true,\"include_prompt\":true}");
    mkdir(in_folder("2_Dense"), 0700);
    mkdir(in_folder("3_Dense"), 0700);
    write_text("2_Dense/config.json", DENSE("linear.Identity"));
    write_text("3_Dense/config.json", DENSE("linear.Identity"));
    write_tensors("2_Dense/model.safetensors", wide);
    write_tensors("3_Dense/model.safetensors", narrow);
    write_text("config_sentence_transformers.json",
               "{\"prompts\":{\"query\":\"task: search result | query: \",\"document\":\"title: "
               "none | text: \"},\"default_prompt_name\":\"query\",\"similarity_fn_name\":"
               "\"cosine\"}");
    const struct tft_source *s = imported();
    is_str(s, "general.architecture", "gemma-embedding");
    assert_true(number(s, "gemma-embedding.pooling_type") == 1);
    assert_true(number(s, "gemma-embedding.attention.sliding_window") == 512);
    has(s, "dense_2.weight", 48, D);
    has(s, "dense_3.weight", D, 48);
    is_str(s, "tuffet.prompt.query", "task: search result | query: ");
    is_str(s, "tuffet.default_prompt", "query");
    assert_int_equal(tft_source_value(s, "tuffet.prompts")->n, 2);
    write_text("3_Dense/config.json", DENSE("activation.Tanh"));
    refused("an \"activation_function\" of torch.nn.modules.activation.Tanh");
    write_text("config.json", GEMMA("false"));
    write_text("3_Dense/config.json", DENSE("linear.Identity"));
    refused("the class Gemma3TextModel is not supported");
}

static void poolings(void **state)
{
    static const struct {
        const char *config;
        int want;
    } good[] = {{"{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}", 2},
                {"{\"pooling_mode_lasttoken\":true}", 3},
                {"{\"pooling_mode\":\"mean\"}", 1}};
    static const char *const bad[][2] = {
        {"{\"pooling_mode_max_tokens\":true}", "pooling by \"pooling_mode_max_tokens\""},
        {"{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":true}", "pooling by"},
        {"{\"pooling_mode\":\"max\"}", "pooling by \"max\""},
        {"{\"pooling_mode_cls_token\":true,\"include_prompt\":false}", "include_prompt"}};
    static const char *const modules[][2] = {
        {MODULES("," MODULE("Dense", "2_Dense") "," MODULE("WordWeights", "3")), "WordWeights"},
        {MODULES("," MODULE("Normalize", "2") "," MODULE("Dense", "2_Dense")), "Normalize"},
        {"[" MODULE("CLIPModel", "") "]", "not CLIPModel"},
        {"[" MODULE("Transformer", "0_T") "]", "in the folder itself"}};
    static const struct part dense[] = {{"linear.weight", 48, D}, {"linear.bias", 48, 0}, {0}};
    (void)state;
    write_tensors("model.safetensors", bert_parts);
    write_text("config.json", bert_config);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        make_modules(MODULES(""), good[i].config);
        assert_true(number(imported(), "bert.pooling_type") == good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_modules(MODULES(""), bad[i][0]);
        refused(bad[i][1]);
    }
    make_modules(MODULES(""), "{\"pooling_mode_cls_token\":false}");
    assert_int_equal(import(), TFT_ERR_FORMAT);
    mkdir(in_folder("2_Dense"), 0700);
    write_text("2_Dense/config.json", DENSE("linear.Identity"));
    write_tensors("2_Dense/model.safetensors", dense);
    make_modules(MODULES("," MODULE("Dense", "2_Dense")), good[0].config);
    refused("tensors other than \"linear.weight\"");
    write_tensors("2_Dense/model.safetensors",
                  (const struct part[]){{"linear.weight", 48, D}, {0}});
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        make_modules(modules[i][0], good[0].config);
        refused(modules[i][1]);
    }
    make_modules(MODULES("," MODULE("Dense", "../2_Dense")), good[0].config);
    assert_int_equal(import(), TFT_ERR_FORMAT);
    write_text("modules.json", "{}");
    assert_int_equal(import(), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "not a JSON array"));
}

/* ---- a real model */

/* The folder of all-MiniLM-L6-v2 has the numbers of its GGUF file. */
static void minilm(void **state)
{
    struct import_result r;
    const struct import_opts o = {0};
    struct tft_source a, b;
    char path[4096] = "";
    const char *config = model_path("all-minilm-l6-v2/config.json"),
               *gguf = shared_path("models/embed/all-minilm-l6-v2.f16.gguf");
    (void)state;
    if (!config || !gguf)
        skip_because("all-minilm-l6-v2 and shared/models/embed are not there");
    snprintf(path, sizeof path, "%.*s", (int)(strlen(config) - strlen("/config.json")), config);
    if (import_model(path, in_folder("i.gguf"), &o, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(tft_source_open(&a, in_folder("i.gguf"), NULL, NULL, &err), TFT_OK);
    assert_int_equal(tft_source_open(&b, gguf, NULL, NULL, &err), TFT_OK);
    assert_int_equal(a.n_tensor, 101);
    assert_int_equal(b.n_tensor, 101);
    for (size_t i = 0; i < a.n_tensor; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", TFT_STR_ARG(a.tensor[i].name));
        const struct tft_tensor *t = tft_source_tensor(&b, name);
        assert_non_null(t);
        assert_int_equal(t->type, a.tensor[i].type);
        assert_int_equal(t->bytes, a.tensor[i].bytes);
        assert_memory_equal(t->data, a.tensor[i].data, t->bytes);
    }
    assert_true(number(&a, "bert.pooling_type") == 1);
    is_str(&a, "tuffet.gelu", "erf");
    tft_source_close(&a);
    tft_source_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(bert, empty_folder),
        cmocka_unit_test_teardown(bert_that_ranks, empty_folder),
        cmocka_unit_test_teardown(roberta, empty_folder),
        cmocka_unit_test_teardown(distilbert, empty_folder),
        cmocka_unit_test_teardown(nomic_bert, empty_folder),
        cmocka_unit_test_teardown(jina_bert, empty_folder),
        cmocka_unit_test_teardown(modern_bert, empty_folder),
        cmocka_unit_test_teardown(eurobert, empty_folder),
        cmocka_unit_test_teardown(gemma_embedding, empty_folder),
        cmocka_unit_test_teardown(poolings, empty_folder),
        cmocka_unit_test_teardown(minilm, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
