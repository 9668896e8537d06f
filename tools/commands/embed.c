/* tuffet embed: a vector for each line of a text. */
#include <errno.h>
#include <string.h>

#include "base/new_file.h"
#include "tools/commands/commands.h"
#include "tools/embed/npy.h"
#include "tools/embed/work.h"
#include "tools/pull/operand.h"

static struct cli_texts operands;
static struct {
    const char *output, *prompt;
    uint32_t ctx, n_dims;
    int pooling;
    bool json_lines, truncate, raw;
} opt;

static const struct cli_option options[] = {
    {'o', "output", CLI_TEXT, &opt.output, "FILE",
     "write the vectors to FILE, whose name ends in .npy: float32, a row for each text"},
    {0, "json-lines", CLI_FLAG, &opt.json_lines, NULL,
     "read each line as a string of JSON, in which a text may have several lines"},
    {0, "prompt-name", CLI_TEXT, &opt.prompt, "NAME",
     "put the prompt NAME of MODEL before each text: query or document, of most models"},
    {'c', "ctx", CLI_COUNT, &opt.ctx, "N",
     "take texts of up to N tokens (default the context of the model, at most 2048)"},
    {0, "truncate", CLI_FLAG, &opt.truncate, NULL,
     "cut texts that are too long (default an error that names the line)"},
    {0, "pooling", CLI_WORD, &opt.pooling, "model|mean|last|cls",
     "make a vector of a text as MODEL says, or of the mean, the last or the first token"},
    {0, "dims", CLI_COUNT, &opt.n_dims, "N",
     "keep the first N numbers of a vector, of a model that was trained for it (default all)"},
    {0, "raw", CLI_FLAG, &opt.raw, NULL, "do not bring vectors to length 1"},
    {0},
};

/* ---- output */

struct sink {
    uint32_t width;
    struct tft_new_file *file; /* NULL: lines of JSON on standard output */
};

static int put_lines(const struct sink *s, size_t first, size_t n, const float *v)
{
    for (size_t i = 0; i < n; i++) {
        printf("{\"index\":%zu,\"embedding\":[", first + i);
        for (uint32_t k = 0; k < s->width; k++)
            printf(k ? ",%.9g" : "%.9g", (double)v[i * s->width + k]);
        puts("]}");
    }
    return fflush(stdout) == 0 ? CLI_OK : cli_fail("standard output: %s", strerror(errno));
}

static int put(void *user, size_t first, size_t n, const float *v)
{
    const struct sink *s = user;
    if (!s->file)
        return put_lines(s, first, n, v);
    return npy_floats(s->file->file, v, n * s->width)
               ? CLI_OK
               : cli_fail("%s: %s", opt.output, strerror(errno));
}

static int write_npy(struct work *w, struct sink *s)
{
    struct tft_error err;
    if (tft_new_file_create(&s->file, opt.output, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    int status = npy_begin(s->file->file, w->n, s->width)
                     ? work_do(w, "embedding", put, s)
                     : cli_fail("%s: %s", opt.output, strerror(errno));
    if (tft_new_file_end(s->file, status == CLI_OK, &err) != TFT_OK && status == CLI_OK)
        status = cli_fail("%s", err.msg);
    return status;
}

/* ---- the command */

static int find_prompt(const struct tft_model *m, struct cli_text *prompt)
{
    if (!opt.prompt)
        return CLI_OK;
    const char *p = tft_model_prompt(m, opt.prompt, &prompt->n);
    prompt->p = (char *)p;
    return p ? CLI_OK : cli_fail("the model's file has no prompt \"%s\"", opt.prompt);
}

static int embed_lines(const struct lines *l, const char *model)
{
    static const enum tft_pooling pooling[] = {TFT_POOLING_NONE, TFT_POOLING_MEAN, TFT_POOLING_LAST,
                                               TFT_POOLING_CLS};
    struct tft_embedder_opts o = {
        .pooling = pooling[opt.pooling], .raw = opt.raw, .n_dims = opt.n_dims, .max_text = opt.ctx};
    struct work w;
    struct cli_text prompt = {0};
    int status = work_open(&w, model, o, false);
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = find_prompt(w.m, &prompt);
    if (status == CLI_OK)
        status = work_read(&w, l, prompt, NULL, opt.truncate);
    struct sink s = {.width = w.info.width};
    if (status == CLI_OK)
        status = opt.output ? write_npy(&w, &s) : work_do(&w, "embedding", put, &s);
    work_close(&w);
    return status;
}

static int embed(const char *model)
{
    struct lines l = {0};
    size_t n = opt.output ? strlen(opt.output) : 0;
    const char *file = operands.n > 1 ? operands.p[1] : NULL;
    if (operands.n > 2)
        return cli_usage("\"%s\" is one argument too many", operands.p[2]);
    if (opt.output && (n < 4 || strcmp(opt.output + n - 4, ".npy") != 0))
        return cli_usage("--output must be a name that ends in .npy, not \"%s\"", opt.output);
    int status = opt.output ? cli_check_output(opt.output, file) : CLI_OK;
    if (status == CLI_OK)
        status = pull_operand(&model);
    if (status == CLI_OK && opt.output)
        status = cli_check_output(opt.output, model);
    if (status == CLI_OK)
        status = lines_read(&l, file, opt.json_lines);
    if (status == CLI_OK)
        status = embed_lines(&l, model);
    lines_free(&l);
    return status;
}

const struct cli_command command_embed = {
    .name = "embed",
    .operand = "MODEL [FILE]",
    .summary = "make vectors of texts, for search",
    .groups =
        (const struct cli_option_group[]){
            {"Texts and vectors", options},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .first = (const char *const[]){"output", "json-lines", "prompt-name", "truncate", "raw",
                                   "pooling", NULL},
    .notes = "Each line of FILE, or of standard input, is a text. Prints a line of JSON for each: "
             "its number from 0 on, and its vector. Vectors have length 1, so the cosine of two "
             "texts is the sum of the products of their numbers.\n"
             "\n"
             "MODEL is an encoder, such as MiniLM or bge, or a model that writes text.\n",
    .examples = "tuffet embed minilm.gguf texts.txt > vectors.jsonl\n"
                "tuffet embed minilm.gguf texts.txt -o vectors.npy\n"
                "tuffet embed bge.gguf --json-lines --truncate passages.jsonl -o passages.npy\n"
                "echo \"a question\" | tuffet embed model.gguf --prompt-name query\n",
    .run = embed,
    .operands = &operands,
};
