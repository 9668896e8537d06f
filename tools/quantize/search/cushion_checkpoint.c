#include "tools/quantize/search/cushion_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "port/port.h"

/* The file's header, in the machine's byte order: the file is not meant for another machine. */
struct head {
    char magic[16];
    uint32_t key, n_vocab, crc; /* crc: of header, with crc 0, and candidates */
    uint32_t tried, sampled, layers, stage, window, n, next;
    double done, alone, nats;
    struct cushion_round round[CUSHION_ROUNDS];
};
static const char magic[16] = "tuffet cushion 4";

static uint32_t crc_of(const struct head *h, const struct candidate *c, size_t n)
{
    struct head copy;
    memcpy(&copy, h, sizeof copy); /* including padding */
    copy.crc = 0;
    return tft_crc32(tft_crc32(0, &copy, sizeof copy), c, n * sizeof *c);
}

static bool put(FILE *f, const struct head *h, const struct candidate *c, size_t n)
{
    bool written = fwrite(h, sizeof *h, 1, f) == 1 && fwrite(c, sizeof *c, n, f) == n;
    return fclose(f) == 0 && written;
}

/* A killed search finds the old file intact, and leaves no other file. */
bool checkpoint_save(const char *path, uint32_t key, const struct checkpoint *c, uint32_t n_vocab)
{
    struct head h;
    struct tft_temp d = {.name = malloc(strlen(path) + TFT_TEMP_ROOM)};
    FILE *f;
    if (!d.name)
        return false;
    memset(&h, 0, sizeof h); /* padding is written too */
    memcpy(h.magic, magic, sizeof magic);
    h.key = key;
    h.n_vocab = n_vocab;
    h.tried = c->found.tried;
    h.sampled = c->sampled;
    h.layers = c->layers;
    h.stage = c->stage;
    h.window = c->window;
    h.n = c->n;
    h.next = c->next;
    h.done = c->done;
    h.alone = c->alone;
    h.nats = c->nats;
    memcpy(h.round, c->found.round, sizeof h.round);
    h.crc = crc_of(&h, c->candidate, c->n);

    bool begun = tft_port_temp(&d, &f, path) == 0;
    bool saved = begun && put(f, &h, c->candidate, c->n) && tft_port_keep(&d, path) == 0;
    if (begun && !saved)
        tft_port_discard(&d);
    free(d.name);
    return saved;
}

/* Whether header and candidates are intact and within bounds. */
static bool intact(const struct head *h, uint32_t key, const struct candidate *c, uint32_t n_vocab)
{
    if (h->crc != crc_of(h, c, h->n) || h->key != key || h->tried >= CUSHION_ROUNDS ||
        h->next > h->n || h->sampled > 1)
        return false;
    for (uint32_t i = 0; i < CUSHION_ROUNDS; i++)
        if ((uint32_t)h->round[i].token >= n_vocab || h->round[i].taken > 1)
            return false;
    for (uint32_t i = 0; i < h->n; i++)
        if (c[i].token < 0 || c[i].token >= n_vocab)
            return false;
    return true;
}

static bool get(FILE *f, struct head *h, uint32_t key, struct candidate *c, uint32_t n_vocab)
{
    return fread(h, sizeof *h, 1, f) == 1 && memcmp(h->magic, magic, sizeof magic) == 0 &&
           h->n_vocab == n_vocab && h->n <= n_vocab && fread(c, sizeof *c, h->n, f) == h->n &&
           fgetc(f) == EOF && intact(h, key, c, n_vocab);
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
    c->found.tried = h.tried;
    c->sampled = h.sampled;
    c->layers = h.layers;
    c->stage = h.stage;
    c->window = h.window;
    c->n = h.n;
    c->next = h.next;
    c->done = h.done;
    c->alone = h.alone;
    c->nats = h.nats;
    memcpy(c->found.round, h.round, sizeof h.round);
    return true;
}
