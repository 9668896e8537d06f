/*
 * Compares the pre-tokenizers with PCRE2, which runs the regular expressions themselves: both must
 * cut the same text into the same pieces.
 *
 *      pretokenize_pcre2 [FILE...]
 *
 * FILEs are below the folder shared/; the program names missing ones and skips them.
 *
 * The environment variable TUFFET_THOROUGH makes it compare all of each FILE, many more random
 * texts, and each character alone. Otherwise it takes an eighth of a FILE, from all of it, and most
 * characters in runs of 16.
 *
 * Two differences are excluded. PCRE2's \s includes U+180E, which has not been White_Space since
 * Unicode 6.3, so the expressions here exclude it. And a code point has a class only since the
 * version of Unicode that assigned it: all code points are compared only if PCRE2 has the version
 * of tuffet's table. Random text consists of code points that were assigned in Unicode 13, which is
 * older than both.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "port/port.h"
#include "text/pretokenize.h"
#include "text/unicode_tables.h"
#include "base/utf8.h"

#define SPACE "\\x{9}-\\x{d}\\x{85}\\p{Z}"
#define S "[" SPACE "]"
#define WHITE "|" S "*[\\r\\n]+|" S "+(?![^" SPACE "])|" S "+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" S "+(?![^" SPACE    \
    "])|" S "+"
#define LLAMA3_WORDS(digits)                                                                       \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*" WHITE
#define LLAMA3(digits) CONTRACTION "|" LLAMA3_WORDS(digits)
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASE(more, digits)                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" more "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER    \
    "*" more "|\\p{N}" digits "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*" WHITE
#define BLOOM " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define LATIN                                                                                      \
    "A-Za-z"                                                                                       \
    "\\x{b5}-\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"               \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}-\\x{377}"                         \
    "\\x{37b}-\\x{37d}\\x{37f}-\\x{37f}\\x{386}-\\x{386}\\x{388}-\\x{38a}"                         \
    "\\x{38c}-\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}"                         \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"                     \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}"                 \
    "\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"                 \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}-\\x{1f59}"                 \
    "\\x{1f5b}-\\x{1f5b}\\x{1f5d}-\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"                 \
    "\\x{1fb6}-\\x{1fbc}\\x{1fbe}-\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}"                 \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"                 \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}-\\x{2102}\\x{2107}-\\x{2107}\\x{210a}-\\x{2113}"                 \
    "\\x{2115}-\\x{2115}\\x{2119}-\\x{211d}\\x{2124}-\\x{2124}\\x{2126}-\\x{2126}"                 \
    "\\x{2128}-\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}-\\x{2139}"                 \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}-\\x{214e}\\x{2183}-\\x{2184}"                 \
    "\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}-\\x{2cf3}"                 \
    "\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"                 \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"                 \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"             \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"         \
    "\\x{1e900}-\\x{1e943}"
#define CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"           \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" WHITE

/* Each expression splits the parts of the one before: its matches are pieces, and so is the text
   between them. */
static const struct {
    const char *name;
    const char *regex[TFT_STAGE_MAX];
} known[] = {
    {"gpt-2", {GPT2}},
    {"starcoder", {"\\p{N}", GPT2}},
    {"llama-bpe", {LLAMA3("{1,3}")}},
    {"minicpm5", {"\\p{N}{1,3}", LLAMA3("+")}},
    {"qwen2", {LLAMA3("")}},
    {"bailingmoe",
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^" SPACE
      "\\p{L}\\p{N}]++[\\r\\n]*|" S "*[\\r\\n]|" S "+(?![^" SPACE "])|" S "+"}},
    {"qwen35",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
                  "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" WHITE}},
    {"ufakzeka", {LLAMA3_WORDS("")}},
    {"seed-coder",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^" SPACE
                  "\\p{L}\\p{N}\\r\\n]+" WHITE}},
    {"laguna", {"[^\\n]+|[\\n]+", LLAMA3("")}},
    {"exaone-moe",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^" SPACE
                  "\\p{L}\\p{N}]+[\\r\\n/]?|" S "*[\\r\\n]|" S "+(?![^" SPACE "])|" S "+"}},
    {"tekken", {CASE("", "")}},
    {"gpt-4o", {CASE(CONTRACTION "?", "{1,3}")}},
    {"bloom", {BLOOM}},
    {"viking", {BLOOM, "\\p{N}"}},
    {"falcon", {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"falcon-digits", {"[\\p{P}$+<=>^~|`]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"deepseek-llm",
     {"[\\r\\n]", S "?[" LATIN "]+",
      S "?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
      S "+$", CJK, "\\p{N}+"}},
    {"deepseek-coder", {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", CJK, "\\p{N}"}},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+", DEEPSEEK3}},
};

struct regex {
    pcre2_code *code;
    pcre2_match_data *match;
};

static struct regex compile(const char *text)
{
    struct regex r = {0};
    int error;
    PCRE2_SIZE at;
    r.code = text ? pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL)
                  : NULL;
    if (text && !r.code)
        exit(2);
    if (r.code) {
        pcre2_jit_compile(r.code, PCRE2_JIT_COMPLETE);
        r.match = pcre2_match_data_create_from_pattern(r.code, NULL);
    }
    return r;
}

static void release(struct regex r)
{
    pcre2_match_data_free(r.match);
    pcre2_code_free(r.code);
}

/* The start and end of the first match in p[n], which must be UTF-8; n, n if there is none. */
static void find(struct regex r, const char *p, size_t n, size_t *start, size_t *end)
{
    *start = *end = n;
    if (pcre2_match(r.code, (PCRE2_SPTR)p, n, 0, PCRE2_NO_UTF_CHECK, r.match, NULL) > 0) {
        *start = pcre2_get_ovector_pointer(r.match)[0];
        *end = pcre2_get_ovector_pointer(r.match)[1];
    }
}

struct check {
    struct tft_pretokenizer rules;
    struct regex regex[TFT_STAGE_MAX];
    struct tft_pieces pieces;
    unsigned long long n;
};

/* Compares the next piece of tuffet with p[want]. */
static bool same_piece(struct check *c, const char *p, size_t want)
{
    const char *have;
    size_t n = tft_pieces_next(&c->pieces, &have);
    c->n++;
    if (have == p && n == want)
        return true;
    printf("a piece of %zu bytes, not %zu, of text", n, want);
    for (size_t i = 0; i < want + 8 && p + i < c->pieces.end[0]; i++)
        printf(" %02x", (unsigned char)p[i]);
    printf("\n");
    return false;
}

/* Splits p[n] by the expressions from number `stage` on. */
static bool same_from(struct check *c, size_t stage, const char *p, size_t n)
{
    if (stage == TFT_STAGE_MAX || !c->regex[stage].code)
        return same_piece(c, p, n);
    for (size_t at = 0, start, end; at < n; at += end) {
        find(c->regex[stage], p + at, n - at, &start, &end);
        if (start && !same_from(c, stage + 1, p + at, start))
            return false;
        if (start < end && !same_from(c, stage + 1, p + at + start, end - start))
            return false;
    }
    return true;
}

/* Text that has no part of a character at either end, line by line, which keeps the regular
   expression linear. */
static bool same(struct check *c, const char *p, size_t n)
{
    const char *rest;
    tft_pieces_start(&c->pieces, &c->rules, p, n);
    return same_from(c, 0, p, n) && !tft_pieces_next(&c->pieces, &rest);
}

/* ---- text */

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

/* Assigned in Unicode 13 or never to be assigned: letters of many scripts, marks, digits, symbols,
   spaces. */
static const uint32_t block[][2] = {
    {0x00, 0x7f},       {0x00, 0x7f},       {0x20, 0x20},       {0x09, 0x0d},
    {0x2000, 0x202f},   {0x80, 0xff},       {0x100, 0x17f},     {0x300, 0x36f},
    {0x3b1, 0x3c9},     {0x410, 0x44f},     {0x5d0, 0x5ea},     {0x660, 0x669},
    {0x905, 0x939},     {0x93e, 0x94d},     {0x966, 0x96f},     {0xe01, 0xe3a},
    {0x1680, 0x1680},   {0x180e, 0x180e},   {0x1780, 0x17b3},   {0x205f, 0x205f},
    {0x2070, 0x2071},   {0x2150, 0x2188},   {0x2190, 0x21ff},   {0x2460, 0x249b},
    {0x3000, 0x303f},   {0x3041, 0x3096},   {0x4e00, 0x9fa5},   {0xac00, 0xd7a3},
    {0xe000, 0xe0ff},   {0xfb00, 0xfb06},   {0xfe0f, 0xfe0f},   {0xff01, 0xff5e},
    {0x10000, 0x1000b}, {0x1d7ce, 0x1d7ff}, {0x1f300, 0x1f5ff}, {0x20000, 0x2a6d6},
    {0xe0100, 0xe01ef}, {0x17f, 0x17f},     {0x212a, 0x212a},
};

static const char *const word[] = {"'s", "'S", "'T", "'re",  "'vE",  "'LL",  "'l", "'\xc5\xbf",
                                   "'d", "''", " '", "\r\n", "  ",   " \n",  "12", " 345",
                                   "x",  " y", "!!", " .",   "\t\t", "\n \n"};

static bool random_texts(struct check *c, int count)
{
    char text[256];
    for (int i = 0; i < count; i++) {
        size_t n = 0, characters = 1 + below(24);
        while (characters--) {
            const uint32_t *b = block[below(sizeof block / sizeof *block)];
            const char *w = word[below(sizeof word / sizeof *word)];
            if (below(3)) {
                n += tft_utf8_put(text + n, b[0] + below(b[1] - b[0] + 1));
            } else {
                memcpy(text + n, w, strlen(w));
                n += strlen(w);
            }
        }
        if (!same(c, text, n))
            return false;
    }
    return true;
}

static bool same_version(void)
{
    char version[64] = "";
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    return strcmp(version, TFT_UNICODE_VERSION) == 0;
}

/* The code points from `first` up to `end`, in runs of n of them (1 to 16) between letters. */
static bool characters(struct check *c, uint32_t first, uint32_t end, uint32_t n)
{
    bool ok = true;
    for (uint32_t code = first; ok && code < end; code += n) {
        char text[2 + 16 * 4] = "a";
        size_t len = 1;
        for (uint32_t i = 0; i < n; i++)
            len += tft_utf8_put(text + len, code + i);
        text[len++] = 'b';
        ok = code >> 11 == 0xd800 >> 11 || same(c, text, len);
    }
    return ok;
}

/* Below U+3000 are the spaces and most alphabets. In a run, a character of another class than its
   neighbours begins or ends a piece. */
static bool every_character(struct check *c, bool thorough)
{
    return thorough ? characters(c, 0, 0x110000, 1)
                    : characters(c, 0, 0x3000, 1) && characters(c, 0x3000, 0x110000, 16);
}

/* The length of a part that ends in a newline after about 4 kB: small parts show a difference close
   to it, and match fast. */
static size_t chunk(const char *p, size_t n)
{
    size_t len = n < 4096 ? n : 4096;
    while (len < n && p[len - 1] != '\n')
        len++;
    return len;
}

static bool is_utf8(const char *p, size_t n)
{
    uint32_t c = 0;
    for (size_t at = 0; at < n && c < TFT_UTF8_BAD;)
        at += tft_utf8_next(p + at, n - at, &c);
    return c < TFT_UTF8_BAD;
}

/* Compares one chunk in `every`, the first one included. */
static bool file(struct check *c, const char *name, size_t every)
{
    enum { MOST = 4 << 20 };
    const char *path = shared_path(name);
    struct tft_map map;
    if (!path || tft_port_map(&map, path)) {
        printf("shared/%s is not there, left out; ", name);
        return true;
    }
    const char *p = (const char *)map.data;
    size_t left = map.size < MOST ? map.size : MOST, n = 0;
    bool ok = true;
    for (size_t len; ok && left; p += len, left -= len) {
        len = chunk(p, left);
        ok = n++ % every || !is_utf8(p, len) || same(c, p, len);
    }
    tft_port_unmap(&map);
    return ok;
}

int main(int argc, char **argv)
{
    int failed = 0;
    bool thorough = getenv("TUFFET_THOROUGH") != NULL;
    if (!same_version())
        printf("PCRE2 has another Unicode than " TFT_UNICODE_VERSION
               ": not every character is compared\n");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct check c = {.n = 0};
        for (size_t k = 0; k < TFT_STAGE_MAX; k++)
            c.regex[k] = compile(known[i].regex[k]);
        bool ok = tft_pretokenize_find((struct tft_str){known[i].name, strlen(known[i].name)},
                                       &c.rules) &&
                  (!same_version() || every_character(&c, thorough)) &&
                  random_texts(&c, thorough ? 200000 : 25000);
        for (int arg = 1; ok && arg < argc; arg++)
            ok = file(&c, argv[arg], thorough ? 1 : 8);
        printf("%s: %s, %llu pieces\n", known[i].name, ok ? "same" : "differs", c.n);
        failed += !ok;
        for (size_t k = 0; k < TFT_STAGE_MAX; k++)
            release(c.regex[k]);
    }
    return failed != 0;
}
