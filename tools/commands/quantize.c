/* tuffet quantize: makes a W8A8 model from a float model. */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/template.h"
#include "tools/commands/commands.h"
#include "tools/commands/quantize_plan.h"

static struct {
    const char *out, *kv, *bits, *gguf;
    uint32_t group;
    int rotate, rounding;
    float smooth;
    bool json;
} opt;

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "write the model to FILE"},
    {0, "smooth", CLI_REAL, &opt.smooth, "A",
     "apply SmoothQuant with alpha A to the outputs of norms (default 0: off)"},
    {0, "rotate", CLI_WORD, &opt.rotate, "auto|none|o|o+down|all",
     "rotate attention's output (o), also ffn_down's input (o+down), also the residual stream "
     "(all), by Hadamard transforms"},
    {0, "bits", CLI_TEXT, &opt.bits, "LIST",
     "bits per weight: 2, 3, 4 or 8 (default 8), with overrides by matrix or layer, like "
     "\"4,attn_v=8,0-3.ffn_down=8\"; with a group size, like \"4g32\""},
    {0, "group", CLI_COUNT, &opt.group, "N",
     "group size: 32, 64 or 128 weights of 2 to 4 bits share a scale (default 64; 32 where the "
     "codes of a Q4_0 file are kept, or where padding makes 64 larger)"},
    {0, "gguf", CLI_TEXT, &opt.gguf, "TYPE",
     "write a plain GGUF file instead: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q3_k, q3_k_m, "
     "q4_k, q4_k_m, q5_k, q5_k_m or q6_k; keep: leave the weights of MODEL as they are"},
    {0, "kv", CLI_TEXT, &opt.kv, CLI_KV_ARG,
     "set the model's default KV cache, as --kv of tuffet run does (default none: sessions then "
     "have i8)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: seconds, tokens, window, prefix, the prefixes that were tried, "
     "cushion, tune, system, kv_search, bits_search, vectors of an encoder, dynamic, check, and "
     "inputs with their ranges; with --gguf: seconds, gguf, tokens, tensors, bytes, types, "
     "kv_search, check"},
    {0},
};

static const struct cli_option rounding_options[] = {
    {0, "rounding", CLI_WORD, &opt.rounding, "gptq|nearest|awq",
     "round weights of 2 to 4 bits, and blocks of --gguf of 4 and 5, so that each makes up for the "
     "errors of others (gptq), to nearest, or to nearest after scaling weights of large inputs "
     "(awq, without --gguf)"},
    {0},
};

static struct cli_texts loras;

static const struct cli_option lora_options[] = {
    {0, "lora", CLI_TEXTS, &loras, "FILE",
     "add the LoRA adapter of FILE, a GGUF file, to the weights first, FILE:0.5 half of it; may be "
     "repeated"},
    {0},
};

static struct {
    const char *calib;
    uint32_t tokens, window;
    bool special;
} text = {.tokens = 8192};

static const struct cli_option text_options[] = {
    {0, "calib", CLI_TEXT, &text.calib, "FILE",
     "calibrate on the text in FILE, or on its conversations (lines of JSON with OpenAI's "
     "messages) and prose inside the program (default: conversations that the model writes, and "
     "that prose); evaluate on other text"},
    {0, "special", CLI_FLAG, &text.special, NULL,
     "read names of special tokens in the text of --calib, such as <|im_start|>, as these tokens"},
    {0, "calib-tokens", CLI_COUNT, &text.tokens, "N",
     "use N tokens of the calibration text, in windows spread evenly over it"},
    {0, "calib-window", CLI_COUNT, &text.window, "N",
     "cut the text into windows of N tokens, each a sequence (default 512, or fewer in a short "
     "context)"},
    {0},
};

static const char *dynamic = "auto";

static const struct cli_option range_options[] = {
    {0, "dynamic", CLI_TEXT, &dynamic, "LIST",
     "measure the ranges of these inputs at run time: all, none, or layers and parts like "
     "\"0-3,ffn_down,5.attn_q,output\"; auto: of the inputs that lose most on held-out text "
     "(default auto)"},
    {0},
};

static struct {
    const char *intact_text, *intact_tokens;
    struct cli_texts system;
    int intact, cushion, bits;
    uint32_t most, sample;
    float tau, cost;
} prefix = {.most = 4, .tau = 0.5f, .cost = 0.02f};

static const struct cli_option prefix_options[] = {
    {0, "intact", CLI_WORD, &prefix.intact, "auto|none|bos",
     "store the keys and values of BOS as a prefix; auto: of BOS, if the model begins texts with "
     "it, and of tokens that are outliers in the text"},
    {0, "intact-text", CLI_TEXT, &prefix.intact_text, "TEXT",
     "store BOS and TEXT as a prefix; <|names|> in TEXT become special tokens"},
    {0, "intact-tokens", CLI_TEXT, &prefix.intact_tokens, "IDS",
     "store these tokens as a prefix, such as \"1,13\""},
    {0, "prefix-bits", CLI_WORD, &prefix.bits, "16|8|4",
     "store the prefix with this many bits per number: F16, Q8_0 or Q4_1"},
    {0, "cushion", CLI_WORD, &prefix.cushion, "none|auto|exhaustive",
     "search tokens for the prefix that take the outliers of activations"},
    {0, "cushion-max", CLI_COUNT, &prefix.most, "N",
     "limit the prefix to N tokens, including the tokens of --intact or --intact-tokens"},
    {0, "cushion-tau", CLI_REAL, &prefix.tau, "T",
     "refuse a token unless it lowers the error below T times its value"},
    {0, "cushion-cost", CLI_REAL, &prefix.cost, "C",
     "refuse a token that raises the loss on the text by more than C nats per token"},
    {0, "cushion-sample", CLI_COUNT, &prefix.sample, "N",
     "judge candidates by text samples of N tokens (default 512, or fewer in a short context)"},
    {0},
};

static const struct cli_option system_options[] = {
    {0, "intact-system", CLI_TEXTS, &prefix.system, "[NAME=]TEXT",
     "store the beginning of conversations with the system message TEXT, as a prefix called NAME "
     "(default \"system\"); once or more"},
    {0},
};

static struct {
    bool tune, calibrate;
    uint32_t epochs;
    float rate, lambda;
} tuning = {.epochs = 2, .lambda = 0.01f};

static const struct cli_option tuning_options[] = {
    {0, "tune", CLI_FLAG, &tuning.tune, NULL,
     "train the prefix to predict the text with little 8-bit error (CushionCache, section 4.2)"},
    {0, "calibrate", CLI_FLAG, &tuning.calibrate, NULL,
     "train the prefix to bring layer outputs near the float model's (IntactKV, section 3.2)"},
    {0, "tune-epochs", CLI_COUNT, &tuning.epochs, "N", "pass N times over the text"},
    {0, "tune-rate", CLI_REAL, &tuning.rate, "R",
     "set the learning rate of AdamW (default 0.003; 0.0003 with --calibrate)"},
    {0, "tune-lambda", CLI_REAL, &tuning.lambda, "L",
     "weight the 8-bit error by L in the loss of --tune"},
    {0},
};

static const char *bits_budget, *kv_budget;

static const struct cli_option bits_options[] = {
    {0, "bits-search", CLI_TEXT, &bits_budget, "BUDGET",
     "choose 2, 3, 4 or 8 bits, and without --group a group size, for each matrix of the layers "
     "within BUDGET: \"4.25\" bits per weight, overhead included, or \"700MB\" in all"},
    {0},
};

static const struct cli_option kv_options[] = {
    {0, "kv-search", CLI_TEXT, &kv_budget, "BUDGET",
     "choose bits for each layer of the KV cache --kv (default tuffet) within BUDGET: \"2.5\" bits "
     "per number, overhead included; \"5632B\" per token; or \"2.5@8192\", the mean over a session "
     "of 8192 tokens, f16 ones included: then choose clip, retain and group too; for fisher the "
     "most bits that fit"},
    {0},
};

/* ---- the options as those of the library */

/* 0 is a value on the command line, and the default in the library. */
static float real(float x) { return x > 0 ? x : -1; }

/* Start of the text of "NAME=TEXT"; option itself if it is a text. A name has no white space, so
   "Answer with x = 1" is a text. */
static const char *text_of(const char *option)
{
    size_t n = strcspn(option, "= \t\r\n");
    return option[n] == '=' ? option + n + 1 : option;
}

/* The name, which the caller frees; NULL: out of memory. */
static char *name_of(const char *option)
{
    const char *given = text_of(option);
    return given > option ? cli_copy(option, (size_t)(given - option) - 1)
                          : cli_copy("system", strlen("system"));
}

static void free_systems(struct tft_quantize_system *all)
{
    for (uint32_t i = 0; all && i < prefix.system.n; i++)
        free((char *)(uintptr_t)all[i].name);
    free(all);
}

/* NULL: out of memory. */
static struct tft_quantize_system *systems(void)
{
    bool good = true;
    struct tft_quantize_system *all = calloc(prefix.system.n + 1, sizeof *all);
    for (uint32_t i = 0; all && i < prefix.system.n; i++) {
        all[i] =
            (struct tft_quantize_system){
                .name = name_of(prefix.system.p[i]), .text = text_of(prefix.system.p[i])};
        good &= all[i].name != NULL;
    }
    if (good)
        return all;
    free_systems(all);
    return NULL;
}

static void free_loras(struct tft_quantize_lora *all)
{
    for (uint32_t i = 0; all && i < loras.n; i++)
        free((char *)(uintptr_t)all[i].path);
    free(all);
}

/* NULL: out of memory. */
static struct tft_quantize_lora *adapters(void)
{
    bool good = true;
    struct tft_quantize_lora *all = calloc(loras.n + 1, sizeof *all);
    for (uint32_t i = 0; all && i < loras.n; i++) {
        all[i].path = cli_split_lora(loras.p[i], &all[i].scale);
        good &= all[i].path != NULL;
    }
    if (good)
        return all;
    free_loras(all);
    return NULL;
}

/* Adapters are files, and none is written over. */
static int check_loras(const struct tft_quantize_lora *all)
{
    int status = all ? CLI_OK : cli_fail("out of memory");
    for (uint32_t i = 0; i < loras.n && status == CLI_OK; i++) {
        status = cli_check_lora_path(all[i].path);
        if (status == CLI_OK)
            status = cli_check_output(opt.out, all[i].path);
    }
    return status;
}

/* A plain file without what --rounding gptq does is an error, but not where gptq is the default. */
static enum tft_quantize_rounding rounding(void)
{
    bool only = opt.gguf && opt.rounding == TFT_ROUND_GPTQ && cli_is_given(rounding_options);
    return only ? TFT_ROUND_GPTQ_ONLY : (enum tft_quantize_rounding)opt.rounding;
}

static struct tft_quantize_opts library_options(void)
{
    static const uint32_t bits[] = {16, 8, 4};
    return (struct tft_quantize_opts){
        .size = sizeof(struct tft_quantize_opts),
        .tokenizer = cli_model_options.tokenizer,
        .ignore_keys = cli_model_options.ignore_keys,
        .n_threads = (int)cli_model_options.threads,
        .bits = opt.bits,
        .bits_search = bits_budget,
        .group = opt.group,
        .rounding = rounding(),
        .rotate = (enum tft_quantize_rotation)opt.rotate,
        .smooth = opt.smooth,
        .dynamic = dynamic,
        .calib_name = text.calib,
        .special = text.special,
        .calib_tokens = text.tokens,
        .calib_window = text.window,
        .format = template_given(),
        .time = template_time(),
        .intact = (enum tft_quantize_intact)prefix.intact,
        .intact_text = prefix.intact_text,
        .intact_tokens = prefix.intact_tokens,
        .prefix_bits = bits[prefix.bits],
        .n_system = prefix.system.n,
        .n_loras = loras.n,
        .cushion = (enum tft_quantize_cushion)prefix.cushion,
        .cushion_max = prefix.most,
        .cushion_sample = prefix.sample,
        .cushion_tau = real(prefix.tau),
        .cushion_cost = real(prefix.cost),
        .tune = tuning.tune        ? TFT_TUNE_PREDICTION
                : tuning.calibrate ? TFT_TUNE_OUTPUTS
                                   : TFT_TUNE_NONE,
        .tune_epochs = tuning.epochs,
        .tune_rate = tuning.rate,
        .tune_lambda = real(tuning.lambda),
        .kv = opt.kv,
        .kv_search = kv_budget,
        .gguf = opt.gguf,
    };
}

/* ---- the run */

/* What callbacks share. */
static struct {
    struct cli_progress bar;
    bool begun;
    char step[64]; /* the current one, which the bar shows */
    int status;    /* of the plan */
} line;

static bool progress(void *user, const char *step, double done)
{
    (void)user;
    snprintf(line.step, sizeof line.step, "%s", step);
    if (!line.begun)
        cli_progress_begin(&line.bar, line.step);
    line.begun = true;
    cli_progress_at(&line.bar, done);
    return !cli_interrupted();
}

static void note(void *user, const char *said)
{
    (void)user;
    cli_progress_end(&line.bar);
    fprintf(stderr, "tuffet: %s\n", said);
}

static bool plan(void *user, const struct tft_quantize_plan *p)
{
    (void)user;
    cli_progress_end(&line.bar);
    line.status = quantize_plan(p, opt.out, (int)cli_model_options.threads, opt.json);
    return line.status == CLI_OK;
}

/* A message about an option begins with its name. */
static int failed(enum tft_status status, const struct tft_error *err)
{
    if (status == TFT_ERR_CANCELLED)
        return line.status == CLI_OK ? CLI_INTERRUPTED : line.status;
    return strncmp(err->msg, "--", 2) == 0 ? cli_usage("%s", err->msg) : cli_fail("%s", err->msg);
}

static int quantize_model(const char *path, const struct tft_quantize_opts *o)
{
    struct tft_quantize_result *r;
    struct tft_error err;
    cli_catch_interrupts();
    enum tft_status status = tft_quantize(path, opt.out, o, &r, &err);
    cli_progress_end(&line.bar);
    if (status != TFT_OK)
        return failed(status, &err);
    if (opt.json)
        puts(r->json);
    else
        fputs(r->report, stderr);
    tft_quantize_free(r);
    return CLI_OK;
}

/* Options of W8A8 models, also with their default values, go with no plain file. */
static int check_plain(void)
{
    const struct cli_option *const lists[] = {range_options, prefix_options, system_options,
                                              tuning_options, bits_options};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct cli_option *o = lists[i]; o->name; o++)
            if (cli_is_given(o))
                return cli_usage("--%s is for W8A8 models, and --gguf makes a plain file", o->name);
    if (opt.rounding == TFT_ROUND_AWQ)
        return cli_usage("--rounding awq is for W8A8 models, and --gguf makes a plain file");
    return CLI_OK;
}

static int check_options(void)
{
    if (!opt.out)
        return cli_usage("give the file to write: -o FILE");
    if (tuning.tune && tuning.calibrate)
        return cli_usage("--tune and --calibrate exclude each other");
    if (opt.gguf && check_plain() != CLI_OK)
        return CLI_USAGE;
    return template_check();
}

/* No file that is read is written. */
static int check_output(const char *path)
{
    int status = cli_check_model_path(path, true);
    if (status == CLI_OK)
        status = cli_check_output(opt.out, path);
    if (status == CLI_OK)
        status = cli_check_output(opt.out, cli_model_options.tokenizer);
    return status == CLI_OK ? cli_check_output(opt.out, text.calib) : status;
}

static int run_quantize(const char *path)
{
    struct tft_quantize_opts o = library_options();
    struct tft_quantize_system *all = NULL;
    struct tft_quantize_lora *merged = adapters();
    char *calib = NULL;
    int status = check_options();
    if (status == CLI_OK)
        status = check_output(path);
    if (status == CLI_OK)
        status = check_loras(merged);
    if (status == CLI_OK)
        status = cli_limit_cpu();
    if (status == CLI_OK && text.calib) {
        calib = cli_read(text.calib, &o.n_calib);
        status = calib ? CLI_OK : CLI_FAILED;
    }
    if (status == CLI_OK) {
        all = systems();
        status = all ? CLI_OK : cli_fail("out of memory");
    }
    if (status == CLI_OK) {
        o.calib = calib;
        o.system = all;
        o.loras = merged;
        o.progress = progress;
        o.note = note;
        o.plan = plan;
        status = quantize_model(path, &o);
    }
    free_systems(all);
    free_loras(merged);
    free(calib);
    return status;
}

const struct cli_command command_quantize = {
    .name = "quantize",
    .operand = "MODEL",
    .summary = "convert a model to int8 weights and activations (W8A8)",
    .groups =
        (const struct cli_option_group[]){
            {"Quantization and output", options},
            {NULL, rounding_options},
            {NULL, lora_options},
            {"Calibration text", text_options},
            {"Ranges of activations", range_options},
            {"Prefix", prefix_options},
            {NULL, system_options},
            {NULL, template_option_list},
            {"Tuning of the prefix", tuning_options},
            {"Bits of the weights", bits_options},
            {"Bits of the KV cache", kv_options},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_key_option_list},
            {NULL, cli_cpu_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .first = (const char *const[]){"output", "calib", "bits", "gguf", "kv",
                                   "threads", NULL},
    .notes =
        "MODEL is a float model, or one with quantized weights, which are expanded one layer at "
        "a time. It may be a folder of Hugging Face, as tuffet import takes: the GGUF file that it "
        "becomes lies beside OUTPUT meanwhile, without a name, and needs as much disk space as the "
        "folder. So does a copy of MODEL with the adapters of --lora, which need floats.\n"
        "\n"
        "Inputs of linear layers, for --dynamic: the parts of a layer are attn_q (shared with "
        "attn_k and attn_v), attn_output, ffn_up (shared with ffn_gate), ffn_down, and where there "
        "is a shared expert ffn_down_shexp (in gemma4, for the feed-forward beside experts, "
        "also ffn_up_shexp); output is the head.\n"
        "\n"
        "--rotate all costs no time at run time, but gives a tied head weights of its own. It "
        "needs RMSNorm, so gpt2 cannot have it. auto means all; o+down for models with "
        "LayerNorm or a tied head.\n"
        "\n"
        "--gguf TYPE makes a file of ggml's types, for other programs too: the mixes and sizes are "
        "llama.cpp's. The text tells which columns of a matrix count most, and how weights make up "
        "for the errors of others; --rounding nearest leaves that out, and takes a fraction of the "
        "time. Blocks of more bits than TYPE are encoded again, others stay; f32, f16 and bf16 "
        "expand all. It excludes the options of W8A8 models: all about bits, ranges, prefix, "
        "tuning and cache.\n"
        "\n"
        "--intact auto looks for the text's outliers, and tries prefixes that take them. A part of "
        "the text is kept out of calibration. The prefix that predicts this part best is kept.\n"
        "\n"
        "--cushion searches all tokens (CushionCache). auto tries each on little text, in int8 "
        "and in a few layers, and the best in the whole float model: minutes per token for a "
        "model of 1 B parameters. A token is accepted, before the last one found or at the end "
        "of the prefix, if it meets --cushion-tau and --cushion-cost. A stopped search leaves "
        "OUTPUT.cushion, and the same command resumes from it.\n"
        "\n"
        "--tune and --calibrate train on four windows of text in five, through the KV cache of "
        "--kv, and keep the prefix that does best on the others. Then the model is made again, "
        "with ranges, and the calibration of --kv, after that prefix, unless --bits is below 8.\n"
        "\n"
        "--kv with reorder=calibrated or clip=calibrated, such as skvq, calibrates OUTPUT for "
        "that KV cache: the order of channels, and the part of their range that codes cover "
        "(SKVQ, section 3.1). OUTPUT works with other caches too.\n"
        "\n"
        "--kv-search measures how far few bits for a layer's keys or values move the next token's "
        "distribution from that with an f16 cache, and gives more bits to layers that lose more. "
        "If this is no better on held-out text, all layers get the same bits. With a depth, as in "
        "2.5@8192, it first tries other values of clip, retain, group and the axis of v, each at "
        "the same bytes, and prints the loss of each.\n",
    .examples =
        "tuffet quantize model.gguf -o model.w8a8.gguf\n"
        "tuffet quantize SmolLM2-135M-Instruct -o model.w8a8.gguf\n"
        "tuffet quantize model.gguf --lora adapter.gguf -o model.w8a8.gguf\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --intact-tokens 1,13\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --cushion auto\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --cushion auto --tune\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv-search 2.5\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv-search 2.5@8192\n"
        "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --kv skvq:v=1.5\n",
    .run = run_quantize,
};
