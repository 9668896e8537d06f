/* Prints a template's text of a conversation: render TEMPLATE JSON, both files. */
#include <stdio.h>
#include <stdlib.h>

#include "chat/tuffet_chat.h"

static char *read_all(const char *path, size_t *n)
{
    enum { ROOM = 1 << 21 };
    FILE *f = fopen(path, "rb");
    char *p = f ? malloc(ROOM) : NULL;
    if (!p)
        exit(2);
    *n = fread(p, 1, ROOM, f);
    fclose(f);
    return p;
}

int main(int argc, char **argv)
{
    struct tft_chat_template *t;
    struct tft_chat_text text;
    struct tft_error err;
    size_t n;
    if (argc != 3)
        return 2;
    char *source = read_all(argv[1], &n);
    enum tft_status status = tft_chat_open(&t, source, n, &err);
    if (status == TFT_OK) {
        char *json = read_all(argv[2], &n);
        struct tft_chat_input in = {.size = sizeof in,
                                    .json = json,
                                    .n_json = n,
                                    .bos = "<s>",
                                    .eos = "</s>",
                                    .has_time = true,
                                    .time = 1709219045};
        status = tft_chat_render(&text, t, &in, &err);
        free(json);
        tft_chat_close(t);
    }
    free(source);
    if (status != TFT_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    fwrite(text.p, 1, text.n, stdout);
    tft_chat_text_free(&text);
    return 0;
}
