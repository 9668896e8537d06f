/* The grammar of answers that call tools, in each format. */
#include "test.h"

#include "calls.h"

struct taken {
    const char *text;
    bool good; /* whether the grammar takes it */
};

/* Compares rows[n] with the grammar of answers that may call the tools `json`. */
static void take_or_refuse(const char *json, const char *format, const struct taken *rows, size_t n)
{
    struct tft_chat_tools *t = open_tools(json, format);
    struct tft_grammar *g = compile(t, TFT_CHAT_AUTO, NULL, false);
    for (size_t i = 0; i < n; i++)
        if (accepts(g, rows[i].text) != rows[i].good)
            fail_msg("%s", rows[i].text);
    tft_grammar_close(g);
    tft_chat_tools_close(t);
}

static void grammar_of_hermes(void **state)
{
    static const struct {
        const char *text;
        const char *taken; /* by: auto, no call, required, required with a name, by these letters */
    } rows[] = {
        {"", "an.."},
        {"Hello <tool <<tool_call < there", "an.."},
        {CALL(PARIS), "a.r."},
        {"I look. " CALL(PARIS) "\n" CALL("\"now\", \"arguments\": {}"), "a..."},
        {CALL("\"now\", \"arguments\": {}"), "a.rw"},
        {CALL("\"now\", \"arguments\": {}") "\n" CALL("\"now\", \"arguments\": {}"), "a.rw"},
        {CALL("\"now\", \"arguments\": {\"a\": 1}"), "...."},
        {CALL("\"later\", \"arguments\": {}"), "...."},
        {CALL("\"get_weather\", \"arguments\": {}"), "...."},
        {CALL("\"get_weather\", \"arguments\": {\"city\": \"P\", \"days\": 15}"), "...."},
        {CALL("\"get_weather\", \"arguments\": {\"city\": \"P\", \"days\": 14}"), "a.r."},
        {CALL(PARIS) " and more", "...."},
        {"text <tool_call>", "...."},
        {"text <<tool_call>", "...."},
        {"text <to<tool_call>", "...."},
    };
    static const char letters[] = "anrw";
    struct tft_chat_tools *t = open_tools(three, "hermes");
    struct tft_grammar *g[4] = {
        compile(t, TFT_CHAT_AUTO, NULL, false), compile(t, TFT_CHAT_NO_CALL, NULL, false),
        compile(t, TFT_CHAT_REQUIRED, NULL, false), compile(t, TFT_CHAT_REQUIRED, "now", false)};
    struct tft_grammar *one = compile(t, TFT_CHAT_AUTO, NULL, true);
    struct tft_chat_text text;
    struct tft_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 4; k++)
            if (accepts(g[k], rows[i].text) != (rows[i].taken[k] == letters[k]))
                fail_msg("%c: %s", letters[k], rows[i].text);
    assert_true(accepts(one, rows[2].text));
    assert_false(accepts(one, rows[5].text));
    assert_int_equal(
        tft_chat_tools_grammar(&text, t, NULL, TFT_CHAT_AUTO, "later", false, &err), TFT_ERR_ARG);
    assert_string_equal(err.msg, "tools: no tool has the name later");
    for (size_t k = 0; k < 4; k++)
        tft_grammar_close(g[k]);
    tft_grammar_close(one);
    tft_chat_tools_close(t);
}

/* A tool without parameters, in each way in which clients write that: {} and nothing else. */
static void tools_without_parameters(void **state)
{
    static const char *const parameters[] = {
        "null", "{}", "{\"type\": \"object\"}", "{\"type\": \"object\", \"properties\": {}}",
        "{\"type\": \"object\", \"properties\": {}, \"required\": []}",
        "{\"properties\": {}, \"additionalProperties\": false, \"$schema\": \"x\"}"};
    static const struct taken rows[] = {{CALL("\"f\", \"arguments\": {}"), true},
                                        {CALL("\"f\", \"arguments\": {\"a\": 1}"), false}};
    (void)state;
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "[{\"name\": \"f\", \"description\": null, \"parameters\": %s}]", parameters[i]);
        take_or_refuse(json, "hermes", rows, sizeof rows / sizeof *rows);
    }
}

static struct tft_grammar *compile_or_form(const struct tft_chat_tools *t, bool one,
                                           const char *form)
{
    struct tft_chat_text text;
    struct tft_grammar *g;
    struct tft_error err = {0};
    if (tft_chat_tools_or_form(&text, t, NULL, one, form, strlen(form), &err) != TFT_OK)
        fail_msg("%s", err.msg);
    if (tft_grammar_open(&g, lexicon, TFT_GBNF, text.p, text.n, &err) != TFT_OK)
        fail_msg("%s\n%s", err.msg, text.p);
    tft_chat_text_free(&text);
    return g;
}

/* A call, or a text of a form whose rules have the names of the tools' rules, or odd characters. */
static void calls_or_a_form(void **state)
{
    static const char *const calls[][2] = {
        {"hermes", CALL("\"now\", \"arguments\": {}")},
        {"llama3", "{\"name\": \"now\", \"parameters\": {}}"},
        {"json", "{\"tool_calls\": [{\"name\": \"now\", \"arguments\": {}}]}"},
    };
    static const char schema[] = "{\"properties\": {\"n\": {\"type\": \"boolean\"}, \"s\": "
                                 "{\"type\": \"string\"}}, \"required\": [\"n\"]}",
                      odd[] = "root ::= call r1{1,2} # root [ \"\n"
                              "call ::= \"root\" [\"#<\\]] | \"\\\"call\"\nr1 ::= \"{\" # \"\n";
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct tft_chat_tools *t = open_tools(three, calls[i][0]);
        struct tft_chat_text form;
        assert_int_equal(tft_chat_schema(&form, schema, sizeof schema - 1, 0, NULL), TFT_OK);
        struct tft_grammar *g = compile_or_form(t, false, form.p),
                           *h = compile_or_form(t, true, odd);
        assert_true(accepts(g, "{\"n\": true}"));
        assert_true(accepts(g, "{\"n\": true, \"s\": \"<tool_call>\"}"));
        assert_false(accepts(g, "{\"n\": 1}"));
        assert_true(accepts(h, "root]{") && accepts(h, "\"call{{"));
        assert_false(accepts(h, "root]{{{") || accepts(h, "root"));
        for (int k = 0; k < 2; k++) {
            assert_true(accepts(k ? g : h, calls[i][1]));
            assert_false(accepts(k ? g : h, "Hello"));
            assert_false(accepts(k ? g : h, ""));
        }
        tft_grammar_close(g);
        tft_grammar_close(h);
        tft_chat_text_free(&form);
        tft_chat_tools_close(t);
    }
}

/* Strings stand without quotes in it, unless the value may be of another type. */
static void grammar_of_qwen(void **state)
{
#define F(a, b, c)                                                                                 \
    "<tool_call>\n<function=f>\n" PARAMETER("a", a) PARAMETER("b", b) PARAMETER("c", c)            \
        "</function>\n</tool_call>"
    static const char json[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"anyOf\": [{\"type\": "
        "\"string\", \"pattern\": \"^[a-c<\\\"]+$\"}, {\"type\": \"null\"}]}, \"b\": {\"type\": "
        "\"string\", \"maxLength\": 2}, \"c\": {\"type\": [\"string\", \"integer\"]}}, "
        "\"required\": [\"a\", \"b\", \"c\"], \"additionalProperties\": true}}]";
    static const struct taken rows[] = {
        {F("ab\"c", "\xc3\xa9\"", "\"x\""), true}, {F("a", "", "-12"), true},
        {F("a<", "", "1"), false},                   {F("null", "", "1"), false},
        {F("a", "abc", "1"), false},                 {F("a", "a<", "1"), false},
        {F("a", "b", "x"), false},                   {F("a", "b\n", "1"), true},
        {F("a", "b", "1" PARAMETER("d", "1")), false},
    };
    struct tft_chat_tools *t;
    struct tft_error err = {0};
    (void)state;
    take_or_refuse(json, "qwen3.5", rows, sizeof rows / sizeof *rows);
    static const char *const bad[][2] = {
        {"{\"properties\": {\"a b\": {}}}",
         "tools: #/0/parameters: in this format names have 1 to 64"},
        {"{\"anyOf\": [{}, {}]}", "tools: #/0/parameters: a choice of objects, in this format"},
        {"{\"properties\": {\"a\": {\"const\": \"</parameter>\"}}}",
         "tools: #/0/parameters: a constant with U+0000 or </parameter>, in this format"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        int n = snprintf(text, sizeof text, "[{\"name\": \"f\", \"parameters\": %s}]", bad[i][0]);
        assert_int_equal(tft_chat_tools_open(&t, text, (size_t)n, "qwen3.5", 0, &err),
                         TFT_ERR_UNSUPPORTED);
        if (strncmp(err.msg, bad[i][1], strlen(bad[i][1])) != 0)
            fail_msg("%s", err.msg);
    }
}

/* Values are literals of Python in it. */
static void grammar_of_lfm(void **state)
{
#define G(arguments) "<|tool_call_start|>[f(" arguments ")]<|tool_call_end|>"
    static const char json[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": [\"null\", "
        "\"boolean\"]}, \"b\": {\"enum\": [null, [true, {\"k\": false}], \"x\"]}, "
        "\"c\": {\"type\": \"string\"}, \"d\": {}}}}]";
    static const struct taken rows[] = {
        {G(""), true},
        {G("a=None, b=[True, {\"k\": False}]"), true},
        {G("b=\"x\", c='say \"x\"', d={\"k\": [None, 'x']}"), true},
        {G("a=True, c=\"it's\\n\""), true},
        {G("a=null"), false},
        {G("a=true"), false},
        {G("b=[true, {\"k\": false}]"), false},
        {G("d=null"), false},
        {G("b=None, a=None"), false},
        {G("c='\\'"), false},
        {G("e=1"), false},
        {G("c=\"x\" "), false},
    };
    (void)state;
    take_or_refuse(json, "lfm2", rows, sizeof rows / sizeof *rows);
}

/* Strings stand between marks, names without quotes, and nothing between. */
static void grammar_of_gemma(void **state)
{
#define H(arguments) "<start_function_call>call:f{" arguments "}<end_function_call>"
    static const char json[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": [\"null\", "
        "\"boolean\"]}, \"b\": {\"enum\": [null, [true, {\"k\": \"<x>\"}], \"x\"]}, \"c\": "
        "{\"type\": \"string\", \"maxLength\": 2}, \"d\": {}, \"e\": {\"prefixItems\": [{\"type\": "
        "\"integer\"}, {\"type\": \"string\"}], \"items\": {\"const\": 7}, \"minItems\": 2}}}}]";
    static const struct taken rows[] = {
        {H(""), true},
        {H("a:null,b:[true,{k:" S("<x>") "}]"), true},
        {H("b:" S("x") ",c:" S("\"\n") ",d:{k.1:[null," S("<es\"cape") "]}"), true},
        {H("e:[1," S("x") ",7,7]"), true},
        {H("c:\"x\""), false},
        {H("c:" S("abc")), false},
        {H("c:" S("<")), false},
        {H("b:null,a:null"), false},
        {H("a:null, b:null"), false},
        {H("a: null"), false},
        {H("\"a\":null"), false},
        {H("d:{\"k\":1}"), false},
        {H("e:[1]"), false},
        {H("f:1"), false},
    };
    static const char odd[] = "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": "
                              "{\"properties\": {\"b c\": {}}}}}}]";
    struct tft_chat_tools *t;
    struct tft_error err = {0};
    (void)state;
    take_or_refuse(json, "gemma", rows, sizeof rows / sizeof *rows);
    assert_int_equal(tft_chat_tools_open(&t, odd, sizeof odd - 1, "gemma", 0, &err),
                     TFT_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammar_of_hermes),
        cmocka_unit_test(tools_without_parameters),
        cmocka_unit_test(calls_or_a_form),
        cmocka_unit_test(grammar_of_qwen),
        cmocka_unit_test(grammar_of_lfm),
        cmocka_unit_test(grammar_of_gemma),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
