/*
 * The input is a digit that chooses the format of calls, JSON of tools, a NUL, and an answer. The
 * tools are read or refused; the answer is read, in one piece and byte by byte, with the same
 * events, as calls and as calls or a form. The arguments of each whole call are one JSON object.
 */
#include "fuzz.h"

#include "chat/jinja/jinja.h"
#include "chat/tuffet_chat.h"

struct events {
    const struct tft_chat_tools *tools;
    char *p; /* [n] arguments of the call that is read, at most `room` */
    size_t n, room;
    size_t calls, text;
    uint32_t sum; /* of all events, however they are cut */
};

static void check_object(const struct events *e)
{
    struct jinja x = {.what = "test", .max_memory = 64 << 20, .max_steps = 1 << 24,
                      .max_depth = 1000};
    struct jinja_string s = {.p = e->p, .n = e->n};
    struct jinja_value v = tft_jinja_read_json(&x, &s);
    MUST(x.status == TFT_OK ? v.kind == JINJA_DICT : x.status == TFT_ERR_FULL ||
                              strstr(x.err.msg, "number of this length"));
    tft_jinja_free(&x);
}

static void take(void *user, const struct tft_chat_event *event)
{
    struct events *e = user;
    MUST(event->index == e->calls);
    for (size_t i = 0; i < event->n; i++)
        e->sum = (e->sum ^ (unsigned char)event->p[i] ^ (unsigned)event->kind << 8) * 16777619;
    if (event->kind == TFT_CHAT_CALL) {
        bool known = false;
        for (size_t i = 0; i < tft_chat_tools_count(e->tools); i++)
            known |= strcmp(tft_chat_tools_name(e->tools, i), event->p) == 0;
        MUST(known);
        e->n = 0;
    } else if (event->kind == TFT_CHAT_ARGUMENTS) {
        MUST(event->n <= e->room - e->n);
        memcpy(e->p + e->n, event->p, event->n);
        e->n += event->n;
    } else if (event->kind == TFT_CHAT_CALL_END) {
        check_object(e);
        e->calls++;
    }
}

static enum tft_status read_answer(struct events *e, bool or_form, const char *p, size_t n,
                                   size_t most)
{
    struct tft_chat_answer *a;
    MUST(tft_chat_answer_open(&a, e->tools, false, take, e, NULL) == TFT_OK);
    if (or_form)
        tft_chat_answer_or_form(a);
    for (size_t i = 0; i < n; i += most)
        tft_chat_answer_push(a, p + i, most < n - i ? most : n - i);
    enum tft_status status = tft_chat_answer_end(a, NULL);
    MUST(status == TFT_OK || status == TFT_ERR_FORMAT);
    tft_chat_answer_close(a);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"hermes", "mistral", "mistral-args", "llama3", "json",
                                          "qwen3.5", "lfm2", "gemma", "mistral-id"};
    struct tft_chat_tools *t;
    struct tft_chat_text grammar;
    struct tft_error err = {0};
    const char *json = (const char *)data + 1;
    size_t format = size ? (size_t)data[0] - '0' : SIZE_MAX;
    const char *end = size ? memchr(json, 0, size - 1) : NULL;
    if (!end || format >= sizeof formats / sizeof *formats)
        return 0;
    size_t n = (size_t)(end - json), rest = size - n - 2;
    enum tft_status status = tft_chat_tools_open(&t, json, n, formats[format], 0, &err);
    if (status != TFT_OK) {
        MUST(!t && err.code == status && err.msg[0] && !strchr(err.msg, '\n'));
        return 0;
    }
    MUST(tft_chat_tools_grammar(&grammar, t, NULL, TFT_CHAT_AUTO, NULL, false, NULL) == TFT_OK);
    tft_chat_text_free(&grammar);
    MUST(tft_chat_tools_or_form(&grammar, t, NULL, false, end + 1, rest, NULL) == TFT_OK);
    tft_chat_text_free(&grammar);
    struct events none = {.tools = t, .room = 16 * rest + 16};
    none.p = malloc(none.room);
    MUST(none.p);
    for (int or_form = 0; or_form < 2; or_form++) {
        struct events whole = none, bytes = none;
        status = read_answer(&whole, or_form, end + 1, rest, rest + 1);
        MUST(status == read_answer(&bytes, or_form, end + 1, rest, 1));
        MUST(whole.sum == bytes.sum && whole.calls == bytes.calls && whole.n == bytes.n);
    }
    free(none.p);
    tft_chat_tools_close(t);
    return 0;
}
