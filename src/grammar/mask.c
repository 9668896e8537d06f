/*
 * The tokens that may come at a place. The mask of a configuration is found by a walk through the
 * trie. Nearly all of it depends on the state alone, and is kept: the tokens that fit without
 * leaving the state's rule, and the nodes of the trie where the rule may end. From those nodes on
 * the walk is done again with the stack.
 */
#include "mask.h"

#include <string.h>

enum { CACHE = 16 << 20 }; /* bytes of kept masks */

static void set_bits(const struct tft_lexicon *lx, uint32_t *bits, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        bits[lx->token[i] / 32] |= 1u << lx->token[i] % 32;
}

static bool all_plain(const struct tft_grammar_state *s, uint32_t from, uint8_t plain)
{
    for (uint32_t i = from; i < s->set.n && plain != TFT_LEXICON_MIXED; i++)
        if (tft_auto_state(s->g, tft_configs(&s->set)[i].state)->plain >= plain)
            return true;
    return false;
}

/* Sets the bits of the tokens below trie node `at` that go on from the set [from, end). `keeps`:
   notes where TFT_PLACE_OPEN is reached. */
static void walk(struct tft_grammar_state *s, uint32_t at, uint32_t from, uint32_t end,
                 uint32_t *bits, bool keeps)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    for (uint32_t c = at + 1; c < lx->node[at].end && !s->status; c = lx->node[c].end) {
        const struct tft_trie_node *node = &lx->node[c];
        uint32_t stacks = s->stack.n, start = s->set.n;
        if (tft_place_step(s, from, end, node->byte)) {
            if (all_plain(s, start, node->plain))
                set_bits(lx, bits, node->token, lx->node[node->end].token);
            else {
                set_bits(lx, bits, node->token, node[1].token);
                uint32_t *open = keeps && s->reached_open && node->end > c + 1
                                     ? tft_vec_add(&s->open, s->g->a, sizeof *open, 1)
                                     : NULL;
                if (open)
                    *open = c;
                else if (keeps && s->reached_open && node->end > c + 1)
                    s->status = TFT_ERR_NOMEM;
                walk(s, c, start, s->set.n, bits, keeps);
            }
        }
        s->set.n = start;
        tft_place_drop(s, stacks);
    }
}

void tft_mask_forget(struct tft_grammar_state *s)
{
    for (uint32_t i = 0; i < s->g->n_state; i++) {
        tft_free(s->g->a, s->kept[i].bits, s->kept[i].size);
        s->kept[i] = (struct tft_kept){0};
    }
    s->kept_bytes = 0;
}

/* The mask of a state by itself; NULL without memory. */
static const struct tft_kept *keep(struct tft_grammar_state *s, uint32_t state)
{
    uint32_t n_word = s->g->lexicon->n_word;
    struct tft_kept *k = &s->kept[state];
    if (k->bits)
        return k;
    uint32_t *bits = tft_alloc(s->g->a, n_word * sizeof *bits);
    if (!bits)
        return NULL;
    memset(bits, 0, n_word * sizeof *bits);
    s->set.n = s->open.n = 0;
    tft_place_begin(s);
    tft_place_add(s, 0, state, TFT_PLACE_OPEN);
    walk(s, 0, 0, 1, bits, true);
    size_t size = ((size_t)n_word + s->open.n) * sizeof *bits;
    if (s->kept_bytes + size > CACHE)
        tft_mask_forget(s);
    k->bits = s->status ? NULL : tft_alloc(s->g->a, size);
    if (k->bits) {
        memcpy(k->bits, bits, n_word * sizeof *bits);
        if (s->open.n)
            memcpy(k->bits + n_word, s->open.p, s->open.n * sizeof *bits);
        k->n_open = s->open.n;
        k->size = size;
        s->kept_bytes += size;
    }
    tft_free(s->g->a, bits, n_word * sizeof *bits);
    return k->bits ? k : NULL;
}

static bool mask_config(struct tft_grammar_state *s, struct tft_config c)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    const struct tft_kept *k = keep(s, c.state);
    if (!k)
        return false;
    for (uint32_t i = 0; i < lx->n_word; i++)
        s->mask[i] |= k->bits[i];
    for (uint32_t i = 0; i < k->n_open && c.stack != TFT_PLACE_END; i++) {
        struct tft_stack top = tft_stack_top(s, c.stack);
        uint32_t stacks = s->stack.n;
        s->set.n = 0;
        tft_place_begin(s);
        tft_place_add(s, 0, top.back, top.below);
        tft_place_close(s, 0);
        walk(s, k->bits[lx->n_word + i], 0, s->set.n, s->mask, false);
        tft_place_drop(s, stacks);
    }
    return !s->status;
}

/* A token that ends generation is no "other" token: the text is not complete here. */
static void mask_tokens(struct tft_grammar_state *s, uint32_t state)
{
    const struct tft_auto_state *a = tft_auto_state(s->g, state);
    const struct tft_auto_token *t = s->g->token.p;
    for (uint32_t i = a->token; i < a[1].token; i++) {
        uint32_t bit = 1u << t[i].id % 32, word = (uint32_t)t[i].id / 32;
        for (uint32_t k = 0; t[i].any_other && k < s->g->lexicon->n_vocab; k++)
            if (k != (uint32_t)t[i].id && !tft_ends(s, (int32_t)k))
                s->mask[k / 32] |= 1u << k % 32;
        if (!t[i].any_other)
            s->mask[word] |= bit;
    }
}

const uint32_t *tft_grammar_mask(struct tft_grammar_state *s)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    if (s->has_mask)
        return s->mask;
    if (s->status)
        return NULL;
    s->work = 0;
    memset(s->mask, 0, lx->n_word * sizeof *s->mask);
    for (uint32_t i = 0; i < s->now.n; i++) {
        struct tft_config c = tft_configs(&s->now)[i];
        if (tft_auto_state(s->g, c.state)->reads && !mask_config(s, c))
            return NULL;
        mask_tokens(s, c.state);
    }
    bool ends = tft_grammar_can_end(s);
    for (uint32_t i = 0; i < lx->n_word && ends; i++)
        s->mask[i] |= lx->ends[i];
    s->has_mask = true;
    return s->mask;
}
