/*
 * The processor time that grammars take, on one thread.
 *
 *      grammar_speed VOCAB
 *
 * VOCAB is the path of a GGUF file, or a file of the folder shared/. Each grammar is compiled, and
 * texts are drawn from it, token by token. Each text has a new state, which makes the masks for the
 * first time. The text is then repeated in the same state, which has kept the masks. Exit status 77
 * if the file is missing.
 */
#include <string.h>

#include "grammars.h"
#include "paths.h"

static struct times first, again, alone;

static double ms_since(clock_t start)
{
    return (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
}

/* Draws a text in the new state s, and goes over it twice more: `start` is at its beginning. */
static void measure(struct tft_grammar_state *s, const struct tft_grammar_state *start,
                    const struct tft_tokenizer *t, uint32_t n_vocab, uint32_t *seed)
{
    int32_t text[TOKENS];
    size_t n = 0;
    clock_t from;
    do {
        from = clock();
        const uint32_t *mask = tft_grammar_mask(s);
        add_time(&first, from);
        text[n] = mask ? draw(mask, n_vocab, seed) : -1;
        follow(s, text[n]);
    } while (!tft_tokenizer_ends(t, text[n++]) && n < TOKENS);
    for (int masks = 1; masks >= 0; masks--) {
        if (tft_grammar_copy(s, start))
            exit(1);
        for (size_t i = 0; i < n; i++) {
            from = clock();
            bool may = masks ? tft_grammar_mask(s) != NULL : tft_grammar_allows(s, text[i]);
            add_time(masks ? &again : &alone, from);
            if (!may)
                exit(1);
            follow(s, text[i]);
        }
    }
}

static bool measure_grammar(const struct tft_lexicon *lx, const struct tft_tokenizer *t, size_t i)
{
    struct tft_grammar *g;
    struct tft_grammar_state *s, *start;
    struct tft_error err;
    uint32_t seed = 1;
    clock_t from = clock();
    if (tft_grammar_open(&g, lx, grammars[i].kind, grammars[i].text, strlen(grammars[i].text),
                         &err))
        return puts(err.msg), false;
    printf("%-14s compiled in %4.1f ms", grammars[i].name, ms_since(from));
    if (tft_grammar_begin(&start, g, NULL))
        return false;
    for (int k = 0; k < TEXTS; k++) {
        if (tft_grammar_begin(&s, g, NULL))
            return false;
        measure(s, start, t, tft_lexicon_size(lx), &seed);
        tft_grammar_end(s);
    }
    print_times("new masks", &first);
    print_times("again", &again);
    print_times("tokens alone", &alone);
    puts("");
    tft_grammar_end(start);
    tft_grammar_close(g);
    return true;
}

int main(int argc, char **argv)
{
    const char *path = argc != 2 ? NULL : *argv[1] == '/' ? argv[1] : shared_path(argv[1]);
    struct tft_source source;
    struct tft_tokenizer *t;
    struct tft_lexicon *lx;
    struct tft_error err;
    if (!path)
        return 77;
    if (tft_source_open(&source, path, NULL, NULL, &err) ||
        tft_tokenizer_open(&t, &source, NULL, &err))
        return puts(err.msg), 1;
    tft_source_close(&source);
    clock_t start = clock();
    if (tft_lexicon_make(&lx, t, NULL, &err))
        return puts(err.msg), 1;
    printf("%u tokens, sorted in %.0f ms; median/worst in us\n", tft_lexicon_size(lx),
           ms_since(start));
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        if (!measure_grammar(lx, t, i))
            return 1;
    tft_lexicon_close(lx);
    tft_tokenizer_close(t);
    return 0;
}
