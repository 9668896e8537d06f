/* Counted repetitions, against the same repetition written out: masks, forced text and ends are
   equal at every place, and places can be saved. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <stdio.h>

#include "grammar/automaton.h"
#include "grammar/saved.h"
#include "words.h"

enum { TOKENS = 400, SIZE = 1 << 17, SAVED = 1 << 16 };

/* Elements, and texts around a repetition %s of one. */
static const char *const elements[] = {"[ab]",
                                       "[^\"\\\\]",
                                       "\"ab\"",
                                       "[ak] [07]?",
                                       "(\"a\" | \"\\\\\" [ab])",
                                       "\"\xc3\xa9\"",
                                       "[a\xc3\xa9\xe2\x82\xac]",
                                       "(\"a\" | \"ab\" [0k])",
                                       "[ab]{2,3} \"k\"",
                                       "[ab] [ab]",
                                       "c",
                                       "(\"a\" | \"b\") \",\"?",
                                       "(\"a\" | \"aa\")",
                                       "n",
                                       "(c | \",\" n)"};
static const char *const around[] = {"root ::= \"A\" %s \"Z\"",
                                     "root ::= (%s \",\")*",
                                     "root ::= %s \"b\"*",
                                     "root ::= %s | \"ab\" \"k\" \"Z\"",
                                     "root ::= \"7\" %s %s",
                                     "root ::= ((%s) | \"\") \"Z\"",
                                     "root ::= r \".\"\nr ::= \"A\" %s (\",\" r)?"};
enum { ELEMENTS = sizeof elements / sizeof *elements, AROUND = sizeof around / sizeof *around };

/* Writes an element m to n times, copied or counted. A copy is two alternatives, so that neighbours
   are not taken for one repetition. */
static void repeat(char *p, const char *element, int m, int n, bool many, bool copied)
{
    char one[100];
    int at = 0;
    snprintf(one, sizeof one, "(%s | %s)", element, element);
    if (!copied) {
        snprintf(p, SIZE / 4, many ? "(%s){%d,}" : "(%s){%d,%d}", one, m, n);
        return;
    }
    at += snprintf(p, SIZE / 4, "(");
    for (int i = 0; i < m; i++)
        at += sprintf(p + at, "%s ", one);
    for (int i = m; i < n && !many; i++)
        at += sprintf(p + at, "(\"\" | \"\" | %s) ", one);
    sprintf(p + at, many ? "%s*)" : "\"\")", one);
}

static struct tft_grammar *compile(char *text, const char *before, const char *part,
                                   struct tft_error *err)
{
    static const char rules[] =
        "\nc ::= [ab] | \"\\\\\" [\"\\\\a]\nn ::= \"0\" (\"k\" n \"k\")? \"7\"";
    struct tft_grammar *g;
    int n = snprintf(text, SIZE, before, part, part);
    n += snprintf(text + n, (size_t)(SIZE - n), "%s", rules);
    return tft_grammar_open(&g, lexicon, TFT_GBNF, text, (size_t)n, err) ? NULL : g;
}

/* A token of the mask that is one of the last bytes' words, or any; -1: none. */
static int32_t some(const uint32_t *mask)
{
    uint32_t n = tft_lexicon_size(lexicon), first = random_below(&seed, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = (first + i) % n;
        if (mask[id / 32] >> id % 32 & 1 && !tft_tokenizer_ends(tokens, (int32_t)id))
            return (int32_t)id;
    }
    return -1;
}

static void put(struct tft_walk *w, void *p, size_t n)
{
    assert_true(w->n + n <= SAVED);
    memcpy(w->to + w->n, p, n);
    w->n += n;
}

static void save_and_load(struct tft_grammar_state *s)
{
    static unsigned char room[SAVED], again[SAVED];
    struct tft_walk w = {.part = put, .to = room}, v = {.part = put, .to = again};
    tft_grammar_save(s, &w);
    assert_int_equal(tft_grammar_load(s, room, w.n), TFT_OK);
    tft_grammar_save(s, &v);
    assert_int_equal(w.n, v.n);
    assert_memory_equal(room, again, w.n);
}

/* Walks through both grammars; returns the number of places. */
static unsigned walk(const struct tft_grammar *counted, const struct tft_grammar *copied,
                     const char *text)
{
    struct tft_grammar_state *s, *t;
    uint32_t n_word = (tft_lexicon_size(lexicon) + 31) / 32;
    unsigned places = 0;
    assert_int_equal(tft_grammar_begin(&s, counted, NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&t, copied, NULL), TFT_OK);
    for (; places < TOKENS; places++) {
        char forced[200], wanted[200];
        bool done, was_done;
        const uint32_t *mask = tft_grammar_mask(s), *want = tft_grammar_mask(t);
        assert_true(mask && want);
        if (memcmp(mask, want, n_word * sizeof *mask) != 0)
            fail_msg("%.200s: masks differ at place %u", text, places);
        size_t n = tft_grammar_only_text(s, forced, sizeof forced, &done),
               m = tft_grammar_only_text(t, wanted, sizeof wanted, &was_done);
        assert_int_equal(n, m);
        assert_memory_equal(forced, wanted, n);
        assert_int_equal(done, was_done);
        assert_int_equal(tft_grammar_can_end(s), tft_grammar_can_end(t));
        int32_t id = some(mask);
        if (id < 0)
            break;
        assert_int_equal(tft_grammar_accept(s, id), TFT_OK);
        assert_int_equal(tft_grammar_accept(t, id), TFT_OK);
        save_and_load(s);
    }
    tft_grammar_end(s);
    tft_grammar_end(t);
    return places;
}

static void counted_parts_are_like_copies(void **state)
{
    static char part[SIZE], text[SIZE];
    unsigned places = 0, counted_parts = 0, refused = 0, only_copied = 0;
    (void)state;
    for (int i = 0; i < 2 * ELEMENTS * AROUND; i++) {
        const char *element = elements[i % ELEMENTS], *before = around[i / ELEMENTS % AROUND];
        int m = random_below(&seed, 2) ? (int)random_below(&seed, 70) : 0,
            n = m + (int)random_below(&seed, 70);
        bool many = i % 4 == 0;
        struct tft_error err = {0};
        repeat(part, element, m, n, many, true);
        struct tft_grammar *copied = compile(text, before, part, &err);
        repeat(part, element, m, n, many, false);
        struct tft_grammar *counted = copied ? compile(text, before, part, &err) : NULL;
        refused += !copied; /* if a text can be read in many ways, copies take too many states */
        if (!copied)
            continue;
        if (!counted && !strstr(err.msg, "too large"))
            fail_msg("%s: %s", text, err.msg);
        only_copied += !counted;
        for (int k = 0; k < 3 && counted; k++)
            places += walk(counted, copied, text);
        for (uint32_t s = 0; counted && s < counted->n_state; s++)
            counted_parts += tft_auto_state(counted, s)->limit != 0;
        tft_grammar_close(copied);
        tft_grammar_close(counted);
    }
    assert_true(places > 10000 && counted_parts > 200 && refused < 20 && only_copied < 20);
}

/* Copies of these parts would be too many states. */
static void many_times_take_few_states(void **state)
{
    static const char *const grammars[] = {
        "root ::= (\"a\"?){3500}",
        "root ::= \"\\\"\" [^\"]{0,65536} \"\\\"\"",
        "root ::= [a-z]{0,2000} [a-z]{0,2000} [a-z]{0,2000}",
        "root ::= \"[\" (c (\", \" c){0,9999})? \"]\"\nc ::= \"\\\"\" [^\"]{1,10000} \"\\\"\"",
        "root ::= [a-z]{30000}",
        "root ::= ([a-z]{1,9} \" \"){0,20000}"};
    (void)state;
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        struct tft_grammar *g;
        struct tft_error err;
        if (tft_grammar_open(&g, lexicon, TFT_GBNF, grammars[i], strlen(grammars[i]), &err))
            fail_msg("%s: %s", grammars[i], err.msg);
        if (g->n_state > 1000)
            fail_msg("%s: %u states", grammars[i], g->n_state);
        tft_grammar_close(g);
    }
}

/* The last of many times is the last. */
static void times_are_exact(void **state)
{
    static const struct {
        const char *text;
        int least, most;
    } rows[] = {{"root ::= \"a\"{1000,3500}", 1000, 3500},
                {"root ::= \"a\"{40}", 40, 40},
                {"root ::= (\"a\"?){3500}", 0, 3500},
                {"root ::= \"a\"{0,40000}", 0, 40000},
                {"root ::= \"a\"{7,40}  \"a\"{1,60}", 8, 100}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_grammar *g;
        struct tft_grammar_state *s;
        int32_t a = -1;
        assert_int_equal(
            tft_grammar_open(&g, lexicon, TFT_GBNF, rows[i].text, strlen(rows[i].text), NULL), 0);
        assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
        for (uint32_t id = 0; id < tft_lexicon_size(lexicon); id++) {
            size_t n;
            const char *p = tft_tokenizer_text(tokens, (int32_t)id, false, &n);
            if (n == 1 && *p == 'a')
                a = (int32_t)id;
        }
        for (int n = 0; n <= rows[i].most; n++) {
            if (tft_grammar_can_end(s) != (n >= rows[i].least))
                fail_msg("%s: after %d times", rows[i].text, n);
            assert_int_equal(tft_grammar_accept(s, a), n < rows[i].most ? TFT_OK : TFT_ERR_ARG);
        }
        tft_grammar_end(s);
        tft_grammar_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_parts_are_like_copies),
        cmocka_unit_test(many_times_take_few_states),
        cmocka_unit_test(times_are_exact),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
