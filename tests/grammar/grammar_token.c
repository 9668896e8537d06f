/*
 * The time that a grammar adds to a token: of a model of random weights with the shape of
 * llama-3.2-1b, on one thread.
 *
 *      grammar_token VOCAB [BITS]
 *
 * VOCAB is a GGUF file of 128,256 tokens, BITS the bits of a weight (8). In each round a session
 * draws TOKENS tokens without a grammar, and as many with each grammar, in new states that make
 * their masks for the first time. Processor time; the median of the rounds.
 */
#define _POSIX_C_SOURCE 200809L
#include "grammars.h"

#include <string.h>

#include "folder.h"
#include "tools/bench/shape.h"

enum { ROUNDS = 5, N = sizeof grammars / sizeof *grammars };

struct run {
    struct tft_session *s;
    struct tft_sampler z;
    const struct tft_model *vocab;
};

static int by_ms(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Milliseconds of a token. g: NULL: without a grammar */
static double token_ms(struct run *r, const struct tft_grammar *g)
{
    const int32_t start[] = {1, 2, 3, 4};
    struct tft_grammar_state *state = NULL;
    if (tft_rewind(r->s, 0) != TFT_OK || tft_prefill(r->s, start, 4) != TFT_OK ||
        (g && tft_grammar_begin(&state, g, NULL) != TFT_OK))
        exit(1);
    clock_t from = clock();
    for (int i = 0; i < TOKENS; i++) {
        r->z.grammar = state;
        int32_t id = tft_sample(&r->z, r->s);
        if (id < 0 || tft_decode(r->s, id) != TFT_OK)
            exit(1);
        if (g && tft_token_ends(r->vocab, id)) { /* the next text */
            tft_grammar_end(state);
            if (tft_grammar_begin(&state, g, NULL) != TFT_OK)
                exit(1);
        }
    }
    double ms = (double)(clock() - from) * 1000 / CLOCKS_PER_SEC / TOKENS;
    tft_grammar_end(state);
    return ms;
}

static struct tft_model *write_and_open(unsigned bits, struct tft_error *err)
{
    struct shape_opts o = {.name = "llama-3.2-1b", .bits = bits, .range = SHAPE_STATIC};
    struct tft_model *m = NULL;
    if (make_folder(NULL) != 0)
        return NULL;
    const char *path = in_folder("shape.gguf");
    if (shape_write(&o, path, err) == TFT_OK && tft_model_open(&m, path, NULL, err) != TFT_OK)
        m = NULL;
    remove_folder(NULL); /* the file stays mapped */
    return m;
}

int main(int argc, char **argv)
{
    struct tft_model_opts vocab_only = {.size = sizeof vocab_only, .vocab_only = true};
    struct tft_session_opts so = {.size = sizeof so, .n_threads = 1, .capacity = 2 * TOKENS};
    struct tft_model *m, *vocab;
    struct tft_lexicon *lx;
    struct tft_grammar *g[N];
    struct tft_error err = {0};
    struct run r = {.z = {.temperature = 1, .seed = 1}};
    double ms[N + 1][ROUNDS];
    if (argc < 2 || tft_model_open(&vocab, argv[1], &vocab_only, &err) != TFT_OK ||
        tft_lexicon_open(&lx, vocab, &err) != TFT_OK ||
        !(m = write_and_open(argc > 2 ? (unsigned)atoi(argv[2]) : 8, &err)) ||
        tft_session_open(&r.s, m, &so, &err) != TFT_OK)
        return puts(err.msg), 1;
    r.vocab = vocab;
    for (int i = 0; i < N; i++)
        if (tft_grammar_open(&g[i], lx, grammars[i].kind, grammars[i].text,
                             strlen(grammars[i].text), &err) != TFT_OK)
            return puts(err.msg), 1;
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i <= N; i++)
            ms[i][k] = token_ms(&r, i ? g[i - 1] : NULL);
    for (int i = 0; i <= N; i++) {
        qsort(ms[i], ROUNDS, sizeof *ms[i], by_ms);
        printf("%-14s %7.2f ms a token  %+.1f %%\n", i ? grammars[i - 1].name : "no grammar",
               ms[i][ROUNDS / 2], (ms[i][ROUNDS / 2] / ms[0][ROUNDS / 2] - 1) * 100);
    }
    for (int i = 0; i < N; i++)
        tft_grammar_close(g[i]);
    tft_session_close(r.s);
    tft_lexicon_close(lx);
    tft_model_close(m);
    tft_model_close(vocab);
    return 0;
}
