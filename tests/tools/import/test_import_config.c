/* Ways of writing config.json that the folders of test_import.c do not have: values that the import
   computes, defaults, and refusals. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "dense_toys.h"
#include "expert_toys.h"
#include "fed.h"
#include "hf.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "tools/import/safetensors.h"

/* The i-th toy of an architecture. */
static const struct toy *toy_of(const char *arch, int i)
{
    for (int k = 0; k < N_MORE; k++)
        if (strcmp(more_toys[k].arch, arch) == 0 && i-- == 0)
            return &more_toys[k];
    for (int k = 0; k < N_EXPERTS; k++)
        if (strcmp(expert_toys[k].arch, arch) == 0 && i-- == 0)
            return &expert_toys[k];
    for (int k = 0; k < N_DENSE; k++)
        if (strcmp(dense_toys[k].arch, arch) == 0 && i-- == 0)
            return &dense_toys[k];
    assert_string_equal(arch, "gemma4");
    static struct toy layers;
    layers = layer_folder_toy(i);
    return &layers;
}

static void as_hf(struct toy t)
{
    t.fused_experts = t.weight_factors = false;
    empty_hf();
    as_folder(&t, written(&t), hf(), 1);
}

/* Imports the folder; the result is open until the next call. */
static const struct tft_source *result(void)
{
    static struct tft_source s;
    tft_source_close(&s);
    if (import_hf(&keep) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(tft_source_open(&s, in_folder("i.gguf"), NULL, NULL, NULL), TFT_OK);
    return &s;
}

/* A number of the result; `lacks` if it has no such key. */
static double number(const struct tft_source *s, const char *key, double lacks)
{
    const struct tft_value *v = tft_source_value(s, key);
    double x = lacks;
    assert_true(!v || (!v->is_array && tft_value_real(v, 0, &x)));
    return x;
}

static void near(double have, double want)
{
    if (!(fabs(have - want) <= 1e-6 * fabs(want)))
        fail_msg("%.9g, not %.9g", have, want);
}

/* The import has the logits of the toy's own file. */
static void same_logits(void)
{
    assert_int_equal(fed(in_folder("i.gguf"), 1, 60, 512, "f16"),
                     fed(in_folder("m.gguf"), 1, 60, 512, "f16"));
}

/* ---- RoPE */

/* "dynamic" with an alpha is another base, in a context that is known: Hunyuan. */
static void rope_alpha(void **state)
{
    (void)state;
    const struct toy *t = toy_of("hunyuan-dense", 0);
    as_hf(*t);
    edit("\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000.0}");
    const struct tft_source *s = result();
    struct tft_str type;
    near(number(s, "hunyuan-dense.rope.freq_base", 0), 10000 * pow(1000, 24.0 / 22));
    near(number(s, "hunyuan-dense.context_length", 0), 262144);
    near(number(s, "hunyuan-dense.rope.scaling.original_context_length", 0), 262144);
    near(number(s, "hunyuan-dense.rope.scaling.factor", 0), 1);
    assert_true(tft_value_str(tft_source_value(s, "hunyuan-dense.rope.scaling.type"), &type) &&
                tft_str_is(type, "none"));
    tft_model_close(opened(in_folder("i.gguf")));
}

/* LongRoPE's amplitude follows from how much the context has grown, unless config.json has it. */
static void longrope_amplitude(void **state)
{
    (void)state;
    const char *key = "phi3.rope.scaling.attn_factor", *given = "\"attention_factor\":1.19,";
    const struct toy *t = toy_of("phi3", 0);
    as_hf(*t);
    near(number(result(), key, 0), 1.19);
    edit(given, "");
    near(number(result(), key, 0), sqrt(1 + log(640.0 / 20) / log(20)));
    edit("\"type\":\"longrope\"", "\"factor\":8,\"type\":\"longrope\"");
    near(number(result(), key, 0), sqrt(1 + log(8) / log(20)));
    edit("\"factor\":8,", "");
    edit("\"original_max_position_embeddings\":20", "\"original_max_position_embeddings\":640");
    near(number(result(), key, 0), 1);
}

/* A reader of olmo2 takes it in place of 0.1 ln(factor) + 1, one of smollm3 multiplies the two. */
static void yarn_amplitude(void **state)
{
    (void)state;
    const char *key = "olmo2.rope.scaling.attn_factor", *at = "\"rope_type\":\"yarn\"",
               *with = "\"attention_factor\":1.5,\"rope_type\":\"yarn\"";
    struct toy other = *toy_of("smollm3", 0);
    other.yarn = 4;
    as_hf(other);
    edit(at, with);
    near(number(result(), "smollm3.rope.scaling.attn_factor", -1), 1.5 / (0.1 * log(4) + 1));
    as_hf(*toy_of("olmo2", 1));
    near(number(result(), key, -1), -1);
    edit(at, with);
    near(number(result(), key, -1), 1.5);
    edit("\"attention_factor\":1.5", "\"attention_factor\":1.1386294");
    near(number(result(), key, -1), -1);
}

/* "truncate": false: divisors of all pairs, of a ramp that is not rounded. */
static void yarn_divisors(void **state)
{
    (void)state;
    struct toy t = *toy_of("smollm3", 0);
    t.yarn = 4;
    as_hf(t);
    edit("\"rope_type\":\"yarn\"", "\"truncate\":false,\"rope_type\":\"yarn\"");
    const struct tft_source *s = result();
    const struct tft_tensor *by = tft_source_tensor(s, "rope_freqs.weight");
    near(number(s, "smollm3.rope.scaling.attn_factor", -1), 0.1 * log(4) + 1);
    near(number(s, "smollm3.rope.scaling.factor", -1), -1);
    assert_non_null(by);
    double n_rot = number(s, "smollm3.rope.dimension_count", 0), two_pi = 2 * acos(-1),
           low = fmax(n_rot * log(40 / (32 * two_pi)) / (2 * log(1e4)), 0),
           high = n_rot * log(40 / two_pi) / (2 * log(1e4));
    assert_int_equal(by->ne[0], n_rot / 2);
    for (size_t i = 0; i < by->ne[0]; i++) {
        double ramp = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        near((double)((const float *)(const void *)by->data)[i], 1 / (ramp / 4 + 1 - ramp));
    }
    tft_model_close(opened(in_folder("i.gguf")));
}

/* config.json names the context of the training; YaRN makes it longer by its factor. */
static void yarn_context(void **state)
{
    (void)state;
    struct toy t = *toy_of("smollm3", 0);
    t.yarn = 4;
    as_hf(t);
    near(number(result(), "smollm3.context_length", 0), fmax(t.n_ctx, 160));
    edit("\"original_max_position_embeddings\":40", "\"original_max_position_embeddings\":32000");
    near(number(result(), "smollm3.context_length", 0), 128000);
    edit("\"original_max_position_embeddings\":32000", "\"other\":null");
    near(number(result(), "smollm3.context_length", 0), 4 * t.n_ctx);
}

/* ---- layers */

/* Before layer_types there was a list of the layers with attention. */
static void lfm2_layers(void **state)
{
    (void)state;
    as_hf(*toy_of("lfm2", 0));
    edit("\"layer_types\":[\"conv\",\"full_attention\",\"conv\",\"full_attention\",\"conv\"]",
         "\"full_attn_idxs\":[1,3]");
    result();
    same_logits();
}

/* Two thirds of the value of config.json, rounded up. */
static void lfm2_width(void **state)
{
    (void)state;
    as_hf(*toy_of("lfm2", 0));
    edit("\"intermediate_size\":72", "\"intermediate_size\":96");
    edit("\"block_auto_adjust_ff_dim\":false",
         "\"block_multiple_of\":24,\"block_ffn_dim_multiplier\":0.8");
    result();
    same_logits();
}

/* Gemma's scores have the scale of a model's size. In the 46 layers of gemma2's 27B it is
   sqrt(D / H), which is not that of a head here. */
static void gemma_scales(void **state)
{
    (void)state;
    struct toy t = *toy_of("gemma2", 0);
    as_hf(t);
    edit("\"query_pre_attn_scalar\":20,", "");
    result();
    same_logits();
    t.n_layer = 46;
    as_hf(t);
    edit("\"query_pre_attn_scalar\":20", "\"query_pre_attn_scalar\":12");
    result();
    same_logits();
}

/* qwen35 has values of the formula even if config.json has others. */
static void qwen35_sections(void **state)
{
    (void)state;
    const char *key = "qwen35.rope.dimension_sections";
    static const int64_t usual[4] = {11, 11, 10, 0}, given[4] = {2, 1, 1, 0};
    as_hf(*toy_of("qwen35", 1));
    for (int k = 0; k < 2; k++) {
        if (k)
            edit("\"rope_scaling\":null", "\"rope_parameters\":{\"mrope_section\":[2,1,1]}");
        const struct tft_value *v = tft_source_value(result(), key);
        assert_true(v && v->is_array && v->n == 4);
        for (uint64_t i = 0; i < 4; i++) {
            int64_t x;
            assert_true(tft_value_int(v, i, &x) && x == (k ? given : usual)[i]);
        }
    }
}

/* Values that gemma4's config.json leaves out are its class's: a quarter of the pairs turn where
   there is no window. */
static void gemma4_defaults(void **state)
{
    (void)state;
    as_hf(*toy_of("gemma4", 0));
    edit("\"full_attention\"],", "\"sliding_attention\"],"); /* the last layer never has one */
    result();
    same_logits();
    edit("\"rope_parameters\"", "\"auto_map\"");
    const struct tft_source *s = result();
    const struct tft_tensor *t = tft_source_tensor(s, "rope_freqs.weight");
    near(number(s, "gemma4.rope.freq_base", 0), 1e6);
    near(number(s, "gemma4.rope.freq_base_swa", 0), 1e4);
    near(number(s, "gemma4.rope.dimension_count", 0), 20);
    near(number(s, "gemma4.rope.dimension_count_swa", 0), 12);
    assert_true(t && t->ne[0] == 10);
    for (int i = 0; i < 10; i++) {
        float x;
        memcpy(&x, t->data + 4 * i, 4);
        assert_true(x == (i < 2 ? 1 : 1e30f));
    }
    tft_model_close(opened(in_folder("i.gguf")));
}

/* StarCoder 2 and Phi-3 have a window in all layers, unless the context is not longer. */
static void windows_everywhere(void **state)
{
    (void)state;
    static const char *const archs[] = {"starcoder2", "phi3"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.attention.sliding_window", archs[i]);
        as_hf(*toy_of(archs[i], 0));
        near(number(result(), key, -1), -1);
        edit("\"vocab_size\"", "\"sliding_window\":30,\"vocab_size\"");
        near(number(result(), key, -1), 30);
        edit("\"sliding_window\":30", "\"sliding_window\":640");
        near(number(result(), key, -1), -1);
    }
}

/* Gemma 4 12B's class has the same text, without embeddings for each layer. */
static void gemma4_unified(void **state)
{
    (void)state;
    as_hf(*toy_of("gemma4", 1));
    edit("Gemma4ForCond", "Gemma4UnifiedForCond");
    edit("\"hidden_size_per_layer_input\":0,", "");
    edit("\"sliding_window\":100,", "");
    near(number(result(), "gemma4.attention.sliding_window", 0), 1024);
    edit("\"layer_types\"", "\"sliding_window\":100,\"layer_types\"");
    result();
    same_logits();
}

/* How many numbers a matrix of bitnet has, up to 4. */
static int levels(const struct tft_source *s)
{
    const struct tft_tensor *t = tft_source_tensor(s, "blk.0.ffn_up.weight");
    float level[4];
    int n = 0;
    assert_true(t && t->type == TFT_F32);
    for (uint64_t i = 0; i < t->ne[0] * t->ne[1] && n < 4; i++) {
        float x;
        int k = 0;
        memcpy(&x, t->data + 4 * i, 4);
        while (k < n && level[k] != x)
            k++;
        if (k == n)
            level[n++] = x;
    }
    return n;
}

/* Replaces the last number of an f32 tensor of the folder. */
static void put_into(const char *name, float x)
{
    struct safetensors s;
    char path[128];
    size_t i = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", hf());
    assert_int_equal(safetensors_open(&s, path, &err), TFT_OK);
    while (i < s.n && strcmp(s.tensor[i].name, name))
        i++;
    assert_true(i < s.n && s.tensor[i].type == TFT_F32);
    long at = (long)(s.map.size - s.size + s.tensor[i].offset + s.tensor[i].bytes) - 4;
    safetensors_close(&s);
    FILE *f = fopen(path, "r+b");
    assert_true(f && fseek(f, at, SEEK_SET) == 0 && fwrite(&x, 4, 1, f) == 1);
    assert_int_equal(fclose(f), 0);
}

/* The gate of bitnet; and lfm2moe's factor of the weights of its experts. */
static void keys_that_need_not_be(void **state)
{
    (void)state;
    struct tft_str act;
    struct toy bitnet = *toy_of("bitnet", 1);
    bitnet.type = TFT_F32; /* as as_folder() wants it */
    as_hf(bitnet);
    assert_null(tft_source_value(result(), "bitnet.hidden_activation"));
    edit("\"silu\"", "\"relu2\"");
    assert_true(tft_value_str(tft_source_value(result(), "bitnet.hidden_activation"), &act) &&
                tft_str_is(act, "relu2"));
    as_hf(*toy_of("lfm2moe", 0));
    near(number(result(), "lfm2moe.expert_weights_scale", -1), -1);
    edit("\"num_experts\"", "\"routed_scaling_factor\":2.5,\"num_experts\"");
    near(number(result(), "lfm2moe.expert_weights_scale", -1), 2.5);
}

/* Values that config.json leaves out are the class's. */
static void bitnet_classes(void **state)
{
    (void)state;
    static const char *const online = "\"quantization_config\":{\"quant_method\":\"bitnet\","
                                      "\"quantization_mode\":\"online\"},";
    struct tft_str act;
    struct toy t = *toy_of("bitnet", 1);
    t.type = TFT_F32;
    t.relu2 = true;
    as_hf(t);
    result();
    uint64_t want = fed(in_folder("i.gguf"), 1, 60, 512, "f16");
    edit("\"hidden_act\":\"relu2\",", "");
    edit("\"tie_word_embeddings\":false,", "");
    const struct tft_source *s = result();
    assert_true(tft_value_str(tft_source_value(s, "bitnet.hidden_activation"), &act) &&
                tft_str_is(act, "relu2"));
    assert_non_null(tft_source_tensor(s, "output.weight"));
    assert_int_equal(fed(in_folder("i.gguf"), 1, 60, 512, "f16"), want);
    /* weights stay as they are unless they are said to be quantized */
    edit(online, "");
    assert_true(levels(result()) > 3);
    /* the class of the first checkpoints has ternary ones always, and the activation is said */
    edit("BitNetForCausalLM", "BitnetForCausalLM");
    edit("\"architectures\"", "\"hidden_act\":\"relu2\",\"architectures\"");
    s = result();
    assert_int_equal(levels(s), 3);
    assert_non_null(tft_source_tensor(s, "output.weight"));
    assert_int_equal(fed(in_folder("i.gguf"), 1, 60, 512, "f16"), want);
}

/* NaN is no size: a matrix that has one does not become ternary. */
static void bitnet_with_a_nan(void **state)
{
    (void)state;
    static const float nan_or_infinity[] = {NAN, INFINITY};
    struct toy t = *toy_of("bitnet", 0);
    as_hf(t);
    result();
    for (int i = 0; i < 2; i++) {
        put_into("model.layers.1.mlp.up_proj.weight", nan_or_infinity[i]);
        assert_int_equal(import_hf(&keep), TFT_ERR_FORMAT);
        assert_non_null(strstr(err.msg, "NaN or infinity in tensor "
                                        "\"model.layers.1.mlp.up_proj.weight\""));
    }
}

/* ---- messages */

static void ends_with(const char *path, const char *end)
{
    struct import_result r;
    assert_int_not_equal(import_model(path, in_folder("i.gguf"), &keep, &r, &err), TFT_OK);
    size_t n = strlen(err.msg), m = strlen(end);
    if (n < m || strcmp(err.msg + n - m, end) != 0)
        fail_msg("\"%s\" does not end with \"%s\"", err.msg, end);
}

/* The message says the fault, however long the folder's path is. */
static void long_paths(void **state)
{
    (void)state;
    char path[1024], name[128];
    size_t n = (size_t)snprintf(path, sizeof path, "%s", hf());
    while (n + 2 < 700)
        n += (size_t)snprintf(path + n, sizeof path - n, "/.");
    as_hf(*toy_of("gemma", 0));
    snprintf(name, sizeof name, "%s/model.safetensors", hf());
    assert_true(write_file(name, "1234567", 7));
    ends_with(path, "/model.safetensors: a file of 7 bytes is not safetensors");
    assert_int_equal(remove(name), 0);
    ends_with(path, ": neither model.safetensors nor model.safetensors.index.json is there");
    snprintf(name, sizeof name, "%s/model.safetensors.index.json", hf());
    assert_true(write_file(name, "{}", 2));
    ends_with(path, "/model.safetensors.index.json: it has no weight_map");
    snprintf(name, sizeof name, "%s/config.json", hf());
    assert_true(write_file(name, "[]", 2));
    ends_with(path, "/config.json: this is not a JSON object");
    assert_true(write_file(name, "{", 1));
    ends_with(path, "/config.json: line 1, column 1: string or '}' expected near end of file");
}

/* ---- refusals */

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *what, *with, *message;
    } cases[] = {
        {"gemma2", "\"query_pre_attn_scalar\":20", "\"query_pre_attn_scalar\":19",
         "this \"query_pre_attn_scalar\" is not supported"},
        {"gemma3", "\"query_pre_attn_scalar\":12", "\"query_pre_attn_scalar\":11",
         "this \"query_pre_attn_scalar\" is not supported"},
        {"smollm3", "[1,1,1,0,1]", "[1,1,0,1,1]", "must have RoPE in three layers of four"},
        {"smollm3", "\"no_rope_layers\":[1,1,1,0,1]", "\"no_rope_layer_interval\":5",
         "must have RoPE in three layers of four"},
        {"falcon", "\"vocab_size\"", "\"alibi\":true,\"vocab_size\"", "falcon with ALiBi"},
        {"falcon", "\"vocab_size\"", "\"parallel_attn\":false,\"vocab_size\"", "falcon with ALiBi"},
        {"olmoe", "\"num_experts\"", "\"clip_qkv\":8,\"num_experts\"", "clip_qkv"},
        {"olmoe", "\"num_experts\"", "\"norm_topk_prob\":true,\"num_experts\"",
         "this \"norm_topk_prob\" is not supported"},
        {"qwen3moe", "\"norm_topk_prob\":true", "\"norm_topk_prob\":false",
         "this \"norm_topk_prob\" is not supported"},
        {"qwen3moe", "\"mlp_only_layers\":[]", "\"mlp_only_layers\":[0]",
         "layers without experts are not supported"},
        {"qwen3moe", "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2",
         "layers without experts are not supported"},
        {"qwen2moe", "\"shared_expert_intermediate_size\":56,", "",
         "\"shared_expert_intermediate_size\" is missing"},
        {"lfm2moe", "\"num_dense_layers\":1", "\"num_dense_layers\":3",
         "none of its layers has experts"},
        {"lfm2moe", "\"num_dense_layers\":1", "\"num_dense_layers\":2",
         "layers.1.feed_forward.w1.weight\" is missing"},
        {"lfm2", "[\"conv\",\"full_attention\"", "[\"conv\",\"conv\"",
         "layers.1.conv.in_proj.weight\" is missing"},
        {"granitemoe", "\"shared_intermediate_size\":64,", "",
         "shared_mlp.input_linear.weight\" is not known"},
        {"granitemoe", "\"shared_intermediate_size\":64", "\"shared_intermediate_size\":32",
         "shared_mlp.input_linear.weight\" has 128 numbers where config.json says 64"},
        {"qwen35", "\"vocab_size\"", "\"attn_output_gate\":false,\"vocab_size\"",
         "qwen35 without gates"},
        {"qwen35", "\"linear_value_head_dim\":32", "\"linear_value_head_dim\":16",
         "values and keys of different lengths"},
        {"qwen35", "\"linear_num_key_heads\":2", "\"linear_num_key_heads\":3",
         "linear_num_value_heads is not a multiple of linear_num_key_heads, or is too large"},
        {"qwen35", "\"linear_num_key_heads\":2", "\"linear_num_key_heads\":0",
         "linear_num_value_heads is not a multiple of linear_num_key_heads, or is too large"},
        {"gemma4", "\"num_kv_shared_layers\":3", "\"num_kv_shared_layers\":6",
         "\"num_kv_shared_layers\" leaves no layer with keys and values"},
        {"gemma4", "\"num_kv_shared_layers\":3", "\"num_kv_shared_layers\":2",
         "layers.3.self_attn.k_proj.weight\" is missing"},
        {"gemma4", "\"use_double_wide_mlp\":true", "\"use_double_wide_mlp\":false",
         "has 80 numbers where config.json says 40"},
        {"gemma4", "\"attention_k_eq_v\":false", "\"attention_k_eq_v\":true",
         "layers.1.self_attn.v_proj.weight\" is not known"},
        {"gemma4", "\"attention_k_eq_v\":false,\"num_global_key_value_heads\":null",
         "\"attention_k_eq_v\":true,\"num_global_key_value_heads\":3",
         "\"num_global_key_value_heads\" does not divide the number of heads"},
        {"gemma4", "\"global_head_dim\":20", "\"global_head_dim\":70000",
         "\"global_head_dim\" is above 65536"},
        {"gemma4", "\"hidden_size_per_layer_input\":20", "\"hidden_size_per_layer_input\":0",
         "is not known in a model of gemma4"},
        {"gemma4", "\"rope_type\":\"proportional\"", "\"rope_type\":\"default\"",
         "must be of type \"proportional\""},
        {"gemma4", "\"rope_type\":\"default\"", "\"rope_type\":\"linear\"",
         "must be of type \"default\""},
        {"gemma4", "\"partial_rotary_factor\":0.5", "\"partial_rotary_factor\":0.5,\"factor\":8",
         "\"proportional\" with a factor is not supported"},
        {"gemma4", "\"vocab_size\"", "\"use_bidirectional_attention\":\"all\",\"vocab_size\"",
         "attention to later tokens is not supported"},
        {"gemma4", "\"vocab_size\"", "\"enable_moe_block\":true,\"vocab_size\"",
         "\"num_experts\" is missing"},
        {"gemma4", "\"vocab_size\"",
         "\"enable_moe_block\":true,\"num_experts\":4,\"moe_intermediate_size\":8,"
         "\"top_k_experts\":1,\"vocab_size\"",
         "layers.0.router.proj.weight\" is missing"},
        {"afmoe", "\"global_attn_every_n_layers\":4", "\"global_attn_every_n_layers\":0",
         "the period of its windows is 0"},
        {"mimo2", "\"hybrid_layer_pattern\":[0,1,1,0]", "\"hybrid_layer_pattern\":[0,1,1]",
         "neither \"hybrid_layer_pattern\" nor \"layer_types\" has all layers"},
        {"mimo2", "\"swa_head_dim\":16", "\"swa_head_dim\":12", "different heads of queries"},
        {"mimo2", "\"attention_chunk_size\":30", "\"attention_chunk_size\":20",
         "\"attention_chunk_size\" is not \"sliding_window\""},
        {"mimo2", "[0,1,1,1]", "[0,1,0,1]", "\"moe_layer_freq\" has dense layers after others"},
        {"mimo2", "\"v_head_dim\":8,\"swa_v_head_dim\":8",
         "\"v_head_dim\":32,\"swa_v_head_dim\":32", "values longer than keys"},
        {"spark2_5", "\"sigmoid\"", "\"silu\"", "sigmoids as gates of heads"},
        {"spark2_5", "\"partial_rotary_factor\":0.75", "\"partial_rotary_factor\":2",
         "RoPE of this part of a head"},
        {"bitnet", "\"online\"", "\"offline\"", "its weights are quantized"},
        {"bitnet", "\"relu2\"", "\"gelu\"", "activation \"gelu\" is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        as_hf(*toy_of(cases[i].arch, 0));
        edit(cases[i].what, cases[i].with);
        assert_int_not_equal(import_hf(&keep), TFT_OK);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("\"%s\" is not \"%s\"", err.msg, cases[i].message);
    }
}

/* config.json of mimo2 as transformers writes it, with the numbers of the hub's class. */
static void names_of_mimo2(void **state)
{
    (void)state;
    as_hf(*toy_of("mimo2", 0));
    edit("\"hybrid_layer_pattern\":[0,1,1,0]",
         "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
         "\"full_attention\"]");
    edit("\"moe_layer_freq\":[0,1,1,1]",
         "\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\"]");
    edit("\"swa_rope_theta\":500,", "");
    edit("\"rope_scaling\":null,\"rope_theta\":10000.0",
         "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":10000.0},"
         "\"sliding_attention\":{\"rope_theta\":500}}");
    edit("\"layernorm_epsilon\"", "\"rms_norm_eps\"");
    result();
    same_logits();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_everywhere),
        cmocka_unit_test(rope_alpha),
        cmocka_unit_test(longrope_amplitude),
        cmocka_unit_test(yarn_divisors),
        cmocka_unit_test(yarn_context),
        cmocka_unit_test(yarn_amplitude),
        cmocka_unit_test(lfm2_layers),
        cmocka_unit_test(lfm2_width),
        cmocka_unit_test(gemma_scales),
        cmocka_unit_test(qwen35_sections),
        cmocka_unit_test(keys_that_need_not_be),
        cmocka_unit_test(bitnet_classes),
        cmocka_unit_test(bitnet_with_a_nan),
        cmocka_unit_test(long_paths),
        cmocka_unit_test(refuses),
        cmocka_unit_test(gemma4_defaults),
        cmocka_unit_test(gemma4_unified),
        cmocka_unit_test(names_of_mimo2),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_all);
}
