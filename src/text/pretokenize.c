/*
 * The regular expressions; N is the most digits of a piece:
 *
 * GPT-2 (openai/gpt-2 encoder.py):
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * GPT-2 with separate digits (Hugging Face's pre-tokenizer "Digits", then "ByteLevel"): each \p{N}
 * is a piece, and the expression above cuts the text between them. For the spaces before a digit,
 * the text ends there.
 *
 * Llama 3 (tokenizer.json of the model; N = 3) and Qwen 2 (N = 1):
 *      (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n]*
 *      |\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * (?i:s) also matches U+017F, the long s, which Unicode folds to s. Regex engines agree on that
 * (PCRE2, Oniguruma, and Rust's, with which the vocabularies were trained), and so does this file.
 * llama.cpp, which writes [sS], does not. No other letter here folds like that.
 *
 * Qwen 2 composes characters (NFC) before it cuts; tuffet, like llama.cpp, leaves the text as it
 * is.
 */
#include "pretokenize.h"

#include <string.h>

#include "base/utf8.h"
#include "unicode_tables.h"

/* The rules by the names of llama.cpp (llama-vocab.cpp, load). */
static const struct {
    const char *name;
    struct tft_pretokenizer rules;
} known[] = {
#define GPT2 {.gpt2 = true}
#define GPT2_DIGITS {.gpt2 = true, .digits = 1}
#define LLAMA3 {.digits = 3, .whole_pieces = true, .add_bos = true}
#define LLAMA3_MERGES {.digits = 3}
#define QWEN2 {.digits = 1}
    {"gpt-2", GPT2}, {"gpt2", GPT2}, {"default", GPT2}, {"mpt", GPT2}, {"olmo", GPT2},
    {"phi-2", GPT2}, {"jais", GPT2}, {"trillion", GPT2}, {"granite-docling", GPT2},
    {"exaone4", GPT2}, {"gigachat", GPT2}, {"a.x-4.0", GPT2}, {"mellum", GPT2},
    {"starcoder", GPT2_DIGITS}, {"refact", GPT2_DIGITS}, {"command-r", GPT2_DIGITS},
    {"smollm", GPT2_DIGITS}, {"codeshell", GPT2_DIGITS}, {"exaone", GPT2_DIGITS},
    {"minerva-7b", GPT2_DIGITS}, {"mellum2", GPT2_DIGITS},
    {"llama3", LLAMA3}, {"llama-v3", LLAMA3}, {"llama-bpe", LLAMA3}, {"falcon3", LLAMA3},
    {"falcon-h1", LLAMA3}, {"pixtral", LLAMA3}, {"midm-2.0", LLAMA3}, {"lfm2", LLAMA3},
    {"dbrx", LLAMA3_MERGES}, {"smaug-bpe", LLAMA3_MERGES}, {"glm4", LLAMA3_MERGES},
    {"chatglm-bpe", LLAMA3_MERGES},
    {"qwen2", QWEN2}, {"deepseek-r1-qwen", QWEN2}, {"stablelm2", QWEN2}, {"hunyuan", QWEN2},
    {"megrez", QWEN2}, {"kormo", QWEN2}, {"solar-open", QWEN2}, {"grok-2", QWEN2},
};

bool tft_pretokenize_find(struct tft_str name, struct tft_pretokenizer *out)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (tft_str_is(name, known[i].name)) {
            *out = known[i].rules;
            return true;
        }
    return false;
}

/* ---- characters */

enum { END = TFT_CHAR_SPACE + 1 }; /* the kind of the end of the text */

/* A position in the text, and the character there. */
struct position {
    const char *p, *end; /* the position, the end of the text */
    unsigned kind;       /* of the character: enum tft_char_kind, or END */
    size_t n;            /* its bytes */
};

static unsigned kind_of(uint32_t c)
{
    size_t low = 0, high = sizeof tft_char_ranges / sizeof *tft_char_ranges;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (tft_char_ranges[mid] >> 2 <= c)
            low = mid;
        else
            high = mid;
    }
    return tft_char_ranges[low] & 3;
}

static struct position look(const char *p, const char *end)
{
    struct position a = {p, end, END, 0};
    if (p == end)
        return a;
    a.n = 1;
    if ((unsigned char)*p < 0x80) {
        a.kind = tft_ascii_kind[(unsigned char)*p];
        return a;
    }
    uint32_t c;
    size_t n = tft_utf8_next(p, (size_t)(end - p), &c);
    a.kind = c < TFT_UTF8_BAD ? kind_of(c) : TFT_CHAR_OTHER;
    a.n = c < TFT_UTF8_BAD ? n : 1;
    return a;
}

static struct position next(struct position a)
{
    return look(a.p + a.n, a.end);
}

/* The position after all characters of one kind. */
static struct position skip(struct position a, unsigned kind)
{
    while (a.kind == kind)
        a = next(a);
    return a;
}

static bool is(struct position a, char c)
{
    return a.n == 1 && *a.p == c;
}

static bool is_newline(struct position a)
{
    return is(a, '\r') || is(a, '\n');
}

/* ---- parts of the expressions */

static bool is_letter(struct position a, char lower, bool any_case)
{
    if (is(a, lower))
        return true;
    bool long_s = a.n == 2 && memcmp(a.p, "\xc5\xbf", 2) == 0;
    return any_case && (is(a, (char)(lower - 'a' + 'A')) || (lower == 's' && long_s));
}

/* 's 't 're 've 'm 'll 'd: the end of it, or NULL. */
static const char *contraction(struct position a, bool any_case)
{
    static const char ends[][2] = {"s", "t", {'r', 'e'}, {'v', 'e'}, "m", {'l', 'l'}, "d"};
    if (!is(a, '\''))
        return NULL;
    struct position first = next(a), second = next(first);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!is_letter(first, ends[i][0], any_case))
            continue;
        if (!ends[i][1])
            return second.p;
        if (is_letter(second, ends[i][1], any_case))
            return second.p + second.n;
    }
    return NULL;
}

/* \s+(?!\S)|\s+ : the end of a run of spaces; if another character follows several spaces, the last
   of them is left for it. */
static const char *spaces(struct position a, bool digit_is_end)
{
    const char *last = a.p, *start = a.p;
    while (a.kind == TFT_CHAR_SPACE) {
        last = a.p;
        a = next(a);
    }
    bool end = a.kind == END || (digit_is_end && a.kind == TFT_CHAR_NUMBER);
    return end || last == start ? a.p : last;
}

/* ---- the end of a piece */

static const char *gpt2(struct position a, bool lone_digits)
{
    const char *end = contraction(a, false);
    if (end)
        return end;
    struct position word = is(a, ' ') ? next(a) : a;
    switch (word.kind) {
    case TFT_CHAR_NUMBER:
        if (!lone_digits)
            return skip(word, TFT_CHAR_NUMBER).p;
        return word.p + (word.p == a.p ? word.n : 0);
    case TFT_CHAR_LETTER:
    case TFT_CHAR_OTHER: return skip(word, word.kind).p;
    }
    return spaces(a, lone_digits);
}

static const char *digits(struct position a, unsigned max)
{
    for (unsigned i = 0; i < max && a.kind == TFT_CHAR_NUMBER; i++)
        a = next(a);
    return a.p;
}

/* \s*[\r\n]+ : the end of the last newline among the spaces; NULL if there is none. */
static const char *newlines(struct position a)
{
    const char *end = NULL;
    for (; a.kind == TFT_CHAR_SPACE; a = next(a))
        if (is_newline(a))
            end = a.p + 1;
    return end;
}

static const char *llama3(struct position a, unsigned max_digits)
{
    const char *end = contraction(a, true);
    if (end)
        return end;
    if (a.kind == TFT_CHAR_LETTER)
        return skip(a, TFT_CHAR_LETTER).p;
    if (a.kind == TFT_CHAR_NUMBER)
        return digits(a, max_digits);

    struct position word = next(a);
    if (word.kind == TFT_CHAR_LETTER && !is_newline(a))
        return skip(word, TFT_CHAR_LETTER).p;
    if (!is(a, ' '))
        word = a;
    if (word.kind == TFT_CHAR_OTHER) {
        word = skip(word, TFT_CHAR_OTHER);
        while (is_newline(word))
            word = next(word);
        return word.p;
    }
    end = newlines(a);
    return end ? end : spaces(a, false);
}

size_t tft_pretokenize_next(struct tft_pretokenizer rules, const char *text, size_t n)
{
    struct position a = look(text, text + n);
    return (size_t)((rules.gpt2 ? gpt2(a, rules.digits != 0) : llama3(a, rules.digits)) - text);
}
