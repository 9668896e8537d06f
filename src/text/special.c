#include "vocab.h"

#include <string.h>

#include "base/heapsort.h"

/* The order by name, and equal names by id. */
static bool comes_before(const void *ctx, const void *first, const void *second)
{
    (void)ctx;
    const struct tft_special *a = first, *b = second;
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return c ? c < 0 : a->n != b->n ? a->n < b->n : a->id < b->id;
}

static bool same(const struct tft_special *a, const struct tft_special *b)
{
    return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

/* Keeps only the first of tokens with the same name. */
static void drop_duplicates(struct tft_names *names)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < names->n; i++)
        if (!n || !same(&names->name[n - 1], &names->name[i]))
            names->name[n++] = names->name[i];
    names->n = n;
}

void tft_special_sort(struct tft_names *names)
{
    tft_heapsort(names->name, names->n, sizeof *names->name, comes_before, NULL);
    drop_duplicates(names);
    uint32_t i = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        names->first[byte] = i;
        while (i < names->n && (unsigned char)*names->name[i].p == byte)
            i++;
    }
    names->first[256] = i;
}

/* The first of s[low..high) with byte `pos` >= `byte`. All names are longer than `pos` and have the
   same first `pos` bytes. */
static uint32_t bound(const struct tft_special *s, uint32_t low, uint32_t high, uint32_t pos,
                      unsigned byte)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((unsigned char)s[mid].p[pos] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Narrows the range of names that the text can begin with, byte by byte. In the order of names, a
   name comes before longer names that begin with it. */
size_t tft_special_match(const struct tft_tokenizer *t, const struct tft_names *names,
                         const char *text, size_t n, size_t trusted, int32_t *id)
{
    unsigned byte = (unsigned char)*text;
    uint32_t low = names->first[byte], high = names->first[byte + 1];
    size_t best = 0;
    for (uint32_t pos = 1; low < high; pos++) {
        if (names->name[low].n == pos) {
            int32_t found = names->name[low++].id;
            if (pos <= trusted || t->token[found].kind == TFT_TOKEN_USER) {
                best = pos;
                *id = found;
            }
        }
        if (pos == n)
            break;
        byte = (unsigned char)text[pos];
        low = bound(names->name, low, high, pos, byte);
        high = bound(names->name, low, high, pos, byte + 1);
    }
    return best;
}
