/*
 * Grammars beside llama.cpp's, on one thread: the same vocabulary, grammars and texts.
 *
 *      grammar_peer VOCAB
 *
 * VOCAB is a GGUF file. Texts are drawn from the masks of tuffet, as in grammar_speed. For each of
 * their tokens, llama.cpp's sampler judges all tokens of the vocabulary, then the one token alone,
 * and then takes it. Its candidates are fresh each time, and filling them is not measured. Exit
 * status 1 if tuffet allows a token that llama.cpp does not. llama.cpp allows more: it takes names
 * of special tokens for text, and bytes that never stand in UTF-8 for the start of a character.
 */
#include <llama.h>
#include <math.h>
#include <string.h>

#include "chat/tuffet_chat.h"
#include "grammars.h"

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 40}, "
    "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 130}, \"tags\": {\"type\": "
    "\"array\", \"items\": {\"enum\": [\"red\", \"green\", \"blue\"]}, \"maxItems\": 5}, \"mail\": "
    "{\"type\": \"string\", \"format\": \"email\"}, \"born\": {\"type\": \"string\", \"format\": "
    "\"date\"}}, \"required\": [\"name\", \"age\", \"mail\"]}";

/* Processor time, in microseconds, of the calls that are being compared. */
struct peer {
    struct tft_lexicon *lexicon;
    const struct llama_vocab *vocab;
    llama_token_data *candidate; /* [n] */
    uint32_t n;
    struct times mask, again, all;
    double takes, one, peer_takes;
    size_t more, fewer; /* tokens that only tuffet, or only llama.cpp, allows */
};

static double since(clock_t start) { return (double)(clock() - start) * 1e6 / CLOCKS_PER_SEC; }

static void apply(struct peer *p, struct llama_sampler *theirs, int32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p->candidate[i] = (llama_token_data){first + (int32_t)i, 0, 0};
    llama_token_data_array all = {p->candidate, n, -1, false};
    clock_t from = clock();
    llama_sampler_apply(theirs, &all);
    if (n > 1)
        add_time(&p->all, from);
    else
        p->one += since(from);
}

/* Goes one token on in both. Returns the token. */
static int32_t go_on(struct peer *p, struct tft_grammar_state *s, struct llama_sampler *theirs,
                     uint32_t *seed)
{
    clock_t from = clock();
    const uint32_t *mask = tft_grammar_mask(s);
    add_time(&p->mask, from);
    if (!mask)
        exit(1);
    int32_t id = draw(mask, p->n, seed);
    apply(p, theirs, 0, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        bool ours = mask[i / 32] >> i % 32 & 1, other = !isinf(p->candidate[i].logit);
        p->more += ours && !other;
        p->fewer += other && !ours;
    }
    apply(p, theirs, id, 1);
    from = clock();
    follow(s, id);
    p->takes += since(from);
    from = clock();
    llama_sampler_accept(theirs, id);
    p->peer_takes += since(from);
    return id;
}

static void repeat(struct peer *p, struct tft_grammar_state *s, const int32_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        clock_t from = clock();
        if (!tft_grammar_mask(s))
            exit(1);
        add_time(&p->again, from);
        follow(s, text[i]);
    }
}

static void compare(struct peer *p, const char *name, const char *text)
{
    struct tft_grammar *g;
    struct tft_grammar_state *s, *start;
    struct tft_error err;
    int32_t ids[TOKENS];
    uint32_t seed = 1;
    size_t tokens = 0, n;
    if (tft_grammar_open(&g, p->lexicon, TFT_GBNF, text, strlen(text), &err) != TFT_OK ||
        tft_grammar_begin(&start, g, &err) != TFT_OK)
        puts(err.msg), exit(1);
    p->takes = p->one = p->peer_takes = 0;
    for (int k = 0; k < TEXTS; k++, tokens += n) {
        struct llama_sampler *theirs = llama_sampler_init_grammar(p->vocab, text, "root");
        if (!theirs || tft_grammar_begin(&s, g, &err) != TFT_OK)
            exit(1);
        n = 0;
        do
            ids[n] = go_on(p, s, theirs, &seed);
        while (!llama_vocab_is_eog(p->vocab, ids[n++]) && n < TOKENS);
        if (tft_grammar_copy(s, start) != TFT_OK)
            exit(1);
        repeat(p, s, ids, n);
        tft_grammar_end(s);
        llama_sampler_free(theirs);
    }
    printf("%-13s", name);
    print_times("mask", &p->mask);
    print_times("again", &p->again);
    printf("  takes %.1f | llama.cpp", p->takes / (double)tokens);
    print_times("all", &p->all);
    printf("  one %.1f  takes %.1f\n", p->one / (double)tokens, p->peer_takes / (double)tokens);
    tft_grammar_end(start);
    tft_grammar_close(g);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)level, (void)text, (void)data;
}

int main(int argc, char **argv)
{
    static struct peer p;
    struct tft_model *m;
    struct tft_error err;
    struct tft_chat_text form;
    struct tft_model_opts o = {.size = sizeof o, .vocab_only = true};
    struct llama_model_params theirs = llama_model_default_params();
    theirs.vocab_only = true;
    llama_log_set(quiet, NULL);
    struct llama_model *peer = argc == 2 ? llama_model_load_from_file(argv[1], theirs) : NULL;
    if (!peer)
        return 2;
    if (tft_model_open(&m, argv[1], &o, &err) != TFT_OK ||
        tft_lexicon_open(&p.lexicon, m, &err) != TFT_OK ||
        tft_chat_schema(&form, schema, sizeof schema - 1, 0, &err) != TFT_OK)
        return puts(err.msg), 1;
    p.vocab = llama_model_get_vocab(peer);
    p.n = tft_lexicon_size(p.lexicon);
    p.candidate = malloc(p.n * sizeof *p.candidate);
    if (!p.candidate || (int32_t)p.n != llama_vocab_n_tokens(p.vocab))
        return 1;
    printf("%u tokens; us: median/worst, or the mean\n", p.n);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        if (grammars[i].kind == TFT_GBNF)
            compare(&p, grammars[i].name, grammars[i].text);
    compare(&p, "a schema", form.p);
    printf("only tuffet allows %zu tokens, only llama.cpp %zu\n", p.more, p.fewer);
    return p.more > 0;
}
