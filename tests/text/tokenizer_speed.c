/*
 * The processor time that encoding takes, on one thread: 10 MB of text, and 1 MB of one character.
 *
 *      tokenizer_speed VOCAB [TEXT]
 *
 * VOCAB and TEXT are paths, or files of the folder shared/; TEXT, by default data/wiki.test.raw, is
 * repeated up to 10 MB. Exit status 77 if one is missing.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "paths.h"
#include "port/port.h"
#include "text/tokenizer.h"

enum { TEXT = 10 * 1000 * 1000, RUN = 1000 * 1000 };

static const char *find(const char *name)
{
    return *name == '/' ? name : shared_path(name);
}

static int encode(const struct tft_tokenizer *t, const char *what, const char *text, size_t n)
{
    size_t count;
    clock_t start = clock();
    if (tft_tokenizer_encode(t, text, n, 0, NULL, 0, &count))
        return 1;
    printf("%-8s %4.0f ms, %zu tokens\n", what,
           (double)(clock() - start) * 1000 / CLOCKS_PER_SEC, count);
    return 0;
}

int main(int argc, char **argv)
{
    static char text[TEXT];
    struct tft_source s;
    struct tft_tokenizer *t;
    struct tft_error err;
    struct tft_map map;
    char vocab[1024];
    const char *path = argc > 1 ? find(argv[1]) : NULL;
    if (!path || strlen(path) >= sizeof vocab)
        return 77;
    strcpy(vocab, path);
    path = find(argc > 2 ? argv[2] : "data/wiki.test.raw");
    if (!path || tft_port_map(&map, path) || !map.size)
        return 77;
    for (size_t at = 0; at < TEXT; at++)
        text[at] = (char)map.data[at % map.size];
    tft_port_unmap(&map);
    if (tft_source_open(&s, vocab, NULL, NULL, &err) || tft_tokenizer_open(&t, &s, NULL, &err)) {
        puts(err.msg);
        return 1;
    }
    tft_source_close(&s);
    int failed = encode(t, "text", text, TEXT);
    for (const char *c = "a .1"; *c; c++) {
        char what[] = "1 MB 'c'";
        what[6] = *c;
        memset(text, *c, RUN);
        failed |= encode(t, what, text, RUN);
    }
    tft_tokenizer_close(t);
    return failed;
}
