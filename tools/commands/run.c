/* tuffet run: generates text from a prompt, and prints it as it comes. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/form.h"
#include "tools/cli/power.h"
#include "tools/cli/system.h"
#include "tools/commands/commands.h"

static struct {
    const char *prompt, *file, *cache;
    int32_t n_tokens, think;
    bool json, special, echo, slide;
    int stop_loops;
} opt = {.n_tokens = -1, .think = -1};

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "continue this text"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE", "continue the text of FILE; - is standard input"},
    {0, "special", CLI_FLAG, &opt.special, NULL,
     "read <|names|> of special tokens in the prompt as these tokens"},
    {0, "prompt-cache", CLI_TEXT, &opt.cache, "FILE",
     "reuse the part of the prompt that FILE holds, and save the computed prompt in FILE"},
    {'n', "tokens", CLI_LIMIT, &opt.n_tokens, "N",
     "stop after N tokens; 0: generate nothing (default when the model ends the text)"},
    {0, "think", CLI_LIMIT, &opt.think, "N",
     "end thoughts after N tokens: write </think>, and let the text go on (default no limit)"},
    {0, "stop-loops", CLI_WORD, &opt.stop_loops, "off|on",
     "on: stop when the same 8 to 256 tokens come four times in a row"},
    {0, "slide", CLI_FLAG, &opt.slide, NULL,
     "drop the oldest tokens except the first when the context is full, and go on"},
    {0, "echo", CLI_FLAG, &opt.echo, NULL, "print the prompt too"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: text, stop, tokens, prompt_tokens, prefix_tokens: prompt tokens that "
     "the prefix holds, cached_tokens: prompt tokens that the prompt cache held, guessed_tokens: "
     "text tokens that --lookup guessed, first_s: seconds from opening the session to the first "
     "token, tok_s, prompt_tok_s, seed, ends: how many numbers were rounded to 8 bits in a range "
     "that the file fixes, how many of these numbers lie at its ends, and their share at "
     "calibration"},
    {0},
};

/* Prints text as it comes, or collects it for --json. */
static bool put(struct cli_text *t, const char *p, size_t n)
{
    return opt.json ? cli_text_append(t, p, n) : cli_put(p, n);
}

struct completion {
    struct cli_text text; /* with --json */
    const char *stop;     /* "end", "length", "loop", "context", "interrupt" */
    size_t n_prompt, n;   /* tokens */
    size_t held, cached;  /* tokens of the prompt that are in the prefix, in the prompt cache */
    uint64_t guessed;     /* accepted draft tokens among the n */
    uint64_t start;       /* before the session was opened; ns */
    double first_seconds, prompt_seconds, seconds;
};

static double seconds_since(uint64_t start) { return (double)(cli_ns() - start) / 1e9; }

/* Puts generated text, and takes the time of the first. */
static bool put_next(void *user, int32_t id, const char *p, size_t n)
{
    struct completion *c = user;
    (void)id;
    if (!c->first_seconds)
        c->first_seconds = seconds_since(c->start);
    return put(&c->text, p, n);
}

/* Generates from the session's logits until something stops it. */
static int generate(const struct tft_model *m, struct tft_session *s, struct form *form,
                    struct tft_text *state, struct completion *c)
{
    struct tft_sampler sampler = cli_sampler();
    struct loops loops = {0};
    char piece[TFT_TEXT_MAX];
    uint64_t start = cli_ns();
    struct form_text t = {.text = state,
                          .put = put_next,
                          .user = c,
                          .in_line = !opt.json,
                          .loops = opt.stop_loops ? &loops : NULL,
                          .most = opt.n_tokens < 0 ? SIZE_MAX : (size_t)opt.n_tokens};
    int status = form_generate(form, &sampler, s, &t);
    c->n = t.n;
    c->stop = t.stop ? t.stop : "context";
    c->guessed = tft_guessed(s);
    if (status == CLI_OK && !put_next(c, -1, piece, tft_text_push(state, m, -1, piece)))
        status = cli_fail("standard output: %s", strerror(errno));
    c->seconds = seconds_since(start);
    return status;
}

static void report(const struct completion *c, const struct tft_model *m,
                   const struct tft_session *s)
{
    double tok_s = c->seconds > 0 ? (double)c->n / c->seconds : 0,
           prompt_tok_s =
               c->prompt_seconds > 0
                   ? (double)(c->n_prompt - c->held - c->cached) / c->prompt_seconds
                   : 0;
    unsigned long long seed = cli_sampling_options.seed;
    if (opt.json) {
        printf("{\"text\":");
        cli_json_string(stdout, c->text.p ? c->text.p : "", c->text.n);
        printf(",\"stop\":\"%s\",\"tokens\":%zu,\"prompt_tokens\":%zu,\"prefix_tokens\":%zu,"
               "\"cached_tokens\":%zu,\"guessed_tokens\":%llu,\"first_s\":%.6f,\"tok_s\":%.2f,"
               "\"prompt_tok_s\":%.2f,\"seed\":%llu,\"ends\":",
               c->stop, c->n, c->n_prompt, c->held, c->cached, (unsigned long long)c->guessed,
               c->first_seconds, tok_s, prompt_tok_s, seed);
        cli_ends_json(stdout, m, s);
        puts("}");
        return;
    }
    cli_put("\n", 1);
    if (!system_is_terminal(STDERR_FILENO))
        return;
    fprintf(stderr,
            "\nprompt: %zu tokens, %.1f tokens/s; generated: %zu tokens, %.1f tokens/s; "
            "stopped by: %s; seed %llu\n",
            c->n_prompt, prompt_tok_s, c->n, tok_s, c->stop, seed);
    if (cli_unlike_calibration(m, s))
        fprintf(stderr, "%s (--json has numbers)\n", CLI_UNLIKE_CALIBRATION);
}

/* ---- the prompt */

/* Loads the prompt cache, if there is one for this model and these options. */
static int load_cache(struct tft_session *s)
{
    struct tft_error err;
    if (!cli_may_replace(opt.cache, "TFTSAVE\n"))
        return cli_fail("%s: this file is not a saved session: give another name",
                        opt.cache);
    if (access(opt.cache, F_OK) != 0 || tft_session_load(s, NULL, opt.cache, &err) == TFT_OK)
        return CLI_OK;
    if (err.code == TFT_ERR_IO) /* a folder, for example, which cannot be replaced either */
        return cli_fail("%s", err.msg);
    fprintf(stderr, "tuffet: %s: it is replaced by this prompt\n", err.msg);
    return CLI_OK;
}

/* Whether the session has the logits after exactly these tokens. */
static bool has_all(const struct tft_session *s, const int32_t *ids, size_t n)
{
    return n && tft_pos(s) == n && tft_logits(s, 0) &&
           memcmp(tft_tokens(s), ids, n * sizeof *ids) == 0;
}

/* Makes the session hold the tokens, with the help of the prompt cache. */
static int sync_prompt(struct tft_session *s, const int32_t *ids, size_t n, struct completion *c,
                       enum tft_status *status)
{
    struct tft_error err;
    *status = TFT_OK;
    if (opt.cache && load_cache(s) != CLI_OK)
        return CLI_FAILED;
    c->cached = has_all(s, ids, n) ? n : cli_held(s, ids, n);
    if (c->cached && c->cached == n)
        return CLI_OK;
    *status = cli_sync(s, ids, n);
    if (!opt.cache || *status != TFT_OK || !has_all(s, ids, n)) /* it has slid, or Ctrl-C came */
        return CLI_OK;
    return tft_session_save(s, NULL, opt.cache, &err) == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

/* Computes the n tokens of the prompt, except the tokens that the prefix holds. */
static int read_prompt(struct tft_session *s, const int32_t *ids, size_t n, struct completion *c)
{
    uint64_t start = cli_ns();
    c->n_prompt = n;
    ids += c->held;
    n -= c->held;
    if (n >= tft_capacity(s) && !opt.slide)
        return cli_fail("the prompt has %zu tokens, but the context holds only %zu: shorten the "
                        "prompt, or use --slide",
                        n, tft_capacity(s));
    enum tft_status status;
    if (sync_prompt(s, ids, n, c, &status) != CLI_OK)
        return CLI_FAILED;
    tft_prompt_end(s);
    c->prompt_seconds = seconds_since(start);
    if (status == TFT_ERR_ARG && !n)
        return cli_fail("the prompt is empty, and the model has no BOS token to begin with: give a "
                        "text with -p");
    if (status != TFT_OK)
        return cli_fail_session(s);
    return cli_interrupted() ? CLI_INTERRUPTED : CLI_OK;
}

/* prompt: [len], the text of the n tokens of ids. */
static int complete(const struct tft_model *m, struct form *form, const int32_t *ids, size_t n,
                    const char *prompt, size_t len)
{
    /* a form governs the whole text, so its first space, if any, is printed */
    struct tft_text state = {.started = len > 0 || opt.echo || form->grammar};
    struct tft_session_opts so = {.slide = opt.slide,
                                  .prefix = cli_prefix(m, ids, n),
                                  .lookup = cli_session_options.lookup,
                                  .count_ends = true};
    struct completion c = {.held = tft_prefix_held(m, so.prefix, ids, n), .start = cli_ns()};
    struct tft_session *s = NULL;
    int status = cli_open_session(&s, m, &so);
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = read_prompt(s, ids, n, &c);
    if (status == CLI_OK && opt.echo && !put(&c.text, prompt, len))
        status = cli_fail("standard output: %s", strerror(errno));
    if (status == CLI_OK)
        status = form_begin(form, NULL, 0, false);
    thinking_begin(&form->thinking, m, opt.think, thinking_ends(prompt, len));
    if (status == CLI_OK)
        status = generate(m, s, form, &state, &c);
    if (status == CLI_OK)
        report(&c, m, s);
    free(c.text.p);
    tft_session_close(s);
    tft_session_close(so.draft);
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

static int run(const char *path)
{
    struct tft_model *m = NULL;
    struct form form = {0};
    int32_t *ids = NULL;
    size_t len, n = 0;
    if (opt.prompt && opt.file)
        return cli_usage("-p and -f give two prompts: use one of them");
    if (form_check() != CLI_OK)
        return CLI_USAGE;
    int begun = power_begin();
    if (begun != CLI_OK)
        return begun;
    if (!path && !(path = cli_shipped_model()))
        return CLI_USAGE;

    char *prompt = cli_read_input(opt.prompt, opt.file, &len);
    int status = prompt ? cli_open_model(&m, path, false) : CLI_FAILED;
    if (status == CLI_OK)
        status = cli_open_draft(m);
    if (status == CLI_OK)
        status = cli_open_loras(m);
    if (status == CLI_OK)
        status = form_open(&form, m);
    if (status == CLI_OK)
        status = cli_open_sampling(m);
    if (status == CLI_OK) {
        ids = cli_tokenize(m, prompt, len, TFT_ADD_BOS | (opt.special ? TFT_PARSE_SPECIAL : 0), &n);
        status = ids ? complete(m, &form, ids, n, prompt, len) : CLI_FAILED;
    }
    form_close(&form);
    free(ids);
    free(prompt);
    cli_close_sampling();
    cli_close_draft();
    cli_close_loras();
    tft_model_close(m);
    return status;
}

const struct cli_command command_run = {
    .name = "run",
    .operand = "[MODEL]",
    .summary = "generate text from a prompt",
    .groups =
        (const struct cli_option_group[]){
            {"Prompt and output", options},
            {"Form of the text", form_option_list},
            {"Sampling", cli_sampling_option_list},
            {"Context", cli_session_option_list},
            {NULL, cli_prefix_option_list},
            {NULL, cli_lookup_option_list},
            {NULL, cli_lora_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, power_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .first = (const char *const[]){"prompt", "file", "tokens", "temp", "ctx", "device", NULL},
    .notes = "Without MODEL, the model is stories2M, which ships with the program and tells "
             "stories to children.\n"
             "\n"
             "Without -p and -f, the prompt comes from a pipe on standard input. If there is no "
             "pipe either, the prompt is empty. The text goes to standard output as it is "
             "generated.\n"
             "\n"
             "The part of the prompt that a prefix of the model holds is not computed again. Nor "
             "is the part that FILE of --prompt-cache holds: a session of the same model, prefix "
             "and KV cache, with any text that begins like the prompt. The answer is the same. If "
             "FILE lacked a part of the prompt, it is replaced. tuffet chat has /save and /load "
             "instead.\n",
    .examples = "tuffet run --echo -p \"Once upon a time\"\n"
                "tuffet run story.gguf -p \"Once upon a time\" -n 200\n"
                "tuffet run model.gguf -f notes.txt --temp 0 > answer.txt\n"
                "tuffet run model.gguf -f notes.txt --prompt-cache notes.session\n"
                "echo \"The capital of France is\" | tuffet run model.gguf -n 8 --json\n",
    .run = run,
    .has_config = true,
};
