/* Masks where most tokens are of one class of characters, against every token tried alone. The
   vocabulary has random words of a few characters, some beyond ASCII, incomplete or no UTF-8. */
#include "test.h"

#include "words.h"

enum { TEXTS = 6, TOKENS = 12 };

/* Compares the mask of s with all tokens; `alone` never has a mask. Returns one that may come, the
   longest of some, so that texts get through counts. */
static int32_t compare(struct tft_grammar_state *s, struct tft_grammar_state *alone,
                       const char *grammar)
{
    uint32_t n = tft_lexicon_size(lexicon);
    int32_t some = -1;
    size_t most = 0;
    assert_int_equal(tft_grammar_copy(alone, s), TFT_OK);
    const uint32_t *mask = tft_grammar_mask(s);
    assert_non_null(mask);
    for (uint32_t id = 0; id < n; id++) {
        size_t len;
        const char *p = tft_tokenizer_text(tokens, (int32_t)id, false, &len);
        bool got = mask[id / 32] >> id % 32 & 1;
        if (got != tft_grammar_allows(alone, (int32_t)id))
            fail_msg("%s: token %u, \"%.*s\": the mask says %d", grammar, id, (int)len, p, got);
        if (got && len + random_below(&seed, 9) > most) {
            some = (int32_t)id;
            most = len;
        }
    }
    return some;
}

static void masks_of_classes(void **state)
{
    static const char *const grammars[] = {
        "root ::= [a-z]{3,8}",
        "root ::= [A-Z] [a-z]+ (\" \" [a-z]+){2,9} \".\"",
        "root ::= ([^,\\n]* \",\" [^,\\n]{0,5} \",\" [0-9]+ \"\\n\")+",
        "root ::= \"\\\"\" chr{2,70} \"\\\"\"\nchr ::= [^\"\\\\] | \"\\\\\" [\"\\\\a]",
        "root ::= word (\" \" word){0,9}\nword ::= [a-z]+ | [A-Z]{1,3}",
        "root ::= [^\\x00-\\x7f]{1,3} | \" \" [^\"]{1,4} \"a\"*",
        "root ::= (\" \"? [a-z]{1,3}){2,20}",
        "root ::= [a-b]{1,60} [k,]+",
        "root ::= [a-zA-Z0-9\xc3\xa9]{4,61} \"\\\"\" root?",
        "root ::= ([a-k] | \" \" [^k]){1,30}",
        "root ::= ([a-zA-Z]{2} [a-z]+ [,.])+",
        "root ::= ([a-z]{3} [,.] [a-z]{2} \"0\"?)+",
        "root ::= [a-z]{1,62}",
        "root ::= \"0\" (\"0\" root \".\" | \",\")",
        "root ::= (\"\xc3\xa9\" \"a\" | [^\xc3\xa9\\x00-\\x7f] \"k\")+",
        "root ::= [a-z]* \"7\" | \" \" [^\\n]*",
        "root ::= [a-z \xe2\x82\xac]* \"A\" [a-z]* \"Z\"",
    };
    unsigned texts = 0;
    (void)state;
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        struct tft_grammar *g;
        struct tft_grammar_state *s, *alone;
        struct tft_error err;
        if (tft_grammar_open(&g, lexicon, TFT_GBNF, grammars[i], strlen(grammars[i]), &err))
            fail_msg("%s: %s", grammars[i], err.msg);
        assert_int_equal(tft_grammar_begin(&alone, g, NULL), TFT_OK);
        for (int k = 0; k < TEXTS; k++, texts++) {
            assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
            for (int t = 0; t < TOKENS; t++) {
                int32_t id = compare(s, alone, grammars[i]);
                if (id < 0 || tft_tokenizer_ends(tokens, id))
                    break;
                assert_int_equal(tft_grammar_accept(s, id), TFT_OK);
            }
            tft_grammar_end(s);
        }
        tft_grammar_end(alone);
        tft_grammar_close(g);
    }
    assert_int_equal(texts, TEXTS * sizeof grammars / sizeof *grammars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_of_classes)};
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
