/* lab_divergence: how far files of a model are from the float model, and caches from f16, on texts
   that nothing was fitted to. Each --file is cut into windows of --ctx tokens; a shorter one is a
   window of its own, so a conversation is a file. Prints a row of a table for each model and cache:
   the size, perplexity, the mean Kullback-Leibler divergence from the float model, and how often
   the most likely token is the same. Without --floats it compares with the same file in f16.

        lab_divergence --floats MODEL -f TEXT [-f TEXT] [--kv CACHE]... FILE...
        lab_divergence -f TEXT --kv CACHE [--kv CACHE]... FILE...
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"

enum { BATCH = 64 };

static struct {
    const char *floats;
    struct cli_texts texts, files, caches;
    uint32_t n_tokens, ctx;
    bool special, second_half;
} opt = {.ctx = 512};

static const struct cli_option options[] = {
    {0, "floats", CLI_TEXT, &opt.floats, "MODEL", "the float model, or codes that are its floats"},
    {0, "kv", CLI_TEXTS, &opt.caches, "CACHE", "of the files (f16); may be repeated"},
    {'f', "file", CLI_TEXTS, &opt.texts, "FILE", "text to measure; may be repeated"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "read <|names|> of special tokens in the text as these tokens"},
    {'n', "tokens", CLI_COUNT, &opt.n_tokens, "N", "use the first N tokens of each text"},
    {0, "ctx", CLI_COUNT, &opt.ctx, "N", "tokens of a window"},
    {0, "second-half", CLI_FLAG, &opt.second_half, NULL, "score the second half of a window"},
    {0},
};

struct loss {
    double floats, file, divergence, same;
    uint32_t n;
};

/* A model with a session for windows. */
struct side {
    struct tft_model *m;
    struct tft_session *s;
};

static void close_side(struct side *a)
{
    tft_session_close(a->s);
    tft_model_close(a->m);
    *a = (struct side){0};
}

static int open_side(struct side *a, const char *path, enum tft_weights weights, const char *kv)
{
    struct tft_session_opts so = {.n_batch = BATCH, .n_logits = BATCH, .kv = kv,
                                  .capacity = opt.ctx};
    *a = (struct side){0};
    cli_model_options.weights = (int)weights;
    if (cli_open_model(&a->m, path, false) != CLI_OK ||
        cli_open_session(&a->s, a->m, &so) != CLI_OK) {
        close_side(a);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* Makes the session hold ids[..end), of which its prefix may hold a beginning. */
static bool advance(struct side *a, const int32_t *ids, size_t held, size_t end)
{
    size_t pos = tft_pos(a->s) + held;
    return pos == end || tft_prefill(a->s, ids + pos, end - pos) == TFT_OK;
}

static double log_sum(const float *x, size_t n, size_t *largest)
{
    double sum = 0;
    *largest = 0;
    for (size_t i = 1; i < n; i++)
        *largest = x[i] > x[*largest] ? i : *largest;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[*largest]);
    return log(sum) + (double)x[*largest];
}

/* p, q: [n] logits after a token, of the float model and of the file; next: the token that comes */
static void add(struct loss *to, const float *p, const float *q, size_t n, int32_t next)
{
    size_t top_p, top_q;
    double sum_p = log_sum(p, n, &top_p), sum_q = log_sum(q, n, &top_q);
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - sum_p;
        to->divergence += exp(log_p) * (log_p - ((double)q[i] - sum_q));
    }
    to->floats += sum_p - (double)p[next];
    to->file += sum_q - (double)q[next];
    to->same += top_p == top_q;
    to->n++;
}

/* A window ids[n]. Predictions count from the second token on, or from the first one that both
   sessions compute: a prefix may hold BOS. */
static int add_window(struct side *floats, struct side *file, const int32_t *ids, size_t n,
                      struct loss *to)
{
    size_t held[2] = {tft_prefix_held(floats->m, NULL, ids, n),
                      tft_prefix_held(file->m, NULL, ids, n)};
    size_t first = held[0] > held[1] ? held[0] : held[1];
    first = first ? first : 1;
    if (opt.second_half && first < n / 2)
        first = n / 2;
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(floats->m, &info);
    tft_rewind(floats->s, 0);
    tft_rewind(file->s, 0);
    if (first + 1 >= n)
        return CLI_OK;
    if (!advance(floats, ids, held[0], first) || !advance(file, ids, held[1], first))
        return cli_fail("%s", tft_session_error(file->s)->msg);
    for (size_t at = first, more; at + 1 < n && !cli_interrupted(); at += more) {
        more = n - 1 - at < BATCH ? n - 1 - at : BATCH;
        if (!advance(floats, ids, held[0], at + more) || !advance(file, ids, held[1], at + more))
            return cli_fail("%s", tft_session_error(file->s)->msg);
        for (size_t i = 0; i < more; i++)
            add(to, tft_logits(floats->s, (uint32_t)(more - 1 - i)),
                tft_logits(file->s, (uint32_t)(more - 1 - i)), info.n_vocab, ids[at + 1 + i]);
    }
    return CLI_OK;
}

/* Each window begins with BOS if the text does. */
static int add_text(struct side *floats, struct side *file, const char *path, struct loss *to)
{
    size_t len, n;
    char *text = cli_read(path, &len);
    unsigned flags = TFT_ADD_BOS | (opt.special ? TFT_PARSE_SPECIAL : 0);
    int32_t *ids = text ? cli_tokenize(floats->m, text, len, flags, &n) : NULL;
    bool bos = ids && n && ids[0] == tft_token_bos(floats->m);
    int status = ids ? CLI_OK : CLI_FAILED;
    n = ids && opt.n_tokens && n > opt.n_tokens ? opt.n_tokens : ids ? n : 0;
    for (size_t at = 0; at < n && status == CLI_OK && !cli_interrupted(); at += opt.ctx) {
        size_t window = n - at < opt.ctx ? n - at : opt.ctx;
        if (at && window < opt.ctx)
            break;
        if (bos)
            ids[at] = tft_token_bos(floats->m);
        status = add_window(floats, file, ids + at, window, to);
    }
    free(ids);
    free(text);
    return status;
}

static double megabytes(const char *path)
{
    FILE *f = fopen(path, "rb");
    double n = f && fseek(f, 0, SEEK_END) == 0 ? (double)ftell(f) / 1e6 : (double)NAN;
    if (f)
        fclose(f);
    return n;
}

static int print_row(struct side *floats, const char *path, const char *kv)
{
    struct side file;
    struct loss sum = {0};
    int status = open_side(&file, path, TFT_WEIGHTS_STORED, kv);
    for (uint32_t i = 0; i < opt.texts.n && status == CLI_OK; i++)
        status = add_text(floats, &file, opt.texts.p[i], &sum);
    close_side(&file);
    if (status != CLI_OK || cli_interrupted())
        return status;
    if (!sum.n)
        return cli_fail("the texts are too short");
    printf("| %s | %s | %.2f | %.4g | %+.1f %% | %.4f | %.1f %% |\n", path, kv, megabytes(path),
           exp(sum.file / sum.n), 100 * (exp((sum.file - sum.floats) / sum.n) - 1),
           sum.divergence / sum.n, 100 * sum.same / sum.n);
    fflush(stdout);
    return CLI_OK;
}

/* The rows of a file, one for each cache. */
static int print_rows(const char *path)
{
    struct side from;
    int status = opt.floats ? open_side(&from, opt.floats, TFT_WEIGHTS_F32, "f16")
                            : open_side(&from, path, TFT_WEIGHTS_STORED, "f16");
    if (status != CLI_OK)
        return status;
    for (uint32_t i = 0; i < opt.caches.n && status == CLI_OK && !cli_interrupted(); i++)
        status = print_row(&from, path, opt.caches.p[i]);
    close_side(&from);
    return status;
}

static int divergence(const char *first)
{
    int status = CLI_OK;
    (void)first;
    if (!opt.texts.n || !opt.files.n || !(opt.floats || opt.caches.n))
        return cli_usage("give --floats MODEL or --kv CACHE, texts and files");
    if (!opt.caches.n)
        opt.caches = (struct cli_texts){.p = {"f16"}, .n = 1};
    cli_catch_interrupts();
    puts("| file | cache | MB | perplexity | change | nats | same |\n"
         "|---|---|---:|---:|---:|---:|---:|");
    for (uint32_t i = 0; i < opt.files.n && status == CLI_OK && !cli_interrupted(); i++)
        status = print_rows(opt.files.p[i]);
    return status;
}

int main(int argc, char **argv)
{
    const char *model;
    const struct cli_command c = {
        .name = "divergence",
        .operand = "FILE",
        .operands = &opt.files,
        .summary = "compare files of a model with the float model",
        .groups = (const struct cli_option_group[]){{"Text", options},
                                                    {"Model", cli_tokenizer_option_list},
                                                    {NULL, cli_thread_option_list},
                                                    {0}},
        .run = divergence,
    };
    int status = cli_parse(&c, argc, argv, &model);
    return status == CLI_OK ? c.run(model) : status == CLI_HELPED ? CLI_OK : status;
}
