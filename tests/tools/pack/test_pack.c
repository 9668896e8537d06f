/* Packed files: the same logits as the file that they were packed from, in the memory of the file;
   and files with false claims about packing are refused with one line. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "fed.h"
#include "model/keys.h"
#include "model/open.h"
#include "models/open.h"
#include "models/registry.h"
#include "tools/pack/pack.h"
#include "weights/packed.h"

enum { N_TOKENS = 21, VOCAB = 70 }; /* not whole panels */

static struct toy toy(enum tft_dtype type)
{
    uint32_t width = tft_dtype_info(type)->block > 64 ? 256 : 64;
    return (struct toy){.arch = "llama",
                        .n_vocab = VOCAB,
                        .n_ctx = 64,
                        .n_embd = width,
                        .n_layer = 2,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .head_dim = width / 4,
                        .n_ff = 2 * width,
                        .n_rot = width / 4,
                        .type = type,
                        .seed = 7};
}

static struct toy fused(enum tft_dtype type)
{
    return (struct toy){.arch = "gpt2",
                        .n_vocab = VOCAB,
                        .n_ctx = 64,
                        .n_embd = 96,
                        .n_layer = 2,
                        .n_head = 4,
                        .n_head_kv = 1, /* the rows of v begin within a panel */
                        .head_dim = 24,
                        .n_ff = 160,
                        .type = type,
                        .tied = true,
                        .seed = 8};
}

/* The gate and up share a tensor too. */
static struct toy fused_gate(enum tft_dtype type)
{
    struct toy t = fused(type);
    t.arch = "phi3";
    t.n_rot = 16;
    return t;
}

static enum tft_status pack_file(const char *from, const char *to, const struct pack_opts *o,
                                 struct pack_result *r, struct tft_error *err)
{
    struct tft_model *m;
    enum tft_status status = tft_model_open_unexpanded(&m, from, NULL, err);
    if (status == TFT_OK)
        status = pack(m, to, o, r, err);
    tft_model_close(m);
    return status;
}

/* The path of a packed file made from another. The next call overwrites it. */
static const char *packed(const char *from)
{
    const char *to = in_folder("p.gguf");
    struct pack_result r;
    struct tft_error err;
    if (pack_file(from, to, &(struct pack_opts){.n_threads = 2}, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return to;
}

static uint64_t logits_of(const char *path, int threads)
{
    struct tft_model *m = opened(path);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = threads});
    int32_t tokens[N_TOKENS];
    uint64_t h = 0xcbf29ce484222325;
    toy_tokens(3, m->n_vocab, tokens, N_TOKENS);
    for (uint32_t at = 0, n = 1; at < N_TOKENS; at += n, n = N_TOKENS - at) {
        assert_int_equal(tft_prefill(s, tokens + at, n), TFT_OK);
        h = hash_logits(h, s);
    }
    tft_session_close(s);
    tft_model_close(m);
    return h;
}

static size_t memory_of(const char *path)
{
    struct tft_model *m = opened(path);
    size_t bytes = m->memory_size;
    tft_model_close(m);
    return bytes;
}

/* The memory of opening. */
static size_t planned(const char *path)
{
    struct tft_model m = {0};
    assert_int_equal(tft_source_open(&m.source, path, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_open_plan(&m, tft_archs, TFT_WEIGHTS_STORED, NULL, NULL), TFT_OK);
    tft_source_close(&m.source);
    return m.memory_size;
}

static uint64_t hash_file(const char *path)
{
    struct tft_map map;
    uint64_t h = 0xcbf29ce484222325;
    assert_int_equal(tft_port_map(&map, path), 0);
    for (size_t i = 0; i < map.size; i++)
        h = (h ^ map.data[i]) * 0x100000001b3;
    tft_port_unmap(&map);
    return h;
}

static bool has(const struct tft_model *m, const char *name)
{
    return tft_source_tensor(&m->source, name) != NULL;
}

/* ---- files of pack */

static void models_of_every_type(void **state)
{
    (void)state;
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++)
        for (int tied = 0; tied < 2; tied++) {
            struct toy t = toy(tft_packed_formats[i].type);
            t.tied = tied;
            const char *from = written(&t), *to = packed(from), *name = tft_packed_formats[i].name;
            uint64_t want = logits_of(from, 1);
            const char *isa = tft_kernels_name((2 * (int)i + tied) % tft_kernels_isas());
            assert_int_equal(tft_cpu_limit(isa), TFT_OK);
            if (logits_of(to, 2) != want)
                fail_msg("%s on %s: other logits", name, isa);
            assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
            if (logits_of(to, 3) != want)
                fail_msg("%s: other logits", name);

            /* blocks, frequencies and lists, but no matrix */
            assert_in_range(memory_of(to), 1, 12288);
            assert_in_range(planned(to), 1, 12288);
            assert_true(memory_of(from) > 16384);

            struct tft_model *m = opened(to);
            assert_int_equal(m->n_vocab, VOCAB);
            assert_ptr_equal(m->output.w.format, &tft_packed_formats[i]);
            if (tied)
                assert_ptr_equal(m->embed.data, m->output.w.data);
            else
                assert_ptr_equal(m->embed.format, &tft_format_stored);
            uint64_t checksum = 0;
            tft_value_uint(tft_source_value(&m->source, TFT_CHECKSUM_KEY), 0, &checksum);
            assert_int_equal(tft_source_checksum(&m->source), checksum);
            for (size_t k = 0; k < m->source.n_tensor; k++)
                assert_int_equal((m->source.tensor[k].data - m->source.data) % 64, 0);
            tft_model_close(m);
        }
}

/* Old files are read by this layout: where it changes, TFT_PACKED_VERSION must too. */
static void the_layout_is_that_of_the_version(void **state)
{
    (void)state;
    static const struct {
        size_t formats; /* the first ones of the list */
        uint64_t hash;
    } layout[] = {{20, 0x998b1e236b406467}, {25, 0xec766ec4df4102b2}};
    size_t known = 0;
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++) {
        struct toy t = toy(tft_packed_formats[i].type);
        struct tft_model *m = opened(packed(written(&t)));
        const struct tft_tensor *x = tft_source_tensor(&m->source, "blk.0.attn_k.weight");
        for (size_t k = 0; k < x->bytes; k++)
            h = (h ^ x->data[k]) * 0x100000001b3;
        tft_model_close(m);
        if (i + 1 < layout[known].formats)
            continue;
        if (h != layout[known++].hash)
            fail_msg("%zu formats: 0x%016llx", i + 1, (unsigned long long)h);
    }
    assert_int_equal(known, sizeof layout / sizeof *layout);
    assert_int_equal(TFT_PACKED_VERSION, 1);
}

/* The written file depends neither on the number of threads nor on earlier files. */
static void the_file_is_the_same_with_any_number_of_threads(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_K);
    struct pack_result r;
    uint64_t want = hash_file(packed(written(&t)));
    for (int threads = 0; threads < 4; threads++) {
        assert_int_equal(pack_file(in_folder("m.gguf"), in_folder("p.gguf"),
                                   &(struct pack_opts){.n_threads = threads}, &r, NULL),
                         TFT_OK);
        assert_int_equal(hash_file(in_folder("p.gguf")), want);
    }
    assert_int_equal(r.packed, 15);
    assert_int_equal(r.tensors, 15 + 5 + 1);
    /* onto itself */
    const char *path = in_folder("m.gguf");
    assert_int_equal(pack_file(path, path, &(struct pack_opts){0}, &r, NULL), TFT_OK);
    assert_int_equal(hash_file(path), want);
}

static void a_tensor_that_layers_share_is_split(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_Q5_1, TFT_Q8_0, TFT_MXFP4};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        struct toy t = i % 2 ? fused_gate(types[i / 2]) : fused(types[i / 2]);
        const char *from = written(&t), *to = packed(from);
        uint64_t want = logits_of(from, 1);
        assert_int_equal(logits_of(to, 1), want);
        assert_int_equal(logits_of(to, 3), want);
        struct tft_model *m = opened(to);
        assert_true(has(m, "blk.1.attn_q.weight") && !has(m, "blk.0.attn_qkv.weight"));
        if (i % 2)
            assert_true(has(m, "blk.1.ffn_gate.weight") &&
                        m->layer[0].up.w.rows == t.n_ff);
        else
            assert_true(has(m, "blk.1.attn_k.bias") && has(m, "blk.0.attn_v.bias") &&
                        !has(m, "blk.1.attn_qkv.bias"));
        tft_model_close(m);
    }
}

static void keys_and_other_tensors_are_copied(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q6_K);
    t.llama3_scaling = true;
    struct tft_model *from = opened(written(&t)), *to = opened(packed(in_folder("m.gguf")));
    const struct tft_source *a = &from->source, *b = &to->source;
    for (size_t i = 0; i < a->n_value; i++) {
        char key[96];
        snprintf(key, sizeof key, "%.*s", TFT_STR_ARG(a->value[i].key));
        const struct tft_value *v = tft_source_value(b, key);
        assert_true(v && v->type == a->value[i].type && v->n == a->value[i].n);
        if (v->type != TFT_VALUE_STRING)
            assert_memory_equal(v->data, a->value[i].data, v->n * tft_value_type_bytes(v->type));
    }
    assert_int_equal(a->n_tensor, b->n_tensor);
    for (size_t i = 0; i < a->n_tensor; i++) {
        const struct tft_tensor *x = &a->tensor[i], *y = &b->tensor[i];
        assert_int_equal(x->name.n, y->name.n);
        assert_memory_equal(x->name.p, y->name.p, x->name.n);
        bool copy = x->type == TFT_F32 || tft_str_is(x->name, "token_embd.weight");
        assert_int_equal(y->type, copy ? x->type : TFT_I8);
        if (copy)
            assert_memory_equal(x->data, y->data, x->bytes);
    }
    tft_model_close(from);
    tft_model_close(to);
}

static bool stop(void *user, double done)
{
    unsigned *left = user;
    assert_true(done > 0 && done <= 1);
    return --*left > 0;
}

static void what_is_stopped_or_fails_leaves_no_file(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_0);
    struct pack_result r;
    struct tft_error err;
    const char *from = written(&t), *to = in_folder("q.gguf");
    for (unsigned last = 1; last < 22; last += 4) {
        unsigned left = last;
        struct pack_opts o = {.progress = stop, .user = &left};
        assert_int_equal(pack_file(from, to, &o, &r, &err), TFT_OK);
        assert_true(r.stopped);
    }
    t.type = TFT_BF16;
    assert_int_equal(pack_file(written(&t), to, &(struct pack_opts){0}, &r, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "m.gguf: has no quantized matrices: there is nothing to pack"));

    t.type = TFT_Q4_0;
    struct tft_model *m = opened(written(&t));
    size_t size = m->source.size,
           at = (size_t)(tft_source_tensor(&m->source, "blk.1.ffn_up.weight")->data -
                         m->source.data) +
                18 * 70;
    unsigned char *file = malloc(size);
    assert_non_null(file);
    memcpy(file, m->source.data, size);
    tft_model_close(m);
    memcpy(file + at, &(uint16_t){0x7e00}, 2);
    assert_true(write_file(from, file, size));
    free(file);
    assert_int_equal(pack_file(from, to, &(struct pack_opts){0}, &r, &err), TFT_ERR_FORMAT);
    assert_int_equal(err.offset, at);
    assert_non_null(strstr(err.msg, "blk.1.ffn_up.weight has a scale of NaN or infinity"));

    FILE *f = fopen(to, "rb");
    assert_null(f);
    assert_int_equal(pack_file(from, folder, &(struct pack_opts){0}, &r, &err), TFT_ERR_IO);
}

static void other_weights_are_refused(void **state)
{
    (void)state;
    struct toy t = toy(TFT_Q4_0);
    struct tft_model *m;
    struct tft_error err;
    struct pack_result r;
    const char *path = packed(written(&t));
    for (enum tft_weights w = TFT_WEIGHTS_F32; w <= TFT_WEIGHTS_BF16; w++) {
        struct tft_model_opts o = {.size = sizeof o, .weights = w};
        assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "p.gguf: its weights are packed and cannot become floats"));
    }
    assert_int_equal(pack_file(path, in_folder("q.gguf"), &(struct pack_opts){0}, &r, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "p.gguf: its weights are packed already: take the file"));
}

/* ---- files that lie */

enum change {
    END,
    DROP,    /* the value */
    SET,     /* the value: u32 a; added if there is none */
    TEXT,    /* the value: a string */
    CUT,     /* the array: a elements fewer; a < 0: more, which are -1 */
    U32,     /* the array becomes one of u32 */
    ELEMENT, /* of tuffet.packed.types for this tensor: a */
    SHAPE,   /* of this tensor: a is added to ne[0], b to ne[1] */
    TYPE,    /* of this tensor: a */
    RENAME,  /* this tensor: to `to` */
};

struct edit {
    enum change what;
    const char *name;
    int64_t a, b;
    const char *to;
};

static const struct edit *find(const struct edit *e, enum change what, struct tft_str name)
{
    for (; e->what != END; e++)
        if (e->what == what && tft_str_is(name, e->name))
            return e;
    return NULL;
}

static void edit_types(struct tft_gguf_writer *w, const struct tft_source *s,
                       const struct edit *edits, const struct tft_value *v)
{
    int32_t type[128];
    const struct edit *cut = find(edits, CUT, v->key);
    assert_in_range(v->n, 1, 120);
    for (size_t i = 0; i < 128; i++) {
        int64_t n = -1;
        const struct edit *e = i < s->n_tensor ? find(edits, ELEMENT, s->tensor[i].name) : NULL;
        tft_value_int(v, i, &n);
        type[i] = (int32_t)(e ? e->a : n);
    }
    tft_gguf_put_array(w, TFT_KEY_PACKED_TYPES,
                       find(edits, U32, v->key) ? TFT_VALUE_U32 : TFT_VALUE_I32, type,
                       (size_t)((int64_t)v->n - (cut ? cut->a : 0)));
}

static void edit_values(struct tft_gguf_writer *w, const struct tft_source *s,
                        const struct edit *edits)
{
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        if (find(edits, DROP, v->key) || find(edits, SET, v->key) || find(edits, TEXT, v->key))
            continue;
        if (tft_str_is(v->key, TFT_KEY_PACKED_TYPES))
            edit_types(w, s, edits, v);
        else
            tft_gguf_put_value(w, v);
    }
    for (const struct edit *e = edits; e->what != END; e++)
        if (e->what == SET)
            tft_gguf_put_u32(w, e->name, (uint32_t)e->a);
        else if (e->what == TEXT)
            tft_gguf_put_str(w, e->name, (struct tft_str){"1", 1});
}

static void edit_tensor(struct tft_gguf_writer *w, const struct tft_tensor *t,
                        const struct edit *edits, bool data)
{
    static const unsigned char zeros[1 << 16];
    const struct edit *shape = find(edits, SHAPE, t->name), *type = find(edits, TYPE, t->name),
                      *name = find(edits, RENAME, t->name);
    uint64_t ne[4], bytes;
    memcpy(ne, t->ne, sizeof ne);
    ne[0] += shape ? (uint64_t)shape->a : 0;
    ne[1] += shape ? (uint64_t)shape->b : 0;
    enum tft_dtype new = type ? (enum tft_dtype)type->a : t->type;
    if (!data) {
        tft_gguf_put_tensor(w, name ? (struct tft_str){name->to, strlen(name->to)} : t->name, new,
                            t->n_dims, ne);
        return;
    }
    assert_true(tft_dtype_bytes(new, ne[0] * ne[1] * ne[2] * ne[3], &bytes));
    uint64_t old = t->bytes < bytes ? t->bytes : bytes;
    assert_true(bytes - old <= sizeof zeros);
    tft_gguf_put_data(w, t->data, (size_t)old);
    tft_gguf_put_data(w, zeros, (size_t)(bytes - old));
}

/* Copies a file with changes. */
static const char *changed(const char *from, const struct edit *edits)
{
    struct tft_source s;
    struct tft_gguf_writer *w;
    struct tft_error err;
    const char *to = in_folder("changed.gguf");
    assert_int_equal(tft_source_open(&s, from, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    edit_values(w, &s, edits);
    for (int data = 0; data < 2; data++)
        for (size_t i = 0; i < s.n_tensor; i++)
            edit_tensor(w, &s.tensor[i], edits, data);
    if (tft_gguf_close(w, true, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_source_close(&s);
    return to;
}

#define DROP(key)                                                                                  \
    {                                                                                              \
        .what = DROP, .name = key                                                                  \
    }
#define SET(key, n)                                                                                \
    {                                                                                              \
        .what = SET, .name = key, .a = n                                                           \
    }
#define TEXT(key)                                                                                  \
    {                                                                                              \
        .what = TEXT, .name = key                                                                  \
    }
#define CUT(key, n)                                                                                \
    {                                                                                              \
        .what = CUT, .name = key, .a = n                                                           \
    }
#define U32(key)                                                                                   \
    {                                                                                              \
        .what = U32, .name = key                                                                   \
    }
#define ELEMENT(tensor, n)                                                                         \
    {                                                                                              \
        .what = ELEMENT, .name = tensor, .a = n                                                    \
    }
#define SHAPE(tensor, more0, more1)                                                                \
    {                                                                                              \
        .what = SHAPE, .name = tensor, .a = more0, .b = more1                                      \
    }
#define TYPE(tensor, type)                                                                         \
    {                                                                                              \
        .what = TYPE, .name = tensor, .a = type                                                    \
    }
#define RENAME(tensor, other)                                                                      \
    {                                                                                              \
        .what = RENAME, .name = tensor, .to = other                                                \
    }

struct lie {
    struct edit edit[4];
    const char *why;
};

static void refused(const char *from, const struct lie *lie)
{
    struct tft_model *m;
    struct tft_error err = {.msg = "opened"};
    const char *path = changed(from, lie->edit);
    tft_model_open(&m, path, NULL, &err);
    tft_model_close(m);
    if (!strstr(err.msg, lie->why) || strchr(err.msg, '\n') || strncmp(err.msg, path, strlen(path)))
        fail_msg("%s: \"%s\" is not \"%s\"", lie->edit[0].name, err.msg, lie->why);
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct lie lies[] = {
        {{SET("tuffet.packed", 2)}, "packed weights of version 2; this program reads version 1"},
        {{SET("tuffet.packed", 0)}, "packed weights of version 0"},
        {{TEXT("tuffet.packed")}, "tuffet.packed is not an integer"},
        {{SET("tuffet.version", 1)}, "has both tuffet.packed and tuffet.version"},
        {{SET("general.alignment", 32)}, "general.alignment is 32; packed weights need a multi"},
        {{DROP("general.alignment")}, "general.alignment is 32; packed weights need a multiple"},
        {{DROP("tuffet.packed")}, "the tensor token_embd.weight is 5 x 576 and should be 5 x 64"},
        {{DROP("tuffet.packed.types")}, "tuffet.packed.types is missing, or not an array of 20"},
        {{TEXT("tuffet.packed.types")}, "tuffet.packed.types is missing, or not an array of 20"},
        {{CUT("tuffet.packed.types", 1)}, "tuffet.packed.types is missing, or not an array of"},
        {{CUT("tuffet.packed.types", -1)}, "tuffet.packed.types is missing, or not an array of"},
        {{CUT("tuffet.packed.types", 20)}, "tuffet.packed.types is missing, or not an array of"},
        {{U32("tuffet.packed.types")}, "tuffet.packed.types is missing, or not an array of 20"},
        {{ELEMENT("token_embd.weight", 99)}, "element 0 of tuffet.packed.types is 99, which is"},
        {{ELEMENT("token_embd.weight", -2)}, "element 0 of tuffet.packed.types is -2, which is"},
        {{ELEMENT("token_embd.weight", INT32_MIN)}, "types is -2147483648, which is no type"},
        {{ELEMENT("token_embd.weight", INT32_MAX)}, "types is 2147483647, which is no type"},
        {{ELEMENT("token_embd.weight", TFT_F32)}, "element 0 of tuffet.packed.types is 0, which"},
        {{ELEMENT("token_embd.weight", TFT_I8)}, "types is 24, which is no type that can be"},
        {{ELEMENT("output_norm.weight", TFT_Q4_0)},
         "the tensor output_norm.weight is packed by tuffet.packed.types, but has type F32"},
        {{ELEMENT("output_norm.weight", TFT_Q4_0), TYPE("output_norm.weight", TFT_I8)},
         "the tensor output_norm.weight is packed and should have floats"},
        {{ELEMENT("token_embd.weight", -1)},
         "the tensor token_embd.weight is 5 x 576 and should be 5 x 64"},
        {{ELEMENT("blk.0.attn_q.weight", -1), SHAPE("blk.0.attn_q.weight", 64 - 576, 60)},
         "the tensor blk.0.attn_q.weight has type I8 and should have floats"},
        {{ELEMENT("blk.0.attn_q.weight", TFT_Q4_1)},
         "the tensor blk.0.attn_q.weight is 4 x 576 and should be 4 x 640"},
        {{ELEMENT("blk.0.attn_q.weight", TFT_Q4_K)},
         "the tensor blk.0.attn_q.weight has rows of 64 numbers, not a multiple of 256 as Q4_K"},
        {{SHAPE("blk.0.attn_q.weight", -1, 0)},
         "the tensor blk.0.attn_q.weight is 4 x 575 and should be 4 x 576"},
        {{SHAPE("blk.1.ffn_down.weight", 0, -1)},
         "the tensor blk.1.ffn_down.weight is 3 x 1152 and should be 4 x 1152"},
        {{SHAPE("blk.1.ffn_down.weight", 0, 1)},
         "the tensor blk.1.ffn_down.weight is 5 x 1152 and should be 4 x 1152"},
        {{RENAME("blk.1.ffn_up.weight", "blk.1.ffn_op.weight")},
         "the tensor blk.1.ffn_up.weight is missing"},
        {{DROP("tuffet.vocab_size")},
         "tuffet.vocab_size does not fit the 5 panels of token_embd.weight"},
        {{TEXT("tuffet.vocab_size")}, "tuffet.vocab_size does not fit the 5 panels"},
        {{SET("tuffet.vocab_size", 64)}, "tuffet.vocab_size does not fit the 5 panels"},
        {{SET("tuffet.vocab_size", 81)}, "tuffet.vocab_size does not fit the 5 panels"},
        {{SET("tuffet.vocab_size", 0)}, "tuffet.vocab_size does not fit the 5 panels"},
        {{SET("tuffet.vocab_size", UINT32_MAX)}, "tuffet.vocab_size does not fit the 5 panels"},
    };
    struct toy t = toy(TFT_Q4_0);
    t.tied = true;
    char path[64]; /* in_folder() forgets */
    snprintf(path, sizeof path, "%s", packed(written(&t)));
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        refused(path, &lies[i]);
    /* the last panel of the vocabulary may be fuller */
    static const struct edit fuller[] = {SET("tuffet.vocab_size", 80), {0}};
    tft_model_close(opened(changed(path, fuller)));

    static const struct lie share = {{RENAME("blk.0.attn_q.weight", "blk.0.attn_qkv.weight")},
                                     "attn_qkv.weight is packed, but several layers share it"};
    t = fused(TFT_Q8_0);
    refused(packed(written(&t)), &share);
}

static bool is_computed(enum tft_status status)
{
    return status == TFT_OK || status == TFT_ERR_NUMBERS;
}

/* The numbers of a packed file may be anything: NaN, infinities, codes that no file has. */
static void any_bytes_can_be_computed_with(void **state)
{
    (void)state;
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++) {
        struct toy t = toy(tft_packed_formats[i].type);
        t.tied = true;
        struct tft_model *m = opened(packed(written(&t)));
        size_t size = m->source.size;
        unsigned char *file = exact_copy(m->source.data, size);
        uint64_t random = 5;
        for (size_t k = 0; k < m->source.n_tensor; k++) {
            const struct tft_tensor *x = &m->source.tensor[k];
            for (size_t b = 0; x->type == TFT_I8 && b < x->bytes; b++) {
                random = random * 6364136223846793005 + 1442695040888963407;
                file[(size_t)(x->data - m->source.data) + b] =
                    i % 2 ? 0xff : (unsigned char)(random >> 56);
            }
        }
        tft_model_close(m);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            int32_t tokens[N_TOKENS];
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(tft_model_open_mem(&m, file, size, NULL, NULL), TFT_OK);
            struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 2});
            toy_tokens(3, VOCAB, tokens, N_TOKENS);
            assert_true(is_computed(tft_prefill(s, tokens, N_TOKENS - 1)));
            assert_true(is_computed(tft_decode(s, tokens[N_TOKENS - 1])));
            assert_true(tft_sample(&(struct tft_sampler){.temperature = 1}, s) < VOCAB);
            tft_session_close(s);
            tft_model_close(m);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        tft_port_free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_every_type),
        cmocka_unit_test(the_layout_is_that_of_the_version),
        cmocka_unit_test(the_file_is_the_same_with_any_number_of_threads),
        cmocka_unit_test(a_tensor_that_layers_share_is_split),
        cmocka_unit_test(keys_and_other_tensors_are_copied),
        cmocka_unit_test(what_is_stopped_or_fails_leaves_no_file),
        cmocka_unit_test(other_weights_are_refused),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(any_bytes_can_be_computed_with),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
