/* Options that commands share for models, sessions and sampling, and what they open. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "cli.h"
#include "kv/kv_policy.h"

struct cli_model_options cli_model_options;
struct cli_session_options cli_session_options;
struct cli_sampling_options cli_sampling_options = {
    .temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .seed = CLI_ANY_SEED};

const struct cli_option cli_model_option_list[] = {
    {0, "weights", CLI_WORD, &cli_model_options.weights, "f32|f16|bf16",
     "what quantized weights are expanded to (f32)"},
    {0, "tokenizer", CLI_TEXT, &cli_model_options.tokenizer, "FILE",
     "tokenizer.bin of a llama2.c model"},
    {0, "cpu", CLI_TEXT, &cli_model_options.cpu, "RUNG",
     "use no better kernels than c, avx2, avx512 or neon"},
    {0, "device", CLI_TEXT, &cli_model_options.device, "cpu|cuda",
     "where to compute: cuda, or cuda:1, is a GPU; without one it is the CPU (cpu)"},
    {0, "gpu-layers", CLI_COUNT, &cli_model_options.gpu_layers, "N",
     "only the last N layers and the head are the GPU's (all)"},
    {0},
};

const struct cli_option cli_tokenizer_option_list[] = {
    {0, "tokenizer", CLI_TEXT, &cli_model_options.tokenizer, "FILE",
     "tokenizer.bin of a llama2.c model"},
    {0},
};

const struct cli_option cli_session_option_list[] = {
    {'c', "ctx", CLI_COUNT, &cli_session_options.ctx, "N",
     "tokens of context; all the model can if not given"},
    {0, "kv", CLI_TEXT, &cli_session_options.kv, "CACHE",
     "f16, f32, or quantized: tuffet, kivi, logquant, asymkv, skvq, rtn, or knobs (what MODEL "
     "says, or f16)"},
    {0},
};

const struct cli_option cli_thread_option_list[] = {
    {'t', "threads", CLI_COUNT, &cli_model_options.threads, "N",
     "threads; all CPUs this process may use if not given"},
    {0},
};

const struct cli_option cli_sampling_option_list[] = {
    {0, "temp", CLI_REAL, &cli_sampling_options.temperature, "T",
     "temperature, 0: always the likeliest (0.8)"},
    {0, "top-k", CLI_COUNT, &cli_sampling_options.top_k, "K", "only the K likeliest tokens"},
    {0, "top-p", CLI_REAL, &cli_sampling_options.top_p, "P",
     "only the likeliest that make up P (0.95)"},
    {0, "min-p", CLI_REAL, &cli_sampling_options.min_p, "P",
     "only those P times as likely as the likeliest (0.05)"},
    {0, "repeat-penalty", CLI_REAL, &cli_sampling_options.repeat_penalty, "R",
     "make recent tokens R times less likely"},
    {0, "repeat-last", CLI_COUNT, &cli_sampling_options.repeat_last, "N",
     "how many tokens are recent (64)"},
    {'s', "seed", CLI_SEED, &cli_sampling_options.seed, "N",
     "the same seed gives the same text; else from the clock"},
    {0},
};

static void opening(void *user, double done)
{
    cli_progress_at(user, done);
}

int cli_check_session(void)
{
    struct tft_kv_policy kv;
    struct tft_error err;
    return tft_kv_parse(&kv, cli_session_options.kv, &err) == TFT_OK
               ? CLI_OK
               : cli_usage("--kv: %s", err.msg);
}

int cli_open_model(struct tft_model **m, const char *path, bool vocab_only)
{
    const struct cli_model_options *o = &cli_model_options;
    struct cli_progress progress;
    struct tft_error err;
    if (cli_check_session() != CLI_OK)
        return CLI_USAGE;
    if (o->cpu && tft_cpu_limit(o->cpu) != TFT_OK)
        return cli_fail("this machine has no kernels \"%s\"; its best are %s", o->cpu,
                        tft_cpu_name());

    cli_progress_begin(&progress, "expanding weights");
    struct tft_model_opts opts = {
        .size = sizeof opts,
        .tokenizer = o->tokenizer,
        .weights = (enum tft_weights)o->weights,
        .vocab_only = vocab_only,
        .n_threads = (int)o->threads,
        .progress = opening,
        .progress_user = &progress,
        .device = vocab_only ? NULL : o->device,
        .gpu_layers = o->gpu_layers,
    };
    enum tft_status status = tft_model_open(m, path, &opts, &err);
    if (status == TFT_ERR_DEVICE) {
        cli_progress_end(&progress);
        fprintf(stderr, "tuffet: %s: using the CPU\n", err.msg);
        opts.device = NULL;
        status = tft_model_open(m, path, &opts, &err);
    }
    cli_progress_end(&progress);
    return status == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

int cli_open_session(struct tft_session **s, const struct tft_model *m, struct tft_session_opts *o)
{
    struct tft_error err;
    o->size = sizeof *o;
    o->n_threads = (int)cli_model_options.threads;
    o->kv = cli_session_options.kv;
    if (cli_session_options.ctx)
        o->capacity = cli_session_options.ctx;
    return tft_session_open(s, m, o, &err) == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

struct tft_sampler cli_sampler(void)
{
    struct cli_sampling_options *o = &cli_sampling_options;
    if (o->seed == CLI_ANY_SEED) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        /* short enough to be typed again */
        o->seed = ((uint64_t)t.tv_sec * 1000003 + (uint64_t)t.tv_nsec) % 1000000;
    }
    return (struct tft_sampler){
        .temperature = o->temperature,
        .top_k = (int32_t)o->top_k,
        .top_p = o->top_p,
        .min_p = o->min_p,
        .repeat_penalty = o->repeat_penalty,
        .repeat_last = (int32_t)o->repeat_last,
        .seed = o->seed,
    };
}

int32_t *cli_tokenize(const struct tft_model *m, const char *text, size_t len, unsigned flags,
                      size_t *n)
{
    size_t room = len + 2; /* a token has at least a byte, but for BOS and a space put in front */
    int32_t *ids = malloc(room * sizeof *ids);
    enum tft_status status = ids ? tft_tokenize(m, text, len, flags, ids, room, n) : TFT_ERR_NOMEM;
    if (status == TFT_OK && *n <= room)
        return ids;
    free(ids);
    if (status == TFT_ERR_UNSUPPORTED)
        cli_fail("the model has no tokenizer; a llama2.c model needs --tokenizer FILE");
    else
        cli_fail("cannot tokenize: %s", tft_status_text(status));
    return NULL;
}

enum tft_status cli_feed(struct tft_session *s, const int32_t *ids, size_t n)
{
    enum { STEP = 256 };
    struct cli_progress progress;
    size_t known = 0;
    while (known < tft_pos(s) && known < n && tft_tokens(s)[known] == ids[known])
        known++;
    cli_progress_begin(&progress, "reading the prompt");
    enum tft_status status;
    size_t to = known;
    do {
        to = n - to > STEP ? to + STEP : n;
        status = tft_sync(s, ids, to);
        cli_progress_at(&progress, (double)(to - known + 1) / (double)(n - known + 1));
    } while (status == TFT_OK && to < n && !cli_interrupted());
    cli_progress_end(&progress);
    return status;
}
