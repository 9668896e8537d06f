/* Finds the form of content that a template takes: a string, or a list of parts with types. As in
   llama.cpp, a message with a mark is rendered in both forms. */
#include <string.h>

#include "input.h"

/* Members that TranslateGemma requires; their names show a list that is printed as it is. */
#define LANGUAGES "\"source_lang_code\": \"en\", \"target_lang_code\": \"de\""
#define MARK "tuffetmark"
#define SAID(content) "{\"messages\": [{\"role\": \"user\", \"content\": " content "}]}"

enum { STEPS = 1 << 20, MEMORY = 16 << 20 };

/* Whether the mark arrives. A template that fails takes another form, or other messages. */
static enum tft_status arrives(bool *out, const struct tft_chat_template *t, const char *json)
{
    struct tft_chat_text text;
    const struct tft_chat_input in = {.size = sizeof in,
                                      .json = json,
                                      .n_json = strlen(json),
                                      .bos = "",
                                      .eos = "",
                                      .has_time = true,
                                      .max_steps = STEPS,
                                      .max_memory = MEMORY,
                                      .max_output = MEMORY};
    enum tft_status status = tft_chat_render(&text, t, &in, NULL);
    *out = status == TFT_OK && strstr(text.p, MARK) && !strstr(text.p, "source_lang_code");
    tft_chat_text_free(&text);
    return status == TFT_ERR_NOMEM ? status : TFT_OK;
}

enum tft_status tft_chat_probe(enum chat_content *out, const struct tft_chat_template *t)
{
    bool text, parts;
    enum tft_status status = arrives(&text, t, SAID("\"" MARK "\""));
    if (status == TFT_OK)
        status = arrives(&parts, t,
                         SAID("[{\"type\": \"text\", " LANGUAGES ", \"text\": \"" MARK "\"}]"));
    if (status == TFT_OK)
        *out = !parts ? CHAT_TEXT : text ? CHAT_EITHER : CHAT_PARTS;
    return status;
}
