#include "lexicon.h"

#include <string.h>

#include "base/alloc.h"

/* lx->within[spaced] has a mask for each kind, of the tokens with such a character; a mask for each
   bit of the number of characters, of the tokens with this bit; and a mask of all tokens. */

static uint32_t *mask(const struct tft_lexicon *lx, bool spaced, unsigned i)
{
    return lx->within[spaced] + (size_t)i * lx->n_word;
}

/* Sets the bits of a token with bytes p[n], after the space if `spaced`. The last character may be
   incomplete. */
static void add(struct tft_lexicon *lx, bool spaced, int32_t id, const unsigned char *p, size_t n,
                uint32_t count[TFT_KINDS])
{
    uint32_t kinds = 0, bit = 1u << id % 32, word = (uint32_t)id / 32;
    unsigned chars = 0;
    int utf8 = 0;
    for (size_t i = 0; i < n; i++) {
        if (!utf8) {
            kinds |= 1u << (p[i] < 0x80 ? lx->kind[p[i]] : TFT_KIND_WIDE);
            if (++chars > TFT_WITHIN_CHARS)
                return;
        }
        utf8 = tft_utf8_step(utf8, p[i]);
        if (utf8 < 0)
            return;
    }
    for (unsigned k = 0; k < TFT_KINDS; k++)
        if (kinds >> k & 1) {
            mask(lx, spaced, k)[word] |= bit;
            count[k]++;
        }
    for (unsigned k = 0; k < TFT_WITHIN_PLANES; k++)
        if (chars >> k & 1)
            mask(lx, spaced, TFT_KINDS + k)[word] |= bit;
    mask(lx, spaced, TFT_WITHIN_MASKS - 1)[word] |= bit;
}

bool tft_within_make(struct tft_lexicon *lx)
{
    size_t words, size;
    uint32_t count[TFT_KINDS] = {0};
    if (!tft_mul(TFT_WITHIN_MASKS, lx->n_word, &words) || !tft_mul(words, sizeof(uint32_t), &size))
        return false;
    for (int spaced = 0; spaced < 2; spaced++) {
        lx->within[spaced] = tft_alloc(lx->allocator, size);
        if (!lx->within[spaced])
            return false;
        memset(lx->within[spaced], 0, size);
    }
    for (uint32_t i = 0; i < lx->n_token; i++) {
        size_t n;
        const unsigned char *p =
            (const unsigned char *)tft_tokenizer_text(lx->t, lx->token[i], false, &n);
        add(lx, false, lx->token[i], p, n, count);
        if (*p == ' ')
            add(lx, true, lx->token[i], p + 1, n - 1, count);
    }
    for (unsigned k = 0; k < TFT_KINDS; k++)
        lx->common |= count[k] > lx->n_token / 16 ? 1u << k : 0;
    return true;
}

void tft_within_free(struct tft_lexicon *lx)
{
    for (int spaced = 0; spaced < 2; spaced++)
        tft_free(lx->allocator, lx->within[spaced],
                 (size_t)TFT_WITHIN_MASKS * lx->n_word * sizeof(uint32_t));
}

void tft_within(const struct tft_lexicon *lx, bool spaced, uint32_t kinds, uint32_t *bits)
{
    memcpy(bits, mask(lx, spaced, TFT_WITHIN_MASKS - 1), lx->n_word * sizeof *bits);
    for (unsigned k = 0; k < TFT_KINDS; k++) {
        const uint32_t *has = mask(lx, spaced, k);
        for (uint32_t i = 0; i < lx->n_word && !(kinds >> k & 1); i++)
            bits[i] &= ~has[i];
    }
}

void tft_within_chars(const struct tft_lexicon *lx, bool spaced, unsigned chars, uint32_t *bits)
{
    const uint32_t *plane = mask(lx, spaced, TFT_KINDS);
    for (uint32_t i = 0; i < lx->n_word; i++) {
        uint32_t less = 0, equal = ~0u;
        for (unsigned k = TFT_WITHIN_PLANES; k-- > 0;) {
            uint32_t set = plane[(size_t)k * lx->n_word + i];
            if (chars >> k & 1) {
                less |= equal & ~set;
                equal &= set;
            } else {
                equal &= ~set;
            }
        }
        bits[i] &= less | equal;
    }
}
