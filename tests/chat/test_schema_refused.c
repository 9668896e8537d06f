/* JSON Schemas that are refused, with the place; and hostile ones, which end. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <string.h>

#include "byte_lexicon.h"
#include "chat/tuffet_chat.h"

static enum tft_status status_of(const char *schema, struct tft_error *err)
{
    struct tft_chat_text text;
    struct tft_grammar *g;
    *err = (struct tft_error){0};
    enum tft_status status = tft_chat_schema(&text, schema, strlen(schema), 0, err);
    assert_int_equal(status != TFT_OK, text.p == NULL);
    if (status == TFT_OK) {
        status = tft_grammar_open(&g, lexicon, TFT_GBNF, text.p, text.n, err);
        tft_grammar_close(g);
    }
    tft_chat_text_free(&text);
    return status;
}

static void what_is_not_supported_is_named(void **state)
{
    static const struct {
        enum tft_status status;
        const char *schema, *message;
    } rows[] = {
        {TFT_ERR_UNSUPPORTED, "{\"not\": {}}", "matches no text"},
        {TFT_ERR_UNSUPPORTED, "{\"not\": {\"minimum\": 3}}", "schema: #/not/minimum: in not"},
        {TFT_ERR_UNSUPPORTED, "{\"not\": {\"const\": 1}}", "not: constants beside a type"},
        {TFT_ERR_UNSUPPORTED,
         "{\"type\": \"string\", \"minLength\": 1, \"not\": {\"const\": \"a\"}}",
         "not: strings beside a pattern"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"number\", \"not\": {\"type\": \"integer\"}}",
         "not: integers beside the type number"},
        {TFT_ERR_UNSUPPORTED, "{\"contains\": {\"const\": 1}}", "#/contains: this keyword"},
        {TFT_ERR_UNSUPPORTED, "{\"unevaluatedProperties\": false}",
         "#/unevaluatedProperties: this"},
        {TFT_ERR_UNSUPPORTED, "{\"dependentRequired\": {\"a\": [\"b\"]}}", "#/dependentRequired"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"integer\", \"multipleOf\": 7}",
         "#/multipleOf: supported"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"number\", \"multipleOf\": 0.5}",
         "#/multipleOf: supported"},
        {TFT_ERR_ARG, "{\"multipleOf\": 0}", "#/multipleOf: not more than 0"},
        {TFT_ERR_UNSUPPORTED, "{\"minimum\": 1e300}", "a bound of too many digits"},
        {TFT_ERR_UNSUPPORTED,
         "{\"patternProperties\": {\"^a\": true}, \"properties\": {\"a\": {}}}",
         "#/patternProperties: not supported beside"},
        {TFT_ERR_UNSUPPORTED, "{\"patternProperties\": {\"^a\": true, \"b\": true}}",
         "#/patternProperties: a second"},
        {TFT_ERR_UNSUPPORTED,
         "{\"propertyNames\": {\"pattern\": \"^a\"}, \"properties\": {\"b\": {}}, "
         "\"additionalProperties\": true}",
         "#/propertyNames"},
        {TFT_ERR_UNSUPPORTED, "{\"allOf\": [{\"format\": \"date\"}, {\"format\": \"email\"}]}",
         "#/allOf/1/format: a second format"},
        {TFT_ERR_UNSUPPORTED, "{\"allOf\": [{\"pattern\": \"^a\"}, {\"pattern\": \"b$\"}]}",
         "#/allOf/1/pattern: a second pattern"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"number\", \"minimum\": 1e-16}", "too many digits"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"number\", \"minimum\": 1.234567890123456}",
         "too many digits"},
        {TFT_ERR_UNSUPPORTED, "{\"type\": \"integer\", \"minimum\": 1000000000000000000}",
         "too many digits"},
        {TFT_ERR_UNSUPPORTED, "{\"properties\": {\"a/b~\": {\"if\": true, \"then\": false}}}",
         "#/properties/a~1b~0/if: this keyword"},
        {TFT_ERR_UNSUPPORTED, "{\"anyOf\": [true, {\"dependencies\": {}}]}",
         "#/anyOf/1/dependencies: this keyword"},
        {TFT_ERR_UNSUPPORTED, "{\"uniqueItems\": true}", "#/uniqueItems"},
        {TFT_ERR_UNSUPPORTED, "{\"items\": [true]}", "#/items: a list is not supported"},
        {TFT_ERR_UNSUPPORTED, "{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 2}]}",
         "#/oneOf: options 0 and 1"},
        {TFT_ERR_UNSUPPORTED, "{\"$ref\": \"http://x\"}", "#/$ref: only references within"},
        {TFT_ERR_UNSUPPORTED, "{\"$ref\": \"#\"}", "#: refers to itself"},
        {TFT_ERR_UNSUPPORTED,
         "{\"allOf\": [{\"$ref\": \"#/$defs/a\"}], \"$defs\": {\"a\": "
         "{\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": \"#/$defs/a\"}}}",
         "refers to itself"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"a(?=b)\"}", "#/pattern: character 4: a group"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"\\\\bx\"}", "#/pattern: character 3: an escape"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"(?<!a)b\"}", "#/pattern: character"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"^(?<=a)b$\"}", "#/pattern: character"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"^[\\\\01]$\"}", "#/pattern: character"},
        {TFT_ERR_UNSUPPORTED,
         "{\"$ref\": \"#/$defs/p\", \"$defs\": {\"p\": {\"oneOf\": [{\"const\": 1}, "
         "{\"type\": \"integer\"}]}}}",
         "options 0 and 1"},
        {TFT_ERR_UNSUPPORTED,
         "{\"allOf\": [{\"oneOf\": [{\"enum\": [\"a\", \"b\"]}, {\"type\": \"string\", "
         "\"maxLength\": 1}]}]}",
         "options 0 and 1"},
        {TFT_ERR_UNSUPPORTED,
         "{\"type\": \"object\", \"oneOf\": [{\"properties\": {\"k\": {\"const\": 1}}, "
         "\"required\": [\"k\"], \"anyOf\": [{\"properties\": {\"x\": {\"const\": 2}}, "
         "\"required\": [\"x\"]}, {\"properties\": {\"y\": {\"const\": 2}}}]}, "
         "{\"properties\": {\"x\": {\"const\": 2}}, \"required\": [\"x\"]}]}",
         "options 0 and 1"},
        {TFT_ERR_UNSUPPORTED, "{\"anyOf\": [{\"$ref\": \"#\"}, {\"type\": \"null\"}]}",
         "refers to itself"},
        {TFT_ERR_FULL,
         "{\"const\": \"\", \"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}, "
         "{\"$ref\": \"#\", \"type\": \"object\"}]}",
         "more than 100 deep"},
        {TFT_ERR_UNSUPPORTED,
         "{\"items\": {\"oneOf\": [{\"const\": 100000000000000000000}, {\"const\": 1e20}]}}",
         "#/items: a constant of too many digits"},
        {TFT_ERR_UNSUPPORTED, "{\"items\": {\"const\": [1e999]}}",
         "#/items: a number that is too large"},
        {TFT_ERR_UNSUPPORTED,
         "{\"items\": {\"type\": \"number\", \"minimum\": 0.123456, \"maximum\": 12345678901.5}}",
         "#/items: bounds of a number with more than 15 digits"},
        {TFT_ERR_ARG, "{\"enum\": [\"\\ud83d\\ude00\", \"\\ude00\"]}",
         "column 34: half of a surrogate pair"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"a^b\"}", "#/pattern: character 2"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"a)\"}", "#/pattern"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"^abcd\", \"maxLength\": 3}", "#/pattern: matches"},
        {TFT_ERR_UNSUPPORTED, "{\"pattern\": \"^a*b\", \"minLength\": 3}", "#/pattern: matches"},
        {TFT_ERR_UNSUPPORTED, "{\"minItems\": 70000}", "#/minItems: more than 65536"},
        {TFT_ERR_UNSUPPORTED, "{\"minProperties\": 2, \"additionalProperties\": true}",
         "#/minProperties: counts names"},
        {TFT_ERR_UNSUPPORTED, "{\"minimum\": 0.12345678901234567}", "#/minimum: a number of too"},
        {TFT_ERR_UNSUPPORTED,
         "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, "
         "\"required\": [\"a\"]}",
         "matches no text"},
        {TFT_ERR_UNSUPPORTED, "false", "matches no text"},
        {TFT_ERR_UNSUPPORTED, "{\"enum\": []}", "matches no text"},
        {TFT_ERR_ARG, "{\"type\": \"text\"}", "#/type: not the name of a type"},
        {TFT_ERR_ARG, "{\"required\": \"a\"}", "#/required: not a list"},
        {TFT_ERR_ARG, "{\"properties\": {\"a\": 5}}", "#/properties/a: a schema is"},
        {TFT_ERR_ARG, "{\"minLength\": -1}", "#/minLength: not an integer of 0 or more"},
        {TFT_ERR_ARG, "{\"exclusiveMinimum\": true}", "#/exclusiveMinimum: not a number"},
        {TFT_ERR_ARG, "{\"$ref\": \"#/x\"}", "#/$ref: refers to nothing"},
        {TFT_ERR_ARG, "{\"type\": \n  5,}", "JSON: line 2, column 5"},
        {TFT_ERR_ARG, "[]", "#: a schema is"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tft_error err;
        enum tft_status status = status_of(rows[i].schema, &err);
        if (status != rows[i].status || !strstr(err.msg, rows[i].message))
            fail_msg("%s: %d %s", rows[i].schema, status, err.msg);
    }
}

/* Each ends soon, with a grammar or an error. */
static void hostile_schemas_end(void **state)
{
    static char text[600000];
    struct tft_error err;
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 100000; i++)
        n += (size_t)sprintf(text + n, "[");
    assert_int_equal(status_of(text, &err), TFT_ERR_FULL);
    n = (size_t)sprintf(text, "{\"allOf\": [");
    for (int i = 0; i < 40; i++) /* 2^40 combinations */
        n += (size_t)sprintf(text + n, "%s{\"anyOf\": [{\"minLength\": %d}, {\"maxLength\": %d}]}",
                             i ? ", " : "", i, 1000 + i);
    sprintf(text + n, "]}");
    assert_int_not_equal(status_of(text, &err), TFT_OK);
    n = (size_t)sprintf(text, "{\"oneOf\": [");
    for (int i = 0; i < 1500; i++)
        n += (size_t)sprintf(text + n, "%s{\"const\": \"k%d\"}", i ? ", " : "", i);
    sprintf(text + n, "]}");
    status_of(text, &err);
    n = (size_t)sprintf(text, "{\"properties\": {");
    for (int i = 0; i < 8000; i++)
        n += (size_t)sprintf(text + n, "%s\"p%d\": {\"maxLength\": 2000}", i ? ", " : "", i);
    sprintf(text + n, "}}");
    assert_int_not_equal(status_of(text, &err), TFT_OK);
    assert_int_not_equal(status_of("{\"items\": {\"items\": {\"items\": {\"minItems\": 2000}, "
                                   "\"minItems\": 2000}, \"minItems\": 2000}, \"minItems\": 2000, "
                                   "\"type\": \"array\"}",
                                   &err),
                         TFT_ERR_NOMEM);
    assert_int_not_equal(status_of("{\"pattern\": \"^((((a{2000}){2000}){2000}){2000})$\"}", &err),
                         TFT_OK);
    assert_int_not_equal(status_of("{\"pattern\": \"(a|b)*a(a|b){40}\"}", &err), TFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(hostile_schemas_end),
    };
    return cmocka_run_group_tests(tests, open_lexicon, close_lexicon);
}
