/*
 * all-MiniLM-L6-v2, a trained model for embeddings, against vectors that an independent program has
 * computed in double precision: shared/models/embed. If the models do not exist, the exit status is
 * 77, which meson takes for a skipped test.
 *
 * Tokens are the program's, too, so the tokenizer plays no part: its key is renamed. The model was
 * trained with erf in GELU; files say nothing, which means tanh. So the test puts tuffet.gelu into
 * its copy of the file.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "tuffet.h"

enum { TEXTS = 20, PAIRS = 15, WIDTH = 384, MOST_TOKENS = 512, ROW = 1 << 15, FIRST = 12 };
#define MOST 1e-9 /* of the normalised mean squared error */

/* Texts of the folder, as tokens. */
struct texts {
    struct tft_text_tokens text[TEXTS];
    size_t n;
    int32_t ids[TEXTS][MOST_TOKENS];
    uint8_t types[TEXTS][MOST_TOKENS];
};

static int failures;

static void expect(bool good, const char *what, double value)
{
    printf("%-52s %.2e%s\n", what, value, good ? "" : ": wrong");
    failures += !good;
}

static const char *file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "models/embed/%s", name);
    return shared_path(path);
}

/* ---- reading */

/* A copy of the file, aligned as tft_model_open_mem wants it, with the key tuffet.gelu if `erf`.
   Two values of 64 bytes together come first, so that tensors stay aligned. */
static unsigned char *read_model(const char *name, bool erf, size_t *n)
{
    static const unsigned char values[64] = "\013\0\0\0\0\0\0\0tuffet.gelu\010\0\0\0"
                                            "\003\0\0\0\0\0\0\0erf"
                                            "\016\0\0\0\0\0\0\0general.filler\004\0\0\0\0\0\0";
    static const char key[] = "tokenizer.ggml.model";
    const char *path = file(name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t head = 24, more = erf ? sizeof values : 0, room = 64 << 20;
    unsigned char *data = f ? aligned_alloc(64, room) : NULL;
    *n = 0;
    if (data && fread(data, 1, head, f) == head) {
        memcpy(data + head, values, more);
        data[16] = (unsigned char)(data[16] + (erf ? 2 : 0)); /* the number of values */
        *n = head + more + fread(data + head + more, 1, room - head - more, f);
    }
    for (size_t at = 0; at + sizeof key < *n && at < 4096; at++)
        if (memcmp(data + at, key, sizeof key - 1) == 0)
            data[at] = 'T';
    if (f)
        fclose(f);
    return data;
}

static struct tft_model *opened(const unsigned char *data, size_t n, enum tft_weights weights)
{
    struct tft_model_opts o = {.size = sizeof o, .weights = weights, .n_threads = 2};
    struct tft_error err = {0};
    struct tft_model *m = NULL;
    if (tft_model_open_mem(&m, data, n, &o, &err) != TFT_OK)
        printf("%s\n", err.msg);
    return m;
}

/* The numbers of the list "name" in a line of JSON; returns how many. */
static size_t read_list(const char *line, const char *name, int32_t *to)
{
    char start[20];
    snprintf(start, sizeof start, "\"%s\": [", name);
    const char *at = strstr(line, start);
    size_t n = 0;
    for (at = at ? at + strlen(start) : "]"; *at && *at != ']' && n < MOST_TOKENS;) {
        char *end;
        to[n++] = (int32_t)strtol(at, &end, 10);
        at = end + strspn(end, ", ");
    }
    return n;
}

static bool read_texts(const char *name, struct texts *all)
{
    static char line[ROW];
    static int32_t types[MOST_TOKENS];
    const char *path = file(name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    for (all->n = 0; f && all->n < TEXTS && fgets(line, sizeof line, f); all->n++) {
        struct tft_text_tokens *t = &all->text[all->n];
        t->ids = all->ids[all->n];
        t->n = read_list(line, "ids", all->ids[all->n]);
        if (!t->n || read_list(line, "types", types) != t->n)
            continue;
        for (size_t i = 0; i < t->n; i++)
            all->types[all->n][i] = (uint8_t)types[i];
        t->types = all->types[all->n];
    }
    if (f)
        fclose(f);
    return all->n > 0;
}

static bool read_floats(const char *name, float *to, size_t n)
{
    const char *path = file(name);
    FILE *f = path ? fopen(path, "rb") : NULL;
    bool good = f && fread(to, sizeof *to, n, f) == n;
    if (f)
        fclose(f);
    return good;
}

/* ---- comparing */

static double nmse(const float *got, const float *want, size_t n)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        off += d * d;
        size += (double)want[i] * (double)want[i];
    }
    return off / size;
}

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < WIDTH; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static bool embed(const struct tft_model *m, struct tft_embedder_opts o,
                  const struct tft_text_tokens *texts, size_t n, float *out)
{
    struct tft_embedder *e = NULL;
    struct tft_error err = {0};
    o.size = sizeof o;
    o.n_threads = o.n_threads ? o.n_threads : 2;
    bool good =
        m && tft_embedder_open(&e, m, &o, &err) == TFT_OK && tft_embed(e, texts, n, out) == TFT_OK;
    if (!good)
        printf("%s\n", e ? tft_embedder_error(e)->msg : err.msg);
    tft_embedder_close(e);
    return good;
}

/* The vectors of all texts against those of a file. */
static void compare(const struct tft_model *m, struct tft_embedder_opts o, const struct texts *all,
                    const char *name)
{
    static float got[TEXTS * WIDTH], want[TEXTS * WIDTH];
    size_t n = all->n * WIDTH;
    double off = read_floats(name, want, n) && embed(m, o, all->text, all->n, got)
                     ? nmse(got, want, n)
                     : NAN;
    expect(off <= MOST, name, off);
}

/* The same of weights that round activations. The empty text, of two tokens, is 1.3e-3 away. */
static void compare_rounded(const struct tft_model *m, const struct texts *all, const char *name,
                            double least)
{
    static float got[TEXTS * WIDTH], want[TEXTS * WIDTH];
    double worst = 2;
    bool good = read_floats(name, want, all->n * WIDTH) &&
                embed(m, (struct tft_embedder_opts){.raw = true}, all->text, all->n, got);
    for (size_t i = 0; i < all->n && good; i++)
        if (all->text[i].n > 2)
            worst = fmin(worst, cosine(got + i * WIDTH, want + i * WIDTH));
    expect(good && worst >= least, "1 - cosine, of codes", 1 - worst);
}

/* Without pooling. */
static void compare_hidden(const struct tft_model *m, const struct texts *all)
{
    static float got[FIRST * WIDTH], want[FIRST * WIDTH];
    struct tft_embedder_opts o = {.pooling = TFT_POOLING_TOKENS};
    bool good = all->text[0].n == FIRST && read_floats("hidden-0.f32", want, FIRST * WIDTH) &&
                embed(m, o, all->text, 1, got);
    double off = good ? nmse(got, want, FIRST * WIDTH) : NAN;
    expect(off <= MOST, "hidden-0.f32", off);
}

/* The bits of a text's vector depend on the text alone. */
static void pack(const struct tft_model *m, const struct texts *all)
{
    static float whole[TEXTS * WIDTH], other[TEXTS * WIDTH];
    static struct tft_text_tokens reversed[TEXTS];
    size_t n = all->n, vector = WIDTH * sizeof *whole;
    bool good = embed(m, (struct tft_embedder_opts){0}, all->text, n, whole);
    for (size_t i = 0; i < n; i++) {
        reversed[n - 1 - i] = all->text[i];
        good &= embed(m, (struct tft_embedder_opts){.n_threads = 1}, &all->text[i], 1,
                      other + i * WIDTH);
    }
    expect(good && memcmp(whole, other, n * vector) == 0, "one by one, one thread", 0);
    good = embed(m, (struct tft_embedder_opts){.n_tokens = MOST_TOKENS, .n_threads = 3}, reversed,
                 n, other);
    for (size_t i = 0; i < n; i++)
        good &= memcmp(whole + i * WIDTH, other + (n - 1 - i) * WIDTH, vector) == 0;
    expect(good, "in other passes, three threads", 0);
}

/* Pairs with types of tokens, and without. */
static void pairs(const struct tft_model *m)
{
    static struct texts all;
    struct tft_embedder_opts o = {.pooling = TFT_POOLING_CLS, .raw = true};
    expect(read_texts("pairs", &all) && all.n == PAIRS && all.text[0].types, "pairs", 0);
    compare(m, o, &all, "pairs-cls.f32");
    for (size_t i = 0; i < all.n; i++)
        all.text[i].types = NULL;
    compare(m, o, &all, "pairs-cls-types0.f32");
}

/* ---- the files */

static void check_floats(const struct texts *all)
{
    size_t n;
    unsigned char *data = read_model("all-minilm-l6-v2.f16.gguf", true, &n);
    struct tft_model *m = opened(data, n, TFT_WEIGHTS_STORED);
    compare(m, (struct tft_embedder_opts){.raw = true}, all, "embeddings-raw.f32");
    compare(m, (struct tft_embedder_opts){0}, all, "embeddings.f32");
    compare(m, (struct tft_embedder_opts){.raw = true, .pooling = TFT_POOLING_CLS}, all,
            "embeddings-raw-cls.f32");
    compare_hidden(m, all);
    pack(m, all);
    pairs(m);
    tft_model_close(m);
    free(data);
}

/* The same bits on every level of this CPU. */
static void check_levels(const struct texts *all)
{
    static float first[3 * WIDTH], other[3 * WIDTH];
    size_t n;
    unsigned char *data = read_model("all-minilm-l6-v2.f16.gguf", true, &n);
    const char *isa = tft_cpu_name();
    for (size_t i = 0; isa; isa = tft_feature(i++)) {
        if (tft_cpu_limit(isa) != TFT_OK) /* no level, or another CPU's */
            continue;
        struct tft_model *m = opened(data, n, TFT_WEIGHTS_STORED);
        bool good = embed(m, (struct tft_embedder_opts){0}, all->text, 3, i ? other : first);
        expect(good && (!i || memcmp(first, other, sizeof first) == 0), isa, 0);
        tft_model_close(m);
    }
    tft_cpu_limit(NULL);
    free(data);
}

static void check_tanh(const struct texts *all)
{
    size_t n;
    unsigned char *data = read_model("all-minilm-l6-v2.f16.gguf", false, &n);
    struct tft_model *m = opened(data, n, TFT_WEIGHTS_STORED);
    compare(m, (struct tft_embedder_opts){.raw = true}, all, "embeddings-raw-tanh.f32");
    tft_model_close(m);
    free(data);
}

static void check_codes(const struct texts *all)
{
    size_t n;
    unsigned char *data = read_model("all-minilm-l6-v2.q8_0.gguf", true, &n);
    struct tft_model *m = opened(data, n, TFT_WEIGHTS_F32);
    compare(m, (struct tft_embedder_opts){.raw = true}, all, "embeddings-raw-q8_0.f32");
    tft_model_close(m);
    m = opened(data, n, TFT_WEIGHTS_STORED);
    compare_rounded(m, all, "embeddings-raw-q8_0.f32", 0.999);
    tft_model_close(m);
    free(data);
}

int main(void)
{
    static struct texts all;
    if (!file("all-minilm-l6-v2.f16.gguf") || !file("all-minilm-l6-v2.q8_0.gguf")) {
        puts("skipped: the models of shared/models/embed: not found");
        return 77;
    }
    expect(read_texts("ids", &all) && all.n == TEXTS, "ids", 0);
    check_floats(&all);
    check_levels(&all);
    check_tanh(&all);
    check_codes(&all);
    return failures != 0;
}
