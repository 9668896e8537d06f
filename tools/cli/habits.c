/* Habits of other programs: options, commands and files that users try here, and the name that
   tuffet has for each. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "port/port.h"

struct habit {
    const char *theirs; /* words with a space between */
    const char *ours; /* an option of the command, without which the line does not apply; or NULL */
    const char *say;
};

static bool has_word(const char *words, const char *word, size_t n)
{
    for (const char *p = words; *p; p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' '))
        if (strcspn(p, " ") == n && memcmp(p, word, n) == 0)
            return true;
    return false;
}

static const struct habit option_habits[] = {
    {"-m --model", NULL, "the model has no option: name its file alone"},
    {"-ngl --gpu-layers --n-gpu-layers --n_gpu_layers", "device",
     "--device cuda computes on a GPU, with --gpu-layers N only the last N layers"},
    {"--ctx-size --ctx_size --n-ctx --n_ctx --num-ctx --context-length", "ctx",
     "-c N or --ctx N is the context"},
    {"--n-predict --n_predict --predict --num-predict --max-tokens --max_tokens --max-new-tokens",
     "tokens", "-n N or --tokens N stops after N tokens"},
    {"--temperature", "temp", "--temp T is the temperature"},
    {"--repeat-last-n --repeat_last_n", "repeat-last", "--repeat-last N counts recent tokens"},
    {"--typical-p --typical_p", "typical", "--typical P chooses among typical tokens"},
    {"--top-n-sigma --top_n_sigma", "top-nsigma", "--top-nsigma N bounds the logits of tokens"},
    {"--reasoning-budget --thinking-budget", "think", "--think N ends thoughts after N tokens"},
    {"--repetition-penalty --repeat_penalty", "repeat-penalty",
     "--repeat-penalty R is the penalty"},
    {"--system-prompt -sys", "system", "--system TEXT is the system message"},
    {"--chat-template", "template", "--template NAME chooses a template"},
    {"--chat-template-file", "template-file", "--template-file FILE reads a template"},
    {"--cache-type-k --cache-type-v -ctk -ctv", "kv", "--kv NAME is the type of the KV cache"},
    {"--model-draft --draft-model -md", "draft", "--draft MODEL guesses tokens"},
    {"--grammar-file", "grammar", "--grammar FILE reads a grammar"},
    {"--json-schema-file -jf", "json-schema", "--json-schema FILE reads a schema"},
    {"-i --interactive --interactive-first -cnv --conversation", NULL,
     "tuffet chat MODEL converses"},
    {"-hf -hfr --hf-repo --hf-file -mu --model-url", NULL,
     "hf:USER/REPO:QUANT in place of a file is a model of Hugging Face"},
    {"--lora", NULL,
     "run, chat, ppl, serve, batch and quantize take adapters; this command does not"},
    {"--lora-scaled --adapter", "lora", "--lora FILE:SCALE adds a LoRA adapter"},
    {"--lora-init-without-apply", "lora", "--lora FILE:0 opens an adapter without adding it"},
    {"--mmproj -mm --image", NULL, "tuffet reads text, no images"},
    {"--mmap --no-mmap --no-warmup -fa --flash-attn -b -ub --batch-size --ubatch-size "
     "--numa --color",
     NULL, "there is nothing to set: leave the option out"},
    {0},
};

static const struct habit command_habits[] = {
    {"server api", NULL, "tuffet serve MODEL answers over HTTP"},
    {"generate complete completion main cli", NULL, "tuffet run MODEL generates text"},
    {"convert convert_hf_to_gguf create", NULL, "tuffet import FOLDER makes a GGUF file"},
    {"perplexity", NULL, "tuffet ppl MODEL measures perplexity"},
    {"embed embedding embeddings", NULL, "tuffet serve MODEL computes embeddings"},
    {"show info", NULL, "tuffet inspect MODEL shows a model"},
    {"download get fetch", NULL, "tuffet pull USER/REPO fetches a model"},
    {"ls", NULL, "tuffet list lists the models on this machine"},
    {"remove delete", NULL, "tuffet rm USER/REPO removes a model"},
    {"ps stop", NULL, "tuffet serve runs until Ctrl-C, and nothing else keeps a model"},
    {"version", NULL, "tuffet --version prints the version"},
    {0},
};

static const char *find(const struct habit *list, const struct cli_command *c, const char *word,
                        size_t n)
{
    for (const struct habit *h = list; h->theirs; h++)
        if (has_word(h->theirs, word, n))
            return !h->ours || (c && cli_find_option(c, h->ours, strlen(h->ours))) ? h->say : NULL;
    return NULL;
}

const char *cli_option_habit(const struct cli_command *c, const char *arg)
{
    return find(option_habits, c, arg, strcspn(arg, "="));
}

static bool ends(const char *path, const char *end)
{
    size_t n = strlen(path), len = strlen(end);
    return n > len && strcmp(path + n - len, end) == 0;
}

int cli_no_command(const char *name)
{
    const char *say = find(command_habits, NULL, name, strlen(name));
    if (*name == '-')
        return cli_usage("a command comes first, as in tuffet run MODEL -p TEXT, and not %s", name);
    if (say)
        return cli_usage("there is no command \"%s\": %s", name, say);
    if (ends(name, ".gguf") || access(name, F_OK) == 0)
        return cli_usage("a command comes before %s: tuffet run generates text, tuffet chat "
                         "converses, tuffet inspect shows the model",
                         name);
    return cli_usage("there is no command \"%s\"", name);
}

static bool is_folder(const char *path)
{
    struct tft_map map;
    int os = tft_port_map(&map, path);
    if (!os)
        tft_port_unmap(&map);
    return os == EISDIR;
}

int cli_check_model_path(const char *path, bool takes_folders)
{
    bool there = access(path, F_OK) == 0;
    if (!there && strchr(path, ' ') && !strchr(path, '/'))
        return cli_fail(
            "%s: cannot be read: No such file or directory (a text goes after -p, as in "
            "tuffet run -p TEXT)",
            path);
    if (there && ends(path, ".safetensors"))
        return cli_fail("%s: weights alone are no model: tuffet import FOLDER -o FILE.gguf takes "
                        "the folder that they lie in",
                        path);
    if (!takes_folders && is_folder(path))
        return cli_fail("%s: cannot be read: Is a directory (tuffet import %s -o FILE.gguf makes a "
                        "file of it)",
                        path, path);
    return CLI_OK;
}

int cli_check_lora_path(const char *path)
{
    if (is_folder(path) || ends(path, ".safetensors"))
        return cli_fail("--lora: %s: cannot be read: tuffet import FOLDER --base MODEL -o "
                        "FILE.gguf makes a file of an adapter's folder",
                        path);
    return CLI_OK;
}
