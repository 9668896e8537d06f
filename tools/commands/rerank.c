/* tuffet rerank: how well each line of a text answers a query. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/embed/work.h"
#include "tools/pull/operand.h"

static struct cli_texts operands;
static struct {
    uint32_t ctx, top;
    bool json_lines, truncate, raw, json;
} opt;

static const struct cli_option options[] = {
    {0, "top", CLI_COUNT, &opt.top, "N", "print the best N texts (default all)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print a JSON object for each text: index, score and text"},
    {0, "json-lines", CLI_FLAG, &opt.json_lines, NULL,
     "read each line as a string of JSON, in which a text may have several lines"},
    {'c', "ctx", CLI_COUNT, &opt.ctx, "N",
     "take pairs of up to N tokens (default the context of the model, at most 2048)"},
    {0, "truncate", CLI_FLAG, &opt.truncate, NULL,
     "cut texts that are too long (default an error that names the line)"},
    {0, "raw", CLI_FLAG, &opt.raw, NULL,
     "print the scores as the model computes them, and not from 0 to 1"},
    {0},
};

struct scored {
    size_t index;
    float score;
};

static int put(void *user, size_t first, size_t n, const float *scores)
{
    struct scored *all = user;
    for (size_t i = 0; i < n; i++)
        all[first + i] = (struct scored){first + i, scores[i]};
    return CLI_OK;
}

/* The best first; of equal ones, the first. */
static int compare(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static void print(const struct scored *s, const struct cli_text *text)
{
    if (!opt.json) {
        printf("%.6f\t", (double)s->score);
        cli_put_escaped(stdout, text->p, text->n);
        putchar('\n');
        return;
    }
    printf("{\"index\":%zu,\"score\":%.9g,\"text\":", s->index, (double)s->score);
    cli_json_string(stdout, text->p, text->n);
    puts("}");
}

static int rank_lines(struct work *w, const struct lines *l, const char *query)
{
    const struct cli_text q = {.p = (char *)query, .n = strlen(query)};
    int status = work_read(w, l, (struct cli_text){0}, &q, opt.truncate);
    struct scored *all = status == CLI_OK ? calloc(l->n, sizeof *all) : NULL;
    if (status == CLI_OK && !all)
        status = cli_fail("out of memory");
    if (status == CLI_OK)
        status = work_do(w, "reranking", put, all);
    if (status == CLI_OK)
        qsort(all, l->n, sizeof *all, compare);
    for (size_t i = 0; status == CLI_OK && i < l->n && (!opt.top || i < opt.top); i++)
        print(&all[i], &l->text[all[i].index]);
    free(all);
    return status;
}

static int rerank(const char *model)
{
    struct tft_embedder_opts o = {.max_text = opt.ctx, .raw = opt.raw};
    struct lines l = {0};
    struct work w = {0};
    if (operands.n < 2)
        return cli_usage("QUERY is missing");
    if (operands.n > 3)
        return cli_usage("\"%s\" is one argument too many", operands.p[3]);
    int status = pull_operand(&model);
    if (status == CLI_OK)
        status = lines_read(&l, operands.n > 2 ? operands.p[2] : NULL, opt.json_lines);
    if (status == CLI_OK)
        status = work_open(&w, model, o, true);
    cli_catch_interrupts();
    if (status == CLI_OK)
        status = rank_lines(&w, &l, operands.p[1]);
    work_close(&w);
    lines_free(&l);
    return status;
}

const struct cli_command command_rerank = {
    .name = "rerank",
    .operand = "MODEL QUERY [FILE]",
    .summary = "sort texts by how well they answer a query",
    .groups =
        (const struct cli_option_group[]){
            {"Texts and scores", options},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .first = (const char *const[]){"top", "json", "json-lines", "truncate", "raw", "ctx", NULL},
    .notes =
        "MODEL is a reranker, such as bge-reranker or Qwen3-Reranker. Each line of FILE, or of "
        "standard input, is a text. Prints the texts, the best first, after their scores from "
        "0 to 1.\n",
    .examples = "tuffet rerank reranker.gguf \"How do I bleed a radiator?\" passages.txt --top 5\n"
                "tuffet rerank reranker.gguf \"a query\" --json-lines --json < passages.jsonl\n",
    .run = rerank,
    .operands = &operands,
};
