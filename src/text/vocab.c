#include "vocab.h"

#include <string.h>

uint32_t tft_vocab_table_size(uint32_t n)
{
    uint32_t size = 4;
    while (size / 4 * 3 < n)
        size *= 2;
    return size;
}

/* Multiplies in eight bytes at a time, and folds the high half of the product onto the low half. */
uint32_t tft_vocab_hash(const struct tft_tokenizer *t, const char *p, size_t n)
{
    uint64_t h = n;
    while (n) {
        uint64_t x = 0;
        size_t k = n < 8 ? n : 8;
        memcpy(&x, p, k);
        h = (h ^ x) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
        h ^= h >> 32;
        p += k;
        n -= k;
    }
    h ^= h >> 15;
    __builtin_prefetch(&t->entry[h & (t->n_entry - 1)]);
    return (uint32_t)h;
}

static bool has_bytes(const struct tft_tokenizer *t, int32_t id, const char *p, size_t n)
{
    return t->token[id].n == n && memcmp(t->bytes + t->token[id].offset, p, n) == 0;
}

/* The entry of p[n], or the empty entry for p[n]; NULL after TFT_PROBE_MAX other entries. */
static struct tft_token_entry *find(const struct tft_tokenizer *t, const char *p, size_t n,
                                    uint32_t h)
{
    for (uint32_t i = 0; i < TFT_PROBE_MAX; i++) {
        struct tft_token_entry *entry = &t->entry[(h + i) & (t->n_entry - 1)];
        if (entry->id < 0 || (entry->hash == h && has_bytes(t, entry->id, p, n)))
            return entry;
    }
    return NULL;
}

int32_t tft_vocab_find(const struct tft_tokenizer *t, const char *p, size_t n, uint32_t hash)
{
    const struct tft_token_entry *entry = find(t, p, n, hash);
    return entry ? entry->id : -1;
}

/* Enters normal tokens with or without the flag RAW, or all others, which do not have it. */
static bool enter(struct tft_tokenizer *t, bool normal, unsigned raw)
{
    for (uint32_t i = 0; i < t->n_token; i++) {
        if ((t->token[i].kind == TFT_TOKEN_NORMAL) != normal || !t->token[i].n ||
            (t->token[i].flags & TFT_TOKEN_RAW) != raw)
            continue;
        const char *p = t->bytes + t->token[i].offset;
        uint32_t h = tft_vocab_hash(t, p, t->token[i].n);
        struct tft_token_entry *entry = find(t, p, t->token[i].n, h);
        if (!entry)
            return false;
        if (entry->id < 0)
            *entry = (struct tft_token_entry){h, (int32_t)i};
    }
    return true;
}

bool tft_vocab_fill_table(struct tft_tokenizer *t)
{
    return enter(t, true, 0) && enter(t, true, TFT_TOKEN_RAW) && enter(t, false, 0);
}

uint64_t tft_vocab_offset(const struct tft_source *s, const struct tft_value *v, const void *p)
{
    uintptr_t address = (uintptr_t)p, file = (uintptr_t)s->data;
    return address >= file && address - file < s->size ? address - file : v->offset;
}

size_t tft_vocab_decode(const struct tft_tokenizer *t, struct tft_str s, char *out)
{
    bool wordpiece = t->kind == TFT_VOCAB_WORDPIECE;
    size_t n = 0;
    if (t->kind == TFT_VOCAB_LONGEST) {
        tft_longest_decode(s, out, &n);
        return n;
    }
    if (!t->by_character && !wordpiece)
        return tft_bpe_decode(s, out);
    for (size_t i = 0; i < s.n; n++) {
        bool space = s.n - i >= 3 && memcmp(s.p + i, "\xe2\x96\x81", 3) == 0;
        space = space && (!i || !wordpiece); /* WordPiece: at the start of a word alone */
        out[n] = space ? ' ' : s.p[i];
        i += space ? 3 : 1;
    }
    return n;
}
