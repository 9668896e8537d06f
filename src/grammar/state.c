/* Moves through a grammar: tft_grammar_begin, _allows, _accept, _copy, _end. */
#include "base/error.h"
#include "mask.h"

bool tft_grammar_can_end(const struct tft_grammar_state *s)
{
    for (uint32_t i = 0; i < s->now.n && !s->status; i++)
        if (tft_configs(&s->now)[i].stack == TFT_PLACE_END &&
            tft_auto_state(s->g, tft_configs(&s->now)[i].state)->accepts)
            return true;
    return false;
}

/* Whether a byte or a token can come. The set c[n] is closed: it includes the targets of its
   calls. */
static bool goes_on(const struct tft_grammar_state *s, const struct tft_config *c, uint32_t n)
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
    return tft_grammar_can_end(s) && !goes_on(s, tft_configs(&s->now), s->now.n);
}

uint32_t tft_grammar_vocab(const struct tft_grammar_state *s)
{
    return s->g->lexicon->n_vocab;
}

/* ---- tokens */

/* Makes the set after token `id` at the end of s->set, which has the place at [0, now.n); *start:
   the new set's first index. */
static void advance(struct tft_grammar_state *s, int32_t id, uint32_t *start)
{
    const struct tft_lexicon *lx = s->g->lexicon;
    const struct tft_auto_token *t = s->g->token.p;
    size_t n;
    const char *p = tft_tokenizer_text(lx->t, id, false, &n);
    uint32_t from = 0, end = s->set.n;
    bool ends = tft_ends(s, id), is_text = n && !ends;
    for (size_t i = 0; i < n && is_text && end > from; i++) {
        uint32_t next = s->set.n;
        tft_place_step(s, from, end, (unsigned char)p[i]);
        from = next;
        end = s->set.n;
    }
    *start = is_text ? from : tft_place_begin(s);
    for (uint32_t i = 0; i < s->now.n; i++) {
        struct tft_config c = tft_configs(&s->now)[i];
        const struct tft_auto_state *a = tft_auto_state(s->g, c.state);
        for (uint32_t k = a->token; k < a[1].token; k++)
            if (t[k].any_other ? t[k].id != id && !ends : t[k].id == id)
                tft_place_add(s, *start, tft_auto_to(s->g, c.state, t[k].to), c.stack);
    }
    tft_place_close(s, *start);
}

/* Begins a computation: copies the place to s->set. */
static bool load(struct tft_grammar_state *s)
{
    s->set.n = s->work = 0;
    struct tft_config *c = s->status ? NULL : tft_vec_add(&s->set, s->g->a, sizeof *c, s->now.n);
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
    if (!is_token(s, id) || s->status)
        return false;
    if (s->has_mask)
        return s->mask[id / 32] >> id % 32 & 1;
    if (tft_ends(s, id) && tft_grammar_can_end(s))
        return true;
    if (!load(s))
        return false;
    advance(s, id, &start);
    tft_place_drop(s, stacks);
    if (s->status == TFT_ERR_UNSUPPORTED) { /* the mask needs the readings of one configuration */
        s->status = TFT_OK;
        return tft_grammar_mask(s) && s->mask[id / 32] >> id % 32 & 1;
    }
    return s->set.n > start && !s->status;
}

/* The place becomes the set [start, end) of s->set. */
static enum tft_status settle(struct tft_grammar_state *s, uint32_t start)
{
    uint32_t n = s->set.n - start;
    s->now.n = 0;
    s->has_mask = false;
    struct tft_config *c = s->status ? NULL : tft_vec_add(&s->now, s->g->a, sizeof *c, n);
    if (c)
        memcpy(c, tft_configs(&s->set) + start, n * sizeof *c);
    if (!s->status && (!c || !tft_place_compact(s)))
        s->status = TFT_ERR_NOMEM;
    return s->status;
}

enum tft_status tft_grammar_accept(struct tft_grammar_state *s, int32_t id)
{
    uint32_t start, stacks = s->stack.n;
    if (!is_token(s, id))
        return TFT_ERR_ARG;
    if (tft_ends(s, id) && tft_grammar_can_end(s))
        return TFT_OK;
    if (!load(s))
        return s->status;
    advance(s, id, &start);
    if (s->set.n == start && !s->status) {
        tft_place_drop(s, stacks);
        return TFT_ERR_ARG;
    }
    return settle(s, start);
}

/* ---- forced text */

/* The only byte that can follow the set [from, end); -1: no byte or several can follow, or a token
   by name or the end of the text can. */
static int only_byte(const struct tft_grammar_state *s, uint32_t from, uint32_t end)
{
    int only = -1;
    for (uint32_t i = from; i < end; i++) {
        struct tft_config c = tft_configs(&s->set)[i];
        const struct tft_auto_state *a = tft_auto_state(s->g, c.state);
        if (a->token < a[1].token || (a->accepts && c.stack == TFT_PLACE_END))
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
        tft_place_step(s, from, end, (unsigned)byte);
        from = end;
    }
    *done = !goes_on(s, tft_configs(&s->set) + from, s->set.n - from);
    tft_place_drop(s, stacks);
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
        memset(s, 0, sizeof *s); /* the struct has 100 KiB: too much for a constant to copy from */
        s->g = g;
        s->kept = tft_alloc(g->a, tft_kept_count(g) * sizeof *s->kept);
        s->mask = tft_alloc(g->a, g->lexicon->n_word * sizeof *s->mask);
        if (s->kept)
            memset(s->kept, 0, tft_kept_count(g) * sizeof *s->kept);
        s->path = tft_alloc(g->a, (g->lexicon->longest + (size_t)1) * sizeof *s->path);
        s->inside = tft_alloc(g->a, g->lexicon->longest + (size_t)1);
        if (s->kept && s->mask && s->path && s->inside &&
            tft_vec_add(&s->stack, g->a, sizeof(struct tft_stack), 2)) {
            tft_place_begin(s);
            tft_place_add(s, 0, g->root, TFT_PLACE_END);
            tft_place_close(s, 0);
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
                        : "grammar: there are more than 4096 ways to read its beginning");
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
    struct tft_config *c = tft_vec_add(&to->now, to->g->a, sizeof *c, from->now.n);
    struct tft_stack *p = tft_vec_add(&to->stack, to->g->a, sizeof *p, from->stack.n);
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
        tft_mask_forget(s);
    tft_free(a, s->kept, tft_kept_count(s->g) * sizeof *s->kept);
    tft_free(a, s->mask, s->g->lexicon->n_word * sizeof *s->mask);
    for (int i = 0; i < TFT_PLACE_CLASSES; i++)
        tft_free(a, s->class[i].bits, s->g->lexicon->n_word * sizeof *s->mask);
    tft_free(a, s->inside, s->g->lexicon->longest + (size_t)1);
    tft_free(a, s->path, (s->g->lexicon->longest + (size_t)1) * sizeof *s->path);
    tft_vec_free(&s->now, a, sizeof(struct tft_config));
    tft_vec_free(&s->set, a, sizeof(struct tft_config));
    tft_vec_free(&s->stack, a, sizeof(struct tft_stack));
    tft_vec_free(&s->open, a, sizeof(uint32_t));
    tft_vec_free(&s->renamed, a, sizeof(uint32_t));
    tft_free(a, s, sizeof *s);
}
