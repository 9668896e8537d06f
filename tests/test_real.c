/*
 * A model that was trained: greedy text, token for token what the oracle's double precision gives.
 *
 *      test_real MODEL [TOKENIZER TEXT]
 *
 * MODEL is among the downloaded ones or in shared/models; exit status 77 if it is not there. TEXT
 * is what the tokens of TOKENIZER, in shared/models, are to say: the word of another program.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
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

/* The oracle's text after BOS. */
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

/* The number of tokens that are the same, from the first on. */
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
        printf("%s is not there: skipped\n", path ? argv[2] : argv[1]);
        return 77;
    }

    struct tft_model_opts o = {.size = sizeof o, .tokenizer = tokenizer};
    struct tft_model *m;
    struct tft_error err;
    int32_t expected[TOKENS];
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        return puts(err.msg), 1;
    if (!expect(path, expected))
        return puts("the oracle does not open it"), 1;
    int f32 = agree(m, "f32", expected), f16 = agree(m, "f16", expected);
    bool text = !tokenizer || says(m, expected, argv[3]);
    printf("%d tokens agree with an f32 cache, %d with f16, of %d; the text %s\n", f32, f16, TOKENS,
           !tokenizer ? "is not looked at" : text ? "is right" : "is another");
    tft_model_close(m);
    return f32 == TOKENS && f16 == TOKENS && text ? 0 : 1;
}
