/* The reader of answers that call tools. It agrees with the grammar. */
#include "test.h"

#include "calls.h"

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
        {"mistral-id", "[TOOL_CALLS]now[CALL_ID]0a1B2c3D4[ARGS]{}[TOOL_CALLS]get[CALL_ID]x[ARGS]{}",
         "C:now|A:{}|E:|C:get|A:{}|E:"},
        {"mistral-id", "[TOOL_CALLS]now[CALL_ID]0a1.[ARGS]{}", "!C:now"},
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

/* An answer that is calls, or all of it text of a form. */
static void answers_or_a_form(void **state)
{
    static const struct {
        const char *format, *text, *events;
    } rows[] = {
        {"hermes", CALL("\"now\", \"arguments\": {}"), "C:now|A:{}|E:"},
        {"hermes", "\n" CALL(PARIS) "\n" CALL("\"now\", \"arguments\": {}"),
         "C:get_weather|A:{\"city\": \"Paris\"}|E:|C:now|A:{}|E:"},
        {"hermes", "{\"s\": \"" CALL("x") "\"}", "T:{\"s\": \"" CALL("x") "\"}"},
        {"hermes", " <tool_shed> ", "T: <tool_shed> "},
        {"hermes", CALL("\"later\", \"arguments\": {}"), "T:" CALL("\"later\", \"arguments\": {}")},
        {"json", "{\"tool_calls\": [{\"name\": \"now\", \"arguments\": {}}]}", "C:now|A:{}|E:"},
        {"json", "{\"tool\": 1}", "T:{\"tool\": 1}"},
        {"json", "{\"tool_calls\": [", "T:{\"tool_calls\": ["},
        {"json", " {\"n\": true} ", "T: {\"n\": true} "},
        {"llama3", "{\"name\": \"now\", \"parameters\": {}}", "C:now|A:{}|E:"},
        {"llama3", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "C:now|A:{}|E:"},
        {"llama3", "{\"name\": \"now\", \"age\": 3}", "T:{\"name\": \"now\", \"age\": 3}"},
        {"llama3", "{\"name\": \"Bob\"}", "T:{\"name\": \"Bob\"}"},
        {"llama3", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t most = 1; most < 9; most++) {
            struct tft_chat_tools *t = open_tools(three, rows[i].format);
            struct transcript got = {.n = 0};
            struct tft_chat_answer *a;
            size_t n = strlen(rows[i].text);
            assert_int_equal(tft_chat_answer_open(&a, t, false, note, &got, NULL), TFT_OK);
            tft_chat_answer_or_form(a);
            for (size_t at = 0; at < n; at += most)
                tft_chat_answer_push(a, rows[i].text + at, most < n - at ? most : n - at);
            assert_int_equal(tft_chat_answer_end(a, NULL), TFT_OK);
            assert_string_equal(got.p, rows[i].events);
            tft_chat_answer_close(a);
            tft_chat_tools_close(t);
        }
    /* more white space than waits is text */
    struct tft_chat_tools *t = open_tools(three, "json");
    struct transcript got = {.n = 0};
    struct tft_chat_answer *a;
    char many[600];
    memset(many, ' ', sizeof many);
    assert_int_equal(tft_chat_answer_open(&a, t, false, note, &got, NULL), TFT_OK);
    tft_chat_answer_or_form(a);
    assert_int_equal(tft_chat_answer_push(a, many, sizeof many), TFT_OK);
    assert_int_equal(tft_chat_answer_end(a, NULL), TFT_OK);
    assert_int_equal(got.n, 2 + sizeof many);
    tft_chat_answer_close(a);
    tft_chat_tools_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(random_answers),
        cmocka_unit_test(answers_or_a_form),
        cmocka_unit_test(marks_are_special_tokens),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
