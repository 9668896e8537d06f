/*
 * Random grammars and random texts. A simple matcher works on the tree that a grammar was written
 * from, and tries all ways. The library must agree with it on whether a text matches, and on
 * whether it is the beginning of a text that does.
 */
#include "test.h"

#include "grammar/grammar.h"
#include "vocabs.h"

enum { NODES = 64, RULES = 4, CHILDREN = 3, TEXT = 20, SIZE = 4096, MANY = 99 };

/* The characters that grammars name, and one that they do not. */
static const char *const alphabet[] = {"a", "b", "\xc3\xa9", "\xe2\x82\xac", "\xe2\x82\xad", "z"};
enum { NAMED = 5, LETTERS = 6 };

enum kind { CHARS, RULE, SEQ, ALT, REPEAT };

struct node {
    enum kind kind;
    int n, child[CHILDREN]; /* RULE: child[0] is the rule */
    int min, max;           /* MANY: endless */
    unsigned set;           /* of the alphabet */
    bool not;               /* any character but these */
};

/* A set of places in the text is a bit for each: an end is one of 0 .. n. */
static struct {
    struct node node[NODES];
    int n_node, n_rule, body[RULES];
    bool fertile[RULES]; /* the rule matches some text */
    const char *text;
    size_t n;
    uint32_t ends[RULES][TEXT + 1];
    bool begins[RULES][TEXT + 1];
    char ends_known[RULES][TEXT + 1], begins_known[RULES][TEXT + 1]; /* 1: being found */
    uint64_t seed;
} o;

static int below(int n)
{
    return (int)random_below(&o.seed, (uint32_t)n);
}

/* ---- the matcher */

static bool node_fertile(int i)
{
    const struct node *d = &o.node[i];
    bool all = true, any = false;
    if (d->kind == CHARS)
        return d->set || d->not;
    if (d->kind == RULE)
        return o.fertile[d->child[0]];
    if (d->kind == REPEAT)
        return !d->min || node_fertile(d->child[0]);
    for (int k = 0; k < d->n; k++) {
        bool f = node_fertile(d->child[k]);
        all = all && f;
        any = any || f;
    }
    return d->kind == SEQ ? all : any;
}

/* The letter at byte `at`; *len: its bytes, perhaps more than there are. Texts are letters, cut
   anywhere. */
static int letter_at(size_t at, size_t *len)
{
    for (int k = 0; k < LETTERS; k++) {
        size_t n = strlen(alphabet[k]);
        if (at + n <= o.n && memcmp(o.text + at, alphabet[k], n) == 0)
            return *len = n, k;
    }
    return -1;
}

static uint32_t ends(int i, size_t at);

static uint32_t ends_of_set(int i, uint32_t from)
{
    uint32_t to = 0;
    for (size_t at = 0; at <= o.n; at++)
        to |= from >> at & 1 ? ends(i, at) : 0;
    return to;
}

/* Where a match of node i that begins at `at` may end. */
static uint32_t ends(int i, size_t at)
{
    const struct node *d = &o.node[i];
    uint32_t from = 1u << at, to = 0;
    size_t len;
    int r = d->child[0], c;
    switch (d->kind) {
    case CHARS:
        c = letter_at(at, &len);
        return c >= 0 && (d->set >> c & 1) != d->not ? 1u << (at + len) : 0;
    case RULE:
        if (!o.ends_known[r][at]) {
            o.ends_known[r][at] = 1;
            o.ends[r][at] = ends(o.body[r], at);
        }
        return o.ends[r][at];
    case SEQ:
        for (int k = 0; k < d->n; k++)
            from = ends_of_set(d->child[k], from);
        return from;
    case ALT:
        for (int k = 0; k < d->n; k++)
            to |= ends(d->child[k], at);
        return to;
    case REPEAT:
        for (int k = 0; k < d->min; k++)
            from = ends_of_set(d->child[0], from);
        for (int k = d->min; k < d->max && to != from; k++) /* at most until nothing is new */
            to = from, from |= ends_of_set(d->child[0], from);
        return from;
    }
    return 0;
}

/* Whether the text from `at` on begins some match of node i. */
static bool begins(int i, size_t at)
{
    const struct node *d = &o.node[i];
    uint32_t from = 1u << at, last = 0;
    size_t len;
    int r = d->child[0];
    bool cut = false;
    switch (d->kind) {
    case CHARS:
        if (at == o.n)
            return node_fertile(i);
        if (letter_at(at, &len) >= 0)
            return ends(i, at) >> o.n & 1;
        for (int c = 0; c < LETTERS; c++)
            if (strlen(alphabet[c]) > o.n - at && !memcmp(alphabet[c], o.text + at, o.n - at)) {
                if ((d->set >> c & 1) != d->not)
                    return true;
                cut = true;
            }
        return cut && d->not; /* characters that are not in the alphabet begin so too */
    case RULE:
        if (!o.begins_known[r][at]) {
            o.begins_known[r][at] = 1;
            o.begins[r][at] = begins(o.body[r], at);
        }
        return o.begins[r][at];
    case SEQ:
        for (int k = 0; k < d->n; k++) {
            bool rest = true;
            for (int j = k + 1; j < d->n; j++)
                rest = rest && node_fertile(d->child[j]);
            for (size_t e = 0; e <= o.n && rest; e++)
                if (from >> e & 1 && begins(d->child[k], e))
                    return true;
            from = ends_of_set(d->child[k], from);
        }
        return !d->n && at == o.n;
    case ALT:
        for (int k = 0; k < d->n; k++)
            if (begins(d->child[k], at))
                return true;
        return false;
    case REPEAT:
        if (!d->min && at == o.n)
            return true;
        for (int k = 0; k < d->max && (k < d->min || from != last); k++) {
            for (size_t e = 0; e <= o.n; e++)
                if (from >> e & 1 && begins(d->child[0], e))
                    return true;
            last = from;
            from = ends_of_set(d->child[0], from) | (k >= d->min ? from : 0);
        }
        return false;
    }
    return false;
}

/* ---- grammars */

static int make_node(int depth, bool rules)
{
    int i = o.n_node++, what = below(depth ? 12 : 6);
    struct node d = {.kind = CHARS, .set = 1u << below(NAMED)};
    if (what == 0)
        d.set = (unsigned)below(1 << NAMED), d.not = below(3) == 0;
    else if (what == 1 && rules)
        d = (struct node){.kind = RULE, .child = {below(o.n_rule)}};
    else if (what >= 6) {
        d = (struct node){.kind = what < 9 ? SEQ : what < 11 ? ALT : REPEAT};
        d.n = d.kind == REPEAT ? 1 : below(CHILDREN + (d.kind == SEQ)) + (d.kind == ALT);
        d.min = below(3);
        d.max = below(2) ? MANY : d.min + below(3);
        for (int k = 0; k < d.n; k++)
            d.child[k] = make_node(depth - 1, rules);
    }
    o.node[i] = d;
    return i;
}

/* The node as it is written, in one of the two languages. */
static size_t write_node(char *p, int i, bool regex)
{
    const struct node *d = &o.node[i];
    size_t n = 0;
    bool alone = d->kind == CHARS && !d->not && d->set && !(d->set & (d->set - 1));
    if (d->kind == CHARS) {
        n += (size_t)sprintf(p, "%s%s", alone ? regex ? "" : "\"" : "[", d->not ? "^" : "");
        for (int c = 0; c < NAMED; c++)
            if (d->set >> c & 1)
                n += (size_t)sprintf(p + n, "%s", alphabet[c]);
        return n + (size_t)sprintf(p + n, "%s", alone ? regex ? "" : "\"" : "]");
    }
    if (d->kind == RULE)
        return (size_t)sprintf(p, d->child[0] ? "r%d" : "root", d->child[0]);
    n += (size_t)sprintf(p, "%s", regex ? "(?:" : "(");
    for (int k = 0; k < d->n; k++) {
        n += (size_t)sprintf(p + n, "%s", !k ? "" : d->kind == ALT ? "|" : regex ? "" : " ");
        n += write_node(p + n, d->child[k], regex);
    }
    if (!d->n && !regex)
        n += (size_t)sprintf(p + n, "\"\"");
    p[n++] = ')';
    if (d->kind == REPEAT && d->max == MANY && d->min < 2)
        p[n++] = d->min ? '+' : '*';
    else if (d->kind == REPEAT && d->max == MANY)
        n += (size_t)sprintf(p + n, "{%d,}", d->min);
    else if (d->kind == REPEAT)
        n += (size_t)sprintf(p + n, d->max > d->min ? "{%d,%d}" : "{%d}", d->min, d->max);
    return n;
}

static size_t make_grammar(char *p, bool regex)
{
    size_t n = 0;
    o.n_node = 0;
    o.n_rule = regex ? 1 : 1 + below(RULES);
    for (int r = 0; r < o.n_rule; r++) {
        o.n_node = r * (NODES / RULES);
        o.body[r] = make_node(2, !regex);
        assert_in_range(o.n_node, 1, (r + 1) * (NODES / RULES));
        n += regex ? 0 : (size_t)sprintf(p + n, r ? "r%d ::= " : "root ::= ", r);
        n += write_node(p + n, o.body[r], regex);
        p[n++] = '\n';
        o.fertile[r] = false;
    }
    for (int round = 0; round < o.n_rule; round++)
        for (int r = 0; r < o.n_rule; r++)
            o.fertile[r] = node_fertile(o.body[r]);
    return n - regex;
}

/* ---- texts */

/* Appends a text that node i matches, more or less. */
static size_t write_text(char *p, size_t n, int i, int depth)
{
    const struct node *d = &o.node[i];
    int times = d->kind == REPEAT ? d->min + below(3) : 1;
    if (!depth || n + 4 > TEXT)
        return n;
    if (d->kind == CHARS) {
        int c = below(LETTERS);
        for (int k = 0; k < 8 && (d->set >> c & 1) == d->not; k++)
            c = below(LETTERS);
        memcpy(p + n, alphabet[c], strlen(alphabet[c]));
        return n + strlen(alphabet[c]);
    }
    if (d->kind == RULE)
        return write_text(p, n, o.body[d->child[0]], depth - 1);
    if (d->kind == ALT)
        return write_text(p, n, d->child[below(d->n)], depth - 1);
    for (int t = 0; t < times; t++)
        for (int k = 0; k < d->n; k++)
            n = write_text(p, n, d->child[k], depth - 1);
    return n;
}

static size_t make_text(char *p)
{
    size_t n = write_text(p, 0, o.body[0], 12);
    if (below(3) == 0 && n)
        n = (size_t)below((int)n + 1); /* cut */
    if (below(3) == 0 && n + 4 <= TEXT) {
        const char *letter = alphabet[below(LETTERS)];
        memcpy(p + n, letter, strlen(letter));
        n += strlen(letter);
    }
    o.text = p;
    o.n = n;
    memset(o.ends_known, 0, sizeof o.ends_known);
    memset(o.begins_known, 0, sizeof o.begins_known);
    memset(o.ends, 0, sizeof o.ends);
    memset(o.begins, 0, sizeof o.begins);
    return n;
}

static bool feeds(struct tft_grammar_state *s)
{
    for (size_t i = 0; i < o.n; i++)
        if (tft_grammar_accept(s, 1 + (unsigned char)o.text[i]) != TFT_OK)
            return false;
    return true;
}

static void grammars_match_what_a_naive_matcher_says(void **state)
{
    static struct vocab v = {.model = "llama"};
    static char grammar[SIZE], text[TEXT + 4];
    unsigned accepted = 0, begun = 0, refused = 0, checked = 0;
    struct tft_lexicon *lx;
    (void)state;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add_bytes(&v);
    struct tft_tokenizer *t = open_vocab(&v);
    assert_int_equal(tft_lexicon_make(&lx, t, NULL, NULL), TFT_OK);
    for (int i = 0; i < 20000; i++) {
        struct tft_grammar *g;
        struct tft_grammar_state *s, *start;
        struct tft_error err;
        bool regex = i % 3 == 0;
        size_t n = make_grammar(grammar, regex);
        enum tft_status status =
            tft_grammar_open(&g, lx, regex ? TFT_REGEX : TFT_GBNF, grammar, n, &err);
        if (status && (o.fertile[0] ? !strstr(err.msg, "left rec") : status == TFT_ERR_FORMAT))
            fail_msg("%.*s: %s", (int)n, grammar, err.msg);
        refused += status != TFT_OK;
        if (status)
            continue;
        assert_true(o.fertile[0]);
        assert_int_equal(tft_grammar_begin(&start, g, NULL), TFT_OK);
        assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
        for (int k = 0; k < 12; k++, checked++) {
            int len = (int)make_text(text);
            assert_int_equal(tft_grammar_copy(s, start), TFT_OK);
            bool fed = feeds(s), accepts = fed && tft_grammar_can_end(s);
            if (fed != begins(o.body[0], 0) || accepts != (ends(o.body[0], 0) >> o.n & 1))
                fail_msg("%.*s: \"%.*s\": %d %d", (int)n, grammar, len, text, fed, accepts);
            accepted += accepts;
            begun += fed;
        }
        tft_grammar_end(s);
        tft_grammar_end(start);
        tft_grammar_close(g);
    }
    tft_lexicon_close(lx);
    tft_tokenizer_close(t);
    /* all three answers, often */
    assert_true(checked > 100000 && accepted > checked / 5 && begun > accepted + checked / 10 &&
                begun < checked - checked / 10 && refused < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_match_what_a_naive_matcher_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
