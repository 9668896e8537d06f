/*
 * The input is a grammar and the tokens that are drawn under it.
 *
 *      byte 0: GBNF or a regular expression; a vocabulary with all bytes, or without some
 *      then the grammar, a NUL, and a byte for each token
 *
 * Whatever the grammar is, the mask agrees with tft_grammar_allows and tft_grammar_accept on each
 * token, and with feeding the token's bytes one by one. Until the text has ended, some token may
 * come.
 */
#include "fuzz.h"

#include <stdio.h>

#include "values.h"
#include "grammar/grammar.h"
#include "text/vocab.h"

enum { STEPS = 10, WORD = 4 + 256 }; /* WORD: the first token that is no byte */

static const char *const words[] = {
    "a",    "ab",   "abc",  "b",          "ba",           "aaaa",         "\"",   "\"a",
    "a\"",  "\":",  "\"}}", "{",          "{\"",          "[",            "]]",   ",",
    ":",    "1",    "12",   "-1",         "0.5",          "tr",           "ue",   "\\",
    "\\n",  "\\u",  "x",    "xx",         "x\"y",         "(",            ")",    "()",
    "((",   " ",    "  ",   "\n",         "abab",         "\xc3\xa9",     "zz",   "\xc3\xa9t",
    "\xe2\x82\xac", "\xe2\x82", "\xac\"", "\xf0\x9f\x98\x80", "zzzzzzzzzzzzzzzz"};
enum { VOCAB = WORD + sizeof words / sizeof *words };

struct walk {
    const struct tft_tokenizer *t;
    struct tft_grammar_state *s, *scratch;
    bool bytes; /* tokens are no more than their bytes: the grammar names none */
};

/* A vocabulary of bytes and words. Without some bytes: no byte above 0x7f, nor z. */
static struct tft_tokenizer *open_tokens(bool all_bytes)
{
    static struct values values;
    static char text[256][8];
    const char *name[VOCAB] = {"<unk>", "<s>", "</s>", "<think>"};
    int32_t type[VOCAB] = {TFT_TOKEN_UNKNOWN, TFT_TOKEN_CONTROL, TFT_TOKEN_CONTROL,
                           TFT_TOKEN_CONTROL};
    float score[VOCAB] = {0};
    struct tft_tokenizer *t;
    for (int i = 4; i < (int)VOCAB; i++) {
        int byte = i - 4;
        bool left_out = !all_bytes && (byte == 'z' || byte > 0x7f);
        type[i] = i >= WORD ? TFT_TOKEN_NORMAL : left_out ? TFT_TOKEN_UNUSED : TFT_TOKEN_BYTE;
        name[i] = i >= WORD ? words[i - WORD] : text[byte];
        if (i < WORD)
            sprintf(text[byte], "<0x%02X>", (unsigned)byte);
    }
    values_start(&values);
    values_str(&values, "tokenizer.ggml.model", "llama");
    values_strs(&values, "tokenizer.ggml.tokens", name, VOCAB);
    values_f32s(&values, "tokenizer.ggml.scores", score, VOCAB);
    values_i32s(&values, "tokenizer.ggml.token_type", type, VOCAB);
    MUST(tft_tokenizer_open(&t, values_source(&values), NULL, NULL) == TFT_OK);
    return t;
}

static bool has_all_bytes(const struct walk *w, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (w->t->token[4 + (unsigned char)p[i]].kind != TFT_TOKEN_BYTE)
            return false;
    return true;
}

/* The state after the bytes of a token, one after another; -1: the state cannot follow them. */
static int fits(const struct walk *w, int32_t id)
{
    size_t n;
    const char *p = tft_tokenizer_text(w->t, id, false, &n);
    MUST(tft_grammar_copy(w->scratch, w->s) == TFT_OK);
    for (size_t i = 0; i < n; i++) {
        enum tft_status status = tft_grammar_accept(w->scratch, 4 + (unsigned char)p[i]);
        if (status)
            return status == TFT_ERR_ARG ? 0 : -1;
    }
    return n > 0;
}

/* After an error no token may come, and nothing else happens. */
static void check_failed(const struct walk *w)
{
    MUST(!tft_grammar_mask(w->s) && !tft_grammar_can_end(w->s));
    MUST(!tft_grammar_allows(w->s, WORD) && !tft_grammar_allows(w->s, 2));
    MUST(tft_grammar_accept(w->s, WORD) == TFT_ERR_UNSUPPORTED);
    MUST(tft_grammar_copy(w->scratch, w->s) == TFT_ERR_UNSUPPORTED);
}

/* Takes the next token: the `choice`th of the allowed ones. False: the text has ended. */
static bool step(const struct walk *w, unsigned choice)
{
    bool alone[VOCAB];
    int32_t may[VOCAB];
    unsigned n = 0;
    for (int32_t id = 0; id < VOCAB; id++)
        alone[id] = tft_grammar_allows(w->s, id);
    const uint32_t *mask = tft_grammar_mask(w->s);
    if (!mask) {
        check_failed(w);
        return false;
    }
    for (int32_t id = 0; id < VOCAB; id++) {
        size_t len;
        const char *p = tft_tokenizer_text(w->t, id, false, &len);
        bool in = mask[id / 32] >> id % 32 & 1;
        MUST(in == alone[id]);
        if (in)
            may[n++] = id;
        if (w->bytes && id >= WORD && has_all_bytes(w, p, len)) {
            int fit = fits(w, id);
            MUST(fit < 0 || fit == in);
        }
        MUST(id != 2 || in == tft_grammar_can_end(w->s) || !w->bytes);
    }
    MUST(n > 0);
    int32_t id = may[choice % n];
    enum tft_status status = tft_grammar_accept(w->s, id);
    if (status) {
        MUST(status == TFT_ERR_UNSUPPORTED);
        check_failed(w);
    }
    return !status && id != 2;
}

static void draw(struct walk *w, const struct tft_grammar *g, const uint8_t *p, size_t n)
{
    struct tft_error err = {0};
    enum tft_status status = tft_grammar_begin(&w->s, g, &err);
    MUST(!status || (status == TFT_ERR_UNSUPPORTED && !w->s && err.code == status));
    MUST(tft_grammar_begin(&w->scratch, g, NULL) == status);
    for (size_t i = 0; !status && i < STEPS && i < n; i++)
        if (!step(w, p[i]))
            break;
    tft_grammar_end(w->scratch);
    tft_grammar_end(w->s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tft_tokenizer *t[2];
    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    struct tft_error err = {0};
    struct tft_lexicon *lx;
    struct tft_grammar *g;
    unsigned how = size ? *data++ : 0;
    size -= size > 0;
    if (!t[0])
        for (int i = 0; i < 2; i++)
            t[i] = open_tokens(i == 0);
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    struct walk w = {.t = t[how / 2 % 2], .bytes = how % 2 || !n || !memchr(data, '<', n)};
    MUST(tft_lexicon_make(&lx, w.t, &a, NULL) == TFT_OK);
    enum tft_status status = tft_grammar_open(&g, lx, how % 2 ? TFT_REGEX : TFT_GBNF,
                                              (const char *)data, n, &err);
    if (status) {
        MUST(!g && err.code == status && !strchr(err.msg, '\n'));
        MUST(status == TFT_ERR_FORMAT || status == TFT_ERR_UNSUPPORTED);
        MUST(strncmp(err.msg, "grammar: ", 9) == 0 && err.offset <= n);
    } else if (end)
        draw(&w, g, end + 1, size - n - 1);
    tft_grammar_close(g);
    tft_lexicon_close(lx);
    MUST(!mem.in_use && mem.peak < 512 << 20);
    return 0;
}
