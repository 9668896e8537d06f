/* Damaged W8A8 files are refused, with a line that names the place and the damage. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "file/file.h"
#include "tools/quantize/write/rewrite_model.h"
#include "w8a8.h"

enum change { DROP, SHORTEN, SET, FIRST, LAST };

/* `bytes` of a tensor, to set its first or last number. */
static void put_changed(struct tft_gguf_writer *w, const struct tft_tensor *t, size_t bytes,
                        enum change what, double number)
{
    float f = (float)number;
    int32_t d = t->type == TFT_F32 ? 0 : (int32_t)number;
    int8_t b = t->type == TFT_I8 ? (int8_t)d : 0;
    const void *set = t->type == TFT_I8 ? (void *)&b : t->type == TFT_I32 ? (void *)&d : (void *)&f;
    size_t n = t->type == TFT_I8 ? 1 : 4;
    if (what == FIRST)
        tft_gguf_put_data(w, set, n);
    tft_gguf_put_data(w, t->data + (what == FIRST ? n : 0), bytes - n);
    if (what == LAST)
        tft_gguf_put_data(w, set, n);
}

/* Copies q.gguf with one change: a value or a tensor dropped, an array cut by one, the first
   element of an array, the first or last of a tensor set. */
static const char *changed(enum change what, const char *name, double number)
{
    struct tft_source s;
    struct tft_gguf_writer *w;
    const char *to = in_folder("changed.gguf");
    assert_int_equal(tft_source_open(&s, in_folder("q.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    bool found = false;
    for (size_t i = 0; i < s.n_value; i++) {
        struct tft_value v = s.value[i];
        bool here = tft_str_is(v.key, name);
        float f = (float)number;
        uint32_t u = fabs(number) < 0x1p32 ? (uint32_t)(int64_t)number : 0;
        unsigned char first[8];
        found |= here;
        if (here && what == DROP)
            continue;
        if (here && what == SHORTEN)
            v.n--;
        if (here && what == SET && !v.is_array) {
            tft_gguf_put_u32(w, name, u);
            continue;
        }
        if (here && what == SET) { /* its first number */
            size_t bytes = tft_value_type_bytes(v.type);
            unsigned char *copy = malloc(v.n * bytes);
            memcpy(first, v.type == TFT_VALUE_F32 ? (void *)&f : (void *)&u, 4);
            memcpy(copy, v.data, v.n * bytes);
            memcpy(copy, first, bytes);
            v.data = copy;
            tft_gguf_put_value(w, &v);
            free(copy);
            continue;
        }
        tft_gguf_put_value(w, &v);
    }
    for (int data = 0; data < 2; data++)
        for (size_t i = 0; i < s.n_tensor; i++) {
            const struct tft_tensor *t = &s.tensor[i];
            bool here = tft_str_is(t->name, name);
            found |= here;
            if (here && what == DROP)
                continue;
            uint64_t ne[4] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
            ne[0] -= here && what == SHORTEN;
            enum tft_dtype type = here && what == SET ? (enum tft_dtype)number : t->type;
            uint64_t bytes;
            assert_true(tft_dtype_bytes(type, ne[0] * ne[1] * ne[2] * ne[3], &bytes) &&
                        bytes <= t->bytes);
            if (data && here && (what == FIRST || what == LAST))
                put_changed(w, t, (size_t)bytes, what, number);
            else if (data)
                tft_gguf_put_data(w, t->data, (size_t)bytes);
            else
                tft_gguf_put_tensor(w, t->name, type, t->n_dims, ne);
        }
    assert_true(found);
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
    tft_source_close(&s);
    return to;
}

struct damage {
    enum change what;
    const char *name;
    double number;
    const char *why;
};

static void refused(const struct damage *d)
{
    struct tft_model *m;
    struct tft_error err = {.msg = "opened"};
    tft_model_open(&m, changed(d->what, d->name, d->number), NULL, &err);
    tft_model_close(m);
    if (!strstr(err.msg, d->why))
        fail_msg("%s: \"%s\" is not \"%s\"", d->name, err.msg, d->why);
}

/* q.gguf is refused with other tables of keys. */
static void refused_with(enum tft_value_type type, const float *table, size_t n, const char *why)
{
    struct tft_source s;
    struct tft_gguf_writer *w;
    struct tft_model *m;
    struct tft_error err = {.msg = "opened"};
    const char *to = in_folder("changed.gguf");
    assert_int_equal(tft_source_open(&s, in_folder("q.gguf"), NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    for (size_t i = 0; i < s.n_value; i++)
        if (tft_str_is(s.value[i].key, "tuffet.kv.fisher.keys"))
            tft_gguf_put_array(w, "tuffet.kv.fisher.keys", type, table, n);
        else
            tft_gguf_put_value(w, &s.value[i]);
    for (size_t i = 0; i < s.n_tensor; i++)
        tft_gguf_put_tensor(w, s.tensor[i].name, s.tensor[i].type, s.tensor[i].n_dims,
                            s.tensor[i].ne);
    for (size_t i = 0; i < s.n_tensor; i++)
        tft_gguf_put_data(w, s.tensor[i].data, (size_t)s.tensor[i].bytes);
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
    tft_source_close(&s);
    tft_model_open(&m, to, NULL, &err);
    tft_model_close(m);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const struct damage cases[] = {
        {SET, "tuffet.version", 2, "version 2 of tuffet's format"},
        {DROP, "tuffet.version", 0,
         "the tensor token_embd.weight is 64 x 48 and should be 64 x 40"},
        {DROP, "tuffet.vocab_size", 0,
         "tuffet.vocab_size does not fit the 64 rows of token_embd.weight"},
        {SET, "tuffet.vocab_size", 48, "tuffet.vocab_size does not fit"},
        {SET, "tuffet.vocab_size", 0, "tuffet.vocab_size does not fit"},
        {DROP, "tuffet.input.scale", 0, "tuffet.input.scale is missing, or not an array of 9"},
        {SHORTEN, "tuffet.input.zero", 0, "tuffet.input.zero is missing, or not an array of 9"},
        {SHORTEN, "tuffet.input.range", 0, "tuffet.input.range is missing, or not an array of 9"},
        {SET, "tuffet.input.scale", 0, "element 0 of tuffet.input.scale is out of range"},
        {SET, "tuffet.input.scale", -1, "element 0 of tuffet.input.scale is out of range"},
        {SET, "tuffet.input.scale", NAN, "element 0 of tuffet.input.scale is out of range"},
        {SET, "tuffet.input.scale", INFINITY, "element 0 of tuffet.input.scale is out of range"},
        {SET, "tuffet.input.range", 0, "element 0 of tuffet.input.range is out of range"},
        {SET, "tuffet.input.range", 4, "element 0 of tuffet.input.range is out of range"},
        {SET, "tuffet.hadamard", 3, "tuffet.hadamard is not a power of two"},
        {SET, "tuffet.hadamard", 64,
         "tuffet.hadamard is not a power of two up to 256 that divides 96"},
        {SET, "tuffet.hadamard", 512, "tuffet.hadamard is not a power of two"},
        {DROP, "blk.1.ffn_up.weight", 0, "the tensor blk.1.ffn_up.weight is missing"},
        {DROP, "blk.1.ffn_up.scale", 0, "the tensor blk.1.ffn_up.scale is missing"},
        {DROP, "blk.1.ffn_up.rowsum", 0, "the tensor blk.1.ffn_up.rowsum is missing"},
        {SHORTEN, "blk.0.attn_v.rowsum", 0,
         "the tensor blk.0.attn_v.rowsum is 1 x 31 and should be 1 x 32"},
        {SHORTEN, "blk.0.attn_v.weight", 0,
         "the tensor blk.0.attn_v.weight is 32 x 47 and should be 32 x 48"},
        {SET, "blk.0.attn_v.scale", TFT_I32,
         "the tensor blk.0.attn_v.scale has type I32 and should have F32"},
        {DROP, "tuffet.prefix.k", 0, "the tensor tuffet.prefix.k is missing"},
        {SHORTEN, "tuffet.prefix.v", 0,
         "the tensor tuffet.prefix.v is 2 x 3 x 2 x 11 and should be 2 x 3 x 2 x 12"},
        {SHORTEN, "tuffet.prefix.x", 0,
         "the tensor tuffet.prefix.x is 1 x 39 and should be 1 x 40"},
        {SHORTEN, "tuffet.prefix.tokens", 0,
         "the tensor tuffet.prefix.k is 2 x 3 x 2 x 12 and should be 2 x 2 x 2 x 12"},
        {SET, "tuffet.prefix.v", TFT_BF16,
         "the tensor tuffet.prefix.v has type BF16 and should have F16"},
        {DROP, "tuffet.prefix.tokens", 0,
         "the tensor tuffet.prefix.k is unknown to the architecture llama"},
    };
    struct quantize_opts o = usual(&toys[0]);
    quantized(&toys[0], &o);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i]);
    struct tft_model *m = opened(changed(DROP, "tuffet.prefix.x", 0)); /* may be absent */
    struct tft_session *s = session(m, (struct tft_session_opts){0});
    assert_int_equal(tft_prefill(s, NULL, 0), TFT_ERR_ARG);
    tft_session_close(s);
    tft_model_close(m);
}

/* Numbers that instruction sets would multiply differently, or that make no sense. */
static void damaged_weights_are_refused(void **state)
{
    (void)state;
    static const struct damage cases[] = {
        {FIRST, "blk.0.attn_v.weight", -128,
         "row 0 of the tensor blk.0.attn_v.weight has a weight of -128"},
        {FIRST, "blk.1.ffn_up.rowsum", 20000,
         "row 0 of the tensor blk.1.ffn_up.weight does not add up to its rowsum"},
        {FIRST, "token_embd.rowsum", INT32_MIN,
         "row 0 of the tensor token_embd.weight does not add up to its rowsum"},
        {LAST, "token_embd.rowsum", 1,
         "row 63 of the tensor token_embd.weight does not add up to its rowsum"},
        {LAST, "blk.1.attn_k.weight", 1,
         "row 31 of the tensor blk.1.attn_k.weight has padding that is not zero"},
        {FIRST, "output.scale", 0,
         "row 0 of the tensor output.weight has a scale that is not a positive number"},
        {FIRST, "blk.0.ffn_down.scale", -1,
         "row 0 of the tensor blk.0.ffn_down.weight has a scale that is not a positive number"},
        {FIRST, "blk.0.ffn_gate.scale", NAN, "blk.0.ffn_gate.weight has a scale that is not"},
        {LAST, "blk.0.attn_q.scale", INFINITY, "blk.0.attn_q.weight has a scale that is not"},
        {LAST, "blk.1.attn_output.rowsum", -7, "blk.1.attn_output.weight does not add up"},
    };
    struct quantize_opts o = usual(&toys[0]);
    quantized(&toys[0], &o);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i]);
    tft_model_close(opened(changed(FIRST, "blk.0.attn_v.scale", 1)));
}

/* Sets a byte of the data of a tensor of q.gguf. */
static void poke(const char *tensor, bool last, unsigned char byte)
{
    struct tft_source s;
    assert_int_equal(tft_source_open(&s, in_folder("q.gguf"), NULL, NULL, NULL), TFT_OK);
    const struct tft_tensor *t = tft_source_tensor(&s, tensor);
    long at = (long)(t->data - s.data) + (last ? (long)t->bytes - 1 : 0);
    tft_source_close(&s);
    FILE *f = fopen(in_folder("q.gguf"), "r+b");
    assert_true(f && fseek(f, at, SEEK_SET) == 0 && fputc(byte, f) == byte && fclose(f) == 0);
}

/* Each thread looks at some rows of every matrix. Which flaw is named does not depend on that. */
static void the_first_flaw_is_named_with_any_threads(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    quantized(&toys[0], &o);
    poke("blk.0.attn_q.weight", true, 1); /* in the last thread's rows: padding */
    poke("blk.1.attn_q.weight", false, 0x80);
    for (int threads = 1; threads <= 3; threads++) {
        struct tft_model_opts mo = {.size = sizeof mo, .n_threads = threads};
        struct tft_model *m;
        struct tft_error err;
        assert_int_equal(tft_model_open(&m, in_folder("q.gguf"), &mo, &err), TFT_ERR_FORMAT);
        assert_non_null(strstr(err.msg, "blk.0.attn_q.weight"));
    }
}

/* A file's calibration for the KV cache that it names. */
static void a_damaged_calibration_is_refused(void **state)
{
    (void)state;
    static const struct damage cases[] = {
        {DROP, "tuffet.kv.order", 0, "the tensor tuffet.kv.order is missing"},
        {SHORTEN, "tuffet.kv.order", 0,
         "the tensor tuffet.kv.order is 2 x 3 x 31 and should be 2 x 3 x 32"},
        {SET, "tuffet.kv.order", TFT_F32,
         "the tensor tuffet.kv.order has type F32 and should have I32"},
        {FIRST, "tuffet.kv.order", -1,
         "tuffet.kv.order is not a permutation of the channels in layer 0, KV head 0"},
        {FIRST, "tuffet.kv.order", 32,
         "tuffet.kv.order is not a permutation of the channels in layer 0, KV head 0"},
        {FIRST, "tuffet.kv.order", 1 << 30,
         "tuffet.kv.order is not a permutation of the channels in layer 0, KV head 0"},
        {DROP, "tuffet.kv.clip.k", 0, "the tensor tuffet.kv.clip.k is missing"},
        {SHORTEN, "tuffet.kv.clip.v", 0,
         "the tensor tuffet.kv.clip.v is 2 x 3 x 1 and should be 2 x 3 x 2"},
        {SET, "tuffet.kv.clip.v", TFT_I32,
         "the tensor tuffet.kv.clip.v has type I32 and should have F32"},
        {FIRST, "tuffet.kv.clip.k", 0,
         "tuffet.kv.clip.k has a number that is not above 0 and at most 1"},
        {FIRST, "tuffet.kv.clip.k", -0.5, "tuffet.kv.clip.k has a number that is not above 0"},
        {FIRST, "tuffet.kv.clip.v", 1.0001, "tuffet.kv.clip.v has a number that is not above 0"},
        {FIRST, "tuffet.kv.clip.v", NAN, "tuffet.kv.clip.v has a number that is not above 0"},
        {FIRST, "tuffet.kv.clip.v", INFINITY, "tuffet.kv.clip.v has a number that is not above 0"},
        {DROP, "tuffet.kv", 0, "the tensor tuffet.kv.order is unknown to the architecture qwen3"},
    };
    struct quantize_opts o = usual(&toys[2]);
    o.kv = "skvq:group=16,window=20";
    struct tft_model *m = opened(quantized(&toys[2], &o));
    int32_t twice = m->key_order[1];
    tft_session_close(session(m, (struct tft_session_opts){0}));
    tft_model_close(m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i]);
    refused(&(struct damage){
        FIRST, "tuffet.kv.order", twice,
        "tuffet.kv.order is not a permutation of the channels in layer 0, KV head 0"});
    tft_model_close(opened(changed(FIRST, "tuffet.kv.clip.k", 1e-30)));
}

/* The tables of the cache fisher in a plain file are arrays of 2 layers, 3 heads, 11 rows and 32
   channels. A mean may be negative; the first number of any other row is the 33rd. */
static void damaged_tables_are_refused(void **state)
{
    (void)state;
    static const struct damage cases[] = {
        {DROP, "tuffet.kv.fisher.keys", 0,
         "tuffet.kv.fisher.keys is missing, or not an array of 2112 numbers"},
        {DROP, "tuffet.kv.fisher.values", 0, "tuffet.kv.fisher.values is missing, or not an array"},
        {SHORTEN, "tuffet.kv.fisher.keys", 0, "tuffet.kv.fisher.keys is missing, or not an array"},
        {SHORTEN, "tuffet.kv.fisher.values", 0,
         "tuffet.kv.fisher.values is missing, or not an array of 2112 numbers"},
        {SET, "tuffet.kv.fisher.keys", NAN,
         "tuffet.kv.fisher.keys has a number that is not finite"},
        {SET, "tuffet.kv.fisher.values", INFINITY,
         "tuffet.kv.fisher.values has a number that is not finite"},
    };
    static const struct {
        enum tft_value_type type;
        size_t n;
        float last;
        const char *why;
    } odd[] = {{TFT_VALUE_F32, 2112, -0.5f, "fisher.keys has a number that is negative or not"},
               {TFT_VALUE_F32, 2112, NAN, "fisher.keys has a number that is negative or not"},
               {TFT_VALUE_F32, 0, 0, "fisher.keys is missing, or not an array of 2112 numbers"},
               {TFT_VALUE_I32, 2112, 0, "tuffet.kv.fisher.keys is not an array of f32"},
               {TFT_VALUE_U8, 2112, 0, "tuffet.kv.fisher.keys is not an array of f32"}};
    static float table[2112];
    const struct rewrite r = {.kv = "fisher", .fisher = {table, table}};
    struct tft_model *m = opened(written(&toys[2]));
    assert_int_equal(rewrite_model(m, in_folder("q.gguf"), &r, NULL), TFT_OK);
    tft_model_close(m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&cases[i]);
    tft_model_close(opened(changed(SET, "tuffet.kv.fisher.keys", -1)));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        table[2111] = odd[i].last;
        refused_with(odd[i].type, table, odd[i].n, odd[i].why);
    }
}

/* As above, with keys of a token that are whole blocks: 3 heads of 32. */
static void a_damaged_prefix_of_few_bits_is_refused(void **state)
{
    (void)state;
    static const struct damage
        plain[] =
            {
                {SET, "tuffet.prefix.k", TFT_Q8_0,
                 "the tensor tuffet.prefix.k is 2 x 3 x 3 x 32 and should be 2 x 3 x 96"},
                {SET, "tuffet.prefix.v", TFT_Q4_0,
                 "the tensor tuffet.prefix.v has type Q4_0 and should have F16"},
            },
        packed[] = {
            {SET, "tuffet.prefix.k", TFT_Q4_0,
             "the tensor tuffet.prefix.k is 2 x 3 x 96 and should be 2 x 3 x 3 x 32"},
            {DROP, "tuffet.prefix.v", 0, "the tensor tuffet.prefix.v is missing"},
            {SHORTEN, "tuffet.prefix.tokens", 0,
             "the tensor tuffet.prefix.k is 2 x 3 x 96 and should be 2 x 2 x 96"},
            {DROP, "tuffet.prefix.tokens", 0,
             "the tensor tuffet.prefix.k is unknown to the architecture qwen3"},
        };
    struct quantize_opts o = usual(&toys[2]);
    quantized(&toys[2], &o);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        refused(&plain[i]);
    o.prefix_type = TFT_Q8_0;
    quantized(&toys[2], &o);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        refused(&packed[i]);
    /* keys and values may have different types */
    tft_model_close(opened(changed(SET, "tuffet.prefix.v", TFT_Q4_1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(damaged_weights_are_refused),
        cmocka_unit_test(the_first_flaw_is_named_with_any_threads),
        cmocka_unit_test(a_damaged_calibration_is_refused),
        cmocka_unit_test(damaged_tables_are_refused),
        cmocka_unit_test(a_damaged_prefix_of_few_bits_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
