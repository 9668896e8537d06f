/* Calls of tools: declarations, and the grammar and the reader of each format, which must agree. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "chat/call.h"
#include "chat/tuffet_chat.h"
#include "grammar/grammar.h"
#include "model/model.h"
#include "random.h"
#include "vocabs.h"

static const char *folder; /* tests/chat */
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

static const char *const formats[] = {"hermes", "qwen3.5", "lfm2", "gemma", "mistral-args",
                                      "mistral", "llama3", "json"};
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
        {"<tool_call>\n<function=", "qwen3.5"},
        {"{{ '<|tool_list_start|>[' }}", "lfm2"},
        {"<start_function_call>call:", "gemma"},
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

/* Strings stand without quotes in it, unless the value may be of another type. */
static void grammar_of_qwen(void **state)
{
#define PARAMETER(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"
#define F(a, b, c)                                                                                 \
    "<tool_call>\n<function=f>\n" PARAMETER("a", a) PARAMETER("b", b) PARAMETER("c", c)            \
        "</function>\n</tool_call>"
    static const char json[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"anyOf\": [{\"type\": "
        "\"string\", \"pattern\": \"^[a-c<\\\"]+$\"}, {\"type\": \"null\"}]}, \"b\": {\"type\": "
        "\"string\", \"maxLength\": 2}, \"c\": {\"type\": [\"string\", \"integer\"]}}, "
        "\"required\": [\"a\", \"b\", \"c\"], \"additionalProperties\": true}}]";
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {F("ab\"c", "\xc3\xa9\"", "\"x\""), true}, {F("a", "", "-12"), true},
        {F("a<", "", "1"), false},                   {F("null", "", "1"), false},
        {F("a", "abc", "1"), false},                 {F("a", "a<", "1"), false},
        {F("a", "b", "x"), false},                   {F("a", "b\n", "1"), true},
        {F("a", "b", "1" PARAMETER("d", "1")), false},
    };
    struct tft_chat_tools *t = open_tools(json, "qwen3.5");
    struct tft_grammar *g = compile(t, TFT_CHAT_AUTO, NULL, false);
    struct tft_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (accepts(g, rows[i].text) != rows[i].good)
            fail_msg("%s", rows[i].text);
    tft_grammar_close(g);
    tft_chat_tools_close(t);
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
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
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
    struct tft_chat_tools *t = open_tools(json, "lfm2");
    struct tft_grammar *g = compile(t, TFT_CHAT_AUTO, NULL, false);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (accepts(g, rows[i].text) != rows[i].good)
            fail_msg("%s", rows[i].text);
    tft_grammar_close(g);
    tft_chat_tools_close(t);
}

/* Strings stand between marks, names without quotes, and nothing between. */
static void grammar_of_gemma(void **state)
{
#define H(arguments) "<start_function_call>call:f{" arguments "}<end_function_call>"
#define S(text) "<escape>" text "<escape>"
    static const char json[] =
        "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": [\"null\", "
        "\"boolean\"]}, \"b\": {\"enum\": [null, [true, {\"k\": \"<x>\"}], \"x\"]}, \"c\": "
        "{\"type\": \"string\", \"maxLength\": 2}, \"d\": {}, \"e\": {\"prefixItems\": [{\"type\": "
        "\"integer\"}, {\"type\": \"string\"}], \"items\": {\"const\": 7}, \"minItems\": 2}}}}]";
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
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
    struct tft_chat_tools *t = open_tools(json, "gemma");
    struct tft_grammar *g = compile(t, TFT_CHAT_AUTO, NULL, false);
    struct tft_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (accepts(g, rows[i].text) != rows[i].good)
            fail_msg("%s", rows[i].text);
    tft_grammar_close(g);
    tft_chat_tools_close(t);
    assert_int_equal(tft_chat_tools_open(&t, odd, sizeof odd - 1, "gemma", 0, &err),
                     TFT_ERR_UNSUPPORTED);
}

/* ---- answers */

struct transcript {
    char p[8192]; /* [n] T text, C name of a call, A arguments, E end of a call; pieces joined */
    size_t n;
    char kind;
    size_t calls;
};

static void note(void *user, const struct tft_chat_event *e)
{
    static const char letters[] = "TCAE";
    struct transcript *t = user;
    char kind = letters[e->kind];
    assert_true(t->n + e->n + 8 < sizeof t->p);
    if (kind != t->kind || kind == 'C')
        t->n += (size_t)snprintf(t->p + t->n, 4, "%s%c:", t->n ? "|" : "", kind);
    for (size_t i = 0, len; i < e->n; i += len) { /* whole characters */
        uint32_t c;
        len = tft_utf8_next(e->p + i, e->n - i, &c);
        assert_true(c < TFT_UTF8_BAD);
    }
    assert_int_equal(e->index, t->calls);
    if (e->n)
        memcpy(t->p + t->n, e->p, e->n);
    t->n += e->n;
    t->p[t->n] = 0;
    t->kind = kind;
    t->calls += kind == 'E';
}

/* Reads text[n], cut into pieces of at most `most` bytes, 0: of random lengths. */
static enum tft_status read_answer(struct transcript *out, const struct tft_chat_tools *tools,
                                   const char *text, size_t n, size_t most)
{
    struct tft_chat_answer *a;
    struct tft_error err = {0};
    *out = (struct transcript){.n = 0};
    assert_int_equal(tft_chat_answer_open(&a, tools, false, note, out, NULL), TFT_OK);
    for (size_t i = 0, len; i < n; i += len) {
        len = most ? most : 1 + random_u32() % 9;
        len = len < n - i ? len : n - i;
        tft_chat_answer_push(a, text + i, len);
    }
    enum tft_status status = tft_chat_answer_end(a, &err);
    assert_int_equal(status, err.code);
    assert_true(status == TFT_OK || status == TFT_ERR_FORMAT);
    tft_chat_answer_close(a);
    return status;
}

struct answer_row {
    const char *format, *text, *events; /* events begin with ! if the answer is not of the format */
};

static void answers(void **state)
{
    static const struct answer_row rows[] = {
        {"hermes", "", ""},
        {"hermes", "Hello <b>you</b> <tool_calm> <<tool_call < \n",
         "T:Hello <b>you</b> <tool_calm> <<tool_call < \n"},
        {"hermes", "Hi. \n" CALL(PARIS) "\n" CALL("\"now\", \"arguments\": {}") "\n",
         "T:Hi.|C:get_weather|A:{\"city\": \"Paris\"}|E:|C:now|A:{}|E:"},
        {"hermes", CALL("\"now\", \"arguments\": {}") "\n more",
         "C:now|A:{}|E:|T:\n more"},
        {"hermes", " Hi. \n" CALL("\"now\", \"arguments\": {}") "more",
         "T: Hi.|C:now|A:{}|E:|T:more"},
        {"hermes", " <tool <tool_call>{\"name\": \"now\", \"arguments\": {\"a\": -0, \"b\": -01",
         "!T: <tool|C:now|A:{\"a\": -0, \"b\": -0"},
        /* other spacing */
        {"hermes",
         "<tool_call> { \"name\" :\"get\",\"arguments\":{\"list\":[ \"a\" ,\"\\u00e9\\n\"],"
         "\"x\":-1.5e+3}}</tool_call>",
         "C:get|A:{\"list\": [\"a\", \"\\u00e9\\n\"], \"x\": -1.5e+3}|E:"},
        {"hermes",
         CALL("\"get\", \"arguments\": {\"k\": \"\xc3\xa9\xf0\x9f\x98\x80</tool_call>\"}"),
         "C:get|A:{\"k\": \"\xc3\xa9\xf0\x9f\x98\x80</tool_call>\"}|E:"},
        {"hermes", CALL("\"get\", \"arguments\": {\"k\": \"\xc3\"}"),
         "C:get|A:{\"k\": \"\xef\xbf\xbd\"}|E:"},
        /* cut short, or not of the format */
        {"hermes", "<tool_ca", "T:<tool_ca"},
        {"hermes", "<tool_call>", "!"},
        {"hermes", "a<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par",
         "!T:a|C:get_weather|A:{\"city\": \"Par"},
        {"hermes", "<tool_call>\n{\"name\": \"later\", \"arguments\": {}}", "!"},
        {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": []}", "!C:now"},
        {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 01}}",
         "!C:now|A:{\"a\": 0"},
        {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": [1}}",
         "!C:now|A:{\"a\": [1"},
        {"hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n<tool_call>",
         "!C:now|A:{}|E:"},
#define QWEN(name, rest) "<tool_call>\n<function=" name ">\n" rest "</function>\n</tool_call>"
        {"qwen3.5",
         "Hi.\n" QWEN("get_weather", "<parameter=city>\nPa\"ris\\\n\n</b\n</parameter>\n"
                                     "<parameter=days>\n3\n</parameter>\n") "\n" QWEN("now", ""),
         "T:Hi.|C:get_weather|A:{\"city\": \"Pa\\\"ris\\\\\\n\\n</b\", \"days\": 3}|E:|C:now|A:{}|"
         "E:"},
        {"qwen3.5",
         QWEN("get", "<parameter=on>\nTrue\n</parameter><parameter=list>[\"a\", \"</parameter>\"]"
                     "</parameter>\n<parameter=deep>\n{\"n\": None}\n</parameter>\n"),
         "C:get|A:{\"on\": true, \"list\": [\"a\", \"</parameter>\"], \"deep\": {\"n\": null}}|"
         "E:"},
        {"qwen3.5", QWEN("get_weather", "<parameter=city>\n\n</parameter>\n<parameter=other>\n1\n"
                                        "</parameter>\n"),
         "C:get_weather|A:{\"city\": \"\", \"other\": \"1\"}|E:"},
        {"qwen3.5", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPa\n</para",
         "!C:get_weather|A:{\"city\": \"Pa"},
        {"qwen3.5", QWEN("get", "<parameter=on>\nyes\n</parameter>\n"), "!C:get|A:{\"on\": "},
#define LFM(calls) "<|tool_call_start|>[" calls "]<|tool_call_end|>"
        {"lfm2",
         LFM("get_weather(city=\"Pa\\\"r\\u00e9\", days = 3), now()") "Let me see.",
         "C:get_weather|A:{\"city\": \"Pa\\\"r\\u00e9\", \"days\": 3}|E:|C:now|A:{}|E:|T:Let me "
         "see."},
        {"lfm2",
         LFM("get(on=True, list=['a', 'say \"\\'\\xe9\\d\\n\n'], deep={'n': None, \"k\": ')'})"),
         "C:get|A:{\"on\": true, \"list\": [\"a\", \"say \\\"'\\u00e9\\\\d\\n\\n\"], \"deep\": "
         "{\"n\": null, \"k\": \")\"}}|E:"},
        {"lfm2", "<|tool_call_start|>[get(on=True, x=-1.5", "!C:get|A:{\"on\": true, \"x\": -1.5"},
        {"lfm2", LFM("get(on=yes)"), "!C:get|A:{\"on\": "},
        {"lfm2", LFM("get(on=True on=True)"), "!C:get|A:{\"on\": true"},
#define GEMMA(call) "<start_function_call>call:" call "<end_function_call>"
        {"gemma",
         GEMMA("get_weather{city:<escape>Pa\"r<es\n\n<escape>,days:3}") GEMMA("now{}"),
         "C:get_weather|A:{\"city\": \"Pa\\\"r<es\\n\\n\", \"days\": 3}|E:|C:now|A:{}|E:"},
        {"gemma",
         "Ok. " GEMMA("get{deep:{k:<escape>}{<escape>,n:null},list:[<escape>a<escape>,"
                      "<escape><escape>],on:true,x:-1.5}"),
         "T:Ok.|C:get|A:{\"deep\": {\"k\": \"}{\", \"n\": null}, \"list\": [\"a\", \"\"], "
         "\"on\": true, \"x\": -1.5}|E:"},
        {"gemma", "<start_function_call>call:get_weather{city:<escape>Par<esc",
         "!C:get_weather|A:{\"city\": \"Par"},
        {"gemma", GEMMA("get_weather{city:\"Paris\"}"), "!C:get_weather|A:{\"city\": "},
        {"mistral", "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}, {\"name\": " PARIS "}]",
         "C:now|A:{}|E:|C:get_weather|A:{\"city\": \"Paris\"}|E:"},
        {"mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}", "!C:now|A:{}|E:"},
        {"mistral-args", "ok[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get[ARGS]{\"on\": true}",
         "T:ok|C:now|A:{}|E:|C:get|A:{\"on\": true}|E:"},
        {"llama3", " \n<|python_tag|>{\"name\": \"now\", \"parameters\": {}}",
         "C:now|A:{}|E:"},
        {"llama3", "\n{\"name\": \"now\", \"parameters\": {}}", "C:now|A:{}|E:"},
        {"llama3", "<|python<|python_tag|>{\"name\":", "T:<|python<|python_tag|>{\"name\":"},
        {"llama3", " {\"a\": 1}", "!"},
        {"llama3", " a {", "T: a {"},
        {"json",
         "{\"tool_calls\": [{\"name\": \"now\", \"arguments\": {}}, {\"name\": " PARIS "}]}",
         "C:now|A:{}|E:|C:get_weather|A:{\"city\": \"Paris\"}|E:"},
        {"json", "  ", "T:  "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_tools *t = open_tools(three, rows[i].format);
        for (size_t most = 1; most < 80; most = most < 4 ? most + 1 : most * 4) {
            struct transcript got;
            enum tft_status status =
                read_answer(&got, t, rows[i].text, strlen(rows[i].text), most);
            bool bad = *rows[i].events == '!';
            assert_string_equal(got.p, rows[i].events + bad);
            assert_int_equal(status, bad ? TFT_ERR_FORMAT : TFT_OK);
        }
        tft_chat_tools_close(t);
    }
}

/* ---- grammar and reader agree */

/* Writes a random text of the grammar to out[n], NUL at its end. lure: texts that are often gone on
   with when they can come, so that the text gets to calls, and to the ends of strings. */
static size_t random_text(const struct tft_grammar *g, const char *const lure[2], char *out,
                          size_t room)
{
    static const char ends[] = "\"}])<'";
    struct tft_grammar_state *s;
    size_t n = 0, at[2] = {0};
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    for (;; n++) {
        uint32_t r = random_u32();
        unsigned char byte = 0, can[256];
        unsigned n_can = 0, k = at[0] ? 0 : r >> 4 & 1;
        if (tft_grammar_can_end(s) && (tft_grammar_is_done(s) || r % 16 == 0 || n > room / 2))
            break;
        for (int b = 1; b < 256; b++)
            if (tft_grammar_allows(s, FIRST_BYTE + b))
                can[n_can++] = (unsigned char)b;
        assert_true(n_can && n + 1 < room);
        k = n > room / 2 || at[1] ? 1 : k;
        if (r >> 8 & 3 || at[1])
            byte = (unsigned char)lure[k][at[k]];
        if (!byte || !tft_grammar_allows(s, FIRST_BYTE + byte))
            byte = (unsigned char)ends[r >> 10 & 1 || n > room / 2 ? (r >> 12) % 6 : 6];
        if (!byte || !tft_grammar_allows(s, FIRST_BYTE + byte))
            byte = can[(r >> 16) % n_can];
        for (k = 0; k < 2; k++)
            at[k] = byte == (unsigned char)lure[k][at[k]] && lure[k][at[k] + 1] ? at[k] + 1 : 0;
        assert_int_equal(tft_grammar_accept(s, FIRST_BYTE + byte), TFT_OK);
        out[n] = (char)byte;
    }
    out[n] = 0;
    tft_grammar_end(s);
    return n;
}

/* Whether arguments are valid by the schema of a tool. */
static bool is_valid(const char *tools, const char *name, size_t n_name, const char *arguments,
                     size_t n)
{
    struct jinja x = tft_schema_pool("test");
    static struct schema c;
    struct jinja_string s = {.p = arguments, .n = n};
    bool valid = false;
    c = (struct schema){.x = &x};
    struct jinja_value all = tft_schema_read_text(&x, tools, strlen(tools)),
                       v = tft_jinja_read_json(&x, &s);
    assert_int_equal(x.status, TFT_OK);
    assert_int_equal(v.kind, JINJA_DICT);
    const struct schema_place *list = tft_schema_place(&c, NULL, NULL, 0, all);
    for (size_t i = 0; i < all.list->n; i++) {
        const struct schema_place *tool = tft_schema_item(&c, list, i),
                                  *f = tft_schema_member(&c, tool, "function");
        f = f ? f : tool;
        const struct jinja_string *its = tft_schema_member(&c, f, "name")->v.string;
        const struct schema_place *p = tft_schema_member(&c, f, "parameters");
        c.root = p;
        if (its->n == n_name && memcmp(its->p, name, n_name) == 0)
            valid = p ? tft_schema_holds(&c, p, v) : v.dict->n == 0;
    }
    assert_int_equal(x.status, TFT_OK);
    tft_jinja_free(&x);
    return valid;
}

/* Checks the arguments of all calls in a transcript. Returns how many there are. */
static size_t check_calls(const char *p)
{
    size_t calls = 0;
    for (const char *c; (c = strstr(p, "C:")) != NULL && (c == p || c[-1] == '|'); calls++) {
        const char *name = c + 2, *a = strstr(name, "|A:"), *e = a ? strstr(a, "|E:") : NULL;
        assert_non_null(e);
        if (!is_valid(three, name, (size_t)(a - name), a + 3, (size_t)(e - a - 3)))
            fail_msg("%s", p);
        p = e + 3;
        p += *p == '|';
    }
    return calls;
}

static void random_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMATS; i++) {
        struct tft_chat_tools *t = open_tools(three, formats[i]);
        const struct call_format *f = t->format;
        const char *lure[2] = {f->mark[0] ? f->mark[0] : "{",
                               f->members.until  ? f->members.after
                               : !f->spelling    ? "\""
                               : f->spelling->mark ? f->spelling->mark
                                                   : "'"};
        struct tft_grammar *g[2] = {compile(t, TFT_CHAT_AUTO, NULL, false),
                                    compile(t, TFT_CHAT_REQUIRED, NULL, false)};
        size_t calls = 0;
        for (int k = 0; k < 120; k++) {
            static char text[4096];
            struct transcript whole, cut;
            size_t n = random_text(g[k % 2], lure, text, sizeof text);
            if (read_answer(&whole, t, text, n, n) != TFT_OK ||
                read_answer(&cut, t, text, n, 0) != TFT_OK)
                fail_msg("%s: %s\n%s", formats[i], text, whole.p);
            assert_string_equal(whole.p, cut.p);
            if (strncmp(whole.p, "T:", 2) == 0 && k % 2)
                fail_msg("%s", text);
            if (strncmp(whole.p, "T:", 2) != 0)
                calls += check_calls(whole.p);
            /* cut short: never more than was written, and an error in a call */
            if (whole.calls)
                read_answer(&cut, t, text, random_u32() % n, 0);
        }
        assert_in_range(calls, 60, 100000);
        tft_grammar_close(g[0]);
        tft_grammar_close(g[1]);
        tft_chat_tools_close(t);
    }
}

/* ---- special tokens */

/* Feeds a text to a grammar and to the reader: the names of tokens before first_byte as these
   tokens, all else as bytes. */
static void feed(const struct tft_model *m, size_t first_byte, struct tft_grammar_state *s,
                 struct tft_chat_answer *a, const char *text)
{
    for (size_t at = 0, n; text[at]; at += n) {
        size_t id = first_byte;
        const char *name = NULL;
        while (id-- > 2) {
            name = tft_token_text(m, (int32_t)id, true, &n);
            if (strncmp(text + at, name, n) == 0)
                break;
            name = NULL;
        }
        if (!name) {
            id = first_byte + (unsigned char)text[at];
            n = 1;
        }
        if (tft_grammar_accept(s, (int32_t)id) != TFT_OK)
            fail_msg("byte %d of %s", (int)at, text);
        assert_int_equal(tft_chat_answer_token(a, m, (int32_t)id), TFT_OK);
    }
}

static bool grammar_takes(const struct tft_grammar *g, const char *text, size_t first_byte)
{
    struct tft_grammar_state *s;
    bool does = true;
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    for (; *text && does; text++)
        does = tft_grammar_accept(s, (int32_t)(first_byte + (unsigned char)*text)) == TFT_OK;
    tft_grammar_end(s);
    return does;
}

/* A mark that is a special token is that token, and its name in other tokens is neither a mark nor
   text. A mark that every text may name is text. */
static void marks_are_special_tokens(void **state)
{
    static struct vocab v = {.model = "llama"};
    static const struct {
        const char *format, *text, *events;
        bool special;
    } rows[] = {
        {"lfm2", "Hi.<|tool_call_start|>[get_weather(city=\"\xc3\xa9\")]<|tool_call_end|>",
         "T:Hi.|C:get_weather|A:{\"city\": \"\xc3\xa9\"}|E:", true},
        {"gemma",
         "<start_function_call>call:get_weather{city:<escape>x<escape>}<end_function_call>",
         "C:get_weather|A:{\"city\": \"x\"}|E:", true},
        {"hermes", CALL(PARIS), "C:get_weather|A:{\"city\": \"Paris\"}|E:", false},
    };
    (void)state;
    v.n = 0;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<|tool_call_start|>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<|tool_call_end|>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<start_function_call>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<end_function_call>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<escape>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "<tool_call>", 0, TFT_TOKEN_USER);
    size_t first_byte = v.n;
    vocab_add_bytes(&v);
    struct tft_model m = {.tokenizer = open_vocab(&v)};
    struct tft_lexicon *lx;
    assert_int_equal(tft_lexicon_make(&lx, m.tokenizer, NULL, NULL), TFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_tools *t = open_tools(three, rows[i].format);
        struct tft_chat_text text;
        struct tft_grammar *g;
        struct tft_grammar_state *s;
        struct tft_chat_answer *a;
        struct transcript got = {.n = 0};
        struct tft_error err = {0};
        assert_int_equal(
            tft_chat_tools_grammar(&text, t, &m, TFT_CHAT_AUTO, NULL, false, NULL), TFT_OK);
        if (tft_grammar_open(&g, lx, TFT_GBNF, text.p, text.n, &err) != TFT_OK)
            fail_msg("%s\n%s", err.msg, text.p);
        assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
        assert_int_equal(tft_chat_answer_open(&a, t, false, note, &got, NULL), TFT_OK);
        feed(&m, first_byte, s, a, rows[i].text);
        assert_true(tft_grammar_can_end(s));
        assert_int_equal(tft_chat_answer_end(a, NULL), TFT_OK);
        assert_string_equal(got.p, rows[i].events);
        assert_int_equal(grammar_takes(g, t->format->mark[0], first_byte), !rows[i].special);
        tft_chat_answer_close(a);
        tft_grammar_end(s);
        tft_grammar_close(g);
        tft_chat_text_free(&text);
        tft_chat_tools_close(t);
    }
    tft_lexicon_close(lx);
    tft_tokenizer_close((struct tft_tokenizer *)m.tokenizer);
}

/* ---- calls that were made */

static char *read_template(const char *name, size_t *n)
{
    static char p[1 << 16];
    char path[4096];
    snprintf(path, sizeof path, "%s/templates/%s.jinja", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s cannot be read", path);
    *n = fread(p, 1, sizeof p, f);
    fclose(f);
    return p;
}

/* Renders a call and its result by a template of tests/chat/templates. */
static void render_call(struct tft_chat_text *out, const char *source, size_t n,
                        const char *arguments, bool read_arguments)
{
    char json[2048];
    struct tft_chat_template *t;
    struct tft_error err = {0};
    int len = snprintf(json, sizeof json,
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}, "
                       "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": "
                       "\"function\", \"id\": \"call12345\", \"function\": "
                       "{\"name\": \"get_weather\", "
                       "\"arguments\": %s}}]}, {\"role\": \"tool\", \"tool_call_id\": "
                       "\"call12345\", \"content\": \"sunny\"}]}",
                       arguments);
    struct tft_chat_input in = {.size = sizeof in, .json = json, .n_json = (size_t)len,
                                .bos = "<s>", .eos = "</s>", .has_time = true,
                                .read_arguments = read_arguments};
    if (tft_chat_open(&t, source, n, &err) != TFT_OK ||
        tft_chat_render(out, t, &in, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_chat_close(t);
}

/* How the templates of Qwen 3.5, LFM 2.5 and FunctionGemma write a call. */
#define CALLED "{% set f = messages[1].tool_calls[0].function %}"
static const char qwen[] =
    CALLED "{{ '<tool_call>\\n<function=' + f.name + '>\\n' }}"
           "{%- for name, v in f.arguments|items %}{{ '<parameter=' + name + '>\\n' }}"
           "{{- v | tojson if v is mapping or (v is sequence and v is not string) "
           "else v | string }}"
           "{{- '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}";
static const char lfm[] =
    CALLED "{% set ns = namespace(all=[]) %}{% for name, v in f.arguments.items() %}"
           "{% set v = \"'\" + v + \"'\" if v is string else v | string %}"
           "{% set ns.all = ns.all + [name + '=' + v] %}{% endfor %}"
           "{{ '<|tool_call_start|>[' + f.name + '(' + ns.all | join(', ') + "
           "')]<|tool_call_end|>' }}";
static const char gemma[] =
    CALLED "{{ '<start_function_call>call:' + f.name + '{' }}"
           "{% for name, v in f.arguments|dictsort %}"
           "{{ ',' if not loop.first }}{{ name }}:"
           "{{ '<escape>' + v + '<escape>' if v is string else v }}{% endfor %}"
           "{{ '}<end_function_call>' }}";

/* A client gives arguments as a string. The text is that of an object, in each template; the
   grammar of the template's format takes the call in it, and the reader finds it. */
static void calls_that_were_made(void **state)
{
    static const char object[] = "{\"city\": \"Z\xc3\xbcrich \\\"<b>\\\"\", \"days\": 3}",
                      string[] = "\"{\\\"city\\\": \\\"Z\xc3\xbcrich \\\\\\\"<b>\\\\\\\"\\\", "
                                 "\\\"days\\\": 3}\"";
    static const struct {
        const char *template, *source, *call; /* source: NULL, or the template itself */
        bool read; /* by the reader: the template of "inst" adds what no model writes */
    } rows[] = {
        {"qwen3.5", qwen,
         QWEN("get_weather", PARAMETER("city", "Z\xc3\xbcrich \"<b>\"") PARAMETER("days", "3")),
         true},
        {"lfm2", lfm, LFM("get_weather(city='Z\xc3\xbcrich \"<b>\"', days=3)"), true},
        {"gemma", gemma, GEMMA("get_weather{city:" S("Z\xc3\xbcrich \"<b>\"") ",days:3}"), true},
        {"think", NULL, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": %s}\n</tool_call>",
         true},
        {"header", NULL, "{\"name\": \"get_weather\", \"parameters\": %s}<|eot_id|>", true},
        {"inst", NULL,
         "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": %s, \"id\"", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_text a, b;
        struct tft_chat_template *t;
        char want[512];
        size_t n;
        const char *source = rows[i].source;
        n = source ? strlen(source) : 0;
        source = source ? source : read_template(rows[i].template, &n);
        render_call(&a, source, n, object, false);
        render_call(&b, source, n, string, true);
        assert_string_equal(a.p, b.p);
        snprintf(want, sizeof want, rows[i].call, object);
        char *call = strstr(a.p, want);
        if (!call)
            fail_msg("%s: %s", rows[i].template, a.p);
        assert_int_equal(tft_chat_open(&t, source, n, NULL), TFT_OK);
        if (rows[i].read) {
            struct tft_chat_tools *tools = open_tools(three, tft_chat_call_format(t));
            struct transcript got;
            struct tft_grammar *g = compile(tools, TFT_CHAT_REQUIRED, NULL, false);
            char *end = strstr(call, tools->format->at_start ? "<|eot_id|>" : "<|im_end|>");
            if (end)
                *end = 0;
            assert_int_equal(read_answer(&got, tools, call, strlen(call), 0), TFT_OK);
            assert_true(accepts(g, call));
            tft_grammar_close(g);
            snprintf(want, sizeof want, "C:get_weather|A:%s|E:", object);
            assert_string_equal(got.p, want);
            tft_chat_tools_close(tools);
        }
        tft_chat_close(t);
        tft_chat_text_free(&a);
        tft_chat_text_free(&b);
    }
}

/* What templates do with arguments that are both an object and a text. */
static void arguments_as_text(void **state)
{
    static const struct {
        const char *source, *arguments, *want;
    } rows[] = {
        {"{{ a }}", "\"{\\\"x\\\":1}\"", "{\"x\":1}"},
        {"{{ 'f(' + a + ')' }}", "\"{\\\"x\\\":1}\"", "f({\"x\":1})"},
        {"{{ a | string ~ '.' }}", "\"{\\\"x\\\":1}\"", "{\"x\":1}."},
        {"{{ a | tojson }}", "\"{\\\"x\\\":1}\"", "{\"x\": 1}"},
        {"{{ a is mapping }} {{ a.x }}", "\"{\\\"x\\\":1}\"", "True 1"},
        {"{% for k, v in a.items() %}{{ k }}={{ v }};{% endfor %}", "\"{\\\"x\\\":1}\"", "x=1;"},
        {"{{ [a] }}", "\"{\\\"x\\\":1}\"", "[{'x': 1}]"},
        /* no object: as it is */
        {"{{ a }}", "\"{\\\"x\\\":\"", "{\"x\":"},
        {"{{ a is string }}", "\"[1]\"", "True"},
        {"{{ a is string }}", "\"{} {}\"", "True"},
        {"{{ a is mapping }}", "\" {} \\n\"", "True"},
        {"{{ a }}", "{\"x\": 1}", "{'x': 1}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_chat_text text;
        char source[256];
        int n = snprintf(source, sizeof source, "{%% set a = messages[1].tool_calls[0].function."
                                                "arguments %%}%s", rows[i].source);
        render_call(&text, source, (size_t)n, rows[i].arguments, true);
        assert_string_equal(text.p, rows[i].want);
        tft_chat_text_free(&text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations),
        cmocka_unit_test(many_tools),
        cmocka_unit_test(formats_of_templates),
        cmocka_unit_test(grammar_of_hermes),
        cmocka_unit_test(grammar_of_qwen),
        cmocka_unit_test(grammar_of_lfm),
        cmocka_unit_test(grammar_of_gemma),
        cmocka_unit_test(answers),
        cmocka_unit_test(random_answers),
        cmocka_unit_test(marks_are_special_tokens),
        cmocka_unit_test(calls_that_were_made),
        cmocka_unit_test(arguments_as_text),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
