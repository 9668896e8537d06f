/*
 * Whether texts match the grammar of a schema: match MODEL SCHEMA reads one text per line, and
 * prints 1 or 0 for each. The model must have a token for each byte. If the schema is refused,
 * prints the message, and the exit status is 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/tuffet_chat.h"

static int32_t token_of[256];

static void find_bytes(const struct tft_model *m)
{
    size_t n;
    const char *p;
    for (int32_t id = 0; (p = tft_token_text(m, id, false, &n)) != NULL; id++)
        if (n == 1)
            token_of[(unsigned char)*p] = id;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 24);
    if (!f || !text)
        exit(2);
    *n = fread(text, 1, 1 << 24, f);
    fclose(f);
    return text;
}

static int match(const struct tft_grammar *g, const char *text)
{
    struct tft_grammar_state *s;
    int does = 1;
    if (tft_grammar_begin(&s, g, NULL) != TFT_OK)
        exit(2);
    for (; does && *text; text++)
        does = tft_grammar_accept(s, token_of[(unsigned char)*text]) == TFT_OK;
    does = does && tft_grammar_can_end(s);
    tft_grammar_end(s);
    return does;
}

int main(int argc, char **argv)
{
    static char line[1 << 20];
    struct tft_model *m;
    struct tft_lexicon *lx;
    struct tft_grammar *g;
    struct tft_chat_text text;
    struct tft_error err;
    struct tft_model_opts o = {.size = sizeof o, .vocab_only = true};
    size_t n;
    if (argc != 3 || tft_model_open(&m, argv[1], &o, NULL) != TFT_OK ||
        tft_lexicon_open(&lx, m, NULL) != TFT_OK)
        return 2;
    char *schema = read_file(argv[2], &n);
    find_bytes(m);
    if (tft_chat_schema(&text, schema, n, 0, &err) != TFT_OK ||
        tft_grammar_open(&g, lx, TFT_GBNF, text.p, text.n, &err) != TFT_OK) {
        puts(err.msg);
        return 3;
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        printf("%d\n", match(g, line));
    }
    tft_grammar_close(g);
    tft_chat_text_free(&text);
    tft_lexicon_close(lx);
    tft_model_close(m);
    free(schema);
    return 0;
}
