/* Shared by the tests of tool calls: tools, calls as each format writes them, a grammar of answers,
   and the calls that the reader finds in one. Include it after test.h. */
#ifndef TFT_TEST_CALLS_H
#define TFT_TEST_CALLS_H

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "byte_lexicon.h"
#include "chat/calls/call.h"
#include "chat/tuffet_chat.h"
#include "grammar/grammar.h"
#include "model/model.h"
#include "random.h"

static const char *const formats[] = {"hermes", "qwen3.5", "lfm2", "gemma", "mistral-args",
                                      "mistral", "mistral-id", "llama3", "json"};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Tools with all types of arguments. */
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

static inline struct tft_chat_tools *open_tools(const char *json, const char *format)
{
    struct tft_chat_tools *t;
    struct tft_error err = {0};
    if (tft_chat_tools_open(&t, json, strlen(json), format, 0, &err) != TFT_OK)
        fail_msg("%s: %s", json, err.msg);
    return t;
}

/* Calls in the formats hermes, qwen3.5, lfm2 and gemma. */
#define PARIS "\"get_weather\", \"arguments\": {\"city\": \"Paris\"}"
#define CALL(rest) "<tool_call>\n{\"name\": " rest "}\n</tool_call>"
#define PARAMETER(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"
#define S(text) "<escape>" text "<escape>"
#define QWEN(name, rest) "<tool_call>\n<function=" name ">\n" rest "</function>\n</tool_call>"
#define LFM(calls) "<|tool_call_start|>[" calls "]<|tool_call_end|>"
#define GEMMA(call) "<start_function_call>call:" call "<end_function_call>"

/* ---- grammars */

static inline struct tft_grammar *compile(const struct tft_chat_tools *t,
                                          enum tft_chat_choice choice, const char *name, bool one)
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

/* ---- answers */

struct transcript {
    char p[8192]; /* [n] T text, C name of a call, A arguments, E end of a call; pieces joined */
    size_t n;
    char kind;
    size_t calls;
};

static inline void note(void *user, const struct tft_chat_event *e)
{
    static const char letters[] = "TCAE";
    struct transcript *t = user;
    char kind = letters[e->kind];
    assert_int_equal(e->size, sizeof *e);
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
static inline enum tft_status read_answer(struct transcript *out,
                                          const struct tft_chat_tools *tools, const char *text,
                                          size_t n, size_t most)
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

#endif
