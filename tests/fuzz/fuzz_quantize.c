/*
 * The input chooses a toy model, some of its weights, and the options of quantize(); a text after a
 * NUL, if there is one, is the KV cache to store. quantize() refuses them with one line, and leaves
 * no file. Or it writes a file, the same bytes on any ISA level, and the file opens and has logits
 * of the same bits on all levels.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "run/session.h"
#include "simd/kernels.h"
#include "tools/quantize/quantize.h"

enum {
    LAYERS = 2,
    TEXT = 96,
    PREFIX = 3,
    TOKENS = 40,
    POKES = 6,
    MOST_FILE = 1 << 20,
    INPUTS = LAYERS * TFT_LAYER_INPUTS + 1
};

struct plan {
    struct toy toy;
    struct quantize_opts o;
    int32_t text[TEXT], prefix[PREFIX];
    uint8_t bits[LAYERS * LAYER_MATS];
    enum tft_range range[INPUTS];
};

static void choose_toy(struct bytes *b, struct toy *t)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "gpt2"};
    static const enum tft_dtype types[] = {TFT_F32, TFT_F16, TFT_BF16};
    uint32_t groups = 1 + choose(b, 2), shared = 1 + choose(b, 2), how = choose(b, 256);
    *t = (struct toy){.arch = archs[how % 4], .type = types[how / 4 % 3], .tied = how / 16 % 2,
                      .n_vocab = 20 + choose(b, 40), .n_ctx = 128, .n_layer = 1 + how / 32 % 2,
                      .head_dim = 2 * (2 + choose(b, 15)), .n_embd = 4 * (1 + choose(b, 16)),
                      .n_ff = 1 + choose(b, 130), .seed = how};
    bool is_gpt2 = how % 4 == 3;
    t->n_head_kv = is_gpt2 ? groups * shared : groups;
    t->n_head = groups * shared;
    t->n_rot = is_gpt2 ? 0 : t->head_dim;
    if (is_gpt2) /* has no width of heads of its own */
        t->n_embd = t->n_head * t->head_dim;
}

static void choose_opts(struct bytes *b, struct plan *p)
{
    static const uint32_t groups[] = {32, 64, 128};
    static const enum tft_dtype types[] = {0, TFT_Q8_0, TFT_Q4_1};
    static const uint8_t bits[] = {8, 8, 2, 3, 4};
    uint32_t how = choose(b, 256), more = choose(b, 256), few = choose(b, 4);
    for (int i = 0; i < LAYERS * LAYER_MATS; i++)
        p->bits[i] = few ? bits[choose(b, 5)] : 8;
    for (int i = 0; i < INPUTS; i++)
        p->range[i] = how % 2 ? (enum tft_range)(TFT_RANGE_STATIC + choose(b, 2))
                              : TFT_RANGE_STATIC;
    toy_tokens(more, p->toy.n_vocab, p->text, TEXT);
    toy_tokens(how, p->toy.n_vocab, p->prefix, PREFIX);
    p->o = (struct quantize_opts){.text = p->text, .n_text = choose(b, TEXT + 1),
                                  .window = choose(b, 50),
                                  .method = (enum range_method)(how / 2 % 3),
                                  .param = 50 + choose(b, 101) / 2.0,
                                  .smooth = how / 8 % 4 ? 0 : (float)choose(b, 5) / 4,
                                  .rotate = (enum quantize_rotate)(more % 4),
                                  .per_tensor = !few && more / 4 % 2,
                                  .bits = few ? p->bits : NULL, .group = groups[more / 8 % 3],
                                  .rounding = (enum quantize_rounding)(more / 32 % 3),
                                  .prefix = p->prefix, .n_prefix = how / 32 % (PREFIX + 1),
                                  .prefix_type = types[choose(b, 3)], .range = p->range,
                                  .n_threads = 1};
    if (p->o.rounding == QUANTIZE_AWQ)
        p->o.smooth = 0; /* quantize() asks for it */
}

/* Other weights, at the end of the toy's file: any bits, so also infinite ones. */
static void poke(struct bytes *b, const char *path)
{
    FILE *f = fopen(path, "r+b");
    MUST(f);
    for (uint32_t i = choose(b, POKES); i > 0; i--) {
        uint8_t x[4];
        for (int k = 0; k < 4; k++)
            x[k] = (uint8_t)choose(b, 256);
        MUST(fseek(f, -4 * (1 + (long)choose(b, 512)), SEEK_END) == 0 && fwrite(x, 4, 1, f) == 1);
    }
    MUST(fclose(f) == 0);
}

static enum tft_status convert(struct plan *p, const char *to, int isa)
{
    struct quantize_input result[INPUTS];
    struct tft_error err = {0};
    struct tft_model *m;
    bool stopped = false;
    MUST(tft_cpu_limit(tft_kernels_name(isa)) == TFT_OK);
    enum tft_status status = tft_model_open_unexpanded(&m, fuzz_path(FUZZ_A), NULL, &err);
    remove(to);
    if (status == TFT_OK)
        status = quantize(m, to, &p->o, result, &stopped, &err);
    tft_model_close(m);
    MUST(!stopped && (access(to, F_OK) == 0) == (status == TFT_OK));
    if (status != TFT_OK)
        fuzz_check_line(&err, status);
    return status;
}

static void same_files(const char *a, const char *b)
{
    static uint8_t x[MOST_FILE], y[MOST_FILE];
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    MUST(f && g);
    size_t n = fread(x, 1, MOST_FILE, f), k = fread(y, 1, MOST_FILE, g);
    MUST(n == k && n < MOST_FILE && memcmp(x, y, n) == 0);
    fclose(f);
    fclose(g);
}

/* The logits after some tokens, in f16 and in the cache that the file has; returns the status. */
static enum tft_status compute(const char *path, uint32_t n_vocab, const char *kv, float *logits)
{
    struct tft_model *m = fuzz_open(path);
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1, .n_batch = 7, .kv = kv};
    struct tft_session *s;
    int32_t tokens[TOKENS];
    toy_tokens(9, n_vocab, tokens, TOKENS);
    enum tft_status status = tft_session_open(&s, m, &o, NULL);
    if (status == TFT_OK)
        status = tft_prefill(s, tokens, TOKENS);
    if (status == TFT_OK)
        memcpy(logits, tft_logits(s, 0), n_vocab * sizeof *logits);
    tft_session_close(s);
    tft_model_close(m);
    return status;
}

static void check_isas(const char *path, uint32_t n_vocab, const char *kv)
{
    enum { MOST_VOCAB = 60 };
    float want[MOST_VOCAB], got[MOST_VOCAB];
    enum tft_status first = TFT_OK;
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        MUST(tft_cpu_limit(tft_kernels_name(isa)) == TFT_OK);
        enum tft_status status = compute(path, n_vocab, kv, isa ? got : want);
        first = isa ? first : status;
        MUST(status == first);
        MUST(!isa || status != TFT_OK || memcmp(want, got, n_vocab * sizeof *got) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct plan p;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    struct bytes b = {data, end ? end : data + size};
    char *kv = end ? malloc((size_t)(data + size - end)) : NULL;
    if (end) {
        MUST(kv);
        memcpy(kv, end + 1, (size_t)(data + size - end) - 1);
        kv[data + size - end - 1] = 0;
    }
    choose_toy(&b, &p.toy);
    choose_opts(&b, &p);
    p.o.kv = kv;
    MUST(toy_write(&p.toy, fuzz_path(FUZZ_A)));
    poke(&b, fuzz_path(FUZZ_A));
    enum tft_status status = convert(&p, fuzz_path(FUZZ_B), 0);
    int isa = (int)choose(&b, (uint32_t)tft_kernels_isas());
    MUST(convert(&p, fuzz_path(FUZZ_C), isa) == status);
    if (status == TFT_OK) {
        same_files(fuzz_path(FUZZ_B), fuzz_path(FUZZ_C));
        check_isas(fuzz_path(FUZZ_B), p.toy.n_vocab, NULL);
        check_isas(fuzz_path(FUZZ_B), p.toy.n_vocab, "f16");
    }
    free(kv);
    return 0;
}
