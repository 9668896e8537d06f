#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "text/pretokenize.h"

static struct tft_pretokenizer named(const char *name)
{
    struct tft_pretokenizer rules;
    assert_true(tft_pretokenize_find((struct tft_str){name, strlen(name)}, &rules));
    return rules;
}

/* `want` is the text with a '|' between pieces; the text itself has none. */
static void cuts(const char *name, const char *want)
{
    char text[256], have[512];
    const char *piece;
    size_t n = 0, used = 0;
    for (const char *p = want; *p; p++)
        if (*p != '|')
            text[n++] = *p;
    struct tft_pretokenizer rules = named(name);
    struct tft_pieces pieces;
    tft_pieces_start(&pieces, &rules, text, n);
    for (size_t at = 0, len; (len = tft_pieces_next(&pieces, &piece)); at += len) {
        assert_ptr_equal(piece, text + at);
        assert_in_range(len, 1, n - at);
        if (at)
            have[used++] = '|';
        memcpy(have + used, piece, len);
        used += len;
    }
    have[used] = 0;
    assert_string_equal(have, want);
}

static void gpt2(void **state)
{
    (void)state;
    cuts("gpt-2", "Hello| world|,| it|'s| 1234|!!");
    cuts("gpt-2", "I|'ve| we|'re| you|'ll| he|'d| I|'m| don|'t| it|'|S| '|tis");
    cuts("gpt-2", "a|  | b|\t|c| \t| d|\n\n|\n|e|   ");
    cuts("gpt-2", "  | 12|ab|34| 5|-|6");
    cuts("gpt-2", "na\xc3\xafve| "
                  "\xd0\xbf\xd1\x80\xd0\xb8|\xe3\x80\x80|\xe4\xbd\xa0\xe5\xa5\xbd|\xe3\x80\x82");
    cuts("gpt-2", "e|\xcc\x81|a"); /* U+0301, a combining mark, is not a letter */
    /* 1/2 and VIII are numbers, U+00A0 a space */
    cuts("gpt-2", "x|\xc2\xbd\xe2\x85\xa7| \xe2\x85\xa7|\xc2\xa0|y");
    cuts("mpt", "'s|'s");
}

static void each_digit_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *name = (const char *[]){"starcoder", "smollm", "command-r"}[i];
        cuts(name, "in| |1|9|9|9|,|  |2|.|5|x");
        cuts(name, "a|\n\n|1| |\xc2\xbd| b|  | c");
        cuts(name, "it|'s|'|1|'s");
    }
}

static void llama3(void **state)
{
    (void)state;
    cuts("llama-bpe", "Hello| world|,| it|'s| |123|4|!!");
    cuts("llama-bpe", "IT|'S|'rE|'Ve|'LL|'d|'x");
    cuts("llama-bpe", "it|'\xc5\xbf|t"); /* U+017F, the long s */
    cuts("llama-bpe", "(word|(|1|)word|\tword|  | word|,| ,\r\n\n|x");
    cuts("llama-bpe", "a| \n \n|  | b| \r\n|\t\t|\tc|   ");
    cuts("llama-bpe", "a|\n|b|\n\n|12|\n");
    cuts("llama-bpe", "333|333|3\xc2\xbd\xc2\xbd|122");
    cuts("llama-bpe", "\xe2\x80\x83word| |\xe2\x80\x83word");
}

static void qwen2(void **state)
{
    (void)state;
    cuts("qwen2", "Hello| world| |1|2|3|4|!!\n|'LL|x");
    cuts("deepseek-r1-qwen", "a| \n|  | b");
}

static void marks_are_letters(void **state)
{
    (void)state;
    cuts("qwen35", "e\xcc\x81t| |1|2|'S| !?\n|'t");
    cuts("qwen35", "!\xcc\x81|!");
    cuts("qwen2", "e|\xcc\x81t|!\xcc\x81|1");
}

static void case_of_words(void **state)
{
    (void)state;
    cuts("tekken", "Hello| World|Wide|HTTPServer| |1|2|!/\n/|'s");
    cuts("tekken", "ABC| ABCd|Ef\xe4\xbd\xa0|A\xe4\xbd\xa0" "b|C\xe4\xbd\xa0|A");
    cuts("gpt-4o", "IT's|It'LL| don't|'t|123|4|a|'x| /\r\n");
    cuts("gpt-4o", "\xcc\x81|ABC|!\xcc\x81|AB");
}

static void stages(void **state)
{
    (void)state;
    cuts("falcon", "Hi| there|!?|  | |123|4|a|+='|s| \xe2\x82\xac|  ");
    cuts("falcon", " |123|456|7| 12|\xe2\x82\xac");
    cuts("falcon-digits", " |123|456|7| |12|\xe2\x82\xac| | |1|a");
    cuts("bloom", "Hi| there|, | you|.(| a1| 2|\n\n|x");
    cuts("viking", "Hi| there|,| |1|2|x");
    cuts("deepseek-llm", "abc| Def|\n|\n|12|\xe4\xbd\xa0\xe5\xa5\xbd|!!| ?|  | x");
    cuts("deepseek-llm", "\xc3\xa0|bc|12| |\n");
    cuts("deepseek-coder", "abc| def|1|2|\n| !|   +|x");
    cuts("deepseek-v3", "It|'s| |123|45|.abc|  | d|\n|\xe4\xbd\xa0|!\n\n|\x01|\x02" "a");
    cuts("minicpm5", "ab|  |123|45| x");
    cuts("laguna", "ab| c|  |\n\n|  | d");
}

static void whole_phrases(void **state)
{
    (void)state;
    cuts("exaone-moe", "hello big world| | a b|!/|x|!\n|/| c\xcc\x81 d| \n| |1|'s|'x y");
}

static void bad_bytes_are_no_letters(void **state)
{
    (void)state;
    cuts("gpt-2", "a|\xff\xc3|b|\xed\xa0\x80|c|\xf4\x90\x80\x80| ");
    /* [^\r\n\p{L}\p{N}]?\p{L}+ includes one such character, like any other */
    cuts("llama3", "a|\xff" "b|\xff\xc3|b|\xc3");
}

static void names(void **state)
{
    (void)state;
    struct tft_pretokenizer rules;
    assert_false(tft_pretokenize_find((struct tft_str){"gpt-5", 5}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){"gpt-2 gpt2", 10}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){" ", 1}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){"", 0}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){"gpt-2x", 6}, &rules));
    assert_true(tft_pretokenize_find((struct tft_str){"gpt-2x", 5}, &rules));
    assert_true(named("llama3").whole_pieces && named("llama3").add_bos);
    assert_false(named("smaug-bpe").whole_pieces || named("smaug-bpe").add_bos);
}

/* The names in a refusal. */
static void known_names(void **state)
{
    (void)state;
    char all[256];
    assert_in_range(strlen(tft_pretokenize_known), 100, 160);
    strcpy(all, tft_pretokenize_known);
    for (char *name = strtok(all, " "); name; name = strtok(NULL, " "))
        assert_in_range(named(name).n_stage, 1, TFT_STAGE_MAX);
}

/* A matcher that looks far and fails, or a gap that is searched again, would take minutes. */
static void a_megabyte_of_one_character(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(N + 1), all[256];
    strcpy(all, tft_pretokenize_known);
    for (char *name = strtok(all, " "); name; name = strtok(NULL, " "))
        for (const char *c = "a A1 \n.!\x01\xcc\x81"; *c; c++) {
            struct tft_pretokenizer rules = named(name);
            struct tft_pieces pieces;
            const char *p;
            size_t total = 0;
            memset(text, *c, N);
            text[N] = *c == 'x' ? ' ' : 'x';
            tft_pieces_start(&pieces, &rules, text, N + 1);
            for (size_t len; (len = tft_pieces_next(&pieces, &p)); total += len)
                ;
            assert_int_equal(total, N + 1);
        }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(each_digit_alone),
        cmocka_unit_test(llama3),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(marks_are_letters),
        cmocka_unit_test(case_of_words),
        cmocka_unit_test(stages),
        cmocka_unit_test(whole_phrases),
        cmocka_unit_test(bad_bytes_are_no_letters),
        cmocka_unit_test(names),
        cmocka_unit_test(known_names),
        cmocka_unit_test(a_megabyte_of_one_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
