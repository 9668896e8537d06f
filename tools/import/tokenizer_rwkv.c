/*
 * rwkv_vocab_v20230424.txt of RWKV's folders. A line has an id, a Python literal of a text or of
 * bytes, and the number of its bytes:
 *
 *      256 '\t\t' 2
 *      65530 b'\xf0\x9f\x9a' 3
 *
 * Names in the GGUF file are literals of bytes without quotes, as llama.cpp's converter writes them
 * (src/text/longest.c). Token 0 is <s>, which begins and ends texts; in a chat, an empty line ends
 * an answer.
 */
#include <string.h>
#include <stdlib.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "vocabulary.h"

enum { NAME_BYTES = 4 }; /* the most bytes of a name for one byte of text */

/* A literal between its quotes. */
struct literal {
    const char *p, *end;
    bool of_bytes;
};

/* The value of n digits at l->p, which are then passed; -1: they are damaged. */
static int64_t digits(struct literal *l, int n)
{
    int64_t x = 0;
    for (int i = 0; i < n; i++, l->p++) {
        int d = l->p < l->end ? tft_hex_digit(*l->p) : -1;
        if (d < 0)
            return -1;
        x = x * 16 + d;
    }
    return x;
}

/* The character, or byte, after a backslash. */
static int64_t escaped(struct literal *l)
{
    char c = l->p < l->end ? *l->p++ : 0;
    switch (c) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case '\\':
    case '\'':
    case '"': return c;
    case 'x': return digits(l, 2);
    case 'u': return l->of_bytes ? -1 : digits(l, 4);
    case 'U': return l->of_bytes ? -1 : digits(l, 8);
    default: return -1;
    }
}

/* Writes the text's bytes to `to`, at most as many as the literal has, and their number to *n. */
static bool evaluate(struct literal l, char *to, size_t *n)
{
    for (*n = 0; l.p < l.end;) {
        if (*l.p != '\\') {
            to[(*n)++] = *l.p++;
            continue;
        }
        l.p++;
        int64_t c = escaped(&l);
        if (c < 0 || c >= TFT_UTF8_BAD)
            return false;
        if (l.of_bytes)
            to[(*n)++] = (char)c;
        else
            *n += tft_utf8_put(to + *n, (uint32_t)c);
    }
    return true;
}

/* Writes the name of text[n] to `to`, and returns its length. */
static size_t put_name(char *to, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    char *at = to;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *escape = c == '\t' ? "t" : c == '\n' ? "n" : c == '\r' ? "r" : "\\";
        if (c == '\t' || c == '\n' || c == '\r' || c == '\\') {
            *at++ = '\\';
            *at++ = *escape;
        } else if (c < ' ' || c >= 0x7f) {
            *at++ = '\\';
            *at++ = 'x';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        } else {
            *at++ = (char)c;
        }
    }
    return (size_t)(at - to);
}

/* A decimal number of p .. end - 1; false: it is none below 2^31. */
static bool number(const char *p, const char *end, uint64_t *n)
{
    *n = 0;
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9' || *n > INT32_MAX / 10)
            return false;
        *n = *n * 10 + (uint64_t)(*p - '0');
    }
    return true;
}

/* The literal p .. end - 1, with quotes. */
static bool literal_of(const char *p, const char *end, struct literal *l)
{
    l->of_bytes = p < end && *p == 'b';
    p += l->of_bytes;
    if (end - p < 2 || (*p != '\'' && *p != '"') || end[-1] != *p)
        return false;
    l->p = p + 1;
    l->end = end - 1;
    return true;
}

/* One line without its end. to: room for names; returns the bytes used. */
static size_t read_line(struct import_vocabulary *v, const char *line, size_t n, char *to)
{
    const char *end = line + n, *first = memchr(line, ' ', n), *last = end;
    struct literal l;
    uint64_t id, want;
    size_t have = 0;
    while (first && last > first + 1 && last[-1] != ' ')
        last--;
    bool good = first && last > first + 1 && number(line, first, &id) && number(last, end, &want) &&
                literal_of(first + 1, last - 1, &l);
    char *text = to + NAME_BYTES * n; /* after the longest name */
    if (!good || !evaluate(l, text, &have) || have != want || !have) {
        VOCABULARY_BAD(v, "\"%.*s\" is not an id, a literal and the number of its bytes",
                       n < 60 ? (int)n : 60, line);
        return 0;
    }
    size_t size = put_name(to, text, have);
    vocabulary_add(v, id, (struct tft_str){to, size}, TFT_TOKEN_NORMAL, 0);
    return size;
}

void vocabulary_read_rwkv(struct import_vocabulary *v, const unsigned char *data, size_t size)
{
    static const struct tft_str begin = {"<s>", 3}, empty_line = {"\\n\\n", 4};
    const char *p = (const char *)data, *end = p + size;
    v->model = "rwkv";
    v->text = size < SIZE_MAX / (NAME_BYTES + 1) ? malloc((NAME_BYTES + 1) * size) : NULL;
    if (!v->text)
        VOCABULARY_FAIL(v, TFT_ERR_NOMEM, "%s: out of memory", v->path);
    vocabulary_add(v, 0, begin, TFT_TOKEN_CONTROL, 0);
    size_t used = 0;
    for (size_t n; p < end && !v->im->status; p += n + (p + n < end)) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));
        n = lf ? (size_t)(lf - p) : (size_t)(end - p);
        size_t cut = n && p[n - 1] == '\r';
        if (n > cut)
            used += read_line(v, p, n - cut, v->text + used);
    }
    if (v->im->status)
        return;
    v->bos = v->eos = 0;
    v->flags[0] |= VOCABULARY_ENDS;
    v->eot = vocabulary_find(v, empty_line);
    if (v->eot >= 0)
        v->flags[v->eot] |= VOCABULARY_ENDS;
}
