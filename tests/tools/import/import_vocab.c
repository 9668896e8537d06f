/*
 * Converts the tokenizer of a folder of shared/tokenizers, and encodes.
 *
 *      import_vocab FOLDER ROWS OUT.gguf NAME [OTHER.gguf]
 *
 * Writes OUT.gguf with a vocabulary of ROWS tokens. Texts of ggml-vocab-NAME.gguf.inp and random
 * ones must have the tokens that OTHER.gguf gives, which is by default ggml-vocab-NAME.gguf. Exit
 * status 77 if a file is missing.
 */
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "port/port.h"
#include "text/tokenizer.h"
#include "tools/import/tokenizer.h"

enum { MAX_IDS = 1 << 16 };

static int convert(const char *folder, uint64_t rows, const char *out)
{
    struct tft_error err = {0};
    struct import im = {
        .folder = {.path = folder, .config = json_object()}, .n_vocab = rows, .err = &err};
    if (!im.folder.config || tft_gguf_create(&im.gguf, out, &err))
        return 1;
    tft_gguf_put_str(im.gguf, "general.architecture", (struct tft_str){"llama", 5});
    import_tokenizer(&im);
    if (tft_gguf_close(im.gguf, im.status == TFT_OK, &err) || im.status)
        puts(err.msg);
    json_decref(im.folder.config);
    return im.status != TFT_OK;
}

static struct tft_tokenizer *open_vocab(const char *path)
{
    struct tft_source s;
    struct tft_tokenizer *t = NULL;
    struct tft_error err = {0};
    if (tft_source_open(&s, path, NULL, NULL, &err) || tft_tokenizer_open(&t, &s, NULL, &err))
        puts(err.msg);
    else
        tft_source_close(&s);
    return t;
}

static int same(const struct tft_tokenizer *a, const struct tft_tokenizer *b, const char *text,
                size_t n)
{
    static int32_t ids[2][MAX_IDS];
    size_t count[2];
    if (tft_tokenizer_encode(a, text, n, TFT_PARSE_SPECIAL, ids[0], MAX_IDS, &count[0]) ||
        tft_tokenizer_encode(b, text, n, TFT_PARSE_SPECIAL, ids[1], MAX_IDS, &count[1]))
        return 0;
    if (count[0] == count[1] && count[0] <= MAX_IDS &&
        !memcmp(ids[0], ids[1], count[0] * sizeof ids[0][0]))
        return 1;
    printf("other tokens of \"%.*s\"\n", (int)n, text);
    return 0;
}

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

/* Words of the text in another order, and any bytes. */
static int random_texts(const struct tft_tokenizer *a, const struct tft_tokenizer *b, const char *p,
                        size_t size)
{
    char text[512];
    int ok = 1;
    for (int i = 0; ok && i < 20000; i++) {
        size_t n = 0;
        for (uint32_t k = 1 + below(8); k--;) {
            size_t at = below((uint32_t)size), len = 1 + below(24);
            len = len < size - at ? len : size - at;
            if (below(8)) {
                memcpy(text + n, p + at, len);
                n += len;
            } else {
                text[n++] = (char)below(256);
            }
        }
        ok = same(a, b, text, n);
    }
    return ok;
}

int main(int argc, char **argv)
{
    char folder[4096], name[512];
    struct tft_map inp;
    if (argc < 5)
        return 2;
    snprintf(name, sizeof name, "tokenizers/%s/tokenizer.json", argv[1]);
    const char *json = shared_path(name);
    snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf.inp", argv[4]);
    const char *texts = shared_path(name);
    snprintf(name, sizeof name, "tokenizers/ggml-vocab-%s.gguf", argv[4]);
    const char *other = argc > 5 ? argv[5] : shared_path(name);
    if (!json || !texts || !other || tft_port_map(&inp, texts)) {
        printf("skipped: shared/tokenizers/%s or its texts are not there\n", argv[1]);
        return 77;
    }
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(json, '/') - json), json);
    if (convert(folder, strtoull(argv[2], NULL, 10), argv[3]))
        return 1;
    struct tft_tokenizer *a = open_vocab(argv[3]), *b = open_vocab(other);
    const char *p = (const char *)inp.data;
    int ok = a && b && same(a, b, p, inp.size) && random_texts(a, b, p, inp.size);
    tft_tokenizer_close(a);
    tft_tokenizer_close(b);
    tft_port_unmap(&inp);
    return !ok;
}
