/*
 * Texts of the grammars of schemas, as a model of random weights draws them:
 *
 *      draw MODEL SEED N
 *
 * reads a schema a line, with `o` before it or, for properties in any order, `a`. Prints for each
 * schema N lines and a line `.`: `=` and a text, or `~` for a text that did not end; or, if the
 * schema is refused, `!` and the message in place of the texts. Temperatures are 1.5 to 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/tuffet_chat.h"

enum {
    LONG = 60,  /* from so many tokens on, the text is led to its end */
    MOST = 400, /* tokens of a text */
};

struct drawer {
    struct tft_model *m;
    struct tft_session *session;
    struct tft_lexicon *lexicon;
    struct tft_sampler z;
    int32_t byte[256]; /* the token of this byte; -1: none */
};

static void open_all(struct drawer *d, const char *path, const char *seed)
{
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1, .n_batch = 16};
    size_t n;
    const char *p;
    d->z.seed = strtoull(seed, NULL, 10);
    memset(d->byte, 0xff, sizeof d->byte);
    if (tft_model_open(&d->m, path, NULL, NULL) != TFT_OK ||
        tft_lexicon_open(&d->lexicon, d->m, NULL) != TFT_OK ||
        tft_session_open(&d->session, d->m, &o, NULL) != TFT_OK || tft_capacity(d->session) < MOST)
        exit(2);
    for (int32_t id = 0; (p = tft_token_text(d->m, id, false, &n)) != NULL; id++)
        if (n == 1)
            d->byte[(unsigned char)*p] = id;
}

/* The token that ends a text soonest, where one of these may come; else one that is drawn. */
static int32_t last_token(struct drawer *d, struct tft_grammar_state *s)
{
    for (const char *p = "}]\""; *p; p++)
        if (tft_grammar_accept(s, d->byte[(unsigned char)*p]) == TFT_OK)
            return d->byte[(unsigned char)*p];
    return tft_grammar_can_end(s) ? tft_token_eos(d->m) : tft_sample(&d->z, d->session);
}

enum step { GOES_ON, HAS_ENDED, TOO_LONG };

/* Appends the next tokens to the session. */
static enum step go_on(struct drawer *d, struct tft_grammar_state *s, bool forces)
{
    int32_t ids[64];
    size_t n = forces ? tft_grammar_forced(s, ids, 64) : 0;
    if (!n) {
        if (tft_grammar_is_done(s))
            return HAS_ENDED;
        ids[0] = tft_pos(d->session) > LONG ? last_token(d, s) : tft_sample(&d->z, d->session);
        if (ids[0] < 0)
            fprintf(stderr, "draw: no token may come\n"), exit(1);
        if (tft_token_ends(d->m, ids[0]))
            return HAS_ENDED;
        n = 1;
    }
    if (tft_pos(d->session) + n > MOST)
        return TOO_LONG;
    if (tft_prefill(d->session, ids, n) != TFT_OK)
        exit(2);
    return GOES_ON;
}

static void draw_text(struct drawer *d, struct tft_grammar_state *s, int k)
{
    int32_t start[3];
    size_t n;
    for (int i = 0; i < 3; i++) /* any tokens, so that no two texts begin in the same way */
        start[i] = d->byte['a' + (d->z.seed >> 8 * i) % 26];
    d->z.temperature = 1.5f + (float)(k % 4) / 2;
    d->z.grammar = s;
    if (tft_rewind(d->session, 0) != TFT_OK || tft_prefill(d->session, start, 3) != TFT_OK)
        exit(2);
    enum step step;
    while ((step = go_on(d, s, k % 2)) == GOES_ON)
        ;
    if (step == TOO_LONG) {
        puts("~");
        return;
    }
    putchar('=');
    for (size_t i = 3; i < tft_pos(d->session); i++) {
        const char *p = tft_token_text(d->m, tft_tokens(d->session)[i], false, &n);
        fwrite(p, 1, n, stdout);
    }
    putchar('\n');
}

static void draw_texts(struct drawer *d, const struct tft_grammar *g, int n)
{
    for (int k = 0; k < n; k++) {
        struct tft_grammar_state *s;
        if (tft_grammar_begin(&s, g, NULL) != TFT_OK)
            exit(2);
        draw_text(d, s, k);
        tft_grammar_end(s);
    }
}

int main(int argc, char **argv)
{
    static char line[1 << 20];
    static struct drawer d;
    if (argc != 4)
        return 2;
    open_all(&d, argv[1], argv[2]);
    while (fgets(line, sizeof line, stdin)) {
        struct tft_chat_text text = {0};
        struct tft_grammar *g = NULL;
        struct tft_error err;
        size_t n = strcspn(line, "\n");
        if (!n || tft_chat_schema(&text, line + 1, n - 1, *line == 'a' ? TFT_SCHEMA_ANY_ORDER : 0,
                                  &err) != TFT_OK ||
            tft_grammar_open(&g, d.lexicon, TFT_GBNF, text.p, text.n, &err) != TFT_OK)
            printf("!%s\n", n ? err.msg : "no schema");
        else
            draw_texts(&d, g, atoi(argv[3]));
        puts(".");
        tft_grammar_close(g);
        tft_chat_text_free(&text);
    }
    tft_session_close(d.session);
    tft_lexicon_close(d.lexicon);
    tft_model_close(d.m);
    return 0;
}
