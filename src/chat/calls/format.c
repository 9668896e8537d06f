/* The formats of tool calls. To add a format, add a row. */
#include "call.h"

#include <string.h>

#include "chat/jinja/tree.h"

#define NAME_AND(arguments) "{\"name\": \"%n\", \"" arguments "\": %a}"

static const struct call_format formats[] = {
    /* Qwen 3.5 and Qwen 3 Coder */
    {.name = "qwen3.5",
     .sign = {"<function="},
     .mark = {"<tool_call>", "</tool_call>"},
     .open = "<tool_call>\n",
     .call = "<function=%n>\n%a/function>", /* `close` begins with its < */
     .close = "\n</tool_call>",
     .between = "\n",
     .members = {.before = "<parameter=",
                 .middle = ">\n",
                 .after = "\n</parameter>\n",
                 .comma = "",
                 .close = "<",
                 .until = "</parameter>"},
     .end = '/'},
    /* Hermes 2 Pro and 3, Qwen 2.5, Qwen 3 */
    {.name = "hermes",
     .sign = {"<tool_call>"},
     .mark = {"<tool_call>", "</tool_call>"},
     .open = "<tool_call>\n",
     .call = NAME_AND("arguments"),
     .close = "\n</tool_call>",
     .between = "\n"},
    /* LFM 2 and 2.5 */
    {.name = "lfm2",
     .sign = {"<|tool_call_start|>", "<|tool_list_start|>"},
     .mark = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .open = "<|tool_call_start|>[",
     .call = "%n(%a)",
     .comma = ", ",
     .close = "]<|tool_call_end|>",
     .members = {.before = "", .middle = "=", .after = "", .comma = ", ", .close = ""},
     .end = ')',
     .spelling = &tft_schema_python_spelling},
    /* FunctionGemma */
    {.name = "gemma",
     .sign = {"<start_function_call>"},
     .mark = {"<start_function_call>", "<end_function_call>", "<escape>"},
     .open = "<start_function_call>",
     .call = "call:%n{%a}",
     .close = "<end_function_call>",
     .between = "",
     .members = {.before = "", .middle = ":", .after = "", .comma = ",", .close = ""},
     .end = '}',
     .spelling = &tft_schema_gemma_spelling},
    /* Mistral's tokenizer of version 11: a call has an id */
    {.name = "mistral-id",
     .sign = {"[CALL_ID]"},
     .mark = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     .open = "[TOOL_CALLS]",
     .call = "%n[CALL_ID]%i[ARGS]%a",
     .close = "",
     .between = ""},
    /* Mistral's tokenizers from version 13 on */
    {.name = "mistral-args",
     .sign = {"[ARGS]"},
     .mark = {"[TOOL_CALLS]", "[ARGS]"},
     .open = "[TOOL_CALLS]",
     .call = "%n[ARGS]%a",
     .close = "",
     .between = ""},
    /* Mistral's tokenizers of versions 2 to 7 */
    {.name = "mistral",
     .sign = {"[TOOL_CALLS]"},
     .mark = {"[TOOL_CALLS]"},
     .open = "[TOOL_CALLS]~[",
     .call = NAME_AND("arguments"),
     .comma = ", ",
     .close = "]"},
    /* Llama 3.1 to 3.3. Its template takes one call in a message. */
    {.name = "llama3",
     .sign = {"<|python_tag|>", "\"parameters\": "},
     .mark = {"<|python_tag|>"},
     .at_start = true,
     .open = "",
     .call = NAME_AND("parameters"),
     .close = ""},
    /* any other model: tft_chat_tools_ask asks for this format */
    {.name = "json",
     .at_start = true,
     .open = "{\"tool_calls\": [",
     .call = NAME_AND("arguments"),
     .comma = ", ",
     .close = "]}"},
};
enum { FORMATS = sizeof formats / sizeof *formats };

const struct call_format *tft_call_format(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static bool has(const struct jinja_string *s, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= s->n; i++)
        if (memcmp(s->p + i, what, n) == 0)
            return true;
    return false;
}

const char *tft_call_shown(const struct jinja_token *t)
{
    for (size_t i = 0; i < FORMATS; i++)
        for (size_t k = 0; k < CALL_SIGNS && formats[i].sign[k]; k++)
            for (const struct jinja_token *p = t; p->kind != TOKEN_END; p++)
                if ((p->kind == TOKEN_DATA && has(p->name, formats[i].sign[k])) ||
                    (p->kind == TOKEN_VALUE && p->value.kind == JINJA_STRING &&
                     has(p->value.string, formats[i].sign[k])))
                    return formats[i].name;
    return "json";
}
