/* The functions of tuffet_quantize.h. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "fed.h"
#include "layer_toys.h"
#include "same_tensors.h"
#include "tools/quantize/tuffet_quantize.h"

static const struct toy talker = {.arch = "llama",
                                  .n_vocab = TOY_VOCAB,
                                  .n_ctx = 700,
                                  .n_embd = 32,
                                  .n_layer = 2,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .head_dim = 8,
                                  .n_ff = 64,
                                  .n_rot = 8,
                                  .type = TFT_F32,
                                  .vocab = "gpt2"};

/* The steps of a call, and where to stop it. */
enum { MOST_STEPS = 64 };
struct seen {
    char step[MOST_STEPS][64]; /* [n] */
    unsigned n;
    double done;           /* the last value that was told */
    double at[MOST_STEPS]; /* [n] when the step began */
    const char *stop;
    uint64_t temps; /* the most bytes that temporary files had together */
};

/* Files without a name, each once, although several descriptors are open. */
static uint64_t bytes_of_unnamed(void)
{
    uint64_t all = 0;
    ino_t seen[256];
    unsigned n = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct stat s;
        bool counted = fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_nlink > 0;
        for (unsigned i = 0; i < n && !counted; i++)
            counted = seen[i] == s.st_ino;
        if (counted)
            continue;
        seen[n++] = s.st_ino;
        all += (uint64_t)s.st_size;
    }
    return all;
}

/* Where files cannot lack a name. */
static uint64_t bytes_of_named(void)
{
    uint64_t all = 0;
    char path[128];
    for (int i = 0; i < 4; i++) {
        struct stat s;
        snprintf(path, sizeof path, "%s/library.gguf.tmp%d", folder, i);
        if (stat(path, &s) == 0)
            all += (uint64_t)s.st_size;
    }
    return all;
}

static bool watch(void *user, const char *step, double done)
{
    struct seen *s = user;
    uint64_t temps = bytes_of_unnamed() + bytes_of_named();
    assert_true(done >= s->done && done <= 1);
    s->done = done;
    s->temps = temps > s->temps ? temps : s->temps;
    if (s->n < MOST_STEPS && (!s->n || strcmp(s->step[s->n - 1], step) != 0)) {
        s->at[s->n] = done;
        snprintf(s->step[s->n++], sizeof s->step[0], "%s", step);
    }
    return !s->stop || strcmp(step, s->stop) != 0;
}

static struct tft_quantize_opts small(struct seen *s)
{
    *s = (struct seen){.n = 0};
    return (struct tft_quantize_opts){.size = sizeof(struct tft_quantize_opts),
                                      .n_threads = 1,
                                      .calib_tokens = 512,
                                      .calib_window = 64,
                                      .intact = TFT_INTACT_BOS,
                                      .progress = watch,
                                      .user = s};
}

static bool has_step(const struct seen *s, const char *step)
{
    for (unsigned i = 0; i < s->n; i++)
        if (strcmp(s->step[i], step) == 0)
            return true;
    return false;
}

/* Results are values, and the file is the one of the results. */
static void makes_a_model(void **state)
{
    (void)state;
    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_quantize_result *r;
    struct tft_error err;
    const char *from = written(&talker), *out = in_folder("library.gguf");
    o.dynamic = "ffn_down";
    if (tft_quantize(from, out, &o, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_true(has_step(&seen, "writing calibration text"));
    assert_true(has_step(&seen, "quantizing"));
    assert_true(has_step(&seen, "checking"));
    assert_true(seen.done == 1);
    for (unsigned i = 1; i < seen.n; i++)
        assert_true(seen.at[i] > 0 && seen.at[i] < 1);
    assert_int_equal(r->size, sizeof *r);
    assert_int_equal(r->window, 64);
    assert_true(r->n_tokens >= 64 && r->n_tokens % 64 == 0);
    assert_true(r->n_check && r->check[0].tokens && r->check[0].divergence < 1);
    assert_null(r->bits);
    assert_null(r->kv);
    char line[64];
    snprintf(line, sizeof line, "check: %s: perplexity", r->check[0].group);
    assert_non_null(strstr(r->report, line));
    assert_non_null(strstr(r->json, "{\"seconds\":"));
    size_t dynamic = 0;
    for (size_t i = 0; i < r->n_input; i++) {
        bool down = strstr(r->input[i].name, "ffn_down");
        assert_int_equal(r->input[i].per_token, down);
        dynamic += down;
    }
    assert_int_equal(dynamic, 2); /* layers */

    struct tft_model *m = opened(out);
    assert_int_equal(m->n_prefix, r->n_prefix);
    assert_int_equal(r->n_prefix, 1);
    assert_int_equal(r->prefix[0], tft_token_bos(m));
    tft_model_close(m);
    tft_quantize_free(r);
    tft_quantize_free(NULL);
    remove(out);
}

static char *whole_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    char *bytes = malloc(*n);
    assert_non_null(bytes);
    rewind(f);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

/* The file has tables, which serve any number of bits, and the same bytes with any number of
   threads. */
static void calibrates_a_cache(void **state)
{
    (void)state;
    char *bytes[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        struct seen seen;
        struct tft_quantize_opts o = small(&seen);
        struct tft_error err;
        const char *out = in_folder("library.gguf");
        o.kv = "fisher:bits=2,window=16";
        o.n_threads = 1 + i;
        if (tft_quantize(written(&talker), out, &o, NULL, &err) != TFT_OK)
            fail_msg("%s", err.msg);
        assert_true(has_step(&seen, "calibrating the KV cache"));
        bytes[i] = whole_file(out, &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
    struct tft_model *m = opened(in_folder("library.gguf"));
    assert_string_equal(m->kv_text, "fisher:bits=2,window=16");
    assert_true(m->kv_fisher[TFT_KV_K] && m->kv_fisher[TFT_KV_V]);
    size_t few = tft_kv_bytes(m, NULL, NULL), more = tft_kv_bytes(m, "fisher:bits=4", NULL);
    assert_true(few > 0 && more > few && more < tft_kv_bytes(m, "f16", NULL));
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    int32_t tokens[100];
    toy_tokens(3, m->n_vocab, tokens, 100);
    assert_int_equal(tft_prefill(s, tokens, 100), TFT_OK);
    assert_true(s->kv.at[TFT_KV_K].blocks > 0 && isfinite(tft_logits(s, 0)[0]));
    tft_session_close(s);
    tft_model_close(m);
    remove(in_folder("library.gguf"));
}

/* Bytes of a token of a model's cache fisher, in a session of `depth` tokens; 0: in a block. */
static double bytes_of(const struct tft_model *m, const char *kv, uint32_t depth)
{
    struct tft_kv_policy p;
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    assert_int_equal(tft_kv_parse(&p, kv, NULL), TFT_OK);
    uint64_t block = tft_kv_block_bytes(&shape, &p);
    return depth ? (double)tft_kv_held_bytes(&shape, &p, depth, block) / depth
                 : (double)block / tft_kv_block(&p);
}

/* Makes a model within a budget, and asserts that 1/64 of a bit more would not fit. */
static void takes_most_bits(const char *gguf, const char *search, double bits, double bytes,
                            uint32_t depth)
{
    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_quantize_result *r;
    struct tft_error err;
    const char *out = in_folder("library.gguf");
    o.intact = gguf ? TFT_INTACT_AUTO : o.intact;
    o.gguf = gguf;
    o.kv = "fisher:window=16";
    o.kv_search = search;
    if (tft_quantize(written(&talker), out, &o, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_non_null(r->kv);
    struct tft_model *m = opened(out);
    struct tft_kv_policy p;
    char more[64];
    bytes = bits > 0 ? bits * 2 * (double)m->kv_numbers / 8 : bytes;
    assert_string_equal(m->kv_text, r->kv);
    assert_int_equal(tft_kv_parse(&p, r->kv, NULL), TFT_OK);
    assert_true(p.k.window == 16 && p.k.run[0].bits < 4);
    snprintf(more, sizeof more, "fisher:window=16,bits=%.6g", (double)p.k.run[0].bits + 1.0 / 64);
    double takes = bytes_of(m, r->kv, depth), over = bytes_of(m, more, depth);
    if (!(takes <= bytes && bytes < over))
        fail_msg("%s: %s takes %g bytes, %s %g", search, r->kv, takes, more, over);
    tft_model_close(m);
    tft_quantize_free(r);
    remove(out);
}

static void chooses_bits_within_a_budget(void **state)
{
    (void)state;
    takes_most_bits(NULL, "2.5", 2.5, 0, 0);
    takes_most_bits("q4_0", "2.5", 2.5, 0, 0);
    takes_most_bits(NULL, "3.5@2000", 3.5, 0, 2000);
    struct tft_model *m = opened(written(&talker));
    char search[32];
    unsigned bytes = (unsigned)(m->kv_numbers * 2 * 1.75 / 8);
    tft_model_close(m);
    snprintf(search, sizeof search, "%uB", bytes);
    takes_most_bits(NULL, search, 0, bytes, 0);

    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_error err;
    o.kv = "fisher:window=16";
    o.kv_search = "1B";
    assert_int_equal(tft_quantize(written(&talker), in_folder("library.gguf"), &o, NULL, &err),
                     TFT_ERR_ARG);
    if (!strstr(err.msg, "the KV cache fisher takes at least 6 bytes per token"))
        fail_msg("%s", err.msg);
}

/* Makes the file `name` of a model: a plain one, with a cache or NULL. */
static const char *plain(const char *from, const char *name, const char *type, const char *kv)
{
    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_error err;
    const char *out = in_folder(name);
    o.intact = TFT_INTACT_AUTO;
    o.gguf = type;
    o.kv = kv;
    bool fisher = kv && strstr(kv, "fisher"), blocks = tolower(*type) == 'q';
    o.calib_window = fisher || blocks ? 64 : 0; /* others read no text */
    if (tft_quantize(from, out, &o, NULL, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(has_step(&seen, "calibrating the KV cache"), fisher);
    return out;
}

/* The mean divergence of a cache from f16 over the last tokens of a text, in nats. */
static double nats_from_f16(const struct tft_model *m, const char *kv)
{
    enum { N = 400, LAST = 100 };
    int32_t tokens[N];
    struct tft_session *s[2];
    double sum = 0;
    toy_tokens(5, m->n_vocab, tokens, N);
    for (int i = 0; i < 2; i++) {
        s[i] = session(m, (struct tft_session_opts){.kv = i ? kv : "f16", .n_threads = 1});
        assert_int_equal(tft_prefill(s[i], tokens, N - LAST), TFT_OK);
    }
    for (int t = N - LAST; t < N; t++) {
        double all[2] = {0}, d = 0;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(tft_decode(s[i], tokens[t]), TFT_OK);
            for (uint32_t j = 0; j < m->n_vocab; j++)
                all[i] += exp((double)tft_logits(s[i], 0)[j]);
        }
        for (uint32_t j = 0; j < m->n_vocab; j++) {
            double x = (double)tft_logits(s[0], 0)[j], y = (double)tft_logits(s[1], 0)[j];
            d += exp(x) / all[0] * (x - log(all[0]) - y + log(all[1]));
        }
        sum += d / LAST;
    }
    tft_session_close(s[0]);
    tft_session_close(s[1]);
    return sum;
}

/* More bits lose less in a file that is calibrated for fisher. */
static void loses_less_with_bits(const struct tft_model *m)
{
    double half = nats_from_f16(m, "fisher:window=16,bits=0.5"),
           two = nats_from_f16(m, "fisher:window=16,bits=2"),
           four = nats_from_f16(m, "fisher:window=16,bits=4");
    if (!(half > two && two > four && four > 0))
        fail_msg("%s: %g nats with half a bit, %g with 2, %g with 4", m->source.name, half, two,
                 four);
}

/* A plain file's tables are no tensors, and no other byte of weights changes, whether blocks are
   made or kept. More bits lose less. */
static void calibrates_plain_files(void **state)
{
    (void)state;
    static const char *const types[] = {"f16", "q4_0", "Q8_0"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *from = written(&talker);
        struct tft_model *bare = opened(plain(from, "bare.gguf", types[i], NULL)),
                         *made = opened(plain(from, "made.gguf", types[i], "fisher:window=16")),
                         *kept = opened(plain(in_folder("bare.gguf"), "kept.gguf", "keep",
                                              "fisher:window=16"));
        size_t bytes = sizeof(float) * 11 * bare->kv_numbers;
        same_tensors(&made->source, &bare->source);
        same_tensors(&kept->source, &bare->source);
        assert_null(bare->kv_fisher[0]);
        assert_string_equal(kept->kv_text, "fisher:window=16");
        for (int side = 0; side < TFT_KV_SIDES; side++)
            assert_memory_equal(made->kv_fisher[side], kept->kv_fisher[side], bytes);
        for (size_t k = 0; k < bare->source.n_value; k++) /* also general.file_type */
            if (!tft_str_is(bare->source.value[k].key, "tuffet.checksum")) {
                char key[80];
                snprintf(key, sizeof key, "%.*s", TFT_STR_ARG(bare->source.value[k].key));
                assert_non_null(tft_source_value(&kept->source, key));
            }
        loses_less_with_bits(kept);
        tft_model_close(bare);
        tft_model_close(made);
        tft_model_close(kept);
    }
}

/* gemma4: layers with windows have other heads, and two layers without share their keys. */
static void calibrates_layers_that_differ(void **state)
{
    static const bool all[] = {true, true, true, true, true, true};
    (void)state;
    struct tft_error err;
    struct seen seen;
    struct toy t = layer_toys[0];
    t.n_vocab = TOY_VOCAB;
    t.vocab = talker.vocab;
    struct tft_model *m = opened(plain(written(&t), "kept.gguf", "keep", "fisher:window=16"));
    assert_true(m->n_shared && m->kv_heads);
    loses_less_with_bits(m);
    tft_model_close(m);
    struct tft_quantize_opts o = small(&seen);
    t.windows = all;
    o.kv = "fisher";
    assert_int_equal(tft_quantize(written(&t), in_folder("no.gguf"), &o, NULL, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "all layers have windows"));
}

/* A cache without calibration becomes the default. One that W8A8 files are calibrated for is
   refused. */
static void plain_files_have_a_default_cache(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"skvq", "--kv skvq is for W8A8 models"},
        {"tuffet", "--kv tuffet is for W8A8 models"},
        {"rtn:clip=calibrated", "--kv rtn:clip=calibrated is for W8A8 models"},
        {"nothing", "--kv: "}};
    struct seen seen;
    struct tft_error err;
    struct tft_model *m =
        opened(plain(written(&talker), "kept.gguf", "keep", "kivi:window=32"));
    assert_string_equal(m->kv_text, "kivi:window=32");
    assert_null(m->kv_fisher[0]);
    tft_model_close(m);
    struct tft_quantize_opts o = small(&seen);
    o.intact = TFT_INTACT_AUTO;
    o.gguf = "q4_0";
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        o.kv = refused[i][0];
        assert_int_equal(tft_quantize(written(&talker), in_folder("no.gguf"), &o, NULL, &err),
                         TFT_ERR_ARG);
        if (strncmp(err.msg, refused[i][1], strlen(refused[i][1])) != 0)
            fail_msg("%s: %s", refused[i][0], err.msg);
    }
    o.kv = "kivi";
    o.kv_search = "2.5";
    assert_int_equal(tft_quantize(written(&talker), in_folder("no.gguf"), &o, NULL, &err),
                     TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "--kv-search is for W8A8 models"));
}

static void finds_bits_and_a_cache(void **state)
{
    (void)state;
    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_quantize_result *r;
    struct tft_error err;
    const char *out = in_folder("library.gguf");
    o.bits_search = "6";
    o.group = 32;
    o.dynamic = "none";
    if (tft_quantize(written(&talker), out, &o, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_non_null(r->bits);
    assert_true(strchr("2348", r->bits[0]) != NULL);
    struct stat size;
    assert_int_equal(stat(out, &size), 0); /* the model of 8 bits went before this one came */
    assert_true((double)seen.temps > 0.9 * (double)size.st_size &&
                (double)seen.temps < 1.6 * (double)size.st_size);
    struct tft_quantize_opts again = small(&seen);
    struct tft_quantize_result *other;
    again.bits = r->bits;
    again.group = 32;
    again.dynamic = "none";
    const char *same = in_folder("same.gguf");
    if (tft_quantize(written(&talker), same, &again, &other, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(r->n_input, other->n_input);
    for (size_t i = 0; i < r->n_input; i++)
        assert_true(r->input[i].scale == other->input[i].scale);
    tft_quantize_free(other);
    tft_quantize_free(r);
    remove(out);
    remove(same);
}

/* A call that is stopped at a step, any of them, leaves the folder as it was. */
static void cancels(void **state)
{
    (void)state;
    struct seen all, seen;
    struct tft_quantize_opts o = small(&all);
    struct tft_error err;
    const char *from = written(&talker), *out = in_folder("library.gguf");
    o.bits_search = "6";
    o.group = 32;
    assert_int_equal(tft_quantize(from, out, &o, NULL, &err), TFT_OK);
    remove(out);
    int before = files_in_folder(false);
    assert_true(all.n >= 5);
    for (unsigned i = 0; i < all.n; i++) {
        struct tft_quantize_opts stopped = o;
        struct tft_quantize_result *r;
        seen = (struct seen){.stop = all.step[i]};
        stopped.user = &seen;
        assert_int_equal(tft_quantize(from, out, &stopped, &r, &err), TFT_ERR_CANCELLED);
        assert_null(r);
        assert_non_null(strstr(err.msg, all.step[i]));
        assert_int_equal(files_in_folder(false), before);
    }
}

#ifdef WRAPS_CALLOC

static long callocs, failing = -1; /* calls so far; the call that fails */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return callocs++ == failing ? NULL : __real_calloc(n, size);
}

/* The last memory that a call takes is for the results. */
static void writes_no_file_without_memory_for_results(void **state)
{
    (void)state;
    struct seen seen;
    struct tft_quantize_opts o = small(&seen);
    struct tft_quantize_result *r;
    struct tft_error err;
    const char *from = written(&talker), *out = in_folder("library.gguf");
    remove(out);
    int before = files_in_folder(false);
    callocs = 0;
    assert_int_equal(tft_quantize(from, out, &o, &r, NULL), TFT_OK);
    tft_quantize_free(r);
    remove(out);
    failing = callocs - 1;
    callocs = 0;
    o = small(&seen);
    assert_int_equal(tft_quantize(from, out, &o, &r, &err), TFT_ERR_NOMEM);
    failing = -1;
    assert_null(r);
    assert_non_null(strstr(err.msg, "results"));
    assert_int_equal(files_in_folder(false), before);
}

#else

static void writes_no_file_without_memory_for_results(void **state)
{
    (void)state;
    skip_because("the linker does not wrap calloc");
}

#endif

/* Options that do not fit are errors with the name of the option. */
static void refuses(void **state)
{
    (void)state;
    struct seen seen;
    struct tft_error err;
    const char *from = written(&talker), *out = in_folder("library.gguf");
    int before = files_in_folder(false);
    struct {
        struct tft_quantize_opts o;
        const char *why;
    } wrong[] = {{small(&seen), "--group"},       {small(&seen), "--bits:"},
                 {small(&seen), "--bits-search"}, {small(&seen), "--dynamic"},
                 {small(&seen), "--smooth"},      {small(&seen), "--intact-tokens"},
                 {small(&seen), "--kv"},          {small(&seen), "--kv-search"},
                 {small(&seen), "--template"},    {small(&seen), "--special"},
                 {small(&seen), "--cushion-max"}, {small(&seen), "--prefix-bits"},
                 {small(&seen), "n_loras"},       {small(&seen), "--lora"},
                 {small(&seen), "size"},
                 {small(&seen), "struct tft_quantize_lora: reserved[1]"},
                 {small(&seen), "struct tft_quantize_system: reserved[0]"},
                 {small(&seen), "--rotate"},      {small(&seen), "--rounding"},
                 {small(&seen), "--intact: "},    {small(&seen), "--cushion: "},
                 {small(&seen), "--tune"},        {small(&seen), "n_system"},
                 {small(&seen), "has no name"},   {small(&seen), "has no name"},
                 {small(&seen), "a window of 701"}};
    const struct tft_quantize_lora endless = {.path = "style.gguf", .scale = INFINITY};
    const struct tft_quantize_lora newer = {.path = "style.gguf", .reserved = {0, 1}};
    const struct tft_quantize_system later = {.name = "a", .text = "b", .reserved = {1}};
    const struct tft_quantize_system nameless = {.text = "b"}, empty = {.name = "a"};
    wrong[0].o.group = 7;
    wrong[1].o.bits = "5";
    wrong[2].o.bits_search = "9";
    wrong[3].o.dynamic = "9.ffn_down";
    wrong[4].o.smooth = 2;
    wrong[5].o.intact = TFT_INTACT_AUTO;
    wrong[5].o.intact_tokens = "99999999";
    wrong[6].o.kv = "taffet";
    wrong[7].o.kv_search = "17";
    wrong[8].o.format = "morse";
    wrong[9].o.special = true;
    wrong[10].o.cushion_max = 9;
    wrong[11].o.prefix_bits = 3;
    wrong[12].o.n_loras = 1;
    wrong[13].o.n_loras = 1;
    wrong[13].o.loras = &endless;
    wrong[14].o.size = 0;
    wrong[15].o.n_loras = 1;
    wrong[15].o.loras = &newer;
    wrong[16].o.n_system = 1;
    wrong[16].o.system = &later;
    wrong[17].o.rotate = (enum tft_quantize_rotation)(TFT_ROTATE_ALL + 1);
    wrong[18].o.rounding = (enum tft_quantize_rounding)(TFT_ROUND_GPTQ_ONLY + 1);
    wrong[19].o.intact = (enum tft_quantize_intact)(TFT_INTACT_BOS + 1);
    wrong[20].o.cushion = (enum tft_quantize_cushion)(TFT_CUSHION_EXHAUSTIVE + 1);
    wrong[21].o.tune = (enum tft_quantize_tuning)(TFT_TUNE_OUTPUTS + 1);
    wrong[22].o.n_system = 1;
    wrong[23].o.n_system = wrong[24].o.n_system = 1;
    wrong[23].o.system = &nameless;
    wrong[24].o.system = &empty;
    wrong[25].o.gguf = "q4_0"; /* without a text it would do without calibration */
    wrong[25].o.intact = TFT_INTACT_AUTO;
    wrong[25].o.calib_window = wrong[25].o.calib_tokens = 701;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tft_quantize(from, out, &wrong[i].o, NULL, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, wrong[i].why));
        assert_int_equal(tft_quantize(from, out, &wrong[i].o, NULL, NULL), TFT_ERR_ARG);
    }
    assert_int_equal(files_in_folder(false), before);
}

static void imports(void **state)
{
    (void)state;
    struct tft_import_opts o = {.size = sizeof o, .type = (enum tft_import_type)9};
    struct tft_error err;
    uint64_t bytes;
    const char *out = in_folder("imported.gguf");
    assert_int_equal(tft_import(in_folder("nowhere"), out, &o, &bytes, &err), TFT_ERR_ARG);
    assert_int_not_equal(tft_import(in_folder("nowhere"), out, NULL, NULL, &err), TFT_OK);
    assert_non_null(strstr(err.msg, "nowhere"));
    assert_int_not_equal(tft_import(in_folder("nowhere"), out, NULL, NULL, NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imports), cmocka_unit_test(makes_a_model),
        cmocka_unit_test(writes_no_file_without_memory_for_results),
        cmocka_unit_test(refuses), cmocka_unit_test(finds_bits_and_a_cache),
        cmocka_unit_test(calibrates_a_cache), cmocka_unit_test(calibrates_plain_files),
        cmocka_unit_test(calibrates_layers_that_differ),
        cmocka_unit_test(plain_files_have_a_default_cache),
        cmocka_unit_test(chooses_bits_within_a_budget),
        cmocka_unit_test(cancels),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
