/* tuffet demo: a tour of the program with the model that ships. Each part prints the command line
   that does the same alone, and runs it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"

#define STORY "Once upon a time"
#define SMALL_CACHE "kivi:bits=1.5"
#define SCHEMA                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"child\": {\"enum\": [\"Ben\", \"Lily\", "           \
    "\"Tim\"]}, "                                                                                  \
    "\"place\": {\"enum\": [\"beach\", \"house\", \"park\"]}, \"pets\": {\"type\": \"array\", "    \
    "\"items\": {\"enum\": [\"bird\", \"cat\", \"dog\"]}, \"minItems\": 1, \"maxItems\": 2}}, "    \
    "\"required\": [\"child\", \"place\", \"pets\"]}"
enum { HASHED_TOKENS = 64 }; /* plain C takes a second for these */

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL,
     "print one JSON object a line for each part: those of tuffet run; the bytes of a token in the "
     "caches; and the hashes"},
    {0},
};

static const char *program(void)
{
    return strchr(cli_program_path, '/') ? cli_program_path : "tuffet";
}

/* A path, in quotes if a shell needs them. */
static void print_path(const char *path)
{
    const char *quote = path[strcspn(path, " \"()<>|&;$`\\*?!#~")] ? "'" : "";
    printf("%s%s%s ", quote, path, quote);
}

/* Prints a command line for the user to type. words: after the model; model: or NULL. */
static void print_command(const char *command, const char *model, const char *words)
{
    fputs("    $ ", stdout);
    print_path(program());
    printf("%s ", command);
    if (model)
        print_path(model);
    printf("%s\n\n", words);
}

/* Cuts a line at its spaces outside of quotes, and removes the quotes. Returns how many words it
   has. */
static int split(char *line, char **words, int most)
{
    int n = 0;
    for (char *to = line; *line && n < most;) {
        char quote = 0;
        for (words[n++] = to; *line && (quote || *line != ' '); line++)
            if (*line == quote)
                quote = 0;
            else if (!quote && (*line == '"' || *line == '\''))
                quote = *line;
            else
                *to++ = *line;
        line += *line == ' ';
        *to++ = 0;
    }
    return n;
}

/* Prints the command line `tuffet run [MODEL] WORDS`, and runs it. */
static int run_part(const char *model, const char *words)
{
    enum { MOST = 16 };
    static char line[512]; /* the options of `run` point there */
    const char *none;
    char *args[MOST];
    if (!json)
        print_command("run", model, words);
    snprintf(line, sizeof line, "run %s%s", json ? "--json " : "", words);
    int status = cli_parse(&command_run, split(line, args, MOST), args, &none);
    status = status == CLI_OK ? command_run.run(model) : status;
    if (status == CLI_OK && !json)
        putchar('\n');
    return status;
}

static void title(int part, const char *text)
{
    if (!json)
        printf("%d of 4. %s\n", part, text);
}

static int tell_story(const char *model)
{
    title(1, "A story. --temp 0 takes the most likely token each time: every machine tells the "
             "same story.");
    return run_part(model, "-n 250 --temp 0 --echo -p \"" STORY "\"");
}

/* ---- the same story with a small cache */

static int print_cache_bytes(const char *model, const char *path)
{
    struct tft_model *m = NULL;
    struct tft_error err;
    int status = cli_open_model(&m, path, false);
    if (status != CLI_OK)
        return status;
    size_t floats = tft_kv_bytes(m, "f16", &err), bytes = tft_kv_bytes(m, "i8", &err),
           small = tft_kv_bytes(m, SMALL_CACHE, &err);
    tft_model_close(m);
    if (json) {
        printf("{\"f16\":%zu,\"i8\":%zu,\"" SMALL_CACHE "\":%zu}\n", floats, bytes, small);
        return CLI_OK;
    }
    printf("A token takes %zu bytes in a cache of f16, %zu of i8, and %zu of 1.5 bits.\n", floats,
           bytes, small);
    print_command("inspect", model ? model : path, "--kv " SMALL_CACHE);
    return CLI_OK;
}

static int tell_story_in_few_bits(const char *model, const char *path)
{
    title(2, "The same story in less memory. Keys and values are rounded to 1.5 bits (three "
             "levels),\nbut for the newest 128 tokens or fewer.");
    int status = run_part(model, "-n 250 --temp 0 --kv " SMALL_CACHE " --echo -p \"" STORY "\"");
    cli_session_options.kv = NULL;
    return status == CLI_OK ? print_cache_bytes(model, path) : status;
}

/* ---- the same bits */

/* FNV-1a of the bits of all logits that lead to the story, computed with the session. */
static int hash_story(const struct tft_model *m, struct tft_session *s, uint64_t *hash)
{
    struct tft_model_info info = {.size = sizeof info};
    struct tft_sampler greedy = {0};
    size_t n;
    tft_model_describe(m, &info);
    int32_t *ids = cli_tokenize(m, STORY, strlen(STORY), TFT_ADD_BOS, &n);
    if (!ids)
        return CLI_FAILED;
    enum tft_status status = tft_prefill(s, ids, n);
    free(ids);
    *hash = 0xcbf29ce484222325;
    for (int i = 0; status == TFT_OK && i < HASHED_TOKENS && !cli_interrupted(); i++) {
        const unsigned char *p = (const unsigned char *)tft_logits(s, 0);
        for (size_t at = 0; at < info.n_vocab * sizeof(float); at++)
            *hash = (*hash ^ p[at]) * 0x100000001b3;
        int32_t id = tft_sample(&greedy, s);
        if (tft_token_ends(m, id))
            break;
        status = tft_decode(s, id);
    }
    return status == TFT_OK || status == TFT_ERR_FULL ? CLI_OK : cli_fail_session(s);
}

static int hash_with(const char *path, int threads, uint64_t *hash)
{
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_session_opts o = {.size = sizeof o, .n_threads = threads};
    struct tft_error err;
    int status = cli_open_model(&m, path, false);
    if (status == CLI_OK && tft_session_open(&s, m, &o, &err) != TFT_OK)
        status = cli_fail("%s", err.msg);
    if (status == CLI_OK)
        status = hash_story(m, s, hash);
    tft_session_close(s);
    tft_model_close(m);
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

struct hashes {
    const char *path;
    uint64_t first; /* the first hash */
    int n;
    bool differ;
};

static int compare(struct hashes *h, const char *level, int threads)
{
    uint64_t hash = 0;
    int status = hash_with(h->path, threads, &hash);
    if (status != CLI_OK)
        return status;
    if (json)
        printf("%s{\"isa\":\"%s\",\"threads\":%d,\"hash\":\"%016" PRIx64 "\"}", h->n ? "," : "",
               level, threads, hash);
    else
        printf("    %-12s %3d thread%s  %016" PRIx64 "\n", level, threads, threads == 1 ? " " : "s",
               hash);
    fflush(stdout);
    h->first = h->n ? h->first : hash;
    h->differ |= hash != h->first;
    h->n++;
    return CLI_OK;
}

/* Each ISA level of this machine, with one thread and with all. */
static int compare_levels(struct hashes *h)
{
    int all = cli_model_options.threads ? (int)cli_model_options.threads : tft_cpu_threads();
    int status = CLI_OK;
    const char *level;
    for (size_t i = 0; status == CLI_OK && (level = tft_feature(i)); i++) {
        if (tft_cpu_limit(level) != TFT_OK) /* of another CPU, or no level */
            continue;
        status = compare(h, level, 1);
        if (status == CLI_OK && all > 1)
            status = compare(h, level, all);
    }
    tft_cpu_limit(NULL);
    return status;
}

static int show_same_bits(const char *model, const char *path)
{
    struct hashes h = {.path = path};
    title(
        3,
        "The same bits. A line has the hash of the logits of the story's first 64 tokens, by the\n"
        "instructions that it names: c is plain C.");
    if (json)
        fputs("{\"hashes\":[", stdout);
    else
        print_command("run", model, "--cpu c -n 250 --temp 0 --echo -p \"" STORY "\"");
    int status = compare_levels(&h);
    if (json)
        printf("],\"same\":%s}\n", h.differ ? "false" : "true");
    if (status != CLI_OK)
        return status;
    if (h.differ)
        return cli_fail("the hashes differ: this machine or this build computes other numbers; "
                        "please report the output of tuffet --version");
    if (!json)
        printf("All %d are the same.\n\n", h.n);
    return CLI_OK;
}

static int write_json(const char *model)
{
    title(4, "JSON by a schema. A token comes only if the text stays valid: a model that has read "
             "nothing\nbut stories writes valid JSON.");
    return run_part(model,
                    "-n 250 --temp 0 --echo -p \"Lily saw a big dog in the park. \" --json-schema "
                    "'" SCHEMA "'");
}

static void print_end(void)
{
    if (!json)
        printf("%s without arguments shows the models on this machine, and the next command.\n",
               program());
}

static int demo(const char *model)
{
    const char *path = model ? model : cli_shipped_model();
    if (!path)
        return CLI_USAGE;
    cli_catch_interrupts();
    int status = tell_story(model);
    if (status == CLI_OK)
        status = tell_story_in_few_bits(model, path);
    if (status == CLI_OK)
        status = show_same_bits(model, path);
    if (status == CLI_OK)
        status = write_json(model);
    if (status == CLI_OK)
        print_end();
    return status;
}

const struct cli_command command_demo = {
    .name = "demo",
    .operand = "[MODEL]",
    .summary = "a tour in a minute, with the model that ships",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {"Machine", cli_thread_option_list},
            {0},
        },
    .notes = "Tells a story; tells it again with a KV cache of 1.5 bits; compares hashes of the "
             "logits on every instruction set of this machine, with one thread and with all; and "
             "writes JSON by a schema. Each part prints the command that does the same alone. The "
             "texts and the hash are the same on every machine.\n"
             "\n"
             "Without MODEL, the model is stories2M, which ships with the program.\n",
    .examples = "tuffet demo -t 1\n"
                "tuffet demo model.gguf\n",
    .run = demo,
};
