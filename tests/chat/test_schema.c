/* JSON Schema as grammars: which texts they accept. test_schema_refused.c has the others. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <string.h>

#include "byte_lexicon.h"
#include "chat/tuffet_chat.h"
#include "grammar/automaton.h"
#include "random.h"

static struct tft_grammar *compile(const char *schema, unsigned flags)
{
    struct tft_chat_text text;
    struct tft_grammar *g;
    struct tft_error err = {0};
    if (tft_chat_schema(&text, schema, strlen(schema), flags, &err) != TFT_OK)
        fail_msg("%s: %s", schema, err.msg);
    if (tft_grammar_open(&g, lexicon, TFT_GBNF, text.p, text.n, &err) != TFT_OK)
        fail_msg("%s: %s\n%s", schema, err.msg, text.p);
    tft_chat_text_free(&text);
    return g;
}

struct row {
    const char *schema, *yes[8], *no[10];
};

static void check(const struct row *rows, size_t n, unsigned flags)
{
    for (size_t i = 0; i < n; i++) {
        struct tft_grammar *g = compile(rows[i].schema, flags);
        for (size_t k = 0; k < 8 && rows[i].yes[k]; k++)
            if (!accepts(g, rows[i].yes[k]))
                fail_msg("%s rejects %s", rows[i].schema, rows[i].yes[k]);
        for (size_t k = 0; k < 10 && rows[i].no[k]; k++)
            if (accepts(g, rows[i].no[k]))
                fail_msg("%s accepts %s", rows[i].schema, rows[i].no[k]);
        tft_grammar_close(g);
    }
}
#define CHECK(rows, flags) check(rows, sizeof rows / sizeof *rows, flags)

static void types_and_constants(void **state)
{
    static const struct row rows[] = {
        {"true",
         {"null", "[1, {\"a\": \"b\"}, -0.5e+10]", "\"\\n\\u0001\\\\\""},
         {"", "nul", "[1,2]", "\"\\u0000\"", "\"\\u0041\"", "\"\\u000a\"", "\"\n\"", "01", "+1",
          "[1, ]"}},
        {"{\"type\": \"null\"}", {"null"}, {"0", "false"}},
        {"{\"type\": \"boolean\"}", {"true", "false"}, {"null", "1"}},
        {"{\"type\": [\"integer\", \"null\"]}", {"0", "-12", "null"}, {"1.5", "-0", "01", "1e3"}},
        {"{\"type\": \"number\"}", {"0", "-1.25", "1e-10"}, {"1.", ".5", "1e", "\"1\"", "1e100"}},
        {"{\"type\": \"string\", \"nullable\": true}", {"\"\"", "null", "\"\xc3\xa9\""}, {"1"}},
        {"{\"enum\": [1, \"a\\\"\\n\", null, [1, {\"b\": 2}], true]}",
         {"1", "\"a\\\"\\n\"", "null", "[1, {\"b\": 2}]", "true"},
         {"2", "\"a\"", "false", "[1]"}},
        {"{\"const\": {\"a\": [0.5, -1]}}", {"{\"a\": [0.5, -1]}"}, {"{}", "{\"a\": [0.5]}"}},
        {"{\"type\": \"string\", \"enum\": [\"a\", 1, \"bcd\"], \"maxLength\": 2}",
         {"\"a\""},
         {"1", "\"bcd\""}},
        {"{\"enum\": [1, true, 0, false], \"const\": 1}", {"1"}, {"true", "0"}},
        {"{\"enum\": [1, 5, 9, 2.5], \"minimum\": 2, \"exclusiveMaximum\": 9}",
         {"5", "2.5"},
         {"1", "9"}},
        {"{\"enum\": [{\"a\": 1}, {\"a\": \"x\"}, {}], \"properties\": {\"a\": {\"type\": "
         "\"integer\"}}, \"required\": [\"a\"]}",
         {"{\"a\": 1}"},
         {"{\"a\": \"x\"}", "{}"}},
        {"{\"type\": [\"string\", \"boolean\"], \"title\": \"t\", \"description\": \"d\", "
         "\"default\": 5, \"examples\": [], \"$schema\": \"x\"}",
         {"true", "\"x\""},
         {"5"}},
        {"{}", {"{}", "[]", "1.5"}, {"x"}},
    };
    (void)state;
    CHECK(rows, 0);
}

/* Equality is that of JSON: 1 is 1.0, and is not true; members have no order. The constant of the
   part that is read first is written. */
static void constants_that_meet(void **state)
{
    static const struct row rows[] = {
        {"{\"enum\": [1, 2, 3], \"allOf\": [{\"enum\": [1.0, 2.5, 3e0]}]}",
         {"1.0", "3.0"},
         {"2", "2.5"}},
        {"{\"enum\": [1.0, 2.5, 4.0], \"allOf\": [{\"enum\": [1, 2, 3, true]}]}",
         {"1"},
         {"2", "2.5", "3", "4.0", "true"}},
        {"{\"enum\": [1.0, 1.5, -2.0], \"type\": \"integer\"}", {"1.0", "-2.0"}, {"1.5"}},
        {"{\"enum\": [[1, 2], [1], [2, 1], [1, 2, 3]], \"allOf\": [{\"const\": [1.0, 2]}]}",
         {"[1.0, 2]"},
         {"[1]", "[2, 1]", "[1, 2, 3]"}},
        {"{\"enum\": [[1], [1, 2, 3], 5], \"allOf\": [{\"enum\": [[1, 2], 5]}]}",
         {"5"},
         {"[1]", "[1, 2]", "[1, 2, 3]"}},
        {"{\"enum\": [{\"a\": 1, \"b\": 2}, {\"a\": 1}, {\"a\": 1, \"b\": 3}, {\"a\": 1, \"c\": "
         "2}, [1, 2], 5], \"allOf\": [{\"const\": {\"b\": 2, \"a\": 1}}]}",
         {"{\"b\": 2, \"a\": 1}"},
         {"{\"a\": 1}", "{\"a\": 1, \"b\": 3}", "{\"a\": 1, \"c\": 2}", "[1, 2]", "5"}},
        {"{\"enum\": [[1, 2], [3, \"x\"], [], [1, 2, 3]], \"items\": {\"type\": \"integer\"}, "
         "\"minItems\": 1, \"maxItems\": 2}",
         {"[1, 2]"},
         {"[3, \"x\"]", "[]", "[1, 2, 3]"}},
        {"{\"enum\": [[1, \"x\"], [1, 2], [\"x\", \"x\"], [1]], \"prefixItems\": [{\"type\": "
         "\"integer\"}], \"items\": {\"type\": \"string\"}}",
         {"[1, \"x\"]", "[1]"},
         {"[1, 2]", "[\"x\", \"x\"]"}},
        {"{\"enum\": [\"\", \"a\", \"ab\", \"abc\"], \"minLength\": 1, \"maxLength\": 2}",
         {"\"a\"", "\"ab\""},
         {"\"\"", "\"abc\""}},
        {"{\"enum\": [{}, {\"a\": 1}, {\"a\": 1, \"b\": 1}, {\"b\": \"x\"}], \"minProperties\": 1, "
         "\"maxProperties\": 1, \"additionalProperties\": {\"type\": \"integer\"}}",
         {"{\"a\": 1}"},
         {"{}", "{\"a\": 1, \"b\": 1}", "{\"b\": \"x\"}"}},
        {"{\"enum\": [1, 2, 3, \"x\"], \"anyOf\": [{\"type\": \"string\"}, {\"minimum\": 2}], "
         "\"oneOf\": [{\"maximum\": 2}, {\"enum\": [2, 3]}]}",
         {"3", "\"x\""},
         {"1", "2"}},
    };
    (void)state;
    CHECK(rows, 0);
}

static void numbers(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"integer\", \"minimum\": 3, \"maximum\": 1207}",
         {"3", "9", "10", "99", "100", "1200", "1207"},
         {"2", "0", "1208", "1210", "1300", "2000", "03", "-3", "12070"}},
        {"{\"type\": \"integer\", \"minimum\": -105, \"exclusiveMaximum\": 17}",
         {"-105", "-99", "-1", "0", "16", "9"},
         {"-106", "17", "-0", "20", "-200", "100"}},
        {"{\"type\": \"integer\", \"maximum\": -8}",
         {"-8", "-10", "-999999999999999"},
         {"-7", "0", "8", "-1000000000000000"}},
        {"{\"type\": \"integer\", \"exclusiveMinimum\": 2.5}",
         {"3", "999999999999999"},
         {"2", "-3"}},
        {"{\"type\": \"integer\", \"minimum\": 100000000000000000}",
         {"100000000000000000", "999999999999999999"},
         {"99999999999999999"}},
        {"{\"type\": \"integer\", \"minimum\": -1.5, \"maximum\": 0.5}", {"-1", "0"}, {"-2", "1"}},
        {"{\"type\": \"number\", \"minimum\": 0}",
         {"0", "0.0", "12.75"},
         {"-1", "-0.1", "1e3", "-0"}},
        {"{\"type\": \"number\", \"exclusiveMinimum\": 0.25, \"maximum\": 10.5}",
         {"0.26", "0.250001", "0.3", "1", "9.999", "10", "10.5", "10.50"},
         {"0.25", "0.250", "0.2", "0", "10.51", "10.6", "11", "-5"}},
        {"{\"type\": \"number\", \"minimum\": -2.5, \"exclusiveMaximum\": -0.5}",
         {"-2.5", "-1", "-0.51", "-2.49"},
         {"-0.5", "-2.51", "0", "1", "-0.50", "-3"}},
        {"{\"type\": \"number\", \"minimum\": -1, \"exclusiveMaximum\": 0}",
         {"-1", "-0.1", "-1.0"},
         {"0", "-0", "-0.0", "-1.1"}},
        {"{\"type\": \"number\", \"minimum\": 1.25, \"maximum\": 1.5}",
         {"1.25", "1.3", "1.500"},
         {"1", "1.2", "1.24", "1.51", "1.6", "2", "1.2500000000000001"}},
        {"{\"type\": \"number\", \"minimum\": 1e2, \"maximum\": 1.5e2, \"exclusiveMinimum\": 100}",
         {"100.1", "150", "101"},
         {"100", "100.0", "150.1"}},
        {"{\"type\": \"number\", \"minimum\": -0.0, \"maximum\": 1e-15}",
         {"0", "0.0", "0.000000000000001"},
         {"-1", "-0.1", "-0", "-0.0", "0.000000000000002", "0.1", "1"}},
        {"{\"type\": \"number\", \"minimum\": 0.95, \"maximum\": 1}",
         {"0.95", "0.951", "1"},
         {"0.94", "0.5", "1.1"}},
        {"{\"minimum\": 5, \"maximum\": 6}", {"5", "6", "\"x\"", "null", "5.5"}, {"4", "7"}},
    };
    (void)state;
    CHECK(rows, 0);
}

static void strings(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
         {"\"ab\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\\n\\\"\""},
         {"\"a\"", "\"abcd\"", "\"\""}},
        {"{\"type\": \"string\", \"pattern\": \"^[a-c]+\\\\d{2}$\"}",
         {"\"a12\"", "\"abc00\""},
         {"\"12\"", "\"a1\"", "\"a123\"", "\"xa12\""}},
        {"{\"type\": \"string\", \"pattern\": \"b+\"}",
         {"\"b\"", "\"abba\"", "\"x\\nb\""},
         {"\"a\"", "\"\""}},
        {"{\"type\": \"string\", \"pattern\": \"^a|b$\"}",
         {"\"ax\"", "\"xb\"", "\"a\""},
         {"\"xa\"", "\"bx\""}},
        {"{\"type\": \"string\", \"pattern\": \"^[^a]$\"}",
         {"\"b\"", "\"\\n\"", "\"\\\"\"", "\"\\\\\"", "\"\\u0001\"", "\"\xe2\x82\xac\""},
         {"\"a\"", "\"\"", "\"bb\"", "\"\\u0000\""}},
        {"{\"type\": \"string\", \"pattern\": \"^.\\\\s\\\\S$\"}",
         {"\"a b\"", "\"x\\t\\\"\""},
         {"\"\\n b\"", "\"abb\"", "\"a  \""}},
        {"{\"type\": \"string\", \"pattern\": \"^(?:(x|yz)\\\\.)*?\\\\u0041\\\\/$\"}",
         {"\"A/\"", "\"x.yz.A/\""},
         {"\"x.\"", "\"y.A/\""}},
        {"{\"type\": \"string\", \"pattern\": \"^[a-z]*$\", \"minLength\": 2, \"maxLength\": 3}",
         {"\"ab\"", "\"abc\""},
         {"\"a\"", "\"abcd\"", "\"AB\""}},
        {"{\"type\": \"string\", \"format\": \"date\"}",
         {"\"2024-02-29\"", "\"2000-02-29\"", "\"0001-12-31\"", "\"1999-04-30\""},
         {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-13-01\"", "\"2024-1-1\"",
          "\"0000-01-01\""}},
        {"{\"type\": \"string\", \"format\": \"date-time\"}",
         {"\"2024-02-29T23:59:59Z\"", "\"2024-02-28T00:00:00.5+05:30\""},
         {"\"2024-02-29 23:59:59Z\"", "\"2024-02-29T24:00:00Z\"", "\"2024-02-29T23:59:59\""}},
        {"{\"type\": \"string\", \"format\": \"ipv4\"}",
         {"\"0.0.0.0\"", "\"255.249.199.9\""},
         {"\"256.0.0.0\"", "\"1.2.3\"", "\"01.2.3.4\""}},
        {"{\"type\": \"string\", \"format\": \"uuid\"}",
         {"\"123e4567-e89b-12d3-a456-426614174000\""},
         {"\"123e4567e89b12d3a456426614174000\""}},
        {"{\"type\": \"string\", \"format\": \"email\"}",
         {"\"a.b+c@example.org\""},
         {"\"a@b\"", "\"@b.org\"", "\"a.@b.org\""}},
    };
    (void)state;
    CHECK(rows, 0);
}

static void arrays(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"minItems\": 1, "
         "\"maxItems\": 3}",
         {"[1]", "[1, 2]", "[1, 2, 3]"},
         {"[]", "[1, 2, 3, 4]", "[\"a\"]", "[1,2]", "[ 1]"}},
        {"{\"type\": \"array\", \"maxItems\": 0}", {"[]"}, {"[1]"}},
        {"{\"type\": \"array\", \"items\": false}", {"[]"}, {"[1]"}},
        {"{\"type\": \"array\", \"maxItems\": 1}", {"[]", "[[]]"}, {"[1, 2]"}},
        {"{\"type\": \"array\", \"minItems\": 2}", {"[1, 2]", "[1, 2, 3]"}, {"[]", "[1]"}},
        {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": \"b\"}]}",
         {"[]", "[1]", "[1, \"b\"]"},
         {"[\"b\"]", "[1, \"b\", 2]", "[1, 1]"}},
        {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"items\": "
         "{\"const\": 3}, \"minItems\": 2, \"maxItems\": 4}",
         {"[1, 2]", "[1, 2, 3]", "[1, 2, 3, 3]"},
         {"[1]", "[1, 2, 3, 3, 3]", "[1, 3]"}},
        {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}], \"minItems\": 2}",
         {"[1, null]"},
         {"[1]", "[1, 2, 3]"}},
        {"{\"type\": \"array\", \"prefixItems\": [{\"const\": 1}, {\"const\": 2}], \"maxItems\": "
         "1}",
         {"[]", "[1]"},
         {"[1, 2]"}},
        {"{\"type\": \"array\", \"items\": {\"const\": 0}, \"uniqueItems\": false}",
         {"[0, 0]"},
         {"0"}},
    };
    (void)state;
    CHECK(rows, 0);
}

static void objects(void **state)
{
#define ABC "\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}, \"c\": {\"const\": 3}}"
    static const struct row rows[] = {
        {"{\"type\": \"object\", " ABC ", \"required\": [\"b\"]}",
         {"{\"b\": 2}", "{\"a\": 1, \"b\": 2}", "{\"a\": 1, \"b\": 2, \"c\": 3}",
          "{\"b\": 2, \"c\": 3}"},
         {"{}", "{\"a\": 1}", "{\"b\": 2, \"a\": 1}", "{\"b\": 1}", "{\"b\": 2, \"d\": 1}",
          "{\"b\":2}", "{\"b\": 2, }", "{, \"b\": 2}"}},
        {"{\"type\": \"object\", " ABC "}",
         {"{}", "{\"c\": 3}", "{\"a\": 1, \"c\": 3}"},
         {"{\"c\": 3, \"a\": 1}", "{\"x\": 1}"}},
        {"{\"type\": \"object\", " ABC
         ", \"required\": [\"c\"], \"additionalProperties\": {\"const\": "
         "0}}",
         {"{\"c\": 3}", "{\"c\": 3, \"d\": 0}", "{\"a\": 1, \"c\": 3, \"\": 0, \"aa\": 0}"},
         {"{\"d\": 0}", "{\"c\": 3, \"a\": 0}", "{\"c\": 3, \"d\": 1}", "{\"d\": 0, \"c\": 3}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\\\"\": {\"const\": 1}, \"a\": {\"const\": "
         "2}, "
         "\"\xc3\xa9\\n\": {\"const\": 3}}, \"additionalProperties\": {\"const\": 0}}",
         {"{\"a\\\"\": 1}", "{\"\xc3\xa9\\n\": 3}", "{\"a\\\\\": 0}", "{\"a\\\"b\": 0}",
          "{\"\xc3\xa9\": 0}", "{\"\xc3\xa9\\t\": 0}", "{\"\xc3\xa8\": 0}"},
         {"{\"a\\\"\": 0}", "{\"a\": 0}", "{\"\xc3\xa9\\n\": 0}"}},
        {"{\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}, "
         "\"minProperties\": 1, "
         "\"maxProperties\": 2}",
         {"{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
         {"{}", "{\"a\": 1, \"b\": 2, \"c\": 3}", "{\"a\": null}"}},
        /* U+0122 ends in the code of a quote; a space is no control character */
        {"{\"type\": \"object\", \"properties\": {\"\xc4\xa2\": {\"const\": 1}, \" a\": "
         "{\"const\": "
         "2}}, \"additionalProperties\": {\"const\": 0}}",
         {"{\"\xc4\xa2\": 1}", "{\"\xc4\xa2y\": 0}", "{\" a\": 2}", "{\" b\": 0, \" \": 0}"},
         {"{\"\xc4\xa2\": 0}", "{\" a\": 0}"}},
        {"{\"type\": \"object\", " ABC ", \"minProperties\": 2}",
         {"{\"a\": 1, \"b\": 2}", "{\"a\": 1, \"c\": 3}", "{\"b\": 2, \"c\": 3}",
          "{\"a\": 1, \"b\": 2, \"c\": 3}"},
         {"{}", "{\"a\": 1}", "{\"c\": 3}"}},
        {"{\"type\": \"object\", " ABC ", \"maxProperties\": 1}",
         {"{}", "{\"c\": 3}"},
         {"{\"a\": 1, \"b\": 2}"}},
        {"{\"type\": \"object\", " ABC ", \"required\": [\"a\"], \"maxProperties\": 2, "
         "\"additionalProperties\": {\"const\": 0}}",
         {"{\"a\": 1}", "{\"a\": 1, \"x\": 0}", "{\"a\": 1, \"c\": 3}"},
         {"{\"a\": 1, \"c\": 3, \"x\": 0}", "{\"a\": 1, \"x\": 0, \"y\": 0}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": false, \"b\": {\"const\": 2}}}",
         {"{}", "{\"b\": 2}"},
         {"{\"a\": 1}"}},
        {"{\"type\": \"object\", \"required\": [\"z\", \"y\"]}",
         {"{\"z\": 1, \"y\": [2]}"},
         {"{}", "{\"y\": 1, \"z\": 2}", "{\"z\": 1, \"y\": 2, \"x\": 3}"}},
        {"{\"type\": \"object\"}", {"{}", "{\"x\": 1, \"y\": {}}"}, {"[]"}},
        {"{\"type\": \"object\", \"additionalProperties\": false}", {"{}"}, {"{\"x\": 1}"}},
    };
    (void)state;
    CHECK(rows, 0);
}

static void objects_in_any_order(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"object\", " ABC ", \"required\": [\"b\"]}",
         {"{\"b\": 2}", "{\"b\": 2, \"a\": 1}", "{\"c\": 3, \"b\": 2, \"a\": 1}"},
         {"{}", "{\"a\": 1}", "{\"b\": 2, \"b\": 2}", "{\"b\": 2, \"x\": 0}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, \"required\": [\"a\"], "
         "\"additionalProperties\": {\"const\": 0}}",
         {"{\"x\": 0, \"a\": 1, \"y\": 0}", "{\"a\": 1}"},
         {"{\"x\": 0}", "{\"a\": 0}", "{, \"a\": 1}"}},
        {"{\"type\": \"object\", " ABC ", \"minProperties\": 2}",
         {"{\"b\": 2, \"a\": 1}", "{\"c\": 3, \"b\": 2, \"a\": 1}"},
         {"{}", "{\"a\": 1}"}},
        {"{\"type\": \"object\", " ABC ", \"maxProperties\": 2}",
         {"{}", "{\"b\": 2, \"a\": 1}"},
         {"{\"c\": 3, \"b\": 2, \"a\": 1}"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, \"required\": [\"a\"], "
         "\"additionalProperties\": true, \"minProperties\": 1}",
         {"{\"a\": 1}", "{\"x\": 0, \"a\": 1}"},
         {"{\"x\": 0}"}},
    };
    /* where names may come twice, they cannot be counted */
    static const char *const counted[] = {
        "{\"type\": \"object\", \"properties\": {\"a\": true}, \"additionalProperties\": true, "
        "\"minProperties\": 1}",
        "{\"type\": \"object\", \"properties\": {\"a\": true}, \"additionalProperties\": true, "
        "\"maxProperties\": 1}"};
    (void)state;
    CHECK(rows, TFT_SCHEMA_ANY_ORDER);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        struct tft_chat_text text;
        struct tft_error err;
        assert_int_equal(
            tft_chat_schema(&text, counted[i], strlen(counted[i]), TFT_SCHEMA_ANY_ORDER, &err),
            TFT_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "names that are not listed and may be equal"));
    }
}

static void choices_and_references(void **state)
{
    static const struct row rows[] = {
        {"{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\", \"maxLength\": 1}, false]}",
         {"1", "\"a\""},
         {"null", "\"ab\""}},
        {"{\"type\": \"integer\", \"anyOf\": [{\"minimum\": 10}, {\"maximum\": 2}]}",
         {"10", "2", "-5"},
         {"5", "\"a\""}},
        {"{\"oneOf\": [{\"type\": \"integer\", \"maximum\": 2}, {\"type\": \"integer\", "
         "\"minimum\": "
         "3}]}",
         {"2", "3"},
         {"2.5"}},
        {"{\"oneOf\": [{\"properties\": {\"k\": {\"const\": \"a\"}, \"x\": {\"type\": \"null\"}}, "
         "\"required\": [\"k\"], \"type\": \"object\"}, {\"properties\": {\"k\": {\"const\": "
         "\"b\"}}, "
         "\"required\": [\"k\"], \"type\": \"object\"}]}",
         {"{\"k\": \"a\"}", "{\"k\": \"b\"}", "{\"k\": \"a\", \"x\": null}"},
         {"{\"k\": \"c\"}", "{\"k\": \"b\", \"x\": null}"}},
        {"{\"type\": \"object\", \"oneOf\": [{\"properties\": {\"a\": {\"const\": 1}}, "
         "\"required\": "
         "[\"a\"]}, {\"properties\": {\"b\": {\"const\": 2}}, \"required\": [\"b\"]}]}",
         {"{\"a\": 1}", "{\"b\": 2}"},
         {"{}", "{\"a\": 1, \"b\": 2}"}},
        {"{\"oneOf\": [{\"minimum\": 2}, {\"maximum\": 4}], \"enum\": [1, 3, 5]}",
         {"1", "5"},
         {"3"}},
        {"{\"allOf\": [{\"type\": [\"integer\", \"string\"]}, {\"minimum\": 3, \"type\": "
         "\"number\"}], "
         "\"maximum\": 5}",
         {"3", "5"},
         {"2", "6", "3.5", "\"a\""}},
        {"{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}}, {\"properties\": "
         "{\"a\": "
         "{\"minimum\": 7}, \"b\": {\"const\": 0}}, \"required\": [\"a\"]}], \"type\": \"object\"}",
         {"{\"a\": 7}", "{\"a\": 8, \"b\": 0}"},
         {"{\"a\": 6}", "{}", "{\"a\": 7.5}"}},
        {"{\"allOf\": [{\"properties\": {\"a\": {\"const\": 1}}, \"additionalProperties\": false}, "
         "{\"properties\": {\"b\": {\"const\": 2}}}], \"type\": \"object\"}",
         {"{}", "{\"a\": 1}"},
         {"{\"b\": 2}"}},
        {"{\"$defs\": {\"n~/ \": {\"type\": \"integer\"}}, \"type\": \"array\", \"items\": "
         "{\"$ref\": "
         "\"#/$defs/n~0~1%20\"}}",
         {"[1, 2]"},
         {"[null]"}},
        {"{\"definitions\": {\"t\": {\"type\": \"object\", \"properties\": {\"v\": {\"const\": 1}, "
         "\"l\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/definitions/t\"}}}, \"required\": "
         "[\"v\"]}}, \"$ref\": \"#/definitions/t\"}",
         {"{\"v\": 1}", "{\"v\": 1, \"l\": [{\"v\": 1}, {\"v\": 1, \"l\": []}]}"},
         {"{\"v\": 1, \"l\": [1]}", "{\"l\": []}"}},
        {"{\"$ref\": \"#/$defs/a\", \"maximum\": 3, \"$defs\": {\"a\": {\"type\": \"integer\", "
         "\"minimum\": 2}}}",
         {"2", "3"},
         {"1", "4"}},
        {"{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"array\", \"items\": {\"$ref\": \"#\"}}]}",
         {"null", "[null, [[]]]"},
         {"[1]"}},
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}, \"b\": {\"const\": "
         "1}}, "
         "\"required\": [\"b\"]}",
         {"{\"b\": 1}", "{\"a\": {\"b\": 1}, \"b\": 1}"},
         {"{\"a\": {}}"}},
    };
    (void)state;
    CHECK(rows, 0);
}

/* Schemas with grammars that once accepted invalid texts. */
static void close_calls(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"number\", \"exclusiveMinimum\": 1e-5, \"exclusiveMaximum\": 100}",
         {"99.99", "1"},
         {"99.999999999999999", "100"}},
        {"{\"type\": \"number\", \"minimum\": 9007199254740993}",
         {"9007199254740993", "9007199254740994"},
         {"9007199254740993.0", "9007199254740992"}},
        {"{\"$defs\": {\"a\": {\"b\": {\"type\": \"null\"}}, \"a/b\": {\"type\": \"string\"}}, "
         "\"$ref\": \"#/$defs/a%2Fb\"}",
         {"null"},
         {"\"x\""}},
        {"{\"enum\": [9007199254740993], \"minimum\": 9007199254740993}",
         {"9007199254740993"},
         {"9007199254740992"}},
    };
    (void)state;
    CHECK(rows, 0);
}

/* The forms of zod 4 and of pydantic 2, and the keywords that they need. */
static void schemas_as_libraries_write_them(void **state)
{
    static const struct row rows[] = {
        {"{\"type\": \"integer\", \"format\": \"int32\"}", {"1"}, {"1.5"}},
        {"{\"type\": \"string\", \"format\": \"uri\", \"x-order\": 1, \"contentMediaType\": "
         "\"text/plain\"}",
         {"\"a\""},
         {"1"}},
        {"{\"type\": \"string\", \"minlength\": 3, \"nullable\": false, \"if\": {\"const\": "
         "1}}",
         {"\"a\""},
         {"null"}},
        {"{\"nullable\": true, \"allOf\": [{\"type\": \"string\"}]}", {"\"a\""}, {"null"}},
        {"{\"enum\": [\"a@b.cd\", \"x\"], \"type\": \"string\", \"format\": \"email\"}",
         {"\"x\""},
         {NULL}},
        {"{\"oneOf\": [{\"$ref\": \"#/$defs/A\"}, {\"$ref\": \"#/$defs/B\"}], \"discriminat"
         "or\": {\"propertyName\": \"k\", \"mapping\": {\"a\": \"#/$defs/A\", \"b\": \"#/$defs"
         "/B\"}}, \"$defs\": {\"A\": {\"properties\": {\"k\": {\"const\": \"a\", \"title\": \"K\""
         ", \"type\": \"string\"}}, \"required\": [\"k\"], \"title\": \"A\", \"type\": \"object"
         "\"}, \"B\": {\"properties\": {\"k\": {\"const\": \"b\", \"type\": \"string\"}, \"n\": {"
         "\"default\": 0, \"type\": \"integer\"}}, \"required\": [\"k\"], \"type\": \"object\""
         "}}}",
         {"{\"k\": \"a\"}", "{\"k\": \"b\", \"n\": 3}"},
         {"{\"k\": \"a\", \"n\": 3}", "{\"n\": 3}"}},
        {"{\"type\": \"string\", \"format\": \"email\", \"pattern\": \"^(?:[A-Za-z0-9_'+\\\\-"
         "]+\\\\.)*[A-Za-z0-9_'+\\\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\\\-]*\\"
         "\\.)+[A-Za-z]{2,}$\", \"maxLength\": 12}",
         {"\"a.b@c.de\""},
         {"\"a..b@c.de\"", "\"a@b\""}},
        {"{\"type\": \"string\", \"format\": \"includes\", \"pattern\": \"x\"}",
         {"\"axb\"", "\"x\""},
         {"\"ab\""}},
        {"{\"pattern\": \"a\", \"type\": \"string\", \"maxLength\": 3}",
         {"\"a\"", "\"bac\""},
         {"\"b\"", "\"bbba\""}},
        {"{\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"string\", \"pattern\": \"^(?!^[-+"
         ".]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}]}",
         {"1.5", "\"-1.50\"", "\".5\"", "\"+3.\""},
         {"\".\"", "\"-\"", "\"\"", "\"+-1\""}},
        {"{\"type\": \"string\", \"format\": \"duration\", \"pattern\": \"^P(?:(\\\\d+W)|(?!."
         "*W)(?=\\\\d|T\\\\d)(\\\\d+Y)?(\\\\d+M)?(\\\\d+D)?(T(?=\\\\d)(\\\\d+H)?(\\\\d+M)?(\\\\d+("
         "[.,]\\\\d+)?S)?)?)$\"}",
         {"\"P1W\"", "\"P1DT2H\"", "\"PT1.5S\"", "\"P1Y2M3DT4H5M6S\""},
         {"\"P\"", "\"PT\"", "\"P1DT\"", "\"P1WT1S\""}},
        {"{\"type\": \"string\", \"not\": {\"enum\": [\"ab\", \"a\"]}}",
         {"\"\"", "\"b\"", "\"abc\""},
         {"\"a\"", "\"ab\""}},
        {"{\"type\": \"integer\", \"minimum\": -9007199254740991, \"maximum\": 900719925"
         "4740991}",
         {"-9007199254740991", "0"},
         {"9007199254740992"}},
        {"{\"type\": \"number\", \"minimum\": -3.4028234663852886e+38, \"maximum\": 3.40"
         "28234663852886e+38}",
         {"-1.5", "1000"},
         {"\"1\""}},
        {"{\"type\": \"integer\", \"minimum\": -9223372036854775808, \"maximum\": 922337"
         "2036854775807}",
         {"-1", "123456789012345"},
         {"1.5"}},
        {"{\"type\": \"integer\", \"multipleOf\": 3, \"minimum\": -4, \"maximum\": 10}",
         {"-3", "0", "9"},
         {"1", "10", "12"}},
        {"{\"type\": \"number\", \"multipleOf\": 5}",
         {"0", "-5", "25", "100005"},
         {"23", "-0", "0.5", "00"}},
        {"{\"type\": \"number\", \"minimum\": 0, \"multipleOf\": 0.01}",
         {"0", "0.01", "1.5", "12345.67"},
         {"0.001", "-1"}},
        {"{\"enum\": [0.25, 0.3, 1, 10], \"multipleOf\": 0.25}", {"0.25", "1", "10"}, {"0.3"}},
        {"{\"not\": {\"type\": [\"null\", \"number\"]}}", {"\"a\"", "[]"}, {"null", "1", "1.5"}},
        {"{\"type\": [\"boolean\", \"null\"], \"not\": {\"const\": true}}",
         {"false", "null"},
         {"true"}},
        {"{\"enum\": [1, 2, \"a\"], \"not\": {\"enum\": [\"a\", 1.0]}}", {"2"}, {"1", "\"a\""}},
        {"{\"type\": \"object\", \"propertyNames\": {\"type\": \"string\"}, \"additionalPro"
         "perties\": {\"type\": \"integer\"}}",
         {"{}", "{\"a\": 1}"},
         {"{\"a\": \"b\"}"}},
        {"{\"type\": \"object\", \"propertyNames\": {\"enum\": [\"a\", \"b\"]}, \"additionalP"
         "roperties\": {\"type\": \"integer\"}, \"required\": [\"a\"]}",
         {"{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
         {"{}", "{\"b\": 1}", "{\"a\": 1, \"c\": 2}"}},
        {"{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[a-z]+$\"}, \"addition"
         "alProperties\": {\"type\": \"integer\"}}",
         {"{}", "{\"ab\": 1, \"c\": 2}"},
         {"{\"A\": 1}", "{\"\": 1}"}},
        {"{\"type\": \"object\", \"patternProperties\": {\"^x-[a-z]+$\": {\"type\": \"integ"
         "er\"}}, \"additionalProperties\": false}",
         {"{}", "{\"x-a\": 1, \"x-b\": 2}"},
         {"{\"y\": 1}", "{\"x-a\": \"b\"}"}},
        {"{\"patternProperties\": {}, \"dependentRequired\": {}, \"type\": \"object\", \""
         "maxProperties\": 0}",
         {"{}"},
         {"{\"a\": 1}"}},
        {"{\"enum\": [{\"a\": 1}, {\"b\": 1}, {}], \"propertyNames\": {\"const\": \"a\"}}",
         {"{\"a\": 1}", "{}"},
         {"{\"b\": 1}"}},
        {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"enum\": [\"a\", \"b\", \"a"
         "\"]}}",
         {"[]", "[\"b\", \"a\"]", "[\"a\"]"},
         {"[\"a\", \"a\"]", "[\"a\", \"b\", \"a\"]"}},
        {"{\"type\": \"array\", \"uniqueItems\": true, \"minItems\": 2, \"maxItems\": 3, \""
         "items\": {\"enum\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}",
         {"[3, 5]", "[1, 2, 10]"},
         {"[]", "[1]", "[2, 2]", "[1, 2, 3, 4]"}},
        {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"type\": \"string\"}, \"m"
         "axItems\": 1}",
         {"[]", "[\"a\"]"},
         {"[\"a\", \"b\"]"}},
        {"{\"enum\": [[1, 1.0], [1, 2]], \"uniqueItems\": true}", {"[1, 2]"}, {"[1, 1.0]"}},
    };
    (void)state;
    CHECK(rows, 0);
}

/* An enum of 10,000 strings, of which few begin alike, takes at most 8 MB. */
static void a_large_enum(void **state)
{
    static char schema[40 * 10000];
    uint64_t seed = 1;
    size_t n = (size_t)sprintf(schema, "{\"type\": \"string\", \"enum\": [");
    (void)state;
    for (int i = 0; i < 10000; i++) {
        n += (size_t)sprintf(schema + n, "%s\"", i ? ", " : "");
        for (uint32_t k = 1 + random_below(&seed, 16); k; k--)
            schema[n++] = (char)('A' + random_below(&seed, 26));
        n += (size_t)sprintf(schema + n, " %d\"", i);
    }
    sprintf(schema + n, ", \"last\"]}");
    struct tft_grammar *g = compile(schema, 0);
    assert_true(accepts(g, "\"last\""));
    assert_false(accepts(g, "\"las\""));
    assert_in_range(g->state.room * sizeof(struct tft_auto_state) + g->n_next * sizeof *g->next, 1,
                    8 << 20);
    tft_grammar_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_constants),
        cmocka_unit_test(schemas_as_libraries_write_them),
        cmocka_unit_test(a_large_enum),
        cmocka_unit_test(constants_that_meet),
        cmocka_unit_test(numbers),
        cmocka_unit_test(strings),
        cmocka_unit_test(arrays),
        cmocka_unit_test(objects),
        cmocka_unit_test(objects_in_any_order),
        cmocka_unit_test(choices_and_references),
        cmocka_unit_test(close_calls),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
