/*
 * Compares the pre-tokenizers with PCRE2, which runs the regular expressions themselves: both must
 * cut the same text into the same pieces.
 *
 *      pretokenize_pcre2 [FILE...]
 *
 * FILEs are below the folder shared/; the program names those that are missing and skips them.
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
#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" S "+(?![^" SPACE    \
    "])|" S "+"
#define LLAMA3(digits)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits "|"                 \
    " ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" S "*[\\r\\n]+|" S "+(?![^" SPACE "])|" S "+"

static const struct {
    const char *name;
    const char *first; /* applied first, or NULL: its matches are pieces, and so is the text between
                          them */
    const char *regex;
} known[] = {
    {"gpt-2", NULL, GPT2},
    {"starcoder", "\\p{N}", GPT2},
    {"llama-bpe", NULL, LLAMA3("{1,3}")},
    {"qwen2", NULL, LLAMA3("")},
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
    r.code = text ? pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                &error, &at, NULL) : NULL;
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
    struct regex first, regex;
    unsigned long long pieces;
};

static bool report(const char *p, size_t n, size_t have, size_t want)
{
    printf("a piece of %zu bytes, not %zu, of text", have, want);
    for (size_t i = 0; i < n && i < 40; i++)
        printf(" %02x", (unsigned char)p[i]);
    printf("\n");
    return false;
}

/* Compares the pieces of p[stop], where the text ends for the regular expression. For tuffet it
   ends at n. */
static bool same_until(struct check *c, const char *p, size_t stop, size_t n)
{
    for (size_t at = 0, start, end; at < stop; at += end, c->pieces++) {
        find(c->regex, p + at, stop - at, &start, &end);
        size_t len = tft_pretokenize_next(c->rules, p + at, n - at);
        if (start || len != end)
            return report(p + at, n - at, len, start ? 0 : end);
    }
    return true;
}

/* Text that has no part of a character at either end, line by line, which keeps the regular
   expression linear. */
static bool same(struct check *c, const char *p, size_t n)
{
    if (!c->first.code)
        return same_until(c, p, n, n);
    for (size_t at = 0, start, end; at < n; at += end) {
        find(c->first, p + at, n - at, &start, &end);
        if (!same_until(c, p + at, start, n - at))
            return false;
        if (start < n - at) {
            size_t len = tft_pretokenize_next(c->rules, p + at + start, n - at - start);
            if (len != end - start)
                return report(p + at + start, n - at - start, len, end - start);
            c->pieces++;
        }
    }
    return true;
}

/* ---- text */

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static size_t put(char *out, uint32_t c)
{
    if (c < 0x80)
        return out[0] = (char)c, 1;
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(0xf00 >> n | c);
    return n;
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
                n += put(text + n, b[0] + below(b[1] - b[0] + 1));
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

/* Every code point alone, between letters. */
static bool every_character(struct check *c)
{
    bool ok = true;
    for (uint32_t code = 0; ok && code < 0x110000; code++) {
        char text[8] = "a";
        size_t n = 1 + put(text + 1, code);
        text[n++] = 'b';
        ok = code >> 11 == 0xd800 >> 11 || same(c, text, n);
    }
    return ok;
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

static bool file(struct check *c, const char *name)
{
    enum { MOST = 4 << 20 };
    const char *path = shared_path(name);
    struct tft_map map;
    if (!path || tft_port_map(&map, path)) {
        printf("shared/%s is not there, left out; ", name);
        return true;
    }
    const char *p = (const char *)map.data;
    size_t left = map.size < MOST ? map.size : MOST;
    bool ok = true;
    for (size_t len; ok && left; p += len, left -= len) {
        len = chunk(p, left);
        ok = !is_utf8(p, len) || same(c, p, len);
    }
    tft_port_unmap(&map);
    return ok;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (!same_version())
        printf("PCRE2 has another Unicode than " TFT_UNICODE_VERSION
               ": not every character is compared\n");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct check c = {.first = compile(known[i].first), .regex = compile(known[i].regex)};
        bool ok = tft_pretokenize_find((struct tft_str){known[i].name, strlen(known[i].name)},
                                       &c.rules) &&
                  (!same_version() || every_character(&c)) && random_texts(&c, 200000);
        for (int arg = 1; ok && arg < argc; arg++)
            ok = file(&c, argv[arg]);
        printf("%s: %s, %llu pieces\n", known[i].name, ok ? "same" : "differs", c.pieces);
        failed += !ok;
        release(c.first);
        release(c.regex);
    }
    return failed != 0;
}
