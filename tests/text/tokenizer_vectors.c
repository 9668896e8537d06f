/*
 * Encodes and decodes llama.cpp's test vectors (its models/ggml-vocab-*.gguf.inp and .out).
 *
 *      tokenizer_vectors NAME [VOCAB]
 *      tokenizer_vectors --open NAME
 *
 * Reads ggml-vocab-NAME.gguf.inp and .out in the folder shared/tokenizers, and the vocabulary
 * ggml-vocab-NAME.gguf there unless VOCAB is given. Exit status 77 if a file is missing. Lines
 * "__ggml_vocab_test__" separate the texts. Each text has a line of ids, which are expected without
 * BOS and with special tokens as plain text (llama.cpp tests/test-tokenizer-0.cpp). --open: there
 * are no texts, and a text of our own must come back as it was.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "paths.h"
#include "port/port.h"
#include "text/tokenizer.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"

enum { MAX_IDS = 4096 };

static bool load(struct tft_map *map, const char *name, const char *suffix)
{
    char file[256];
    snprintf(file, sizeof file, "tokenizers/ggml-vocab-%s.gguf%s", name, suffix);
    const char *path = shared_path(file);
    return path && tft_port_map(map, path) == 0;
}

/* Reads a line of ids; returns the start of the next line. */
static const char *read_ids(const char *p, const char *end, int32_t *ids, size_t *n)
{
    *n = 0;
    while (p < end && *p != '\n') {
        char *after;
        long id = strtol(p, &after, 10);
        if (after == p)
            p++;
        else if (*n < MAX_IDS)
            ids[(*n)++] = (int32_t)id;
        p = after > p ? after : p;
    }
    return p + 1;
}

static void show(const char *what, const int32_t *ids, size_t n)
{
    printf("  %s:", what);
    for (size_t i = 0; i < n; i++)
        printf(" %" PRId32, ids[i]);
    printf("\n");
}

static bool encodes_to(const struct tft_tokenizer *t, const char *text, size_t len,
                       const int32_t *want, size_t n_want)
{
    int32_t ids[MAX_IDS];
    size_t n;
    if (tft_tokenizer_encode(t, text, len, 0, ids, MAX_IDS, &n) == TFT_OK && n == n_want &&
        !memcmp(ids, want, n * sizeof *ids))
        return true;
    printf("\"%.*s\" gives other tokens\n", (int)len, text);
    show("want", want, n_want);
    show("have", ids, n);
    return false;
}

static bool decodes_to(const struct tft_tokenizer *t, const int32_t *ids, size_t n,
                       const char *text, size_t len)
{
    struct tft_text state = {0};
    char all[MAX_IDS], out[TFT_TEXT_MAX];
    size_t used = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t k = tft_tokenizer_push(t, &state, i < n ? ids[i] : -1, out);
        if (used + k > sizeof all)
            return false;
        memcpy(all + used, out, k);
        used += k;
    }
    if (used == len && !memcmp(all, text, len))
        return true;
    printf("\"%.*s\" comes back as \"%.*s\"\n", (int)len, text, (int)used, all);
    return false;
}

static const char *find(const char *p, const char *end, const char *what)
{
    size_t n = strlen(what);
    for (; (size_t)(end - p) >= n; p++)
        if (!memcmp(p, what, n))
            return p;
    return end;
}

static int run(const struct tft_tokenizer *t, struct tft_map inp, struct tft_map out)
{
    const char *text = (const char *)inp.data, *end = text + inp.size;
    const char *line = (const char *)out.data, *last = line + out.size;
    int texts = 0, failed = 0;
    for (const char *stop; text < end && line < last; text = stop + strlen(SEPARATOR), texts++) {
        int32_t want[MAX_IDS];
        size_t n;
        stop = find(text, end, SEPARATOR);
        line = read_ids(line, last, want, &n);
        size_t len = (size_t)(stop - text);
        failed += !encodes_to(t, text, len, want, n) || !decodes_to(t, want, n, text, len);
    }
    printf("%d texts, %d failed\n", texts, failed);
    return texts < 30 || line < last || failed ? 1 : 0;
}

static int comes_back(const struct tft_tokenizer *t)
{
    static const char text[] = "Hello w\303\266rld,  it's 1234\n\n\344\275\240 \360\237\230\200";
    int32_t ids[64];
    size_t n;
    if (tft_tokenizer_encode(t, text, strlen(text), 0, ids, 64, &n) || n > 40)
        return 1;
    return !decodes_to(t, ids, n, text, strlen(text));
}

int main(int argc, char **argv)
{
    struct tft_map inp, out;
    struct tft_source s;
    struct tft_tokenizer *t;
    struct tft_error err;
    char vocab[256];
    bool open = argc == 3 && !strcmp(argv[1], "--open");
    if (argc < 2)
        return 2;
    if (open)
        argv++, argc--;
    snprintf(vocab, sizeof vocab, "tokenizers/ggml-vocab-%s.gguf", argv[1]);
    const char *path = argc > 2 ? argv[2] : shared_path(vocab);
    if (!path || (!open && (!load(&inp, argv[1], ".inp") || !load(&out, argv[1], ".out")))) {
        printf("skipped: shared/%s is not there\n", vocab);
        return 77;
    }
    if (tft_source_open(&s, path, NULL, NULL, &err) || tft_tokenizer_open(&t, &s, NULL, &err)) {
        puts(err.msg);
        return 1;
    }
    tft_source_close(&s);
    int status = open ? comes_back(t) : run(t, inp, out);
    tft_tokenizer_close(t);
    if (!open) {
        tft_port_unmap(&inp);
        tft_port_unmap(&out);
    }
    return status;
}
