/*
 * tuffet eval: zero-shot accuracy.
 *
 * Of the answers to a question, the model chooses the most likely: the one with the largest sum of
 * ln p over its tokens (acc), or with the largest sum divided by the characters of the answer
 * (acc_norm). In lambada, the model has to write the last word of a passage: each token of the word
 * must be its greedy choice.
 *
 * Questions are asked (task.h) and scored as in lm-evaluation-harness, with two exceptions. An item
 * longer than the context keeps BOS when it is cut. And if the tokens of context and answer
 * together do not begin with the context's own tokens, every token from the first difference on is
 * scored; the harness would leave out a part of the answer.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/eval/scorer.h"
#include "tools/eval/task.h"

static struct {
    const char *file;
    int task;
    uint32_t n_items;
    bool json;
} opt = {.task = -1};

static const struct cli_option options[] = {
    {0, "task", CLI_WORD, &opt.task, TASK_WORDS, "task of the questions"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE",
     "questions, one JSON object a line; - is standard input"},
    {'n', "items", CLI_COUNT, &opt.n_items, "N", "ask the first N questions (default all)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object: task, acc, acc_stderr, acc_norm and acc_norm_stderr or ppl, items, "
     "cut, seconds"},
    {0},
};

/* Answers are short: logits of more tokens would cost time and not be used. */
enum { N_LOGITS = 32 };

/* ------------------------------------------------------------------------------------ questions */

struct lines {
    const char *next, *end;
    size_t number; /* of the last line that was read, from 1 */
};

/* Reads the next item: 1; 0 at the end; -1 after an error message. */
static int next_item(struct lines *l, struct task_item *item)
{
    char why[TASK_WHY];
    task_free(item);
    while (l->next < l->end) {
        const char *line = l->next, *newline = memchr(line, '\n', (size_t)(l->end - line)),
                   *end = newline ? newline : l->end;
        l->next = newline ? newline + 1 : l->end;
        l->number++;
        if (strspn(line, " \t\r") >= (size_t)(end - line))
            continue; /* an empty line */
        if (task_read((enum task)opt.task, line, (size_t)(end - line), item, why))
            return 1;
        cli_fail("%s: line %zu: %s", opt.file, l->number, why);
        return -1;
    }
    return 0;
}

/* Counts the items. Reads all of them, so that an error in the file shows before the work. */
static int count_items(struct lines l, size_t *n)
{
    struct task_item item = {0};
    int found = 1;
    for (*n = 0; (!opt.n_items || *n < opt.n_items) && (found = next_item(&l, &item)) == 1;)
        ++*n;
    task_free(&item);
    if (found < 0)
        return CLI_FAILED;
    return *n ? CLI_OK : cli_fail("%s: the file has no questions", opt.file);
}

/* -------------------------------------------------------------------------------------- answers */

struct evaluation {
    struct scorer z;
    struct lines l;
    struct task_item item;
    size_t n, right, right_norm, cut; /* items: answered, right, right by acc_norm, cut to fit */
    double nll;                       /* sum over the right answers */
};

/* The tokens of an option, which the caller frees. *first: the index of the first token that is
   scored. */
static int32_t *tokens_of(const struct evaluation *e, const struct task_option *o, size_t *n,
                          size_t *first)
{
    size_t n_context, same = 0;
    int32_t *context = scorer_tokenize(&e->z, o->text.p, o->context, false, &n_context);
    int32_t *ids = context ? scorer_tokenize(&e->z, o->text.p, o->text.n, false, n) : NULL;
    while (ids && same < n_context && same + 1 < *n && ids[same] == context[same])
        same++;
    *first = same ? same : 1; /* no token predicts the first one */
    free(context);
    return ids;
}

/* Removes the tokens after BOS that do not fit in the context. Returns whether there were any. */
static bool cut(const struct scorer *z, int32_t *ids, size_t *n, size_t *first)
{
    /* the last token is only predicted */
    size_t room = (size_t)z->ctx + 1, over = *n > room ? *n - room : 0;
    if (!over)
        return false;
    memmove(ids + z->bos, ids + z->bos + over, (room - z->bos) * sizeof *ids);
    *n = room;
    *first = *first > over + 1 ? *first - over : 1;
    return true;
}

static int score_option(struct evaluation *e, const struct task_option *o, struct score *score,
                        bool *was_cut)
{
    size_t n, first;
    int32_t *ids = tokens_of(e, o, &n, &first);
    if (!ids)
        return CLI_FAILED;
    *was_cut |= cut(&e->z, ids, &n, &first);
    *score = (struct score){0};
    enum tft_status status = scorer_add(&e->z, ids, n, first, score);
    free(ids);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (status != TFT_OK)
        return cli_fail_session(e->z.s);
    if (!score->n)
        return cli_fail("%s: line %zu: the model gives an answer no probability", opt.file,
                        e->l.number);
    return CLI_OK;
}

static int answer(struct evaluation *e)
{
    const struct task_option *option = e->item.option;
    struct score score[TASK_OPTIONS];
    size_t best = 0, best_norm = 0;
    bool was_cut = false;
    for (size_t i = 0; i < e->item.n; i++) {
        int status = score_option(e, &option[i], &score[i], &was_cut);
        if (status != CLI_OK)
            return status;
        if (score[i].nll < score[best].nll)
            best = i;
        if (score[i].nll / (double)option[i].length <
            score[best_norm].nll / (double)option[best_norm].length)
            best_norm = i;
    }
    e->right += opt.task == TASK_LAMBADA ? score[0].greedy == score[0].n : best == e->item.right;
    e->right_norm += best_norm == e->item.right;
    e->nll += score[e->item.right].nll;
    e->cut += was_cut;
    e->n++;
    return CLI_OK;
}

static int answer_all(struct evaluation *e)
{
    struct cli_progress progress;
    size_t n = 0;
    int status = count_items(e->l, &n);
    cli_progress_begin(&progress, "answering");
    while (status == CLI_OK && e->n < n) {
        status = next_item(&e->l, &e->item) == 1 ? answer(e) : CLI_FAILED;
        cli_progress_at(&progress, (double)e->n / (double)n);
    }
    cli_progress_end(&progress);
    return status;
}

/* --------------------------------------------------------------------------------------- report */

static double share(size_t part, size_t n)
{
    return (double)part / (double)n;
}

/* The standard error of the mean of n zeros and ones, from the variance of the sample. NaN for
   n = 1. */
static double standard_error(double mean, size_t n)
{
    return sqrt(mean * (1 - mean) / (double)(n - 1));
}

static void report_json(const struct evaluation *e, double seconds)
{
    double acc = share(e->right, e->n), acc_norm = share(e->right_norm, e->n);
    printf("{\"task\":\"%s\"", task_name((enum task)opt.task));
    cli_json_number("acc", acc);
    cli_json_number("acc_stderr", standard_error(acc, e->n));
    if (task_normalized((enum task)opt.task)) {
        cli_json_number("acc_norm", acc_norm);
        cli_json_number("acc_norm_stderr", standard_error(acc_norm, e->n));
    }
    if (opt.task == TASK_LAMBADA)
        cli_json_number("ppl", exp(e->nll / (double)e->n));
    printf(",\"items\":%zu,\"cut\":%zu,\"seconds\":%.3f}\n", e->n, e->cut, seconds);
}

static void print_accuracy(const char *what, double acc, size_t n)
{
    printf("%s %.2f %%", what, 100 * acc);
    if (n > 1)
        printf(" (standard error %.2f)", 100 * standard_error(acc, n));
}

static void report(const struct evaluation *e, double seconds)
{
    printf("%s: ", task_name((enum task)opt.task));
    print_accuracy("accuracy", share(e->right, e->n), e->n);
    if (task_normalized((enum task)opt.task))
        print_accuracy(", by length", share(e->right_norm, e->n), e->n);
    if (opt.task == TASK_LAMBADA)
        printf(", perplexity of the last word %.4f", exp(e->nll / (double)e->n));
    printf(" over %zu items", e->n);
    if (e->cut)
        printf(", %zu of them cut to fit", e->cut);
    printf(", %.1f items/s\n", (double)e->n / seconds);
}

static int eval(const char *path)
{
    struct tft_model *m = NULL;
    struct evaluation e = {0};
    size_t len;
    if (opt.task < 0)
        return cli_usage("there is no task: give one with --task " TASK_WORDS);
    if (!opt.file)
        return cli_usage("there are no questions: give them with -f FILE");

    char *text = cli_read(opt.file, &len);
    int status = text ? cli_open_model(&m, path, false) : CLI_FAILED;
    if (status == CLI_OK)
        status = scorer_open(&e.z, m, N_LOGITS);
    cli_catch_interrupts();
    if (status == CLI_OK) {
        e.l = (struct lines){text, text + len, 0};
        uint64_t start = cli_ns();
        status = answer_all(&e);
        double seconds = (double)(cli_ns() - start) / 1e9;
        if (status == CLI_OK && opt.json)
            report_json(&e, seconds);
        else if (status == CLI_OK)
            report(&e, seconds);
    }
    task_free(&e.item);
    free(text);
    scorer_close(&e.z);
    tft_model_close(m);
    return status;
}

const struct cli_command command_eval = {
    .name = "eval",
    .operand = "MODEL",
    .summary = "measure zero-shot accuracy on a task",
    .groups =
        (const struct cli_option_group[]){
            {"Task and output", options},
            {"Context", cli_session_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes = "Each line of FILE is a JSON object with these members, where gold and label are the "
             "index of the right answer:\n"
             "\n"
             "  lambada                 text; the model predicts its last word\n"
             "  piqa, openbookqa, copa  query, choices, gold\n"
             "  winogrande              context_options, continuation, gold\n"
             "  hellaswag               activity_label, ctx_a and ctx_b (or ctx), endings,\n"
             "                          label\n",
    .examples = "tuffet eval model.gguf --task lambada -f lambada_test.jsonl\n"
                "tuffet eval model.gguf --task hellaswag -f hellaswag_val.jsonl -n 1000\n"
                "tuffet eval model.gguf --task piqa -f piqa.jsonl --kv tuffet --json\n",
    .run = eval,
};
