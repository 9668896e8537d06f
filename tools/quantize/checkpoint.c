#include "checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"

/* The file, in the byte order of the machine: it does not travel. */
struct head {
    char magic[16];
    uint32_t key, n_vocab, crc; /* crc: of all that follows */
    uint32_t n_token, tried, layers, stage, window, n, next;
    int32_t token[CUSHION_MAX];
    double before[CUSHION_MAX], after[CUSHION_MAX], done;
};
static const char magic[16] = "tuffet cushion 2";

static uint32_t crc_of(const struct head *h, const struct candidate *c, size_t n)
{
    struct head copy = *h;
    copy.crc = 0;
    return tft_crc32(tft_crc32(0, &copy, sizeof copy), c, n * sizeof *c);
}

static bool put(FILE *f, const struct head *h, const struct candidate *c, size_t n)
{
    bool written = fwrite(h, sizeof *h, 1, f) == 1 && fwrite(c, sizeof *c, n, f) == n;
    return fclose(f) == 0 && written;
}

/* Under another name first: a search that is killed here still finds the old one. */
bool checkpoint_save(const char *path, uint32_t key, const struct checkpoint *c, uint32_t n_vocab)
{
    struct head h;
    size_t len = strlen(path);
    char *draft = malloc(len + sizeof ".new");
    if (!draft)
        return false;
    memcpy(draft, path, len);
    memcpy(draft + len, ".new", sizeof ".new");
    memset(&h, 0, sizeof h); /* its padding is written too */
    memcpy(h.magic, magic, sizeof magic);
    h.key = key;
    h.n_vocab = n_vocab;
    h.n_token = c->found.n;
    h.tried = c->found.tried;
    h.layers = c->layers;
    h.stage = c->stage;
    h.window = c->window;
    h.n = c->n;
    h.next = c->next;
    h.done = c->done;
    memcpy(h.token, c->found.token, sizeof h.token);
    memcpy(h.before, c->found.before, sizeof h.before);
    memcpy(h.after, c->found.after, sizeof h.after);
    h.crc = crc_of(&h, c->candidate, c->n);

    FILE *f = fopen(draft, "wb");
    bool saved = f && put(f, &h, c->candidate, c->n) && rename(draft, path) == 0;
    if (f && !saved)
        remove(draft);
    free(draft);
    return saved;
}

static bool sound(const struct head *h, uint32_t key, const struct candidate *c, uint32_t n_vocab)
{
    if (h->crc != crc_of(h, c, h->n) || h->key != key || h->n_token > CUSHION_MAX || h->tried > CUSHION_MAX || h->next > h->n)
        return false;
    for (uint32_t i = 0; i < h->n_token; i++)
        if (h->token[i] < 0 || (uint32_t)h->token[i] >= n_vocab)
            return false;
    for (uint32_t i = 0; i < h->n; i++)
        if (c[i].token < 0 || c[i].token >= n_vocab)
            return false;
    return true;
}

static bool get(FILE *f, struct head *h, uint32_t key, struct candidate *c, uint32_t n_vocab)
{
    return fread(h, sizeof *h, 1, f) == 1 && memcmp(h->magic, magic, sizeof magic) == 0 && h->n_vocab == n_vocab && h->n <= n_vocab &&
           fread(c, sizeof *c, h->n, f) == h->n && fgetc(f) == EOF && sound(h, key, c, n_vocab);
}

bool checkpoint_load(const char *path, uint32_t key, struct checkpoint *c, uint32_t n_vocab)
{
    struct head h;
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    bool whole = get(f, &h, key, c->candidate, n_vocab);
    fclose(f);
    if (!whole)
        return false;
    c->found.n = h.n_token;
    c->found.tried = h.tried;
    c->layers = h.layers;
    c->stage = h.stage;
    c->window = h.window;
    c->n = h.n;
    c->next = h.next;
    c->done = h.done;
    memcpy(c->found.token, h.token, sizeof h.token);
    memcpy(c->found.before, h.before, sizeof h.before);
    memcpy(c->found.after, h.after, sizeof h.after);
    return true;
}
