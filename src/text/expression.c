/*
 * The regular expressions of the models' tokenizer.json. llama.cpp (llama-vocab.cpp) approximates
 * some of them; this file has the models' own.
 *
 * gpt2 (openai/gpt-2 encoder.py):
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * llama3, with L the classes `letters`, N `digits`, and A the characters `after_marks`:
 *      (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[L]+|\p{N}{1,N}| ?[^\s\p{N}L]+[A]*
 *      |\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * case (Tekken; GPT-4o, with contractions C = (?i:'s|'t|'re|'ve|'m|'ll|'d) in words):
 *      [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C?
 *      |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C?
 *      |\p{N}{1,N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * phrase (EXAONE MoE, with several words in a token):
 *      (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}
 *      | ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+
 *
 * bloom:
 *       ?[^(\s|.,!?...)]+ with U+2026, U+3002, U+FF0C, U+3001, U+0964, U+06D4 and U+060C
 *
 * deepseek3, with B the ASCII punctuation:
 *      [B][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+
 *      |\s+(?!\S)|\s+
 *
 * (?i:s) also matches U+017F, the long s, which Unicode folds to s. This file does so, like regex
 * engines (PCRE2, Oniguruma, and Rust's, which trained the vocabularies). llama.cpp writes [sS] and
 * does not. No other letter here folds to another character.
 */
#include "expression.h"

#include <string.h>

#define look_next tft_look_next
#define skip tft_skip
#define is tft_is

/* ---- parts of the expressions */

static bool is_letter(struct tft_position a, char lower, bool any_case)
{
    if (is(a, lower))
        return true;
    return any_case && (is(a, (char)(lower - 'a' + 'A')) || (lower == 's' && a.code == 0x17f));
}

/* The end of a contraction ('s 't 're 've 'm 'll 'd), or NULL. */
static const char *contraction(struct tft_position a, bool any_case)
{
    static const char ends[][2] = {"s", "t", {'r', 'e'}, {'v', 'e'}, "m", {'l', 'l'}, "d"};
    if (!is(a, '\''))
        return NULL;
    struct tft_position first = look_next(a), second = look_next(first);
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

/* \s+(?!\S)|\s+ : the end of a run of spaces; if another character follows several spaces, the run
   ends before the last space. */
static const char *spaces(struct tft_position a)
{
    const char *last = a.p, *start = a.p;
    while (a.kind & TFT_SPACES) {
        last = a.p;
        a = look_next(a);
    }
    return !a.kind || last == start ? a.p : last;
}

/* \s*[\r\n]+ : the end of the last newline among the spaces; NULL: no newline. */
static const char *newlines(struct tft_position a)
{
    const char *end = NULL;
    for (; a.kind & TFT_SPACES; a = look_next(a))
        if (tft_is_newline(a))
            end = a.p + 1;
    return end;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ ; NULL: no space. */
static const char *white(struct tft_position a)
{
    if (!(a.kind & TFT_SPACES))
        return NULL;
    const char *end = newlines(a);
    return end ? end : spaces(a);
}

static const char *digits(struct tft_position a, unsigned max)
{
    for (unsigned i = 0; (!max || i < max) && a.kind & TFT_NUMBERS; i++)
        a = look_next(a);
    return a.p;
}

/*  ?[marks]+[after]* ; NULL: no such character. */
static const char *punctuation(struct tft_position a, unsigned marks, const char *after, bool once)
{
    struct tft_position first = is(a, ' ') ? look_next(a) : a;
    if (!(first.kind & marks))
        return NULL;
    a = skip(first, marks);
    while (a.n == 1 && *a.p && strchr(after, *a.p)) {
        a = look_next(a);
        if (once)
            break;
    }
    return a.p;
}

/* [^\r\n\p{L}\p{N}] */
static bool may_lead(struct tft_position a)
{
    return a.kind & (TFT_ALL & ~(TFT_LETTERS | TFT_NUMBERS)) && !tft_is_newline(a);
}

/* ---- expressions that match everywhere */

const char *tft_match_gpt2(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    const char *end = contraction(a, false);
    if (end)
        return end;
    struct tft_position word = is(a, ' ') ? look_next(a) : a;
    if (!word.kind || word.kind & TFT_SPACES)
        return spaces(a);
    unsigned other = TFT_ALL & ~(TFT_LETTERS | TFT_NUMBERS | TFT_SPACES);
    return skip(word, word.kind & TFT_LETTERS   ? TFT_LETTERS
                      : word.kind & TFT_NUMBERS ? TFT_NUMBERS
                                                : other)
        .p;
}

const char *tft_match_llama3(struct tft_position a, const struct tft_piece_stage *s)
{
    const char *end = s->no_contractions ? NULL : contraction(a, true);
    if (end)
        return end;
    if (a.kind & s->letters)
        return skip(a, s->letters).p;
    if (a.kind & TFT_NUMBERS)
        return digits(a, s->digits);
    struct tft_position word = look_next(a);
    if (word.kind & s->letters && may_lead(a))
        return skip(word, s->letters).p;
    unsigned marks = TFT_ALL & ~(s->letters | TFT_NUMBERS | TFT_SPACES);
    end = punctuation(a, marks, s->after_marks, s->after_once);
    return end ? end : white(a);
}

enum {
    FIRST = TFT_LETTERS + TFT_MARKS - (1 << TFT_CHAR_LOWER), /* \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M} */
    THEN = TFT_LETTERS + TFT_MARKS - (1 << TFT_CHAR_UPPER),  /* \p{Ll}\p{Lm}\p{Lo}\p{M} */
};

/* [FIRST]*[THEN]+ : both sets have letters without case. If no lower-case letter follows a run of
   FIRST, the match ends with the run's last character that is in THEN. NULL: no such character. */
static const char *capital_word(struct tft_position a)
{
    const char *end = NULL;
    for (; a.kind & FIRST; a = look_next(a))
        if (a.kind & THEN)
            end = a.p + a.n;
    return a.kind & THEN ? skip(a, THEN).p : end;
}

/* The first two alternatives. The character before the word may be a mark, and a mark can also be
   the word. */
static const char *case_word(struct tft_position a)
{
    struct tft_position word = may_lead(a) ? look_next(a) : a;
    const char *end = capital_word(word);
    if (!end && word.p != a.p)
        end = capital_word(a);
    if (end)
        return end;
    if (word.kind & FIRST)
        return skip(word, FIRST).p;
    return NULL;
}

const char *tft_match_case(struct tft_position a, const struct tft_piece_stage *s)
{
    const char *end = case_word(a);
    if (end) {
        const char *more = s->no_contractions ? NULL : contraction(tft_look(end, a.end), true);
        return more ? more : end;
    }
    if (a.kind & TFT_NUMBERS)
        return digits(a, s->digits);
    end = punctuation(a, TFT_ALL & ~(TFT_LETTERS | TFT_NUMBERS | TFT_SPACES), "\r\n/", false);
    return end ? end : white(a);
}

/* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ */
static const char *phrase(struct tft_position a)
{
    const char *end = a.p;
    while (a.kind & TFT_LETTERS) {
        a = skip(look_next(a), TFT_MARKS);
        end = a.p;
        if (is(a, ' '))
            a = look_next(a);
    }
    return end;
}

const char *tft_match_phrase(struct tft_position a, const struct tft_piece_stage *s)
{
    struct tft_position word = may_lead(a) ? look_next(a) : a;
    const char *end = contraction(a, true);
    if (end)
        return end;
    return word.kind & TFT_LETTERS ? phrase(word) : tft_match_llama3(a, s);
}

/* ---- expressions that leave gaps */

static bool is_ascii_letter(struct tft_position a) { return a.code < 0x80 && a.kind & TFT_LETTERS; }

const char *tft_match_deepseek3(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    struct tft_position word = look_next(a);
    if (a.code < 0x80 && a.kind & (TFT_PUNCTUATION | TFT_SYMBOLS) && is_ascii_letter(word)) {
        while (is_ascii_letter(word))
            word = look_next(word);
        return word.p;
    }
    unsigned letters = TFT_LETTERS | TFT_MARKS;
    if (a.kind & letters)
        return skip(a, letters).p;
    if (word.kind & letters && !(a.kind & (TFT_PUNCTUATION | TFT_SYMBOLS)) && !tft_is_newline(a))
        return skip(word, letters).p;
    const char *end = punctuation(a, TFT_PUNCTUATION | TFT_SYMBOLS, "\r\n", false);
    return end ? end : white(a);
}

const char *tft_match_digits(struct tft_position a, const struct tft_piece_stage *s)
{
    return a.kind & TFT_NUMBERS ? digits(a, s->digits) : NULL;
}

const char *tft_match_3_digits(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    for (int i = 0; i < 3; i++, a = look_next(a))
        if (a.n != 1 || *a.p < '0' || *a.p > '9')
            return NULL;
    return a.p;
}

const char *tft_match_newline(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return tft_is_newline(a) ? a.p + 1 : NULL;
}

const char *tft_match_line(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    const char *p = a.p;
    if (*p != '\n') {
        p = memchr(p, '\n', (size_t)(a.end - p));
        return p ? p : a.end;
    }
    while (p < a.end && *p == '\n')
        p++;
    return p;
}

/* ---- runs of characters of a set */

static bool in_ranges(uint32_t c, const uint32_t (*range)[2], size_t n)
{
    size_t low = 0;
    while (n) {
        size_t half = n / 2;
        if (c > range[low + half][1]) {
            low += half + 1;
            n -= half + 1;
        } else if (c >= range[low + half][0]) {
            return true;
        } else {
            n = half;
        }
    }
    return false;
}

#define IN(c, table) in_ranges(c, table, sizeof(table) / sizeof *(table))

typedef bool in_set(struct tft_position a);

/* [set]+ */
static const char *run(struct tft_position a, in_set *in)
{
    if (!in(a))
        return NULL;
    do
        a = look_next(a);
    while (in(a));
    return a.p;
}

/* \s?[set]+ */
static const char *space_run(struct tft_position a, in_set *in)
{
    const char *end = a.kind & TFT_SPACES ? run(look_next(a), in) : NULL;
    return end ? end : run(a, in);
}

static bool in_falcon(struct tft_position a)
{
    return a.kind & TFT_PUNCTUATION || (a.kind && a.code < 0x80 && a.kind & TFT_SYMBOLS);
}

/* [\p{P}$+<=>^~|`]+ : the symbols are ASCII's. */
const char *tft_match_falcon(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return run(a, in_falcon);
}

static bool in_bloom(struct tft_position a)
{
    static const uint32_t out[] = {'(',    ')',    '|',    '.',    ',',    '!',   '?',
                                   0x2026, 0x3002, 0xff0c, 0x3001, 0x0964, 0x6d4, 0x60c};
    if (!a.kind || a.kind & TFT_SPACES)
        return false;
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        if (a.code == out[i])
            return false;
    return true;
}

const char *tft_match_bloom(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return run(is(a, ' ') ? look_next(a) : a, in_bloom);
}

const char *tft_match_space_word(struct tft_position a, const struct tft_piece_stage *s)
{
    struct tft_position word = a.kind & TFT_SPACES ? look_next(a) : a;
    return word.kind & s->letters ? skip(word, s->letters).p : NULL;
}

/* Latin, Greek, Cyrillic, Armenian, Georgian, Cherokee and a few more with case. */
static bool in_latin(struct tft_position a)
{
    static const uint32_t set[][2] = {
        {0xb5, 0xb5},       {0xc0, 0xd6},       {0xd8, 0xf6},       {0xf8, 0x1ba},
        {0x1bc, 0x1bf},     {0x1c4, 0x293},     {0x295, 0x2af},     {0x370, 0x373},
        {0x376, 0x377},     {0x37b, 0x37d},     {0x37f, 0x37f},     {0x386, 0x386},
        {0x388, 0x38a},     {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},
        {0x3f7, 0x481},     {0x48a, 0x52f},     {0x531, 0x556},     {0x10a0, 0x10c5},
        {0x13a0, 0x13f5},   {0x13f8, 0x13fd},   {0x1c90, 0x1cba},   {0x1cbd, 0x1cbf},
        {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},
        {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},
        {0x1f59, 0x1f59},   {0x1f5b, 0x1f5b},   {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},
        {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},   {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},
        {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},   {0x1fe0, 0x1fec},
        {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},   {0x2102, 0x2102},   {0x2107, 0x2107},
        {0x210a, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},
        {0x2126, 0x2126},   {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},
        {0x2139, 0x2139},   {0x213c, 0x213f},   {0x2145, 0x2149},   {0x214e, 0x214e},
        {0x2183, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},   {0x2ceb, 0x2cee},
        {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},   {0xa722, 0xa76f},
        {0xa771, 0xa787},   {0xa78b, 0xa78e},   {0xab70, 0xabbf},   {0xfb00, 0xfb06},
        {0xfb13, 0xfb17},   {0xff21, 0xff3a},   {0xff41, 0xff5a},   {0x10400, 0x1044f},
        {0x104b0, 0x104d3}, {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2},
        {0x118a0, 0x118df}, {0x1e900, 0x1e943},
    };
    return a.kind && (a.code < 0x80 ? (bool)(a.kind & TFT_LETTERS) : IN(a.code, set));
}

const char *tft_match_latin(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return space_run(a, in_latin);
}

/* [!-/:-~...] : the second range includes letters. */
static bool in_marks(struct tft_position a)
{
    static const uint32_t set[][2] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201f},
                                      {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e}};
    return a.kind && IN(a.code, set);
}

const char *tft_match_marks(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return space_run(a, in_marks);
}

static bool in_cjk(struct tft_position a)
{
    static const uint32_t set[][2] = {{0x800, 0x9fa5}, {0xac00, 0xd7ff}};
    return a.kind && IN(a.code, set);
}

const char *tft_match_cjk(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return run(a, in_cjk);
}

static bool in_cjk3(struct tft_position a)
{
    static const uint32_t set[][2] = {{0x3040, 0x30ff}, {0x4e00, 0x9fa5}};
    return a.kind && IN(a.code, set);
}

const char *tft_match_cjk3(struct tft_position a, const struct tft_piece_stage *s)
{
    (void)s;
    return run(a, in_cjk3);
}

/* ---- cutting */

/* \s+$ at the end of the text: cuts before the spaces, or at the end of the text. */
static const char *cut_last_spaces(struct tft_position a)
{
    const char *start = NULL, *first = a.p;
    for (; a.kind; a = look_next(a))
        start = !(a.kind & TFT_SPACES) ? NULL : start ? start : a.p;
    return start && start > first ? start : a.end;
}

const char *tft_stage_cut(const struct tft_piece_stage *s, struct tft_position a)
{
    if (!s->match)
        return cut_last_spaces(a);
    const char *end = s->match(a, s);
    while (!end) {
        a = look_next(a);
        if (!a.kind || s->match(a, s))
            return a.p;
    }
    return end;
}
