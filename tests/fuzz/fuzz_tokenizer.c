/*
 * Any text with a small valid vocabulary, or with one that the input makes up.
 *
 *      byte 0: which vocabulary; if it is made up, its parts follow (see vocab.h); the
 *      rest is text
 */
#include "vocab.h"

#include <stdio.h>

#include "text/tokenizer.h"
#include "text/unigram.h"
#include "base/utf8.h"

/* ---- valid vocabularies that have every byte: every text is decoded to itself */

#define LOW "\xe2\x96\x81" /* U+2581 */
static const char *const some_words[] = {LOW,        "a",    "b",    "c",     "ab",       "bc",
                                         "abc",      "aa",   "aaaa", LOW "a", LOW "ab",   LOW LOW,
                                         "\xc3\xa9", "\n\n", "<",    "<t",    "a\xc3\xa9"};
static const char *const some_merges[] = {"a b",
                                          "b c",
                                          "ab c",
                                          "a a",
                                          "aa aa",
                                          "\xc4\xa0 a",
                                          "\xc4\xa0 \xc4\xa0",
                                          "\xc3\x83 \xc2\xa9",
                                          "\xc4\xa0 ab",
                                          "1 2",
                                          "12 3",
                                          "' s"};

enum {
    N_WORDS = sizeof some_words / sizeof *some_words,
    N_MERGES = sizeof some_merges / sizeof *some_merges
};
enum { N_SOUND = 5, ROOM = 3 + 256 + 32 };

struct tokens {
    char text[ROOM][32];
    const char *p[ROOM];
    float score[ROOM];
    int32_t type[ROOM];
    size_t n;
};

static void add(struct tokens *t, const char *text, int32_t type, float score)
{
    snprintf(t->text[t->n], sizeof t->text[0], "%s", text);
    t->p[t->n] = t->text[t->n];
    t->type[t->n] = type;
    t->score[t->n++] = score;
}

static void add_spm(struct tokens *t, bool user)
{
    char text[8];
    for (int b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        add(t, text, TFT_TOKEN_BYTE, 0);
    }
    for (size_t i = 0; i < N_WORDS; i++)
        add(t, some_words[i], TFT_TOKEN_NORMAL, -(float)(i * 7 % 5));
    add(t, "<t>", user ? TFT_TOKEN_USER : TFT_TOKEN_CONTROL, 0);
    add(t, "<t>a", user ? TFT_TOKEN_USER : TFT_TOKEN_CONTROL, 0);
}

static void write_byte(unsigned b, char out[4])
{
    bool as_is = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
    unsigned c = as_is ? b : b < 0x21 ? 0x100 + b : b < 0xa1 ? 0x121 + b - 0x7f : 0x143;
    if (c < 0x80)
        snprintf(out, 4, "%c", (char)c);
    else
        snprintf(out, 4, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
}

static void add_bpe(struct tokens *t)
{
    char text[32];
    for (unsigned b = 0; b < 256; b++) {
        write_byte(b, text);
        add(t, text, TFT_TOKEN_NORMAL, 0);
    }
    for (size_t i = 0; i < N_MERGES; i++) {
        const char *cut = strchr(some_merges[i], ' ');
        snprintf(text, sizeof text, "%.*s%s", (int)(cut - some_merges[i]), some_merges[i], cut + 1);
        add(t, text, TFT_TOKEN_NORMAL, 0);
    }
    add(t, "<t>", TFT_TOKEN_USER, 0);
    add(t, "<t>a", TFT_TOKEN_USER, 0);
    add(t, "  ", TFT_TOKEN_USER, 0);
}

/* 0, 1: SentencePiece, with a space first or with user tokens; 2, 3, 4: byte-level BPE. */
static void make_sound(unsigned which)
{
    static const char *const pre[] = {"gpt-2", "deepseek-v3", "gpt-4o"};
    struct tokens t = {.n = 0};
    add(&t, "<unk>", TFT_TOKEN_UNKNOWN, 0);
    add(&t, "<s>", TFT_TOKEN_CONTROL, 0);
    add(&t, "</s>", TFT_TOKEN_CONTROL, 0);
    values_str(&values, "tokenizer.ggml.model", which < 2 ? "llama" : "gpt2");
    if (which < 2)
        add_spm(&t, which == 1);
    else
        add_bpe(&t);
    if (which == 1)
        values_bool(&values, "tokenizer.ggml.add_space_prefix", false);
    if (which >= 2)
        values_str(&values, "tokenizer.ggml.pre", pre[which - 2]);
    values_strs(&values, "tokenizer.ggml.tokens", t.p, t.n);
    values_f32s(&values, "tokenizer.ggml.scores", t.score, t.n);
    values_i32s(&values, "tokenizer.ggml.token_type", t.type, t.n);
    values_strs(&values, "tokenizer.ggml.merges", some_merges, N_MERGES);
    values_u32(&values, "tokenizer.ggml.bos_token_id", 1);
    values_u32(&values, "tokenizer.ggml.eos_token_id", 2);
}

/* ---- checks */

/* Decodes the ids one by one, and compares with the bytes of the tokens. */
static void check_stream(const struct tft_tokenizer *t, const int32_t *ids, size_t n, bool started)
{
    struct tft_text state = {.started = started};
    for (size_t i = 0; i <= n; i++) {
        char out[TFT_TEXT_MAX];
        size_t len = tft_tokenizer_push(t, &state, i < n ? ids[i] : -1, out);
        MUST(len <= sizeof out && state.held <= 3);
        for (size_t at = 0; at < len;) {
            uint32_t c;
            at += tft_utf8_next(out + at, len - at, &c);
            MUST(c < TFT_UTF8_BAD);
        }
    }
    MUST(state.held == 0);
}

static void check_restored(const struct tft_tokenizer *t, const int32_t *ids, size_t n,
                           const char *text, size_t len)
{
    size_t at = 0, k;
    for (size_t i = 0; i < n; i++) {
        const char *p = tft_tokenizer_text(t, ids[i], false, &k);
        bool space = i == 0 && t->space_first;
        MUST(!space || (k && *p == ' '));
        for (size_t j = space; j < k; j++, at++) {
            /* becomes a space */
            bool low = t->by_character && len - at >= 3 && !memcmp(text + at, LOW, 3);
            MUST(at < len && p[j] == (low ? ' ' : text[at]));
            at += low ? 2 : 0;
        }
    }
    MUST(at == len);
}

static void check_text(const struct tft_tokenizer *t, const char *text, size_t len, bool complete)
{
    for (unsigned flags = 0; flags < 4; flags++) { /* TFT_ADD_BOS, TFT_PARSE_SPECIAL */
        size_t n, count, some = len / 2 + 1;
        MUST(tft_tokenizer_encode(t, text, len, flags, NULL, 0, &count) == TFT_OK);
        int32_t *ids = malloc((count + 1) * sizeof *ids), *few = malloc(some * sizeof *few);
        MUST(ids && few && tft_tokenizer_encode(t, text, len, flags, ids, count, &n) == TFT_OK &&
             n == count);
        MUST(tft_tokenizer_encode(t, text, len, flags, few, some, &n) == TFT_OK && n == count);
        MUST(memcmp(few, ids, (some < n ? some : n) * sizeof *ids) == 0);
        for (size_t i = 0; i < n; i++) {
            MUST(ids[i] >= 0 && (uint32_t)ids[i] < tft_tokenizer_size(t));
            unsigned kind = t->token[ids[i]].kind;
            MUST(flags || ids[i] == t->unknown ||
                 (kind != TFT_TOKEN_CONTROL && kind != TFT_TOKEN_UNUSED));
        }
        check_stream(t, ids, n, flags & 1);
        if (complete && !flags)
            check_restored(t, ids, n, text, len);
        free(ids);
        free(few);
    }
}

/* Cuts the text into a pair. */
static void check_pair(const struct tft_tokenizer *t, const char *text, size_t len)
{
    struct tft_str first = {text, len / 2}, second = {text + len / 2, len - len / 2};
    for (unsigned flags = 0; flags < 4; flags++) {
        size_t n, count;
        enum tft_status status =
            tft_tokenizer_encode_pair(t, first, second, flags, NULL, NULL, 0, &count);
        MUST(status == (t->add_eos || t->add_sep ? TFT_OK : TFT_ERR_UNSUPPORTED));
        if (status)
            return;
        int32_t *ids = malloc((count + 1) * sizeof *ids);
        unsigned char *types = malloc(count + 1);
        MUST(ids && types &&
             tft_tokenizer_encode_pair(t, first, second, flags, ids, types, count, &n) == TFT_OK &&
             n == count);
        for (size_t i = 0; i < n; i++)
            MUST(ids[i] >= 0 && (uint32_t)ids[i] < tft_tokenizer_size(t) && types[i] <= 1 &&
                 (!i || types[i] >= types[i - 1]));
        free(ids);
        free(types);
    }
}

/* Decodes ids in an order that no text gives. */
static void check_any_ids(const struct tft_tokenizer *t, const uint8_t *p, size_t len)
{
    int32_t ids[256];
    size_t n = len < 256 ? len : 256;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(p[i] * 3 % (tft_tokenizer_size(t) + 2)) - 1;
    check_stream(t, ids, n, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct memory m = {0};
    struct tft_allocator a = memory_allocator(&m);
    struct tft_tokenizer *t;
    struct tft_error err = {0};
    unsigned which = take(&in);
    values_start(&values);
    if (which < N_SOUND)
        make_sound(which);
    else
        make_up(&in);

    enum tft_status status = tft_tokenizer_open(&t, values_source(&values), &a, &err);
    MUST(status == err.code && !status == !!t);
    if (status) {
        MUST(which >= N_SOUND && m.in_use == 0 && !strncmp(err.msg, "v.gguf: ", 8));
        return 0;
    }
    size_t own = m.peak = m.in_use; /* opening takes memory that it gives back */
    char *text = malloc(
        in.n + 1); /* in memory of its exact size, so that memory tools see a read past the end */
    MUST(text);
    text = realloc(text, in.n ? in.n : 1);
    if (in.n)
        memcpy(text, in.p, in.n);
    check_text(t, text, in.n, which < N_SOUND);
    check_pair(t, text, in.n);
    check_any_ids(t, in.p, in.n);
    /* Unigram: 17 bytes for each byte of normalised text. A byte that is not UTF-8 becomes three,
       and a table may make more of it. */
    size_t each = !t->unigram ? 32 : t->unigram->map.n_unit ? 20 * TFT_CHARSMAP_TEXT : 60;
    each += t->late.n > 0; /* a copy of the text */
    MUST(m.in_use == own && m.peak - own <= each * in.n + 4096);
    free(text);
    tft_tokenizer_close(t);
    MUST(m.in_use == 0);
    return 0;
}
