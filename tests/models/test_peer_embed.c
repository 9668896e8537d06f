/*
 * Random models that llama.cpp has written, against the embeddings and scores that it computes.
 *
 *      test_peer_embed NAME...
 *
 * NAME.gguf and NAME.f32 are in shared/models/random: the hidden vectors of the last 8 of 96
 * tokens. NAME.f32.pooled is by the pooling of the file, NAME.f32.pooled.mean, .cls and .last by
 * others; none of them has length 1. NAME.exact.f32 and so on, where they exist, are by a build of
 * llama.cpp that does not round GELU to f16; where only NAME.exact.f32 exists, a pooled vector is a
 * little off. If the folder does not exist, the exit status is 77, which meson takes for a skipped
 * test.
 *
 * The tokenizer plays no part: its key is renamed, so that it is not read.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "tuffet.h"

enum { TOKENS = 96, LAST = 8, VOCAB = 283, WIDTH = 96 /* at most */ };
#define MOST 1e-9         /* of the normalised mean squared error */
#define MOST_ROUNDED 1e-7 /* of a vector with rounded GELU */

static _Alignas(64) unsigned char bytes[1 << 20]; /* as tft_model_open_mem wants it */

static const char *file(const char *name, const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "models/random/%s%s", name, suffix);
    return shared_path(path);
}

static size_t read_file(const char *path, void *to, size_t most)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(to, 1, most, f) : 0;
    if (f)
        fclose(f);
    return n;
}

/* The peer's numbers of NAME.f32SUFFIX; returns how many, 0: there is no such file. *bound: how far
   they may be. */
static size_t read_wanted(const char *name, const char *suffix, float *to, size_t most,
                          double *bound)
{
    char end[40];
    snprintf(end, sizeof end, ".exact.f32%s", suffix);
    const char *path = file(name, end);
    *bound = !path && file(name, ".exact.f32") ? MOST_ROUNDED : MOST;
    if (!path)
        path = file(name, end + strlen(".exact"));
    return read_file(path, to, most * sizeof *to) / sizeof *to;
}

static struct tft_model *opened(const char *name, struct tft_error *err)
{
    static const char key[] = "tokenizer.ggml.model";
    struct tft_model *m = NULL;
    size_t n = read_file(file(name, ".gguf"), bytes, sizeof bytes), len = sizeof key - 1;
    for (size_t at = 0; at + len <= n; at++)
        if (memcmp(bytes + at, key, len) == 0)
            bytes[at] = 'T';
    if (!n || n == sizeof bytes)
        snprintf(err->msg, sizeof err->msg, "the file is missing, or too large");
    else
        tft_model_open_mem(&m, bytes, n, NULL, err);
    return m;
}

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

/* Returns the width of a result, 0 after an error; got: [TOKENS or 1, width] */
static size_t compute(const struct tft_model *m, enum tft_pooling pooling, float *got,
                      struct tft_error *err)
{
    struct tft_embedder_opts o = {
        .size = sizeof o, .pooling = pooling, .raw = true, .n_threads = 2};
    struct tft_embedder_info info = {.size = sizeof info};
    struct tft_embedder *e = NULL;
    int32_t ids[TOKENS];
    struct tft_text_tokens text = {.ids = ids, .n = TOKENS};
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 7 + i * 31 + 11) % VOCAB;
    if (tft_embedder_open(&e, m, &o, err) != TFT_OK)
        return 0;
    tft_embedder_describe(e, &info);
    bool good = info.width <= WIDTH && tft_embed(e, &text, 1, got) == TFT_OK;
    if (!good)
        *err = *tft_embedder_error(e);
    tft_embedder_close(e);
    return good ? info.width : 0;
}

/* Returns false if the results of a pooling are not the peer's. The peer may have none. */
static bool compare(const struct tft_model *m, const char *name, const char *suffix,
                    enum tft_pooling pooling, int *compared)
{
    static float got[TOKENS * WIDTH], want[LAST * WIDTH];
    struct tft_error err = {0};
    bool tokens = pooling == TFT_POOLING_TOKENS;
    double bound;
    size_t n = read_wanted(name, suffix, want, LAST * WIDTH, &bound);
    if (!n)
        return true;
    size_t width = compute(m, pooling, got, &err);
    if (!width || n != (tokens ? LAST * width : width)) {
        printf("%-20s%-13s %s\n", name, suffix, width ? "another width" : err.msg);
        return false;
    }
    double off = nmse(tokens ? got + (TOKENS - LAST) * width : got, want, n);
    printf("%-20s%-13s NMSE %.1e%s\n", name, suffix, off, off <= bound ? "" : ": too large");
    ++*compared;
    return off <= bound;
}

static bool check(const char *name)
{
    struct tft_error err = {0};
    struct tft_model *m = opened(name, &err);
    int compared = 0;
    if (!m) {
        printf("%-20s %s\n", name, err.msg);
        return false;
    }
    bool good = compare(m, name, "", TFT_POOLING_TOKENS, &compared);
    good &= compare(m, name, ".pooled", TFT_POOLING_NONE, &compared);
    good &= compare(m, name, ".pooled.mean", TFT_POOLING_MEAN, &compared);
    good &= compare(m, name, ".pooled.cls", TFT_POOLING_CLS, &compared);
    good &= compare(m, name, ".pooled.last", TFT_POOLING_LAST, &compared);
    tft_model_close(m);
    if (compared < 2)
        printf("%-20s the peer's numbers are missing\n", name);
    return good && compared >= 2;
}

int main(int argc, char **argv)
{
    bool good = true;
    if (!file("README", ".md")) {
        puts("skipped: shared/models/random: not found");
        return 77;
    }
    for (int i = 1; i < argc; i++)
        good &= check(argv[i]);
    return good ? 0 : 1;
}
