/* tuffet import: makes a GGUF file of a folder of Hugging Face. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/system.h"
#include "tools/commands/commands.h"
#include "tools/import/import.h"
#include "tools/quantize/tuffet_quantize.h"

static struct {
    const char *out, *base, *ignore_keys;
    int type; /* enum import_type, or one of TYPES that is for the library of tuffet quantize */
    bool no_tokenizer, json;
} opt;

/* A manual page has room for no more in a line; tuffet quantize --gguf has the rest. */
#define TYPES "keep|f16|bf16|f32|q8_0|q4_0|q3_k_m|q4_k|q4_k_m|q5_k|q5_k_m|q6_k"

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.out, "FILE", "write the GGUF file to FILE"},
    {0, "base", CLI_TEXT, &opt.base, "MODEL",
     "of a LoRA adapter of PEFT: the GGUF file of the model that it adapts"},
    {0, "type", CLI_WORD, &opt.type, TYPES,
     "type of the matrices; keep: that of FOLDER; from q8_0 on, as tuffet quantize --gguf makes "
     "them. Vectors and norms become f32"},
    {0, "ignore-key", CLI_TEXT, &opt.ignore_keys, "NAME",
     "import FOLDER as if its config.json did not have the member NAME, which tuffet does not "
     "support; several names have commas between them"},
    {0, "no-tokenizer", CLI_FLAG, &opt.no_tokenizer, NULL, "leave the tokenizer out"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "print one JSON object: seconds, tensors, bytes"},
    {0},
};

static bool is_file(const char *path)
{
    DIR *folder = opendir(path);
    if (folder)
        closedir(folder);
    return !folder && system_is_same_file(path, path);
}

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static void warn(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "tuffet: %s\n", text);
}

static int import(const char *folder, struct import_result *r)
{
    struct cli_progress bar;
    struct tft_error err;
    struct import_opts o = {.type = (enum import_type)opt.type,
                            .no_tokenizer = opt.no_tokenizer,
                            .ignore_keys = opt.ignore_keys,
                            .warn = warn,
                            .progress = progress,
                            .user = &bar};
    cli_catch_interrupts();
    cli_progress_begin(&bar, "importing");
    enum tft_status status = opt.base ? import_adapter(folder, opt.base, opt.out, &o, r, &err)
                                      : import_model(folder, opt.out, &o, r, &err);
    cli_progress_end(&bar);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    return r->stopped ? CLI_INTERRUPTED : CLI_OK;
}

static bool has(const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = malloc(room);
    if (!path)
        return false;
    snprintf(path, room, "%s/%s", folder, name);
    bool found = system_is_same_file(path, path);
    free(path);
    return found;
}

/* A folder with an adapter alone needs --base. */
static int check_base(const char *folder)
{
    bool adapter = has(folder, "adapter_config.json"), model = has(folder, "config.json");
    if (adapter && !model && !opt.base)
        return cli_usage("%s is a LoRA adapter: name the GGUF file of its model: --base MODEL",
                         folder);
    if (opt.base && !adapter)
        return cli_usage("%s is no LoRA adapter of PEFT: it has no adapter_config.json", folder);
    if (opt.base && opt.no_tokenizer)
        return cli_usage("--no-tokenizer is for models: an adapter has no tokenizer");
    return CLI_OK;
}

/* ---- blocks */

static bool blocks_progress(void *user, const char *step, double done)
{
    (void)step;
    return progress(user, done);
}

/* A copy of word `i` of TYPES, at most `room` bytes with its end. */
static void name_of(int i, char *name, size_t room)
{
    const char *word = TYPES;
    for (; i; i--)
        word += strcspn(word, "|") + 1;
    snprintf(name, room, "%.*s", (int)strcspn(word, "|"), word);
}

/* Imports the folder as it is, and writes blocks from that. */
static int import_blocks(const char *folder)
{
    struct cli_progress bar;
    struct tft_quantize_result *r;
    struct tft_error err;
    char type[16];
    if (opt.no_tokenizer)
        return cli_usage("--no-tokenizer is for --type keep, f16, bf16 and f32: others read text");
    if (opt.base)
        return cli_usage("--base is for --type keep, f16, bf16 and f32");
    name_of(opt.type, type, sizeof type);
    struct tft_quantize_opts o = {.size = sizeof o,
                                  .gguf = type,
                                  .ignore_keys = opt.ignore_keys,
                                  .progress = blocks_progress,
                                  .note = warn,
                                  .user = &bar};
    cli_catch_interrupts();
    cli_progress_begin(&bar, "importing");
    enum tft_status status = tft_quantize(folder, opt.out, &o, &r, &err);
    cli_progress_end(&bar);
    if (status != TFT_OK)
        return status == TFT_ERR_CANCELLED ? CLI_INTERRUPTED : cli_fail("%s", err.msg);
    if (opt.json)
        puts(r->json);
    else
        fputs(r->report, stderr);
    tft_quantize_free(r);
    return CLI_OK;
}

static int run_import(const char *folder)
{
    struct import_result r;
    uint64_t start = cli_ns();
    if (!opt.out)
        return cli_usage("give the file to write: -o FILE");
    if (is_file(folder))
        return cli_usage("%s is a file: name the folder that it lies in, with config.json", folder);
    if (check_base(folder) != CLI_OK)
        return CLI_USAGE;
    if (cli_check_output(opt.out, folder) != CLI_OK ||
        (opt.base && cli_check_output(opt.out, opt.base) != CLI_OK))
        return CLI_FAILED;
    if (opt.type > IMPORT_F32)
        return import_blocks(folder);
    int status = import(folder, &r);
    if (status != CLI_OK)
        return status;
    if (opt.json)
        printf("{\"seconds\":%.3f,\"tensors\":%zu,\"bytes\":%" PRIu64 "}\n",
               (double)(cli_ns() - start) / 1e9, r.tensors, r.bytes);
    return CLI_OK;
}

const struct cli_command command_import = {
    .name = "import",
    .operand = "FOLDER",
    .summary = "convert a folder of Hugging Face to a GGUF file",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {0},
        },
    .notes =
        "FOLDER has config.json and model.safetensors, or the shards that "
        "model.safetensors.index.json names, with weights in F32, F16 or BF16, or quantized "
        "(docs/models.md, \"Quantized folders\"), and tokenizer.json or tokenizer.model. FILE has "
        "the names and the layout of weights of GGUF. A tensor that the architecture does not know "
        "is an error, and so is a member of config.json.\n"
        "\n"
        "FOLDER may be a LoRA adapter of PEFT, with adapter_config.json and "
        "adapter_model.safetensors: run, chat, ppl and serve take FILE as --lora.\n"
        "\n"
        "The folder's files are mapped and read once, quantized matrices twice. FILE takes about "
        "as much disk space as FOLDER. Types from q8_0 on need that space beside FILE meanwhile.\n",
    .examples = "tuffet import SmolLM2-135M-Instruct -o smollm2.gguf\n"
                "tuffet import Llama-3.2-1B -o llama.f16.gguf --type f16\n"
                "tuffet import Llama-3.2-1B -o llama.q4_k_m.gguf --type q4_k_m\n"
                "tuffet import my-adapter --base llama.f16.gguf -o adapter.gguf\n",
    .run = run_import,
};
