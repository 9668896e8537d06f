/*
 * tuffet ppl: perplexity as it is usually taken. The text's tokens are cut into windows of --ctx tokens that do not overlap, each begun with
 * BOS in place of a token of its own, if the model was trained with one; every token of a window is predicted from those before it; the
 * result is exp(mean of -ln p). A model whose prefix has BOS predicts the same tokens from there. With --score second-half only the second half of each window counts, as in llama.cpp's llama-perplexity.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "port.h"

static struct {
    const char *file;
    uint32_t tokens, ctx;
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
    "ppl", "MODEL", "perplexity of a text",
    (const struct cli_option *const[]){options, cli_session_option_list, cli_thread_option_list,
                                        cli_model_option_list, NULL},
    "A window is --ctx tokens long, the model's context if that is not given, and begins with BOS. What is left after the last whole\n"
    "window does not count, unless it is all there is.\n\n"
    "  tuffet ppl model.gguf -f wiki.test.raw --ctx 1024\n"
    "  tuffet ppl model.gguf -f wiki.test.raw --ctx 1024 --tokens 6144 --score second-half --json\n",
};

enum { BATCH = 128 }; /* tokens whose logits are kept at a time */

/* -ln p of a token: ln(sum e^l) - l, from the largest logit up. */
static double surprise(const float *logits, uint32_t n, int32_t token)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[token];
}

/* Of the newest n tokens of a session, by all threads: with a large vocabulary it takes as long as the model does. */
struct surprises {
    const struct tft_session *s;
    const int32_t *next; /* [n] the tokens that came after them */
    uint32_t n, n_vocab;
    double nll[BATCH];
};

static void take_surprises(void *arg, int tid, int n_threads)
{
    struct surprises *t = arg;
    for (uint32_t j = (uint32_t)tid; j < t->n; j += (uint32_t)n_threads)
        t->nll[j] = surprise(tft_logits(t->s, t->n - 1 - j), t->n_vocab, t->next[j]);
}

struct score {
    double nll; /* summed */
    uint32_t n;
};

/* ids[0] is BOS, perhaps that of the prefix. */
static enum tft_status score_window(struct tft_session *s, const struct tft_model_info *m, const int32_t *ids, uint32_t n,
                                    struct score *total)
{
    uint32_t first = opt.score == SECOND_HALF ? opt.ctx / 2 + 1 : 1, step; /* the first token that counts */
    tft_rewind(s, 0);
    for (uint32_t i = 0; i + 1 < n && !cli_interrupted(); i += step) {
        bool given = i == 0 && m->prefix_bos;
        step = given ? 1 : n - 1 - i < BATCH ? n - 1 - i : BATCH;
        enum tft_status status = tft_prefill(s, ids + i, given ? 0 : step);
        if (status != TFT_OK)
            return status;
        struct surprises found = {.s = s, .next = ids + i + 1, .n = step, .n_vocab = m->n_vocab};
        tft_port_team(cli_model_options.threads ? (int)cli_model_options.threads : tft_cpu_threads(), take_surprises, &found);
        for (uint32_t j = 0; j < step; j++)
            if (i + j + 1 >= first) {
                total->nll += found.nll[j];
                total->n++;
            }
    }
    return TFT_OK;
}

static void report(const struct score *t, double seconds)
{
    double nll = t->nll / t->n;
    if (opt.json)
        printf("{\"ppl\":%.6f,\"nll\":%.8f,\"tokens\":%u,\"seconds\":%.3f}\n", exp(nll), nll, t->n, seconds);
    else
        printf("perplexity %.4f over %u tokens, %.1f tokens/s\n", exp(nll), t->n, t->n / seconds);
}

static int measure(const struct tft_model *m, struct tft_session *s, int32_t *ids, size_t n)
{
    struct tft_model_info info = {.size = sizeof info};
    struct cli_progress progress;
    struct score total = {0};
    size_t with_bos = 0;
    enum tft_status status = tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &with_bos);
    tft_model_describe(m, &info);
    uint64_t start = cli_ns();
    cli_progress_begin(&progress, "perplexity");
    for (size_t at = 0; at < n && status == TFT_OK && !cli_interrupted(); at += opt.ctx) {
        uint32_t window = n - at < opt.ctx ? (uint32_t)(n - at) : opt.ctx;
        if (at && window < opt.ctx)
            break; /* what is left over is no window */
        if (with_bos && !info.prefix_bos)
            ids[at] = tft_token_bos(m);
        status = score_window(s, &info, ids + at, window, &total);
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

static bool bos_is_given(const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    return info.prefix_bos;
}

/* The text's tokens after BOS, if the model was trained with one. */
static int32_t *tokens_with_bos(const struct tft_model *m, const char *text, size_t len, size_t *n)
{
    int32_t *ids = cli_tokenize(m, text, len, TFT_ADD_BOS, n);
    if (ids && bos_is_given(m)) { /* cli_tokenize leaves room */
        memmove(ids + 1, ids, *n * sizeof *ids);
        ids[0] = tft_token_bos(m);
        ++*n;
    }
    return ids;
}

int cmd_ppl(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_session_opts so = {.n_batch = BATCH, .n_logits = BATCH};
    int32_t *ids = NULL;
    size_t len, n = 0;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (!opt.file)
        return cli_usage("a text is missing: -f FILE");

    char *text = cli_read(opt.file, &len);
    status = text ? cli_open_model(&m, path, false) : CLI_FAILED;
    bool given = status == CLI_OK && bos_is_given(m); /* then it takes no room */
    if (given && cli_session_options.ctx > 1)
        cli_session_options.ctx--;
    if (status == CLI_OK)
        status = cli_open_session(&s, m, &so);
    cli_catch_interrupts();
    if (status == CLI_OK) {
        ids = tokens_with_bos(m, text, len, &n);
        opt.ctx = (uint32_t)tft_capacity(s) + given;
        if (opt.tokens && n > opt.tokens)
            n = opt.tokens;
        status = ids ? measure(m, s, ids, n) : CLI_FAILED;
    }
    free(ids);
    free(text);
    tft_session_close(s);
    tft_model_close(m);
    return status;
}
