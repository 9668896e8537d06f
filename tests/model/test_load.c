/* Opening models: sound files with senseless models are refused with one line that names the file,
   and no memory stays allocated. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "folder.h"
#include "file/file.h"
#include "memory.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "run/session.h"
#include "toy.h"
#include "tuffet.h"

/* Two layers use keys and values of the first two. */
static const bool gemma4_windows[] = {true, false, true, false};
static const uint32_t gemma4_ffs[] = {40, 40, 56, 56};
static const struct toy_number gemma4_numbers[] = {
    {"attention.sliding_window", TOY_U32, 30},
    {"attention.key_length_swa", TOY_U32, 8},
    {"attention.value_length_swa", TOY_U32, 8},
    {"attention.shared_kv_layers", TOY_U32, 2},
    {"embedding_length_per_layer_input", TOY_U32, 12},
    {0}};

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = TOY_VOCAB,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8,
     .vocab = "llama"},
    {.arch = "qwen2",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8,
     .tied = true},
    {.arch = "qwen3",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8},
    {.arch = "gpt2",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 8,
     .n_ff = 40,
     .tied = true},
    {.arch = "llama",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 1,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8,
     .llama3_scaling = true},
    {.arch = "llama",
     .n_vocab = 64,
     .n_ctx = 64,
     .n_embd = 64,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 96,
     .n_rot = 16,
     .type = TFT_Q8_0},
    {.arch = "gemma3",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8,
     .tied = true},
    {.arch = "granite",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 8,
     .n_ff = 40,
     .n_rot = 8,
     .tied = true},
    {.arch = "gemma4",
     .n_vocab = 30,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 4,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 40,
     .n_rot = 16,
     .windows = gemma4_windows,
     .ffs = gemma4_ffs,
     .tied = true,
     .numbers = gemma4_numbers},
};
enum { LLAMA, QWEN2, QWEN3, GPT2, LLAMA3, Q8, GEMMA3, GRANITE, GEMMA4, N_TOYS };

/* ---- a toy with one thing changed */

enum what { DROP, U32, F32, STR, ARRAY, TENSOR_TYPE, TENSOR_SHAPE, TENSOR_FILL };

struct edit {
    const char *name; /* of a value or a tensor, which is added if the file has no such */
    enum what what;
    double number; /* TENSOR_TYPE: an enum tft_dtype */
    const char *text;
    uint64_t ne[3]; /* TENSOR_SHAPE */
};

static void put_edited_value(struct tft_gguf_writer *w, const struct edit *e)
{
    int32_t i = e->what == ARRAY ? (int32_t)e->number : 0;
    if (e->what == U32)
        tft_gguf_put_u32(w, e->name, (uint32_t)(int64_t)e->number);
    else if (e->what == F32)
        tft_gguf_put_f32(w, e->name, (float)e->number);
    else if (e->what == STR)
        tft_gguf_put_str(w, e->name, (struct tft_str){e->text, strlen(e->text)});
    else if (e->what == ARRAY)
        tft_gguf_put_array(w, e->name, TFT_VALUE_I32, &i, 1);
}

static void put_edited_tensor(struct tft_gguf_writer *w, const struct edit *e,
                              const struct tft_tensor *t, bool data)
{
    struct tft_tensor x = t ? *t : (struct tft_tensor){.name = {e->name, strlen(e->name)}};
    float fill = e->what == TENSOR_FILL ? (float)e->number : 0;
    if (e->what == DROP)
        return;
    if (e->what == TENSOR_TYPE)
        x.type = (enum tft_dtype)e->number;
    if (e->what == TENSOR_SHAPE) {
        memcpy(x.ne, e->ne, sizeof e->ne);
        x.n_dims = 3;
    }
    if (!data)
        tft_gguf_put_tensor(w, x.name, x.type, x.n_dims, x.ne);
    tft_dtype_bytes(x.type, x.ne[0] * x.ne[1] * x.ne[2], &x.bytes);
    for (uint64_t i = 0; data && i < x.bytes; i += sizeof fill)
        tft_gguf_put_data(w, &fill,
                          x.bytes - i < sizeof fill ? (size_t)(x.bytes - i) : sizeof fill);
}

/* Writes the descriptions of the tensors, or their data. A new tensor comes last. */
static void put_tensors(struct tft_gguf_writer *w, const struct tft_source *s, const struct edit *e,
                        bool data)
{
    bool done = e->what < TENSOR_TYPE && !tft_source_tensor(s, e->name);
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (!done && tft_str_is(t->name, e->name)) {
            put_edited_tensor(w, e, t, data);
            done = true;
        } else if (data) {
            tft_gguf_put_data(w, t->data, (size_t)t->bytes);
        } else {
            tft_gguf_put_tensor(w, t->name, t->type, t->n_dims, t->ne);
        }
    }
    if (!done)
        put_edited_tensor(w, e, NULL, data);
}

static const char *written(const struct toy *toy)
{
    static struct toy last;
    const char *path = in_folder("toy.gguf");
    if (memcmp(toy, &last, sizeof last) != 0)
        assert_true(toy_write(toy, path));
    last = *toy;
    return path;
}

/* The path of a copy of `path` with one edit; `path` may be such a copy. */
static const char *edited(const char *path, const struct edit *e)
{
    const char *out = in_folder("edited.gguf");
    struct tft_source s;
    struct tft_gguf_writer *w;
    struct tft_error err;
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, out, NULL), TFT_OK);
    bool done = e->what >= TENSOR_TYPE || tft_source_tensor(&s, e->name);
    for (size_t i = 0; i < s.n_value; i++)
        if (!done && tft_str_is(s.value[i].key, e->name)) {
            put_edited_value(w, e);
            done = true;
        } else {
            tft_gguf_put_value(w, &s.value[i]);
        }
    if (!done)
        put_edited_value(w, e);
    put_tensors(w, &s, e, false);
    put_tensors(w, &s, e, true);
    if (tft_gguf_close(w, true, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_source_close(&s);
    return out;
}

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

static struct tft_model *opened(const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .n_threads = 1};
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* A session that has computed three tokens. */
static struct tft_session *begun(const struct tft_model *m)
{
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_OK);
    assert_int_equal(tft_prefill(s, (const int32_t[]){1, 2, 3}, 3), TFT_OK);
    return s;
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

/* ---- memory */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct toy with_vocab = toys[Q8];
    with_vocab.n_vocab = TOY_VOCAB;
    with_vocab.vocab = "gpt2";
    with_vocab.chat_template = "{{ nothing }}";
    with_vocab.tool_template = "{{ tools }}";
    const char *path = written(&with_vocab);
    for (int only_vocab = 0; only_vocab < 2; only_vocab++) {
        unsigned fail_at = 1;
        for (;; fail_at++) {
            struct memory mem = {.fail_at = fail_at};
            struct tft_allocator a = memory_allocator(&mem);
            struct tft_model_opts o = {
                .size = sizeof o, .allocator = &a, .vocab_only = only_vocab, .n_threads = 1};
            struct tft_model *m;
            struct tft_error err = {0};
            enum tft_status status = tft_model_open(&m, path, &o, &err);
            if (status == TFT_OK) {
                assert_true(mem.calls < fail_at);
                tft_model_close(m);
                assert_int_equal(mem.in_use, 0);
                break;
            }
            assert_int_equal(status, TFT_ERR_NOMEM);
            assert_int_equal(err.code, TFT_ERR_NOMEM);
            assert_memory_equal(err.msg, path, strlen(path));
            assert_null(m);
            assert_int_equal(mem.in_use, 0);
        }
        assert_true(fail_at > 3);
    }
}

/* The template named tool_use is one of its own; without it, the chat template is for tools too. */
static void templates_for_tools(void **state)
{
    (void)state;
    struct toy toy = toys[Q8];
    const char *const rows[][3] = {
        {NULL, NULL, NULL}, {"a", NULL, "a"}, {"a", "b", "b"}, {NULL, "b", "b"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        toy.chat_template = rows[i][0];
        toy.tool_template = rows[i][1];
        struct tft_model *m = opened(written(&toy));
        const char *plain = tft_model_chat_template(m), *tools = tft_model_tool_template(m);
        assert_string_equal(plain ? plain : "none", rows[i][0] ? rows[i][0] : "none");
        assert_string_equal(tools ? tools : "none", rows[i][2] ? rows[i][2] : "none");
        tft_model_close(m);
    }
}

static void in_memory(void **state)
{
    (void)state;
    struct tft_map file;
    struct tft_model *m, *n;
    struct tft_error err;
    const char *path = written(&toys[Q8]);
    assert_int_equal(tft_port_map(&file, path), 0);
    char *block = tft_port_alloc((file.size + 127) / 64 * 64, 64);
    for (size_t off = 1; off < 32; off++) {
        memcpy(block + off, file.data, file.size);
        assert_int_equal(tft_model_open_mem(&m, block + off, file.size, NULL, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, "memory: the data is not aligned to 32 bytes");
        assert_null(m);
    }
    memcpy(block + 32, file.data, file.size);
    assert_int_equal(tft_model_open_mem(&m, block + 32, file.size - 1, NULL, &err), TFT_ERR_FORMAT);
    assert_memory_equal(err.msg, "memory: ", 8);
    assert_int_equal(tft_model_open_mem(&m, block + 32, 0, NULL, &err), TFT_ERR_FORMAT);

    n = opened(path);
    assert_int_equal(tft_model_open_mem(&m, block + 32, file.size, NULL, NULL), TFT_OK);
    struct tft_session *s = begun(m), *t = begun(n);
    assert_memory_equal(tft_logits(s, 0), tft_logits(t, 0), toys[Q8].n_vocab * sizeof(float));
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
    tft_model_close(n);
    tft_port_free(block);
    tft_port_unmap(&file);
}

/* A file within another, at an offset that is no multiple of a page. */
static void in_an_open_file(void **state)
{
    (void)state;
    struct tft_map file;
    struct tft_model *m, *n;
    struct tft_error err;
    const char *path = written(&toys[Q8]), *package = in_folder("package");
    enum { AT = 5 * 4096 + 96, BEHIND = 50 };
    static const char filler[AT];
    assert_int_equal(tft_port_map(&file, path), 0);
    FILE *f = fopen(package, "wb");
    assert_non_null(f);
    assert_true(fwrite(filler, 1, AT, f) == AT && fwrite(file.data, 1, file.size, f) == file.size &&
                fwrite(filler, 1, BEHIND, f) == BEHIND && fclose(f) == 0);

    int fd = open(package, O_RDONLY), whole = open(path, O_RDONLY);
    assert_true(fd >= 0 && whole >= 0);
    n = opened(path);
    struct tft_session *t = begun(n);
    for (int i = 0; i < 2; i++) {
        enum tft_status status = i ? tft_model_open_fd(&m, whole, 0, 0, NULL, NULL)
                                   : tft_model_open_fd(&m, fd, AT, file.size, NULL, NULL);
        assert_int_equal(status, TFT_OK);
        close(i ? whole : fd);
        struct tft_session *s = begun(m);
        assert_memory_equal(tft_logits(s, 0), tft_logits(t, 0), toys[Q8].n_vocab * sizeof(float));
        tft_session_close(s);
        tft_model_close(m);
    }
    tft_session_close(t);
    tft_model_close(n);

    fd = open(package, O_RDONLY);
    char line[100], descriptor[40];
    snprintf(descriptor, sizeof descriptor, "descriptor %d", fd);
    for (uint64_t off = 1; off < 32; off++) {
        snprintf(line, sizeof line, "%s: the offset %d is not a multiple of 32", descriptor,
                 (int)(AT + off));
        assert_int_equal(tft_model_open_fd(&m, fd, AT + off, 0, NULL, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, line);
    }
    uint64_t end = (uint64_t)AT + file.size + BEHIND;
    static const struct {
        bool from_end;
        uint64_t offset, size;
    } outside[] = {{true, 64, 0}, {false, 0, UINT64_MAX}, {false, UINT64_MAX - 31, 0},
                   {false, UINT64_MAX - 31, 64}, {false, 32, UINT64_MAX - 31}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        uint64_t at = outside[i].offset + (outside[i].from_end ? end / 32 * 32 : 0);
        assert_int_equal(tft_model_open_fd(&m, fd, at, outside[i].size, NULL, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, ": the file ends before "));
        assert_null(m);
    }
    /* the bytes before and after it are not the model's */
    assert_int_equal(tft_model_open_fd(&m, fd, AT, file.size - 1, NULL, &err), TFT_ERR_FORMAT);
    assert_memory_equal(err.msg, descriptor, strlen(descriptor));
    assert_int_equal(tft_model_open_fd(&m, fd, AT - 32, 0, NULL, &err), TFT_ERR_FORMAT);
    close(fd);
    assert_int_equal(tft_model_open_fd(&m, fd, 0, 0, NULL, &err), TFT_ERR_IO);
    int here = open(".", O_RDONLY);
    assert_int_equal(tft_model_open_fd(&m, here, 0, 0, NULL, &err), TFT_ERR_IO);
    close(here);
    tft_port_unmap(&file);
}

/* ---- the other promises of tft_model_open */

struct progress {
    double last;
    int calls;
    bool fell, outside;
};

static void watch(void *user, double done)
{
    struct progress *p = user;
    p->fell = p->fell || done < p->last;
    p->outside = p->outside || !(done >= 0 && done <= 1);
    p->last = done;
    p->calls++;
}

static void progress_goes_from_0_to_1(void **state)
{
    (void)state;
    const char *path = written(&toys[Q8]);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int weights = TFT_WEIGHTS_STORED; weights <= TFT_WEIGHTS_BF16; weights++) {
            struct progress p = {0};
            struct tft_model_opts o = {.size = sizeof o,
                                       .weights = (enum tft_weights)weights,
                                       .n_threads = threads,
                                       .progress = watch,
                                       .progress_user = &p};
            struct tft_model *m;
            assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
            assert_true(p.calls > 1 && !p.fell && !p.outside);
            assert_true(p.last == 1.0);
            tft_model_close(m);
        }
}

static void options_out_of_range(void **state)
{
    (void)state;
    const char *path = written(&toys[LLAMA]);
    struct tft_model *m;
    struct tft_model_opts o = {.size = sizeof o, .n_threads = -1};
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o.n_threads = 1025;
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o = (struct tft_model_opts){.size = sizeof o, .weights = TFT_WEIGHTS_I8};
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_ERR_ARG);
    o = (struct tft_model_opts){.size = offsetof(struct tft_model_opts, weights),
                                .weights = TFT_WEIGHTS_I8};
    /* a caller with an older header has no field `weights` */
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
    tft_model_close(m);
    assert_int_equal(tft_model_open(&m, in_folder("nothing"), NULL, NULL), TFT_ERR_IO);
    assert_int_equal(tft_model_open(&m, folder, NULL, NULL), TFT_ERR_IO);
    assert_null(m);
    tft_model_close(NULL);
}

static void a_vocabulary_alone(void **state)
{
    (void)state;
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    struct tft_model_opts o = {.size = sizeof o, .vocab_only = true};
    const char *path =
        edited(written(&toys[LLAMA]),
               &(struct edit){.name = "general.architecture", .what = STR, .text = "bert"});
    assert_int_equal(tft_model_open(&m, path, &o, NULL), TFT_OK);
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    assert_int_equal(info.n_vocab, TOY_VOCAB);
    assert_int_equal(info.n_layer, 0);
    assert_string_equal(info.arch, "bert");
    assert_true(info.encoder);
    assert_int_equal(tft_session_open(&s, m, NULL, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "vocab_only"));
    tft_model_close(m);

    path = written(&toys[QWEN2]);
    assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "there is no tokenizer in it"));
}

/* What embeddings need, and what tells models apart. */
static void a_model_for_embeddings(void **state)
{
    (void)state;
    const enum tft_pooling pooling[] = {TFT_POOLING_NONE, TFT_POOLING_MEAN, TFT_POOLING_CLS,
                                        TFT_POOLING_LAST, TFT_POOLING_RANK, TFT_POOLING_OTHER};
    enum { N = sizeof pooling / sizeof *pooling };
    struct toy_number numbers[N][2] = {{{0}}}; /* written() tells toys apart by their pointers */
    char identity[N][TFT_IDENTITY];
    for (uint32_t i = 0; i < N; i++) {
        struct toy t = toys[LLAMA];
        struct tft_model_info info = {.size = sizeof info};
        numbers[i][0] = (struct toy_number){"pooling_type", TOY_U32, i};
        t.numbers = numbers[i];
        t.adds_eos = i == 3;
        for (int twice = 0; twice < 2; twice++) {
            struct tft_model *m = opened(written(&t));
            char again[TFT_IDENTITY];
            tft_model_describe(m, &info);
            assert_int_equal(info.pooling, pooling[i]);
            assert_int_equal(info.add_eos, i == 3);
            assert_int_equal(info.n_device, 0);
            tft_model_identity(m, twice ? again : identity[i]);
            if (twice)
                assert_string_equal(again, identity[i]);
            tft_model_close(m);
        }
        assert_int_equal(strlen(identity[i]), TFT_IDENTITY - 1);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(identity[i], identity[j]);
    }
}

/* The model keeps a copy of its path for messages: the caller may free or change its own. */
static void the_path_is_the_callers(void **state)
{
    (void)state;
    char path[300];
    struct tft_model *m;
    struct tft_session *s;
    struct tft_error err;
    snprintf(path, sizeof path, "%s", written(&toys[LLAMA]));
    assert_int_equal(tft_model_open(&m, path, NULL, NULL), TFT_OK);
    memset(path, '?', sizeof path - 1);
    struct tft_session_opts o = {.size = sizeof o, .capacity = 1u << 30};
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_ptr_equal(strstr(err.msg, in_folder("")), err.msg);
    tft_model_close(m);
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
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(templates_for_tools),
        cmocka_unit_test(in_memory),
        cmocka_unit_test(in_an_open_file),
        cmocka_unit_test(progress_goes_from_0_to_1),
        cmocka_unit_test(options_out_of_range),
        cmocka_unit_test(a_vocabulary_alone),
        cmocka_unit_test(a_model_for_embeddings),
        cmocka_unit_test(the_path_is_the_callers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
