/* Tools that a program declares, the formats of templates, and calls that were made. */
#include "test.h"

#include "calls.h"

static const char *folder; /* tests/chat */

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
        {"[{\"name\": \"a\", \"parameters\": {\"properties\": {\"b\": {\"contains\": {}}}}}]",
         "tools: #/0/parameters/properties/b/contains: this keyword is not supported",
         TFT_ERR_UNSUPPORTED},
        {"[{\"name\": \"a\", \"input_schema\": {}}]",
         "tools: #/0/input_schema: the schema of arguments is `parameters`", TFT_ERR_UNSUPPORTED},
        {"[{\"function\": {\"name\": \"a\", \"inputSchema\": {}}}]",
         "tools: #/0/function/inputSchema: the schema of arguments is `parameters`",
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
        {"[TOOL_CALLS]{{ name }}[CALL_ID]{{ id }}[ARGS]", "mistral-id"},
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
        bool read; /* by the reader: the template of "inst" adds text that no model writes */
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

/* Templates with arguments that are both an object and a text. */
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

static void objects(void **state)
{
    (void)state;
    static const char *const yes[] = {"{}", " {\"a\": [1, {\"b\": null}]} \n", "\r\n{}\r\n"},
                             *const no[] = {"",      "[1]",     "{", "{}}",
                                            "{} {}", "{\"a\"}", "1", "{\xff}"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(tft_chat_is_object(yes[i], strlen(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(tft_chat_is_object(no[i], strlen(no[i])));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations),         cmocka_unit_test(many_tools),
        cmocka_unit_test(formats_of_templates), cmocka_unit_test(calls_that_were_made),
        cmocka_unit_test(arguments_as_text),    cmocka_unit_test(objects),
    };
    folder = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
