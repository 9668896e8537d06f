/*
 * The mask of a place: the allowed tokens. A walk through the trie finds the mask of one
 * configuration. Most of the walk depends on the state alone, so its result is cached: the tokens
 * that fit without leaving the state's rule, and the nodes of the trie where the rule may end. From
 * these nodes on, each walk continues with the configuration's stack.
 *
 * Tokens with only characters of the state's run (runs.h), or a space and then such characters, are
 * set at once, without a walk. The walk then enters only nodes with characters that leave the run.
 */
#include "mask.h"

#include <string.h>

enum { CACHE = 16 << 20 }; /* bytes of cached masks */

static void set_bits(const struct tft_lexicon *lx, uint32_t *bits, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        bits[lx->token[i] / 32] |= 1u << lx->token[i] % 32;
}

/* Whether a state allows all tokens at trie node `node` and below. */
static bool allows_all(const struct tft_grammar *g, uint32_t state,
                       const struct tft_lexicon_node *node)
{
    const struct tft_auto_state *a = tft_auto_state(g, state);
    return !(node->kinds & ~a->kinds) &&
           node->chars <= (a->limit ? tft_auto_at(g, state).run : a->run);
}

/* ---- the run: its tokens are set before the walk (within.c) */

static unsigned run_chars(const struct tft_auto_state *run)
{
    return run->run < TFT_WITHIN_CHARS ? run->run : TFT_WITHIN_CHARS;
}

/* Enters a node: s->inside for its depth. */
static void enter(struct tft_grammar_state *s, const struct tft_lexicon_node *node)
{
    unsigned before = s->inside[node->depth - 1], byte = node->byte;
    unsigned kind = byte < 0x80 ? s->g->lexicon->kind[byte] : TFT_KIND_WIDE;
    if (before != TFT_PLACE_LEFT && (byte < 0x80 || byte >= 0xc0))
        before =
            s->run.kinds >> kind & 1 && before < run_chars(&s->run) ? before + 1 : TFT_PLACE_LEFT;
    s->inside[node->depth] = (uint8_t)before;
}

/* Whether no token at a node and below has more characters of the run than the set tokens. */
static bool is_short(const struct tft_grammar_state *s, const struct tft_lexicon_node *node)
{
    return s->inside[node->depth - 1] + node->chars <= run_chars(&s->run);
}

/* Whether all allowed tokens at a node and below are set. All characters so far are of the run, and
   the state is the run's. Tokens that are not UTF-8 are not allowed. */
static bool is_done(const struct tft_grammar_state *s, const struct tft_lexicon_node *node)
{
    return s->inside[node->depth - 1] != TFT_PLACE_LEFT && !(node->kinds & s->run.exits) &&
           (is_short(s, node) || (s->run.run <= TFT_WITHIN_CHARS && !(node->kinds & s->run.after)));
}

/* Sets the bits of the tokens at a node and below, unless begin_run has set them. */
static void set_all(const struct tft_grammar_state *s, const struct tft_lexicon_node *node,
                    uint32_t *bits)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    if (s->inside[node->depth - 1] == TFT_PLACE_LEFT || node->kinds & ~s->run.kinds ||
        !is_short(s, node))
        set_bits(lx, bits, node->token, lx->node[node->end].token);
}

/* The tokens of a class of characters; NULL: out of memory. */
static const uint32_t *class_bits(struct tft_grammar_state *s, uint32_t kinds, bool spaced)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    for (int i = 0; i < TFT_PLACE_CLASSES; i++)
        if (s->class[i].bits && s->class[i].kinds == kinds && s->class[i].spaced == spaced)
            return s->class[i].bits;
    struct tft_class *c = &s->class[s->next_class];
    if (!c->bits)
        c->bits = tft_alloc(s->g->a, lx->n_word * sizeof *c->bits);
    if (!c->bits) {
        s->status = TFT_ERR_NOMEM;
        return NULL;
    }
    tft_within(lx, spaced, kinds, c->bits);
    c->kinds = kinds;
    c->spaced = spaced;
    s->next_class = (s->next_class + 1) % TFT_PLACE_CLASSES;
    return c->bits;
}

/* Begins a walk from a state: sets the tokens of its run in bits[], if they are many; with
   `spaced`, tokens of a space and then the run. room: [n_word] workspace. */
static void begin_run(struct tft_grammar_state *s, uint32_t state, bool spaced, uint32_t *bits,
                      uint32_t *room)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    struct tft_auto_state a = tft_auto_at(s->g, state);
    const uint32_t *class = a.kinds & lx->common ? class_bits(s, a.kinds, spaced) : NULL;
    s->inside[spaced] = class ? 0 : TFT_PLACE_LEFT;
    s->run = a;
    if (!class)
        return;
    memcpy(room, class, lx->n_word * sizeof *room);
    if (run_chars(&a) < TFT_WITHIN_CHARS)
        tft_within_chars(lx, spaced, run_chars(&a), room);
    for (uint32_t i = 0; i < lx->n_word; i++)
        bits[i] |= room[i];
}

/* ---- the walk */

static void walk(struct tft_grammar_state *s, uint32_t at, uint32_t from, uint32_t end,
                 uint32_t *bits, bool keeps);

/* Walks on below node c from its set, which begins at `start` of s->set, then drops the set and all
   stacks except the first `stacks`. */
static void walk_below(struct tft_grammar_state *s, uint32_t c, uint32_t start, uint32_t stacks,
                       uint32_t *bits, bool keeps)
{
    const struct tft_lexicon_node *node = &s->g->lexicon->node[c];
    if (keeps && s->reached_open && node->end > c + 1) {
        uint32_t *open = tft_vec_add(&s->open, s->g->a, sizeof *open, 1);
        if (open)
            *open = c;
        else
            s->status = TFT_ERR_NOMEM;
    }
    walk(s, c, start, s->set.n, bits, keeps);
    s->set.n = start;
    tft_place_drop(s, stacks);
}

/* As walk(), for one configuration. While the configuration stays in its rule, a step is a table
   look-up. room: [n_word] workspace for a walk from the root of the trie, after begin_run; else
   NULL. */
static void walk_one(struct tft_grammar_state *s, uint32_t at, struct tft_config config,
                     uint32_t *bits, bool keeps, uint32_t *room)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    struct tft_auto_state run = s->run;
    uint32_t c = at + 1, end = lx->node[at].end, *path = s->path;
    path[lx->node[at].depth] = config.state;
    while (c < end && !s->status) {
        const struct tft_lexicon_node *node = &lx->node[c];
        uint32_t from = path[node->depth - 1], to;
        if (node->depth == 1)
            s->run = run;
        if (room && is_done(s, node)) {
            c = node->end;
        } else if (allows_all(s->g, from, node)) {
            set_all(s, node, bits);
            c = node->end;
        } else if (!(to = tft_auto_next(s->g, from, node->byte))) {
            c = node->end;
        } else {
            const struct tft_auto_state *a = tft_auto_state(s->g, to);
            set_bits(lx, bits, node->token, node[1].token);
            path[node->depth] = to;
            enter(s, node);
            if (room && node->depth == 1 && node->byte == ' ' && s->inside[1] == TFT_PLACE_LEFT)
                begin_run(s, to, true, bits, room);
            if (a->call < a[1].call || (a->accepts && config.stack != TFT_PLACE_END)) {
                uint32_t stacks = s->stack.n, start = tft_place_begin(s);
                tft_place_add(s, start, to, config.stack);
                tft_place_close(s, start);
                walk_below(s, c, start, stacks, bits, keeps);
                c = node->end;
            } else {
                tft_place_work(s);
                c++;
            }
        }
    }
}

/* The only configuration of the set [from, end) that reads bytes; NULL: none, or several. */
static const struct tft_config *only_reader(const struct tft_grammar_state *s, uint32_t from,
                                            uint32_t end)
{
    const struct tft_config *only = NULL;
    for (uint32_t i = from; i < end; i++)
        if (tft_auto_state(s->g, tft_configs(&s->set)[i].state)->reads) {
            if (only)
                return NULL;
            only = &tft_configs(&s->set)[i];
        }
    return only;
}

static bool some_allows_all(const struct tft_grammar_state *s, uint32_t from, uint32_t end,
                            const struct tft_lexicon_node *node)
{
    for (uint32_t i = from; i < end; i++)
        if (allows_all(s->g, tft_configs(&s->set)[i].state, node))
            return true;
    return false;
}

/* Sets the bits of the tokens below trie node `at` that may follow the set [from, end). keeps: adds
   the nodes that reach OPEN to s->open. */
static void walk(struct tft_grammar_state *s, uint32_t at, uint32_t from, uint32_t end,
                 uint32_t *bits, bool keeps)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    const struct tft_config *only = only_reader(s, from, end);
    if (only) {
        walk_one(s, at, *only, bits, keeps, NULL);
        return;
    }
    for (uint32_t c = at + 1; c < lx->node[at].end && !s->status; c = lx->node[c].end) {
        const struct tft_lexicon_node *node = &lx->node[c];
        uint32_t stacks = s->stack.n, start = s->set.n;
        if (some_allows_all(s, from, end, node)) {
            set_all(s, node, bits);
        } else if (tft_place_step(s, from, end, node->byte)) {
            set_bits(lx, bits, node->token, node[1].token);
            enter(s, node);
            walk_below(s, c, start, stacks, bits, keeps);
        }
        s->set.n = start;
        tft_place_drop(s, stacks);
    }
}

void tft_mask_forget(struct tft_grammar_state *s)
{
    for (size_t i = 0; i < tft_kept_count(s->g); i++) {
        tft_free(s->g->a, s->kept[i].bits, s->kept[i].size);
        s->kept[i] = (struct tft_kept){0};
    }
    s->kept_bytes = 0;
}

/* The place of a state's mask. All times of a counted state from which no token reaches the limit
   have the same mask. */
static struct tft_kept *place_of(struct tft_grammar_state *s, uint32_t state)
{
    uint32_t limit = tft_auto_state(s->g, state)->limit, time = state >> TFT_COUNT_SHIFT;
    if (!limit || limit - time > s->g->lexicon->longest)
        return &s->kept[tft_auto_index(state)];
    struct tft_kept *k = &s->kept[s->g->n_state + (state * 2654435761u >> 16) % TFT_PLACE_NEAR];
    if (k->bits && k->state != state) {
        tft_free(s->g->a, k->bits, k->size);
        s->kept_bytes -= k->size;
        *k = (struct tft_kept){0};
    }
    return k;
}

/* The cached mask of a state without a known caller; NULL: out of memory. */
static const struct tft_kept *keep(struct tft_grammar_state *s, uint32_t state)
{
    uint32_t n_word = s->g->lexicon->n_word;
    struct tft_kept *k = place_of(s, state);
    if (k->bits)
        return k;
    uint32_t *bits = tft_alloc(s->g->a, (size_t)n_word * 2 * sizeof *bits);
    if (!bits) {
        s->status = TFT_ERR_NOMEM;
        return NULL;
    }
    uint32_t *room = bits + n_word;
    memset(bits, 0, n_word * sizeof *bits);
    begin_run(s, state, false, bits, room);
    s->set.n = s->open.n = 0;
    bool top = tft_auto_state(s->g, state)->top;
    struct tft_config config = {state, top ? TFT_PLACE_END : TFT_PLACE_OPEN};
    walk_one(s, 0, config, bits, true, room);
    size_t size = ((size_t)n_word + s->open.n) * sizeof *bits;
    if (s->kept_bytes + size > CACHE)
        tft_mask_forget(s);
    k->bits = s->status ? NULL : tft_alloc(s->g->a, size);
    if (k->bits) {
        memcpy(k->bits, bits, n_word * sizeof *bits);
        if (s->open.n)
            memcpy(k->bits + n_word, s->open.p, s->open.n * sizeof *bits);
        k->n_open = s->open.n;
        k->state = state;
        k->size = size;
        s->kept_bytes += size;
    } else if (!s->status)
        s->status = TFT_ERR_NOMEM;
    tft_free(s->g->a, bits, (size_t)n_word * 2 * sizeof *bits);
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
        s->inside[lx->node[k->bits[lx->n_word + i]].depth] = TFT_PLACE_LEFT;
        walk(s, k->bits[lx->n_word + i], 0, s->set.n, s->mask, false);
        tft_place_drop(s, stacks);
    }
    return !s->status;
}

/* Applies the state's <TOKEN> and !<TOKEN> edges to the mask. !<TOKEN> never allows a token that
   ends generation, since the text is not complete here. */
static void mask_tokens(struct tft_grammar_state *s, uint32_t state)
{
    const struct tft_auto_state *a = tft_auto_state(s->g, state);
    const struct tft_auto_token *t = s->g->token.p;
    for (uint32_t i = a->token; i < a[1].token; i++) {
        uint32_t bit = 1u << t[i].id % 32, word = (uint32_t)t[i].id / 32;
        uint32_t n_vocab = s->g->lexicon->n_vocab, own = t[i].any_other ? s->mask[word] & bit : bit;
        for (uint32_t k = 0; t[i].any_other && k < s->g->lexicon->n_word; k++)
            s->mask[k] |= ~s->g->lexicon->ends[k];
        if (t[i].any_other && n_vocab % 32)
            s->mask[n_vocab / 32] &= (1u << n_vocab % 32) - 1;
        s->mask[word] = (s->mask[word] & ~bit) | own;
    }
}

const uint32_t *tft_grammar_mask(struct tft_grammar_state *s)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    if (s->status)
        return NULL;
    if (s->has_mask)
        return s->mask;
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
