/*
 * tuffet eval: zero-shot accuracy. Of the answers to a question a model chooses the likeliest: the
 * one with the largest sum of ln p over its tokens (acc), or with the largest after division by the
 * answer's characters (acc_norm). Of lambada's passages it has to write the last word, each of
 * whose tokens must be its greedy choice. Questions are put as lm-evaluation-harness puts them
 * (task.h), and scored as it does, but for two things. An item longer than the context keeps BOS
 * when it is cut. And where the tokens of the whole do not begin with those of the context alone,
 * the ones from where they part are scored; the harness would leave some of the answer out.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/eval/scorer.h"
#include "tools/eval/task.h"

static struct {
    const char *file;
    int task;
    uint32_t items;
    bool json;
} opt = {.task = -1};

static const struct cli_option options[] = {
    {0, "task", CLI_WORD, &opt.task, TASK_WORDS, "what is asked"},
    {'f', "file", CLI_TEXT, &opt.file, "FILE",
     "the questions, one JSON object a line; - for standard input"},
    {'n', "items", CLI_COUNT, &opt.items, "N", "only the first N of them"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "one JSON object: acc, acc_stderr, items, cut; acc_norm or ppl"},
    {0},
};

static const struct cli_command command = {
    "eval",
    "MODEL",
    "zero-shot accuracy in a task",
    (const struct cli_option *const[]){options, cli_session_option_list, cli_thread_option_list,
                                       cli_model_option_list, NULL},
    "A line of FILE has, by task:\n"
    "  lambada                 \"text\", whose last word is to be predicted\n"
    "  piqa, openbookqa, copa  \"query\", \"choices\", \"gold\": the index of the right one\n"
    "  winogrande              \"context_options\", \"continuation\", \"gold\"\n"
    "  hellaswag               \"activity_label\", \"ctx_a\", \"ctx_b\" (or \"ctx\"), \"endings\", "
    "\"label\"\n\n"
    "  tuffet eval model.gguf --task lambada -f lambada_test.jsonl\n"
    "  tuffet eval model.gguf --task hellaswag -f hellaswag_val.jsonl -n 1000 --json\n",
};

enum { N_LOGITS = 32 }; /* answers are short, and logits of tokens that are not scored are for
                           nothing */

/* ------------------------------------------------------------------------------------ questions */

struct lines {
    const char *at, *end;
    size_t number;
};

/* The next item that is asked for: 1; 0 at the end; -1 after an error line. */
static int next_item(struct lines *l, struct task_item *item)
{
    char why[TASK_WHY];
    task_free(item);
    while (l->at < l->end) {
        const char *line = l->at, *newline = memchr(line, '\n', (size_t)(l->end - line)),
                   *end = newline ? newline : l->end;
        l->at = newline ? newline + 1 : l->end;
        l->number++;
        if (strspn(line, " \t\r") >= (size_t)(end - line))
            continue; /* an empty line is none */
        if (task_read((enum task)opt.task, line, (size_t)(end - line), item, why))
            return 1;
        cli_fail("%s: line %zu: %s", opt.file, l->number, why);
        return -1;
    }
    return 0;
}

/* Reads all of them, so that what is wrong is said at once, and counts them. */
static int count_items(struct lines l, size_t *n)
{
    struct task_item item = {0};
    int found = 1;
    for (*n = 0; (!opt.items || *n < opt.items) && (found = next_item(&l, &item)) == 1;)
        ++*n;
    task_free(&item);
    if (found < 0)
        return CLI_FAILED;
    return *n ? CLI_OK : cli_fail("%s: there are no questions in it", opt.file);
}

/* -------------------------------------------------------------------------------------- answers */

struct evaluation {
    struct scorer z;
    struct lines l;
    struct task_item item;
    size_t n, right, right_norm, cut; /* items: done, right, right by acc_norm, cut to fit */
    double nll;                       /* summed, of right answers */
};

/* An option's tokens, and how many come before those to be scored. */
static int32_t *tokens_of(const struct evaluation *e, const struct task_option *o, size_t *n,
                          size_t *first)
{
    size_t n_context, same = 0;
    int32_t *context = scorer_tokenize(&e->z, o->text.p, o->context, &n_context);
    int32_t *ids = context ? scorer_tokenize(&e->z, o->text.p, o->text.n, n) : NULL;
    while (ids && same < n_context && same + 1 < *n && ids[same] == context[same])
        same++;
    *first = same ? same : 1; /* nothing predicts a first token that is not BOS */
    free(context);
    return ids;
}

/* Takes what does not fit away, after BOS. */
static bool cut(const struct scorer *z, int32_t *ids, size_t *n, size_t *first)
{
    /* the last one is only predicted */
    size_t room = (size_t)z->ctx + 1, over = *n > room ? *n - room : 0;
    if (!over)
        return false;
    memmove(ids + z->bos, ids + z->bos + over, (room - z->bos) * sizeof *ids);
    *n = room;
    *first = *first > over + 1 ? *first - over : 1;
    return true;
}

static int score_option(struct evaluation *e, const struct task_option *o, struct score *found,
                        bool *was_cut)
{
    size_t n, first;
    int32_t *ids = tokens_of(e, o, &n, &first);
    if (!ids)
        return CLI_FAILED;
    *was_cut |= cut(&e->z, ids, &n, &first);
    *found = (struct score){0};
    enum tft_status status = scorer_add(&e->z, ids, n, first, found);
    free(ids);
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    if (status != TFT_OK)
        return cli_fail("%s", tft_status_text(status));
    if (!found->n || !isfinite(found->nll))
        return cli_fail("%s: line %zu: the model gives it no probability", opt.file, e->l.number);
    return CLI_OK;
}

static int answer(struct evaluation *e)
{
    const struct task_option *option = e->item.option;
    struct score of[TASK_OPTIONS];
    size_t best = 0, best_norm = 0;
    bool was_cut = false;
    for (size_t i = 0; i < e->item.n; i++) {
        int status = score_option(e, &option[i], &of[i], &was_cut);
        if (status != CLI_OK)
            return status;
        if (of[i].nll < of[best].nll)
            best = i;
        if (of[i].nll / (double)option[i].length <
            of[best_norm].nll / (double)option[best_norm].length)
            best_norm = i;
    }
    e->right += opt.task == TASK_LAMBADA ? of[0].greedy == of[0].n : best == e->item.right;
    e->right_norm += best_norm == e->item.right;
    e->nll += of[e->item.right].nll;
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

/* Of a mean of n zeros and ones, from the variance of the sample: of one item there is none. */
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

int cmd_eval(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct evaluation e = {0};
    size_t len;
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (opt.task < 0)
        return cli_usage("a task is missing: --task " TASK_WORDS);
    if (!opt.file)
        return cli_usage("questions are missing: -f FILE");

    char *text = cli_read(opt.file, &len);
    status = text ? cli_open_model(&m, path, false) : CLI_FAILED;
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
