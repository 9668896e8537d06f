/* Encoders: small random models against their formulas, computed once more in double precision; the
   same bits however texts are packed; what an embedder refuses. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/splitmix64.h"
#include "file/file.h"
#include "file/gguf_write.h"
#include "memory.h"
#include "models/open.h"
#include "tools/pack/pack.h"
#include "tools/quantize/quantize.h"
#include "toy.h"
#include "tuffet.h"

enum { VOCAB = 50, CONTEXT = 320, LAYERS = 3, FF = 64, TYPES = 2, LONG = 300, D_MOST = 96 };
enum { WINDOW = 20, PERIOD = 3 }; /* of modern-bert: 10 tokens on each side, but in layer 0 */
#define EPS 1e-12

static char folder[] = "/tmp/tuffet-encoders-XXXXXX";

/* Which parts a formula has. */
struct kind {
    const char *arch, *gelu; /* gelu: tuffet.gelu, or NULL */
    uint32_t d, heads;
    enum tft_dtype type; /* of matrices of layers */
    bool positions, types, rope, biases, gate, fused, alibi, norms, pre;
    uint32_t dim, kv_heads; /* of a file with heads that are no parts of d; 0: none */
};

static const struct kind kinds[] = {
    {.arch = "bert", .d = 64, .heads = 4, .positions = true, .types = true, .biases = true},
    {.arch = "bert", .gelu = "erf", .d = 64, .heads = 4, .positions = true, .biases = true},
    {.arch = "bert", .d = 64, .heads = 4, .positions = true, .biases = true, .type = TFT_Q8_0},
    {.arch = "nomic-bert", .d = 64, .heads = 4, .types = true, .rope = true, .gate = true},
    {.arch = "jina-bert-v2",
     .d = 96,
     .heads = 6,
     .types = true,
     .biases = true,
     .gate = true,
     .fused = true,
     .alibi = true},
    {.arch = "jina-bert-v2",
     .d = 96,
     .heads = 6,
     .types = true,
     .biases = true,
     .gate = true,
     .fused = true,
     .alibi = true,
     .norms = true},
    {.arch = "modern-bert",
     .d = 64,
     .heads = 4,
     .rope = true,
     .gate = true,
     .fused = true,
     .pre = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ------------------------------------------------------------------------------------ the files */

/* A tensor of the file; it is described first, and then written. */
struct item {
    char name[40];
    uint64_t ne[2];
    enum tft_dtype type;
    float about, spread; /* numbers are about + [-spread, spread) */
};
enum { ITEMS = 100 };

struct items {
    struct item item[ITEMS];
    size_t n;
};

static void item(struct items *all, const char *name, uint64_t cols, uint64_t rows,
                 enum tft_dtype type, float about, float spread)
{
    struct item *to = &all->item[all->n++];
    assert_true(all->n <= ITEMS);
    *to = (struct item){.ne = {cols, rows}, .type = type, .about = about, .spread = spread};
    snprintf(to->name, sizeof to->name, "%s", name);
}

static void norm_item(struct items *all, const char *name, uint32_t d, bool bias)
{
    char full[40];
    snprintf(full, sizeof full, "%.30s.weight", name);
    item(all, full, d, 1, TFT_F32, 1, 0.3f);
    snprintf(full, sizeof full, "%.30s.bias", name);
    if (bias)
        item(all, full, d, 1, TFT_F32, 0, 0.3f);
}

static void matrix_item(struct items *all, const struct kind *k, uint32_t l, const char *name,
                        uint32_t cols, uint32_t rows, bool bias)
{
    char full[40];
    snprintf(full, sizeof full, "blk.%u.%s.weight", l, name);
    item(all, full, cols, rows, k->type, 0, 2 / sqrtf((float)cols));
    snprintf(full, sizeof full, "blk.%u.%s.bias", l, name);
    if (bias)
        item(all, full, rows, 1, TFT_F32, 0, 0.3f);
}

static void layer_norm_item(struct items *all, uint32_t l, const char *name, uint32_t d, bool bias)
{
    char full[40];
    snprintf(full, sizeof full, "blk.%u.%s", l, name);
    norm_item(all, full, d, bias);
}

static void layer_items(struct items *all, const struct kind *k, uint32_t l)
{
    uint32_t d = k->d, q = k->dim ? k->heads * k->dim : d, kv = k->dim ? k->kv_heads * k->dim : d;
    const char *const qkv[] = {"attn_q", "attn_k", "attn_v"};
    for (int i = 0; i < 3 && !k->rope; i++)
        matrix_item(all, k, l, qkv[i], d, i ? kv : q, k->biases);
    if (k->rope)
        matrix_item(all, k, l, "attn_qkv", d, 3 * d, k->biases);
    matrix_item(all, k, l, "attn_output", q, d, k->biases);
    if (k->gate && !k->fused)
        matrix_item(all, k, l, "ffn_gate", d, FF, false);
    matrix_item(all, k, l, "ffn_up", d, k->fused ? 2 * FF : FF, k->biases && !k->gate);
    matrix_item(all, k, l, "ffn_down", FF, d, k->biases);
    if (k->pre) {
        if (l)
            layer_norm_item(all, l, "attn_norm", d, false);
        layer_norm_item(all, l, "ffn_norm", d, false);
        return;
    }
    layer_norm_item(all, l, "attn_output_norm", d, true);
    layer_norm_item(all, l, "layer_output_norm", d, true);
    if (!k->norms)
        return;
    layer_norm_item(all, l, "attn_q_norm", d, true);
    layer_norm_item(all, l, "attn_k_norm", d, true);
    layer_norm_item(all, l, "attn_norm_2", d, true);
}

static void list_items(struct items *all, const struct kind *k)
{
    item(all, "token_embd.weight", k->d, VOCAB, TFT_F32, 0, 1);
    norm_item(all, "token_embd_norm", k->d, !k->pre);
    if (k->types)
        item(all, "token_types.weight", k->d, TYPES, TFT_F32, 0, 1);
    if (k->positions)
        item(all, "position_embd.weight", k->d, CONTEXT, TFT_F32, 0, 1);
    for (uint32_t l = 0; l < LAYERS; l++)
        layer_items(all, k, l);
    if (k->pre)
        norm_item(all, "output_norm", k->d, false);
}

static void put_item(struct tft_gguf_writer *w, const struct item *t, uint64_t *seed)
{
    const struct tft_dtype_info *type = tft_dtype_info(t->type);
    unsigned char block[64];
    for (uint64_t i = 0; i < t->ne[0] * t->ne[1]; i += type->block) {
        float x =
            t->about + t->spread * ((float)(int32_t)(uint32_t)tft_splitmix64(seed) * 0x1p-31f);
        if (t->type == TFT_F32)
            memcpy(block, &x, sizeof x);
        else
            toy_block(block, t->type, seed, t->spread);
        tft_gguf_put_data(w, block, type->bytes);
    }
}

static void put_key(struct tft_gguf_writer *w, const struct kind *k, const char *key, uint32_t x)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", k->arch, key);
    tft_gguf_put_u32(w, full, x);
}

static void put_values(struct tft_gguf_writer *w, const struct kind *k)
{
    char full[80];
    tft_gguf_put_str(w, "general.architecture", (struct tft_str){k->arch, strlen(k->arch)});
    put_key(w, k, "context_length", CONTEXT);
    put_key(w, k, "embedding_length", k->d);
    put_key(w, k, "block_count", LAYERS);
    put_key(w, k, "feed_forward_length", FF);
    put_key(w, k, "attention.head_count", k->heads);
    if (k->dim) {
        put_key(w, k, "attention.head_count_kv", k->kv_heads);
        put_key(w, k, "attention.key_length", k->dim);
        put_key(w, k, "attention.value_length", k->dim);
    }
    snprintf(full, sizeof full, "%s.attention.layer_norm_epsilon", k->arch);
    tft_gguf_put_f32(w, full, (float)EPS);
    if (k->gelu)
        tft_gguf_put_str(w, "tuffet.gelu", (struct tft_str){k->gelu, strlen(k->gelu)});
    if (k->pre)
        put_key(w, k, "attention.sliding_window", WINDOW);
}

/* more: a tensor that the kind does not have, or NULL. Returns the path. */
static const char *write_with(const struct kind *k, const struct item *more)
{
    static char path[2][64];
    static int turn;
    static struct items all;
    struct tft_gguf_writer *w;
    uint64_t seed = 5;
    char *to = path[turn++ % 2];
    snprintf(to, sizeof path[0], "%s/model.gguf", folder);
    all.n = 0;
    list_items(&all, k);
    if (more)
        all.item[all.n++] = *more;
    assert_int_equal(tft_gguf_create(&w, to, NULL), TFT_OK);
    put_values(w, k);
    for (size_t i = 0; i < all.n; i++)
        tft_gguf_put_tensor(w, (struct tft_str){all.item[i].name, strlen(all.item[i].name)},
                            all.item[i].type, all.item[i].ne[1] > 1 ? 2 : 1, all.item[i].ne);
    for (size_t i = 0; i < all.n; i++)
        put_item(w, &all.item[i], &seed);
    assert_int_equal(tft_gguf_close(w, true, NULL), TFT_OK);
    return to;
}

static const char *written(const struct kind *k) { return write_with(k, NULL); }

static struct tft_model *opened(const char *path, enum tft_weights weights)
{
    struct tft_model_opts o = {.size = sizeof o, .weights = weights, .n_threads = 1};
    struct tft_model *m;
    struct tft_error err = {0};
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* ---------------------------------------------------------------------------------- the formula */

struct formula {
    const struct kind *k;
    struct tft_source s;
    uint32_t n;
    double x[LONG][D_MOST], y[LONG][D_MOST]; /* rows of tokens */
    double q[LONG][D_MOST], key[LONG][D_MOST], v[LONG][D_MOST], a[LONG][D_MOST];
};
static struct formula f;

/* The numbers of a tensor, NULL if there is none. The caller frees them. */
static float *numbers(const char *name)
{
    const struct tft_tensor *t = tft_source_tensor(&f.s, name);
    size_t n = t ? (size_t)(t->ne[0] * t->ne[1]) : 0;
    float *x = n ? malloc(n * sizeof *x) : NULL;
    if (x)
        tft_dtype_info(t->type)->to_f32(x, t->data, n);
    return x;
}

static float *of_layer(uint32_t l, const char *name, const char *suffix)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s%s", l, name, suffix);
    return numbers(full);
}

static void layernorm(double *to, const double *x, const float *w, const float *b)
{
    uint32_t d = f.k->d;
    double mean = 0, var = 0;
    for (uint32_t i = 0; i < d; i++)
        mean += x[i] / d;
    for (uint32_t i = 0; i < d; i++)
        var += (x[i] - mean) * (x[i] - mean) / d;
    double r = 1 / sqrt(var + (double)(float)EPS);
    for (uint32_t i = 0; i < d; i++)
        to[i] = (x[i] - mean) * r * (double)w[i] + (b ? (double)b[i] : 0);
}

/* to[t] = norm(from[t]) of all tokens. A missing norm copies. */
static void norm(double to[][D_MOST], double from[][D_MOST], const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%.30s.weight", name);
    float *w = numbers(full);
    snprintf(full, sizeof full, "%.30s.bias", name);
    float *b = numbers(full);
    for (uint32_t t = 0; t < f.n; t++)
        if (w)
            layernorm(to[t], from[t], w, b);
        else if (to != from)
            memcpy(to[t], from[t], sizeof to[t]);
    free(w);
    free(b);
}

static void norm_of(uint32_t l, double to[][D_MOST], double from[][D_MOST], const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s", l, name);
    norm(to, from, full);
}

/* to[t][i] = row first + i of the matrix times from[t], plus the bias; i < rows. */
static void product(uint32_t l, const char *name, uint32_t first, uint32_t rows, uint32_t cols,
                    double to[][D_MOST], double from[][D_MOST])
{
    float *w = of_layer(l, name, ".weight"), *b = of_layer(l, name, ".bias");
    assert_non_null(w);
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t i = 0; i < rows; i++) {
            double sum = b ? (double)b[first + i] : 0;
            for (uint32_t j = 0; j < cols; j++)
                sum += (double)w[(first + i) * cols + j] * from[t][j];
            to[t][i] = sum;
        }
    free(w);
    free(b);
}

static bool is_local(uint32_t l) { return f.k->pre && l % PERIOD; }

static void rotate(uint32_t l, double x[][D_MOST])
{
    uint32_t dim = f.k->d / f.k->heads;
    double base = 10000; /* the default, of both kinds of layers */
    (void)l;
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t h = 0; h < f.k->heads; h++)
            for (uint32_t i = 0; i < dim / 2; i++) {
                double *a = &x[t][h * dim + i], *b = a + dim / 2, u = *a, v = *b,
                       angle = t * pow(base, -2.0 * i / dim);
                *a = u * cos(angle) - v * sin(angle);
                *b = v * cos(angle) + u * sin(angle);
            }
}

static double slope(uint32_t h)
{
    uint32_t n = 4; /* of 6 heads */
    return h < n ? pow(2, -8.0 * (h + 1) / n) : pow(2, -4.0 * (2 * (h - n) + 1) / n);
}

static void attend_head(uint32_t l, uint32_t t, uint32_t h)
{
    static double p[LONG];
    uint32_t dim = f.k->d / f.k->heads, at = h * dim;
    double max = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < f.n; j++) {
        uint32_t apart = j > t ? j - t : t - j;
        p[j] = -INFINITY;
        if (is_local(l) && apart > WINDOW / 2)
            continue;
        p[j] = f.k->alibi ? -slope(h) * apart : 0;
        for (uint32_t i = 0; i < dim; i++)
            p[j] += f.q[t][at + i] * f.key[j][at + i] / sqrt(dim);
        max = fmax(max, p[j]);
    }
    memset(&f.a[t][at], 0, dim * sizeof(double));
    for (uint32_t j = 0; j < f.n; j++)
        sum += p[j] = exp(p[j] - max);
    for (uint32_t j = 0; j < f.n; j++)
        for (uint32_t i = 0; i < dim; i++)
            f.a[t][at + i] += p[j] / sum * f.v[j][at + i];
}

static double gelu(double x)
{
    if (f.k->gelu)
        return x * (1 + erf(x / sqrt(2))) / 2;
    return x * (1 + tanh(sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x))) / 2;
}

static double silu(double x) { return x / (1 + exp(-x)); }

/* y = the output of attention of h */
static void attention(uint32_t l, double h[][D_MOST])
{
    uint32_t d = f.k->d;
    bool one = f.k->rope;
    product(l, one ? "attn_qkv" : "attn_q", 0, d, d, f.q, h);
    product(l, one ? "attn_qkv" : "attn_k", one ? d : 0, d, d, f.key, h);
    product(l, one ? "attn_qkv" : "attn_v", one ? 2 * d : 0, d, d, f.v, h);
    norm_of(l, f.q, f.q, "attn_q_norm");
    norm_of(l, f.key, f.key, "attn_k_norm");
    if (f.k->rope) {
        rotate(l, f.q);
        rotate(l, f.key);
    }
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t i = 0; i < f.k->heads; i++)
            attend_head(l, t, i);
    product(l, "attn_output", 0, d, d, f.y, f.a);
}

/* y = the output of feed-forward of h */
static void feed_forward(uint32_t l, double h[][D_MOST])
{
    uint32_t d = f.k->d;
    bool fused = f.k->fused, gate = f.k->gate;
    product(l, "ffn_up", fused ? FF : 0, FF, d, f.v, h);
    if (gate)
        product(l, fused ? "ffn_up" : "ffn_gate", 0, FF, d, f.q, h);
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t i = 0; i < FF; i++)
            f.a[t][i] = !gate   ? gelu(f.v[t][i])
                        : fused ? gelu(f.q[t][i]) * f.v[t][i]
                                : silu(f.q[t][i]) * f.v[t][i];
    product(l, "ffn_down", 0, d, FF, f.y, f.a);
}

/* y = y + x */
static void add(void)
{
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t i = 0; i < f.k->d; i++)
            f.y[t][i] += f.x[t][i];
}

static void layer(uint32_t l)
{
    static double h[LONG][D_MOST];
    norm_of(l, h, f.x, "attn_norm");
    attention(l, h);
    add();
    norm_of(l, f.y, f.y, "attn_output_norm");
    if (f.k->norms) {
        add();
        norm_of(l, f.y, f.y, "attn_norm_2");
    }
    memcpy(f.x, f.y, sizeof f.x);
    norm_of(l, h, f.x, "ffn_norm");
    feed_forward(l, h);
    add();
    norm_of(l, f.x, f.y, "layer_output_norm");
}

/* f.x = the hidden vectors of a text */
static void compute(const struct kind *k, const char *path, const struct tft_text_tokens *text)
{
    f.k = k;
    f.n = (uint32_t)text->n;
    assert_int_equal(tft_source_open(&f.s, path, NULL, NULL, NULL), TFT_OK);
    float *embed = numbers("token_embd.weight"), *types = numbers("token_types.weight"),
          *positions = numbers("position_embd.weight");
    for (uint32_t t = 0; t < f.n; t++)
        for (uint32_t i = 0; i < k->d; i++) {
            uint32_t type = text->types ? text->types[t] : 0;
            f.x[t][i] = (double)embed[(uint32_t)text->ids[t] * k->d + i] +
                        (types ? (double)types[type * k->d + i] : 0) +
                        (positions ? (double)positions[t * k->d + i] : 0);
        }
    norm(f.x, f.x, "token_embd_norm");
    for (uint32_t l = 0; l < LAYERS; l++)
        layer(l);
    norm(f.x, f.x, "output_norm");
    free(embed);
    free(types);
    free(positions);
    tft_source_close(&f.s);
}

/* ------------------------------------------------------------------------------------ the tests */

enum { TEXTS = 7, ALL = 1 + LONG + 17 + 16 + 64 + 2 + 33 };
static const size_t lengths[TEXTS] = {1, LONG, 17, 16, 64, 2, 33};
static int32_t ids[ALL];
static uint8_t types[ALL];
static struct tft_text_tokens texts[TEXTS];

static struct tft_embedder *embedder(const struct tft_model *m, struct tft_embedder_opts o)
{
    struct tft_embedder *e;
    struct tft_error err = {0};
    o.size = sizeof o;
    o.n_threads = o.n_threads ? o.n_threads : 2;
    if (tft_embedder_open(&e, m, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return e;
}

static void embed(const struct tft_model *m, struct tft_embedder_opts o,
                  const struct tft_text_tokens *t, size_t n, float *out)
{
    struct tft_embedder *e = embedder(m, o);
    if (tft_embed(e, t, n, out) != TFT_OK)
        fail_msg("%s", tft_embedder_error(e)->msg);
    tft_embedder_close(e);
}

/* Also across spans of 256 tokens, with windows and with types. */
static void agree_with_the_formula(void **state)
{
    (void)state;
    static float got[LONG * D_MOST];
    for (int i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        const char *path = written(k);
        struct tft_model *m = opened(path, TFT_WEIGHTS_F32);
        struct tft_text_tokens text = texts[1];
        text.types = k->types ? text.types : NULL;
        embed(m, (struct tft_embedder_opts){.pooling = TFT_POOLING_TOKENS}, &text, 1, got);
        compute(k, path, &text);
        double off = 0, size = 0;
        for (uint32_t t = 0; t < LONG; t++)
            for (uint32_t j = 0; j < k->d; j++) {
                double d = f.x[t][j] - (double)got[t * k->d + j];
                off += d * d;
                size += f.x[t][j] * f.x[t][j];
            }
        if (!(off / size < 1e-10))
            fail_msg("%s (%d): NMSE %g", k->arch, i, off / size);
        tft_model_close(m);
    }
}

/* Alone, in passes of other sizes, on other threads, on every level of the CPU. */
static void check_bits(const char *path, size_t width)
{
    static float all[TEXTS * D_MOST], other[TEXTS * D_MOST];
    const struct tft_embedder_opts how[] = {
        {.n_threads = 1}, {.n_threads = 3, .n_tokens = LONG}, {.n_tokens = 2000, .n_threads = 2}};
    const char *isa;
    struct tft_model *m = opened(path, TFT_WEIGHTS_STORED);
    size_t bytes = TEXTS * width * sizeof *all;
    embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, all);
    for (size_t j = 0; j < sizeof how / sizeof *how; j++) {
        embed(m, how[j], texts, TEXTS, other);
        assert_memory_equal(all, other, bytes);
    }
    for (int t = TEXTS; t-- > 0;)
        embed(m, (struct tft_embedder_opts){0}, &texts[t], 1, other + (size_t)t * width);
    assert_memory_equal(all, other, bytes);
    tft_model_close(m);
    for (size_t j = 0; (isa = tft_feature(j)); j++) {
        if (tft_cpu_limit(isa) != TFT_OK)
            continue;
        m = opened(path, TFT_WEIGHTS_STORED);
        embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, other);
        assert_memory_equal(all, other, bytes);
        tft_model_close(m);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

static void same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        check_bits(written(&kinds[i]), kinds[i].d);
}

/* Makes a W8A8 file, with all ranges alike. */
static void write_int8(const struct kind *k, enum tft_range range, const char *path)
{
    enum { WINDOW_TOKENS = 48, WINDOWS = 6, INPUTS = 4 * LAYERS + 1 };
    static int32_t text[WINDOWS * WINDOW_TOKENS];
    enum tft_range all[INPUTS];
    struct quantize_input result[INPUTS];
    struct quantize_opts o = {.text = text,
                              .n_text = WINDOWS * WINDOW_TOKENS,
                              .window = WINDOW_TOKENS,
                              .method = RANGE_MSE,
                              .range = all,
                              .n_threads = 2};
    struct tft_error err = {0};
    struct tft_model *m;
    bool stopped;
    toy_tokens(8, VOCAB, text, WINDOWS * WINDOW_TOKENS);
    assert_int_equal(tft_model_open_unexpanded(&m, written(k), NULL, &err), TFT_OK);
    assert_int_equal(tft_model_inputs(m), INPUTS);
    for (int i = 0; i < INPUTS; i++)
        all[i] = range;
    if (quantize(m, path, &o, result, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
}

/* Weights and inputs of 8 bits, with ranges of the file and of each token: vectors near those of
   floats, with the same bits everywhere. */
static void int8(void **state)
{
    (void)state;
    static const enum tft_range ranges[] = {TFT_RANGE_STATIC, TFT_RANGE_TOKEN};
    static const double least[] = {0.95, 0.998};
    static float exact[TEXTS * D_MOST], got[TEXTS * D_MOST];
    char path[64];
    snprintf(path, sizeof path, "%s/int8.gguf", folder);
    for (int i = 0; i < 2 * KINDS; i++) {
        const struct kind *k = &kinds[i / 2];
        write_int8(k, ranges[i % 2], path);
        struct tft_model *m = opened(written(k), TFT_WEIGHTS_STORED);
        embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, exact);
        tft_model_close(m);
        m = opened(path, TFT_WEIGHTS_STORED);
        embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, got);
        tft_model_close(m);
        for (int t = 0; t < TEXTS; t++) {
            double cosine = 0;
            for (uint32_t d = 0; d < k->d; d++)
                cosine += (double)exact[t * k->d + d] * (double)got[t * k->d + d];
            assert_true(cosine > least[i % 2] && cosine < 1 - 1e-7);
        }
        check_bits(path, k->d);
    }
}

/* A packed file gives the bits of the file that it was made of, also where tensors held parts of
   several matrices. */
static void packed(void **state)
{
    (void)state;
    static float whole[TEXTS * D_MOST], other[TEXTS * D_MOST];
    for (int i = 0; i < KINDS; i++) {
        struct kind k = kinds[i];
        struct pack_result r;
        struct tft_error err = {0};
        struct tft_model *m;
        char path[64];
        k.type = TFT_Q8_0;
        snprintf(path, sizeof path, "%s/packed.gguf", folder);
        m = opened(written(&k), TFT_WEIGHTS_STORED);
        embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, whole);
        tft_model_close(m);
        assert_int_equal(tft_model_open_unexpanded(&m, written(&k), NULL, &err), TFT_OK);
        if (pack(m, path, &(struct pack_opts){.n_threads = 1}, &r, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        assert_true(r.packed >= LAYERS * 6);
        tft_model_close(m);
        m = opened(path, TFT_WEIGHTS_STORED);
        embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, other);
        assert_memory_equal(whole, other, TEXTS * k.d * sizeof *whole);
        tft_model_close(m);
    }
}

/* Poolings follow from the vectors of tokens; n_dims cuts before the length becomes 1. */
static void poolings(void **state)
{
    (void)state;
    enum { N = 17, D = 64, DIMS = 10 };
    static float rows[N * D], mean[D], cls[D], last[D], cut[DIMS];
    struct tft_model *m = opened(written(&kinds[0]), TFT_WEIGHTS_STORED);
    const struct tft_text_tokens *t = &texts[2];
    double sum[D] = {0}, squares = 0;
    embed(m, (struct tft_embedder_opts){.pooling = TFT_POOLING_TOKENS}, t, 1, rows);
    embed(m, (struct tft_embedder_opts){.raw = true}, t, 1, mean);
    embed(m, (struct tft_embedder_opts){.raw = true, .pooling = TFT_POOLING_CLS}, t, 1, cls);
    embed(m, (struct tft_embedder_opts){.raw = true, .pooling = TFT_POOLING_LAST}, t, 1, last);
    embed(m, (struct tft_embedder_opts){.n_dims = DIMS}, t, 1, cut);
    assert_memory_equal(cls, rows, sizeof cls);
    assert_memory_equal(last, rows + (N - 1) * D, sizeof last);
    for (int i = 0; i < N * D; i++)
        sum[i % D] += (double)rows[i];
    for (int i = 0; i < D; i++)
        assert_true(mean[i] == (float)(sum[i] / N));
    for (int i = 0; i < DIMS; i++)
        squares += (double)mean[i] * (double)mean[i];
    for (int i = 0; i < DIMS; i++)
        assert_true(fabs((double)cut[i] - (double)mean[i] / sqrt(squares)) < 1e-6);
    tft_model_close(m);
}

/* Types of tokens change results, if the model has types. */
static void types_of_tokens(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) { /* the second has none, and ignores them */
        float with[64], without[64];
        struct tft_model *m = opened(written(&kinds[i]), TFT_WEIGHTS_STORED);
        struct tft_text_tokens plain = texts[4];
        struct tft_embedder *e = embedder(m, (struct tft_embedder_opts){0});
        struct tft_embedder_info info = {.size = sizeof info};
        tft_embedder_describe(e, &info);
        assert_int_equal(info.n_types, i ? 0 : TYPES);
        assert_int_equal(info.width, 64);
        assert_int_equal(info.pooling, TFT_POOLING_MEAN);
        plain.types = NULL;
        assert_int_equal(tft_embed(e, &texts[4], 1, with), TFT_OK);
        assert_int_equal(tft_embed(e, &plain, 1, without), TFT_OK);
        assert_int_equal(memcmp(with, without, sizeof with) == 0, i);
        tft_embedder_close(e);
        tft_model_close(m);
    }
}

/* A classifier of one score. The file does not name a pooling. */
static void scores(void **state)
{
    (void)state;
    const struct item out = {"cls.output.weight", {64, 1}, TFT_F32, 0, 1};
    struct tft_model *m = opened(write_with(&kinds[0], &out), TFT_WEIGHTS_STORED);
    struct tft_model_info info = {.size = sizeof info};
    float score[2], raw[2];
    tft_model_describe(m, &info);
    assert_int_equal(info.pooling, TFT_POOLING_RANK);
    assert_true(info.encoder);
    struct tft_embedder *e = embedder(m, (struct tft_embedder_opts){0});
    assert_int_equal(tft_rerank(e, texts + 2, 2, score), TFT_OK);
    assert_int_equal(tft_embed(e, texts + 2, 2, raw), TFT_OK);
    for (int i = 0; i < 2; i++)
        assert_true(fabs((double)score[i] - 1 / (1 + exp(-(double)raw[i]))) < 1e-6);
    assert_true(score[0] != score[1]);
    tft_embedder_close(e);
    e = embedder(m, (struct tft_embedder_opts){.raw = true});
    assert_int_equal(tft_rerank(e, texts + 2, 2, score), TFT_OK);
    assert_memory_equal(score, raw, sizeof raw);
    tft_embedder_close(e);
    e = embedder(m, (struct tft_embedder_opts){.pooling = TFT_POOLING_MEAN});
    assert_int_equal(tft_rerank(e, texts, 1, score), TFT_ERR_UNSUPPORTED);
    tft_embedder_close(e);
    tft_model_close(m);
}

static void refused_texts(void **state)
{
    (void)state;
    float out[2 * 64];
    struct tft_model *m = opened(written(&kinds[0]), TFT_WEIGHTS_STORED);
    struct tft_embedder *e = embedder(m, (struct tft_embedder_opts){.max_text = 20});
    int32_t outside[] = {3, VOCAB, 4}, negative[] = {-1};
    uint8_t type[] = {0, TYPES, 0};
    const struct {
        struct tft_text_tokens text;
        enum tft_status status;
    } rows[] = {{{.ids = ids}, TFT_ERR_ARG},
                {{.ids = outside, .n = 3}, TFT_ERR_ARG},
                {{.ids = negative, .n = 1}, TFT_ERR_ARG},
                {{.ids = ids, .types = type, .n = 3}, TFT_ERR_ARG},
                {{.ids = ids, .n = 21}, TFT_ERR_FULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_text_tokens two[] = {texts[3], rows[i].text};
        out[0] = 7;
        assert_int_equal(tft_embed(e, two, 2, out), rows[i].status);
        assert_int_equal(tft_embedder_error(e)->code, rows[i].status);
        assert_non_null(strstr(tft_embedder_error(e)->msg, "text 1"));
        assert_true(out[0] == 7); /* nothing has been computed */
    }
    struct tft_text_tokens newer[] = {texts[3], {.ids = ids, .n = 3, .reserved = {1}}};
    assert_int_equal(tft_embed(e, newer, 2, out), TFT_ERR_ARG); /* an option of a later version */
    assert_non_null(strstr(tft_embedder_error(e)->msg, "struct tft_text_tokens: reserved[0]"));
    assert_true(out[0] == 7);
    assert_int_equal(tft_embed(e, texts, 0, out), TFT_OK);
    assert_int_equal(tft_embed(e, &texts[3], 1, out), TFT_OK);
    assert_int_equal(tft_embedder_error(e)->code, TFT_OK);
    assert_int_equal(tft_embedder_threads(e, 3), TFT_ERR_ARG);
    assert_int_equal(tft_embedder_threads(e, 1), TFT_OK);
    tft_embedder_close(e);
    tft_model_close(m);
}

static void refused_options(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&kinds[0]), TFT_WEIGHTS_STORED);
    struct tft_embedder *e;
    struct tft_session *s;
    struct tft_batch *b;
    struct tft_error err;
    const struct tft_embedder_opts rows[] = {
        {.pooling = TFT_POOLING_OTHER}, {.pooling = (enum tft_pooling)99},
        {.pooling = TFT_POOLING_RANK},  {.n_dims = 65},
        {.max_text = CONTEXT + 1},      {.max_text = 200, .n_tokens = 100},
        {.n_tokens = 2 << 20},          {.n_threads = -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_embedder_opts o = rows[i];
        o.size = sizeof o;
        assert_int_equal(tft_embedder_open(&e, m, &o, &err), TFT_ERR_ARG);
        assert_null(e);
        assert_int_equal(tft_embedder_bytes(m, &o, &err), 0);
    }
    assert_int_equal(tft_session_open(&s, m, NULL, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "an encoder"));
    assert_int_equal(tft_batch_open(&b, m, NULL, &err), TFT_ERR_UNSUPPORTED);
    assert_int_equal(tft_session_bytes(m, NULL, &err), 0);
    tft_model_close(m);
}

static void memory_is_counted(void **state)
{
    (void)state;
    const struct toy decoder = {.arch = "qwen3",
                                .n_vocab = VOCAB,
                                .n_ctx = CONTEXT,
                                .n_embd = 32,
                                .n_layer = 2,
                                .n_head = 4,
                                .n_head_kv = 2,
                                .head_dim = 8,
                                .n_ff = 64,
                                .n_rot = 8};
    char path[64];
    snprintf(path, sizeof path, "%s/decoder.gguf", folder);
    assert_true(toy_write(&decoder, path));
    for (int i = 0; i < 2; i++) {
        struct memory memory = {0};
        struct tft_allocator a = memory_allocator(&memory);
        struct tft_embedder_opts o = {.size = sizeof o, .allocator = &a, .n_threads = 2};
        struct tft_model *m = opened(i ? path : written(&kinds[0]), TFT_WEIGHTS_STORED);
        struct tft_embedder *e;
        float out[64];
        assert_int_equal(tft_embedder_open(&e, m, &o, NULL), TFT_OK);
        assert_int_equal(memory.in_use, tft_embedder_bytes(m, &o, NULL));
        unsigned calls = memory.calls;
        assert_int_equal(tft_embed(e, texts, 1, out), TFT_OK);
        assert_int_equal(memory.calls, calls);
        tft_embedder_close(e);
        assert_int_equal(memory.in_use, 0);
        for (unsigned k = 1; k <= calls; k++) {
            memory.calls = 0;
            memory.fail_at = k;
            assert_int_equal(tft_embedder_open(&e, m, &o, NULL), TFT_ERR_NOMEM);
            assert_null(e);
            assert_int_equal(memory.in_use, 0);
        }
        tft_model_close(m);
    }
}

static int asked;

/* Stops the call when it is asked for the third time. */
static bool stop(void *user, double done)
{
    (void)user;
    assert_true(done >= 0 && done <= 1);
    return ++asked % 3 != 0;
}

static void cancelled_calls(void **state)
{
    (void)state;
    float out[TEXTS * 64], again[TEXTS * 64];
    struct tft_model *m = opened(written(&kinds[0]), TFT_WEIGHTS_STORED);
    struct tft_embedder *e = embedder(m, (struct tft_embedder_opts){.progress = stop});
    asked = 0;
    assert_int_equal(tft_embed(e, texts, TEXTS, out), TFT_ERR_CANCELLED);
    assert_int_equal(asked, 3);
    tft_embedder_close(e);
    e = embedder(m, (struct tft_embedder_opts){0});
    tft_embedder_cancel(e);
    assert_int_equal(tft_embed(e, texts, TEXTS, out), TFT_ERR_CANCELLED);
    assert_int_equal(tft_embed(e, texts, TEXTS, out), TFT_OK);
    tft_embedder_close(e);
    embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, again);
    assert_memory_equal(out, again, sizeof out);
    tft_model_close(m);
}

/* Other models: the vectors of a session, with passes of any size. */
static void other_models(void **state)
{
    (void)state;
    const struct toy decoder = {.arch = "qwen3",
                                .n_vocab = VOCAB,
                                .n_ctx = CONTEXT,
                                .n_embd = 32,
                                .n_layer = 2,
                                .n_head = 4,
                                .n_head_kv = 2,
                                .head_dim = 8,
                                .n_ff = 64,
                                .n_rot = 8};
    enum { D = 32 };
    char path[64];
    float last[TEXTS * D], mean[TEXTS * D], other[TEXTS * D];
    snprintf(path, sizeof path, "%s/decoder.gguf", folder);
    assert_true(toy_write(&decoder, path));
    struct tft_model *m = opened(path, TFT_WEIGHTS_STORED);
    struct tft_embedder_opts o = {.pooling = TFT_POOLING_LAST, .raw = true};
    embed(m, o, texts, TEXTS, last);
    embed(m, (struct tft_embedder_opts){0}, texts, TEXTS, mean);
    embed(m, (struct tft_embedder_opts){.n_tokens = 16, .n_threads = 1}, texts, TEXTS, other);
    assert_memory_equal(mean, other, sizeof mean);
    struct tft_session_opts so = {.size = sizeof so, .kv = "f32", .n_hidden = 1, .n_threads = 1};
    struct tft_session *s;
    assert_int_equal(tft_session_open(&s, m, &so, NULL), TFT_OK);
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(tft_rewind(s, 0), TFT_OK);
        assert_int_equal(tft_prefill(s, texts[i].ids, texts[i].n), TFT_OK);
        assert_memory_equal(last + i * D, tft_hidden(s, 0), D * sizeof *last);
    }
    tft_session_close(s);
    tft_model_close(m);
}

/* Files that are damaged, or say what is not known. */
static void refused_files(void **state)
{
    (void)state;
    const struct item many = {"token_types.weight", {64, 256}, TFT_F32, 0, 1},
                      narrow = {"cls.weight", {32, 64}, TFT_F32, 0, 1},
                      unknown = {"cls.new.weight", {64, 1}, TFT_F32, 0, 1};
    struct kind odd = kinds[1], bare = kinds[0], wide = kinds[5];
    struct tft_model *m;
    struct tft_error err;
    odd.gelu = "other";
    wide.dim = 2 * wide.d / wide.heads; /* queries are wider than the norm in the file, */
    wide.kv_heads = wide.heads / 2;     /* and keys are not */
    bare.positions = false;
    assert_int_equal(tft_model_open(&m, write_with(&kinds[1], &many), NULL, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_int_equal(tft_model_open(&m, write_with(&kinds[1], &narrow), NULL, &err),
                     TFT_ERR_FORMAT);
    assert_int_equal(tft_model_open(&m, write_with(&kinds[1], &unknown), NULL, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_int_equal(tft_model_open(&m, written(&odd), NULL, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tuffet.gelu"));
    assert_int_equal(tft_model_open(&m, written(&bare), NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "position_embd.weight is missing"));
    assert_int_equal(tft_model_open(&m, written(&wide), NULL, &err), TFT_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "attn_q_norm"));
}

static int setup(void **state)
{
    (void)state;
    size_t at = 0;
    toy_tokens(3, VOCAB, ids, ALL);
    for (int i = 0; i < TEXTS; at += lengths[i++])
        texts[i] = (struct tft_text_tokens){
            .ids = ids + at, .types = types + at, .n = lengths[i]};
    for (size_t i = 0; i < ALL; i++)
        types[i] = i % 5 > 2;
    return !mkdtemp(folder);
}

static int teardown(void **state)
{
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/decoder.gguf", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/packed.gguf", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/int8.gguf", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agree_with_the_formula),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(int8),
        cmocka_unit_test(poolings),
        cmocka_unit_test(types_of_tokens),
        cmocka_unit_test(scores),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(cancelled_calls),
        cmocka_unit_test(other_models),
        cmocka_unit_test(refused_files),
        cmocka_unit_test(packed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
