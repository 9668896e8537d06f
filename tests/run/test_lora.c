/* LoRA adapters: the numbers of the double-precision oracle with W + s B A, the same bits on all
   ISA levels and with any number of threads, and adapters that are refused. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "altup_toys.h"
#include "caches.h"
#include "dense_toys.h"
#include "expert_toys.h"
#include "fed.h"
#include "file/file.h"
#include "half_toys.h"
#include "latent_toys.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "oracle/oracle.h"
#include "rwkv_toys.h"

enum { N = 40, RANK = 5, MOST = 64 * 256 };

static int32_t words[N];

/* ---- files of adapters */

/* What is wrong with a file. */
enum fault {
    NONE,
    ARCH,
    KIND,
    NO_LORA,
    ALONE,
    UNKNOWN,
    EMBEDDING,
    SHAPE,
    RANKS,
    A_NAN,
    NO_TENSORS
};

struct file {
    struct tft_gguf_writer *w;
    const char *name;
    enum fault fault;
    uint64_t in, out;
};

/* Random numbers of a matrix [rows, cols], which must be the same when the oracle's weights are
   made: the seed is the name's. */
static const float *numbers(const char *name, char which, uint64_t n)
{
    static float x[MOST];
    uint32_t s = 77u + (unsigned char)which;
    for (const char *c = name; *c; c++)
        s = s * 31 + (unsigned char)*c;
    assert_true(n <= MOST);
    for (uint64_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        x[i] = (float)(int32_t)s * 0x1p-31f;
    }
    return x;
}

static void put(struct file *f, char which, bool data)
{
    char name[96];
    bool b = which == 'b';
    uint64_t rank = RANK + (b && f->fault == RANKS), in = f->in + (f->fault == SHAPE),
             ne[2] = {b ? rank : in, b ? f->out : rank};
    if (b && f->fault == ALONE)
        return;
    snprintf(name, sizeof name, "%s.lora_%c", f->fault == UNKNOWN ? "blk.9.attn_q.weight" : f->name,
             which);
    if (!data) {
        tft_gguf_put_tensor(f->w, (struct tft_str){name, strlen(name)}, TFT_F32, 2, ne);
        return;
    }
    const float *x = numbers(f->name, which, ne[0] * ne[1]);
    const float nan = NAN;
    if (which == 'a' && f->fault == A_NAN) {
        tft_gguf_put_data(f->w, &nan, sizeof nan);
        tft_gguf_put_data(f->w, x, (ne[0] * ne[1] - 1) * sizeof *x);
    } else {
        tft_gguf_put_data(f->w, x, ne[0] * ne[1] * sizeof *x);
    }
}

/* names: of adapted tensors, until NULL. */
static const char *adapter(const char *to, const char *const *names, float alpha, enum fault fault)
{
    struct tft_source s;
    struct file f = {.fault = fault};
    const char *path = in_folder(to);
    assert_int_equal(tft_source_open(&s, in_folder("m.gguf"), NULL, NULL, NULL), TFT_OK);
    struct tft_str arch;
    assert_true(tft_value_str(tft_source_value(&s, "general.architecture"), &arch));
    assert_int_equal(tft_gguf_create(&f.w, path, NULL), TFT_OK);
    tft_gguf_put_str(f.w, "general.architecture",
                     fault == ARCH ? (struct tft_str){"gpt2", 4} : arch);
    tft_gguf_put_str(f.w, "general.type",
                     fault == KIND ? (struct tft_str){"model", 5} : (struct tft_str){"adapter", 7});
    tft_gguf_put_str(f.w, "adapter.type",
                     fault == NO_LORA ? (struct tft_str){"ia3", 3} : (struct tft_str){"lora", 4});
    tft_gguf_put_f32(f.w, "adapter.lora.alpha", alpha);
    for (int data = 0; data < 2; data++)
        for (size_t i = 0; names[i] && fault != NO_TENSORS; i++) {
            f.name = fault == EMBEDDING ? "token_embd.weight" : names[i];
            const struct tft_tensor *t = tft_source_tensor(&s, f.name);
            assert_non_null(t);
            f.in = t->ne[0];
            f.out = t->ne[1];
            put(&f, 'a', data);
            put(&f, 'b', data);
        }
    assert_int_equal(tft_gguf_close(f.w, true, NULL), TFT_OK);
    tft_source_close(&s);
    return path;
}

static struct tft_lora *lora_of(const struct tft_model *m, const char *path)
{
    struct tft_lora *lora;
    struct tft_error err;
    if (tft_lora_open(&lora, m, path, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return lora;
}

/* W += factor B A, in a source that is in memory of the test's own. */
static void merge(const struct tft_source *s, const char *name, double factor)
{
    static float a[MOST];
    const struct tft_tensor *t = tft_source_tensor(s, name);
    float *w = (float *)(uintptr_t)t->data;
    uint64_t in = t->ne[0], out = t->ne[1];
    assert_int_equal(t->type, TFT_F32);
    memcpy(a, numbers(name, 'a', RANK * in), RANK * in * sizeof *a);
    const float *b = numbers(name, 'b', RANK * out);
    for (uint64_t row = 0; row < out; row++)
        for (uint64_t i = 0; i < in; i++) {
            double sum = 0;
            for (uint64_t r = 0; r < RANK; r++)
                sum += (double)b[row * RANK + r] * (double)a[r * in + i];
            w[row * in + i] = (float)((double)w[row * in + i] + factor * sum);
        }
}

static const char *const all_of_0[] = {"blk.0.attn_q.weight",   "blk.0.attn_k.weight",
                                       "blk.0.attn_v.weight",   "blk.0.attn_output.weight",
                                       "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
                                       "blk.0.ffn_down.weight", NULL},
                         *const some_of_1[] = {"blk.1.ffn_up.weight", "blk.1.attn_v.weight",
                                               "output.weight", NULL};

/* Of f32, with a head of its own. */
static const struct toy floats = {.arch = "llama",
                                  .n_vocab = 61,
                                  .n_ctx = 320,
                                  .n_embd = 48,
                                  .n_layer = 2,
                                  .n_head = 6,
                                  .n_head_kv = 2,
                                  .head_dim = 8,
                                  .n_ff = 96,
                                  .n_rot = 8,
                                  .type = TFT_F32};

/* Of a type with blocks of 32. */
static struct toy blocks_of(enum tft_dtype type)
{
    struct toy toy = floats;
    toy.type = type;
    toy.n_embd = 64;
    toy.n_head = 4;
    toy.head_dim = toy.n_rot = 16;
    return toy;
}

/* ---- numbers */

static void *contents(const char *path, size_t *n)
{
    void *p = aligned_alloc(64, 1 << 22);
    FILE *f = fopen(path, "rb");
    assert_true(p && f);
    *n = fread(p, 1, 1 << 22, f);
    assert_true(*n < 1 << 22);
    fclose(f);
    return p;
}

static void oracle_agrees(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&floats));
    struct tft_lora *lora[2] = {lora_of(m, adapter("a.gguf", all_of_0, 2, NONE)),
                                lora_of(m, adapter("b.gguf", some_of_1, 0, NONE))};
    struct tft_lora_use use[2] = {{.lora = lora[0], .scale = 0.25f},
                                  {.lora = lora[1], .scale = -0.1f}};
    size_t size;
    void *data = contents(in_folder("m.gguf"), &size);
    struct tft_source s;
    assert_int_equal(tft_source_open_mem(&s, "merged", data, size, NULL, NULL), TFT_OK);
    for (int i = 0; all_of_0[i]; i++)
        merge(&s, all_of_0[i], 0.25 * 2 / RANK);
    for (int i = 0; some_of_1[i]; i++)
        merge(&s, some_of_1[i], -(double)0.1f); /* no alpha: the factor is the scale alone */

    struct tft_session *t = session(m, (struct tft_session_opts){.kv = "f32",
                                                                 .n_logits = N,
                                                                 .n_threads = 2,
                                                                 .loras = use,
                                                                 .n_loras = 2}),
                       *plain = session(m, (struct tft_session_opts){.kv = "f32"});
    struct oracle *o = oracle_open(&s, N);
    toy_tokens(7, m->n_vocab, words, N);
    feed(t, words, N, N);
    feed(plain, words, N, N);
    assert_true(distance(plain, t) > 0.05);
    double worst = 0, largest = 0;
    for (uint32_t k = 0; k < N; k++) {
        const double *want = oracle_step(o, words[k]);
        const float *got = tft_logits(t, N - 1 - k);
        for (uint32_t i = 0; i < m->n_vocab; i++) {
            worst = fmax(worst, fabs(want[i] - (double)got[i]));
            largest = fmax(largest, fabs(want[i]));
        }
    }
    if (!(worst < 1e-5 * largest))
        fail_msg("%g of %g", worst, largest);
    oracle_close(o);
    tft_source_close(&s);
    free(data);
    tft_session_close(t);
    tft_session_close(plain);
    for (int i = 0; i < 2; i++)
        tft_lora_close(lora[i]);
    tft_model_close(m);
}

/* The hash of the logits after all words. */
static uint64_t hash(const char *path, const char *file, float scale, int threads, size_t step)
{
    struct tft_model *m = opened(path);
    struct tft_lora *lora = lora_of(m, file);
    struct tft_lora_use use = {.lora = lora, .scale = scale};
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = threads, .loras = &use, .n_loras = 1});
    toy_tokens(7, m->n_vocab, words, N);
    feed(s, words, N, step);
    uint64_t h = hash_logits(0, s);
    tft_session_close(s);
    tft_lora_close(lora);
    tft_model_close(m);
    return h;
}

/* Of floats and of codes: with threads, steps and ISA levels. */
static void same_bits(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_F32, TFT_F16, TFT_Q8_0, TFT_Q4_0};
    for (size_t i = 0; i < 4; i++) {
        struct toy toy = blocks_of(types[i]);
        const char *path = written(&toy), *file = adapter("a.gguf", all_of_0, 2, NONE);
        uint64_t h = hash(path, file, 0.5f, 1, N);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            struct tft_kernels kern;
            tft_kernels_fill(&kern, isa);
            assert_int_equal(tft_cpu_limit(kern.name), TFT_OK);
            assert_true(hash(path, file, 0.5f, 1 + isa % 3, isa % 2 ? 1 : 7) == h);
        }
        tft_cpu_limit(NULL);
        assert_true(hash(path, file, 0.5f, 3, 1) == h);
        assert_true(hash(path, file, 0.25f, 1, N) != h);
    }
}

/* Codes with an adapter are as far from floats with the adapter as without. */
static void codes(void **state)
{
    (void)state;
    struct toy toy = blocks_of(TFT_Q8_0);
    const char *path = written(&toy), *file = adapter("a.gguf", all_of_0, 2, NONE);
    struct tft_model *m[2] = {opened(path), opened_as_floats(path)};
    struct tft_session *s[2], *plain = session(m[0], (struct tft_session_opts){.kv = "f32"});
    struct tft_lora *lora[2];
    toy_tokens(7, toy.n_vocab, words, N);
    for (int i = 0; i < 2; i++) {
        lora[i] = lora_of(m[i], file);
        struct tft_lora_use use = {
            .lora = lora[i], .scale = 0.02f}; /* as large as trained ones: noise stays small */
        s[i] = session(m[i], (struct tft_session_opts){.kv = "f32", .loras = &use, .n_loras = 1});
        feed(s[i], words, N, N);
    }
    feed(plain, words, N, N);
    assert_true(m[0]->group_inputs && !m[1]->group_inputs);
    double d = distance(s[0], s[1]), without = from_floats(written(&toy));
    if (!(d < 2 * without))
        fail_msg("%g, and %g without an adapter", d, without);
    assert_true(distance(s[0], plain) > 5 * d);
    tft_session_close(plain);
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_lora_close(lora[i]);
        tft_model_close(m[i]);
    }
}

/* ---- every architecture */

/* The names of the file's tensors that can be adapted: list of at most `most`, then NULL. */
static size_t adaptable(const struct tft_model *m, char names[][96], const char **list, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < m->source.n_tensor && n + 1 < most; i++) {
        const struct tft_tensor *t = &m->source.tensor[i];
        struct tft_lora *lora;
        struct tft_error err;
        if (t->n_dims != 2 || RANK * (t->ne[0] > t->ne[1] ? t->ne[0] : t->ne[1]) > MOST)
            continue;
        snprintf(names[n], sizeof names[n], "%.*s", TFT_STR_ARG(t->name));
        list[n] = names[n];
        list[n + 1] = NULL;
        enum tft_status status =
            tft_lora_open(&lora, m, adapter("one.gguf", list + n, 1, NONE), &err);
        if (status != TFT_OK)
            assert_non_null(strstr(err.msg, "adapts a tensor for which"));
        else
            n++;
        tft_lora_close(lora);
    }
    list[n] = NULL;
    return n;
}

/* Two sessions with the adapter, at two scales, and one without, in the same passes: each has the
   bits that it has alone. */
static void in_one_pass(const struct tft_model *m, const struct tft_lora *lora, int threads)
{
    enum { ALL = 3, FIRST = 11 };
    const struct tft_lora_use use[ALL] = {
        {.lora = lora, .scale = 0.05f}, {.lora = lora}, {.lora = lora, .scale = -0.2f}};
    struct tft_session *alone[ALL], *joined[ALL];
    struct tft_batch *batch;
    struct tft_step steps[ALL];
    const struct tft_batch_opts of_batch = {.size = sizeof of_batch, .n_threads = threads};
    assert_int_equal(tft_batch_open(&batch, m, &of_batch, NULL), TFT_OK);
    for (int i = 0; i < ALL; i++) {
        struct tft_session_opts o = {.n_threads = threads, .loras = &use[i], .n_loras = 1};
        alone[i] = session(m, o);
        o.batch = batch;
        joined[i] = session(m, o);
        feed(alone[i], words + i, FIRST + (size_t)i, N);
        feed(alone[i], words + FIRST + 2 * i, N - FIRST - 4, 1);
        steps[i] = (struct tft_step){
            .session = joined[i], .tokens = words + i, .n = FIRST + (size_t)i};
    }
    assert_int_equal(tft_step(batch, steps, ALL), TFT_OK);
    for (int i = 0; i < ALL; i++)
        steps[i].tokens += steps[i].n;
    for (int at = 0; at < N - FIRST - 4; at++) {
        for (int i = 0; i < ALL; i++) {
            steps[i].n = 1;
            steps[i].tokens = words + FIRST + 2 * i + at;
        }
        assert_int_equal(tft_step(batch, steps, ALL), TFT_OK);
    }
    for (int i = 0; i < ALL; i++)
        same_last_logits(alone[i], joined[i]);
    assert_true(distance(joined[0], joined[1]) > 0);
    for (int i = 0; i < ALL; i++) {
        tft_session_close(alone[i]);
        tft_session_close(joined[i]);
    }
    tft_batch_close(batch);
}

/* Without the head, which has passes of its own, and with it. */
static void joined(const struct tft_model *m, const char **list, size_t n)
{
    const char *head = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], "output.weight") == 0)
            head = list[i];
    for (int with = 0; with < 2; with++) {
        const char *some[201];
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (with || list[i] != head)
                some[k++] = list[i];
        some[k] = NULL;
        if (!k) /* rwkv7: there is only the head */
            continue;
        struct tft_lora *lora = lora_of(m, adapter("joined.gguf", some, 2, NONE));
        assert_int_equal(tft_lora_part_of(lora, &m->output) != NULL, with && head);
        in_one_pass(m, lora, 1 + with);
        tft_lora_close(lora);
    }
}

/* An adapter of all tensors that can be adapted, and a file with merged weights: the same, but for
   the rounding of W + s B A to f32. */
static void like_merged(const struct toy *given)
{
    static char names[200][96];
    static const char *list[201];
    struct toy toy = *given;
    toy.type = TFT_F32;
    const float scale = 0.05f;
    struct tft_model *m = opened(written(&toy)), *merged;
    size_t n = adaptable(m, names, list, 200), size;
    void *data = contents(in_folder("m.gguf"), &size);
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(tft_source_open_mem(&s, "merged", data, size, NULL, NULL), TFT_OK);
    for (size_t i = 0; i < n; i++)
        merge(&s, list[i], (double)scale * 2 / RANK);
    tft_source_close(&s);
    if (tft_model_open_mem(&merged, data, size, NULL, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    print_message("%s: %zu tensors\n", toy.arch, n);
    if (n) {
        struct tft_lora *lora = lora_of(m, adapter("all.gguf", list, 2, NONE));
        struct tft_lora_use use = {.lora = lora, .scale = scale};
        struct tft_session *a = session(m, (struct tft_session_opts){.kv = "f32",
                                                                     .n_threads = 2,
                                                                     .loras = &use,
                                                                     .n_loras = 1}),
                           *b = session(merged, (struct tft_session_opts){.kv = "f32"}),
                           *plain = session(m, (struct tft_session_opts){.kv = "f32"});
        toy_tokens(7, m->n_vocab, words, N);
        feed(a, words, N, 30);
        feed(b, words, N, N);
        feed(plain, words, N, N);
        double d = distance(a, b), moved = distance(plain, b);
        if (!(d < 1e-4 && moved > 100 * d))
            fail_msg("%s: %g from the merged weights, which are %g from those without", toy.arch, d,
                     moved);
        tft_session_close(a);
        tft_session_close(b);
        tft_session_close(plain);
        tft_lora_close(lora);
        joined(m, list, n);
    }
    tft_model_close(merged);
    tft_model_close(m);
    free(data);
}

#define ALL(toys)                                                                                  \
    for (size_t i = 0; i < sizeof(toys) / sizeof *(toys); i++)                                     \
    like_merged(&(toys)[i])

static void architectures(void **state)
{
    (void)state;
    ALL(altup_toys);
    ALL(latent_toys);
    ALL(rwkv_toys);
    ALL(expert_toys);
    ALL(layer_toys);
    ALL(half_toys);
    ALL(more_toys); /* with a state, too */
    ALL(dense_toys);
}

/* ---- sessions */

static void scale_0_is_none(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&floats));
    struct tft_lora *lora = lora_of(m, adapter("a.gguf", all_of_0, 2, NONE));
    struct tft_lora_use none = {.lora = lora}, one = {.lora = lora, .scale = 1};
    struct tft_session *plain = session(m, (struct tft_session_opts){0}),
                       *zero = session(m, (struct tft_session_opts){.loras = &none, .n_loras = 1}),
                       *with = session(m, (struct tft_session_opts){.loras = &one, .n_loras = 1});
    toy_tokens(7, m->n_vocab, words, N);
    feed(plain, words, N, N);
    feed(zero, words, N, N);
    feed(with, words, N, N);
    same_last_logits(plain, zero);
    assert_true(distance(plain, with) > 0.05);

    /* the contents of a session belong to its adapters */
    struct tft_error err;
    assert_int_equal(tft_session_copy(with, plain, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "adapters"));
    assert_int_equal(tft_session_copy(zero, plain, &err), TFT_OK);
    const char *saved = in_folder("saved");
    assert_int_equal(tft_session_save(with, NULL, saved, &err), TFT_OK);
    assert_int_equal(tft_session_load(plain, NULL, saved, &err), TFT_ERR_ARG);
    assert_int_equal(tft_session_load(with, NULL, saved, &err), TFT_OK);

    /* sessions with adapters and without in one call */
    struct tft_batch *batch;
    assert_int_equal(tft_batch_open(&batch, m, NULL, &err), TFT_OK);
    struct tft_session *s[3];
    struct tft_step steps[3];
    for (int i = 0; i < 3; i++) {
        s[i] = session(m, (struct tft_session_opts){
                              .batch = batch, .loras = i == 1 ? &one : NULL, .n_loras = i == 1});
        steps[i] = (struct tft_step){.session = s[i], .tokens = words, .n = N};
    }
    assert_int_equal(tft_step(batch, steps, 3), TFT_OK);
    same_last_logits(s[0], plain);
    same_last_logits(s[1], with);
    same_last_logits(s[2], plain);
    for (int i = 0; i < 3; i++)
        tft_session_close(s[i]);
    tft_batch_close(batch);
    tft_session_close(plain);
    tft_session_close(zero);
    tft_session_close(with);
    tft_lora_close(lora);
    tft_model_close(m);
}

/* ---- refusals */

static void refusals(void **state)
{
    (void)state;
    static const struct {
        enum fault fault;
        enum tft_status status;
        const char *says;
    } cases[] = {
        {ARCH, TFT_ERR_ARG, "another architecture than the model's, llama"},
        {KIND, TFT_ERR_UNSUPPORTED, "general.type is not \"adapter\""},
        {NO_LORA, TFT_ERR_UNSUPPORTED, "another kind than LoRA"},
        {ALONE, TFT_ERR_UNSUPPORTED, "blk.0.attn_q.weight.lora_a has no lora_b"},
        {UNKNOWN, TFT_ERR_UNSUPPORTED, "blk.9.attn_q.weight.lora_a is not"},
        {EMBEDDING, TFT_ERR_UNSUPPORTED, "token_embd.weight.lora_a adapts a tensor"},
        {SHAPE, TFT_ERR_FORMAT, "blk.0.attn_q.weight.lora_a is [5, 49]"},
        {RANKS, TFT_ERR_FORMAT, "blk.0.attn_q.weight.lora_b is [48, 6]"},
        {A_NAN, TFT_ERR_UNSUPPORTED, "blk.0.attn_q.weight.lora_a has NaN"},
        {NO_TENSORS, TFT_ERR_UNSUPPORTED, "no tensors"},
    };
    static const char *const q[] = {"blk.0.attn_q.weight", NULL};
    const char *path = written(&floats);
    struct tft_model *m = opened(path), *other = opened(path);
    struct tft_error err;
    struct tft_lora *lora;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *file = adapter("bad.gguf", q, 2, cases[i].fault);
        assert_int_equal(tft_lora_open(&lora, m, file, &err), cases[i].status);
        assert_null(lora);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("%s", err.msg);
    }
    assert_int_equal(tft_lora_open(&lora, m, in_folder("m.gguf"), &err), TFT_ERR_UNSUPPORTED);
    assert_int_equal(tft_lora_open(&lora, m, in_folder("nothing"), &err), TFT_ERR_IO);

    lora = lora_of(m, adapter("a.gguf", q, 2, NONE));
    struct tft_lora_use use = {.lora = lora, .scale = 1};
    struct tft_session_opts o = {.size = sizeof o, .loras = &use, .n_loras = 1};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, other, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "another model"));
    use.reserved[0] = 1; /* an option of a later version */
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "struct tft_lora_use: reserved[0]"));
    use.reserved[0] = 0;
    use.scale = NAN;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    o.loras = NULL;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    m->byte_inputs = true; /* as in a W8A8 file */
    struct tft_lora *second;
    assert_int_equal(tft_lora_open(&second, m, in_folder("a.gguf"), &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "merge the adapter"));
    tft_lora_close(lora);
    tft_lora_close(NULL);
    tft_model_close(m);
    tft_model_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_agrees), cmocka_unit_test(same_bits),
        cmocka_unit_test(codes),         cmocka_unit_test(architectures),
        cmocka_unit_test(refusals),      cmocka_unit_test(scale_0_is_none),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
