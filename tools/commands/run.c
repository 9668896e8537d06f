/* tuffet run: one completion, streamed. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"

static struct {
    const char *prompt, *file;
    uint32_t n;
    bool json, special, echo, slide;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "start from this text"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "start from this file, - for standard input"},
    {'n', "tokens", CLI_COUNT, &opt.n, "N", "at most N tokens; until the model ends if not given"},
    {0, "echo", CLI_FLAG, &opt.echo, NULL, "write the prompt too"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "let <|names|> in the prompt stand for special tokens"},
    {0, "slide", CLI_FLAG, &opt.slide, NULL,
     "go on when the context is full, and forget the oldest tokens but the first"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "one JSON object instead of text"},
    {0},
};

static const struct cli_command command = {
    "run",
    "MODEL",
    "write on from a prompt, to standard output as it comes",
    (const struct cli_option *const[]){options, cli_sampling_option_list, cli_session_option_list,
                                       cli_thread_option_list, cli_model_option_list, NULL},
    "Without -p or -f the prompt is what comes from a pipe on standard input; without that, "
    "nothing.\n\n"
    "  tuffet run story.gguf -p \"Once upon a time\" -n 200\n"
    "  tuffet run model.gguf -f notes.txt --temp 0 > answer.txt\n"
    "  echo \"The capital of France is\" | tuffet run model.gguf -n 8 --json\n",
};

/* Text is kept for --json, or written as it comes. */
static bool put(struct cli_text *t, const char *p, size_t n)
{
    return opt.json ? cli_text_add(t, p, n) : cli_put(p, n);
}

struct result {
    const char *stop; /* "end", "length", "context", "interrupt" */
    uint32_t n;
    double seconds;
};

static int generate(const struct tft_model *m, struct tft_session *s, struct tft_sampler *z,
                    struct tft_text *text, struct cli_text *out, struct result *r)
{
    char piece[TFT_TEXT_MAX];
    uint64_t start = cli_ns();
    bool good = true;
    r->stop = NULL;
    while (!r->stop && good) {
        int32_t id = tft_sample(z, s);
        if (cli_interrupted())
            r->stop = "interrupt";
        else if (tft_token_ends(m, id))
            r->stop = "end";
        else {
            good = put(out, piece, tft_text_push(text, m, id, piece));
            r->n++;
            if (opt.n && r->n == opt.n)
                r->stop = "length";
            else if (good && tft_decode(s, id) != TFT_OK)
                r->stop = "context";
        }
    }
    good = good && put(out, piece, tft_text_push(text, m, -1, piece));
    r->seconds = (double)(cli_ns() - start) / 1e9;
    return good ? CLI_OK : cli_fail("standard output: %s", strerror(errno));
}

static void report(const struct cli_text *text, const struct result *r, size_t n_prompt,
                   double prompt_seconds)
{
    double tok_s = r->seconds > 0 ? r->n / r->seconds : 0,
           prompt_tok_s = prompt_seconds > 0 ? (double)n_prompt / prompt_seconds : 0;
    if (opt.json) {
        printf("{\"text\":");
        cli_json_string(stdout, text->p ? text->p : "", text->n);
        printf(",\"stop\":\"%s\",\"tokens\":%u,\"prompt_tokens\":%zu,\"tok_s\":%.2f,\"prompt_tok_"
               "s\":%.2f,\"seed\":%llu}\n",
               r->stop, r->n, n_prompt, tok_s, prompt_tok_s,
               (unsigned long long)cli_sampling_options.seed);
        return;
    }
    putchar('\n');
    if (isatty(STDERR_FILENO))
        fprintf(stderr,
                "\n%zu tokens of prompt, %.1f/s; %u written, %.1f/s; stopped by %s; seed %llu\n",
                n_prompt, prompt_tok_s, r->n, tok_s, r->stop,
                (unsigned long long)cli_sampling_options.seed);
}

/* From here on everything is open; ids is the prompt. */
static int complete(const struct tft_model *m, struct tft_session *s, const int32_t *ids, size_t n,
                    const char *prompt, size_t len)
{
    struct tft_sampler z = cli_sampler();
    struct tft_text text = {.started = len > 0 && !opt.echo};
    struct cli_text out = {0};
    struct result r = {0};
    uint64_t start = cli_ns();
    if (n >= tft_capacity(s) && !opt.slide)
        return cli_fail("the prompt has %zu tokens, and the context holds %zu", n, tft_capacity(s));
    enum tft_status status = n ? cli_feed(s, ids, n) : tft_prefill(s, NULL, 0);
    double seconds = (double)(cli_ns() - start) / 1e9;
    if (status != TFT_OK)
        return cli_fail("%s", n ? tft_status_text(status)
                                : "the prompt is empty, and the model has no token to begin with");
    if (cli_interrupted())
        return CLI_INTERRUPTED;

    if (opt.echo && !put(&out, prompt, len)) {
        free(out.p);
        return cli_fail("%s", strerror(errno));
    }
    text.started = text.started || opt.echo;
    int exit_status = generate(m, s, &z, &text, &out, &r);
    if (exit_status == CLI_OK)
        report(&out, &r, n, seconds);
    free(out.p);
    return exit_status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : exit_status;
}

int cmd_run(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_session_opts so = {0};
    int32_t *ids = NULL;
    size_t len, n = 0;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (opt.prompt && opt.file)
        return cli_usage("-p and -f are two prompts");

    so.slide = opt.slide;
    char *prompt = cli_read_given(opt.prompt, opt.file, &len);
    status = prompt ? cli_open_model(&m, path, false) : CLI_FAILED;
    if (status == CLI_OK)
        status = cli_open_session(&s, m, &so);
    cli_catch_interrupts();
    if (status == CLI_OK) {
        ids = cli_tokenize(m, prompt, len, TFT_ADD_BOS | (opt.special ? TFT_PARSE_SPECIAL : 0), &n);
        if (!ids)
            status = CLI_FAILED;
        else
            status = complete(m, s, ids, n, prompt, len);
    }
    free(ids);
    free(prompt);
    tft_session_close(s);
    tft_model_close(m);
    return status;
}
