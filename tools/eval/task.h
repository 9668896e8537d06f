/*
 * The questions of zero-shot tasks, from JSON Lines to the texts that a model is asked about. These
 * are, byte for byte, the ones that EleutherAI's lm-evaluation-harness makes (lm_eval/tasks, August
 * 2026), so that figures can be set side by side.
 */
#ifndef TASK_H
#define TASK_H

#include "tools/cli/cli.h"

enum task { TASK_LAMBADA, TASK_PIQA, TASK_WINOGRANDE, TASK_OPENBOOKQA, TASK_COPA, TASK_HELLASWAG };
#define TASK_WORDS "lambada|piqa|winogrande|openbookqa|copa|hellaswag"

enum { TASK_OPTIONS = 16 }; /* most answers to a question; the tasks above have 2 or 4 */

struct task_option {
    struct cli_text text; /* a context, and how it goes on */
    size_t context;       /* bytes of the context, at least 1 and not all */
    size_t length;        /* characters of the answer, for acc_norm */
};

struct task_item { /* starts from all zero */
    struct task_option option[TASK_OPTIONS];
    size_t n, right; /* of lambada there is one option, and it is right if the model would write
                        just that */
};

/* Reads a line. Otherwise false, and why: one line, what is wrong where. */
enum { TASK_WHY = 160 };
bool task_read(enum task task, const char *line, size_t len, struct task_item *item,
               char why[TASK_WHY]);

/* Frees an item, also one that was not read to its end, and makes it all zero. */
void task_free(struct task_item *item);

const char *task_name(enum task task);

/* Whether the field also reports accuracy with log-likelihoods divided by the length of the
   answer. */
bool task_normalized(enum task task);

#endif
