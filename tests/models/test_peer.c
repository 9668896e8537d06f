/*
 * Random models that llama.cpp has written, against the logits that it computes for them.
 *
 *      test_peer NAME[=CODES]...
 *
 * NAME.gguf and NAME.f32 are in shared/models/random: the logits of the last 8 of 96 tokens. If the
 * weights are quantized, these are the logits of the weights as floats; products on the codes,
 * which round activations, may be as far as CODES away.
 * NAME.exact.f32, if it exists, is by a build of llama.cpp that does not round GELU to f16, as
 * NAME.f32 does. If the folder does not exist, the exit status is 77, which meson takes for a
 * skipped test.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "tuffet.h"

enum { TOKENS = 96, LAST = 8, VOCAB = 283 /* at most */, CONTEXT = 512 /* at most */ };
#define MOST 1e-9 /* of the normalised mean squared error */

static const char *file(const char *name, const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "models/random/%s%s", name, suffix);
    return shared_path(path);
}

/* Returns the size of the vocabulary; 0: the logits are missing. want: [LAST, that size] */
static size_t read_logits(const char *name, float want[LAST * VOCAB])
{
    const char *path = file(name, ".exact.f32");
    path = path ? path : file(name, ".f32");
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(want, sizeof *want, LAST * VOCAB, f) : 0;
    if (f)
        fclose(f);
    return n % LAST ? 0 : n / LAST;
}

/*
 * Opens the peer's file. In OLMo 3's files, rope.scaling.attn_factor is the model's own factor of
 * cosines and sines (transformers: attention_factor). The peer takes it for a factor beside YaRN's
 * own, and multiplies by both. So for the peer's logits the file gets the product; without that,
 * they are 6e-3 apart.
 */
static bool open_as_peer(struct tft_model **m, const char *path, enum tft_weights weights,
                         struct tft_error *err)
{
    static _Alignas(64) unsigned char bytes[1 << 20]; /* as tft_model_open_mem wants it */
    static const char key[] = "olmo2.rope.scaling.attn_factor";
    struct tft_model_opts mo = {.size = sizeof mo, .n_threads = 2, .weights = weights};
    FILE *f = strstr(path, "olmo2-swa") ? fopen(path, "rb") : NULL;
    if (!f)
        return tft_model_open(m, path, &mo, err) == TFT_OK;
    size_t n = fread(bytes, 1, sizeof bytes, f), at = 0, len = sizeof key - 1;
    fclose(f);
    while (at + len + 8 < n && memcmp(bytes + at, key, len) != 0)
        at++;
    unsigned char *value = bytes + at + len + 4; /* after its type */
    float factor;
    memcpy(&factor, value, sizeof factor);
    factor *= (float)(0.1 * log(8) + 1);
    memcpy(value, &factor, sizeof factor);
    return at + len + 8 < n && tft_model_open_mem(m, bytes, n, &mo, err) == TFT_OK;
}

/* The context is the peer's: some models depend on its length. */
static bool compute(const char *path, enum tft_weights weights, float got[LAST * VOCAB],
                    size_t n_vocab, struct tft_error *err)
{
    struct tft_session_opts so = {
        .size = sizeof so, .kv = "f32", .n_logits = LAST, .n_threads = 2};
    struct tft_model_info info = {.size = sizeof info};
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    int32_t ids[TOKENS];
    bool good = open_as_peer(&m, path, weights, err);
    if (good)
        tft_model_describe(m, &info);
    so.capacity = info.n_ctx < CONTEXT ? info.n_ctx : CONTEXT;
    if (good && info.n_vocab != n_vocab)
        snprintf(err->msg, sizeof err->msg, "its vocabulary has %u tokens", info.n_vocab);
    good = good && info.n_vocab == n_vocab && tft_session_open(&s, m, &so, err) == TFT_OK;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (i * i * 7 + i * 31 + 11) % (int)n_vocab;
    good = good && tft_prefill(s, ids, TOKENS) == TFT_OK;
    for (size_t i = 0; i < LAST && good; i++)
        memcpy(got + i * n_vocab, tft_logits(s, LAST - 1 - i), n_vocab * sizeof *got);
    tft_session_close(s);
    tft_model_close(m);
    return good;
}

/* Returns false if the logits with these weights are farther than `most` from the peer's. */
static bool compare(const char *name, const char *path, enum tft_weights weights, double most,
                    const float want[LAST * VOCAB], size_t n_vocab)
{
    static float got[LAST * VOCAB];
    struct tft_error err = {0};
    double off = 0, size = 0;
    if (!compute(path, weights, got, n_vocab, &err)) {
        printf("%-16s %s\n", name, err.msg);
        return false;
    }
    for (size_t i = 0; i < LAST * n_vocab; i++) {
        double d = (double)got[i] - (double)want[i];
        off += d * d;
        size += (double)want[i] * (double)want[i];
    }
    printf("%-16s NMSE %.1e%s\n", name, off / size, off / size <= most ? "" : ": too large");
    return off / size <= most;
}

/* Returns false if the model is not the peer's. */
static bool check(const char *arg)
{
    static float want[LAST * VOCAB];
    char name[64];
    const char *codes = strchr(arg, '=');
    snprintf(name, sizeof name, "%.*s", codes ? (int)(codes - arg) : (int)strlen(arg), arg);
    const char *path = file(name, ".gguf");
    size_t n = path ? read_logits(name, want) : 0;
    if (!n) {
        printf("%-16s the file or its logits are missing\n", name);
        return false;
    }
    if (!codes)
        return compare(name, path, TFT_WEIGHTS_STORED, MOST, want, n);
    bool good = compare(name, path, TFT_WEIGHTS_F32, MOST, want, n);
    return compare(arg, path, TFT_WEIGHTS_STORED, strtod(codes + 1, NULL), want, n) && good;
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
