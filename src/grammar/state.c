/*
 * A place in a grammar, and the tokens that may come there. A place is a set of configurations: a
 * state of the automaton, and a stack of states to return to. Stacks share their lower parts.
 *
 * The mask of a configuration is found by a walk through the trie. Nearly all of it depends on the
 * state alone, and is kept: the tokens that fit without leaving the state's rule, and the nodes
 * of the trie where the rule may end. From those nodes on the walk is done again with the stack.
 */
#include "automaton.h"

#include "base/error.h"

enum { END = 0, OPEN = 1 }; /* stacks: of the root, of a rule whose caller is unknown */
enum {
    MOST = 1 << 12,     /* configurations of a set */
    SEEN = 2 * MOST,    /* places in the hash table of a set */
    WORK = 1 << 25,     /* configurations that a mask or a token may visit: about a second */
    TABLE = 1 << 12,
    CACHE = 16 << 20,
};

struct config {
    uint32_t state, stack;
};

struct stack {
    uint32_t back, below, chain; /* chain: the next one of the same hash; 0: none */
};

struct seen { /* a configuration of the set that is being made, if `set` is its number */
    struct config c;
    uint32_t set;
};

struct kept { /* the mask of a state, with its rule's caller unknown */
    uint32_t *bits; /* [n_word], then the nodes [n_open] */
    uint32_t n_open;
    size_t size;
};

struct tft_grammar_state {
    const struct tft_grammar *g;
    struct tft_vec now, set;   /* struct config: the place; sets of walks, one behind another */
    struct tft_vec stack;      /* struct stack; 0 and 1 are END and OPEN */
    struct tft_vec open;       /* nodes of the trie at which OPEN was reached */
    uint32_t table[TABLE];     /* stacks by hash */
    struct kept *kept;         /* [states of g] */
    size_t kept_bytes;
    uint32_t *mask;            /* [n_word] */
    struct seen seen[SEEN];    /* a hash table */
    uint32_t n_sets, work;     /* since the mask or the token began */
    enum tft_status status;    /* sticky: after an error no token may come */
    bool has_mask, reached_open;
};

/* ---- stacks */

static uint32_t stack_hash(uint32_t back, uint32_t below)
{
    uint32_t h = (back * 2654435761u) ^ (below * 2246822519u);
    return (h ^ h >> 15) & (TABLE - 1);
}

static uint32_t push(struct tft_grammar_state *s, uint32_t back, uint32_t below)
{
    uint32_t h = stack_hash(back, below);
    struct stack *p = s->stack.p;
    for (uint32_t i = s->table[h]; i; i = p[i].chain)
        if (p[i].back == back && p[i].below == below)
            return i;
    p = tft_vec_add(&s->stack, s->g->a, sizeof *p, 1);
    if (!p) {
        s->status = TFT_ERR_NOMEM;
        return END;
    }
    *p = (struct stack){back, below, s->table[h]};
    return s->table[h] = s->stack.n - 1;
}

/* Forgets stacks from number n on: the newest of a chain are its first. */
static void drop_stacks(struct tft_grammar_state *s, uint32_t n)
{
    struct stack *p = s->stack.p;
    while (s->stack.n > n) {
        struct stack last = p[--s->stack.n];
        s->table[stack_hash(last.back, last.below)] = last.chain;
    }
}

/* ---- sets */

static struct config *configs(const struct tft_vec *v)
{
    return v->p;
}

/* Begins a set at the end of s->set; returns where. */
static uint32_t begin_set(struct tft_grammar_state *s)
{
    if (!++s->n_sets) {
        memset(s->seen, 0, sizeof s->seen);
        s->n_sets = 1;
    }
    return s->set.n;
}

/* Adds to the set that was begun last, at `from`. A grammar with too many readings of a text at
   once is an error: to leave one out would forbid what it allows. */
static void add(struct tft_grammar_state *s, uint32_t from, uint32_t state, uint32_t stack)
{
    uint32_t i = (state * 2654435761u ^ stack * 2246822519u) >> 12 & (SEEN - 1);
    if (s->status)
        return;
    for (; s->seen[i].set == s->n_sets; i = (i + 1) & (SEEN - 1))
        if (s->seen[i].c.state == state && s->seen[i].c.stack == stack)
            return;
    if (s->set.n - from >= MOST || ++s->work > WORK) {
        s->status = TFT_ERR_UNSUPPORTED;
        return;
    }
    struct config *c = tft_vec_add(&s->set, s->g->a, sizeof *c, 1);
    if (c)
        *c = (s->seen[i] = (struct seen){{state, stack}, s->n_sets}).c;
    else
        s->status = TFT_ERR_NOMEM;
}

/* Follows calls and returns of the set that begins at `from`. A call behind which its rule ends
   needs no place to return to. */
static void close_set(struct tft_grammar_state *s, uint32_t from)
{
    const struct tft_grammar *g = s->g;
    const struct tft_auto_call *call = g->call.p;
    s->reached_open = false;
    for (uint32_t i = from; i < s->set.n; i++) {
        struct config c = configs(&s->set)[i];
        const struct tft_auto_state *state = tft_auto_state(g, c.state);
        if (state->accepts && c.stack == OPEN)
            s->reached_open = true;
        else if (state->accepts && c.stack != END) {
            struct stack top = ((struct stack *)s->stack.p)[c.stack];
            add(s, from, top.back, top.below);
        }
        for (uint32_t k = state->call; k < state[1].call; k++) {
            const struct tft_auto_state *to = tft_auto_state(g, call[k].to);
            bool tail = to->accepts && !to->reads && to->call == to[1].call &&
                        to->token == to[1].token;
            add(s, from, call[k].rule, tail ? c.stack : push(s, call[k].to, c.stack));
        }
    }
}

/* Makes the set behind `byte` of the set [from, end), at the end of s->set. Returns whether there
   is one. */
static bool step(struct tft_grammar_state *s, uint32_t from, uint32_t end, unsigned byte)
{
    uint32_t start = begin_set(s);
    for (uint32_t i = from; i < end; i++) {
        struct config c = configs(&s->set)[i];
        uint32_t to = tft_auto_next(s->g, c.state, byte);
        if (to)
            add(s, start, to, c.stack);
    }
    close_set(s, start);
    return s->set.n > start;
}

/* ---- masks */

static void set_bits(const struct tft_lexicon *lx, uint32_t *bits, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        bits[lx->token[i] / 32] |= 1u << lx->token[i] % 32;
}

static bool all_plain(const struct tft_grammar_state *s, uint32_t from, uint8_t plain)
{
    for (uint32_t i = from; i < s->set.n && plain != TFT_LEXICON_MIXED; i++)
        if (tft_auto_state(s->g, configs(&s->set)[i].state)->plain >= plain)
            return true;
    return false;
}

/* Sets the bits of the tokens below trie node `at` that go on from the set [from, end). `keeps`:
   notes where OPEN is reached. */
static void walk(struct tft_grammar_state *s, uint32_t at, uint32_t from, uint32_t end,
                 uint32_t *bits, bool keeps)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    for (uint32_t c = at + 1; c < lx->node[at].end && !s->status; c = lx->node[c].end) {
        const struct tft_trie_node *node = &lx->node[c];
        uint32_t stacks = s->stack.n, start = s->set.n;
        if (step(s, from, end, node->byte)) {
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
        drop_stacks(s, stacks);
    }
}

static void forget_masks(struct tft_grammar_state *s)
{
    for (uint32_t i = 0; i < s->g->n_state; i++) {
        tft_free(s->g->a, s->kept[i].bits, s->kept[i].size);
        s->kept[i] = (struct kept){0};
    }
    s->kept_bytes = 0;
}

/* The mask of a state by itself; NULL without memory. */
static const struct kept *keep(struct tft_grammar_state *s, uint32_t state)
{
    uint32_t n_word = s->g->lexicon->n_word;
    struct kept *k = &s->kept[state];
    if (k->bits)
        return k;
    uint32_t *bits = tft_alloc(s->g->a, n_word * sizeof *bits);
    if (!bits)
        return NULL;
    memset(bits, 0, n_word * sizeof *bits);
    s->set.n = s->open.n = 0;
    begin_set(s);
    add(s, 0, state, OPEN);
    walk(s, 0, 0, 1, bits, true);
    size_t size = ((size_t)n_word + s->open.n) * sizeof *bits;
    if (s->kept_bytes + size > CACHE)
        forget_masks(s);
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

static bool mask_config(struct tft_grammar_state *s, struct config c)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    const struct kept *k = keep(s, c.state);
    if (!k)
        return false;
    for (uint32_t i = 0; i < lx->n_word; i++)
        s->mask[i] |= k->bits[i];
    for (uint32_t i = 0; i < k->n_open && c.stack != END; i++) {
        struct stack top = ((struct stack *)s->stack.p)[c.stack];
        uint32_t stacks = s->stack.n;
        s->set.n = 0;
        begin_set(s);
        add(s, 0, top.back, top.below);
        close_set(s, 0);
        walk(s, k->bits[lx->n_word + i], 0, s->set.n, s->mask, false);
        drop_stacks(s, stacks);
    }
    return !s->status;
}

static bool is_end(const struct tft_grammar_state *s, int32_t id)
{
    return s->g->lexicon->ends[id / 32] >> id % 32 & 1;
}

/* A token that ends generation is no "other" token: the text is not complete here. */
static void mask_tokens(struct tft_grammar_state *s, uint32_t state)
{
    const struct tft_auto_state *a = tft_auto_state(s->g, state);
    const struct tft_auto_token *t = s->g->token.p;
    for (uint32_t i = a->token; i < a[1].token; i++) {
        uint32_t bit = 1u << t[i].id % 32, word = (uint32_t)t[i].id / 32;
        for (uint32_t k = 0; t[i].any_other && k < s->g->lexicon->n_vocab; k++)
            if (k != (uint32_t)t[i].id && !is_end(s, (int32_t)k))
                s->mask[k / 32] |= 1u << k % 32;
        if (!t[i].any_other)
            s->mask[word] |= bit;
    }
}

bool tft_grammar_can_end(const struct tft_grammar_state *s)
{
    for (uint32_t i = 0; i < s->now.n && !s->status; i++)
        if (configs(&s->now)[i].stack == END &&
            tft_auto_state(s->g, configs(&s->now)[i].state)->accepts)
            return true;
    return false;
}

/* The place is closed: what its calls lead to is in it. */
static bool goes_on(const struct tft_grammar_state *s, const struct config *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct tft_auto_state *a = tft_auto_state(s->g, c[i].state);
        if (a->reads || a->token < a[1].token)
            return true;
    }
    return false;
}

bool tft_grammar_is_done(const struct tft_grammar_state *s)
{
    return tft_grammar_can_end(s) && !goes_on(s, configs(&s->now), s->now.n);
}

uint32_t tft_grammar_vocab(const struct tft_grammar_state *s)
{
    return s->g->lexicon->n_vocab;
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
        struct config c = configs(&s->now)[i];
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

/* ---- tokens */

/* Makes the set behind token `id` at the end of s->set, which has the place at [0, now.n); *start:
   where it begins. */
static void advance(struct tft_grammar_state *s, int32_t id, uint32_t *start)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    const struct tft_auto_token *t = s->g->token.p;
    size_t n;
    const char *p = tft_tokenizer_text(lx->t, id, false, &n);
    uint32_t from = 0, end = s->set.n;
    bool ends = is_end(s, id), is_text = n && !ends;
    for (size_t i = 0; i < n && is_text && end > from; i++) {
        uint32_t next = s->set.n;
        step(s, from, end, (unsigned char)p[i]);
        from = next;
        end = s->set.n;
    }
    *start = is_text ? from : begin_set(s);
    for (uint32_t i = 0; i < s->now.n; i++) {
        struct config c = configs(&s->now)[i];
        const struct tft_auto_state *a = tft_auto_state(s->g, c.state);
        for (uint32_t k = a->token; k < a[1].token; k++)
            if (t[k].any_other ? t[k].id != id && !ends : t[k].id == id)
                add(s, *start, t[k].to, c.stack);
    }
    close_set(s, *start);
}

/* Begins a computation: s->set is the place. */
static bool load(struct tft_grammar_state *s)
{
    s->set.n = s->work = 0;
    struct config *c = s->status ? NULL : tft_vec_add(&s->set, s->g->a, sizeof *c, s->now.n);
    if (c)
        memcpy(c, s->now.p, s->now.n * sizeof *c);
    else if (!s->status)
        s->status = TFT_ERR_NOMEM;
    return c;
}

static bool is_token(const struct tft_grammar_state *s, int32_t id)
{
    return id >= 0 && (uint32_t)id < s->g->lexicon->n_vocab;
}

bool tft_grammar_allows(struct tft_grammar_state *s, int32_t id)
{
    uint32_t start, stacks = s->stack.n;
    if (!is_token(s, id))
        return false;
    if (s->has_mask)
        return s->mask[id / 32] >> id % 32 & 1;
    if (is_end(s, id) && tft_grammar_can_end(s))
        return true;
    if (!load(s))
        return false;
    advance(s, id, &start);
    drop_stacks(s, stacks);
    return s->set.n > start && !s->status;
}

/* Numbers the stacks that the place needs anew, and forgets the others. Lower parts come first. */
static bool compact(struct tft_grammar_state *s)
{
    struct stack *p = s->stack.p;
    uint32_t n = s->stack.n, kept = OPEN + 1, *to = tft_alloc(s->g->a, n * sizeof *to);
    if (!to)
        return false;
    memset(to, 0, n * sizeof *to);
    to[OPEN] = OPEN;
    for (uint32_t i = 0; i < s->now.n; i++)
        to[configs(&s->now)[i].stack] = 1;
    for (uint32_t i = n; i-- > OPEN + 1;)
        if (to[i])
            to[p[i].below] = 1;
    memset(s->table, 0, sizeof s->table);
    to[END] = END;
    for (uint32_t i = OPEN + 1; i < n; i++)
        if (to[i]) {
            uint32_t below = to[p[i].below], h = stack_hash(p[i].back, below);
            p[kept] = (struct stack){p[i].back, below, s->table[h]};
            s->table[h] = to[i] = kept++;
        }
    s->stack.n = kept;
    for (uint32_t i = 0; i < s->now.n; i++)
        configs(&s->now)[i].stack = to[configs(&s->now)[i].stack];
    tft_free(s->g->a, to, n * sizeof *to);
    return true;
}

/* The place becomes the set [start, end) of s->set. */
static enum tft_status settle(struct tft_grammar_state *s, uint32_t start)
{
    uint32_t n = s->set.n - start;
    s->now.n = 0;
    s->has_mask = false;
    struct config *c = s->status ? NULL : tft_vec_add(&s->now, s->g->a, sizeof *c, n);
    if (c)
        memcpy(c, configs(&s->set) + start, n * sizeof *c);
    if (!s->status && (!c || !compact(s)))
        s->status = TFT_ERR_NOMEM;
    return s->status;
}

enum tft_status tft_grammar_accept(struct tft_grammar_state *s, int32_t id)
{
    uint32_t start, stacks = s->stack.n;
    if (!is_token(s, id))
        return TFT_ERR_ARG;
    if (is_end(s, id) && tft_grammar_can_end(s))
        return TFT_OK;
    if (!load(s))
        return s->status;
    advance(s, id, &start);
    if (s->set.n == start && !s->status) {
        drop_stacks(s, stacks);
        return TFT_ERR_ARG;
    }
    return settle(s, start);
}

/* ---- forced text */

/* The only byte that can come behind the set [from, end); -1: none, several, a token that is no
   text, or the end. */
static int only_byte(const struct tft_grammar_state *s, uint32_t from, uint32_t end)
{
    int only = -1;
    for (uint32_t i = from; i < end; i++) {
        struct config c = configs(&s->set)[i];
        const struct tft_auto_state *a = tft_auto_state(s->g, c.state);
        if (a->token < a[1].token || (a->accepts && c.stack == END))
            return -1;
        for (int byte = 0; byte < 256 && a->reads; byte++)
            if (tft_auto_next(s->g, c.state, (unsigned)byte)) {
                if (only >= 0 && only != byte)
                    return -1;
                only = byte;
            }
    }
    return only;
}

size_t tft_grammar_only_text(struct tft_grammar_state *s, char *out, size_t cap, bool *done)
{
    uint32_t stacks = s->stack.n;
    uint32_t from = 0;
    size_t n = 0;
    int byte;
    *done = false;
    if (!load(s))
        return 0;
    for (; n < cap && !s->status && (byte = only_byte(s, from, s->set.n)) >= 0; n++) {
        uint32_t end = s->set.n;
        out[n] = (char)byte;
        step(s, from, end, (unsigned)byte);
        from = end;
    }
    *done = !goes_on(s, configs(&s->set) + from, s->set.n - from);
    drop_stacks(s, stacks);
    return s->status ? 0 : n;
}

const struct tft_tokenizer *tft_grammar_tokenizer(const struct tft_grammar_state *s)
{
    return s->g->lexicon->t;
}

/* ---- the object */

enum tft_status tft_grammar_begin(struct tft_grammar_state **out, const struct tft_grammar *g,
                                  struct tft_error *err)
{
    struct tft_grammar_state *s = tft_alloc(g->a, sizeof *s);
    enum tft_status status = TFT_ERR_NOMEM;
    *out = NULL;
    if (s) {
        memset(s, 0, sizeof *s); /* by itself 100 KiB: not a copy of a constant */
        s->g = g;
        s->kept = tft_alloc(g->a, g->n_state * sizeof *s->kept);
        s->mask = tft_alloc(g->a, g->lexicon->n_word * sizeof *s->mask);
        if (s->kept)
            memset(s->kept, 0, g->n_state * sizeof *s->kept);
        if (s->kept && s->mask && tft_vec_add(&s->stack, g->a, sizeof(struct stack), 2)) {
            begin_set(s);
            add(s, 0, g->root, END);
            close_set(s, 0);
            status = settle(s, 0);
        }
    }
    if (status == TFT_OK) {
        *out = s;
        return TFT_OK;
    }
    tft_grammar_end(s);
    return tft_fail(err, status,
                    status == TFT_ERR_NOMEM
                        ? "grammar: out of memory"
                        : "grammar: it begins in more than 4096 ways at once");
}

enum tft_status tft_grammar_copy(struct tft_grammar_state *to, const struct tft_grammar_state *from)
{
    if (to->g != from->g)
        return TFT_ERR_ARG;
    if (to == from)
        return TFT_OK;
    to->now.n = to->stack.n = 0;
    to->has_mask = false;
    to->status = from->status;
    if (from->status)
        return from->status;
    struct config *c = tft_vec_add(&to->now, to->g->a, sizeof *c, from->now.n);
    struct stack *p = tft_vec_add(&to->stack, to->g->a, sizeof *p, from->stack.n);
    if (!c || !p)
        return to->status = TFT_ERR_NOMEM;
    memcpy(c, from->now.p, from->now.n * sizeof *c);
    memcpy(p, from->stack.p, from->stack.n * sizeof *p);
    memcpy(to->table, from->table, sizeof to->table);
    return TFT_OK;
}

void tft_grammar_end(struct tft_grammar_state *s)
{
    if (!s)
        return;
    const struct tft_allocator *a = s->g->a;
    if (s->kept)
        forget_masks(s);
    tft_free(a, s->kept, s->g->n_state * sizeof *s->kept);
    tft_free(a, s->mask, s->g->lexicon->n_word * sizeof *s->mask);
    tft_vec_free(&s->now, a, sizeof(struct config));
    tft_vec_free(&s->set, a, sizeof(struct config));
    tft_vec_free(&s->stack, a, sizeof(struct stack));
    tft_vec_free(&s->open, a, sizeof(uint32_t));
    tft_free(a, s, sizeof *s);
}
