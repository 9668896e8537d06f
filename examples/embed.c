/* The smallest program that embeds tuffet: "embed MODEL TEXT" continues the text. */
#include <stdio.h>
#include <string.h>

#include "tuffet.h"

static enum tft_status generate(const struct tft_model *m, struct tft_session *s,
                                const char *prompt)
{
    int32_t ids[1024], id;
    size_t n;
    enum tft_status status = tft_tokenize(m, prompt, strlen(prompt), TFT_ADD_BOS, ids, 1024, &n);
    if (status == TFT_OK)
        status = tft_prefill(s, ids, n);
    struct tft_sampler sampler = {.temperature = 0.8f, .min_p = 0.05f, .seed = 1};
    struct tft_text text = {.started = true}; /* the generated text continues the prompt */
    char piece[TFT_TEXT_MAX];
    while (status == TFT_OK && !tft_token_ends(m, id = tft_sample(&sampler, s))) {
        fwrite(piece, 1, tft_text_push(&text, m, id, piece), stdout);
        fflush(stdout);
        status = tft_decode(s, id);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_error err = {.msg = "usage: embed MODEL TEXT"};
    if (argc == 3 && tft_model_open(&m, argv[1], NULL, &err) == TFT_OK &&
        tft_session_open(&s, m, NULL, &err) == TFT_OK) {
        enum tft_status status = generate(m, s, argv[2]);
        snprintf(err.msg, sizeof err.msg, "%s", status == TFT_OK ? "" : tft_status_text(status));
    }
    tft_session_close(s);
    tft_model_close(m);
    return err.msg[0] ? fprintf(stderr, "\n%s\n", err.msg), 1 : 0;
}
