/*
 * tuffet ppl: perplexity, exp(mean of -ln p).
 *
 * The tokens of the text are cut into windows of --ctx tokens, which do not overlap. In each window
 * every token but the first is predicted from the tokens before it. If the model was trained with
 * BOS, BOS replaces the first token of each window; a model whose prefix contains BOS predicts the
 * same tokens from the prefix. If a window begins with the text of the prefix, such as the first
 * tokens of a chat format, the prefix predicts the next token, and the text of the prefix does not
 * count. With --score second-half, only the second half of each window counts, as in
 * llama-perplexity of llama.cpp.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/commands/commands.h"
#include "tools/eval/scorer.h"

enum { ALL, SECOND_HALF };

static struct {
    const char *file;
    uint32_t n_tokens;
    int score;
    bool special, json;
} opt;

static const struct cli_option options[] = {
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "text to measure; - is standard input"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "read <|names|> of special tokens in the text as these tokens"},
    {'n', "tokens", CLI_COUNT, &opt.n_tokens, "N",
     "use the first N tokens of the text, BOS included (default all)"},
    {0, "score", CLI_WORD, &opt.score, "all|second-half", "tokens of a window that count"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "print one JSON object: ppl, nll, tokens, seconds"},
    {0},
};

static void report(const struct score *t, double seconds)
{
    double nll = t->nll / t->n;
    if (opt.json) {
        printf("{\"tokens\":%u,\"seconds\":%.3f,\"nll\":%.8f", t->n, seconds, nll);
        cli_json_number("ppl", exp(nll)); /* infinite from a nll of 710 on */
        printf("}\n");
    } else
        printf("perplexity %.4f over %u tokens, %.1f tokens/s\n", exp(nll), t->n, t->n / seconds);
}

static int measure(struct scorer *z, int32_t *ids, size_t n)
{
    struct cli_progress progress;
    struct score total = {0};
    uint32_t first = opt.score == SECOND_HALF ? z->ctx / 2 + 1 : 1; /* that counts in a window */
    enum tft_status status = TFT_OK;
    uint64_t start = cli_ns();
    cli_progress_begin(&progress, "measuring perplexity");
    for (size_t at = 0; at < n && status == TFT_OK && !cli_interrupted(); at += z->ctx) {
        size_t window = n - at < z->ctx ? n - at : z->ctx;
        if (at && window < z->ctx)
            break; /* too few tokens are left for a window */
        if (z->bos)
            ids[at] = tft_token_bos(z->m);
        status = scorer_add(z, ids + at, window, first, &total);
        cli_progress_at(&progress, (double)(at + window) / (double)n);
    }
    cli_progress_end(&progress);
    if (status != TFT_OK)
        return cli_fail_session(z->s);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (!total.n)
        return cli_fail("%s: %zu tokens are too few to measure: give a longer text", opt.file, n);
    report(&total, (double)(cli_ns() - start) / 1e9);
    return CLI_OK;
}

static int ppl(const char *path)
{
    struct tft_model *m = NULL;
    struct scorer z = {0};
    int32_t *ids = NULL;
    size_t len, n = 0;
    if (!opt.file)
        return cli_usage("there is no text: give one with -f FILE");

    char *text = cli_read(opt.file, &len);
    int status = text ? cli_open_model(&m, path, false) : CLI_FAILED;
    if (status == CLI_OK)
        status = cli_open_loras(m);
    if (status == CLI_OK)
        status = scorer_open(&z, m, SCORER_BATCH);
    cli_catch_interrupts();
    if (status == CLI_OK) {
        ids = scorer_tokenize(&z, text, len, opt.special, &n);
        if (opt.n_tokens && n > opt.n_tokens)
            n = opt.n_tokens;
        status = ids ? measure(&z, ids, n) : CLI_FAILED;
    }
    free(ids);
    free(text);
    scorer_close(&z);
    cli_close_loras();
    tft_model_close(m);
    return status;
}

const struct cli_command command_ppl = {
    .name = "ppl",
    .operand = "MODEL",
    .summary = "measure the perplexity of a text",
    .groups =
        (const struct cli_option_group[]){
            {"Text and output", options},
            {"Context", cli_session_option_list},
            {NULL, cli_lora_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes = "The text is cut into windows of --ctx tokens, and each window begins with BOS if the "
             "model was trained with it. Tokens after the last whole window are not used, unless "
             "the text has only one window.\n"
             "\n"
             "nll is the mean of -ln p in nats, and ppl is exp(nll).\n",
    .examples = "tuffet ppl model.gguf -f wiki.test.raw --ctx 1024\n"
                "tuffet ppl model.gguf -f wiki.test.raw --ctx 1024 -n 6144 --score second-half\n"
                "tuffet ppl model.gguf -f wiki.test.raw --ctx 1024 --kv kivi --json\n",
    .run = ppl,
};
