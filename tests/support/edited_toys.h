/* Toys of several architectures, and files of them with one thing changed. The test's setup is
   make_folder of folder.h. */
#ifndef TFT_TEST_EDITED_TOYS_H
#define TFT_TEST_EDITED_TOYS_H

#include "test.h"

#include "file/file.h"
#include "folder.h"
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

static inline void put_edited_value(struct tft_gguf_writer *w, const struct edit *e)
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

static inline void put_edited_tensor(struct tft_gguf_writer *w, const struct edit *e,
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
static inline void put_tensors(struct tft_gguf_writer *w, const struct tft_source *s,
                               const struct edit *e, bool data)
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

static inline const char *written(const struct toy *toy)
{
    static struct toy last;
    const char *path = in_folder("toy.gguf");
    if (memcmp(toy, &last, sizeof last) != 0)
        assert_true(toy_write(toy, path));
    last = *toy;
    return path;
}

/* The path of a copy of `path` with one edit; `path` may be such a copy. */
static inline const char *edited(const char *path, const struct edit *e)
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

static inline struct tft_model *opened(const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .n_threads = 1};
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

#endif
