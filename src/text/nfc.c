/*
 * Unicode 15, chapter 3.11: decompose, order the marks, compose. Most text has only characters that
 * NFC never changes, joins or moves; only the parts between such characters are examined.
 */
#include "nfc.h"

#include <string.h>

#include "base/alloc.h"
#include "base/heapsort.h"
#include "base/utf8.h"
#include "nfc_tables.h"

/* Hangul syllables, chapter 3.12: LV = first + (L * 21 + V) * 28, LVT = LV + T. */
enum {
    SYLLABLE = 0xac00,
    L = 0x1100,
    V = 0x1161,
    T = 0x11a7,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_SYLLABLE = N_L * N_V * N_T
};

/* combining class << 1 | whether c may change */
static uint32_t properties(uint32_t c)
{
    size_t low = 0, high = sizeof tft_nfc_ranges / sizeof *tft_nfc_ranges;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (tft_nfc_ranges[mid] >> 9 <= c)
            low = mid;
        else
            high = mid;
    }
    return tft_nfc_ranges[low] & 0x1ff;
}

/* No character below U+0300 changes or joins the character before it. */
static bool may_change(uint32_t c) { return c >= 0x300 && c < TFT_UTF8_BAD && properties(c) & 1; }

bool tft_nfc_may_change(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t c = (unsigned char)text[at];
        if (c < 0xcc) { /* U+0300 begins with the byte 0xcc */
            at++;
            continue;
        }
        at += tft_utf8_next(text + at, n - at, &c);
        if (may_change(c))
            return true;
    }
    return false;
}

/* ---- a part of the text, decomposed */

enum { SHORT = 64 };

struct parts {
    uint64_t *code; /* [n] class << 56 | position << 24 | code point: the order of sorted marks */
    size_t n;
};

static const uint32_t *find(const uint32_t (*row)[3], size_t n, uint32_t first, uint32_t second,
                            bool both)
{
    while (n) {
        size_t half = n / 2;
        const uint32_t *r = row[half];
        if (r[0] == first && (!both || r[1] == second))
            return r;
        if (r[0] < first || (r[0] == first && r[1] < second)) {
            row += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return NULL;
}

#define FIND(table, first, second, both)                                                           \
    find(table, sizeof(table) / sizeof *(table), first, second, both)

static void add(struct parts *p, uint32_t c)
{
    uint64_t order = c < TFT_UTF8_BAD ? properties(c) >> 1 : 0;
    p->code[p->n] = order << 56 | (uint64_t)p->n << 24 | c;
    p->n++;
}

/* The first part of a pair may have parts again, at most twice. */
size_t tft_nfd(uint32_t c, uint32_t parts[TFT_NFD_MAX])
{
    uint32_t second[TFT_NFD_MAX];
    size_t n = 0, n_second = 0;
    if (c - SYLLABLE < N_SYLLABLE) {
        uint32_t s = c - SYLLABLE;
        parts[n++] = L + s / (N_V * N_T);
        parts[n++] = V + s / N_T % N_V;
        if (s % N_T)
            parts[n++] = T + s % N_T;
        return n;
    }
    for (const uint32_t *r;
         n_second + 1 < TFT_NFD_MAX && (r = FIND(tft_nfc_parts, c, 0, false)); c = r[1])
        if (r[2])
            second[n_second++] = r[2];
    parts[n++] = c;
    while (n_second)
        parts[n++] = second[--n_second];
    return n;
}

unsigned tft_nfd_class(uint32_t c) { return properties(c) >> 1; }

static void decompose(struct parts *p, uint32_t c)
{
    uint32_t part[TFT_NFD_MAX];
    size_t n = tft_nfd(c, part);
    for (size_t i = 0; i < n; i++)
        add(p, part[i]);
}

static bool comes_before(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return *(const uint64_t *)a < *(const uint64_t *)b;
}

/* Sorts each run of marks by class, and keeps the order within a class. */
static void order_marks(struct parts *p)
{
    for (size_t start = 0, end; start < p->n; start = end) {
        end = start + 1;
        if (!(p->code[start] >> 56))
            continue;
        while (end < p->n && p->code[end] >> 56)
            end++;
        tft_heapsort(p->code + start, end - start, sizeof *p->code, comes_before, NULL);
    }
}

/* The composition of two code points, or 0. */
static uint32_t composed(uint32_t first, uint32_t second)
{
    if (first - L < N_L && second - V < N_V)
        return SYLLABLE + ((first - L) * N_V + second - V) * N_T;
    if (first - SYLLABLE < N_SYLLABLE && (first - SYLLABLE) % N_T == 0 && second - T - 1 < N_T - 1)
        return first + second - T;
    const uint32_t *r = FIND(tft_nfc_pairs, first, second, true);
    return r ? r[2] : 0;
}

/* Joins each character with the last starter before it, unless a character in between blocks: one
   of the same or a higher class, or a starter. */
static void compose(struct parts *p)
{
    size_t n = 0, starter = SIZE_MAX;
    uint64_t last = 0; /* the class of the previous character, 0 at the starter itself */
    for (size_t i = 0; i < p->n; i++) {
        uint64_t order = p->code[i] >> 56;
        uint32_t c = (uint32_t)(p->code[i] & 0xffffff), both = 0;
        bool near = starter != SIZE_MAX && (n == starter + 1 || (last && last < order));
        if (near)
            both = composed((uint32_t)(p->code[starter] & 0xffffff), c);
        if (both) {
            p->code[starter] = both;
            continue;
        }
        if (!order)
            starter = n;
        last = order;
        p->code[n++] = p->code[i];
    }
    p->n = n;
}

/* ---- text */

/* Composes text[n], valid UTF-8; `code` has room for its parts. Returns the length. */
static size_t compose_part(const char *text, size_t n, uint64_t *code, char *out)
{
    struct parts p = {code, 0};
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += tft_utf8_next(text + at, n - at, &c);
        decompose(&p, c);
    }
    order_marks(&p);
    compose(&p);
    size_t used = 0;
    for (size_t i = 0; i < p.n; i++)
        used += tft_utf8_put(out + used, (uint32_t)(p.code[i] & 0xffffff));
    return used;
}

/* The end of the part that begins at `at`: at a stable character, one that NFC never changes, or at
   the start of the text. The part ends before the next stable character. *changes: the part has
   unstable characters. */
static size_t part_end(const char *text, size_t n, size_t at, bool *changes, size_t *characters)
{
    uint32_t c;
    *changes = false;
    *characters = 0;
    for (size_t len; at < n; at += len, ++*characters) {
        len = tft_utf8_next(text + at, n - at, &c);
        bool open = may_change(c);
        if (!open && *characters)
            break;
        if (c >= TFT_UTF8_BAD) /* alone, and copied */
            return at + len;
        *changes = *changes || open;
    }
    return at;
}

enum tft_status tft_nfc(const char *text, size_t n, const struct tft_allocator *a, char *out,
                        size_t *n_out)
{
    uint64_t few[SHORT * TFT_NFD_MAX];
    *n_out = 0;
    for (size_t at = 0, end, characters; at < n; at = end) {
        bool changes;
        end = part_end(text, n, at, &changes, &characters);
        if (!changes) {
            memcpy(out + *n_out, text + at, end - at);
            *n_out += end - at;
            continue;
        }
        size_t size = 0;
        bool fits = tft_mul(characters, TFT_NFD_MAX * sizeof *few, &size);
        uint64_t *code = characters <= SHORT ? few : fits ? tft_alloc(a, size) : NULL;
        if (!code)
            return TFT_ERR_NOMEM;
        *n_out += compose_part(text + at, end - at, code, out + *n_out);
        if (code != few)
            tft_free(a, code, size);
    }
    return TFT_OK;
}
