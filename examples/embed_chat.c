/* "embed_chat MODEL QUESTION": MODEL, which has a template, calls a tool, and answers with JSON. */
#include <stdio.h>
#include <string.h>

#include "tuffet_chat.h"

static const char tools_json[] = "[{\"type\": \"function\", \"function\": {\"name\": \"weather\","
    " \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\","
    " \"Lima\"]}}, \"required\": [\"city\"]}}}]";
static const char schema[] = "{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 60}";
#define SAID "{\"tools\": %s, \"messages\": [{\"role\": \"user\", \"content\": \"%s\"}"
#define CALLED                                                                                     \
    ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"name\":"    \
    " \"weather\", \"arguments\": %s}}]}, {\"role\": \"tool\", \"content\": \"%s\"}"

struct app {
    struct tft_model *m;
    struct tft_session *s;
    struct tft_lexicon *words;
    struct tft_chat_template *t;
    struct tft_chat_tools *tools;
    struct tft_error err;
    char arguments[64]; /* of the call: JSON */
};

static void take(void *user, const struct tft_chat_event *e)
{
    if (e->kind == TFT_CHAT_ARGUMENTS) /* at most 16 bytes, as the grammar allows */
        strncat(user, e->p, e->n);
}

/* Lets the model answer the conversation `json` under a grammar; reads a call, or prints the
   answer. */
static enum tft_status answer(struct app *x, const char *json, const char *gbnf, bool is_call)
{
    struct tft_chat_input in = {sizeof in, .json = json, .n_json = strlen(json)};
    struct tft_chat_text prompt = {0};
    struct tft_grammar *g = NULL;
    struct tft_grammar_state *place = NULL;
    struct tft_chat_answer *a = NULL;
    struct tft_text text = {0};
    char piece[TFT_TEXT_MAX];
    int32_t ids[2048], id;
    size_t n;
    enum tft_status e = tft_chat_render_for(&prompt, x->t, x->m, &in, &x->err);
    e = e ? e : tft_chat_tokenize(&prompt, x->m, ids, 2048, &n, &text.started);
    e = e ? e : tft_grammar_open(&g, x->words, TFT_GBNF, gbnf, strlen(gbnf), &x->err);
    e = e ? e : tft_grammar_begin(&place, g, &x->err);
    e = e ? e : tft_chat_answer_open(&a, x->tools, text.started, take, x->arguments, &x->err);
    size_t held = e ? 0 : tft_prefix_held(x->m, NULL, ids, n); /* the prefix has these */
    e = e ? e : tft_sync(x->s, ids + held, n - held); /* computes only new tokens */
    struct tft_sampler z = {.grammar = place};
    while (!e && !tft_grammar_is_done(place) && (id = tft_sample(&z, x->s)) >= 0 &&
           !tft_token_ends(x->m, id)) {
        if (is_call)
            e = tft_chat_answer_token(a, x->m, id);
        else
            fwrite(piece, 1, tft_text_push(&text, x->m, id, piece), stdout);
        e = e ? e : tft_decode(x->s, id);
    }
    e = e || !is_call ? e : tft_chat_answer_end(a, &x->err);
    tft_chat_answer_close(a);
    tft_grammar_end(place);
    tft_grammar_close(g);
    tft_chat_text_free(&prompt);
    return e;
}

int main(int argc, char **argv)
{
    struct app x = {0};
    struct tft_chat_text call = {0}, last = {0};
    char json[4096];
    if (argc != 3 || strpbrk(argv[2], "\\\"")) /* JSON would need escapes */
        return fputs("usage: embed_chat MODEL QUESTION\n", stderr), 1;
    enum tft_status e = tft_model_open(&x.m, argv[1], NULL, &x.err);
    const char *jinja = e || !tft_model_tool_template(x.m) ? "" : tft_model_tool_template(x.m);
    e = e ? e : tft_chat_open(&x.t, jinja, strlen(jinja), &x.err);
    e = e ? e : tft_session_open(&x.s, x.m, NULL, &x.err);
    e = e ? e : tft_lexicon_open(&x.words, x.m, &x.err);
    e = e ? e : tft_chat_tools_open(&x.tools, tools_json, strlen(tools_json),
                                    tft_chat_call_format(x.t), 0, &x.err);
    e = e ? e : tft_chat_tools_grammar(&call, x.tools, x.m, TFT_CHAT_REQUIRED, NULL, true, &x.err);
    e = e ? e : tft_chat_schema(&last, schema, strlen(schema), 0, &x.err);
    snprintf(json, sizeof json, SAID "]}", tools_json, argv[2]);
    e = e ? e : answer(&x, json, call.p, true);
    if (!e) {
        const char *result = strstr(x.arguments, "Oslo") ? "rain, 7 degrees" : "clear, 19 degrees";
        printf("weather %s: %s\n", x.arguments, result);
        snprintf(json, sizeof json, SAID CALLED "]}", tools_json, argv[2], x.arguments, result);
        e = answer(&x, json, last.p, false);
        puts("");
    }
    tft_chat_text_free(&last);
    tft_chat_text_free(&call);
    tft_chat_tools_close(x.tools);
    tft_chat_close(x.t);
    tft_lexicon_close(x.words);
    tft_session_close(x.s);
    tft_model_close(x.m);
    return e ? fprintf(stderr, "%s %s\n", tft_status_text(e), x.err.msg), 1 : 0;
}
