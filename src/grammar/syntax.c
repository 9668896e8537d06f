#include "syntax.h"

#include "base/error.h"
#include "base/heapsort.h"
#include "base/hex.h"

bool tft_syntax_begin(struct tft_syntax *x)
{
    x->n_slot = 1;
    while (x->n_slot < 2 * TFT_SYNTAX_RULES)
        x->n_slot *= 2;
    x->slot = tft_alloc(x->a, x->n_slot * sizeof *x->slot);
    if (x->slot)
        memset(x->slot, 0, x->n_slot * sizeof *x->slot);
    return x->slot && tft_vec_add(&x->node, x->a, sizeof(struct tft_syntax_node), 1) &&
           tft_vec_add(&x->rule, x->a, sizeof(struct tft_syntax_rule), 1);
}

void tft_syntax_free(struct tft_syntax *x)
{
    tft_free(x->a, x->slot, x->n_slot * sizeof *x->slot);
    tft_vec_free(&x->node, x->a, sizeof(struct tft_syntax_node));
    tft_vec_free(&x->range, x->a, sizeof(struct tft_syntax_range));
    tft_vec_free(&x->rule, x->a, sizeof(struct tft_syntax_rule));
}

static uint32_t no_memory(struct tft_syntax *x)
{
    if (!x->status)
        x->status = tft_fail(x->err, TFT_ERR_NOMEM, "grammar: out of memory");
    return 0;
}

uint32_t tft_syntax_fail(struct tft_syntax *x, uint32_t at, const char *what)
{
    uint32_t line = 1, column = 1;
    for (uint32_t i = 0; i < at && i < x->len; i++) {
        column = x->text[i] == '\n' ? 1 : column + ((x->text[i] & 0xc0) != 0x80);
        line += x->text[i] == '\n';
    }
    if (!x->status) {
        x->status =
            tft_fail(x->err, TFT_ERR_FORMAT, "grammar: line %u, column %u: %s", line, column, what);
        if (x->err)
            x->err->offset = at;
    }
    return 0;
}

uint32_t tft_syntax_add(struct tft_syntax *x, enum tft_syntax_kind kind, uint32_t first)
{
    if (x->status)
        return 0;
    struct tft_syntax_node *node = tft_vec_add(&x->node, x->a, sizeof *node, 1);
    if (!node)
        return no_memory(x);
    node->kind = kind;
    node->first = first;
    return x->node.n - 1;
}

/* The node inside groups of one element. */
static uint32_t inner(const struct tft_syntax *x, uint32_t i)
{
    const struct tft_syntax_node *node = tft_syntax_node(x, i);
    while ((node->kind == TFT_SYNTAX_SEQ || node->kind == TFT_SYNTAX_ALT) && node->first &&
           !tft_syntax_node(x, node->first)->next)
        node = tft_syntax_node(x, i = node->first);
    return i;
}

/* a times b, or a plus b; false: more than the largest number of a repetition. */
static bool combine(uint32_t a, uint32_t b, bool times, uint32_t *out)
{
    bool many = a == TFT_SYNTAX_MANY || b == TFT_SYNTAX_MANY, zero = times && (!a || !b);
    uint64_t n = times ? (uint64_t)a * b : (uint64_t)a + b;
    *out = zero ? 0 : many ? TFT_SYNTAX_MANY : (uint32_t)n;
    return zero || many || n <= TFT_SYNTAX_TIMES;
}

uint32_t tft_syntax_repeat(struct tft_syntax *x, uint32_t node, uint32_t min, uint32_t max)
{
    const struct tft_syntax_node *in = tft_syntax_node(x, inner(x, node));
    uint32_t least, most;
    if (in->kind == TFT_SYNTAX_REPEAT && in->min < 2 && combine(in->min, min, true, &least) &&
        combine(in->max, max, true, &most)) { /* (a{1,3}){2,4} is a{2,12} */
        node = in->first;
        min = least;
        max = most;
    }
    uint32_t repeat = tft_syntax_add(x, TFT_SYNTAX_REPEAT, node);
    if (repeat) {
        tft_syntax_node(x, repeat)->min = min;
        tft_syntax_node(x, repeat)->max = max;
    }
    return repeat;
}

/* ---- characters */

/* Whether both are repetitions of the same characters. */
static bool are_alike(const struct tft_syntax *x, const struct tft_syntax_node *a,
                      const struct tft_syntax_node *b)
{
    const struct tft_syntax_range *r = x->range.p;
    if (a->kind != TFT_SYNTAX_REPEAT || b->kind != TFT_SYNTAX_REPEAT)
        return false;
    a = tft_syntax_node(x, inner(x, a->first));
    b = tft_syntax_node(x, inner(x, b->first));
    return a->kind == TFT_SYNTAX_CHARS && b->kind == TFT_SYNTAX_CHARS && a->n == b->n && a->n &&
           memcmp(r + a->first, r + b->first, a->n * sizeof *r) == 0;
}

void tft_syntax_append(struct tft_syntax *x, uint32_t parent, uint32_t *last, uint32_t child)
{
    uint32_t min, max;
    struct tft_syntax_node *before = tft_syntax_node(x, *last), *node = tft_syntax_node(x, child);
    if (*last && tft_syntax_node(x, parent)->kind == TFT_SYNTAX_SEQ && are_alike(x, before, node) &&
        combine(before->min, node->min, false, &min) &&
        combine(before->max, node->max, false, &max)) { /* a{1,3} a{2,4} is a{3,7} */
        before->min = min;
        before->max = max;
        return;
    }
    if (*last)
        tft_syntax_node(x, *last)->next = child;
    else
        tft_syntax_node(x, parent)->first = child;
    *last = child;
}

void tft_syntax_add_range(struct tft_syntax *x, uint32_t lo, uint32_t hi)
{
    struct tft_syntax_range *r = x->status ? NULL : tft_vec_add(&x->range, x->a, sizeof *r, 1);
    if (r)
        *r = (struct tft_syntax_range){lo, hi};
    else
        no_memory(x);
}

static bool range_before(const void *ctx, const void *a, const void *b)
{
    const struct tft_syntax_range *x = a, *y = b;
    (void)ctx;
    return x->lo != y->lo ? x->lo < y->lo : x->hi < y->hi;
}

uint32_t tft_syntax_chars(struct tft_syntax *x, uint32_t from, bool not )
{
    if (x->status)
        return 0;
    uint32_t n = x->range.n - from, kept = 0, next = 0;
    if (not ) /* the complement may have one range more */
        tft_syntax_add_range(x, 0, 0);
    if (x->status)
        return 0;
    struct tft_syntax_range *r = x->range.n ? (struct tft_syntax_range *)x->range.p + from : NULL;
    if (n)
        tft_heapsort(r, n, sizeof *r, range_before, NULL);
    for (uint32_t i = 0; i < n; i++) /* merged */
        if (kept && r[i].lo <= r[kept - 1].hi + 1)
            r[kept - 1].hi = r[i].hi > r[kept - 1].hi ? r[i].hi : r[kept - 1].hi;
        else
            r[kept++] = r[i];
    n = kept;
    if (not ) {
        kept = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct tft_syntax_range taken = r[i];
            if (taken.lo > next)
                r[kept++] = (struct tft_syntax_range){next, taken.lo - 1};
            next = taken.hi + 1;
        }
        if (next <= 0x10ffff)
            r[kept++] = (struct tft_syntax_range){next, 0x10ffff};
    }
    x->range.n = from + kept;
    uint32_t node = tft_syntax_add(x, TFT_SYNTAX_CHARS, from);
    if (node)
        tft_syntax_node(x, node)->n = kept;
    return node;
}

/* ---- numbers, names */

static bool number(struct tft_syntax *x, uint32_t *out)
{
    uint32_t start = x->pos, n = 0;
    for (; x->pos < x->len && x->text[x->pos] >= '0' && x->text[x->pos] <= '9'; x->pos++)
        if (n <= TFT_SYNTAX_TIMES)
            n = n * 10 + (uint32_t)(x->text[x->pos] - '0');
    *out = n;
    if (n > TFT_SYNTAX_TIMES)
        tft_syntax_fail(x, start, "a repetition of more than 65536");
    return x->pos > start;
}

static void skip(struct tft_syntax *x, bool spaces)
{
    while (spaces && (tft_syntax_peek(x) == ' ' || tft_syntax_peek(x) == '\t'))
        x->pos++;
}

static bool take(struct tft_syntax *x, char c, bool spaces)
{
    skip(x, spaces);
    bool is = tft_syntax_peek(x) == c;
    x->pos += is;
    return is;
}

bool tft_syntax_bounds(struct tft_syntax *x, bool spaces, uint32_t *min, uint32_t *max)
{
    uint32_t start = x->pos;
    skip(x, spaces);
    bool has = number(x, min);
    *max = *min;
    if (take(x, ',', spaces)) {
        skip(x, spaces);
        bool has_max = number(x, max);
        *max = has_max ? *max : TFT_SYNTAX_MANY;
        has = has || has_max;
    }
    if (!has || !take(x, '}', spaces))
        return tft_syntax_fail(x, start, "a repetition is {m}, {m,}, {,n} or {m,n}");
    if (*max < *min)
        return tft_syntax_fail(x, start, "a repetition with an upper bound below the lower bound");
    return !x->status;
}

bool tft_syntax_hex(struct tft_syntax *x, int digits, uint32_t *c)
{
    uint32_t start = x->pos;
    *c = 0;
    for (int i = 0; i < digits; i++, x->pos++) {
        int digit = tft_hex_digit(tft_syntax_peek(x));
        if (digit < 0)
            return tft_syntax_fail(x, start, "an escape with too few hexadecimal digits");
        *c = *c << 4 | (uint32_t)digit;
    }
    if (*c > 0x10ffff)
        return tft_syntax_fail(x, start, "an escape beyond U+10FFFF");
    return true;
}

uint32_t tft_syntax_named(struct tft_syntax *x, const char *name, uint32_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    if (x->status)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)name[i]) * 16777619u;
    h ^= h >> 15;
    for (;; h++) {
        uint32_t *slot = &x->slot[h & (x->n_slot - 1)];
        if (!*slot) {
            if (x->rule.n > TFT_SYNTAX_RULES)
                return tft_syntax_fail(x, x->pos, "more than 16384 rules");
            struct tft_syntax_rule *rule = tft_vec_add(&x->rule, x->a, sizeof *rule, 1);
            if (!rule)
                return no_memory(x);
            *rule = (struct tft_syntax_rule){name, n, 0, x->pos};
            return *slot = x->rule.n - 1;
        }
        const struct tft_syntax_rule *rule = tft_syntax_rule(x, *slot);
        if (rule->n == n && memcmp(rule->name, name, n) == 0)
            return *slot;
    }
}
