/* Grammars: the accepted texts, against a matcher that tries every way; masks, against every token
   tried alone; and sampling under them. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "folder.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "memory.h"
#include "toy.h"
#include "tuffet.h"
#include "vocabs.h"

static struct tft_tokenizer *tokens;
static struct tft_lexicon *lexicon;

/* All bytes, pieces of JSON and words, a special token, an end, and padding. */
static int open_lexicon(void **state)
{
    static struct vocab v = {.model = "llama"};
    static const char *const text[] = {
        "a",   "b",   "c",      "ab",    "abc", "ba",      "aaaa", "\"",  "\"a",  "a\"",  "\":",
        "\",", "\"}", "\"}}",   "{\"",   "{",   "}",       "[",    "]",   "]]",   "[[",   ",",
        ":",   "1",   "12",     "-1",    "0.5", "e",       "true", "tr",  "ue",   "null", "\\",
        "\\n", "\\u",    "\xc3\xa9", "\xc3\xa9t", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "x\"y", "(", ")", "()", "((", "abab"};
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<think>", 0, TFT_TOKEN_CONTROL);
    vocab_add_bytes(&v);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        vocab_add(&v, text[i], -(float)i, TFT_TOKEN_NORMAL);
    vocab_add(&v, "", 0, TFT_TOKEN_NORMAL);
    tokens = open_vocab(&v);
    return make_folder(state) || tft_lexicon_make(&lexicon, tokens, NULL, NULL);
}

static int close_lexicon(void **state)
{
    tft_lexicon_close(lexicon);
    tft_tokenizer_close(tokens);
    return remove_folder(state);
}

static struct tft_grammar_state *begin(struct tft_grammar **g, enum tft_grammar_kind kind,
                                       const char *text)
{
    struct tft_grammar_state *s;
    struct tft_error err = {0};
    if (tft_grammar_open(g, lexicon, kind, text, strlen(text), &err) != TFT_OK)
        fail_msg("%s: %s", text, err.msg);
    assert_int_equal(tft_grammar_begin(&s, *g, NULL), TFT_OK);
    return s;
}

static void end(struct tft_grammar *g, struct tft_grammar_state *s)
{
    tft_grammar_end(s);
    tft_grammar_close(g);
}

static int32_t byte_token(unsigned char byte)
{
    return 4 + byte;
}

/* Feeds the text byte by byte. */
static bool feeds(struct tft_grammar_state *s, const char *text)
{
    for (; *text; text++)
        if (tft_grammar_accept(s, byte_token((unsigned char)*text)) != TFT_OK)
            return false;
    return true;
}

static bool matches(enum tft_grammar_kind kind, const char *grammar, const char *text)
{
    struct tft_grammar *g;
    struct tft_grammar_state *s = begin(&g, kind, grammar);
    bool does = feeds(s, text) && tft_grammar_can_end(s);
    if (does) { /* done: no token of bytes may come */
        bool more = false;
        for (unsigned byte = 0; byte < 256; byte++)
            more |= tft_grammar_allows(s, byte_token((unsigned char)byte));
        assert_int_equal(tft_grammar_is_done(s), !more);
    }
    end(g, s);
    return does;
}

static void gbnf_matches_what_it_says(void **state)
{
    static const struct {
        const char *grammar, *yes[5], *no[5];
    } rows[] = {
        {"root ::= \"ab\" | \"c\"", {"ab", "c"}, {"", "a", "abc", "b"}},
        {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
        {"root ::= \"ab\"+ \"c\"?", {"ab", "abab", "ababc"}, {"", "aba", "c"}},
        {"root ::= \"a\"{2} \"b\"{1,} \"c\"{,2}", {"aab", "aabbcc"}, {"ab", "aa", "aabccc"}},
        {"root ::= ([a-c] | x)+ # a comment\nx ::= \"(\" root \")\"\n",
         {"abc", "(a)", "((b)c)"},
         {"", "(", "()", "a)"}},
        {"root ::= [^a-y\"] .", {"zq", "\xc3\xa9\xc3\xa9"}, {"aq", "z", "\"a"}},
        {"root ::= \"\\x41\\u00e9\\n\\\\\\\"\"", {"A\xc3\xa9\n\\\""}, {"A"}},
        {"root ::= (\"a\" |\n \"b\"\n)\n", {"a", "b"}, {"", "\n"}},
        {"root ::= [\\]\\-a]", {"]", "-", "a"}, {"\\", "b"}},
        {"root ::= a b\r\na ::= b?\r\nb ::= \"c\"?", {"", "c", "cc"}, {"ccc"}},
        {"root ::= \"a\" dead | \"b\"\ndead ::= \"x\" dead", {"b"}, {"a", "ax"}},
        {"root ::= \"a\"{ 1,\t2 } \"b\"{ 2 }", {"abb", "aabb"}, {"ab", "bb", "aaabb"}},
        {"root ::= none | \"b\"\nnone ::= [] none", {"b"}, {"", "bb"}},
        {"root ::= l*\nl ::= e* \"a\" | e\ne ::= \"b\"?", {"", "a", "bab"}, {"c"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < 5 && rows[i].yes[k]; k++)
            if (!matches(TFT_GBNF, rows[i].grammar, rows[i].yes[k]))
                fail_msg("%s rejects %s", rows[i].grammar, rows[i].yes[k]);
        for (size_t k = 0; k < 5 && rows[i].no[k]; k++)
            if (matches(TFT_GBNF, rows[i].grammar, rows[i].no[k]))
                fail_msg("%s accepts %s", rows[i].grammar, rows[i].no[k]);
    }
}

static void regex_matches_what_it_says(void **state)
{
    (void)state;
    assert_true(matches(TFT_REGEX, "^[a-c]{2,3}\\d+$", "abc12"));
    assert_false(matches(TFT_REGEX, "^[a-c]{2,3}\\d+$", "a12"));
    assert_true(matches(TFT_REGEX, "(?:ab|c)*?\\.x", "abc.x"));
    assert_false(matches(TFT_REGEX, "(?:ab|c)*?\\.x", "abcax"));
    assert_true(matches(TFT_REGEX, "[^\\s\\d]\\w.", "\xc3\xa9_z"));
    assert_false(matches(TFT_REGEX, ".", "\n"));
    assert_true(matches(TFT_REGEX, "[\\uD83D\\uDE00]\\u00e9", "\xf0\x9f\x98\x80\xc3\xa9"));
}

static void errors_have_a_place(void **state)
{
    static const struct {
        enum tft_grammar_kind kind;
        enum tft_status status;
        const char *grammar, *message;
    } rows[] = {
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= \"a", "line 1, column 10"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= a\nb ::= [z-a]", "line 2, column 7"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= gone", "no rule of this name"},
        {TFT_GBNF, TFT_ERR_FORMAT, "a ::= \"a\"", "no rule named root"},
        {TFT_GBNF, TFT_ERR_FORMAT, "", "no rule named root"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= <nothing>", "not a token"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= \"a\"\nroot ::= \"b\"", "there already"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= \"\\q\"", "unknown escape"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= \"a\"{3,2}", "below the lower"},
        {TFT_GBNF, TFT_ERR_FORMAT, "root ::= \"a\"{99999999999}", "65536"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED, "root ::= e root \"a\" | \"b\"\ne ::= \"c\"*",
         "begin with itself (left recursion): root"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED, "root ::= \"a\" root", "matches no text"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED,
         "root ::= (((\"a\"{1000}){1000}){1000}){1000}", "too large"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED, "root ::= (((\"\"{60000}){60000}){60000})", "too large"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED, "root ::= \"x\" many\nmany ::= [ab]* \"a\" [ab]{20}",
         "rule many is too large"},
        {TFT_GBNF, TFT_ERR_UNSUPPORTED,
         "root ::= x\nx ::= \"b\" (x{44}{2}{39}{9}){5}{10}{35}{27}", "too large"},
        {TFT_REGEX, TFT_ERR_FORMAT, "a\\b", "not supported"},
        {TFT_REGEX, TFT_ERR_FORMAT, "(?=a)", "not supported"},
        {TFT_REGEX, TFT_ERR_FORMAT, "a)", "not opened"},
        {TFT_REGEX, TFT_ERR_FORMAT, "a{1, 2}", "a repetition is"},
        {TFT_REGEX, TFT_ERR_FORMAT, "\\uD83D", "half of a pair"},
        {TFT_REGEX, TFT_ERR_FORMAT, "\\uDE00\\uD83D", "half of a pair"},
        {TFT_REGEX, TFT_ERR_UNSUPPORTED, "[]", "matches no text"},
        {TFT_REGEX, TFT_ERR_FORMAT, "^a|b$", "need a group"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_grammar *g;
        struct tft_error err = {0};
        enum tft_status status = tft_grammar_open(&g, lexicon, rows[i].kind, rows[i].grammar,
                                                  strlen(rows[i].grammar), &err);
        if (status != rows[i].status || !strstr(err.msg, rows[i].message))
            fail_msg("%s: %d %s", rows[i].grammar, (int)status, err.msg);
        assert_null(g);
    }
}

/* ---- which rules are copied to where they are named */

/* The number of calls that are left in the automata of a grammar. */
static uint32_t calls_of(const char *gbnf)
{
    struct tft_grammar *g;
    struct tft_error err;
    if (tft_grammar_open(&g, lexicon, TFT_GBNF, gbnf, strlen(gbnf), &err) != TFT_OK)
        fail_msg("%s: %s", gbnf, err.msg);
    uint32_t n = g->call.n;
    tft_grammar_close(g);
    return n;
}

/* A short rule is copied where root names it, also if root names a chain of rules before that ends
   with the same rule: in one of the chains, the search for a short text stops within that rule. */
static void short_rules_are_copied(void **state)
{
    enum { CHAIN = 12 };
    char chain[400] = "", before[500], behind[500];
    size_t n = 0;
    (void)state;
    for (int last = 1; last <= CHAIN; last++) {
        n += (size_t)snprintf(chain + n, sizeof chain - n, "r%d ::= \"a\" r%d\n", last - 1, last);
        snprintf(before, sizeof before, "root ::= r%d r0\n%sr%d ::= [x-z] | \"b\"", last, chain,
                 last);
        snprintf(behind, sizeof behind, "root ::= r0 r%d\n%sr%d ::= [x-z] | \"b\"", last, chain,
                 last);
        assert_int_equal(calls_of(behind), calls_of(before));
    }
    assert_true(calls_of(before) > 0); /* of the longest chain */
}

/* A rule that comes many times is copied once. Copies in repetitions of few times have a limit. */
static void counted_copies_are_limited(void **state)
{
    static const char *const counts[] = {"{3000}", "{0,3000}", "{2,3000}"};
    char gbnf[200];
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(gbnf, sizeof gbnf, "root ::= c%s c* c\nc ::= [a-z] | \"\\\\\" [nrt]", counts[i]);
        assert_int_equal(calls_of(gbnf), 0);
    }
    assert_in_range(calls_of("root ::= ((c{31} \"x\"){31} \"y\"){31}\n"
                             "c ::= [a-z] | \"\\\\\" [nrt]"),
                    1, 31 * 31 * 31 - 2048);
    assert_int_equal(calls_of("root ::= c{0,1000} c* c\nc ::= [a-z] | \"\\\\\" [nrt]"), 0);
}

/* ---- masks against tokens fed byte by byte */

/* Whether the token's bytes may come one after another, each as a token of its own. */
static bool fits(struct tft_grammar_state *scratch, const struct tft_grammar_state *s, int32_t id)
{
    size_t n;
    const char *p = tft_tokenizer_text(tokens, id, false, &n);
    if (tft_tokenizer_ends(tokens, id))
        return tft_grammar_can_end(s);
    assert_int_equal(tft_grammar_copy(scratch, s), TFT_OK);
    for (size_t i = 0; i < n; i++)
        if (tft_grammar_accept(scratch, byte_token((unsigned char)p[i])) != TFT_OK)
            return false;
    return n > 0;
}

static void masks_are_what_bytes_allow(void **state)
{
    static const char *const grammars[] = {
        "root ::= [a-c]{0,9} (\"(\" root \")\")?",
        "root ::= v\nv ::= \"{\" (p (\",\" p)*)? \"}\" | s | n | \"[\" (v (\",\" v)*)? \"]\" | "
        "\"true\" | \"null\"\np ::= s \":\" v\nn ::= \"-\"? [0-9]+ (\".\" [0-9]+)? (\"e\" n)?\n"
        "s ::= \"\\\"\" c* \"\\\"\"\nc ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"n] | \"u\" "
        "[0-9a-f]{4})",
        "root ::= \"\\\"\" [^\"\\\\\\x7F\\x00-\\x1F]{2,5} \"\\\"\" root | \"ab\"* | \"aba\" [b-c]*",
        "root ::= ([^\\x00-\\x1F] | \"\\\\\" .)* \"\\\"\" [ab]*",
        /* the vocabulary has another character that begins with \xe2\x82 */
        "root ::= ([\xe2\x82\xad\xc3\xa9] | \"a\")*",
    };
    (void)state;
    uint64_t seed = 5;
    size_t checked = 0, allowed = 0;
    for (size_t i = 0; i < 5 * 60; i++) {
        struct tft_grammar *g;
        struct tft_grammar_state *s = begin(&g, TFT_GBNF, grammars[i % 5]), *scratch;
        assert_int_equal(tft_grammar_begin(&scratch, g, NULL), TFT_OK);
        for (int step = 0; step < 20; step++) {
            int32_t may[1024];
            uint32_t n = 0;
            bool alone[1024]; /* the text without a mask */
            for (int32_t id = 0; id < (int32_t)tft_lexicon_size(lexicon); id++)
                alone[id] = tft_grammar_allows(s, id);
            const uint32_t *mask = tft_grammar_mask(s);
            for (int32_t id = 0; id < (int32_t)tft_lexicon_size(lexicon); id++, checked++) {
                bool in = mask[id / 32] >> id % 32 & 1;
                if (in != fits(scratch, s, id) || in != alone[id])
                    fail_msg("grammar %zu, step %d, token %d: %d", i % 5, step, (int)id, in);
                if (in)
                    may[n++] = id;
            }
            assert_true(n > 0); /* no dead end */
            allowed += n;
            int32_t id = may[random_below(&seed, n)];
            assert_int_equal(tft_grammar_accept(s, id), TFT_OK);
            if (tft_tokenizer_ends(tokens, id))
                break;
        }
        tft_grammar_end(scratch);
        end(g, s);
    }
    assert_true(checked > 100000 && allowed > 10000);
}

/* After "a" nothing could end the text, so it may not come. */
static void dead_ends_are_removed(void **state)
{
    struct tft_grammar *g;
    struct tft_grammar_state *s = begin(&g, TFT_GBNF,
                                        "root ::= \"a\" dead | \"ab\" [] | \"b\"\n"
                                        "dead ::= \"x\" dead");
    (void)state;
    assert_false(tft_grammar_allows(s, byte_token('a')));
    assert_false(tft_grammar_mask(s)[byte_token('a') / 32] >> byte_token('a') % 32 & 1);
    assert_true(tft_grammar_allows(s, byte_token('b')));
    end(g, s);
}

/* Many ways to read a text: each of N rules begins with the same letters. */
static void many_readings(void **state)
{
    static char text[400000];
    (void)state;
    for (int n = 300; n <= 4800; n += 4500) {
        struct tft_grammar *g;
        struct tft_grammar_state *s;
        size_t used = (size_t)sprintf(text, "root ::= r0");
        for (int i = 1; i < n; i++)
            used += (size_t)sprintf(text + used, " | r%d", i);
        for (int i = 0; i < n; i++)
            used += (size_t)sprintf(text + used, "\nr%d ::= \"t%d(\" \"x\"* \")\"", i, i);
        assert_int_equal(tft_grammar_open(&g, lexicon, TFT_GBNF, text, used, NULL), TFT_OK);
        enum tft_status status = tft_grammar_begin(&s, g, NULL);
        assert_int_equal(status, n > 4096 ? TFT_ERR_UNSUPPORTED : TFT_OK);
        if (!status) {
            assert_non_null(tft_grammar_mask(s));
            assert_true(feeds(s, "t299(xx)") && tft_grammar_can_end(s));
        }
        end(g, s);
    }
}

/* After "a" there are 6,000 readings, 1,500 of each of four rules: too many to go on, but "a" may
   come, and the question does not forbid "b". */
static void many_readings_of_a_token(void **state)
{
    static char text[400000];
    struct tft_grammar *g;
    size_t used = (size_t)sprintf(text, "root ::= q0 | q1 | q2 | q3 | \"b\"");
    (void)state;
    for (int i = 0; i < 4; i++) {
        used += (size_t)sprintf(text + used, "\nq%d ::= \"a\" m%d\nm%d ::= r%d", i, i, i, i);
        for (int k = 1; k < 1500; k++)
            used += (size_t)sprintf(text + used, " | r%d", 4 * k + i);
    }
    for (int i = 0; i < 6000; i++)
        used += (size_t)sprintf(text + used, "\nr%d ::= \"t%d(\" \"x\"* \")\"", i, i);
    assert_true(used < sizeof text);
    struct tft_grammar_state *s = begin(&g, TFT_GBNF, text), *other;
    assert_int_equal(tft_grammar_begin(&other, g, NULL), TFT_OK);
    assert_true(tft_grammar_allows(s, byte_token('a')) && tft_grammar_allows(s, byte_token('b')));
    assert_int_equal(tft_grammar_accept(s, byte_token('b')), TFT_OK);
    assert_true(tft_grammar_can_end(s));
    assert_int_equal(tft_grammar_accept(other, byte_token('a')), TFT_ERR_UNSUPPORTED);
    assert_false(tft_grammar_allows(other, byte_token('b')));
    tft_grammar_end(other);
    end(g, s);
}

static void special_tokens_come_where_they_are_named(void **state)
{
    struct tft_grammar *g;
    struct tft_grammar_state *s = begin(&g, TFT_GBNF, "root ::= <think> !<think> [ab] | \"c\"");
    (void)state;
    assert_true(tft_grammar_allows(s, 3));
    assert_false(tft_grammar_allows(s, 1));
    assert_int_equal(tft_grammar_accept(s, 2), TFT_ERR_ARG);
    assert_int_equal(tft_grammar_accept(s, -1), TFT_ERR_ARG);
    assert_int_equal(tft_grammar_accept(s, 3), TFT_OK);
    assert_false(tft_grammar_allows(s, 3));
    assert_false(tft_grammar_allows(s, 2)); /* nor may the text end here */
    assert_false(tft_grammar_mask(s)[0] >> 2 & 1);
    assert_int_equal(tft_grammar_accept(s, byte_token('q')), TFT_OK);
    assert_false(tft_grammar_is_done(s));
    assert_true(feeds(s, "a"));
    assert_true(tft_grammar_can_end(s) && tft_grammar_allows(s, 2));
    assert_true(tft_grammar_is_done(s));
    assert_false(tft_grammar_allows(s, byte_token('a')));
    end(g, s);
}

/* Appends the text of ids[n]. */
static void spell(char *out, const int32_t *ids, size_t n)
{
    size_t len, used = strlen(out);
    for (size_t i = 0; i < n; i++) {
        const char *p = tft_tokenizer_text(tokens, ids[i], false, &len);
        memcpy(out + used, p, len);
        out[used += len] = 0;
    }
}

static void forced_text_is_tokens_of_its_own(void **state)
{
    struct tft_grammar *g;
    int32_t ids[64], want[64];
    size_t n, all;
    char text[64] = "";
    const char *first = "{\"a\":true,1", *last = "1\xc3\xa9t}";
    struct tft_grammar_state *s =
        begin(&g, TFT_GBNF, "root ::= \"{\\\"a\\\":true,1\" ([a-z2] | \"\\\"x\") \"1\xc3\xa9t}\"");
    (void)state;
    /* all but the last of the tokenizer's own: 12 may come in place of 1 */
    n = tft_grammar_forced(s, ids, 64);
    tft_tokenizer_encode(tokens, first, strlen(first), TFT_CONTINUE, want, 64, &all);
    assert_int_equal(n, all - 1);
    assert_memory_equal(ids, want, n * sizeof *ids);
    spell(text, ids, n);
    assert_int_equal(strncmp(text, first, strlen(text)), 0);
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0);
    assert_true(feeds(s, first + strlen(text)));
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0); /* three ways */
    assert_true(feeds(s, "b"));
    /* nothing follows: all of them, as many as there is room for */
    n = tft_grammar_forced(s, ids, 1);
    assert_int_equal(n, 1);
    n += tft_grammar_forced(s, ids + 1, 63);
    *text = 0;
    spell(text, ids, n);
    assert_string_equal(text, last);
    assert_true(tft_grammar_is_done(s));
    end(g, s);
    /* a character that two texts begin, and a text that may end, are no one way */
    s = begin(&g, TFT_GBNF, "root ::= [\xc3\xa9\xc3\xa8] | \"\xc3\xaa\"");
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0);
    end(g, s);
    s = begin(&g, TFT_GBNF, "root ::= \"abc\"?");
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0);
    end(g, s);
    s = begin(&g, TFT_GBNF, "root ::= \"abc\" <think>");
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0); /* one token, and something after it */
    end(g, s);
}

/* Leaves the token below this frame, where the next call has its own arrays. */
static int32_t leave_on_stack(int32_t token)
{
    volatile int32_t left[8192];
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        left[i] = token;
    return left[token];
}

/* A tokenizer that drops extra spaces makes no token of a forced " ", so none is forced; the tokens
   that begin with the space may still come. */
static void forced_text_without_tokens(void **state)
{
    static struct vocab v = {.model = "t5"};
    static struct values values;
    struct tft_lexicon *usual = lexicon;
    struct tft_grammar *g;
    int32_t ids[64];
    size_t n;
    (void)state;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    int32_t word = vocab_add(&v, "\xe2\x96\x81" "a", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, "\xe2\x96\x81", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, "a", -1, TFT_TOKEN_NORMAL);
    vocab_add(&v, "b", -1, TFT_TOKEN_NORMAL);
    vocab_values(&v, &values);
    values_bool(&values, "tokenizer.ggml.remove_extra_whitespaces", true);
    struct tft_tokenizer *t = open_values(&values);
    assert_int_equal(tft_tokenizer_encode(t, " ", 1, TFT_CONTINUE, ids, 64, &n), TFT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(tft_lexicon_make(&lexicon, t, NULL, NULL), TFT_OK);
    struct tft_grammar_state *s = begin(&g, TFT_GBNF, "root ::= (\" \" [ab])+");
    assert_int_equal(leave_on_stack(word), word);
    assert_int_equal(tft_grammar_forced(s, ids, 64), 0);
    assert_int_equal(tft_grammar_accept(s, word), TFT_OK);
    end(g, s);
    tft_lexicon_close(lexicon);
    lexicon = usual;
    tft_tokenizer_close(t);
}

/* ---- memory */

/* After an error no token may come, and the state stays as it is. */
static bool has_failed(struct tft_grammar_state *s)
{
    assert_null(tft_grammar_mask(s));
    assert_false(tft_grammar_can_end(s) || tft_grammar_allows(s, byte_token('{')));
    assert_int_equal(tft_grammar_accept(s, byte_token('{')), TFT_ERR_NOMEM);
    return false;
}

static bool follow(struct tft_grammar_state *s, struct tft_grammar_state *copy, const char *text)
{
    for (; *text; text++) {
        int32_t id = byte_token((unsigned char)*text);
        if (!tft_grammar_allows(s, id) || !tft_grammar_mask(s))
            return has_failed(s);
        enum tft_status status = tft_grammar_copy(copy, s);
        assert_true(!status || status == TFT_ERR_NOMEM);
        if (status)
            return has_failed(copy);
        status = tft_grammar_accept(s, id);
        assert_true(!status || status == TFT_ERR_NOMEM);
        if (status)
            return has_failed(s);
    }
    assert_true(tft_grammar_can_end(s));
    return true;
}

/* Whether all goes well from a lexicon to the end of a text; if not, memory has run out. */
static bool goes_well(const struct tft_allocator *a)
{
    static const char text[] = "root ::= v\nv ::= \"{\" (s \":\" v)? \"}\" | \"[\" v* \"]\" | s\n"
                               "s ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{0,9} \"\\\"\"\n";
    struct tft_lexicon *lx = NULL;
    struct tft_grammar *g = NULL;
    struct tft_grammar_state *s = NULL, *copy = NULL;
    struct tft_error err = {0};
    enum tft_status status = tft_lexicon_make(&lx, tokens, a, &err);
    if (!status)
        status = tft_grammar_open(&g, lx, TFT_GBNF, text, strlen(text), &err);
    if (!status)
        status = tft_grammar_begin(&copy, g, &err);
    if (!status)
        status = tft_grammar_begin(&s, g, &err);
    assert_true(!status || (status == TFT_ERR_NOMEM && err.code == status));
    bool well = !status && follow(s, copy, "{\"a\":[\"b\"[{}]]}");
    tft_grammar_end(s);
    tft_grammar_end(copy);
    tft_grammar_close(g);
    tft_lexicon_close(lx);
    return well;
}

static void memory_may_run_out_anywhere(void **state)
{
    bool well = false;
    unsigned failed = 0;
    (void)state;
    for (; !well; failed++) {
        struct memory mem = {.fail_at = failed + 1};
        struct tft_allocator a = memory_allocator(&mem);
        well = goes_well(&a);
        assert_int_equal(mem.in_use, 0);
        assert_true(well == (mem.calls <= failed));
    }
    assert_true(failed > 50);
}

/* So it is where the mask was known before memory ran out. */
static void a_known_mask_ends_with_an_error(void **state)
{
    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    struct tft_lexicon *lx;
    struct tft_grammar *g;
    struct tft_grammar_state *s;
    int32_t ids[8];
    const char *text = "root ::= \"{\" [a]{900}";
    (void)state;
    assert_int_equal(tft_lexicon_make(&lx, tokens, &a, NULL), TFT_OK);
    assert_int_equal(tft_grammar_open(&g, lx, TFT_GBNF, text, strlen(text), NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    assert_non_null(tft_grammar_mask(s));
    assert_true(tft_grammar_allows(s, byte_token('{')));
    mem.fail_at = mem.calls + 1;
    assert_int_equal(tft_grammar_forced(s, ids, 8), 0);
    assert_true(mem.calls >= mem.fail_at);
    has_failed(s);
    tft_grammar_end(s);
    tft_grammar_close(g);
    tft_lexicon_close(lx);
    assert_int_equal(mem.in_use, 0);
}
/* Masks are kept and arrays have grown: tokens take no memory from the allocator then. */
static void a_text_takes_no_memory_again(void **state)
{
    static const char rules[] = "root ::= v\nv ::= \"[\" v* \"]\" | [a-z]\n", text[] = "[a[b[]]c]";
    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    struct tft_lexicon *lx;
    struct tft_grammar *g;
    struct tft_grammar_state *s, *fresh;
    (void)state;
    assert_int_equal(tft_lexicon_make(&lx, tokens, &a, NULL), TFT_OK);
    assert_int_equal(tft_grammar_open(&g, lx, TFT_GBNF, rules, strlen(rules), NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&fresh, g, NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    for (int again = 0; again < 2; again++) {
        unsigned calls = mem.calls;
        assert_int_equal(tft_grammar_copy(s, fresh), TFT_OK);
        for (const char *p = text; *p; p++) {
            assert_non_null(tft_grammar_mask(s));
            assert_int_equal(tft_grammar_accept(s, byte_token((unsigned char)*p)), TFT_OK);
        }
        assert_true((mem.calls == calls) == again);
    }
    tft_grammar_end(s);
    tft_grammar_end(fresh);
    tft_grammar_close(g);
    tft_lexicon_close(lx);
}

/* ---- sampling */

/* A small model of the vocabulary of bytes, where ids are bytes, and a grammar of it. */
struct worded {
    struct tft_model *m;
    struct tft_lexicon *lx;
    struct tft_grammar *g;
};

/* suppress: [n] tokens that sampling never chooses */
static struct worded open_worded(const char *regex, const int32_t *suppress, uint32_t n)
{
    const struct toy t = {.arch = "llama", .n_vocab = TOY_VOCAB, .n_ctx = 64, .n_embd = 8,
                          .n_layer = 1, .n_head = 1, .n_head_kv = 1, .head_dim = 8, .n_ff = 8,
                          .n_rot = 8, .vocab = "gpt2", .tied = true, .suppress = suppress,
                          .n_suppress = n};
    struct worded w;
    assert_true(toy_write(&t, in_folder("m.gguf")));
    assert_int_equal(tft_model_open(&w.m, in_folder("m.gguf"), NULL, NULL), TFT_OK);
    assert_int_equal(tft_lexicon_open(&w.lx, w.m, NULL), TFT_OK);
    assert_int_equal(tft_grammar_open(&w.g, w.lx, TFT_REGEX, regex, strlen(regex), NULL), TFT_OK);
    return w;
}

static void close_worded(struct worded *w)
{
    tft_grammar_close(w->g);
    tft_lexicon_close(w->lx);
    tft_model_close(w->m);
}

static void samples_are_of_the_grammar(void **state)
{
    (void)state;
    struct worded w = open_worded("[a-z]{3,6}-[0-9]{2}", NULL, 0);
    struct tft_session *s;
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    assert_int_equal(tft_session_open(&s, w.m, &o, NULL), TFT_OK);
    for (unsigned seed = 0; seed < 60; seed++) {
        char text[64] = "";
        int32_t id = 7;
        size_t n, used = 0;
        struct tft_sampler z = {.temperature = seed % 3 ? 2 : 0, .seed = seed,
                                .min_p = seed % 3 == 2 ? 0.9f : 0, .repeat_penalty = 1.3f};
        assert_int_equal(tft_grammar_begin(&z.grammar, w.g, NULL), TFT_OK);
        assert_int_equal(tft_sync(s, &(int32_t){(int32_t)seed}, 1), TFT_OK);
        while (id = tft_sample(&z, s), assert_true(id >= 0), !tft_token_ends(w.m, id)) {
            const char *p = tft_token_text(w.m, id, false, &n);
            assert_true(used + n < sizeof text);
            memcpy(text + used, p, n);
            used += n;
            assert_int_equal(tft_decode(s, id), TFT_OK);
        }
        size_t letters = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        assert_in_range(letters, 3, 6);
        assert_int_equal(text[letters], '-');
        assert_int_equal(strspn(text + letters + 1, "0123456789"), 2);
        assert_int_equal(strlen(text), letters + 3);
        tft_grammar_end(z.grammar);
    }
    tft_session_close(s);
    close_worded(&w);
}

/* The choices that [ab] leaves to a toy that suppresses n tokens: greedy, and in 20 draws; -1 if no
   token. */
static void chooses(const int32_t *suppress, uint32_t n, int32_t want)
{
    struct worded w = open_worded("[ab]", suppress, n);
    struct tft_session *s;
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    assert_int_equal(tft_session_open(&s, w.m, &o, NULL), TFT_OK);
    assert_int_equal(tft_prefill(s, &(int32_t){7}, 1), TFT_OK);
    for (unsigned seed = 0; seed < 21; seed++) {
        struct tft_sampler z = {.temperature = seed ? 2 : 0, .seed = seed};
        assert_int_equal(tft_grammar_begin(&z.grammar, w.g, NULL), TFT_OK);
        assert_int_equal(tft_sample(&z, s), want);
        tft_grammar_end(z.grammar);
    }
    tft_session_close(s);
    close_worded(&w);
}

static void suppressed_tokens_do_not_come(void **state)
{
    (void)state;
    static const int32_t ab[] = {'a', 'b'};
    chooses(ab, 1, ab[1]);
    chooses(ab + 1, 1, ab[0]);
    chooses(ab, 2, -1);
}

/* Forced text stops before a token that sampling would not choose. */
static void suppressed_tokens_are_not_forced(void **state)
{
    (void)state;
    static const int32_t dc[] = {'d', 'c'};
    struct worded w = open_worded("xzcx", dc, 2);
    struct tft_grammar_state *s;
    int32_t ids[8];
    assert_int_equal(tft_grammar_begin(&s, w.g, NULL), TFT_OK);
    assert_int_equal(tft_grammar_forced(s, ids, 8), 2);
    assert_true(ids[0] == 'x' && ids[1] == 'z');
    assert_int_equal(tft_grammar_forced(s, ids, 8), 0);
    assert_int_equal(tft_grammar_accept(s, 'c'), TFT_OK);
    tft_grammar_end(s);
    close_worded(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gbnf_matches_what_it_says),
        cmocka_unit_test(regex_matches_what_it_says),
        cmocka_unit_test(errors_have_a_place),
        cmocka_unit_test(short_rules_are_copied),
        cmocka_unit_test(counted_copies_are_limited),
        cmocka_unit_test(masks_are_what_bytes_allow),
        cmocka_unit_test(dead_ends_are_removed),
        cmocka_unit_test(many_readings),
        cmocka_unit_test(many_readings_of_a_token),
        cmocka_unit_test(special_tokens_come_where_they_are_named),
        cmocka_unit_test(forced_text_is_tokens_of_its_own),
        cmocka_unit_test(forced_text_without_tokens),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(a_known_mask_ends_with_an_error),
        cmocka_unit_test(a_text_takes_no_memory_again),
        cmocka_unit_test(samples_are_of_the_grammar),
        cmocka_unit_test(suppressed_tokens_do_not_come),
        cmocka_unit_test(suppressed_tokens_are_not_forced),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
