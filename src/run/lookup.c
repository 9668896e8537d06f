#include "lookup.h"

enum { ONE = TFT_LOOKUP_ONE };

void tft_lookup_open(struct tft_lookup *k, uint32_t most, uint32_t costs)
{
    *k = (struct tft_lookup){.most = most, .pays = costs};
    for (uint32_t i = 0; i < TFT_LOOKUP_LENGTHS; i++)
        k->rate[i] = ONE / 2;
}

void tft_lookup_forget(struct tft_lookup *k)
{
    k->length = k->ahead = 0;
}

/* How many tokens before `a` equal the tokens before `b`, a < b. */
static uint32_t same(const int32_t *tokens, uint32_t a, uint32_t b)
{
    uint32_t n = 0;
    while (n < TFT_LOOKUP_LENGTHS && n < a && tokens[a - 1 - n] == tokens[b - 1 - n])
        n++;
    return n;
}

/* Looks for the longest text that is the same as the end of tokens[n]; of equal ones the newest. */
static void look(struct tft_lookup *k, const int32_t *tokens, uint32_t n)
{
    k->length = 0;
    for (uint32_t from = n - 1; from > 0 && k->length < TFT_LOOKUP_LENGTHS; from--) {
        if (tokens[from - 1] != tokens[n - 1])
            continue;
        uint32_t length = same(tokens, from, n);
        if (length > k->length) {
            k->length = length;
            k->from = from;
        }
    }
}

void tft_lookup_learn(uint32_t *rate, bool held)
{
    *rate = held ? *rate + (ONE - *rate) / 16 : *rate - *rate / 16;
}

void tft_lookup_see(struct tft_lookup *k, const int32_t *tokens, uint32_t n)
{
    bool held = k->length && tokens[k->from] == tokens[n - 1];
    if (k->length)
        tft_lookup_learn(&k->rate[k->length - 1], held);
    if (!held) {
        look(k, tokens, n);
        return;
    }
    k->from++;
    k->length += k->length < TFT_LOOKUP_LENGTHS;
}

uint32_t tft_lookup_chance(const struct tft_lookup *k)
{
    return k->length ? k->rate[k->length - 1] : 0;
}

uint32_t tft_lookup_propose(const struct tft_lookup *k, int32_t *tokens, uint32_t n, uint32_t most)
{
    uint32_t i = 0, length = k->length;
    uint64_t chance = ONE; /* that all draft tokens up to here hold */
    for (; length && i < most; i++) {
        chance = chance * k->rate[length - 1] / ONE;
        if (chance < k->pays)
            break;
        tokens[n + i] = tokens[k->from + i]; /* may be a draft token too: the match then overlaps */
        length += length < TFT_LOOKUP_LENGTHS;
    }
    return i;
}
