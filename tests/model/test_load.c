/* Opening models: sound files with senseless models are refused with one line that names the file,
   and no memory stays allocated. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "edited_toys.h"
#include "layer_toys.h"
#include "memory.h"
#include "more_toys.h"
#include "run/session.h"

/* ---- opening a file */

static void is_refused(const char *path, enum tft_status want, const char *why)
{
    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    struct tft_model_opts o = {.size = sizeof o, .allocator = &a, .n_threads = 1};
    struct tft_model *m = (struct tft_model *)&o;
    struct tft_error err = {0};
    enum tft_status status = tft_model_open(&m, path, &o, &err);
    assert_null(m);
    assert_int_equal(mem.in_use, 0);
    if (status != want || err.code != want || strncmp(err.msg, path, strlen(path)) != 0 ||
        strchr(err.msg, '\n') || !strstr(err.msg, why))
        fail_msg("status %d, not %d: %s (expected: %s)", (int)status, (int)want, err.msg, why);
}

static void unchanged_toys_open(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        tft_model_close(
            opened(edited(written(&toys[i]), &(struct edit){.name = "nothing", .what = DROP})));
}

/* ---- values */

#define WITHOUT(of) {.name = of, .what = DROP}
#define WITH(of, how, x) {.name = of, .what = how, .number = x}
#define WITH_STR(of, x) {.name = of, .what = STR, .text = x}
#define WITH_SHAPE(of, cols, rows, depth)                                                          \
    {                                                                                              \
        .name = of, .what = TENSOR_SHAPE, .ne = { cols, rows, depth }                              \
    }
#define BAD TFT_ERR_FORMAT
#define UNSUPPORTED TFT_ERR_UNSUPPORTED

static const struct {
    int toy;
    struct edit edit;
    enum tft_status status;
    const char *why;
} values[] = {
    {LLAMA, WITHOUT("general.architecture"), BAD, "general.architecture is missing"},
    {LLAMA, WITH("general.architecture", U32, 1), BAD, "general.architecture is missing"},
    {LLAMA, WITH_STR("general.architecture", "mamba"), UNSUPPORTED, "\"mamba\" is not supported"},
    {LLAMA, WITH_STR("general.architecture", "bert"), BAD, "bert.context_length is missing"},
    {LLAMA, WITH_STR("general.architecture", "t5encoder"), UNSUPPORTED,
     "its attention is not causal"},
    {LLAMA, WITH("llama.attention.causal", U32, 0), UNSUPPORTED, "its attention is not causal"},
    {LLAMA, WITH("llama.attention.causal", U32, 2), BAD, "llama.attention.causal is not a bool"},
    {LLAMA, WITH("llama.attn_logit_softcapping", F32, 50), UNSUPPORTED,
     "the key llama.attn_logit_softcapping is not supported: --ignore-key"},
    {LLAMA, WITH("llama.attention.q_lora_rank", U32, 8), UNSUPPORTED,
     "--ignore-key llama.attention.q_lora_rank takes the file without it"},
    {LLAMA, WITH("llama.rope.scaling.alpha", F32, 50), UNSUPPORTED,
     "the key llama.rope.scaling.alpha is not supported"},
    {LLAMA, WITH("llama.rope.scaling.yarn_attn_factor", F32, 2), UNSUPPORTED,
     "the key llama.rope.scaling.yarn_attn_factor is not supported"},
    {QWEN3, WITH("qwen3.new", ARRAY, 1), UNSUPPORTED, "the key qwen3.new is not supported"},
    {LLAMA, WITH_STR("general.architecture", ""), UNSUPPORTED, "\"\" is not supported"},
    {LLAMA, WITH_STR("general.architecture", "qwen2"), BAD, "qwen2.context_length is missing"},
    {LLAMA, WITH_STR("general.architecture", "\x1b[2J\xc2\x9b\n"), UNSUPPORTED,
     "\"?[2J???\" is not supported"},
    {LLAMA, WITH("general.name", U32, 1), BAD, "general.name is not a string"},
    {LLAMA, WITH("tokenizer.chat_template", ARRAY, 1), BAD,
     "tokenizer.chat_template is not a string"},
    {LLAMA, WITH("tokenizer.chat_template.tool_use", ARRAY, 1), BAD,
     "tokenizer.chat_template.tool_use is not a string"},

    {LLAMA, WITHOUT("llama.context_length"), BAD, "llama.context_length is missing"},
    {LLAMA, WITH("llama.context_length", U32, 0), BAD, "llama.context_length is not"},
    {LLAMA, WITH("llama.context_length", U32, (1 << 28) + 1), BAD, "llama.context_length is not"},
    {LLAMA, WITH("llama.context_length", F32, 64), BAD, "llama.context_length is not"},
    {LLAMA, WITH_STR("llama.context_length", "64"), BAD, "llama.context_length is not"},
    {LLAMA, WITH("llama.context_length", ARRAY, 64), BAD, "llama.context_length is not"},
    {GPT2, WITH("gpt2.context_length", U32, 63), BAD,
     "position_embd.weight is 64 x 24 and should be 63 x 24"},

    {LLAMA, WITHOUT("llama.embedding_length"), BAD, "llama.embedding_length is missing"},
    {LLAMA, WITH("llama.embedding_length", U32, 0), BAD, "llama.embedding_length is not"},
    {LLAMA, WITH("llama.embedding_length", U32, 23), BAD, "should be 420 x 23"},
    {LLAMA, WITH("llama.embedding_length", U32, 4294967295.0), BAD,
     "llama.embedding_length is not"},
    {LLAMA, WITH("llama.feed_forward_length", U32, 0), BAD, "llama.feed_forward_length is not"},
    {LLAMA, WITH("llama.feed_forward_length", U32, (1 << 24) + 1), BAD,
     "llama.feed_forward_length is not"},
    {LLAMA, WITH("llama.feed_forward_length", U32, 41), BAD,
     "ffn_gate.weight is 40 x 24 and should be 41 x 24"},
    {LLAMA, WITHOUT("llama.feed_forward_length"), BAD, "llama.feed_forward_length is missing"},

    {LLAMA, WITHOUT("llama.block_count"), BAD, "llama.block_count is missing"},
    {LLAMA, WITH("llama.block_count", U32, 0), BAD, "llama.block_count is not"},
    {LLAMA, WITH("llama.block_count", U32, 1), UNSUPPORTED,
     "blk.1.attn_norm.weight is unknown to the architecture llama"},
    {LLAMA, WITH("llama.block_count", U32, 3), BAD, "blk.2.attn_norm.weight is missing"},
    {LLAMA, WITH("llama.block_count", U32, 1000), BAD, "llama.block_count is not"},
    {LLAMA, WITH("llama.block_count", U32, 4294967295.0), BAD, "llama.block_count is not"},

    {LLAMA, WITHOUT("llama.attention.head_count"), BAD, "llama.attention.head_count is missing"},
    {LLAMA, WITH("llama.attention.head_count", U32, 0), BAD, "llama.attention.head_count is not"},
    {LLAMA, WITH("llama.attention.head_count", U32, 6), BAD,
     "attn_q.weight is 32 x 24 and should be 48 x 24"},
    {LLAMA, WITH("llama.attention.head_count", U32, 5), BAD, "2 KV heads do not divide 5 heads"},
    {LLAMA, WITH("llama.attention.head_count", U32, 25), BAD, "llama.attention.head_count is not"},
    {LLAMA, WITH("llama.attention.head_count_kv", U32, 0), BAD,
     "llama.attention.head_count_kv is not"},
    {LLAMA, WITH("llama.attention.head_count_kv", U32, 3), BAD, "3 KV heads do not divide 4 heads"},
    {LLAMA, WITH("llama.attention.head_count_kv", U32, 8), BAD,
     "llama.attention.head_count_kv is not"},
    {LLAMA, WITHOUT("llama.attention.head_count_kv"), BAD,
     "attn_k.weight is 16 x 24 and should be 32 x 24"},
    {Q8, WITH("llama.attention.head_count", U32, 64), BAD,
     "attn_q.weight is 64 x 64 and should be 1024 x 64"},
    {LLAMA, WITH("llama.attention.key_length", U32, 0), BAD, "llama.attention.key_length is not"},
    {LLAMA, WITH("llama.attention.key_length", F32, 8), BAD, "llama.attention.key_length is not"},
    {LLAMA, WITH("llama.attention.key_length", U32, 7), UNSUPPORTED,
     "heads whose values are not as long as their keys are not supported"},
    {LLAMA, WITH("llama.attention.key_length", U32, 65537), BAD,
     "llama.attention.key_length is not"},
    {LLAMA, WITH("llama.attention.value_length", U32, 16), UNSUPPORTED,
     "heads whose values are not as long as their keys are not supported"},
    {QWEN2, WITHOUT("qwen2.attention.key_length"), UNSUPPORTED,
     "heads whose values are not as long as their keys are not supported"},
    {GPT2, WITH("gpt2.attention.head_count_kv", U32, 1), BAD,
     "attn_qkv.weight is 72 x 24 and should be 40 x 24"},

    {LLAMA, WITHOUT("llama.attention.layer_norm_rms_epsilon"), BAD,
     "llama.attention.layer_norm_rms_epsilon is missing"},
    {LLAMA, WITH("llama.attention.layer_norm_rms_epsilon", F32, 0), BAD,
     "layer_norm_rms_epsilon is not a positive number"},
    {LLAMA, WITH("llama.attention.layer_norm_rms_epsilon", F32, -1e-5), BAD,
     "layer_norm_rms_epsilon is not a positive number"},
    {LLAMA, WITH("llama.attention.layer_norm_rms_epsilon", F32, NAN), BAD,
     "layer_norm_rms_epsilon is not a positive number"},
    {LLAMA, WITH("llama.attention.layer_norm_rms_epsilon", F32, INFINITY), BAD,
     "layer_norm_rms_epsilon is not a positive number"},
    {LLAMA, WITH("llama.attention.layer_norm_rms_epsilon", ARRAY, 1), BAD,
     "layer_norm_rms_epsilon is not a positive number"},
    {GPT2, WITH("gpt2.attention.layer_norm_epsilon", F32, NAN), BAD,
     "layer_norm_epsilon is not a positive number"},

    {LLAMA, WITH("llama.rope.dimension_count", U32, 0), BAD, "llama.rope.dimension_count is not"},
    {LLAMA, WITH("llama.rope.dimension_count", U32, 7), BAD,
     "rope.dimension_count is 7 and should be even"},
    {LLAMA, WITH("llama.rope.dimension_count", U32, 10), BAD, "llama.rope.dimension_count is not"},
    {LLAMA, WITH("llama.rope.freq_base", F32, 0), BAD, "llama.rope.freq_base is not"},
    {LLAMA, WITH("llama.rope.freq_base", F32, -10000), BAD, "llama.rope.freq_base is not"},
    {LLAMA, WITH("llama.rope.freq_base", F32, NAN), BAD, "llama.rope.freq_base is not"},
    {LLAMA, WITH("llama.rope.freq_base", F32, INFINITY), BAD, "llama.rope.freq_base is not"},
    {LLAMA, WITH("llama.rope.freq_base", F32, 1), BAD, "rope.freq_base is 1 and should be above 1"},
    {GEMMA3, WITH("gemma3.attention.sliding_window", U32, 0), BAD,
     "gemma3.attention.sliding_window is not an integer of a possible size"},
    {GEMMA3, WITH("gemma3.attention.sliding_window_pattern", U32, 0), BAD,
     "gemma3.attention.sliding_window_pattern is not an integer of a possible size"},
    {GEMMA3, WITH("gemma3.attention.sliding_window_pattern", ARRAY, 1), BAD,
     "gemma3.attention.sliding_window_pattern"},
    {GEMMA3, WITH("gemma3.final_logit_softcapping", F32, -1), BAD,
     "gemma3.final_logit_softcapping is not a positive number"},
    {GEMMA3, WITH("gemma3.rope.freq_base_swa", F32, 0.5), BAD,
     "rope.freq_base_swa is 0.5 and should be above 1"},
    {GEMMA4, WITH("gemma4.attention.shared_kv_layers", U32, 4), BAD,
     "gemma4.attention.shared_kv_layers is not an integer of a possible size"},
    {GEMMA4, WITH("gemma4.attention.shared_kv_layers", U32, 3), BAD,
     "layer 1 uses keys and values of an earlier layer, but no earlier layer without a window "
     "has its own"},
    {GEMMA4, WITH("gemma4.attention.shared_kv_layers", U32, 1), BAD,
     "blk.2.attn_k.weight is missing"},
    {GEMMA4, WITH("gemma4.attention.head_count_kv", ARRAY, 2), BAD,
     "gemma4.attention.head_count_kv has 1 elements for 4 layers"},
    {GEMMA4, WITH("gemma4.feed_forward_length", ARRAY, 40), BAD,
     "gemma4.feed_forward_length has 1 elements for 4 layers"},
    {LLAMA3, WITH("llama.feed_forward_length", ARRAY, 0), BAD,
     "feed_forward_length has an element that is 0"},
    {LLAMA3, WITH("llama.feed_forward_length", ARRAY, 48), BAD, "blk.0.ffn_gate.weight is"},
    {GEMMA4, WITH("gemma4.feed_forward_length", U32, 40), BAD, "blk.2.ffn_gate.weight is"},
    {GEMMA4, WITH("gemma4.attention.sliding_window_pattern", ARRAY, 1), BAD,
     "gemma4.attention.sliding_window_pattern has 1 elements for 4 layers"},
    {GEMMA4, WITH("gemma4.attention.sliding_window", U32, 0), BAD,
     "gemma4.attention.sliding_window is not an integer of a possible size"},
    {GEMMA4, WITH("gemma4.attention.key_length_swa", U32, 0), BAD,
     "gemma4.attention.key_length_swa is not an integer of a possible size"},
    {GEMMA4, WITH("gemma4.attention.value_length_swa", U32, 9), UNSUPPORTED,
     "heads whose values are not as long as their keys are not supported"},
    {GEMMA4, WITH("gemma4.rope.dimension_count_swa", U32, 7), BAD,
     "rope.dimension_count_swa is 7 and should be even"},
    {GEMMA4, WITH("gemma4.rope.dimension_count_swa", U32, 10), BAD,
     "gemma4.rope.dimension_count_swa is not an integer of a possible size"},
    {GEMMA4, WITH("gemma4.embedding_length_per_layer_input", U32, 13), BAD,
     "per_layer_token_embd.weight is 30 x 48 and should be 30 x 52"},
    {GEMMA4, WITH("gemma4.embedding_length_per_layer_input", U32, 0x7fffffff), BAD,
     "gemma4.embedding_length_per_layer_input is not an integer of a possible size"},
    {GEMMA4, WITHOUT("gemma4.embedding_length_per_layer_input"), UNSUPPORTED,
     "per_layer_token_embd.weight is unknown to the architecture gemma4"},
    {GEMMA4, WITH("gemma4.expert_count", U32, 4), BAD, "gemma4.expert_used_count is missing"},
    {GEMMA4, WITH(TFT_KEY_PREFIX_TOKENS, ARRAY, 1), BAD, "the tensor tuffet.prefix.k is missing"},
    {GRANITE, WITH("granite.logit_scale", F32, NAN), BAD,
     "granite.logit_scale is not a positive number"},
    {GRANITE, WITH("granite.embedding_scale", ARRAY, 1), BAD,
     "granite.embedding_scale is not a positive number"},
    {GRANITE, WITH("granite.rope.scaling.finetuned", U32, 7), BAD,
     "granite.rope.scaling.finetuned is not a bool"},

    {LLAMA, WITH_STR("llama.rope.scaling.type", "su"), UNSUPPORTED,
     "llama.rope.scaling.type \"su\" is not supported"},
    {LLAMA, WITH_STR("llama.rope.scaling.type", "yarn"), BAD,
     "llama.rope.scaling.factor is missing"},
    {LLAMA, WITH("llama.rope.scaling.type", U32, 1), UNSUPPORTED,
     "llama.rope.scaling.type \"\" is not supported"},
    {LLAMA, WITH_STR("llama.rope.scaling.type", "linear"), BAD,
     "llama.rope.scaling.factor is missing"},
    {LLAMA, WITH("llama.rope.scaling.factor", F32, -4), BAD,
     "llama.rope.scaling.factor is not a positive number"},
    {LLAMA, WITH("llama.rope.scale_linear", F32, NAN), BAD,
     "llama.rope.scale_linear is not a positive number"},
    {LLAMA3, WITH("rope_freqs.weight", TENSOR_FILL, 0), BAD, "RoPE frequency 0 is out of range"},
    {LLAMA3, WITH("rope_freqs.weight", TENSOR_FILL, -1), BAD, "RoPE frequency 0 is out of range"},
    {LLAMA3, WITH("rope_freqs.weight", TENSOR_FILL, NAN), BAD, "RoPE frequency 0 is out of range"},
    {LLAMA3, WITH("rope_freqs.weight", TENSOR_FILL, 1e-37), BAD,
     "RoPE frequency 0 is out of range"},
    {LLAMA3, WITH("rope_freqs.weight", TENSOR_TYPE, TFT_F16), UNSUPPORTED,
     "rope_freqs.weight is not f32"},
    {LLAMA3, WITH_SHAPE("rope_freqs.weight", 8, 1, 1), BAD,
     "rope_freqs.weight is 1 x 8 and should be 1 x 4"},

    {LLAMA, WITH_SHAPE("token_embd.weight", 24, 419, 1), BAD,
     "output.weight is 420 x 24 and should be 419 x 24"},
    {LLAMA, WITH_STR("tokenizer.ggml.model", "plamo2"), UNSUPPORTED, "\"plamo2\" is not supported"},
    {LLAMA, WITH("tokenizer.ggml.model", U32, 5), BAD, "tokenizer.ggml.model is not a string"},
    {LLAMA, WITH("tokenizer.ggml.bos_token_id", U32, 420), BAD, "only 420 tokens"},
    {LLAMA, WITH_SHAPE("blk.0.attn_q.bias", 32, 1, 1), BAD,
     "the tensor blk.0.attn_k.bias is missing"},
    {QWEN3, WITH_SHAPE("blk.1.attn_k.bias", 16, 1, 1), BAD,
     "the tensor blk.1.attn_q.bias is missing"},
    {QWEN3, WITH_SHAPE("blk.1.ffn_gate.bias", 39, 1, 1), BAD,
     "the tensor blk.1.ffn_gate.bias is 1 x 39 and should be 1 x 40"},
    {LLAMA, WITH_SHAPE("\x1b]0;x\x07", 4, 1, 1), UNSUPPORTED,
     "the tensor ?]0;x? is unknown to the architecture llama"},
};

static void values_that_make_no_sense(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        is_refused(edited(written(&toys[values[i].toy]), &values[i].edit), values[i].status,
                   values[i].why);
}

/* Values that a file may have although the architecture does not read them; and names that are not
   the architecture's. */
static void values_without_effect(void **state)
{
    (void)state;
    static const struct edit edits[] = {WITH("llama.attn_logit_softcapping", F32, 0),
                                        WITH("llama.logit_scale", F32, 1),
                                        WITH("llama.attention.causal", U32, 1),
                                        WITH("llama.attention.sliding_window", U32, 0),
                                        WITH("llama.vocab_size", U32, 7),
                                        WITH("llama.rope.scaling.factor", F32, 0),
                                        WITH("llama.rope.scaling.yarn_beta_fast", F32, 32),
                                        WITH("llama.rope.scaling.yarn_attn_factor", F32, 1),
                                        WITH_STR("general.new", "words"),
                                        WITH("llama2.new", U32, 1),
                                        WITH("quantize.imatrix.entries_count", U32, 1)};
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        tft_model_close(opened(edited(written(&toys[LLAMA]), &edits[i])));
}

static void ignored_keys(void **state)
{
    (void)state;
    struct tft_model_opts o = {.size = sizeof o, .ignore_keys = "llama.new,llama.attention.causal"};
    struct tft_model *m;
    struct tft_error err;
    const char *path = edited(written(&toys[LLAMA]),
                              &(struct edit)WITH("llama.attention.causal", U32, 0));
    path = edited(path, &(struct edit)WITH("llama.new", U32, 1));
    assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_OK);
    tft_model_close(m);
    o.ignore_keys = "llama.attention.causal,llama.ne,ama.new,llama.newer";
    assert_int_equal(tft_model_open(&m, path, &o, &err), UNSUPPORTED);
    assert_non_null(strstr(err.msg, "the key llama.new is not supported"));
}

/* The pooling is looked up when it is asked for, also where the vocabulary alone is open. */
static void an_ignored_pooling(void **state)
{
    (void)state;
    const char *path =
        edited(written(&toys[LLAMA]), &(struct edit)WITH("llama.pooling_type", U32, 9));
    for (int vocab_only = 0; vocab_only < 2; vocab_only++)
        for (int ignored = 0; ignored < 2; ignored++) {
            struct tft_model_opts o = {.size = sizeof o,
                                       .vocab_only = vocab_only,
                                       .ignore_keys = ignored ? "llama.pooling_type" : NULL};
            struct tft_model_info info = {.size = sizeof info};
            struct tft_model *m;
            assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
            tft_model_describe(m, &info);
            assert_int_equal(info.pooling, ignored ? TFT_POOLING_NONE : TFT_POOLING_OTHER);
            tft_model_close(m);
        }
}

/* The name of older files, and a factor without a type, mean what "linear" means. */
static void names_of_a_linear_scaling(void **state)
{
    (void)state;
    static const struct edit factor = WITH("llama.rope.scaling.factor", F32, 4),
                             old = WITH("llama.rope.scale_linear", F32, 4),
                             type = WITH_STR("llama.rope.scaling.type", "linear");
    struct tft_model *plain = opened(written(&toys[LLAMA])),
                     *want = opened(edited(edited(written(&toys[LLAMA]), &type), &factor)),
                     *have[] = {opened(edited(written(&toys[LLAMA]), &factor)),
                                opened(edited(written(&toys[LLAMA]), &old)),
                                opened(edited(edited(written(&toys[LLAMA]), &type), &old))};
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(have[i]->rope_freq, want->rope_freq, 4 * sizeof *want->rope_freq);
        assert_true(have[i]->rope_freq[3] == plain->rope_freq[3] / 4);
        tft_model_close(have[i]);
    }
    tft_model_close(want);
    tft_model_close(plain);
}

/* Dimensions that need more than one edit. */
static void dimensions_that_make_no_sense(void **state)
{
    (void)state;
    struct toy t = toys[LLAMA];
    t.n_vocab = TOY_VOCAB - 1;
    is_refused(written(&t), BAD, "the tokenizer has 420 tokens, but the embedding has 419 rows");

    t = toys[QWEN3];
    t.n_embd = 66;
    t.n_head = 33;
    t.n_head_kv = 1;
    is_refused(written(&t), UNSUPPORTED, "more than 32 heads share a KV head");

    t.n_embd = 1000;
    const char *path = edited(written(&t), &(struct edit)WITHOUT("qwen3.attention.key_length"));
    is_refused(path, BAD, "33 heads do not divide a width of 1000");

    path = edited(path, &(struct edit)WITHOUT("qwen3.attention.value_length"));
    path = edited(path, &(struct edit)WITH("qwen3.embedding_length", U32, 33 * 65537));
    is_refused(path, BAD, "key_length is missing, and its default, 65537, is out of range");

    path = edited(written(&t), &(struct edit)WITH("qwen3.attention.head_count", U32, 1000));
    path = edited(path, &(struct edit)WITH("qwen3.attention.key_length", U32, 65536));
    is_refused(edited(path, &(struct edit)WITHOUT("qwen3.attention.value_length")), BAD,
               "1000 heads of 65536");
}

/* Values that are possible in other architectures, but the formula has no such layers. */
static void layers_without_a_formula(void **state)
{
    (void)state;
    struct toy t = toys[LLAMA];
    t.vocab = NULL;
    t.arch = "gpt-oss";
    is_refused(edited(written(&t),
                      &(struct edit)WITH("gpt-oss.leading_dense_block_count", U32, 1)),
               BAD, "gpt-oss.leading_dense_block_count is not an integer of a possible size");
    t.arch = "smallthinker";
    is_refused(edited(written(&t),
                      &(struct edit)WITH("smallthinker.leading_dense_block_count", U32, 1)),
               BAD, "smallthinker.leading_dense_block_count is not an integer of a possible size");
    t.arch = "mamba2";
    t.n_head = t.n_head_kv = t.head_dim = t.n_ff = t.n_rot = 0;
    is_refused(edited(written(&t), &(struct edit)WITH("mamba2.feed_forward_length", U32, 40)),
               UNSUPPORTED, "mamba2.feed_forward_length is 40, but mamba2 has no feed-forward");
}

/* ---- tensors: each one missing, of another shape, of a type that weights cannot have */

static void check_tensors(const struct toy *toy)
{
    struct tft_source s;
    assert_int_equal(tft_source_open(&s, written(toy), NULL, NULL, NULL), TFT_OK);
    for (size_t k = 0; k < s.n_tensor; k++) {
        const struct tft_tensor *t = &s.tensor[k];
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        bool embed = strcmp(name, "token_embd.weight") == 0;
        bool optional = strcmp(name, "output.weight") == 0 ||
                        strcmp(name, "rope_freqs.weight") == 0 ||
                        (strstr(name, ".scale") && strcmp(toy->arch, "gemma4") != 0) ||
                        strstr(name, "layer_output_scale") ||
                        (strcmp(toy->arch, "gemma4") == 0 && strstr(name, "attn_v."));
        struct edit drop = {.name = name, .what = DROP},
                    type = {.name = name, .what = TENSOR_TYPE, .number = TFT_I8};
        struct edit rows = {
            .name = name, .what = TENSOR_SHAPE, .ne = {t->ne[0], t->ne[1] + 1, 1}};
        struct edit deep = {.name = name, .what = TENSOR_SHAPE, .ne = {t->ne[0], t->ne[1], 2}};
        struct edit cols = {
            .name = name, .what = TENSOR_SHAPE, .ne = {t->ne[0] + 32, t->ne[1], 1}};
        if (optional)
            tft_model_close(opened(
                edited(written(toy), &drop))); /* tied, RoPE not scaled, no factor, values that are
                                                  keys */
        else
            is_refused(edited(written(toy), &drop), BAD, name);
        if (!embed)
            is_refused(edited(written(toy), &rows), BAD, name);
        else if (!toy->tied) /* the embedding decides how many tokens there are */
            is_refused(edited(written(toy), &rows), BAD, "output.weight");
        is_refused(edited(written(toy), &cols), BAD, name);
        is_refused(edited(written(toy), &deep), BAD, name);
        is_refused(edited(written(toy), &type), UNSUPPORTED, name);
    }
    tft_source_close(&s);
}

static const struct toy *bitnet(void)
{
    int i = 0;
    while (strcmp(more_toys[i].arch, "bitnet"))
        i++;
    return &more_toys[i];
}

/* bitnet's gate is one of two, and a factor of weights is a positive number. */
static void gates_and_factors(void **state)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, 0, -1};
    is_refused(edited(written(bitnet()),
                      &(struct edit)WITH_STR("bitnet.hidden_activation", "gelu")),
               UNSUPPORTED, "bitnet.hidden_activation is gelu: neither silu nor relu2");
    is_refused(edited(written(bitnet()), &(struct edit)WITH("bitnet.hidden_activation", U32, 1)),
               BAD, "bitnet.hidden_activation is not a string");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused(edited(written(bitnet()), &(struct edit){.name = "blk.1.ffn_up.scale",
                                                            .what = TENSOR_FILL,
                                                            .number = bad[i]}),
                   BAD, "the tensor blk.1.ffn_up.scale is not a positive number");
}

/* Most toys have one layer here; toys with recurrent states have a few layers of both kinds. */
static void every_tensor_is_checked(void **state)
{
    (void)state;
    static const uint32_t of_both[N_STATE] = {2, 2, 4, 2, 2, 2, 2};
    for (int i = 0; i < N_TOYS; i++) {
        struct toy small = toys[i];
        if (i != LLAMA && i != GEMMA4)
            small.n_layer = 1;
        check_tensors(&small);
    }
    for (int i = 0; i < N_MORE; i++) {
        struct toy small = more_toys[i];
        small.n_layer = i < N_MORE - N_STATE ? 1 : of_both[i - (N_MORE - N_STATE)];
        check_tensors(&small);
    }
    struct toy apart = layer_toys[2]; /* experts beside a feed-forward */
    apart.fused_experts = false;
    check_tensors(&apart);
}

/* The session of a model with strange weights. */
static void decode_strange(const struct tft_model *m, const char *kv, bool overflows, bool noticed)
{
    struct tft_session_opts o = {.size = sizeof o, .kv = kv, .n_threads = 1};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_OK);
    struct tft_sampler z = {.temperature = 1, .top_p = 0.9f};
    for (int i = 0; i < 5; i++) {
        enum tft_status status = tft_decode(s, i);
        int32_t id = tft_sample(&z, s);
        if (!overflows)
            assert_int_equal(status, noticed ? TFT_ERR_NUMBERS : TFT_OK);
        assert_int_equal(tft_session_error(s)->code, status);
        assert_true(status == TFT_OK ? id >= 0 && id < TOY_VOCAB : id == -1);
        assert_int_equal(tft_pos(s), i + 1);
    }
    tft_session_close(s);
}

/* No number among the weights makes a session crash or sample a token that does not exist. */
static void strange_weights(void **state)
{
    (void)state;
    static const double fills[] = {NAN, INFINITY, 3e38, 0};
    static const char *const names[] = {"token_embd.weight",   "blk.0.attn_norm.weight",
                                        "blk.0.attn_q.weight", "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight", "blk.1.ffn_down.weight",
                                        "output_norm.weight",  "output.weight"};
    enum { MAY_OVERFLOW = 2 };
    for (int f = 0; f < 4; f++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            struct edit fill = {.name = names[k], .what = TENSOR_FILL, .number = fills[f]};
            struct tft_model *m = opened(edited(written(&toys[LLAMA]), &fill));
            decode_strange(m, "f16", f == MAY_OVERFLOW, f < 2);
            decode_strange(m, "i8", f == MAY_OVERFLOW, f < 2);
            tft_model_close(m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_toys_open),
        cmocka_unit_test(values_that_make_no_sense),
        cmocka_unit_test(values_without_effect),
        cmocka_unit_test(ignored_keys),
        cmocka_unit_test(an_ignored_pooling),
        cmocka_unit_test(names_of_a_linear_scaling),
        cmocka_unit_test(dimensions_that_make_no_sense),
        cmocka_unit_test(layers_without_a_formula),
        cmocka_unit_test(every_tensor_is_checked),
        cmocka_unit_test(gates_and_factors),
        cmocka_unit_test(strange_weights),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
