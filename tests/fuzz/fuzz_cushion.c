/*
 * The input is a .cushion file, which a search for a cushion resumes from. Byte 0 says whether its
 * magic, key, size of the vocabulary and checksum are made right, as nothing else gets past them.
 *
 * A state that is loaded is within bounds, and is saved to the same bytes. A search starts anew
 * from a file that is refused, and finds the same as without one. From any other it finds tokens of
 * the vocabulary.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "base/crc32.h"
#include "tools/quantize/search/cushion_checkpoint.h"
#include "tools/quantize/search/cushion_search.h"

enum { VOCAB = 24, TEXT = 40, SAMPLE = 10, HEAD = 80 + CUSHION_ROUNDS * 56, ENOUGH = 200 };
/* where the header has them: see cushion_checkpoint.c */
enum { KEY = 16, SIZE = 20, CRC = 24, N = 48 };

static const struct toy toy = {.arch = "gpt2", .n_vocab = VOCAB, .n_ctx = 64, .n_embd = 8,
                               .n_layer = 2, .n_head = 1, .n_head_kv = 1, .head_dim = 8,
                               .n_ff = 16, .type = TFT_F32, .tied = true};
static int32_t text[TEXT];

static bool count_down(void *user, uint32_t round, double done)
{
    (void)round;
    MUST(done >= 0 && done <= 1);
    return --*(int *)user > 0;
}

/* Searches for N steps at most, and checks the result. path: as cushion_opts.checkpoint */
static struct cushion search(struct tft_model *m, const char *path, int steps)
{
    static const int32_t start = 3;
    struct cushion c;
    bool stopped;
    struct cushion_opts o = {.text = text, .n_text = TEXT, .sample = SAMPLE, .start = &start,
                             .n_start = 1, .most = 3, .tau = 0.9, .cost = 1, .macs = 1,
                             .n_threads = 1, .checkpoint = path, .progress = count_down,
                             .user = &steps};
    MUST(cushion_search(m, &o, &c, &stopped, NULL) == TFT_OK);
    MUST(c.n >= o.n_start && c.n <= o.most && c.token[0] == start && c.tried <= CUSHION_ROUNDS);
    for (uint32_t i = 0; i < c.n; i++)
        MUST(c.token[i] >= 0 && c.token[i] < VOCAB);
    MUST(!stopped || steps == 0);
    return c;
}

static size_t read_all(const char *path, uint8_t *p, size_t most)
{
    FILE *f = fopen(path, "rb");
    MUST(f);
    size_t n = fread(p, 1, most, f);
    fclose(f);
    return n;
}

static void write_all(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    MUST(f && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static void put_u32(uint8_t *p, uint32_t x)
{
    memcpy(p, &x, sizeof x);
}

static struct tft_model *m; /* of floats */
static uint32_t key;        /* of its searches */
static struct cushion whole; /* their results */

static void begin(void)
{
    uint8_t head[HEAD];
    if (!m) {
        toy_tokens(196, VOCAB, text, TEXT);
        MUST(toy_write(&toy, fuzz_path(FUZZ_A)));
        MUST(tft_model_open_unexpanded(&m, fuzz_path(FUZZ_A), NULL, NULL) == TFT_OK);
        search(m, fuzz_path(FUZZ_B), 3);
        MUST(read_all(fuzz_path(FUZZ_B), head, HEAD) == HEAD);
        key = get_u32(head + KEY);
        whole = search(m, NULL, ENOUGH);
    }
}

static void mend(uint8_t *p, size_t n)
{
    if (n < HEAD)
        return;
    memcpy(p, "tuffet cushion 4", KEY);
    put_u32(p + KEY, key);
    put_u32(p + SIZE, VOCAB);
    put_u32(p + CRC, 0);
    put_u32(p + CRC, tft_crc32(0, p, n));
}

static void check_loaded(const struct checkpoint *c)
{
    MUST(c->found.tried < CUSHION_ROUNDS && c->sampled <= 1 && c->next <= c->n && c->n <= VOCAB);
    for (uint32_t i = 0; i < CUSHION_ROUNDS; i++) {
        const struct cushion_round *r = &c->found.round[i];
        MUST(r->token >= 0 && r->token < VOCAB && r->taken <= 1);
    }
    for (uint32_t i = 0; i < c->n; i++)
        MUST(c->candidate[i].token >= 0 && c->candidate[i].token < VOCAB);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MOST = HEAD + (VOCAB + 2) * sizeof(struct candidate) };
    uint8_t file[MOST], again[MOST + 1];
    struct candidate room[VOCAB];
    struct checkpoint c = {.candidate = room};
    bool loaded;
    begin();
    const char *path = fuzz_path(FUZZ_B);
    if (!size || size - 1 > MOST)
        return 0;
    size_t n = size - 1;
    memcpy(file, data + 1, n);
    if (data[0] % 2)
        mend(file, n);
    write_all(path, file, n);
    loaded = checkpoint_load(path, key, &c, VOCAB);
    if (loaded) {
        MUST(n == HEAD + get_u32(file + N) * sizeof *room);
        check_loaded(&c);
        MUST(checkpoint_save(fuzz_path(FUZZ_C), key, &c, VOCAB));
        MUST(read_all(fuzz_path(FUZZ_C), again, sizeof again) == n && !memcmp(again, file, n));
    } else if (data[0] / 2 % 8) { /* most of the time: the search takes long */
        return 0;
    }
    struct cushion found = search(m, path, ENOUGH);
    MUST(loaded || memcmp(found.round, whole.round, sizeof whole.round) == 0);
    return 0;
}
