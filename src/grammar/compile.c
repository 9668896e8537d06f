/*
 * Compiles syntax into automata. Each called rule becomes a deterministic automaton over bytes (the
 * subset construction: Rabin and Scott 1959), with calls as extra symbols. A repetition of many
 * times has one state for all times where its times have the same edges. Then parts that cannot end
 * are removed, so every place after a token can be completed.
 */
#include "automaton.h"

#include "base/error.h"
#include "base/heapsort.h"
#include "nfa.h"
#include "prune.h"
#include "runs.h"

/*
 * A set of NFA states [n] from `first` of the pool, ascending. limit: not 0 for a counted set. Such
 * a set has states of one counted part, at their first time, and stands for all times below
 * `limit`. No edge leads into the part from elsewhere, and steps within the part lead to counted
 * sets, so the edges are the same at all times.
 */
struct set {
    uint32_t first, n, hash_next;
    uint32_t rule_end; /* the rule's end: the set accepts if it contains this state */
    uint32_t rule, limit;
};

struct range {
    uint32_t from, to;
    uint8_t lo, hi;
};

struct compile {
    struct tft_syntax *x;
    struct tft_grammar *g;
    struct tft_nfa nfa;
    struct tft_vec set, pool, range; /* sets: one for each state of g */
    struct tft_vec closure, stack;   /* NFA states */
    struct seen {
        uint32_t state, tick; /* tick: the last closure that saw the state */
    } * mark;                 /* [n_mark, a power of two] a hash table */
    uint32_t tick, n_mark;
    struct tft_vec met;   /* NFA states that the closure saw */
    uint32_t within;      /* the counted part of the set that the current edge leaves */
    bool entered, stayed; /* the closure has edges into counted parts, and edges inside `within` */
    bool again;           /* a counted part is now copied: all sets are made anew */
    uint32_t *begins, *ends; /* [rules] the first and last NFA state of each rule, 0: not made */
    uint32_t rule;           /* the rule of the current set, for messages; 0: none */
    uint32_t *slot;          /* [SLOTS] sets by hash */
    uint32_t *start;         /* [rules] first state of each rule, 0: not compiled */
    uint32_t begin;          /* the rule's first NFA state: always kept */
    uint64_t steps;          /* edges and members of sets visited */
};
enum { SLOTS = 1 << 16, STEPS = 1 << 26, POOL = 1 << 22 };
enum { SPREAD = 3 }; /* the most times between the states of a counted set */

static bool fail(struct compile *c, enum tft_status code, const char *what)
{
    const struct tft_syntax_rule *rule = tft_syntax_rule(c->x, c->rule);
    if (!c->x->status && c->rule && code == TFT_ERR_UNSUPPORTED)
        c->x->status = tft_fail(c->x->err, code, "grammar: rule %.*s is %s",
                                rule->n < 60 ? (int)rule->n : 60, rule->name, what);
    else if (!c->x->status)
        c->x->status = tft_fail(c->x->err, code, "grammar: %s", what);
    return false;
}

/* Counts steps. Sets of a short text can have billions of members: ("a"?){60000}. */
static bool spend(struct compile *c, uint32_t steps)
{
    c->steps += steps;
    return c->steps <= STEPS || fail(c, TFT_ERR_UNSUPPORTED,
                                     "too large: its repetitions and alternatives take too long "
                                     "to compile; shorten them");
}

static uint32_t *nfa_states(const struct tft_vec *v) { return v->p; }

static const struct tft_nfa_edge *edge(const struct compile *c, uint32_t i)
{
    return (const struct tft_nfa_edge *)c->nfa.edge.p + i;
}

static uint32_t first_edge(const struct compile *c, uint32_t state)
{
    return ((const struct tft_nfa_state *)c->nfa.state.p)[tft_auto_index(state)].edge;
}

/* The counted part of an NFA state; 0: none. */
static uint32_t part_of(const struct compile *c, uint32_t state)
{
    return ((const struct tft_nfa_state *)c->nfa.state.p)[tft_auto_index(state)].counted;
}

static struct tft_nfa_counted *part(const struct compile *c, uint32_t i)
{
    return (struct tft_nfa_counted *)c->nfa.part.p + i;
}

/* ---- closures */

static bool push(struct compile *c, struct tft_vec *v, uint32_t state)
{
    uint32_t *p = tft_vec_add(v, c->x->a, sizeof *p, 1);
    if (p)
        *p = state;
    return p || fail(c, TFT_ERR_NOMEM, "out of memory");
}

/* Marks a state; false: the closure has seen it. */
static bool mark(struct compile *c, uint32_t state)
{
    uint32_t i = (state * 2654435761u >> 8) & (c->n_mark - 1);
    for (; c->mark[i].tick == c->tick; i = (i + 1) & (c->n_mark - 1))
        if (c->mark[i].state == state)
            return false;
    c->mark[i] = (struct seen){state, c->tick};
    return true;
}

/* Makes room for twice the marks. */
static bool more_marks(struct compile *c)
{
    uint32_t old = c->n_mark, room = old ? old * 2 : 1024;
    struct seen *table = tft_alloc(c->x->a, room * sizeof *table);
    if (!table)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    memset(table, 0, room * sizeof *table);
    tft_free(c->x->a, c->mark, old * sizeof *table);
    c->mark = table;
    c->n_mark = room;
    c->tick = 1;
    for (uint32_t i = 0; i < c->met.n; i++)
        mark(c, nfa_states(&c->met)[i]);
    return true;
}

static void see(struct compile *c, uint32_t state)
{
    if (2 * c->met.n >= c->n_mark && !more_marks(c))
        return;
    if (mark(c, state) && push(c, &c->met, state))
        push(c, &c->stack, state);
}

/* Sees the state that an edge of a state leads to. Inside a counted part, an edge keeps the time;
   after the last time, the edge back leads on. */
static void see_target(struct compile *c, uint32_t state, const struct tft_nfa_edge *e)
{
    uint32_t from = part_of(c, state), into = part_of(c, e->to), to = e->to;
    uint32_t time = state >> TFT_COUNT_SHIFT;
    if (e->kind == TFT_NFA_AGAIN && ++time == part(c, from)->times) {
        to = part(c, from)->after;
        into = 0;
    }
    c->entered = c->entered || (into && into != from);
    c->stayed = c->stayed || (into && into == from && into == c->within);
    see(c, into && into == from ? to + (time << TFT_COUNT_SHIFT) : to);
}

static void start_closure(struct compile *c)
{
    c->tick++;
    c->closure.n = c->stack.n = c->met.n = 0;
    c->within = 0;
    c->entered = c->stayed = false;
}

static bool state_before(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return *(const uint32_t *)a < *(const uint32_t *)b;
}

/* Removes from the closure, which is sorted, states of counted parts that are there at a better
   time too. */
static void keep_best(struct compile *c, enum tft_nfa_best best)
{
    uint32_t *p = c->closure.p, n = c->closure.n, kept = 0;
    bool last = best == TFT_NFA_LAST;
    c->tick++;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *state = &p[last ? n - 1 - k : k], in = part_of(c, *state);
        if (in && part(c, in)->best == best && !mark(c, tft_auto_index(*state)))
            *state = UINT32_MAX;
    }
    for (uint32_t i = 0; i < n; i++)
        if (p[i] != UINT32_MAX)
            p[kept++] = p[i];
    c->closure.n = kept;
}

/* Follows the empty edges of the states seen; keeps states with other edges, and the rule's end. */
static void close_set(struct compile *c, uint32_t rule_end)
{
    while (c->stack.n && !c->x->status) {
        uint32_t state = nfa_states(&c->stack)[--c->stack.n];
        bool kept = state == rule_end || state == c->begin;
        for (uint32_t e = first_edge(c, state); e && spend(c, 1); e = edge(c, e)->next)
            if (edge(c, e)->kind <= TFT_NFA_AGAIN)
                see_target(c, state, edge(c, e));
            else
                kept = true;
        if (kept)
            push(c, &c->closure, state);
    }
    if (c->closure.n > 1 && spend(c, 8 * c->closure.n)) /* a member takes about 8 steps to sort */
        tft_heapsort(c->closure.p, c->closure.n, sizeof(uint32_t), state_before, NULL);
    if (c->nfa.part.n > 1 && !c->x->status) {
        keep_best(c, TFT_NFA_FIRST);
        keep_best(c, TFT_NFA_LAST);
    }
}

/* If the closure is a counted set, moves its states to their first time and returns the set's
   limit; *time: the time before. Otherwise returns 0. */
static uint32_t count_closure(struct compile *c, uint32_t *time)
{
    uint32_t *p = c->closure.p, n = c->closure.n, in = 0, least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t own = part_of(c, p[i]), at = p[i] >> TFT_COUNT_SHIFT;
        if (own && in && own != in)
            return 0;
        in = own ? own : in;
        least = own && at < least ? at : least;
        most = own && at > most ? at : most;
    }
    uint32_t limit = in ? part(c, in)->times - TFT_NFA_MARGIN : 0;
    if (!in || c->entered || part(c, in)->copied || most - least > SPREAD || least >= limit)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        p[i] -= part_of(c, p[i]) ? least << TFT_COUNT_SHIFT : 0;
    tft_heapsort(p, n, sizeof *p, state_before, NULL);
    *time = least;
    return limit;
}

/* The index of the state for the closure; limit: the set's. 0 after an error. */
static uint32_t state_of_closure(struct compile *c, uint32_t rule_end, uint32_t limit)
{
    const uint32_t *key = c->closure.p;
    uint32_t n = c->closure.n, h = 2166136261u ^ limit;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ key[i]) * 16777619u;
    h = (h ^ h >> 15) & (SLOTS - 1);
    struct set *set = c->set.p;
    for (uint32_t i = c->slot[h]; i && spend(c, 1); i = set[i].hash_next)
        if (set[i].n == n && set[i].limit == limit &&
            memcmp(nfa_states(&c->pool) + set[i].first, key, n * sizeof *key) == 0)
            return i;
    if (c->set.n >= TFT_AUTOMATON_STATES || n > POOL - c->pool.n)
        return fail(c, TFT_ERR_UNSUPPORTED,
                    "too large: more than 131072 states, or 4194304 "
                    "members of states; shorten its repetitions");
    set = tft_vec_add(&c->set, c->x->a, sizeof *set, 1);
    uint32_t first = c->pool.n, *copy = tft_vec_add(&c->pool, c->x->a, sizeof *copy, n);
    if (!set || !copy)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    memcpy(copy, key, n * sizeof *key);
    *set = (struct set){first, n, c->slot[h], rule_end, c->rule, limit};
    return c->slot[h] = c->set.n - 1;
}

/* The grammar's state for the closure of the states seen; 0 if the closure is empty, or after an
   error. */
static uint32_t state_of_set(struct compile *c, uint32_t rule_end)
{
    uint32_t time = 0;
    close_set(c, rule_end);
    if (!c->closure.n || c->x->status)
        return 0;
    uint32_t limit = count_closure(c, &time), state = state_of_closure(c, rule_end, limit);
    return state ? state + (time << TFT_COUNT_SHIFT) : 0;
}

/* The counted part of a counted set. */
static uint32_t part_of_set(const struct compile *c, const struct set *set)
{
    uint32_t in = 0;
    for (uint32_t i = 0; i < set->n && !in; i++)
        in = part_of(c, nfa_states(&c->pool)[set->first + i]);
    return in;
}

/* The state for a counted set at its limit, from where on each time has states of its own. */
static uint32_t state_at_limit(struct compile *c, const struct set *set)
{
    start_closure(c);
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t state = nfa_states(&c->pool)[set->first + i];
        push(c, &c->closure, state + (part_of(c, state) ? set->limit << TFT_COUNT_SHIFT : 0));
    }
    if (c->x->status)
        return 0;
    tft_heapsort(c->closure.p, c->closure.n, sizeof(uint32_t), state_before, NULL);
    return state_of_closure(c, set->rule_end, 0);
}

/* ---- the edges of a state */

/* The state of the targets of set s's edges with this symbol. */
static uint32_t follow(struct compile *c, uint32_t s, enum tft_nfa_kind kind, uint32_t lo,
                       uint32_t hi)
{
    struct set set = ((struct set *)c->set.p)[s];
    start_closure(c);
    c->within = set.limit ? part_of_set(c, &set) : 0;
    for (uint32_t i = 0; i < set.n && spend(c, 1); i++)
        for (uint32_t state = nfa_states(&c->pool)[set.first + i], e = first_edge(c, state);
             e && spend(c, 1); e = edge(c, e)->next) {
            const struct tft_nfa_edge *x = edge(c, e);
            if (x->kind == kind &&
                (kind == TFT_NFA_BYTES ? x->lo <= lo && x->hi >= lo : x->lo == lo && x->hi == hi))
                see_target(c, state, x);
        }
    uint32_t to = state_of_set(c, set.rule_end);
    bool counted = ((struct set *)c->set.p)[tft_auto_index(to)].limit;
    if (c->stayed && to && (!counted || to >> TFT_COUNT_SHIFT > 1)) { /* the edge is another one at
                                                                         another time */
        part(c, c->within)->copied = true;
        c->again = true;
    }
    return to;
}

/* Omits bytes that are not a token alone: a place that needs such a byte might have no token. */
static bool add_bytes(struct compile *c, uint32_t s, const bool *starts)
{
    const bool *has = c->g->lexicon->has_byte;
    for (unsigned lo = 0, hi; lo < 256 && !c->x->status; lo = hi + 1) {
        for (hi = lo; hi < 255 && !starts[hi + 1] && has[hi + 1] == has[lo]; hi++)
            ;
        uint32_t to = has[lo] ? follow(c, s, TFT_NFA_BYTES, lo, hi) : 0;
        struct range *last = c->range.n ? (struct range *)c->range.p + c->range.n - 1 : NULL;
        if (to && last && last->from == s && last->to == to && last->hi + 1u == lo) {
            last->hi = (uint8_t)hi;
            continue;
        }
        struct range *r = to ? tft_vec_add(&c->range, c->x->a, sizeof *r, 1) : NULL;
        if (r)
            *r = (struct range){s, to, (uint8_t)lo, (uint8_t)hi};
        else if (to)
            return fail(c, TFT_ERR_NOMEM, "out of memory");
    }
    return !c->x->status;
}

static bool add_call(struct compile *c, uint32_t s, const struct tft_auto_state *from,
                     uint32_t rule)
{
    struct tft_auto_call *call = c->g->call.p;
    if (!spend(c, c->g->call.n - from->call))
        return false;
    for (uint32_t i = from->call; i < c->g->call.n; i++)
        if (call[i].rule == rule)
            return true;
    uint32_t to = follow(c, s, TFT_NFA_CALL, rule, 0);
    if (!to) /* nothing can follow */
        return !c->x->status;
    call = tft_vec_add(&c->g->call, c->x->a, sizeof *call, 1);
    if (!call)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    *call = (struct tft_auto_call){rule, to};
    return true;
}

static bool add_token(struct compile *c, uint32_t s, const struct tft_auto_state *from, int32_t id,
                      bool any_other)
{
    struct tft_auto_token *t = c->g->token.p;
    if (!spend(c, c->g->token.n - from->token))
        return false;
    for (uint32_t i = from->token; i < c->g->token.n; i++)
        if (t[i].id == id && t[i].any_other == any_other)
            return true;
    uint32_t to = follow(c, s, TFT_NFA_TOKEN, (uint32_t)id, any_other);
    if (!to)
        return !c->x->status;
    t = tft_vec_add(&c->g->token, c->x->a, sizeof *t, 1);
    if (!t)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    *t = (struct tft_auto_token){id, to, any_other};
    return true;
}

/* Makes the edges of state s, and the states that they lead to. */
static bool expand(struct compile *c, uint32_t s)
{
    struct set set = ((struct set *)c->set.p)[s];
    struct tft_auto_state state = {.call = c->g->call.n, .token = c->g->token.n};
    c->rule = set.rule;
    bool starts[257] = {true}, ok = true;
    for (uint32_t i = 0; i < set.n && ok; i++) {
        uint32_t at = nfa_states(&c->pool)[set.first + i];
        state.accepts = state.accepts || at == set.rule_end;
        for (uint32_t e = first_edge(c, at); e && ok; e = edge(c, e)->next) {
            struct tft_nfa_edge x = *edge(c, e);
            if (x.kind == TFT_NFA_BYTES)
                starts[x.lo] = starts[x.hi + 1] = state.reads = true;
            else if (x.kind == TFT_NFA_CALL)
                ok = add_call(c, s, &state, x.lo);
            else if (x.kind == TFT_NFA_TOKEN)
                ok = add_token(c, s, &state, (int32_t)x.lo, x.hi);
        }
    }
    if (!ok || (state.reads && !add_bytes(c, s, starts)))
        return false;
    state.limit = set.limit;
    state.edge = set.limit ? state_at_limit(c, &set) : 0;
    struct tft_auto_state *added = tft_vec_add(&c->g->state, c->x->a, sizeof *added, 1);
    if (!added)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    *added = state;
    return true;
}

/* ---- rules */

static uint32_t start_rule(struct compile *c, uint32_t rule)
{
    if (c->start[rule])
        return c->start[rule];
    c->rule = rule;
    if (!c->begins[rule] && !tft_nfa_rule(&c->nfa, rule, &c->begins[rule], &c->ends[rule]))
        return 0;
    start_closure(c);
    c->begin = c->begins[rule]; /* if a rule matches nothing, such as [], this is its only state */
    see(c, c->begin);
    c->start[rule] = state_of_set(c, c->ends[rule]);
    c->begin = 0;
    return c->start[rule];
}

/* Makes the states of all rules; stops where a counted part must be copied. */
static bool make_states(struct compile *c)
{
    c->again = false;
    c->set.n = c->pool.n = c->range.n = c->g->state.n = c->g->call.n = c->g->token.n = 0;
    memset(c->slot, 0, SLOTS * sizeof *c->slot);
    memset(c->start, 0, c->x->rule.n * sizeof *c->start);
    if (!tft_vec_add(&c->set, c->x->a, sizeof(struct set), 1) ||
        !tft_vec_add(&c->g->state, c->x->a, sizeof(struct tft_auto_state), 1))
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    c->g->root = start_rule(c, c->x->root);
    for (uint32_t s = 1; s < c->set.n && !c->x->status && !c->again; s++) {
        uint32_t first = c->g->call.n;
        if (!expand(c, s))
            return false;
        for (uint32_t i = first; i < c->g->call.n && !c->x->status; i++)
            start_rule(c, ((struct tft_auto_call *)c->g->call.p)[i].rule);
    }
    return !c->x->status;
}

static bool compile_rules(struct compile *c)
{
    do
        if (!make_states(c))
            return false;
    while (c->again);
    c->rule = 0;
    struct tft_auto_state *end =
        c->x->status ? NULL : tft_vec_add(&c->g->state, c->x->a, sizeof *end, 1);
    if (!end)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    end->call = c->g->call.n;
    end->token = c->g->token.n;
    return true;
}

/* ---- tables */

/* Finds the classes of bytes. */
static void make_classes(struct compile *c)
{
    struct tft_grammar *g = c->g;
    const struct range *r = c->range.p;
    bool starts[257] = {true};
    for (uint32_t i = 0; i < c->range.n; i++)
        starts[r[i].lo] = starts[r[i].hi + 1] = true;
    for (unsigned b = 0; b < 256; b++) {
        g->n_class += starts[b];
        g->class[b] = (uint8_t)(g->n_class - 1);
    }
}

/* Gives each state its place among the rows. The ranges of a state are neighbours. */
static bool place_rows(struct compile *c)
{
    struct tft_grammar *g = c->g;
    const struct range *r = c->range.p;
    struct tft_auto_state *state = g->state.p;
    uint64_t words = 0;
    for (uint32_t s = 0, i = 0; s < g->n_state; s++) {
        uint32_t first = i;
        while (i < c->range.n && r[i].from == s)
            i++;
        state[s].row = (uint32_t)words;
        state[s].sparse = i - first <= TFT_AUTOMATON_SPARSE;
        state[s].n = (uint16_t)(state[s].sparse ? i - first : g->n_class);
        words += state[s].sparse ? 2u * state[s].n : state[s].n;
        if (words > TFT_AUTOMATON_WORDS)
            return fail(c, TFT_ERR_UNSUPPORTED,
                        "too large: more than 8388608 next states; shorten its repetitions");
    }
    g->n_next = (uint32_t)words;
    g->next = tft_alloc(c->x->a, g->n_next * sizeof *g->next);
    if (!g->next)
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    memset(g->next, 0, g->n_next * sizeof *g->next);
    return true;
}

static void fill_row(struct tft_grammar *g, const struct tft_auto_state *a, const struct range *r,
                     uint32_t i)
{
    uint32_t *row = g->next + a->row;
    if (a->sparse) {
        row[i] = r->to;
        row[a->n + i] = r->lo | (uint32_t)r->hi << 8;
        return;
    }
    for (unsigned k = g->class[r->lo]; k <= g->class[r->hi]; k++)
        row[k] = r->to;
}

static bool make_rows(struct compile *c)
{
    struct tft_grammar *g = c->g;
    const struct range *r = c->range.p;
    g->n_state = c->set.n;
    make_classes(c);
    if (!place_rows(c))
        return false;
    for (uint32_t i = 0, at = 0; i < c->range.n; i++) {
        at = i && r[i].from == r[i - 1].from ? at + 1 : 0;
        fill_row(g, tft_auto_state(g, r[i].from), &r[i], at);
    }
    return true;
}

static bool make_table(struct compile *c)
{
    struct tft_grammar *g = c->g;
    if (!tft_vec_fit(&g->state, g->a, sizeof(struct tft_auto_state)) ||
        !tft_vec_fit(&g->call, g->a, sizeof(struct tft_auto_call)) ||
        !tft_vec_fit(&g->token, g->a, sizeof(struct tft_auto_token)))
        return fail(c, TFT_ERR_NOMEM, "out of memory");
    if (!make_rows(c))
        return false;
    struct tft_auto_call *call = g->call.p;
    struct tft_prune p = {.g = g, .a = c->x->a, .start = c->start, .n_rule = c->x->rule.n};
    const char *wrong = NULL;
    uint32_t rule = 0;
    enum tft_status status = tft_prune(&p, &rule, &wrong);
    if (status && !c->x->status)
        c->x->status = tft_fail(c->x->err, status, "grammar: %s%.*s", wrong,
                                (int)tft_syntax_rule(c->x, rule)->n,
                                rule ? tft_syntax_rule(c->x, rule)->name : "");
    for (uint32_t i = 0; i < g->call.n; i++)
        call[i].rule = c->start[call[i].rule];
    return !status && (tft_runs_find(g, c->x->a) || fail(c, TFT_ERR_NOMEM, "out of memory"));
}

static enum tft_status compile(struct tft_grammar *g, struct tft_syntax *x)
{
    struct compile c = {.x = x, .g = g};
    c.slot = tft_alloc(x->a, SLOTS * sizeof *c.slot);
    c.start = tft_alloc(x->a, x->rule.n * sizeof *c.start);
    c.begins = tft_alloc(x->a, x->rule.n * sizeof *c.begins);
    c.ends = tft_alloc(x->a, x->rule.n * sizeof *c.ends);
    bool ok = tft_nfa_begin(&c.nfa, x) && c.slot && c.start && c.begins && c.ends;
    if (ok) {
        memset(c.begins, 0, x->rule.n * sizeof *c.begins);
        ok = compile_rules(&c) && make_table(&c);
    } else
        fail(&c, TFT_ERR_NOMEM, "out of memory");
    tft_nfa_free(&c.nfa);
    tft_free(x->a, c.slot, SLOTS * sizeof *c.slot);
    tft_free(x->a, c.start, x->rule.n * sizeof *c.start);
    tft_free(x->a, c.begins, x->rule.n * sizeof *c.begins);
    tft_free(x->a, c.ends, x->rule.n * sizeof *c.ends);
    tft_free(x->a, c.mark, c.n_mark * sizeof *c.mark);
    tft_vec_free(&c.set, x->a, sizeof(struct set));
    tft_vec_free(&c.pool, x->a, sizeof(uint32_t));
    tft_vec_free(&c.range, x->a, sizeof(struct range));
    tft_vec_free(&c.closure, x->a, sizeof(uint32_t));
    tft_vec_free(&c.stack, x->a, sizeof(uint32_t));
    tft_vec_free(&c.met, x->a, sizeof(uint32_t));
    return x->status;
}

enum tft_status tft_grammar_open(struct tft_grammar **out, const struct tft_lexicon *lx,
                                 enum tft_grammar_kind kind, const char *text, size_t len,
                                 struct tft_error *err)
{
    const struct tft_allocator *a = lx->allocator;
    *out = NULL;
    if (kind != TFT_GBNF && kind != TFT_REGEX)
        return tft_fail(err, TFT_ERR_ARG, "grammar: neither GBNF nor a regular expression");
    if (len > TFT_SYNTAX_BYTES)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "grammar: longer than 1 MiB");
    struct tft_grammar *g = tft_alloc(a, sizeof *g);
    if (!g)
        return tft_fail(err, TFT_ERR_NOMEM, "grammar: out of memory");
    *g = (struct tft_grammar){.lexicon = lx, .a = a};
    struct tft_syntax x = {.a = a, .lexicon = lx, .text = text, .len = (uint32_t)len, .err = err};
    if (!tft_syntax_begin(&x))
        x.status = tft_fail(err, TFT_ERR_NOMEM, "grammar: out of memory");
    else if (kind == TFT_GBNF)
        tft_gbnf_parse(&x);
    else
        tft_regex_parse(&x);
    if (!x.status)
        compile(g, &x);
    tft_syntax_free(&x);
    if (x.status)
        tft_grammar_close(g);
    else
        *out = g;
    return x.status;
}

void tft_grammar_close(struct tft_grammar *g)
{
    if (!g)
        return;
    const struct tft_allocator *a = g->a;
    tft_free(a, g->next, g->n_next * sizeof *g->next);
    tft_vec_free(&g->state, a, sizeof(struct tft_auto_state));
    tft_vec_free(&g->call, a, sizeof(struct tft_auto_call));
    tft_vec_free(&g->token, a, sizeof(struct tft_auto_token));
    tft_free(a, g, sizeof *g);
}
