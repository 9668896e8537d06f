/* Calls of tools: declarations, formats and grammars. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "chat/call.h"
#include "chat/tuffet_chat.h"
#include "grammar/grammar.h"
#include "vocabs.h"

static struct tft_tokenizer *tokens;
static struct tft_lexicon *lexicon;
enum { FIRST_BYTE = 3 };

static int open_lexicon(void **state)
{
    static struct vocab v = {.model = "llama"};
    (void)state;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add_bytes(&v);
    tokens = open_vocab(&v);
    return tft_lexicon_make(&lexicon, tokens, NULL, NULL);
}

static int close_lexicon(void **state)
{
    (void)state;
    tft_lexicon_close(lexicon);
    tft_tokenizer_close(tokens);
    return 0;
}

static const char *const formats[] = {"hermes", "mistral-args", "mistral", "llama3", "json"};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Tools with what arguments may be. */
static const char three[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, "
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 14}, \"unit\": {\"enum\": "
    "[\"C\", \"F <x>\"]}}, \"required\": [\"city\"]}}},"
    " {\"name\": \"now\"},"
    " {\"type\": \"function\", \"function\": {\"name\": \"get\", \"parameters\": {\"properties\": "
    "{\"list\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"maxLength\": 3}}, "
    "\"on\": {\"type\": \"boolean\"}, \"x\": {\"type\": \"number\"}, \"deep\": {\"type\": "
    "\"object\", \"properties\": {\"k\": {\"type\": \"string\"}, \"n\": {\"type\": [\"null\", "
    "\"integer\"]}}, \"required\": [\"n\"]}}, \"required\": [\"on\", \"list\"], "
    "\"additionalProperties\": false}}}]";

static struct tft_chat_tools *open_tools(const char *json, const char *format)
{
    struct tft_chat_tools *t;
    struct tft_error err = {0};
    if (tft_chat_tools_open(&t, json, strlen(json), format, 0, &err) != TFT_OK)
        fail_msg("%s: %s", json, err.msg);
    return t;
}

/* ---- declarations */

static void declarations(void **state)
{
    static const struct {
        const char *json, *message;
        enum tft_status status;
    } rows[] = {
        {"[", "JSON: line 1, column 2: not a value", TFT_ERR_ARG},
        {"{}", "tools: not a list of tools, or an empty one", TFT_ERR_ARG},
        {"[]", "tools: not a list of tools, or an empty one", TFT_ERR_ARG},
        {"[1]", "tools: #/0: not an object", TFT_ERR_ARG},
        {"[{}]", "tools: #/0: has no name", TFT_ERR_ARG},
        {"[{\"function\": 1}]", "tools: #/0/function: not an object", TFT_ERR_ARG},
        {"[{\"function\": {\"name\": 1}}]", "tools: #/0/function/name: not a string", TFT_ERR_ARG},
        {"[{\"type\": \"web\", \"name\": \"a\"}]",
         "tools: #/0/type: only tools of the type function", TFT_ERR_UNSUPPORTED},
        {"[{\"name\": \"a b\"}]",
         "tools: #/0/name: a name has 1 to 64 characters of A-Z, a-z, 0-9, _ and -", TFT_ERR_ARG},
        {"[{\"name\": \"\"}]",
         "tools: #/0/name: a name has 1 to 64 characters of A-Z, a-z, 0-9, _ and -", TFT_ERR_ARG},
        {"[{\"name\": \"a\"}, {\"name\": \"b\"}, {\"function\": {\"name\": \"a\"}}]",
         "tools: #/2/function/name: another tool has this name", TFT_ERR_ARG},
        {"[{\"name\": \"a\", \"parameters\": []}]", "tools: #/0/parameters: not an object",
         TFT_ERR_ARG},
        {"[{\"name\": \"a\", \"parameters\": {\"properties\": {\"b\": {\"not\": {}}}}}]",
         "tools: #/0/parameters/properties/b/not: this keyword is not supported",
         TFT_ERR_UNSUPPORTED},
        {"[{\"name\": \"\xff\"}]", "tools: byte 11: not UTF-8", TFT_ERR_ARG},
    };
    struct tft_chat_tools *t;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_error err = {0};
        enum tft_status status =
            tft_chat_tools_open(&t, rows[i].json, strlen(rows[i].json), "hermes", 0, &err);
        assert_string_equal(err.msg, rows[i].message);
        assert_int_equal(status, rows[i].status);
        assert_null(t);
    }
    struct tft_error err = {0};
    assert_int_equal(tft_chat_tools_open(&t, three, strlen(three), "other", 0, &err), TFT_ERR_ARG);
    assert_int_equal(tft_chat_tools_open(&t, three, strlen(three), NULL, 2, &err), TFT_ERR_ARG);
    t = open_tools(three, NULL);
    assert_int_equal(tft_chat_tools_count(t), 3);
    assert_string_equal(tft_chat_tools_name(t, 2), "get");
    assert_null(tft_chat_tools_name(t, 3));
    tft_chat_tools_close(t);
    tft_chat_tools_close(NULL);
}

static void many_tools(void **state)
{
    char json[8192] = "[";
    struct tft_chat_tools *t;
    struct tft_error err = {0};
    (void)state;
    for (int i = 0; i < 129; i++) {
        size_t n = strlen(json);
        snprintf(json + n, sizeof json - n, "%s{\"name\": \"f%d\"}", i ? ", " : "", i);
        if (i == 127) {
            strcat(json, "]");
            t = open_tools(json, "hermes");
            assert_int_equal(tft_chat_tools_count(t), 128);
            tft_chat_tools_close(t);
            json[strlen(json) - 1] = 0;
        }
    }
    strcat(json, "]");
    assert_int_equal(tft_chat_tools_open(&t, json, strlen(json), "hermes", 0, &err), TFT_ERR_FULL);
    assert_string_equal(err.msg, "tools: more than 128 tools");
}

/* ---- formats */

static void formats_of_templates(void **state)
{
    static const struct {
        const char *source, *format;
    } rows[] = {
        {"{{ messages }}", "json"},
        {"{{ '<tool_call>\\n' }}", "hermes"},
        {"text <tool_call> text", "hermes"},
        {"{# <tool_call> #}", "json"},
        {"[TOOL_CALLS] [", "mistral"},
        {"{{ '[TOOL_CALLS]' + name + '[ARGS]' }}", "mistral-args"},
        {"{{ '\"parameters\": ' }}", "llama3"},
        {"{{ \"<|python_tag|>\" }}", "llama3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_template *t;
        assert_int_equal(tft_chat_open(&t, rows[i].source, strlen(rows[i].source), NULL), TFT_OK);
        assert_string_equal(tft_chat_call_format(t), rows[i].format);
        tft_chat_close(t);
    }
    /* a text finds where the mark begins anew by its first character */
    for (size_t i = 0; i < FORMATS; i++) {
        const struct call_format *f = tft_call_format(formats[i]);
        assert_non_null(f);
        assert_true(!f->mark[0] || !strchr(f->mark[0] + 1, *f->mark[0]));
        assert_true(f->at_start || strncmp(f->open, f->mark[0], strlen(f->mark[0])) == 0);
    }
}

/* ---- grammars */

static struct tft_grammar *compile(const struct tft_chat_tools *t, enum tft_chat_choice choice,
                                   const char *name, bool one)
{
    struct tft_chat_text text;
    struct tft_grammar *g;
    struct tft_error err = {0};
    if (tft_chat_tools_grammar(&text, t, NULL, choice, name, one, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    if (tft_grammar_open(&g, lexicon, TFT_GBNF, text.p, text.n, &err) != TFT_OK)
        fail_msg("%s\n%s", err.msg, text.p);
    tft_chat_text_free(&text);
    return g;
}

static bool accepts(const struct tft_grammar *g, const char *text)
{
    struct tft_grammar_state *s;
    bool does = true;
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    for (; *text && does; text++)
        does = tft_grammar_accept(s, FIRST_BYTE + (unsigned char)*text) == TFT_OK;
    does = does && tft_grammar_can_end(s);
    tft_grammar_end(s);
    return does;
}

#define PARIS "\"get_weather\", \"arguments\": {\"city\": \"Paris\"}"

static void grammar_of_hermes(void **state)
{
#define CALL(rest) "<tool_call>\n{\"name\": " rest "}\n</tool_call>"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations),
        cmocka_unit_test(many_tools),
        cmocka_unit_test(formats_of_templates),
        cmocka_unit_test(grammar_of_hermes),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
