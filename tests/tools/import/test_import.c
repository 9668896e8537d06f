/* Folders of Hugging Face against GGUF files of the same weights: the tensors and the logits that
   an import gives have the same bits. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "base/exp_log.h"
#include "altup_toys.h"
#include "dense_toys.h"
#include "expert_toys.h"
#include "fed.h"
#include "half_toys.h"
#include "hf.h"
#include "latent_toys.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "rwkv_toys.h"
#include "oracle/oracle.h"

#define LIKE_LLAMA \
    .n_vocab = 43, .n_ctx = 640, .n_embd = 32, .n_layer = 2, .n_head = 4, .n_head_kv = 2, \
    .head_dim = 8, .n_ff = 56, .n_rot = 8, .seed = 5

static const struct toy first_toys[] = {
    {.arch = "llama", LIKE_LLAMA, .type = TFT_F32},
    {.arch = "llama", LIKE_LLAMA, .type = TFT_BF16, .tied = true},
    {.arch = "qwen2", LIKE_LLAMA, .type = TFT_F16, .tied = true},
    {.arch = "qwen3", LIKE_LLAMA, .type = TFT_BF16},
    {.arch = "gpt2",
     .n_vocab = 40,
     .n_ctx = 640,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 8,
     .n_ff = 40,
     .type = TFT_F32,
     .tied = true},
};
enum { N_FIRST = sizeof first_toys / sizeof *first_toys };

static bool has_end(const struct tft_tensor *t, const char *end)
{
    size_t n = strlen(end);
    return t->name.n >= n && memcmp(t->name.p + t->name.n - n, end, n) == 0;
}

/* The value of number i of a tensor that a folder can have: the decay of a delta net by a bit or
   so, one that is exp of a float; numbers of bitnet's matrices as as_folder.h wants them. */
static float settled(const struct tft_tensor *t, bool ternary, uint64_t i, float x)
{
    if (has_end(t, ".ssm_a"))
        return -(float)tft_exp((double)(float)log(-(double)x));
    if (ternary && t->n_dims == 2 && !has_end(t, "token_embd.weight"))
        return i % 2 == i / 6 % 2 ? 0 : x < 0 ? -AS_FOLDER_TERNARY : AS_FOLDER_TERNARY;
    return x;
}

static void settle(const char *path, const struct toy *toy)
{
    struct tft_source s;
    FILE *f = fopen(path, "rb+");
    assert_non_null(f);
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, NULL), TFT_OK);
    for (size_t i = 0; i < s.n_tensor; i++) {
        const struct tft_tensor *t = &s.tensor[i];
        if (t->type != TFT_F32)
            continue;
        assert_int_equal(fseek(f, (long)(t->data - s.data), SEEK_SET), 0);
        for (uint64_t k = 0; k < t->bytes / 4; k++) {
            float x;
            memcpy(&x, t->data + 4 * k, 4);
            x = settled(t, strcmp(toy->arch, "bitnet") == 0, k, x);
            assert_int_equal(fwrite(&x, 4, 1, f), 1);
        }
    }
    tft_source_close(&s);
    assert_int_equal(fclose(f), 0);
}

/* The toy as a folder, imported. */
static const char *imported(const struct toy *t, unsigned shards,
                            const struct import_opts *o)
{
    empty_hf();
    written(t);
    settle(in_folder("m.gguf"), t);
    as_folder(t, in_folder("m.gguf"), hf(), shards);
    if (import_hf(o) != TFT_OK)
        fail_msg("%s: %s", t->arch, err.msg);
    return in_folder("i.gguf");
}

/* All tensors of a file equal the tensors of another one, and there are as many. */
static void same_tensors(const char *arch, const char *got_path, const char *want_path)
{
    struct tft_source got, want;
    assert_int_equal(tft_source_open(&got, got_path, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_source_open(&want, want_path, NULL, NULL, NULL), TFT_OK);
    if (got.n_tensor != want.n_tensor)
        fail_msg("%s: %zu tensors, not %zu", arch, (size_t)got.n_tensor, (size_t)want.n_tensor);
    for (size_t i = 0; i < want.n_tensor; i++) {
        const struct tft_tensor *w = &want.tensor[i];
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)w->name.n, w->name.p);
        const struct tft_tensor *g = tft_source_tensor(&got, name);
        if (!g || g->n_dims != w->n_dims || g->ne[0] != w->ne[0] || g->ne[1] != w->ne[1] ||
            g->ne[2] != w->ne[2])
            fail_msg("%s: %s is missing or has another shape", arch, name);
        if (strcmp(name, "position_embd.weight") != 0 && g->type != w->type)
            fail_msg("%s: %s has another type", arch, name);
        bool unread = strncmp(name, "blk.0.time_mix_v", 16) == 0 && name[16] <= '2';
        if (g->type == w->type && !unread && memcmp(g->data, w->data, (size_t)w->bytes) != 0)
            fail_msg("%s: %s has other numbers", arch, name);
    }
    tft_source_close(&got);
    tft_source_close(&want);
}

/* The largest difference of 40 tokens' logits from the oracle's with the toy's own file, relative
   to the largest. */
static double from_oracle(const char *path)
{
    enum { N = 40 };
    struct tft_model *m = opened(path);
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32", .n_logits = N});
    struct tft_source src;
    int32_t tokens[N];
    double worst = 0, largest = 0;
    assert_int_equal(tft_source_open(&src, in_folder("m.gguf"), NULL, NULL, NULL), TFT_OK);
    struct oracle *o = oracle_open(&src, N);
    toy_tokens(7, oracle_vocab(o), tokens, N);
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
    for (uint32_t t = 0; t < N; t++) {
        const double *want = oracle_step(o, tokens[t]);
        for (uint32_t i = 0; i < oracle_vocab(o); i++) {
            worst = fmax(worst, fabs(want[i] - (double)tft_logits(s, N - 1 - t)[i]));
            largest = fmax(largest, fabs(want[i]));
        }
    }
    oracle_close(o);
    tft_source_close(&src);
    tft_session_close(s);
    tft_model_close(m);
    return worst / largest;
}

static void same_model(const struct toy *t, unsigned shards)
{
    const char *got = imported(t, shards, &keep);
    same_tensors(t->arch, got, in_folder("m.gguf"));
    if (fed(got, 2, TOKENS, 512, "f16") != fed(in_folder("m.gguf"), 2, TOKENS, 512, "f16"))
        fail_msg("%s: other logits", t->arch);
    double off = from_oracle(got);
    if (!(off < 1e-4))
        fail_msg("%s: %g from the oracle", t->arch, off);
}

/* For folders that divide a tensor of the toy's own file. */
static void same_logits(const struct toy *t)
{
    const char *got = imported(t, 1, &keep);
    if (fed(got, 2, TOKENS, 512, "f16") != fed(in_folder("m.gguf"), 2, TOKENS, 512, "f16"))
        fail_msg("%s: other logits", t->arch);
}

/* The same model, as far as its folder can have it. */
static void as_in_folders(struct toy t)
{
    bool bitnet = strcmp(t.arch, "bitnet") == 0;
    t.fused_experts = t.weight_factors = false;
    t.type = bitnet ? TFT_F32 : t.type;
    if (t.numbers != scaled) /* a factor that config.json does not have */
        same_model(&t, 1);
}

/* The numbers of state_toys[3], and a block that predicts a further token. */
static const struct toy_number one_block_more[] = {
    {"ssm.group_count", TOY_U32, 3}, {"ssm.time_step_rank", TOY_U32, 3},
    {"ssm.state_size", TOY_U32, 32}, {"ssm.inner_size", TOY_U32, 96},
    {"ssm.conv_kernel", TOY_U32, 2}, {"full_attention_interval", TOY_U32, 2},
    {"nextn_predict_layers", TOY_U32, 1}, {0}};

static void every_architecture(void **state)
{
    (void)state;
    for (int i = 0; i < N_FIRST; i++)
        same_model(&first_toys[i], 1);
    for (int i = 0; i < N_MORE - N_STATE; i++)
        as_in_folders(more_toys[i]);
    same_model(&state_toys[0], 1); /* lfm2 */
    same_model(&state_toys[2], 1); /* qwen35 */
    same_model(&state_toys[3], 1);
    same_model(&state_toys[4], 1); /* granitehybrid */
    same_model(&state_toys[6], 1); /* falcon-h1 */
    for (int i = 0; i < N_HALF; i++)
        same_model(&half_toys[i], 1);
    same_model(&latent_toy, 1);
    same_model(&hybrid_toy, 1);
    for (int i = 0; i < N_ROUND; i++)
        same_model(&round_toys[i], 1);
    struct toy predicts = state_toys[3];
    predicts.n_layer = 5;
    predicts.numbers = one_block_more;
    same_model(&predicts, 1);
    for (int i = 0; i < N_LAYER_TOYS; i++)
        as_in_folders(layer_folder_toy(i));
    for (int i = 0; i < N_EXPERTS; i++)
        as_in_folders(expert_toys[i]);
}

static void dense_architectures(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++) {
        struct toy t = dense_toys[i];
        t.llama3_scaling = false; /* config.json has no divisors */
        if (strcmp(t.arch, "mimo2") == 0) /* the folder has queries, keys and values apart */
            same_logits(&t);
        else if (t.numbers != one_window && strcmp(t.arch, "plamo3"))
            as_in_folders(t);
    }
}

/* A folder has keys and values of heads in one tensor. */
static void latent_attention(void **state)
{
    (void)state;
    for (int i = 0; i < N_LATENT; i++) {
        struct toy t = latent_toys[i];
        struct toy_number in_one[sizeof deepseek_v3 / sizeof *deepseek_v3];
        size_t n = 0;
        for (const struct toy_number *from = t.numbers; from->key; from++)
            if (!strstr(from->key, "_mla"))
                in_one[n++] = *from;
        in_one[n] = (struct toy_number){0};
        t.numbers = in_one;
        t.n_head_kv = t.n_head;
        as_in_folders(t);
    }
}

static void rwkv(void **state)
{
    (void)state;
    for (int i = 0; i < N_RWKV; i++)
        same_model(&rwkv_toys[i], 1);
}

static void several_streams(void **state)
{
    (void)state;
    for (int i = 0; i < N_ALTUP; i++)
        as_in_folders(altup_toys[i]);
}

static void shards(void **state)
{
    (void)state;
    same_model(&first_toys[2], 3);
}

/* ---- types */

/* The tensor of a file, its data as floats. */
static void floats_of(const char *path, const char *name, enum tft_dtype type, float *x, size_t n)
{
    struct tft_source s;
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, NULL), TFT_OK);
    const struct tft_tensor *t = tft_source_tensor(&s, name);
    assert_non_null(t);
    assert_int_equal(t->type, type);
    tft_dtype_info(type)->to_f32(x, t->data, n);
    tft_source_close(&s);
}

/* Rounded once, to nearest; norms are f32 whatever is asked for. */
static void types(void **state)
{
    (void)state;
    static const struct {
        enum import_type type;
        enum tft_dtype dtype;
        float step; /* of numbers in 1 .. 2 */
    } cases[] = {{IMPORT_F16, TFT_F16, 0x1p-10f},
                 {IMPORT_BF16, TFT_BF16, 0x1p-7f},
                 {IMPORT_F32, TFT_F32, 0x1p-23f}};
    float want[64], got[64];
    for (size_t c = 0; c < 3; c++) {
        struct import_opts o = keep;
        o.type = cases[c].type;
        const char *path = imported(&first_toys[0], 1, &o);
        const char *name = "blk.1.ffn_up.weight";
        floats_of(in_folder("m.gguf"), name, TFT_F32, want, 64);
        floats_of(path, name, cases[c].dtype, got, 64);
        bool same = true;
        for (int i = 0; i < 64; i++) {
            assert_true(fabsf(got[i] - want[i]) <= cases[c].step / 2 * fabsf(want[i]) + 1e-8f);
            same &= got[i] == want[i];
        }
        assert_int_equal(same, cases[c].type == IMPORT_F32);
        floats_of(path, "blk.1.attn_norm.weight", TFT_F32, got, 32);
    }
}

/* Llama 3.1's: the slowest pairs are divided by the factor, the fastest are not, and a pair between
   the wavelengths 1024 and 4096 is in part. With a base of 500000 and 4 pairs these are about
   6, 167, 4443 and 118143 long; with the context below, the ramp is from 100 to 400. */
static void llama3_factors(void **state)
{
    (void)state;
    empty_hf();
    as_folder(&first_toys[0], written(&first_toys[0]), hf(), 1);
    edit("\"rope_scaling\":null,\"rope_theta\":10000.0",
         "\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
         "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
         "\"original_max_position_embeddings\":400}");
    if (import_hf(&keep) != TFT_OK)
        fail_msg("%s", err.msg);
    float x[4];
    floats_of(in_folder("i.gguf"), "rope_freqs.weight", TFT_F32, x, 4);
    double smooth = (400 / 167.078 - 1) / 3;
    assert_true(x[0] == 1 && x[2] == 8 && x[3] == 8);
    assert_true(fabs((double)x[1] - 1 / ((1 - smooth) / 8 + smooth)) < 1e-4);
    tft_model_close(opened(in_folder("i.gguf")));
}

/* Rows of the embedding beyond the vocabulary are left out. */
static void fewer_rows(void **state)
{
    (void)state;
    empty_hf();
    as_folder(&first_toys[1], written(&first_toys[1]), hf(), 1);
    edit("\"vocab_size\":43", "\"vocab_size\":40");
    assert_int_equal(import_hf(&keep), TFT_OK);
    struct tft_model *m = opened(in_folder("i.gguf"));
    assert_int_equal(m->n_vocab, 40);
    tft_model_close(m);
}

/* ---- refusals */

static void refused(const char *what, const char *with, const char *message)
{
    empty_hf();
    as_folder(&first_toys[0], written(&first_toys[0]), hf(), 1);
    edit(what, with);
    remove(in_folder("i.gguf"));
    assert_int_not_equal(import_hf(&keep), TFT_OK);
    size_t n = strlen(hf());
    if (strncmp(err.msg, hf(), n) || strcmp(err.msg + n, message))
        fail_msg("%s", err.msg);
    struct stat st;
    assert_int_equal(stat(in_folder("i.gguf"), &st), -1);
}

/* A folder of a model with Mamba-2, changed: the error has `part`. */
static void refused_mamba(const struct toy *t, const char *what, const char *with,
                          const char *part)
{
    empty_hf();
    as_folder(t, written(t), hf(), 1);
    edit(what, with);
    assert_int_not_equal(import_hf(&keep), TFT_OK);
    if (!strstr(err.msg, part))
        fail_msg("%s", err.msg);
}

static void refuses_mamba(void **state)
{
    (void)state;
    const struct toy *falcon = &state_toys[6], *list = &half_toys[1], *pattern = &half_toys[2],
                     *experts = &half_toys[3];
    refused_mamba(falcon, "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true",
                  "a head tied to the embedding, with another multiplier");
    refused_mamba(falcon, "\"ssm_multipliers\":[0.25,", "\"ssm_multipliers\":[",
                  "\"ssm_multipliers\" is not a list of 5 numbers");
    refused_mamba(falcon, "\"mamba_d_ssm\":64", "\"mamba_d_ssm\":128", "\"mamba_d_ssm\" is not");
    refused_mamba(experts, "ME*", "M-*", "layer 1 of nemotron_h_moe has neither");
    refused_mamba(list, "\"attention\"", "\"conv\"", "layer 2 of nemotron_h has neither");
    refused_mamba(pattern, "-*M-*", "-*M-", "does not have a letter for each layer");
}

static void refuses(void **state)
{
    (void)state;
    refused("\"architectures\":[\"LlamaForCausalLM\"]", "\"x\":1",
            "/config.json: \"architectures\" is missing");
    refused("LlamaForCausalLM", "BloomForCausalLM",
            "/config.json: the class BloomForCausalLM is not supported");
    refused("\"hidden_act\":\"silu\"", "\"hidden_act\":\"relu\"",
            "/config.json: activation \"relu\" is not supported");
    refused("\"hidden_size\":32,", "", "/config.json: \"hidden_size\" is missing");
    refused("\"hidden_size\":32", "\"hidden_size\":\"32\"",
            "/config.json: \"hidden_size\" is not a whole number below 2^31");
    refused("\"hidden_size\":32", "\"hidden_size\":3e9",
            "/config.json: \"hidden_size\" is not a whole number below 2^31");
    refused("\"num_attention_heads\":4", "\"num_attention_heads\":0",
            "/config.json: \"num_attention_heads\" is 0");
    refused("\"num_attention_heads\":4", "\"num_attention_heads\":5",
            "/config.json: \"hidden_size\" is not a multiple of the number of heads, without a "
            "head_dim");
    refused("\"num_hidden_layers\":2", "\"num_hidden_layers\":2000000000",
            "/config.json: \"num_hidden_layers\" exceeds the number of tensors");
    refused("\"num_hidden_layers\":2", "\"head_dim\":2000000000,\"num_hidden_layers\":2",
            "/config.json: \"head_dim\" is above 65536");
    refused("\"num_hidden_layers\":2", "\"num_hidden_layers\":3",
            ": tensor \"model.layers.2.input_layernorm.weight\" is missing");
    refused("\"num_hidden_layers\":2", "\"num_hidden_layers\":1",
            ": tensor \"model.layers.1.input_layernorm.weight\" is not known in a model of llama");
    refused("\"num_key_value_heads\":2", "\"num_key_value_heads\":3",
            "/config.json: 4 heads are not a multiple of 3 KV heads");
    refused("\"num_key_value_heads\":2", "\"num_key_value_heads\":4",
            ": tensor \"model.layers.0.self_attn.k_proj.weight\" has 16 numbers where config.json "
            "says 32");
    refused("\"vocab_size\":43", "\"vocab_size\":0", "/config.json: \"vocab_size\" is 0");
    refused("\"rope_scaling\":null", "\"partial_rotary_factor\":-1e300",
            "/config.json: RoPE of -1e+300 of a head is not possible");
    refused("\"rope_scaling\":null", "\"partial_rotary_factor\":0.5",
            "/config.json: RoPE of a part of a head is not supported in llama");
    refused("\"rope_scaling\":null",
            "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":1,"
            "\"original_max_position_embeddings\":64}",
            "/config.json: YaRN with \"mscale\" is not supported in llama");
    refused("\"vocab_size\":43", "\"vocab_size\":44",
            ": tensor \"model.embed_tokens.weight\" has 43 numbers where config.json says 44");
    refused("\"tie_word_embeddings\":false", "\"tie_word_embeddings\":0",
            "/config.json: \"tie_word_embeddings\" is neither true nor false");
    refused("\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"new\"}",
            "/config.json: RoPE of type \"new\" is not supported");
    refused("\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"yarn\"}",
            "/config.json: \"factor\" is missing");
    refused("\"rope_scaling\":null",
            "\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2,3]}",
            "/config.json: \"long_factor\" is not a list of 4 numbers");
    refused("\"rope_scaling\":null", "\"partial_rotary_factor\":2,\"rope_scaling\":null",
            "/config.json: RoPE of 2 of a head is not possible");
    refused(
        "\"rope_scaling\":null", "\"quantization_config\":{\"quant_method\":\"hqq\"}",
        ": its weights are quantized by \"hqq\", which is not read: import the folder of floats "
        "that they come from");
}

/* The name or the dtype of a tensor of the header, of the same length, is another one. */
static void refused_header(const char *what, const char *with, const char *message)
{
    file = "model.safetensors";
    refused(what, with, message);
    file = "config.json";
}

static void refuses_tensors(void **state)
{
    (void)state;
    refused_header("layers.1.mlp.up_proj", "layers.1.mlp.up_prok",
                   ": tensor \"model.layers.1.mlp.up_proj.weight\" is missing");
    refused_header("\"model.norm.weight\":{\"dtype\":\"F32\"",
                   "\"model.norm.weight\":{\"dtype\":\"I32\"",
                   ": tensor \"model.norm.weight\": dtype I32 is not supported");
    refused_header("\"shape\":[56,32]", "\"shape\":[32,56]",
                   ": tensor \"model.layers.0.mlp.gate_proj.weight\" has 32 numbers where "
                   "config.json says 56");
    refused_header("\"shape\":[43,32]", "\"shape\":[ 1376]",
                   ": tensor \"model.embed_tokens.weight\" has 1 dimensions, not 2");
}

/* A number that f16 does not have. */
static void refuses_large_numbers(void **state)
{
    (void)state;
    struct import_opts o = {.type = IMPORT_F16, .no_tokenizer = true};
    char path[128];
    empty_hf();
    as_folder(&first_toys[0], written(&first_toys[0]), hf(), 1);
    snprintf(path, sizeof path, "%s/model.safetensors", hf());
    FILE *f = fopen(path, "rb+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -4, SEEK_END), 0); /* the output matrix's last one */
    assert_int_equal(fwrite(&(float){-65520}, 4, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(import_hf(&o), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, ": tensor \"lm_head.weight\" has numbers too large for f16: "
                                    "use --type bf16"));
    o.type = IMPORT_BF16;
    assert_int_equal(import_hf(&o), TFT_OK);
}

static bool stop(void *user, double done)
{
    *(double *)user = done;
    return done < 0.5;
}

static void stops(void **state)
{
    (void)state;
    double done = 0;
    struct import_opts o = {.no_tokenizer = true, .progress = stop, .user = &done};
    struct import_result r;
    struct stat st;
    empty_hf();
    as_folder(&first_toys[0], written(&first_toys[0]), hf(), 1);
    remove(in_folder("i.gguf"));
    assert_int_equal(import_model(hf(), in_folder("i.gguf"), &o, &r, &err), TFT_OK);
    assert_true(r.stopped && done >= 0.5 && done < 1);
    assert_int_equal(stat(in_folder("i.gguf"), &st), -1);
    o.progress = NULL;
    assert_int_equal(import_model(hf(), in_folder("i.gguf"), &o, &r, &err), TFT_OK);
    assert_false(r.stopped);
    assert_int_equal(stat(in_folder("i.gguf"), &st), 0);
    assert_int_equal(r.tensors, 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture),
        cmocka_unit_test(dense_architectures),
        cmocka_unit_test(latent_attention),
        cmocka_unit_test(several_streams),
        cmocka_unit_test(rwkv),
        cmocka_unit_test(shards),
        cmocka_unit_test(types),
        cmocka_unit_test(llama3_factors),
        cmocka_unit_test(fewer_rows),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_mamba),
        cmocka_unit_test(refuses_tensors),
        cmocka_unit_test(refuses_large_numbers),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_all);
}
