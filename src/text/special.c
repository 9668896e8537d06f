#include "vocab.h"

#include <string.h>

/* By name, and equal names by id. */
static bool comes_before(const struct tft_special *a, const struct tft_special *b)
{
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return c ? c < 0 : a->n != b->n ? a->n < b->n : a->id < b->id;
}

static void sift_down(struct tft_special *heap, uint32_t at, uint32_t n)
{
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && comes_before(&heap[child], &heap[child + 1]))
            child++;
        if (!comes_before(&heap[at], &heap[child]))
            return;
        struct tft_special t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

/* Heapsort: no memory, and no input that makes it quadratic. */
static void sort(struct tft_special *s, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift_down(s, i, n);
    for (uint32_t i = n; i-- > 1;) {
        struct tft_special t = s[0];
        s[0] = s[i];
        s[i] = t;
        sift_down(s, 0, i);
    }
}

static bool same(const struct tft_special *a, const struct tft_special *b)
{
    return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

/* Of those with the same name the first id stays. */
static void drop_doubles(struct tft_tokenizer *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_special; i++)
        if (!n || !same(&t->special[n - 1], &t->special[i]))
            t->special[n++] = t->special[i];
    t->n_special = n;
}

void tft_special_sort(struct tft_tokenizer *t)
{
    sort(t->special, t->n_special);
    drop_doubles(t);
    uint32_t i = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        t->special_of[byte] = i;
        while (i < t->n_special && (unsigned char)*t->special[i].p == byte)
            i++;
    }
    t->special_of[256] = i;
}

/* The first of [low, high), which agree in their first `at` bytes and are longer, whose next byte
   is >= `byte`. */
static uint32_t bound(const struct tft_special *s, uint32_t low, uint32_t high, uint32_t at,
                      unsigned byte)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((unsigned char)s[mid].p[at] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Narrows the sorted names down, a byte of text at a time. In order, a name comes before those that
   it begins. */
size_t tft_special_match(const struct tft_tokenizer *t, const char *text, size_t n, bool control,
                         int32_t *id)
{
    unsigned byte = (unsigned char)*text;
    uint32_t low = t->special_of[byte], high = t->special_of[byte + 1];
    size_t best = 0;
    for (uint32_t at = 1; low < high; at++) {
        if (t->special[low].n == at) {
            int32_t found = t->special[low++].id;
            if (control || t->token[found].kind == TFT_TOKEN_USER) {
                best = at;
                *id = found;
            }
        }
        if (at == n)
            break;
        byte = (unsigned char)text[at];
        low = bound(t->special, low, high, at, byte);
        high = bound(t->special, low, high, at, byte + 1);
    }
    return best;
}
