/*
 * tuffet ppl: perplexity as it is usually taken. The text's tokens are cut into windows of --ctx
 * tokens that do not overlap, each begun with BOS in place of a token of its own, if the model was
 * trained with one; every token of a window is predicted from those before it; the result is
 * exp(mean of -ln p). A model whose prefix has BOS predicts the same tokens from there. With
 * --score second-half only the second half of each window counts, as in llama.cpp's
 * llama-perplexity.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/eval/scorer.h"

static struct {
    const char *file;
    uint32_t tokens;
    int score;
    bool json;
} opt;

enum { ALL, SECOND_HALF };

static const struct cli_option options[] = {
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "the text, - for standard input"},
    {'n', "tokens", CLI_COUNT, &opt.tokens, "N", "stop after N tokens of text, BOS included"},
    {0, "score", CLI_WORD, &opt.score, "all|second-half", "which tokens of a window count (all)"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "one JSON object: ppl, nll, tokens, seconds"},
    {0},
};

static const struct cli_command command = {
    "ppl",
    "MODEL",
    "perplexity of a text",
    (const struct cli_option *const[]){options, cli_session_option_list, cli_thread_option_list,
                                       cli_model_option_list, NULL},
    "A window is --ctx tokens long, the model's context if that is not given, and begins with BOS. "
    "What is left after the last whole\n"
    "window does not count, unless it is all there is.\n\n"
    "  tuffet ppl model.gguf -f wiki.test.raw --ctx 1024\n"
    "  tuffet ppl model.gguf -f wiki.test.raw --ctx 1024 --tokens 6144 --score second-half "
    "--json\n",
};

static void report(const struct score *t, double seconds)
{
    double nll = t->nll / t->n;
    if (opt.json)
        printf("{\"ppl\":%.6f,\"nll\":%.8f,\"tokens\":%u,\"seconds\":%.3f}\n", exp(nll), nll, t->n,
               seconds);
    else
        printf("perplexity %.4f over %u tokens, %.1f tokens/s\n", exp(nll), t->n, t->n / seconds);
}

static int measure(struct scorer *z, int32_t *ids, size_t n)
{
    struct cli_progress progress;
    struct score total = {0};
    /* the first token of a window that counts */
    uint32_t first = opt.score == SECOND_HALF ? z->ctx / 2 + 1 : 1;
    enum tft_status status = TFT_OK;
    uint64_t start = cli_ns();
    cli_progress_begin(&progress, "perplexity");
    for (size_t at = 0; at < n && status == TFT_OK && !cli_interrupted(); at += z->ctx) {
        size_t window = n - at < z->ctx ? n - at : z->ctx;
        if (at && window < z->ctx)
            break; /* what is left over is no window */
        if (z->bos)
            ids[at] = tft_token_bos(z->m);
        status = scorer_add(z, ids + at, window, first, &total);
        cli_progress_at(&progress, (double)(at + window) / (double)n);
    }
    cli_progress_end(&progress);
    if (status != TFT_OK)
        return cli_fail("%s", tft_status_text(status));
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (!total.n)
        return cli_fail("%s: %zu tokens are too few to be scored", opt.file, n);
    report(&total, (double)(cli_ns() - start) / 1e9);
    return CLI_OK;
}

int cmd_ppl(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct scorer z = {0};
    int32_t *ids = NULL;
    size_t len, n = 0;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (!opt.file)
        return cli_usage("a text is missing: -f FILE");

    char *text = cli_read(opt.file, &len);
    status = text ? cli_open_model(&m, path, false) : CLI_FAILED;
    if (status == CLI_OK)
        status = scorer_open(&z, m, SCORER_BATCH);
    cli_catch_interrupts();
    if (status == CLI_OK) {
        ids = scorer_tokenize(&z, text, len, &n);
        if (opt.tokens && n > opt.tokens)
            n = opt.tokens;
        status = ids ? measure(&z, ids, n) : CLI_FAILED;
    }
    free(ids);
    free(text);
    scorer_close(&z);
    tft_model_close(m);
    return status;
}
