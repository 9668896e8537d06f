#include "test.h"

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
    size_t n = 0, used = 0;
    for (const char *p = want; *p; p++)
        if (*p != '|')
            text[n++] = *p;
    for (size_t at = 0, len; at < n; at += len) {
        len = tft_pretokenize_next(named(name), text + at, n - at);
        assert_in_range(len, 1, n - at);
        if (at)
            have[used++] = '|';
        memcpy(have + used, text + at, len);
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
    assert_false(tft_pretokenize_find((struct tft_str){"gpt-4o", 6}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){"", 0}, &rules));
    assert_false(tft_pretokenize_find((struct tft_str){"gpt-2x", 6}, &rules));
    assert_true(tft_pretokenize_find((struct tft_str){"gpt-2x", 5}, &rules));
    assert_true(named("llama3").whole_pieces && named("llama3").add_bos);
    assert_false(named("smaug-bpe").whole_pieces || named("smaug-bpe").add_bos);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(each_digit_alone),
        cmocka_unit_test(llama3),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(bad_bytes_are_no_letters),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
