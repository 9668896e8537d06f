/*
 * Reads the questions of zero-shot tasks: from JSON Lines to the texts that a model scores. The
 * texts have the same bytes as in EleutherAI's lm-evaluation-harness (lm_eval/tasks, August 2026),
 * so that results can be compared.
 */
#ifndef TASK_H
#define TASK_H

#include "tools/cli/cli.h"

enum task { TASK_LAMBADA, TASK_PIQA, TASK_WINOGRANDE, TASK_OPENBOOKQA, TASK_COPA, TASK_HELLASWAG };
#define TASK_WORDS "lambada|piqa|winogrande|openbookqa|copa|hellaswag"

enum { TASK_OPTIONS = 16 }; /* the most answers that a question may have; usual are 2 and 4 */

/* One answer to a question. */
struct task_option {
    struct cli_text text; /* the context, and its continuation */
    size_t context;       /* bytes of the context: at least 1, and less than the whole text */
    size_t length;        /* characters of the answer, for acc_norm */
};

/* One question. Starts from all zero. lambada has one option, which counts as right if the model
   would write it. */
struct task_item {
    struct task_option option[TASK_OPTIONS];
    size_t n, right; /* the number of options, and the index of the right one */
};

/* Reads one line of a file. Returns false if the line is wrong; the error is in `why`. */
enum { TASK_WHY = 160 };
bool task_read(enum task task, const char *line, size_t len, struct task_item *item,
               char why[TASK_WHY]);

/* Frees an item, even if reading it failed, and makes it all zero. */
void task_free(struct task_item *item);

const char *task_name(enum task task);

/* Whether acc_norm is usual for the task: accuracy with ln p divided by the answer's length. */
bool task_normalized(enum task task);

#endif
