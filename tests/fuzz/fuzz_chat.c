/*
 * The input is a chat template, a NUL, and the JSON object of its variables. Rendering ends within
 * its bounds, either with a text and marks, the same each time, or with a message. So do the search
 * for dropped messages, and a text that ends after the last one.
 */
#include "fuzz.h"

#include <string.h>

#include "chat/tuffet_chat.h"

static void check_text(const struct tft_chat_text *t)
{
    MUST(t->p[t->n] == 0 && t->n <= 1 << 16);
    for (size_t i = 0; i < t->n_trusted; i++)
        MUST(t->trusted[i].begin < t->trusted[i].end && t->trusted[i].end <= t->n &&
             (!i || t->trusted[i - 1].end < t->trusted[i].begin));
}

static void check_messages(const struct tft_chat_template *t, const struct tft_chat_text *text,
                           struct tft_chat_input in)
{
    struct tft_chat_text cut;
    struct tft_error err = {0};
    size_t said, result;
    MUST(tft_chat_dropped(&said, &result, text, &in, &err) == TFT_OK || err.msg[0]);
    in.continue_last = true;
    enum tft_status status = tft_chat_render(&cut, t, &in, &err);
    MUST(status == TFT_OK ? cut.p[cut.n] == 0 : err.msg[0] && !cut.p);
    tft_chat_text_free(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tft_chat_template *t;
    struct tft_chat_text text, again;
    struct tft_error err = {0};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    enum tft_status status = tft_chat_open(&t, (const char *)data, n, &err);
    if (status != TFT_OK) {
        MUST(!t && err.msg[0] && err.code == status);
        return 0;
    }
    struct tft_chat_input in = {.size = sizeof in, .json = end ? (const char *)end + 1 : NULL,
                                .n_json = end ? size - n - 1 : 0, .bos = "<s>", .eos = "</s>",
                                .has_time = true, .time = 1709219045, .max_steps = 100000,
                                .max_output = 1 << 16, .max_memory = 8 << 20, .max_depth = 100};
    status = tft_chat_render(&text, t, &in, &err);
    MUST(status == tft_chat_render(&again, t, &in, NULL));
    if (status == TFT_OK) {
        check_text(&text);
        check_messages(t, &text, in);
        MUST(text.n == again.n && memcmp(text.p, again.p, text.n) == 0);
        MUST(text.n_trusted == again.n_trusted);
    } else {
        MUST(err.msg[0] && err.code == status && !text.p && !text.trusted);
    }
    tft_chat_text_free(&text);
    tft_chat_text_free(&again);
    tft_chat_close(t);
    return 0;
}
