#include "nfa.h"

#include "base/error.h"
#include "base/utf8.h"

/* A rule is inlined where it is named if it has at most INLINE_PARTS parts, only bounded
   repetitions, and no way back to itself. Inlined rules share one deterministic automaton. */
enum { INLINE_PARTS = 48, INLINE_DEPTH = 12, INLINE_COPIES = 2048, TOO_MANY = 1 << 20 };
enum { MOST_EDGES = 1 << 20 };

static uint32_t fail(struct tft_nfa *n, enum tft_status code, const char *what)
{
    if (!n->x->status)
        n->x->status = tft_fail(n->x->err, code, "grammar: %s", what);
    return 0;
}

static uint32_t new_state(struct tft_nfa *n)
{
    if (n->state.n >= TFT_NFA_STATES)
        return fail(n, TFT_ERR_UNSUPPORTED, "too large: more than 262144 states");
    struct tft_nfa_state *s = tft_vec_add(&n->state, n->x->a, sizeof *s, 1);
    if (!s)
        return fail(n, TFT_ERR_NOMEM, "out of memory");
    s->counted = n->inside;
    return n->state.n - 1;
}

/* An edge between two states. Returns `to`, or 0 after an error. */
static uint32_t connect(struct tft_nfa *n, uint32_t from, enum tft_nfa_kind kind, uint32_t lo,
                        uint32_t hi, uint32_t to)
{
    if (n->edge.n >= MOST_EDGES)
        return fail(n, TFT_ERR_UNSUPPORTED,
                    "too large: more than 1048576 steps; shorten its "
                    "repetitions");
    struct tft_nfa_edge *e = from && to ? tft_vec_add(&n->edge, n->x->a, sizeof *e, 1) : NULL;
    if (!e)
        return fail(n, TFT_ERR_NOMEM, "out of memory");
    uint32_t *first = &((struct tft_nfa_state *)n->state.p)[from].edge;
    *e = (struct tft_nfa_edge){kind, lo, hi, to, *first};
    *first = n->edge.n - 1;
    return to;
}

/* ---- characters as bytes */

static bool all_are(const unsigned char *p, uint32_t n, unsigned char byte)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i] != byte)
            return false;
    return true;
}

/* Edges for the texts of n bytes from lo to hi, in the order of their bytes. */
static void connect_bytes(struct tft_nfa *n, uint32_t from, uint32_t to, const unsigned char *lo,
                          const unsigned char *hi, uint32_t len)
{
    static const unsigned char least[4] = {0x80, 0x80, 0x80, 0x80},
                               most[4] = {0xbf, 0xbf, 0xbf, 0xbf};
    unsigned first = *lo, last = *hi;
    if (n->x->status)
        return;
    if (len == 1) {
        connect(n, from, TFT_NFA_BYTES, first, last, to);
        return;
    }
    if (first == last) {
        uint32_t mid = connect(n, from, TFT_NFA_BYTES, first, first, new_state(n));
        connect_bytes(n, mid, to, lo + 1, hi + 1, len - 1);
        return;
    }
    if (!all_are(lo + 1, len - 1, 0x80)) {
        uint32_t mid = connect(n, from, TFT_NFA_BYTES, first, first, new_state(n));
        connect_bytes(n, mid, to, lo + 1, most, len - 1);
        first++;
    }
    if (!all_are(hi + 1, len - 1, 0xbf)) {
        uint32_t mid = connect(n, from, TFT_NFA_BYTES, last, last, new_state(n));
        connect_bytes(n, mid, to, least, hi + 1, len - 1);
        last--;
    }
    if (first <= last) {
        uint32_t mid = connect(n, from, TFT_NFA_BYTES, first, last, new_state(n));
        connect_bytes(n, mid, to, least, most, len - 1);
    }
}

/* Surrogates are not characters: a range is cut at surrogates, and where the length in bytes
   changes. */
static void connect_range(struct tft_nfa *n, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    static const uint32_t piece[][2] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        uint32_t a = lo > piece[i][0] ? lo : piece[i][0], b = hi < piece[i][1] ? hi : piece[i][1];
        unsigned char first[4], last[4];
        if (a > b)
            continue;
        tft_utf8_put((char *)first, a);
        connect_bytes(n, from, to, first, last, (uint32_t)tft_utf8_put((char *)last, b));
    }
}

/* ---- inlined rules */

static uint32_t rule_parts(struct tft_nfa *n, uint32_t rule, uint32_t depth);

/* The number of parts of a node and the nodes below; TOO_MANY: do not inline. */
static uint32_t parts(struct tft_nfa *n, uint32_t i, uint32_t depth)
{
    const struct tft_syntax_node *node = tft_syntax_node(n->x, i);
    uint32_t sum = 1;
    if (depth > INLINE_DEPTH) {
        n->too_deep = true;
        return TOO_MANY;
    }
    switch (node->kind) {
    case TFT_SYNTAX_CHARS:
    case TFT_SYNTAX_TOKEN: return 1;
    case TFT_SYNTAX_RULE: return rule_parts(n, node->first, depth + 1);
    case TFT_SYNTAX_REPEAT:
        if (!node->max)
            return 1;
        if (node->max > INLINE_PARTS)
            return TOO_MANY;
        sum = parts(n, node->first, depth + 1);
        return sum > INLINE_PARTS ? TOO_MANY : 1 + node->max * sum;
    default:
        for (uint32_t c = node->first; c && sum <= INLINE_PARTS; c = tft_syntax_node(n->x, c)->next)
            sum += parts(n, c, depth + 1); /* a part is at most TOO_MANY: the sum does not wrap */
        return sum > INLINE_PARTS ? TOO_MANY : sum;
    }
}

static uint32_t rule_parts(struct tft_nfa *n, uint32_t rule, uint32_t depth)
{
    if (n->inlined[rule] == 2)
        return TOO_MANY;
    n->inlined[rule] = 2; /* found again: a rule that leads back to itself */
    uint32_t sum = parts(n, tft_syntax_rule(n->x, rule)->body, depth);
    n->inlined[rule] = sum <= INLINE_PARTS ? 1 : n->too_deep ? 0 : 2; /* 0: too deep from here */
    return sum;
}

/* Counted repetitions inline INLINE_COPIES rules, then call rules: the automaton of a string of
   thousands of characters would be large. */
static bool is_inlined(struct tft_nfa *n, uint32_t rule)
{
    n->too_deep = false;
    if (!n->inlined[rule])
        rule_parts(n, rule, 0);
    return n->inlined[rule] == 1 && (!n->counted || n->copies++ < INLINE_COPIES);
}

/* ---- syntax */

static uint32_t add(struct tft_nfa *n, uint32_t node, uint32_t from);

/* Adds a part that comes `times` times. end: a state that may also follow before each time; 0:
   none. Returns the state after it. */
static uint32_t add_counted(struct tft_nfa *n, uint32_t node, uint32_t from, uint32_t times,
                            uint32_t end, enum tft_nfa_best best)
{
    uint32_t after = new_state(n);
    struct tft_nfa_counted *part = tft_vec_add(&n->part, n->x->a, sizeof *part, 1);
    if (!after || !part)
        return fail(n, TFT_ERR_NOMEM, "out of memory");
    n->inside = n->part.n - 1;
    uint32_t begin = new_state(n), last = begin;
    *part = (struct tft_nfa_counted){times, begin, after, best, false};
    if (end)
        connect(n, begin, TFT_NFA_EMPTY, 0, 0, end);
    last = add(n, node, begin);
    connect(n, last, TFT_NFA_AGAIN, 0, 0, begin);
    n->inside = 0;
    connect(n, from, TFT_NFA_EMPTY, 0, 0, begin);
    return n->x->status ? 0 : after;
}

/* Adds `times` copies of a node, with an edge to `end` before each, unless end is 0. */
static uint32_t add_copies(struct tft_nfa *n, uint32_t node, uint32_t from, uint32_t times,
                           uint32_t end)
{
    n->counted += times > 1;
    for (uint32_t i = 0; i < times && from; i++) {
        if (end)
            connect(n, from, TFT_NFA_EMPTY, 0, 0, end);
        from = add(n, node, from);
    }
    n->counted -= times > 1;
    return from;
}

/* The most times of a repetition in a node, without the rules that it names. */
static uint32_t most_times(struct tft_nfa *n, uint32_t i)
{
    const struct tft_syntax_node *node = tft_syntax_node(n->x, i);
    uint32_t most = 0;
    if (node->kind < TFT_SYNTAX_SEQ || ++n->steps > TFT_NFA_STEPS)
        return 0;
    if (node->kind == TFT_SYNTAX_REPEAT) {
        uint32_t inside = most_times(n, node->first);
        most = node->max == TFT_SYNTAX_MANY ? node->min : node->max;
        return most > inside ? most : inside;
    }
    for (uint32_t c = node->first; c; c = tft_syntax_node(n->x, c)->next) {
        uint32_t times = most_times(n, c);
        most = times > most ? times : most;
    }
    return most;
}

/* Adds `times` times of a node: counted, unless it is inside a counted part, or a part of it comes
   more often. */
static uint32_t add_times(struct tft_nfa *n, uint32_t node, uint32_t from, uint32_t times,
                          uint32_t end, enum tft_nfa_best best)
{
    if (times < TFT_NFA_COUNTED || n->inside || most_times(n, node) > times)
        return add_copies(n, node, from, times, end);
    for (uint32_t left = times, now; left && from; left -= now) {
        now = left < TFT_NFA_TIMES ? left : TFT_NFA_TIMES;
        if (now < TFT_NFA_COUNTED)
            from = add_copies(n, node, from, now, end);
        else
            from = add_counted(n, node, from, now, end, best);
    }
    return from;
}

static uint32_t add_repeat(struct tft_nfa *n, const struct tft_syntax_node *node, uint32_t from)
{
    bool many = node->max == TFT_SYNTAX_MANY;
    from = add_times(n, node->first, from, node->min, 0, many ? TFT_NFA_LAST : TFT_NFA_ALL);
    if (many) {
        uint32_t loop = connect(n, from, TFT_NFA_EMPTY, 0, 0, new_state(n)),
                 back = add(n, node->first, loop);
        connect(n, back, TFT_NFA_EMPTY, 0, 0, loop);
        return connect(n, loop, TFT_NFA_EMPTY, 0, 0, new_state(n));
    }
    uint32_t end = new_state(n);
    from = add_times(n, node->first, from, node->max - node->min, end, TFT_NFA_FIRST);
    return connect(n, from, TFT_NFA_EMPTY, 0, 0, end);
}

static uint32_t add_alt(struct tft_nfa *n, const struct tft_syntax_node *node, uint32_t from)
{
    uint32_t end = new_state(n);
    for (uint32_t c = node->first; c && end; c = tft_syntax_node(n->x, c)->next)
        if (!connect(n, add(n, c, from), TFT_NFA_EMPTY, 0, 0, end))
            return 0;
    return end;
}

/* Adds the edges of a node from the state `from` on; no edge leads back to `from`. Returns the
   state after the node; 0 after an error. */
static uint32_t add(struct tft_nfa *n, uint32_t i, uint32_t from)
{
    const struct tft_syntax_node *node = tft_syntax_node(n->x, i);
    const struct tft_syntax_range *r = n->x->range.p;
    if (!from || n->x->status)
        return 0;
    if (++n->steps > TFT_NFA_STEPS)
        return fail(n, TFT_ERR_UNSUPPORTED, "too large: its repetitions take too long to expand");
    switch (node->kind) {
    case TFT_SYNTAX_CHARS: {
        uint32_t end = new_state(n);
        for (uint32_t k = node->first; k < node->first + node->n && end; k++)
            connect_range(n, from, end, r[k].lo, r[k].hi);
        return n->x->status ? 0 : end;
    }
    case TFT_SYNTAX_RULE:
        if (is_inlined(n, node->first))
            return add(n, tft_syntax_rule(n->x, node->first)->body, from);
        return connect(n, from, TFT_NFA_CALL, node->first, 0, new_state(n));
    case TFT_SYNTAX_TOKEN:
        return connect(n, from, TFT_NFA_TOKEN, node->first, node->n, new_state(n));
    case TFT_SYNTAX_REPEAT: return add_repeat(n, node, from);
    case TFT_SYNTAX_ALT: return add_alt(n, node, from);
    case TFT_SYNTAX_SEQ:
        for (uint32_t c = node->first; c && from; c = tft_syntax_node(n->x, c)->next)
            from = add(n, c, from);
        return from;
    }
    return 0;
}

bool tft_nfa_begin(struct tft_nfa *n, struct tft_syntax *x)
{
    *n = (struct tft_nfa){.x = x, .inlined = tft_alloc(x->a, x->rule.n)};
    if (n->inlined)
        memset(n->inlined, 0, x->rule.n);
    return n->inlined && tft_vec_add(&n->edge, x->a, sizeof(struct tft_nfa_edge), 1) &&
           tft_vec_add(&n->state, x->a, sizeof(struct tft_nfa_state), 1) &&
           tft_vec_add(&n->part, x->a, sizeof(struct tft_nfa_counted), 1);
}

void tft_nfa_free(struct tft_nfa *n)
{
    tft_free(n->x->a, n->inlined, n->x->rule.n);
    tft_vec_free(&n->edge, n->x->a, sizeof(struct tft_nfa_edge));
    tft_vec_free(&n->state, n->x->a, sizeof(struct tft_nfa_state));
    tft_vec_free(&n->part, n->x->a, sizeof(struct tft_nfa_counted));
}

bool tft_nfa_rule(struct tft_nfa *n, uint32_t rule, uint32_t *start, uint32_t *end)
{
    *start = new_state(n);
    *end = add(n, tft_syntax_rule(n->x, rule)->body, *start);
    return *end && !n->x->status;
}
