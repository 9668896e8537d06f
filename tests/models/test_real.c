/*
 * A trained model generates the same greedy tokens as the oracle in double precision.
 *
 *      test_real MODEL [TOKENIZER TEXT]
 *
 * MODEL is a downloaded model or a file in shared/models. If it does not exist, the exit status is
 * 77, which meson takes for a skipped test. TEXT, which another program generated, must be the text
 * of the tokens; TOKENIZER is a file in shared/models.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/oracle.h"
#include "paths.h"
#include "tuffet.h"

enum { TOKENS = 200, BOS = 1 };

static int32_t likeliest(const double *logits, uint32_t n)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = (int32_t)i;
    return best;
}

/* ids: [TOKENS], the oracle's text after BOS. False if it cannot read the model. */
static bool expect(const char *path, int32_t *ids)
{
    struct tft_source s;
    struct oracle *o = NULL;
    bool good = tft_source_open(&s, path, NULL, NULL, NULL) == TFT_OK &&
                (o = oracle_open(&s, TOKENS));
    int32_t id = BOS;
    for (int i = 0; i < TOKENS && good; i++)
        ids[i] = id = likeliest(oracle_step(o, id), oracle_vocab(o));
    oracle_close(o);
    if (good)
        tft_source_close(&s);
    return good;
}

/* How many of the first tokens are the expected ones. */
static int agree(const struct tft_model *m, const char *kv, const int32_t *expected)
{
    struct tft_session_opts o = {.size = sizeof o, .kv = kv, .n_threads = 1};
    struct tft_sampler greedy = {0};
    struct tft_session *s;
    if (tft_session_open(&s, m, &o, NULL) != TFT_OK)
        return 0;
    int32_t id = BOS;
    int n = 0;
    while (n < TOKENS && tft_decode(s, id) == TFT_OK &&
           (id = tft_sample(&greedy, s)) == expected[n])
        n++;
    tft_session_close(s);
    return n;
}

/* Whether the tokens say exactly `text`. */
static bool says(const struct tft_model *m, const int32_t *ids, const char *text)
{
    struct tft_text t = {0};
    char piece[TFT_TEXT_MAX];
    for (int i = 0; i < TOKENS; i++) {
        size_t n = tft_text_push(&t, m, ids[i], piece);
        if (strncmp(text, piece, n) != 0)
            return false;
        text += n;
    }
    return !*text;
}

int main(int argc, char **argv)
{
    char in_shared[256];
    snprintf(in_shared, sizeof in_shared, "models/%s", argv[1]);
    const char *path = model_path(argv[1]), *tokenizer = NULL;
    path = path ? path : shared_path(in_shared);
    if (argc == 4) {
        snprintf(in_shared, sizeof in_shared, "models/%s", argv[2]);
        tokenizer = shared_path(in_shared);
    }
    if (!path || (argc == 4 && !tokenizer)) {
        printf("skipped: %s: not found\n", path ? argv[2] : argv[1]);
        return 77;
    }

    struct tft_model_opts o = {.size = sizeof o, .tokenizer = tokenizer};
    struct tft_model *m;
    struct tft_error err;
    int32_t expected[TOKENS];
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        return puts(err.msg), 1;
    if (!expect(path, expected))
        return puts("the oracle cannot open the model"), 1;
    int f32 = agree(m, "f32", expected), f16 = agree(m, "f16", expected);
    bool text = !tokenizer || says(m, expected, argv[3]);
    printf("%d of %d tokens agree with an f32 cache, %d with f16; the text %s\n", f32, TOKENS, f16,
           !tokenizer ? "is not checked" : text ? "is right" : "is wrong");
    tft_model_close(m);
    return f32 == TOKENS && f16 == TOKENS && text ? 0 : 1;
}
